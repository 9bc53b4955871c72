"""The history of one effect: every event, receipt and answer of every action that touched its key.

In the order of the events, with the silences between them and the point where the reply was lost.
It is read in pages by the key, so it costs that key's history and not the store. Arranging what was
read is the work of `arrangement`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from ctrlrun.effect import EffectRecord
from ctrlrun.operator.arrangement import Entry, arranged
from ctrlrun.operator.pages import PAGE
from ctrlrun.operator.wording import to_millisecond
from ctrlrun.receipt import Event, EventType, Receipt
from ctrlrun.state import Damage, PagedReader

_ANSWERS = (EventType.APPROVAL_GRANTED, EventType.APPROVAL_DENIED, EventType.APPROVAL_EXPIRED)
_ANSWERS_PER_REQUEST = 10


class _Subject(TypedDict, total=False):
    """Whose history it is: one of the two."""

    effect_key: str
    action_id: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """Entries in order. `complete` is False when older ones are left: `older_timeline` reads them.

    `events` and `receipts` are what was read so far, receipts perhaps further back than events.
    """

    effect_key: str | None
    action_id: str | None
    entries: tuple[Entry, ...]
    events: tuple[Event, ...]
    receipts: tuple[Receipt, ...]
    damaged: tuple[Damage, ...]
    events_before: str | None
    receipts_before: str | None

    @property
    def complete(self) -> bool:
        """Whether this is the whole history."""
        return self.events_before is None


def timeline(reader: PagedReader, effect_key: str, now: datetime, *, limit: int = PAGE) -> Timeline:
    """The newest `limit` events of an effect key, and the receipts and answers that belong to them.

    Answers carry no key: they are found by the requests that the key's events name.
    """
    empty = Timeline(effect_key, None, (), (), (), (), None, None)
    return _extended(reader, empty, now, limit)


def action_timeline(
    reader: PagedReader, action_id: str, now: datetime, *, limit: int = PAGE
) -> Timeline:
    """The same for one action: what the view that inspects it shows."""
    empty = Timeline(None, action_id, (), (), (), (), None, None)
    return _extended(reader, empty, now, limit)


def older_timeline(
    reader: PagedReader, known: Timeline, now: datetime, *, limit: int = PAGE
) -> Timeline:
    """What is known and the `limit` events before it; the same when that was all."""
    return known if known.complete else _extended(reader, known, now, limit)


def _extended(reader: PagedReader, known: Timeline, now: datetime, limit: int) -> Timeline:
    subject = _subject(known)
    page = reader.events_page(before=known.events_before, limit=limit, **subject)
    found = (*known.events, *page.items, *_answers(reader, page.items))
    events = _in_order(found)
    events_before = page.before if len(page.items) + len(page.damaged) >= limit else None
    receipts, receipts_before = _receipts(reader, known, events, limit)
    record = _record(reader, known, events)
    shown = _reached(receipts, events, complete=events_before is None)
    return Timeline(
        known.effect_key,
        known.action_id,
        arranged(events, shown, record, now),
        events,
        receipts,
        known.damaged + page.damaged,
        events_before,
        receipts_before,
    )


def _subject(known: Timeline) -> _Subject:
    if known.effect_key is not None:
        return {"effect_key": known.effect_key}
    assert known.action_id is not None
    return {"action_id": known.action_id}


def _in_order(events: Iterable[Event]) -> tuple[Event, ...]:
    by_id = {event.event_id or 0: event for event in events}
    return tuple(by_id[number] for number in sorted(by_id))


def _answers(reader: PagedReader, events: Iterable[Event]) -> list[Event]:
    """What people answered to the requests that these events name, first answers first."""
    requests = dict.fromkeys(event.approval_id for event in events if event.approval_id is not None)
    return [
        answer
        for request_id in requests
        for answer in reader.events_page(
            limit=_ANSWERS_PER_REQUEST, approval_id=request_id, types=_ANSWERS
        ).items
        if answer.effect_key is None
    ]


def _receipts(
    reader: PagedReader, known: Timeline, events: tuple[Event, ...], limit: int
) -> tuple[tuple[Receipt, ...], str | None]:
    """The receipts back to the first event, oldest first, and the cursor of what is older."""
    receipts = known.receipts
    cursor = known.receipts_before
    first_read = not known.events
    while events and (first_read or cursor is not None):
        if receipts and receipts[0].finished_at < to_millisecond(events[0].ts):
            break
        page = reader.receipts_page(before=cursor, limit=limit, **_subject(known))
        receipts = page.items + receipts
        cursor = page.before if len(page.items) + len(page.damaged) >= limit else None
        first_read = False
    return receipts, cursor


def _reached(
    receipts: tuple[Receipt, ...], events: tuple[Event, ...], *, complete: bool
) -> tuple[Receipt, ...]:
    """The receipts whose events were read."""
    if complete or not events:
        return receipts
    reached = to_millisecond(events[0].ts)
    return tuple(receipt for receipt in receipts if receipt.finished_at >= reached)


def _record(reader: PagedReader, known: Timeline, events: tuple[Event, ...]) -> EffectRecord | None:
    keys = (event.effect_key for event in events if event.effect_key is not None)
    effect_key = known.effect_key or next(keys, None)
    return None if effect_key is None else reader.get_effect(effect_key)
