"""How a history is laid out: receipts behind what they attest, silences, and the lost reply.

Pure: it arranges events and receipts that somebody else read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from ctrlrun.clock import parse_timestamp
from ctrlrun.effect import LEASE_EXPIRED, PROCESS_GONE, EffectRecord, EffectState
from ctrlrun.operator.wording import to_millisecond
from ctrlrun.receipt import Event, EventType, Receipt

SILENCE = timedelta(seconds=5)
"""Pauses from this length on are entries of their own."""

_STARTS = (EventType.EXECUTION_STARTED, EventType.EXECUTION_RESUMED)
_STOPS = (
    EventType.EXECUTION_COMMITTED,
    EventType.EXECUTION_FAILED,
    EventType.EXECUTION_AMBIGUOUS,
    EventType.EXECUTION_SUSPENDED,
)
_ENDINGS = (
    EventType.EXECUTION_COMMITTED,
    EventType.EXECUTION_FAILED,
    EventType.EXECUTION_AMBIGUOUS,
    EventType.EFFECT_RESERVATION_REFUSED,
    EventType.APPROVAL_INVALIDATED,
    EventType.ACTION_DENIED,
)
"""The events that end an attempt, each followed by its receipt."""


class EntryKind(StrEnum):
    """What an entry is."""

    EVENT = "event"
    RECEIPT = "receipt"
    SILENCE = "silence"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a history.

    A silence stands at the time at which it began, with its `length`; `waiting` says that a reply
    was being waited for, and `open_end` that it lasts. The point where a reply was lost has the
    event that says so, or none when a lease ran out in silence; `detail` says which it was.
    """

    kind: EntryKind
    at: datetime
    event: Event | None = None
    receipt: Receipt | None = None
    length: timedelta | None = None
    waiting: bool = False
    open_end: bool = False
    detail: str | None = None


def arranged(
    events: Sequence[Event],
    receipts: Sequence[Receipt],
    record: EffectRecord | None,
    now: datetime,
) -> tuple[Entry, ...]:
    """Events in their order, with what belongs between them.

    `record` is the effect as it stands: it tells whether an attempt without an outcome still runs.
    """
    lines = _with_receipts(events, receipts)
    lines = _with_lapses(lines, events, record, now)
    return tuple(_with_silences(lines, record, now))


# --- receipts ------------------------------------------------------------------------------------


def _with_receipts(events: Sequence[Event], receipts: Sequence[Receipt]) -> list[Entry]:
    behind: dict[int, list[Receipt]] = defaultdict(list)
    by_action: dict[str, list[Receipt]] = defaultdict(list)
    for receipt in receipts:
        by_action[receipt.action_id].append(receipt)
    for action_id, made in by_action.items():
        for place, receipt in _places(events, action_id, made):
            behind[place].append(receipt)
    lines = [_receipt_entry(receipt) for receipt in behind[-1]]
    for place, event in enumerate(events):
        lines.append(_event_entry(event))
        lines.extend(_receipt_entry(receipt) for receipt in behind[place])
    return lines


def _places(
    events: Sequence[Event], action_id: str, receipts: Sequence[Receipt]
) -> Iterator[tuple[int, Receipt]]:
    """Behind which event each receipt of an action stands, -1 for before all of them."""
    own = [place for place, event in enumerate(events) if event.action_id == action_id]
    endings = [place for place in own if events[place].type in _ENDINGS]
    if len(endings) == len(receipts):
        yield from zip(endings, receipts, strict=True)
        return
    times = [to_millisecond(event.ts) for event in events]
    for receipt in receipts:
        earlier = [place for place in own if times[place] <= receipt.finished_at]
        others = [place for place, at in enumerate(times) if at <= receipt.finished_at]
        yield max(earlier or others, default=-1), receipt


def _event_entry(event: Event) -> Entry:
    if event.type == EventType.EXECUTION_AMBIGUOUS:
        error = event.data.get("error")
        return Entry(EntryKind.LOST, event.ts, event, detail=None if error is None else str(error))
    return Entry(EntryKind.EVENT, event.ts, event)


