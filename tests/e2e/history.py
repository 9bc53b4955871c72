"""What must hold of any run, however it was broken: acts at the remote against the store's record.

The remote's log is the truth of what happened, the store's rows are what is claimed. A key may
happen again only after an attempt that ended as not executed, or that somebody answered FAILED.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from ctrlrun.action import DEFAULT_ENVIRONMENT
from ctrlrun.clock import parse_timestamp
from ctrlrun.effect import EffectRecord
from ctrlrun.provider_keys import attempt_key_for
from ctrlrun.receipt import Event, EventType
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state.page import START
from ctrlrun.state.protocol import PagedReader
from ctrlrun.state.sqlite import SQLiteReader

_PAGE = 2000
_TYPES = (
    "EFFECT_RESERVED",
    "APPROVAL_CONSUMED",
    "EXECUTION_STARTED",
    "EXECUTION_COMMITTED",
    "EXECUTION_FAILED",
    "EXECUTION_AMBIGUOUS",
    "RECONCILIATION_STARTED",
    "RECONCILIATION_RESOLVED",
    "EFFECT_RESOLVED",
)
_ENDS = {
    EventType.EXECUTION_COMMITTED: "committed",
    EventType.EXECUTION_FAILED: "failed",
    EventType.EXECUTION_AMBIGUOUS: "ambiguous",
}


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that the remote did. A remote that was told only the key knows only that."""

    key: str
    attempt_key: str | None = None
    at: datetime | None = None
    approved: bool = False
    """It may happen only with an approval."""

    @classmethod
    def read(cls, line: str) -> Act:
        """An act as the remote logs it: a key, or a document."""
        if not line.startswith("{"):
            return cls(line)
        said = json.loads(line)
        at = parse_timestamp(said["at"])
        return cls(said["key"], said["attempt_key"], at, said["approved"])


@dataclass(slots=True)
class _Attempt:
    """What the events tell of one reservation."""

    number: int
    action_id: str | None
    started: datetime | None = None
    spent: bool = False
    ends: list[str] = field(default_factory=list)
    freed: str | None = None
    """Who said that it did nothing."""
    done: bool = False
    asking: bool = False
    """Its hook was called and never answered: the process ended there, before its receipt."""
    acts: int = 0


def violations(state: Path, acts: Path) -> list[str]:
    """Each broken promise of a run over a SQLite file, whose remote wrote `acts`, an act a line."""
    store = SQLiteReader(state)
    try:
        return broken_promises(store, read_acts(acts))
    finally:
        store.close()


def read_acts(path: Path) -> Iterator[Act]:
    """What the remote logged; nothing where it never acted."""
    if path.exists():
        with path.open() as lines:
            yield from (Act.read(line.rstrip("\n")) for line in lines)


def broken_promises(
    store: PagedReader,
    acts: Iterable[Act],
    *,
    receipts_may_lack: bool = False,
    truthful: bool = True,
    environment: str = DEFAULT_ENVIRONMENT,
) -> list[str]:
    """Each broken promise in words that begin with its key; empty when the history is sound.

    `receipts_may_lack` where the store itself failed now and then: an outcome does not hang on its
    receipt. `truthful`: whoever called an attempt FAILED had looked at the remote.
    """
    found: list[str] = []
    attempts = _attempts(store, found)
    records = {record.effect_key: record for record in _all(store.effects_page, found)}
    receipts = Counter(
        (receipt.effect_key, receipt.action_id, receipt.attempt, str(receipt.result))
        for receipt in _all(store.receipts_page, found)
        if str(receipt.result) in _ENDS.values()
    )
    unplaced = _place(acts, attempts, environment, found)
    for key in sorted({*attempts, *records, *unplaced}):
        tried = attempts.get(key, [])
        _judge_acts(key, tried, unplaced[key], truthful, found)
        _judge_record(key, tried, records.get(key), found)
        _judge_receipts(key, tried, receipts, receipts_may_lack, found)
    found += [f"{key} has a receipt of attempt {n}: {what}" for (key, _, n, what) in +receipts]
    report = verify_chain(store)
    if not report.ok:
        found.append(f"chain: {report.breaks}")
    return found


def _all(page: Callable[..., Any], found: list[str], **filters: Any) -> Iterator[Any]:
    after = START
    while True:
        read = page(after=after, limit=_PAGE, **filters)
        found += [f"{one.row_id} of {one.table} is damaged: {one.detail}" for one in read.damaged]
        yield from read.items
        if read.after is None:
            return
        after = read.after


def _attempts(store: PagedReader, found: list[str]) -> dict[str, list[_Attempt]]:
    """The attempts at each key, as their events follow on each other."""
    attempts: dict[str, list[_Attempt]] = defaultdict(list)
    spent: Counter[str | None] = Counter()
    by_action: set[str | None] = set()
    for event in _all(partial(store.events_page, types=_TYPES), found):
        if event.type == EventType.APPROVAL_CONSUMED:
            spent[event.approval_id] += 1
            by_action.add(event.action_id)
        elif event.effect_key is not None:
            _follow(event, attempts[event.effect_key], found)
    for tried in attempts.values():
        for attempt in tried:
            attempt.spent = attempt.action_id in by_action
    found += [f"{one} was spent {count} times" for one, count in spent.items() if count > 1]
    return attempts


