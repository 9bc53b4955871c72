"""Reading lists page by page, from every store.

`paged` gives the pages of our stores, or makes them over a store that has single calls alone: such
a store works everywhere, slower. `oldest_first` and `newest_first` walk a list, however long, one
page at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, cast

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import DamagedRow
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import DelegationRecord, Page, PagedReader, ReceiptRow, StateReader
from ctrlrun.state.page import START, ApprovalOrder, EffectOrder

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

PAGE = 200
"""Rows that are read at once where nobody asked for a number."""


class ReadsPages(Protocol[T_co]):
    """A reader's page method with its filters filled in."""

    def __call__(
        self, *, before: str | None = None, after: str | None = None, limit: int
    ) -> Page[T_co]: ...


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
    return cast(PagedReader, store) if hasattr(store, "events_page") else SingleCallReader(store)


class SingleCallReader:
    """Pages over a store that only offers whole lists; each page costs the list."""

    def __init__(self, store: StateReader) -> None:
        self._store = store
        self.get_effect = store.get_effect
        self.list_effects = store.list_effects
        self.continuation_rounds = store.continuation_rounds
        self.get_approval = store.get_approval
        self.approvals_for = store.approvals_for
        self.find_granted_approval = store.find_granted_approval
        self.find_denied_request = store.find_denied_request
        self.get_delegation = store.get_delegation
        self.delegations_for = store.delegations_for
        self.delegations = store.delegations
        self.events = store.events
        self.receipts = store.receipts
        self.chain_head = store.chain_head
