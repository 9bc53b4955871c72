"""The rows of the store in memory, and its pages over them."""

from __future__ import annotations

import json
import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import TypeVar

from ctrlrun.action import Action
from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.authority import DelegationRecord
from ctrlrun.clock import column_timestamp
from ctrlrun.effect import EffectRecord, EffectState, Holder
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state.page import (
    START,
    ApprovalOrder,
    EffectOrder,
    Page,
    ReceiptRow,
    aware,
    bad_cursor,
    check_page,
    known_order,
    known_value,
    number_of,
)

K = TypeVar("K", int, str)
R = TypeVar("R")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EffectRow:
    """One effect; `number` is the order of insertion."""

    number: int
    record: EffectRecord
    result_json: str | None = None

    def read(self) -> EffectRecord:
        """The record, its result as it reads back."""
        if self.result_json is None:
            return self.record
        return replace(self.record, result=json.loads(self.result_json))


@dataclass(frozen=True, slots=True)
class ApprovalRow:
    """One request; `number` is the order of insertion."""

    number: int
    record: ApprovalRecord


@dataclass(frozen=True, slots=True)
class Held:
    """The suspended call of one effect; a spent token is empty."""

    action: Action
    token: str
    rounds: int


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event, its data as text."""

    event_id: int
    event: Event
    data_json: str

    def read(self) -> Event:
        """The event, its data as it reads back."""
        return replace(self.event, data=json.loads(self.data_json))


@dataclass(frozen=True, slots=True)
class ChainedRow:
    """One receipt, its document as text."""

    seq: int
    receipt: Receipt
    text: str

    def read(self) -> Receipt:
        """The receipt as it reads back."""
        return replace(Receipt.from_json(self.text), hash=self.receipt.hash)


@dataclass(slots=True)
class Tables:
    """Everything that a store holds."""

    effects: dict[str, EffectRow] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    holders: dict[tuple[str, int], Holder] = field(default_factory=dict)
    approvals: dict[str, ApprovalRow] = field(default_factory=dict)
    delegations: dict[str, DelegationRecord] = field(default_factory=dict)
    delegation_notes: list[tuple[object, str]] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    receipts: list[ChainedRow] = field(default_factory=list)
    receipt_ids: set[str] = field(default_factory=set)


class MemoryPages:
    """The reads that cost a page, over tables behind a lock."""

    _lock: threading.RLock
    _tables: Tables

    def receipt_rows(self, *, after: str | None = None, limit: int) -> tuple[ReceiptRow, ...]:
        """The first rows after a cursor, as stored."""
        check_page(None, after, limit)
        with self._lock:
            start = number_of(after) if after else 0
            return tuple(map(_stored, self._tables.receipts[start : start + limit]))

    def receipts_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        action_id: str | None = None,
        effect_key: str | None = None,
        control: str | None = None,
        since: datetime | None = None,
    ) -> Page[Receipt]:
        """Some receipts in the order of the chain."""
        keep = _receipt_filter(action_id, effect_key, control, since)
        with self._lock:
            check_page(before, after, limit)
            window = _window(
                self._tables.receipts,
                lambda row: row.seq,
                _before(before, number_of),
                _after(after, number_of, 0),
                limit,
                keep,
            )
            return _page(window, lambda row: str(row.seq), ChainedRow.read)

    def receipts_count(
        self,
        *,
        action_id: str | None = None,
        effect_key: str | None = None,
        control: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """How many receipts the page's filters keep."""
        keep = _receipt_filter(action_id, effect_key, control, since)
        with self._lock:
            return sum(map(keep, self._tables.receipts))

    def events_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        action_id: str | None = None,
        effect_key: str | None = None,
        approval_id: str | None = None,
        types: Iterable[str] | None = None,
    ) -> Page[Event]:
        """Some events in the order of their ids; an event's cursor is its id."""
        keep = _event_filter(action_id, effect_key, approval_id, types)
        with self._lock:
            check_page(before, after, limit)
            window = _window(
                self._tables.events,
                lambda row: row.event_id,
                _before(before, number_of),
                _after(after, number_of, 0),
                limit,
                keep,
            )
            return _page(window, lambda row: str(row.event_id), EventRow.read)

    def events_count(
        self,
        *,
        action_id: str | None = None,
        effect_key: str | None = None,
        approval_id: str | None = None,
        types: Iterable[str] | None = None,
    ) -> int:
        """How many events the page's filters keep."""
        keep = _event_filter(action_id, effect_key, approval_id, types)
        with self._lock:
            return sum(map(keep, self._tables.events))

    def effects_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        state: EffectState | None = None,
        lapsed_at: datetime | None = None,
        order: EffectOrder = "created",
    ) -> Page[EffectRecord]:
        """Some effects by when they were created, or last changed."""
        keep = _effect_filter(state, lapsed_at)
        key = known_order({"created": by_creation, "updated": _by_change}, order)
        with self._lock:
            check_page(before, after, limit)
            window = _window(
                sorted(self._tables.effects.values(), key=key),
                key,
                _before(before, _text_key),
                _after(after, _text_key, ""),
                limit,
                keep,
            )
            return _page(window, key, EffectRow.read)

    def effects_count(
        self, *, state: EffectState | None = None, lapsed_at: datetime | None = None
    ) -> int:
        """How many effects the page's filters keep."""
        keep = _effect_filter(state, lapsed_at)
        with self._lock:
            return sum(map(keep, self._tables.effects.values()))

    def approvals_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        status: ApprovalStatus | None = None,
        action_hash: str | None = None,
        live_at: datetime | None = None,
        order: ApprovalOrder = "stored",
    ) -> Page[ApprovalRecord]:
        """Some requests in the order in which they came, or expire."""
        keep = _approval_filter(status, action_hash, live_at)
        key = known_order({"stored": _by_number, "expiry": _by_expiry}, order)
        with self._lock:
            check_page(before, after, limit)
            window = _window(
                sorted(self._tables.approvals.values(), key=key),
                key,
                _before(before, _text_key),
                _after(after, _text_key, ""),
                limit,
                keep,
            )
            return _page(window, key, lambda row: row.record)

    def approvals_count(
        self,
        *,
        status: ApprovalStatus | None = None,
        action_hash: str | None = None,
        live_at: datetime | None = None,
    ) -> int:
        """How many requests the page's filters keep."""
        keep = _approval_filter(status, action_hash, live_at)
        with self._lock:
            return sum(map(keep, self._tables.approvals.values()))

    def delegations_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        parent_id: str | None = None,
        include_revoked: bool = False,
    ) -> Page[DelegationRecord]:
        """Some delegations in the order in which they came."""
        keep = _delegation_filter(parent_id, include_revoked=include_revoked)
        with self._lock:
            check_page(before, after, limit)
            window = _window(
                list(enumerate(self._tables.delegations.values(), 1)),
                lambda row: row[0],
                _before(before, number_of),
                _after(after, number_of, 0),
                limit,
                lambda row: keep(row[1]),
            )
            return _page(window, lambda row: str(row[0]), lambda row: row[1])

    def delegations_count(
        self, *, parent_id: str | None = None, include_revoked: bool = False
    ) -> int:
        """How many delegations the page's filters keep."""
        keep = _delegation_filter(parent_id, include_revoked=include_revoked)
        with self._lock:
            return sum(map(keep, self._tables.delegations.values()))


