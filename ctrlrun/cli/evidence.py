"""receipts, events: evidence as lines or JSON, page by page, followed live, or verified."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from ctrlrun.cli.lines import event_fields, receipt_fields
from ctrlrun.cli.listing import Listing, print_list
from ctrlrun.cli.options import json_option, reading_desk, store_option, text
from ctrlrun.cli.verifying import head_option, print_chain
from ctrlrun.clock import utc_now
from ctrlrun.errors import FilterError
from ctrlrun.operator.desk import ReadingDesk
from ctrlrun.operator.standing import is_answer
from ctrlrun.receipt import Event, EventType, Receipt

if TYPE_CHECKING:
    from ctrlrun.operator.filter import Filter

T = TypeVar("T")

last_option = click.option(
    "--last", type=click.IntRange(min=1), metavar="N", help="Only the last N of them."
)
follow_option = click.option(
    "--follow", "following", is_flag=True, help="Go on with new ones as they come, until Ctrl-C."
)
filter_option = click.option(
    "--filter",
    "filter_text",
    metavar="TEXT",
    callback=text,
    help="Words and field:value, as in the console: 'action:stripe.* -agent:bot since:2h'.",
)


@click.command(short_help="List receipts, or verify their chain.")
@store_option
@last_option
@click.option("--control", metavar="ID", callback=text, help="Only those that cite this control.")
@filter_option
@follow_option
@json_option
@click.option("--verify-chain", is_flag=True, help="Check every receipt; exit 1 unless intact.")
@click.option(
    "--expect-head",
    metavar="SEQ:HASH",
    callback=head_option,
    help="With --verify-chain: a head noted before, so that an erased end shows.",
)
@click.pass_context
def receipts(
    context: click.Context,
    store_url: str | None,
    last: int | None,
    control: str | None,
    filter_text: str | None,
    following: bool,
    as_json: bool,
    verify_chain: bool,
    expect_head: tuple[int, str] | None,
) -> None:
    """List receipts in the order of their chain: when it ended, id, action, decision/result,
    effect key, agent.

    With --follow and no --last only new ones are printed.
    """
    if expect_head is not None and not verify_chain:
        raise click.UsageError("--expect-head goes with --verify-chain")
    if verify_chain and following:
        raise click.UsageError("--verify-chain and --follow exclude each other")
    desk = reading_desk(store_url)
    if verify_chain:
        print_chain(context, desk, expect_head, as_json=as_json)
        return
    wanted = _parsed(filter_text, "receipts")
    listing = Listing(
        page=lambda reader: partial(reader.receipts_page, **_pushed(wanted, control=control)),
        keep=_keeps(wanted, control),
        fresh=lambda batch: batch.receipts,
        position=lambda receipt: receipt.seq,
        document=Receipt.to_dict,
        fields=receipt_fields,
        nothing=_no_receipts(wanted, control),
        columns=True,
    )
    _run(listing, desk, last, following=following, as_json=as_json)


@click.command(short_help="List events, or follow them.")
@store_option
@last_option
@filter_option
@follow_option
@json_option
def events(
    store_url: str | None,
    last: int | None,
    filter_text: str | None,
    following: bool,
    as_json: bool,
) -> None:
    """List events by id: id, time, type, action, effect key, and what else it says.

    With --follow and no --last only new ones are printed.
    """
    desk = reading_desk(store_url)
    wanted = _parsed(filter_text, "events")
    listing = Listing(
        page=lambda reader: partial(reader.events_page, **_pushed(wanted)),
        keep=None if wanted is None else wanted.matches,
        fresh=lambda batch: tuple(fresh.event for fresh in batch.events),
        position=lambda event: event.event_id,
        document=Event.to_dict,
        fields=_EventFields(desk),
        nothing="no events yet" if wanted is None else "no events match",
    )
    _run(listing, desk, last, following=following, as_json=as_json)


class _EventFields:
    """The fields of an event, with the word for a denied request that was only presented again."""

    def __init__(self, desk: ReadingDesk) -> None:
        self._desk = desk
        self._answers: dict[str, int | None] = {}  # the answer to each request that was denied

    def __call__(self, event: Event) -> tuple[str, ...]:
        fields = event_fields(event)
        return (*fields, "(presented again)") if self._is_presented(event) else fields

    def _is_presented(self, event: Event) -> bool:
        if event.type != EventType.APPROVAL_DENIED or event.approval_id is None:
            return False
        if event.approval_id in self._answers:
            return self._answers[event.approval_id] != event.event_id
        with closing(self._desk.reader()) as reader:
            found = is_answer(reader, event)
        if found:
            self._answers[event.approval_id] = event.event_id
        return not found


def _run(
    listing: Listing[T], desk: ReadingDesk, last: int | None, *, following: bool, as_json: bool
) -> None:
    if following:
        # Watching files costs a plain list nothing.
        from ctrlrun.cli.following import follow_list

        follow_list(listing, desk, last, as_json=as_json)
    else:
        print_list(listing, desk, last, as_json=as_json)


def _parsed(filter_text: str | None, kind: Literal["receipts", "events"]) -> Filter | None:
    if filter_text is None:
        return None
    from ctrlrun.operator.filter import RowKind, parse

    try:
        return parse(filter_text, RowKind(kind), now=utc_now())
    except FilterError as error:
        raise click.BadParameter(str(error), param_hint="--filter") from None


def _pushed(wanted: Filter | None, *, control: str | None = None) -> dict[str, Any]:
    """What the store can already leave out."""
    pushed = {} if wanted is None else wanted.page_filters()
    return pushed if control is None else pushed | {"control": control}


def _keeps(wanted: Filter | None, control: str | None) -> Callable[[Receipt], bool] | None:
    """Which receipts are printed; None for all of them."""
    if wanted is None and control is None:
        return None

    def keep(receipt: Receipt) -> bool:
        cited = control is None or control in receipt.controls
        return cited and (wanted is None or wanted.matches(receipt))

    return keep


def _no_receipts(wanted: Filter | None, control: str | None) -> str:
    if wanted is not None:
        return "no receipts match"
    return "no receipts yet" if control is None else f"no receipts cite '{control}'"
