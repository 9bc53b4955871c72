"""Printing lists: page by page, whole or only the end, as lines or JSON."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ctrlrun.cli.output import Output, note
from ctrlrun.errors import DamagedRow
from ctrlrun.operator.desk import ReadingDesk
from ctrlrun.operator.pages import ReadsPages
from ctrlrun.state import Damage, Page, PagedReader
from ctrlrun.state.page import START
from ctrlrun.text import inert

if TYPE_CHECKING:
    from ctrlrun.operator.feed import FeedBatch

T = TypeVar("T")

PAGE = 200
"""Rows that are read, and on a terminal laid out, at once."""


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A list that a command prints.

    `page` gives the page method of a reader, with the filters that the store knows; `keep` is the
    rest of the filter. `fresh` and `position` are for lists that can be followed: the new rows of
    a batch, and where a row stands in the order. `columns` aligns the fields on a terminal.
    """

    page: Callable[[PagedReader], ReadsPages[T]]
    document: Callable[[T], dict[str, Any]]
    fields: Callable[[T], Sequence[str]]
    nothing: str
    keep: Callable[[T], bool] | None = None
    fresh: Callable[[FeedBatch], tuple[T, ...]] | None = None
    position: Callable[[T], int | None] | None = None
    columns: bool = False


def print_list(
    listing: Listing[T], desk: ReadingDesk, last: int | None = None, *, as_json: bool
) -> None:
    """Print the rows that are there, or the last of them.

    Raises DamagedRow, after all the others, when rows could not be read.
    """
    with closing(desk.reader()) as reader:
        damaged = print_stored(listing, reader, last, as_json=as_json).damage
    if damaged is not None:
        raise damaged


def print_stored(
    listing: Listing[T], reader: PagedReader, last: int | None, *, as_json: bool
) -> Walk[T]:
    """Print rows of the store; the walk that ended."""
    out = Output()
    walk = Walk(listing.page(reader), listing.keep)
    for rows in walk.pages() if last is None else walk.last(last):
        print_rows(listing, out, rows, as_json=as_json)
        if rows:
            walk.newest = rows[-1]
    if walk.newest is None and walk.damage is None:
        # Where a reader of JSON does not take it for a document.
        note(inert(listing.nothing)) if as_json else out.say(out.shown(listing.nothing))
    return walk


def print_rows(listing: Listing[T], out: Output, rows: Sequence[T], *, as_json: bool) -> None:
    """Print some rows of a list."""
    if as_json:
        for row in rows:
            out.json(listing.document(row))
    elif listing.columns:
        out.table(listing.fields(row) for row in rows)
    else:
        for row in rows:
            out.row(*listing.fields(row))


class Walk(Generic[T]):
    """One walk over a list, which passes over what cannot be read.

    `newest` is the last row that was printed, `damage` the error about the rows passed over.
    """

    def __init__(self, read: ReadsPages[T], keep: Callable[[T], bool] | None) -> None:
        self._read = read
        self._keep = keep
        self._damaged: list[Damage] = []
        self.newest: T | None = None

    def pages(self) -> Iterator[tuple[T, ...]]:
        """The whole list, oldest first."""
        cursor: str | None = START
        while cursor is not None:
            page = self._read(after=cursor, limit=PAGE)
            yield self._kept(page)
            cursor = page.after

    def last(self, count: int) -> Iterator[tuple[T, ...]]:
        """The last `count` rows that are kept, oldest first; reads no more than it must."""
        found: deque[T] = deque()
        page = self._read(limit=self._size(count))
        while True:
            found.extendleft(reversed(self._kept(page)[-(count - len(found)) :]))
            if len(found) >= count or page.before is None:
                break
            page = self._read(before=page.before, limit=self._size(count - len(found)))
        yield tuple(found)

    @property
    def damage(self) -> DamagedRow | None:
        if not self._damaged:
            return None
        first = self._damaged[0]
        more = f" (and {len(self._damaged) - 1} more)" if len(self._damaged) > 1 else ""
        return DamagedRow(
            f"{first.table} {first.row_id} cannot be read: {first.detail}{more}",
            table=first.table,
            row_id=first.row_id,
        )

    def _size(self, wanted: int) -> int:
        """How much to read at once: with a filter, nobody knows how much of it is kept."""
        return PAGE if self._keep is not None else min(wanted, PAGE)

    def _kept(self, page: Page[T]) -> tuple[T, ...]:
        self._damaged.extend(page.damaged)
        if self._keep is None:
            return page.items
        return tuple(item for item in page.items if self._keep(item))
