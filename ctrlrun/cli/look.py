"""approvals, effects, inspect: what there is, read page by page, as lines or JSON."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import click

from ctrlrun.approval import ApprovalStatus
from ctrlrun.authority import NO_AUTHORITY
from ctrlrun.cli.inspecting import inspection_lines
from ctrlrun.cli.lines import approval_fields, effect_fields
from ctrlrun.cli.listing import Listing, print_list
from ctrlrun.cli.options import json_option, reading_desk, store_option, text
from ctrlrun.cli.output import Output, note
from ctrlrun.cli.policy_loading import authority_option
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import (
    ReadingDesk,
    held_effect_document,
    read_authority,
    read_policy,
    request_document,
    unanswered_count,
    uncovered_text,
)
from ctrlrun.operator.inspect import find_inspection, record_document
from ctrlrun.operator.wording import json_text
from ctrlrun.receipt import Receipt
from ctrlrun.state import Page, PagedReader

_LAPSED = "lapsed"
"""A state by the clock, which no record has: reserved or executing, and its lease is over."""


@click.command(short_help="List the requests that wait for an answer.")
@store_option
@click.option("--pending", is_flag=True, help="Those that can be answered now (the default).")
@click.option("--all", "everything", is_flag=True, help="Every request, answered or not.")
@json_option
def approvals(store_url: str | None, pending: bool, everything: bool, as_json: bool) -> None:
    """List requests, oldest first: id, status, action, agent, and until when it holds.

    The status is by the clock: one that nobody answered in time reads expired. How many did so in
    the last day is said on standard error.
    """
    if pending and everything:
        raise click.UsageError("say --pending or --all, not both")
    desk = reading_desk(store_url)
    now = desk.clock()
    waiting: dict[str, Any] = (
        {} if everything else {"status": ApprovalStatus.PENDING, "live_at": now}
    )
    listing = Listing(
        page=lambda reader: partial(reader.approvals_page, **waiting),
        document=request_document,
        fields=lambda record: approval_fields(record, now),
        nothing="no approvals yet" if everything else "no approvals are pending",
    )
    print_list(listing, desk, as_json=as_json)
    with closing(desk.reader()) as reader:
        count, more = unanswered_count(reader, now)
    if count:
        least = "at least " if more else ""
        which = "request" if count == 1 else "requests"
        note(f"{least}{count} {which} lapsed unanswered in the last day")


@click.command(short_help="List effects and where they stand.")
@store_option
@click.option(
    "--state",
    type=click.Choice([*(state.value for state in EffectState), _LAPSED]),
    help="Only those in this state; lapsed: reserved or executing, the lease over, no outcome.",
)
@json_option
def effects(store_url: str | None, state: str | None, as_json: bool) -> None:
    """List effects, oldest first: key, state, attempt, the action that holds it, last change.

    What needs somebody is --state ambiguous and --state lapsed; both can be resolved.
    """
    desk = reading_desk(store_url)
    now = desk.clock()
    wanted: dict[str, Any] = {}
    if state is not None:
        wanted = {"lapsed_at": now} if state == _LAPSED else {"state": EffectState(state)}
    listing = Listing(
        page=lambda reader: partial(_effects_page, reader, **wanted),
        document=lambda found: held_effect_document(found.reader, found.record, now),
        fields=lambda found: effect_fields(found.record, now),
        nothing="no effects yet" if state is None else f"no effects are {state}",
    )
    print_list(listing, desk, as_json=as_json)
    if state != _LAPSED:
        _note_lapsed(desk, now)


def _note_lapsed(desk: ReadingDesk, now: datetime) -> None:
    """Say how many attempts left no outcome: like an AMBIGUOUS effect, each needs somebody."""
    with closing(desk.reader()) as reader:
        count = reader.effects_count(lapsed_at=now)
    if count:
        which = "effect has" if count == 1 else "effects have"
        note(f"{count} {which} a lapsed lease and no outcome: ctrlrun effects --state lapsed")


@dataclass(frozen=True, slots=True)
class _Found:
    """An effect, and the reader that can tell who holds it."""

    reader: PagedReader
    record: EffectRecord


def _effects_page(reader: PagedReader, **where: Any) -> Page[_Found]:
    page = reader.effects_page(**where)
    found = tuple(_Found(reader, record) for record in page.items)
    return Page(found, page.before, page.after, page.damaged)


@click.command(short_help="Show all that is known of an action, by any of its ids.")
@click.argument("some_id", metavar="ID", callback=text)
@store_option
@authority_option
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON document.")
def inspect(
    some_id: str, store_url: str | None, authority_file: Path | None, as_json: bool
) -> None:
    """Show the action of ID whole: who asked for what, the decision, approvals, the effect, every
    event.

    ID is an action's (act_), a request's (apr_), a receipt's (ctr_), or an effect's key: then it is
    the action that holds the effect. A delegation (dlg_) is shown as it is stored.
    """
    desk = reading_desk(store_url)
    with closing(desk.reader()) as reader:
        document = find_inspection(reader, some_id, clock=desk.clock)
        record = None
        if document is None:
            record = record_document(reader, some_id, clock=desk.clock)
        out = Output()
        if document is None and record is None:
            raise InvalidArgument(
                f"nothing is known of {some_id!r}: no action, request, receipt, effect or "
                "delegation has this id"
            )
        if as_json:
            out.json(document or record or {}, indent=2)
        elif document is not None:
            uncovered = _uncovered(reader, document, authority_file, desk.clock())
            for line in inspection_lines(out, document, reader, desk.clock(), uncovered):
                out.say(line)
        else:
            for name, value in (record or {}).items():
                out.say(f"{name}: {out.shown(json_text(value))}")


def _uncovered(
    reader: PagedReader, document: dict[str, Any], authority_file: Path | None, now: datetime
) -> str | None:
    """Why no grant covered the action, by the grants that are read now; None for any other end."""
    receipt = document["receipt"]
    if receipt is None or receipt["decision_reason"] != NO_AUTHORITY:
        return None
    grants = read_authority(read_policy(), authority_file)
    return uncovered_text(reader, Receipt.from_dict(receipt), grants, now)
