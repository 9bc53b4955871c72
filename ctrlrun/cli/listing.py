"""Printing lists: page by page, whole or only the end, as lines or JSON, and on as new rows come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from ctrlrun.cli.output import Output, note
from ctrlrun.errors import DamagedRow
from ctrlrun.operator import Feed, FeedBatch, ReadingDesk, follow
from ctrlrun.operator.pages import ReadsPages
from ctrlrun.state import Damage, Page, PagedReader
from ctrlrun.state.page import START
from ctrlrun.text import inert

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
        _print_stored(listing, reader, last, as_json=as_json)


def follow_list(listing: Listing[T], desk: ReadingDesk, last: int | None, *, as_json: bool) -> None:
    """Print the last rows, if any are asked for, then each new one as it comes, until interrupted.

    Trouble with the store is said on standard error, and it goes on when that is over.
    """
    assert listing.fresh is not None
    out = Output()
    with closing(desk.reader()) as reader:
        feed = Feed(desk, desk.events_path, receipts=True)
        feed.poll()  # from here on nothing is missed; what came before is listed
        newest = None
        if last is not None:
            newest = _print_stored(listing, reader, last, as_json=as_json)
    out.flush()
    trouble = _Trouble()
    for batch in follow(feed):
        rows = [row for row in listing.fresh(batch) if _is_new(listing, row, newest)]
        _print(listing, out, rows, as_json=as_json)
        out.flush()
        trouble.say(batch)


def _print_stored(
    listing: Listing[T], reader: PagedReader, last: int | None, *, as_json: bool
) -> T | None:
    """Print rows of the store; the last one."""
    out = Output()
    walk = _Walk(listing.page(reader), listing.keep)
    newest: T | None = None
    for rows in walk.pages() if last is None else walk.last(last):
        _print(listing, out, rows, as_json=as_json)
        newest = rows[-1] if rows else newest
    if newest is None:
        # Where a reader of JSON does not take it for a document.
        note(inert(listing.nothing)) if as_json else out.say(out.shown(listing.nothing))
    walk.check()
    return newest


def _print(listing: Listing[T], out: Output, rows: Sequence[T], *, as_json: bool) -> None:
    if as_json:
        for row in rows:
            out.json(listing.document(row))
    elif listing.columns:
        out.table(listing.fields(row) for row in rows)
    else:
        for row in rows:
            out.row(*listing.fields(row))


def _is_new(listing: Listing[T], row: T, newest: T | None) -> bool:
    """Whether a row passes the filter and was not listed already."""
    if listing.keep is not None and not listing.keep(row):
        return False
    if newest is None or listing.position is None:
        return True
    listed, position = listing.position(newest), listing.position(row)
    return listed is None or position is None or position > listed


class _Walk(Generic[T]):
    """One walk over a list: what cannot be read is passed over, and said at the end."""

    def __init__(self, read: ReadsPages[T], keep: Callable[[T], bool] | None) -> None:
        self._read = read
        self._keep = keep
        self._first_damage: Damage | None = None
        self._damaged = 0

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

    def check(self) -> None:
        """DamagedRow that names the first row which could not be read, if there was one."""
        damage = self._first_damage
        if damage is not None:
            more = f" (and {self._damaged - 1} more)" if self._damaged > 1 else ""
            raise DamagedRow(
                f"{damage.table} {damage.row_id} cannot be read: {damage.detail}{more}",
                table=damage.table,
                row_id=damage.row_id,
            )

    def _size(self, wanted: int) -> int:
        """How much to read at once: with a filter, nobody knows how much of it is kept."""
        return PAGE if self._keep is not None else min(wanted, PAGE)

    def _kept(self, page: Page[T]) -> tuple[T, ...]:
        if page.damaged:
            self._first_damage = self._first_damage or page.damaged[0]
            self._damaged += len(page.damaged)
        if self._keep is None:
            return page.items
        return tuple(item for item in page.items if self._keep(item))


class _Trouble:
    """What a follower is told beside the rows."""

    def __init__(self) -> None:
        self._out_of_reach = False
        self._unparseable = 0

    def say(self, batch: FeedBatch) -> None:
        """Say on standard error what is new."""
        for sentence in batch.notices:
            note(inert(sentence))
        if batch.unparseable > self._unparseable:
            note(f"{batch.unparseable} lines of the events file cannot be read")
            self._unparseable = batch.unparseable
        if batch.error is not None and not self._out_of_reach:
            note("the store cannot be read, trying again: " + inert(batch.error.message))
        if batch.error is None and self._out_of_reach:
            note("the store can be read again")
        self._out_of_reach = batch.error is not None
