"""Rows of a list that grows at one end: receipts and events, through a filter.

Such rows never change and never leave, so only what is new is read again. A filter that hardly
anything passes stops at its budget and goes on at the next page.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from ctrlrun.operator import Found, search
from ctrlrun.operator.pages import PAGE, ReadsPages
from ctrlrun.state import Damage, PagedReader
from ctrlrun.state.page import START
from ctrlrun_tui.data.models import Row
from ctrlrun_tui.data.sources import Edge, Place, RowPage

T = TypeVar("T")

BUDGET = 2_000
"""Rows that are looked at for one page: what was found shows between two of them."""

LOOKED_AT = 600
"""Rows that are looked at, from the newest on, to say how many a filter hides."""


def hidden_count(read: ReadsPages[T], keep: Callable[[T], bool]) -> tuple[int, bool]:
    """How many of the newest rows a filter hides, and whether more were not looked at."""
    found = search(read, lambda row: not keep(row), at_least=LOOKED_AT, budget=LOOKED_AT)
    return len(found.items), not found.exhausted


@dataclass(frozen=True, slots=True)
class Searched(Generic[T]):
    """A source over pages of the store, oldest first on the screen or, `newest_first`, last.

    `pages` gives the reader's page method with its filters, `keep` tests what those left in,
    `shown` makes a row, and `damaged` hears of rows that cannot be read. With `keeps_all` no more
    is read than was asked for.
    """

    pages: Callable[[PagedReader], ReadsPages[T]]
    keep: Callable[[T], bool]
    shown: Callable[[T, datetime], Row]
    damaged: Callable[[tuple[Damage, ...]], None]
    newest_first: bool
    keeps_all: bool = False
    immutable: bool = True

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        """One page in the order of the screen."""
        found = self._found(reader, place, limit)
        self.damaged(found.damaged)
        rows = tuple(self.shown(item, now) for item in found.items)
        if self.newest_first:
            return RowPage(rows[::-1], found.after, found.before, found.exhausted)
        return RowPage(rows, found.before, found.after, found.exhausted)

    def _found(self, reader: PagedReader, place: Place, limit: int) -> Found[T]:
        step = limit if self.keeps_all else PAGE
        read = partial(
            search, self.pages(reader), self.keep, at_least=limit, budget=BUDGET, step=step
        )
        older = Edge.BELOW if self.newest_first else Edge.ABOVE
        newest = Edge.TOP if self.newest_first else Edge.BOTTOM
        if place.edge is newest:
            return read()
        if place.edge is older:
            return read(before=place.cursor)
        cursor = place.cursor if place.edge in (Edge.ABOVE, Edge.BELOW) else None
        return read(after=cursor or START)

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        """Rows of such a list stay as they are."""
        return row