# --- windows -------------------------------------------------------------------------------------


def _window(
    rows: Sequence[R],
    key: Callable[[R], K],
    before: K | None,
    after: K | None,
    limit: int,
    keep: Callable[[R], bool],
) -> list[R]:
    """The rows of one page, of rows in the order of `key`."""
    if after is not None:
        start = bisect_right(rows, after, key=key)
        onward = (rows[index] for index in range(start, len(rows)))
        return list(islice(filter(keep, onward), limit))
    end = len(rows) if before is None else bisect_left(rows, before, key=key)
    backward = (rows[index] for index in range(end - 1, -1, -1))
    return list(islice(filter(keep, backward), limit))[::-1]


def _page(window: list[R], cursor: Callable[[R], str], read: Callable[[R], T]) -> Page[T]:
    if not window:
        return Page(())
    return Page(tuple(map(read, window)), cursor(window[0]), cursor(window[-1]))


def _before(cursor: str | None, parse: Callable[[str], K]) -> K | None:
    return None if cursor is None else parse(cursor)


def _after(cursor: str | None, parse: Callable[[str], K], start: K) -> K | None:
    return start if cursor == START else _before(cursor, parse)


_SORTED_CURSOR = re.compile(r"(?:[0-9T:.+-]+/)?[0-9]{12}")


