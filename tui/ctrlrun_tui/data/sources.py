"""Where a list's rows come from: pages, read in a worker, and what a list asks of them.

A `RowSource` belongs to a view and reads through `ctrlrun.operator` alone. A list holds some pages
around what is on the screen, as `Chunk`s, and asks by `Request`; `answer` carries a request out in
a worker thread and is the only function here that reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from ctrlrun.state import PagedReader
from ctrlrun_tui.data.models import Row


class Edge(StrEnum):
    """Which rows a page holds, in the order of the screen."""

    TOP = "top"  # the first ones
    BOTTOM = "bottom"  # the last ones
    ABOVE = "above"  # those just above a cursor
    BELOW = "below"  # those just below a cursor
    LANE = "lane"  # from the first row of a lane on; `cursor` is its key


@dataclass(frozen=True, slots=True)
class Place:
    """Where to read a page."""

    edge: Edge
    cursor: str | None = None


TOP = Place(Edge.TOP)
BOTTOM = Place(Edge.BOTTOM)


@dataclass(frozen=True, slots=True)
class RowPage:
    """Some rows in the order of the screen.

    `first` and `last` are the cursors of the outermost rows (None on an empty page); they stay
    good when those rows leave. Where rows are searched for they go round all that was looked at,
    and a page may hold few rows, or none, although others follow. `ends` says that the list ends in the direction of reading: no row
    above a page read ABOVE or BOTTOM-up past the top, none below one read downwards.
    """

    rows: tuple[Row, ...] = ()
    first: str | None = None
    last: str | None = None
    ends: bool = False


class RowSource(Protocol):
    """The rows of one list, under one filter and order."""

    @property
    def immutable(self) -> bool:
        """Whether rows never change nor leave: then only what is new at an end is read again."""
        ...

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        """One page, read whole. Called in a worker thread."""
        ...

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        """What became of a row that is no longer in the list: with the word for it in its cells.

        `Row.left` is that word. None when nothing is known of it any more.
        """
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """What a list wants to know. `number` tells the newest from those that are void.

    Either a `place` to read a page at, or, reading again what may have changed: rows that came
    above the cursor `first` and below the cursor `tail`, and with `body` the rows on the screen,
    from below `above` on, down to the row `cursor` and to as many rows as were `held` at least.
    `watched` are the rows under the cursor and the marks: of those that are not among what was
    read, the answer says what became of them.
    """

    number: int
    limit: int
    place: Place | None = None
    first: str | None = None
    above: str | None = None
    tail: str | None = None
    body: bool = False
    cursor: str | None = None
    held: int = 0
    watched: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What was read for a request; None where nothing had to be read.

    `page` is the page that was asked for, or the rows on the screen; `above` and `below` are rows
    that came at the ends. `fates` are by row id.
    """

    request: Request
    page: RowPage | None = None
    above: RowPage | None = None
    below: RowPage | None = None
    fates: tuple[tuple[str, Row | None], ...] = ()


def answer(source: RowSource, reader: PagedReader, request: Request, now: datetime) -> Answer:
    """Carry a list's request out; a page each, read whole. Called in a worker thread."""

    def fetch(edge: Edge, cursor: str | None, limit: int = request.limit) -> RowPage:
        return source.fetch(reader, Place(edge, cursor), limit, now)

    if request.place is not None:
        page = source.fetch(reader, request.place, request.limit, now)
        return Answer(request, page)
    above = None if request.first is None else fetch(Edge.ABOVE, request.first)
    below = None if request.tail is None else fetch(Edge.BELOW, request.tail)
    again = None
    if request.body:
        start = request.above if above is None else above.last
        again = fetch(Edge.TOP if start is None else Edge.BELOW, start)
        for _ in range(MOST_SEARCHED):  # a search stops at its budget: what was shown stays
            if len(again.rows) >= request.held or again.ends or again.last is None:
                break
            again = _on(again, fetch(Edge.BELOW, again.last))
    found = _found(again, above, below)
    fates = {
        row.id: source.fate(reader, row, now) for row in request.watched if row.id not in found
    }
    cursor = fates.get(request.cursor or "")
    if again is not None and cursor is not None and cursor.left is None:
        # It is in the list, further down: so many rows came between.
        for _ in range(MOST_CHASED):
            if again.ends or cursor.id in _found(again):
                break
            again = _on(again, fetch(Edge.BELOW, again.last, CHASED_PAGE))
    found = _found(again, above, below)
    return Answer(
        request,
        again,
        above,
        below,
        tuple((row_id, fate) for row_id, fate in fates.items() if row_id not in found),
    )


MOST_SEARCHED = 40
"""Pages read to find again the rows that were shown, where rows are searched for."""

MOST_CHASED = 8
"""Pages read after a row that many others came in front of."""

