"""The pages of a list that are held, one beneath the other, and what of them should be read again.

Pure, like the `Window` above it, which knows the screen. Rows are held in chunks as they were read;
a chunk whose rows are not on the screen may be out of date, and is read again when it comes there.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ctrlrun_tui.data.models import Row
from ctrlrun_tui.data.sources import Answer, Edge, Place, Request, RowPage

MARGIN = 8
"""Rows below the screen that are read again with those on it."""


@dataclass(slots=True)
class Chunk:
    """Some rows as they are held. `stale` means: read before the last change of the store.

    `last` is the cursor that the next chunk begins behind; `first`, of the topmost one, that of
    what came above.
    """

    rows: tuple[Row, ...]
    first: str | None
    last: str | None
    stale: bool = False


@dataclass(slots=True)
class Pages:
    """The held rows of one list."""

    immutable: bool = False
    chunks: list[Chunk] = field(default_factory=list)
    at_top: bool = False
    at_bottom: bool = False
    _stale: bool = False  # the store changed while nothing was held

    @property
    def rows(self) -> list[Row]:
        """All of them, in the order of the screen."""
        return [row for chunk in self.chunks for row in chunk.rows]

    def changed(self) -> None:
        """The store changed: what is held may be out of date."""
        self._stale = True
        for chunk in self.chunks:
            chunk.stale = True

    # --- what to read ----------------------------------------------------------------------------

    def needed(self, shown: range, height: int) -> Place | None:
        """The page to read next, where fewer rows are held than the next screen needs."""
        if not self.chunks:
            return None
        if not self.at_bottom and len(self.rows) - shown.stop < height:
            return Place(Edge.BELOW, self.chunks[-1].last)
        if not self.at_top and shown.start < height:
            return Place(Edge.ABOVE, self.chunks[0].first)
        return None

    def again(self, shown: range, page: int) -> Request | None:
        """What to read again of the rows `shown`; None where nothing of them is stale.

        The caller numbers the request.
        """
        was_stale, self._stale = self._stale, False
        if not self.chunks:
            return Request(0, page, body=True) if was_stale else None
        first, last = self._chunks_of(shown)
        if not any(chunk.stale for chunk in self.chunks[first : last + 1]):
            return None
        if self.immutable:
            return self._ends_again(page)
        started = sum(len(chunk.rows) for chunk in self.chunks[:first])
        held = min(len(self.rows), shown.stop) - started
        above = self.chunks[first - 1].last if first else None
        top = None if first else self.chunks[0].first
        return Request(0, held + MARGIN, first=top, above=above, body=True, held=held)

    def _ends_again(self, page: int) -> Request | None:
        for chunk in self.chunks:
            chunk.stale = False
        if not (self.at_top or self.at_bottom):
            return None
        return Request(
            0,
            page,
            first=self.chunks[0].first if self.at_top else None,
            tail=self.chunks[-1].last if self.at_bottom else None,
        )

    # --- what was read ---------------------------------------------------------------------------

    def replace(self, place: Place, page: RowPage) -> None:
        """Hold this page alone."""
        self.chunks = []
        self._put_below(self._new(page), page)
        self.at_top = place.edge is Edge.TOP or (place.edge is Edge.BOTTOM and page.ends)
        self.at_bottom = place.edge is Edge.BOTTOM or page.ends

    def take_above(self, page: RowPage) -> int:
        """Hold a page above the others; how many of its rows are new."""
        self.at_top = page.ends
        rows = self._new(page)
        if rows:
            self.chunks.insert(0, Chunk(rows, page.first, page.last))
        elif page.first is not None and self.chunks:
            self.chunks[0].first = page.first
        return len(rows)

    def take_below(self, page: RowPage) -> None:
        """Hold a page below the others."""
        self.at_bottom = page.ends
        self._put_below(self._new(page), page)

    def take_again(self, answer: Answer) -> int:
        """Hold what was read again; how many rows came above."""
        came = 0 if answer.above is None else self.take_above(answer.above)
        if answer.page is not None:
            self._take_body(answer.request, answer.page, answer.above)
        if answer.below is not None:
            self.take_below(answer.below)
        return came

    def _take_body(self, request: Request, page: RowPage, above: RowPage | None) -> None:
        """The rows from the first chunk on the screen on; those further down stay, out of date."""
        start = self._start_of(request, above)
        before, self.chunks = self.chunks[start:], self.chunks[:start]
        self._put_below(self._new(page), page)
        if start == 0 and self.chunks and above is not None and above.first is not None:
            self.chunks[0].first = above.first
        self.at_top = self.at_top or start == 0
        rest = () if page.ends else self._rest(before, page)
        if rest:
            self.chunks.append(Chunk(rest, None, before[-1].last, stale=True))
        else:
            self.at_bottom = page.ends

    def _start_of(self, request: Request, above: RowPage | None) -> int:
        """The index of the chunk from which on rows were read again."""
        if request.above is not None:
            for index, chunk in enumerate(self.chunks):
                if chunk.last == request.above:
                    return index + 1
        elif above is not None and above.rows and self.chunks and self.chunks[0].last == above.last:
            return 1
        return 0

    def _rest(self, before: list[Chunk], page: RowPage) -> tuple[Row, ...]:
        """The rows that stood below those that were read again."""
        rows = [row for chunk in before for row in chunk.rows]
        read = {row.id for row in page.rows}
        found = [index for index, row in enumerate(rows) if row.id in read]
        known = {row.id for chunk in self.chunks for row in chunk.rows}
        rest = rows[found[-1] + 1 :] if found else []
        return tuple(row for row in rest if row.id not in known)

    def _new(self, page: RowPage) -> tuple[Row, ...]:
        """The rows of a page that are not held already."""
        known = {row.id for chunk in self.chunks for row in chunk.rows}
        return tuple(row for row in page.rows if row.id not in known)

    def _put_below(self, rows: tuple[Row, ...], page: RowPage) -> None:
        """Hold a page's new rows; one that brought none moves the end of what was looked at."""
        last = self.chunks[-1] if self.chunks else None
        if last is not None and (not rows or not last.rows):
            last.rows += rows
            last.last = page.last or last.last
        elif page.last is not None:
            self.chunks.append(Chunk(rows, page.first, page.last))

    # --- letting go ------------------------------------------------------------------------------

    def let_one_go(self, shown: range, height: int) -> bool:
        """Drop the first or last chunk, the farther one, unless it would be asked for again."""
        if len(self.chunks) < 2:
            return False
        above, below = shown.start, len(self.rows) - shown.stop
        spare_above = above - len(self.chunks[0].rows) >= height
        spare_below = below - len(self.chunks[-1].rows) >= height
        if spare_above and self.chunks[1].first is None:
            spare_above = False  # the rest of a page that was read in parts has no cursor above
        if spare_above and (above > below or not spare_below):
            self.chunks.pop(0)
            self.at_top = False
        elif spare_below:
            self.chunks.pop()
            self.at_bottom = False
        return spare_above or spare_below

    def _chunks_of(self, shown: range) -> tuple[int, int]:
        """Indexes of the first and last chunk on the screen."""
        first = last = end = 0
        for index, chunk in enumerate(self.chunks):
            if end <= shown.start:
                first = index
            if end < shown.stop:
                last = index
            end += len(chunk.rows)
        while first and not self.chunks[first - 1].rows:  # looked through, nothing found
            first -= 1
        return first, last