def _text_key(cursor: str) -> str:
    """A cursor of a list whose keys are texts that sort: it is the key itself."""
    if not isinstance(cursor, str) or _SORTED_CURSOR.fullmatch(cursor) is None:
        raise bad_cursor(cursor)
    return cursor


def _by_number(row: ApprovalRow) -> str:
    return f"{row.number:012d}"


def _by_expiry(row: ApprovalRow) -> str:
    return f"{column_timestamp(row.record.expires_at)}/{row.number:012d}"


def by_creation(row: EffectRow) -> str:
    """The key that orders effects by age, equal times by insertion."""
    return f"{column_timestamp(row.record.created_at)}/{row.number:012d}"


def _by_change(row: EffectRow) -> str:
    return f"{column_timestamp(row.record.updated_at)}/{row.number:012d}"


def _stored(row: ChainedRow) -> ReceiptRow:
    receipt = row.receipt
    return ReceiptRow(
        cursor=str(row.seq),
        receipt_id=receipt.receipt_id,
        action_id=receipt.action_id,
        effect_key=receipt.effect_key,
        result=str(receipt.result),
        json=row.text,
        ts=column_timestamp(receipt.finished_at),
        seq=row.seq,
        prev_hash=receipt.prev_hash,
        hash=receipt.hash,
    )


# --- filters -------------------------------------------------------------------------------------


def _receipt_filter(
    action_id: str | None, effect_key: str | None, control: str | None, since: datetime | None
) -> Callable[[ChainedRow], bool]:
    if since is not None:
        aware(since, "since")

    def keep(row: ChainedRow) -> bool:
        receipt = row.receipt
        return (
            action_id in (None, receipt.action_id)
            and effect_key in (None, receipt.effect_key)
            and (control is None or control in receipt.controls)
            and (since is None or receipt.finished_at >= since)
        )

    return keep


def _event_filter(
    action_id: str | None,
    effect_key: str | None,
    approval_id: str | None,
    types: Iterable[str] | None,
) -> Callable[[EventRow], bool]:
    wanted = None if types is None else frozenset(map(str, types))

    def keep(row: EventRow) -> bool:
        event = row.event
        return (
            action_id in (None, event.action_id)
            and effect_key in (None, event.effect_key)
            and approval_id in (None, event.approval_id)
            and (wanted is None or str(event.type) in wanted)
        )

    return keep


def _effect_filter(
    state: EffectState | None, lapsed_at: datetime | None
) -> Callable[[EffectRow], bool]:
    wanted = known_value(EffectState, state, "state")
    if lapsed_at is not None:
        aware(lapsed_at, "lapsed_at")

    def keep(row: EffectRow) -> bool:
        record = row.record
        return wanted in (None, record.state) and (
            lapsed_at is None or record.lease_is_lapsed(lapsed_at)
        )

    return keep


def _approval_filter(
    status: ApprovalStatus | None, action_hash: str | None, live_at: datetime | None
) -> Callable[[ApprovalRow], bool]:
    wanted = known_value(ApprovalStatus, status, "status")
    if live_at is not None:
        aware(live_at, "live_at")

    def keep(row: ApprovalRow) -> bool:
        record = row.record
        return (
            wanted in (None, record.status)
            and action_hash in (None, record.action_hash)
            and (live_at is None or live_at <= record.expires_at)
        )

    return keep


def _delegation_filter(
    parent_id: str | None, *, include_revoked: bool
) -> Callable[[DelegationRecord], bool]:
    def keep(record: DelegationRecord) -> bool:
        return parent_id in (None, record.parent_id) and (include_revoked or not record.is_revoked)

    return keep