CHASED_PAGE = 200
"""Rows of such a page."""


def _on(page: RowPage, more: RowPage) -> RowPage:
    """A page and the one below it as one."""
    return RowPage((*page.rows, *more.rows), page.first, more.last or page.last, more.ends)


def _found(*pages: RowPage | None) -> set[str]:
    return {row.id for page in pages if page is not None for row in page.rows}


# --- lists made of lanes -------------------------------------------------------------------------

FetchLane = Callable[[PagedReader, str | None, str | None, int, datetime], RowPage]
"""`(reader, before, after, limit, now)`: a page of one lane in the order of the screen.

Without a cursor the lane's first rows. `ends` as for `RowPage`, in the direction of reading.
"""


class LanedPages:
    """Pages over several lanes, one beneath the other, as if they were one list.

    A lane's rows carry its key; the list draws the headings. Cursors name the lane they are in.
    """

    def __init__(self, lanes: Sequence[tuple[str, FetchLane]]) -> None:
        self._lanes = dict(lanes)
        self._order = [key for key, _ in lanes]

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        """A page that may run over the ends of lanes."""
        match place.edge:
            case Edge.TOP:
                return self._down(reader, 0, None, limit, now)
            case Edge.LANE:
                return self._down(reader, self._index(place.cursor), None, limit, now)
            case Edge.BELOW:
                index, cursor = self._split(place.cursor)
                return self._down(reader, index, cursor, limit, now)
            case Edge.ABOVE:
                index, cursor = self._split(place.cursor)
                return self._up(reader, index, cursor, limit, now)
            case Edge.BOTTOM:
                return self._up(reader, len(self._order), None, limit, now)

    def _down(
        self, reader: PagedReader, index: int, cursor: str | None, limit: int, now: datetime
    ) -> RowPage:
        pages: list[tuple[str, RowPage]] = []
        wanted = limit
        for key in self._order[index:]:
            page = self._lanes[key](reader, None, cursor, wanted, now)
            pages.append((key, page))
            wanted -= len(page.rows)
            cursor = None
            if not page.ends:
                return _joined(pages, ends=False)
            if wanted <= 0:
                return _joined(pages, ends=key == self._order[-1])
        return _joined(pages, ends=True)

    def _up(
        self, reader: PagedReader, index: int, cursor: str | None, limit: int, now: datetime
    ) -> RowPage:
        pages: list[tuple[str, RowPage]] = []
        wanted = limit
        if cursor is not None:
            page = self._lanes[self._order[index]](reader, cursor, None, wanted, now)
            pages.append((self._order[index], page))
            wanted -= len(page.rows)
        for key in reversed(self._order[:index]):
            if wanted <= 0 or (pages and not pages[-1][1].ends):
                return _joined(pages[::-1], ends=False)
            page = self._from_end(reader, key, wanted, now)
            pages.append((key, page))
            wanted -= len(page.rows)
        # The last page read is that of the topmost lane.
        return _joined(pages[::-1], ends=pages[-1][1].ends)

    def _from_end(self, reader: PagedReader, key: str, limit: int, now: datetime) -> RowPage:
        return self._lanes[key](reader, END_OF_LANE, None, limit, now)

    def _index(self, key: str | None) -> int:
        return self._order.index(key) if key in self._order else 0

    def _split(self, cursor: str | None) -> tuple[int, str]:
        key, _, rest = (cursor or "").partition(" ")
        return self._index(key), rest


END_OF_LANE = ""
"""As `before` of a lane's page: its last rows."""


def one_page(read: Callable[[PagedReader, int, datetime], Sequence[Row]]) -> FetchLane:
    """A lane that is read whole, for one that is short by design; row ids are its cursors."""

    def fetch(
        reader: PagedReader, before: str | None, after: str | None, limit: int, now: datetime
    ) -> RowPage:
        rows = list(read(reader, limit, now))
        ids = [row.id for row in rows]
        if after is not None:
            rows = rows[ids.index(after) + 1 :] if after in ids else []
        elif before in ids:
            rows = rows[: ids.index(before)]
        elif before:
            rows = []
        rows = rows[:limit] if before is None else rows[max(0, len(rows) - limit) :]
        if not rows:
            return RowPage(ends=True)
        return RowPage(tuple(rows), rows[0].id, rows[-1].id, ends=True)

    return fetch


def _joined(pages: Sequence[tuple[str, RowPage]], *, ends: bool) -> RowPage:
    filled = [(key, page) for key, page in pages if page.first is not None]
    if not filled:
        return RowPage(ends=ends)
    first_key, first = filled[0]
    last_key, last = filled[-1]
    return RowPage(
        tuple(row for _, page in filled for row in page.rows),
        f"{first_key} {first.first}",
        f"{last_key} {last.last}",
        ends,
    )