def _follow(event: Event, tried: list[_Attempt], found: list[str]) -> None:
    """Take one event of a key into the story of its attempts."""
    key, last = event.effect_key, tried[-1] if tried else None
    if event.type == EventType.EFFECT_RESERVED:
        number = event.data["attempt"]
        if number != (last.number if last else 0) + 1:
            found.append(f"{key} has attempt {number} after {last.number if last else 'none'}")
        elif last is not None and last.freed is None:
            found.append(f"{key} has attempt {number}, and the one before was not free")
        tried.append(_Attempt(number, event.action_id))
        return
    own = next((one for one in reversed(tried) if one.action_id == event.action_id), None)
    if event.type in (EventType.RECONCILIATION_STARTED, EventType.RECONCILIATION_RESOLVED):
        if own is not None:  # else a contender asks, whose call has no outcome to tell
            own.asking = event.type == EventType.RECONCILIATION_STARTED
        return
    if event.type == EventType.EFFECT_RESOLVED and event.data["resolved_by"] == "reconcile":
        own = last  # the hook belongs to the call that asked, the answer to the record
    if own is None:
        found.append(f"{key} has {event.type} without a reservation")
    elif event.type == EventType.EXECUTION_STARTED:
        own.started = event.ts
    elif event.type == EventType.EFFECT_RESOLVED:
        if own is not last or own.done or (own.freed and not _stopped(own)):
            found.append(f"{key} was answered for attempt {own.number}, which was over")
        own.done = event.data["state"] == "committed"
        own.freed = None if own.done else str(event.data["resolver"])
    else:
        own.ends.append(_ENDS[EventType(event.type)])
        if event.type == EventType.EXECUTION_COMMITTED:
            own.done = True
        elif event.type == EventType.EXECUTION_FAILED and own.freed is None:
            own.freed = str(event.data["error"])


def _stopped(attempt: _Attempt) -> bool:
    """Whether its fence stopped it: it sent nothing, whatever becomes of the record."""
    return attempt.freed is not None and attempt.freed.startswith("LeaseLost")


def _place(
    acts: Iterable[Act], attempts: dict[str, list[_Attempt]], environment: str, found: list[str]
) -> Counter[str]:
    """Count each act with its attempt; hand back those that no attempt made, by key."""
    unplaced: Counter[str] = Counter()
    for act in acts:
        own = next(
            (
                one
                for one in reversed(attempts.get(act.key, []))
                if act.attempt_key in (None, attempt_key_for(environment, act.key, one.number))
            ),
            None,
        )
        if own is None:
            unplaced[act.key] += 1
            continue
        own.acts += 1
        if own.started is None or (act.at is not None and act.at < own.started):
            found.append(f"{act.key} happened before EXECUTION_STARTED")
        if act.approved and not own.spent:
            found.append(f"{act.key} happened without the approval that it needs")
    return unplaced


def _judge_acts(
    key: str, tried: list[_Attempt], unplaced: int, truthful: bool, found: list[str]
) -> None:
    if unplaced:
        found.append(f"{key} happened {unplaced} times without a reservation")
    acted = [attempt for attempt in tried if attempt.acts]
    for attempt in acted:
        if attempt.acts > 1:
            found.append(f"{key} happened {attempt.acts} times in attempt {attempt.number}")
        if truthful and attempt.freed is not None:
            found.append(f"{key} happened and is free again by {attempt.freed!r}")
        if attempt is not acted[-1] and attempt.freed is None:
            found.append(f"{key} happened again after attempt {attempt.number}")
    if any(one.done for one in tried) and not acted and not unplaced:
        found.append(f"{key} is committed and never happened")


def _judge_record(
    key: str, tried: list[_Attempt], record: EffectRecord | None, found: list[str]
) -> None:
    if record is None or not tried:
        found.append(f"{key} has {'no record' if record is None else 'a record without events'}")
        return
    last = tried[-1]
    if (record.attempt, record.action_id) != (last.number, last.action_id):
        found.append(f"{key} stands at attempt {record.attempt}, events at {last.number}")
    allowed = {"reserved", "executing", "ambiguous"}
    if last.done:
        allowed = {"committed"}
    elif last.freed is not None:
        allowed = {"failed", "ambiguous"} if _stopped(last) else {"failed"}
    if record.state.value not in allowed:
        found.append(f"{key} is {record.state.value}, by its events {' or '.join(sorted(allowed))}")


def _judge_receipts(
    key: str, tried: list[_Attempt], receipts: Counter[Any], may_lack: bool, found: list[str]
) -> None:
    """One receipt for each outcome; what is accounted for is taken out of `receipts`."""
    for attempt in tried:
        if len(attempt.ends) > 1:
            found.append(f"{key} ended {attempt.ends} in attempt {attempt.number}")
        for end in set(attempt.ends):
            place = (key, attempt.action_id, attempt.number, end)
            if receipts.pop(place, 0) not in ((0, 1) if may_lack or attempt.asking else (1,)):
                found.append(f"{key} is {end} in attempt {attempt.number} without one receipt")
