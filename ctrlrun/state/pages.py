"""Pages and counts of a relational store: what every reader of ours reads lists by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.authority import DelegationRecord
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import DamagedRow
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import keyset
from ctrlrun.state.core import Reads
from ctrlrun.state.dialect import Filter, Order
from ctrlrun.state.keyset import Listing
from ctrlrun.state.page import (
    START,
    ApprovalOrder,
    Damage,
    EffectOrder,
    Page,
    ReceiptRow,
    known_order,
    known_value,
    number_of,
)
from ctrlrun.state.rows import (
    APPROVAL_COLUMNS,
    DELEGATION_COLUMNS,
    EFFECT_COLUMNS,
    EVENT_COLUMNS,
    RECEIPT_COLUMNS,
    RECEIPT_ROW_COLUMNS,
    approval_from,
    column_time,
    delegation_from,
    detail_of,
    effect_from,
    event_from,
    receipt_from,
    receipt_row_from,
)
from ctrlrun.state.session import Row

T = TypeVar("T")

_NOT_COMMITTED = Filter("state <> 'committed'")
# Most effects are committed, so the others are counted: those have an index.
_COMMITTED_COUNT = (
    "SELECT (SELECT COUNT(*) FROM effects) - "
    "(SELECT COUNT(*) FROM effects WHERE state <> 'committed')"
)
_EVENT_ORDER = Order(None, "event_id")


class PageReads(Reads):
    """Pages in a list's order, oldest first; rows that cannot be read are named, not hidden."""

    def change_token(self) -> object:
        """A value that is another one after anybody's commit, or when the store was replaced."""
        with self._sessions.current() as session:
            return session.token()

    def is_indexed(self) -> bool:
        """Whether a read by key costs what it finds; on a store without our indexes, the store."""
        with self._sessions.current() as session:
            indexed: bool = session.is_indexed()
            return indexed

    def _page(
        self,
        listing: Listing,
        convert: Callable[[Row], T],
        before: str | None,
        after: str | None,
        limit: int,
        cursor: Callable[[Row, Order], str] = keyset.cursor_of,
    ) -> Page[T]:
        wanted = keyset.span(before, after, limit, listing.order)
        with self._sessions.current() as session:
            rows = keyset.fetch(session, listing, wanted)
        if not rows:
            return Page(())
        items: list[T] = []
        damaged: list[Damage] = []
        for row in rows:
            try:
                items.append(convert(row))
            except DamagedRow as error:
                detail = detail_of(error.__cause__ or error)
                damaged.append(Damage(error.table, error.row_id, detail))
        return Page(
            tuple(items),
            cursor(rows[0], listing.order),
            cursor(rows[-1], listing.order),
            tuple(damaged),
        )

    def _count(self, table: str, filters: Sequence[Filter]) -> int:
        row = self._row(*keyset.count_sql(table, filters))
        return 0 if row is None else int(row[0])

    # --- receipts --------------------------------------------------------------------------------

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
        """Receipts in the order of the chain, those from before it first.

        `since`: finished then or later. `control`: the document names it; a document that cannot
        be read counts as naming it, so that damage is not hidden by a filter.
        """
        filters = self._receipts(action_id, effect_key, control)
        floors = []
        if since is not None:
            by = self._dialect.byte_order
            start = (column_time(since),)
            filters.append(_at_least("ts", by, start))
            # The chain grows with time: nothing before the first of them has to be looked at.
            first = f"SELECT MIN(seq) FROM receipts WHERE ts{by} >= ?"
            floors.append(Filter(f"seq >= ({first})", start))
        order = self._dialect.stored["receipts"]
        listing = Listing("receipts", RECEIPT_COLUMNS, order, filters, floors)
        return self._page(listing, receipt_from, before, after, limit)

    def receipts_count(
        self,
        *,
        action_id: str | None = None,
        effect_key: str | None = None,
        control: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """How many receipts `receipts_page` has under these filters."""
        filters = self._receipts(action_id, effect_key, control)
        if since is not None:
            by = self._dialect.byte_order
            filters.append(Filter(f"ts{by} >= ?", (column_time(since),)))
        return self._count("receipts", filters)

    def _receipts(
        self, action_id: str | None, effect_key: str | None, control: str | None
    ) -> list[Filter]:
        filters = _equal(action_id=action_id, effect_key=effect_key)
        if control is not None:
            filters.append(self._dialect.has_control(control))
        return filters

    def receipt_rows(self, *, after: str | None = None, limit: int) -> tuple[ReceiptRow, ...]:
        """Receipts as stored, unparsed, in the order of the chain, from its start or a cursor."""
        order = self._dialect.stored["receipts"]
        listing = Listing("receipts", RECEIPT_ROW_COLUMNS, order)
        wanted = keyset.span(None, START if after is None else after, limit, order)
        with self._sessions.current() as session:
            rows = keyset.fetch(session, listing, wanted)
        return tuple(receipt_row_from(row, keyset.cursor_of(row, order)) for row in rows)

    # --- events ----------------------------------------------------------------------------------

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
        """Events by id; a cursor is the `event_id` in decimal."""
        filters = _events(action_id, effect_key, approval_id, types)
        return self._page(
            Listing("events", EVENT_COLUMNS, _EVENT_ORDER, filters),
            event_from,
            _event_place(before),
            _event_place(after),
            limit,
            lambda row, _: str(row[-1]),
        )

    def events_count(
        self,
        *,
        action_id: str | None = None,
        effect_key: str | None = None,
        approval_id: str | None = None,
        types: Iterable[str] | None = None,
    ) -> int:
        """How many events `events_page` has under these filters."""
        return self._count("events", _events(action_id, effect_key, approval_id, types))

    # --- effects ---------------------------------------------------------------------------------

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
        """Effects by creation, or by their last change.

        `lapsed_at`: those whose lease had ended then without an outcome.
        """
        created, by = self._dialect.stored["effects"], self._dialect.byte_order
        orders = {"created": created, "updated": Order(f"updated_at{by}", created.tie)}
        listing = Listing(
            "effects", EFFECT_COLUMNS, known_order(orders, order), self._effects(state, lapsed_at)
        )
        return self._page(listing, effect_from, before, after, limit)

    def effects_count(
        self, *, state: EffectState | None = None, lapsed_at: datetime | None = None
    ) -> int:
        """How many effects `effects_page` has under these filters."""
        if state is EffectState.COMMITTED and lapsed_at is None:
            row = self._row(_COMMITTED_COUNT)
            return 0 if row is None else int(row[0])
        return self._count("effects", self._effects(state, lapsed_at))

    def _effects(self, state: EffectState | None, lapsed_at: datetime | None) -> list[Filter]:
        filters: list[Filter] = []
        known = known_value(EffectState, state, "state")
        if known is not None:
            # Spelled out, not a value: so the indexes over some states are known to cover it.
            filters.append(Filter(f"state = '{known}'"))
            if known is not EffectState.COMMITTED:
                filters.append(_NOT_COMMITTED)
        if lapsed_at is not None:
            by = self._dialect.byte_order
            filters += [Filter("state IN ('reserved', 'executing')"), _NOT_COMMITTED]
            lapsed = f"(lease_expires_at IS NULL OR lease_expires_at{by} < ?)"
            filters.append(Filter(lapsed, (column_time(lapsed_at),)))
        return filters

    # --- approvals -------------------------------------------------------------------------------

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
        """Approvals as they were stored, or by their expiry, soonest first.

        `live_at`: those that had not expired then; `status` is the stored one.
        """
        stored, by = self._dialect.stored["approvals"], self._dialect.byte_order
        orders = {"stored": stored, "expiry": Order(f"expires_at{by}", stored.tie)}
        filters = _approvals(status, action_hash)
        floors = []
        if live_at is not None:
            start = (column_time(live_at),)
            filters.append(_at_least("expires_at", by, start))
            if order == "expiry":
                floors.append(Filter(f"expires_at{by} >= ?", start))
        listing = Listing(
            "approvals", APPROVAL_COLUMNS, known_order(orders, order), filters, floors
        )
        return self._page(listing, approval_from, before, after, limit)

    def approvals_count(
        self,
        *,
        status: ApprovalStatus | None = None,
        action_hash: str | None = None,
        live_at: datetime | None = None,
    ) -> int:
        """How many approvals `approvals_page` has under these filters."""
        filters = _approvals(status, action_hash)
        if live_at is not None:
            by = self._dialect.byte_order
            filters.append(Filter(f"expires_at{by} >= ?", (column_time(live_at),)))
        return self._count("approvals", filters)

    # --- delegations -----------------------------------------------------------------------------

    def delegations_page(
        self,
        *,
        before: str | None = None,
        after: str | None = None,
        limit: int,
        parent_id: str | None = None,
        include_revoked: bool = False,
    ) -> Page[DelegationRecord]:
        """Delegations as they came: those that nobody revoked, or all of them."""
        filters = _delegations(parent_id, include_revoked=include_revoked)
        order = self._dialect.stored["delegations"]
        listing = Listing("delegations", DELEGATION_COLUMNS, order, filters)
        return self._page(listing, delegation_from, before, after, limit)

    def delegations_count(
        self, *, parent_id: str | None = None, include_revoked: bool = False
    ) -> int:
        """How many delegations `delegations_page` has under these filters."""
        return self._count("delegations", _delegations(parent_id, include_revoked=include_revoked))


def _delegations(parent_id: str | None, *, include_revoked: bool) -> list[Filter]:
    live = [] if include_revoked else [Filter("revoked_at IS NULL")]
    return _equal(parent_id=parent_id) + live


def _approvals(status: ApprovalStatus | None, action_hash: str | None) -> list[Filter]:
    stored = known_value(ApprovalStatus, status, "status")
    return _equal(status=stored, action_hash=action_hash)


def _at_least(column: str, byte_order: str, values: tuple[str]) -> Filter:
    """A lower bound that no index is chosen for: the page's order has to choose it."""
    return Filter(f"COALESCE({column}, ''){byte_order} >= ?", values)


def _equal(**columns: str | None) -> list[Filter]:
    """A condition for each column that has a value."""
    return [
        Filter(f"{column} = ?", (value,)) for column, value in columns.items() if value is not None
    ]


def _events(
    action_id: str | None,
    effect_key: str | None,
    approval_id: str | None,
    types: Iterable[str] | None,
) -> list[Filter]:
    filters = _equal(action_id=action_id, effect_key=effect_key, approval_id=approval_id)
    if types is not None:
        names = tuple(str(name) for name in types)
        marks = ", ".join("?" * len(names))
        filters.append(Filter(f"type IN ({marks})" if names else "1 = 0", names))
    return filters


def _event_place(cursor: str | None) -> str | None:
    """An event's cursor as one of `keyset`'s; START stays."""
    if cursor is None or cursor == START:
        return cursor
    return f"[{number_of(cursor)}]"