def _receipt_entry(receipt: Receipt) -> Entry:
    return Entry(EntryKind.RECEIPT, receipt.finished_at, receipt=receipt)


# --- leases that ran out -------------------------------------------------------------------------


def _with_lapses(
    lines: list[Entry], events: Sequence[Event], record: EffectRecord | None, now: datetime
) -> list[Entry]:
    """Put in the points at which an attempt's lease ran out before anything was heard of it."""
    for start, end, detail in _lapses(events, record, now):
        at = max(end, start.ts)
        entry = Entry(EntryKind.LOST, at, detail=detail)
        begun = next(place for place, line in enumerate(lines) if line.event is start)
        later = (place for place in range(begun + 1, len(lines)) if lines[place].at > at)
        lines.insert(next(later, len(lines)), entry)
    return lines


def _lapses(
    events: Sequence[Event], record: EffectRecord | None, now: datetime
) -> Iterator[tuple[Event, datetime, str]]:
    """Each start that was found without an outcome, when that was at the latest, and why."""
    leases: dict[str | None, datetime] = {}
    running: dict[str | None, Event] = {}
    for event in events:
        if event.type == EventType.EFFECT_RESERVED:
            leases[event.action_id] = _lease_end(event)
        elif event.type in _STARTS:
            running[event.action_id] = event
        elif event.type in _STOPS:
            running.pop(event.action_id, None)
        elif _finds_a_lapse(event):
            for action_id, start in running.items():
                end = leases.get(action_id, event.ts)
                # A person answers before the lease ends where the process is gone.
                gone = "by" in event.data and event.ts < end
                yield start, min(end, event.ts), PROCESS_GONE if gone else LEASE_EXPIRED
            running.clear()
    for action_id, start in running.items():
        standing = _standing_end(record, action_id, now)
        if standing is not None:
            yield start, min(leases.get(action_id, standing), standing), LEASE_EXPIRED


def _finds_a_lapse(event: Event) -> bool:
    """Whether another attempt found the effect without an outcome: refused, or asking for one."""
    if event.type == EventType.EFFECT_RESERVATION_REFUSED:
        return event.data.get("reason") == "ambiguous"
    return event.type in (EventType.RECONCILIATION_STARTED, EventType.EFFECT_RESOLVED)


def _lease_end(event: Event) -> datetime:
    try:
        return parse_timestamp(str(event.data.get("lease_expires_at")))
    except ValueError:
        return event.ts


def _standing_end(
    record: EffectRecord | None, action_id: str | None, now: datetime
) -> datetime | None:
    """When the lease ended of an attempt that the record still names; None while it lives."""
    if record is None or record.action_id != action_id:
        return None
    if record.state is EffectState.AMBIGUOUS:
        return record.updated_at
    return record.lease_expires_at if record.lease_is_lapsed(now) else None


# --- silences ------------------------------------------------------------------------------------


def _with_silences(
    lines: Sequence[Entry], record: EffectRecord | None, now: datetime
) -> Iterator[Entry]:
    running: set[str | None] = set()
    for place, line in enumerate(lines):
        yield line
        _follow(running, line)
        following = lines[place + 1].at if place + 1 < len(lines) else None
        if following is None and not _still_runs(running, record, now):
            return
        pause = (now if following is None else following) - line.at
        if pause >= SILENCE:
            yield Entry(
                EntryKind.SILENCE,
                line.at,
                length=pause,
                waiting=bool(running),
                open_end=following is None,
            )


def _follow(running: set[str | None], line: Entry) -> None:
    """Keep the set of actions whose executor was running behind this line."""
    if line.kind is EntryKind.LOST and line.event is None:
        running.clear()
    elif line.event is not None and line.event.type in _STARTS:
        running.add(line.event.action_id)
    elif line.event is not None and line.event.type in _STOPS:
        running.discard(line.event.action_id)


def _still_runs(running: Iterable[str | None], record: EffectRecord | None, now: datetime) -> bool:
    """Whether an attempt is out there whose reply may still come."""
    return record is not None and record.action_id in running and record.lease_is_live(now)
