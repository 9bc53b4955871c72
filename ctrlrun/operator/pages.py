"""Reading lists page by page, from every store.

`paged` gives the pages of our stores, or makes them over a store that has single calls alone: such
a store works everywhere, slower. `oldest_first` and `newest_first` walk a list, however long, one
page at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar, cast

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.authority import DelegationRecord
from ctrlrun.clock import column_timestamp
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import DamagedRow
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import Page, PagedReader, ReceiptRow, StateReader
from ctrlrun.state.page import START, ApprovalOrder, EffectOrder, check_page

T = TypeVar("T")

PAGE = 200
"""Rows that are read at once where nobody asked for a number."""


class ReadsPages(Protocol[T]):
    """A reader's page method with its filters filled in."""

    def __call__(
        self, *, before: str | None = None, after: str | None = None, limit: int
    ) -> Page[T]: ...


def oldest_first(read: ReadsPages[T], *, limit: int = PAGE) -> Iterator[T]:
    """Every row of a list in its order, read `limit` at a time.

    Raises DamagedRow at the first row that cannot be read.
    """
    cursor: str | None = START
    while cursor is not None:
        page = read(after=cursor, limit=limit)
        check_undamaged(page)
        yield from page.items
        cursor = page.after


def newest_first(read: ReadsPages[T], *, limit: int = PAGE) -> Iterator[T]:
    """Every row of a list from its end, read `limit` at a time.

    Raises DamagedRow at the first row that cannot be read.
    """
    page = read(limit=limit)
    while True:
        check_undamaged(page)
        yield from reversed(page.items)
        if page.before is None:
            return
        page = read(before=page.before, limit=limit)


def check_undamaged(page: Page[Any]) -> None:
    """DamagedRow for the first row of a page that cannot be read."""
    for damage in page.damaged:
        raise DamagedRow(
            f"{damage.table} {damage.row_id} cannot be read: {damage.detail}",
            table=damage.table,
            row_id=damage.row_id,
        )


def paged(store: StateReader) -> PagedReader:
    """The store itself when it has pages, else pages over its single calls."""
    return cast("PagedReader", store if hasattr(store, "events_page") else SingleCallReader(store))


def is_indexed(reader: PagedReader) -> bool:
    """Whether a read by key costs what it finds, and not the store: our indexes are there.

    A store of our own says so itself; any other is taken at its word that it has pages.
    """
    said = getattr(reader, "is_indexed", None)
    return said is None or bool(said())


class SingleCallReader:
    """Pages over a store that only offers whole lists; each page costs the list.

    Cursors are places in the list, an event's is its id as everywhere.
    """

    def __init__(self, store: StateReader) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """The single calls are the store's own."""
        return getattr(self._store, name)

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
        return _page(_numbered(self._store.receipts(), keep), before, after, limit)

    def receipts_count(self, **filters: Any) -> int:
        """How many receipts the page's filters keep."""
        return _count(self.receipts_page, filters)

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
        """Some events in the order of their ids."""
        keep = _event_filter(action_id, effect_key, approval_id, types)
        rows = [(event.event_id or 0, event) for event in self._store.events() if keep(event)]
        return _page(rows, before, after, limit)

    def events_count(self, **filters: Any) -> int:
        """How many events the page's filters keep."""
        return _count(self.events_page, filters)

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
        records = self._store.list_effects(state)
        if order == "updated":
            records = tuple(sorted(records, key=lambda record: record.updated_at))

        def keep(record: EffectRecord) -> bool:
            return lapsed_at is None or record.lease_is_lapsed(lapsed_at)

        return _page(_numbered(records, keep), before, after, limit)

    def effects_count(self, **filters: Any) -> int:
        """How many effects the page's filters keep."""
        return _count(self.effects_page, filters)

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
        records = (
            self._requests() if action_hash is None else self._store.approvals_for(action_hash)
        )
        if order == "expiry":
            records = tuple(sorted(records, key=lambda record: record.expires_at))

        def keep(record: ApprovalRecord) -> bool:
            is_live = live_at is None or live_at <= record.expires_at
            return status in (None, record.status) and is_live

        return _page(_numbered(records, keep), before, after, limit)

    def approvals_count(self, **filters: Any) -> int:
        """How many requests the page's filters keep."""
        return _count(self.approvals_page, filters)

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
        records = self._store.delegations(include_revoked=True)

        def keep(record: DelegationRecord) -> bool:
            is_listed = include_revoked or not record.is_revoked
            return parent_id in (None, record.parent_id) and is_listed

        return _page(_numbered(records, keep), before, after, limit)

    def delegations_count(self, **filters: Any) -> int:
        """How many delegations the page's filters keep."""
        return _count(self.delegations_page, filters)

    def receipt_rows(self, *, after: str | None = None, limit: int) -> tuple[ReceiptRow, ...]:
        """Receipts as documents, made anew: how they are stored is not to be seen from here."""
        start = int(after or 0)
        chosen = self._store.receipts()[start : start + limit]
        return tuple(_row(place, receipt) for place, receipt in enumerate(chosen, start + 1))

    def change_token(self) -> object:
        """Equal to an earlier one as long as the evidence did not grow."""
        return len(self._store.events()), len(self._store.receipts())

    def is_indexed(self) -> bool:
        """Every page costs the list."""
        return False

    def close(self) -> None:
        """The store belongs to whoever opened it."""

    def _requests(self) -> tuple[ApprovalRecord, ...]:
        """All requests that an event names: single calls have no list of them."""
        named = (event.approval_id for event in self._store.events())
        ids = dict.fromkeys(identifier for identifier in named if identifier is not None)
        records = (self._store.get_approval(identifier) for identifier in ids)
        return tuple(record for record in records if record is not None)


def _numbered(rows: Sequence[T], keep: Callable[[T], bool]) -> list[tuple[int, T]]:
    """The rows that pass, each with its place in the whole list (from 1)."""
    return [(place, row) for place, row in enumerate(rows, 1) if keep(row)]


def _page(rows: list[tuple[int, T]], before: str | None, after: str | None, limit: int) -> Page[T]:
    check_page(before, after, limit)
    if after is not None:
        chosen = [row for row in rows if row[0] > int(after or 0)][:limit]
    elif before is not None:
        chosen = [row for row in rows if row[0] < int(before)][-limit:]
    else:
        chosen = rows[-limit:]
    if not chosen:
        return Page(())
    return Page(tuple(row for _, row in chosen), str(chosen[0][0]), str(chosen[-1][0]))


def _count(page: Callable[..., Page[Any]], filters: dict[str, Any]) -> int:
    return len(page(limit=sys.maxsize, **filters).items)


def _row(place: int, receipt: Receipt) -> ReceiptRow:
    return ReceiptRow(
        cursor=str(place),
        receipt_id=receipt.receipt_id,
        action_id=receipt.action_id,
        effect_key=receipt.effect_key,
        result=receipt.result.value,
        json=receipt.to_json(),
        ts=column_timestamp(receipt.finished_at),
        seq=receipt.seq,
        prev_hash=receipt.prev_hash,
        hash=receipt.hash,
    )


def _receipt_filter(
    action_id: str | None, effect_key: str | None, control: str | None, since: datetime | None
) -> Callable[[Receipt], bool]:
    def keep(receipt: Receipt) -> bool:
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
) -> Callable[[Event], bool]:
    wanted = None if types is None else frozenset(map(str, types))

    def keep(event: Event) -> bool:
        return (
            action_id in (None, event.action_id)
            and effect_key in (None, event.effect_key)
            and approval_id in (None, event.approval_id)
            and (wanted is None or str(event.type) in wanted)
        )

    return keep
