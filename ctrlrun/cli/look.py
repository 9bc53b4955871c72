"""approvals, effects, inspect: what there is, read page by page, as lines or JSON."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import click

from ctrlrun.approval import ApprovalStatus
from ctrlrun.cli.inspecting import inspection_lines
from ctrlrun.cli.lines import approval_fields, effect_fields
from ctrlrun.cli.listing import Listing, print_list
from ctrlrun.cli.options import json_option, reading_desk, store_option, text
from ctrlrun.cli.output import Output, note
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import (
    ReadingDesk,
    held_effect_document,
    inspection_for,
    request_document,
    unanswered_count,
)
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


@click.command(short_help="Show all that is known of one action.")
@click.argument("action_id", callback=text)
@store_option
@click.option("--json", "as_json", is_flag=True, help="The same as one JSON document.")
def inspect(action_id: str, store_url: str | None, as_json: bool) -> None:
    """Show ACTION_ID whole: who asked for what, the decision, approvals, the effect, every event."""
    desk = reading_desk(store_url)
    with closing(desk.reader()) as reader:
        document = inspection_for(reader, action_id, clock=desk.clock)
        if document is None:
            known = f"no event or receipt of an action {action_id!r} is known"
            raise InvalidArgument(known + _whose(reader, action_id))
        out = Output()
        if as_json:
            out.json(document, indent=2)
        else:
            for line in inspection_lines(out, document, reader, desk.clock()):
                out.say(line)


def _whose(reader: PagedReader, other_id: str) -> str:
    """What else an id is that was taken for an action's, and which command shows what is meant."""
    request = reader.get_approval(other_id)
    if request is not None:
        return f"; it is a request, see {_inspect(request.request.action.action_id)}"
    effect = reader.get_effect(other_id)
    if effect is not None:
        if inspection_for(reader, effect.action_id) is None:
            return "; it is an effect's key, and `ctrlrun effects` shows where it stands"
        return f"; it is an effect's key, see {_inspect(effect.action_id)}"
    if other_id.startswith("ctr_"):
        return "; ctr_ is a receipt's, whose action_id `ctrlrun receipts --json` shows"
    if other_id.startswith("dlg_"):
        return "; dlg_ is a delegation's, and `ctrlrun delegations` shows those there are"
    return ""


def _inspect(action_id: str) -> str:
    """The command that shows an action."""
    return f"`{shlex.join(('ctrlrun', 'inspect', action_id))}`"
