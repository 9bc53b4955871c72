"""What came in: how much waits now, and the sentences for the notice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from ctrlrun.effect import HELD_STATES, EffectState
from ctrlrun.operator import InboxCounts, Lane, inbox_counts, inbox_row, lane_page
from ctrlrun.operator.pages import PAGE
from ctrlrun.operator.wording import left_text
from ctrlrun.receipt import Event
from ctrlrun.receipt.events import EventType
from ctrlrun.state import PagedReader
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.glyphs import Glyphs


def count(reader: PagedReader, now: datetime) -> tuple[InboxCounts, datetime | None]:
    """What waits, and when time alone changes it next; in a worker thread."""
    counts = inbox_counts(reader, now)
    first = lane_page(reader, Lane.WAITING, now, limit=1).rows if counts.waiting else ()
    ends = [first[0].until] if first else []
    for state in sorted(HELD_STATES):
        # The newest ones: those before them have lapsed, or lapse after them.
        held = reader.effects_page(limit=PAGE, state=state, order="updated").items
        ends += [record.lease_expires_at for record in held if record.lease_is_live(now)]
    return counts, min((end for end in ends if end is not None), default=None)


def arrivals_line(
    reader: PagedReader, events: Sequence[Event], now: datetime, glyphs: Glyphs
) -> Line:
    """`new  email.send by ops-bot, 14:40 left`, for the newest of what now needs a human.

    Empty when nothing of it does; in a worker thread.
    """
    fresh = [event for event in events if event.type in _NEEDS_A_HUMAN]
    for event in reversed(fresh):
        text = _item(reader, event, now, glyphs)
        if text:
            others = f", and {len(fresh) - 1} more" if len(fresh) > 1 else ""
            return (Span("new  ", Role.NEEDS), Span(text + others))
    return ()


_NEEDS_A_HUMAN = (EventType.APPROVAL_REQUESTED, EventType.EXECUTION_AMBIGUOUS)


def _item(reader: PagedReader, event: Event, now: datetime, glyphs: Glyphs) -> str:
    asks = event.type == EventType.APPROVAL_REQUESTED
    lane = Lane.WAITING if asks else Lane.AMBIGUOUS
    item_id = event.approval_id if asks else event.effect_key
    row = inbox_row(reader, lane, item_id, now) if item_id else None
    if row is None:
        return "" if asks else _late_end(reader, event, glyphs)
    what = row.item_id
    if row.action is not None:
        what = f"{glyphs.said(row.action.name)} by {glyphs.said(row.action.principal.agent)}"
    else:
        what = glyphs.said(what)
    if asks:
        return f"{what}, {left_text(row.until, now)} left"
    return f"{what} is AMBIGUOUS"


def _late_end(reader: PagedReader, event: Event, glyphs: Glyphs) -> str:
    """An attempt that ended when its effect was settled already: its answer may have been wrong."""
    record = reader.get_effect(event.effect_key) if event.effect_key else None
    settled = (EffectState.COMMITTED, EffectState.FAILED)
    if record is None or record.state not in settled or event.ts <= record.updated_at:
        return ""
    key, state = glyphs.said(record.effect_key), record.state.value.upper()
    return f"{key} is {state}, and an attempt at it ended only now: see its timeline"


def skew_line(skew: timedelta) -> str:
    """How far the clock of an event that just arrived is off this one."""
    direction = "ahead of" if skew > timedelta(0) else "behind"
    return f"an agent's clock is {abs(skew.total_seconds()):.1f} s {direction} this one"


def skew_remark(skew: timedelta | None) -> Line:
    """The same in a few words, beside what arrived: one notice must not cover the other."""
    if skew is None:
        return ()
    direction = "ahead" if skew > timedelta(0) else "behind"
    text = f"  its clock is {abs(skew.total_seconds()):.1f} s {direction}"
    return (Span(text, Role.NEEDS),)
