"""The part of a list that is held: some pages around the screen, the cursor, the marks, the eye.

Pure: it reads nothing and draws nothing. It says what should be read (`next_request`), takes what
was (`take`), and keeps the reader's eye where it was meanwhile. Its size does not depend on the
list's. Cursor and marks are record ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from ctrlrun_tui.data.models import Lane, Row
from ctrlrun_tui.data.sources import BOTTOM, TOP, Answer, Edge, Place, Request, RowPage

LEAST_PAGE = 64
"""Rows read at once on a small screen; else two screens full."""

MOST_PAGES = 4
"""Pages held, about; those far from the screen are let go."""

WATCHED_MARKS = 50
"""Marks off the screen that one reading looks after; the next one goes on with others."""

GONE = "gone"
"""The word for a row of which nothing is known any more."""


@dataclass(slots=True)
class Chunk:
    """One page as it is held. `stale` means: read before the last change of the store."""

    rows: tuple[Row, ...]
    first: str | None
    last: str | None
    stale: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What an answer changed besides the rows: marks that had to be dropped, and why."""

    dropped: tuple[Row, ...] = ()


ListLine = Row | Lane | None
"""A line of the list: a row, the heading of a lane, or the blank above a heading."""


@dataclass(slots=True)
class Window:
    """The held part of one list. `height` is the number of lines on the screen."""

    lanes: tuple[Lane, ...] = ()
    immutable: bool = False
    spaced: bool = False  # a blank line before each heading but the first
    height: int = 10
    follow: bool = False  # the cursor stays on the last row as rows are added below
    cursor: str | None = None
    marks: dict[str, Row] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    at_top: bool = False
    at_bottom: bool = False
    is_loaded: bool = False
    top: int = 0  # the line at the top of the screen
    rows: list[Row] = field(default_factory=list)
    lines: list[ListLine] = field(default_factory=list)
    unseen_above: int = 0  # rows that came above the screen since its top was the list's
    _line_of: dict[str, int] = field(default_factory=dict)
    _held: Row | None = None  # under the cursor, no longer in the list
    _order: list[str] = field(default_factory=list)  # ids at the time it left
    _wanted: Place | None = TOP
    _pending: Request | None = None
    _number: int = 0
    _mark_turn: int = 0
    _stale: bool = False  # the store changed while nothing was held

    # --- what is on the screen -------------------------------------------------------------------

    @property
    def page(self) -> int:
        """Rows to read at once."""
        return max(LEAST_PAGE, 2 * self.height)

    @property
    def visible(self) -> Sequence[ListLine]:
        """The lines on the screen."""
        return self.lines[self.top : self.top + self.height]

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        line = self._line_of.get(self.cursor or "")
        row = None if line is None else self.lines[line]
        return row if isinstance(row, Row) else None

    def row_at(self, y: int) -> Row | None:
        """The row on a line of the screen."""
        index = self.top + y
        line = self.lines[index] if 0 <= index < len(self.lines) else None
        return line if isinstance(line, Row) else None

    @property
    def is_reading(self) -> bool:
        """Whether something was asked for and is not here."""
        return self._pending is not None

    # --- moving ----------------------------------------------------------------------------------

    def move_to(self, row_id: str) -> None:
        """Put the cursor on a held row and bring it on the screen."""
        if row_id not in self._line_of or row_id == self.cursor:
            return
        self.cursor = row_id
        if self._held is not None:
            self._let_go()
        self.show_cursor()

    def move(self, steps: int) -> None:
        """Move the cursor by rows, as far as they are held."""
        if not self.rows:
            return
        here = self._row_index(self.cursor)
        target = 0 if here is None else here + steps
        self.follow = False
        self.move_to(self.rows[max(0, min(target, len(self.rows) - 1))].id)

    def turn_page(self, direction: int) -> None:
        """Move cursor and screen by a screen, one line of overlap."""
        steps = direction * max(1, self.height - 1)
        before = self.top
        self.move(steps)
        self.top = self._clamped(before + steps)
        self.show_cursor()

    def scroll(self, lines: int) -> None:
        """Move the screen; the cursor comes along when it would leave it."""
        self.follow = False
        self.top = self._clamped(self.top + lines)
        shown = [(line.id, y) for y, line in enumerate(self.visible) if isinstance(line, Row)]
        if shown and self.cursor not in {row_id for row_id, _ in shown}:
            edge = shown[0] if lines > 0 else shown[-1]
            self.move_to(edge[0])
            self._look([edge])

    def go(self, place: Place) -> None:
        """Go to an end or a lane; what is not held is read."""
        self.follow = place == BOTTOM and self.follow
        if place == TOP and self.at_top and self.rows:
            self.move_to(self.rows[0].id)
            self.top = 0
        elif place == BOTTOM and self.at_bottom and self.rows:
            self.move_to(self.rows[-1].id)
        else:
            self._wanted = place

    def go_lane(self, step: int) -> None:
        """Go to the first row of the next lane, or of this one, or of the one before."""
        here = self._row_index(self.cursor)
        if here is None:
            return
        starts = [
            index
            for index, row in enumerate(self.rows)
            if index == 0 or self.rows[index - 1].lane != row.lane
        ]
        others = [index for index in starts if (index > here if step > 0 else index < here)]
        keys = [lane.key for lane in self.lanes]
        if not others:
            position = keys.index(self.rows[here].lane) + 1
            if step > 0 and position < len(keys) and not self.at_bottom:
                self.go(Place(Edge.LANE, keys[position]))
            return
        nearest = others[0] if step > 0 else others[-1]
        if nearest == 0 and not self.at_top:  # the first one held, not the lane's first
            self.go(Place(Edge.LANE, self.rows[0].lane))
        else:
            self.move_to(self.rows[nearest].id)

    def show_cursor(self) -> None:
        """Bring the cursor's line on the screen, with the heading above it where it has one."""
        line = self._line_of.get(self.cursor or "")
        if line is None:
            return
        above = line - 1 if line and isinstance(self.lines[line - 1], Lane) else line
        if above < self.top:
            self.top = above
        elif line >= self.top + self.height:
            self.top = line - self.height + 1
        self.top = self._clamped(self.top)

    def resize(self, height: int) -> None:
        """The screen has another number of lines."""
        self.height = max(1, height)
        self.top = self._clamped(self.top)
        self.show_cursor()

    def space_lanes(self, *, spaced: bool) -> None:
        """Leave a blank line before each heading, or not; the eye stays."""
        self.spaced = spaced
        eye = self._eye()
        self._rebuild()
        self._look(eye)

    # --- marks -----------------------------------------------------------------------------------

    def toggle_mark(self) -> None:
        """Mark the row under the cursor, or take its mark away."""
        row = self.current
        if row is None or row.left is not None:
            return
        if self.marks.pop(row.id, None) is None:
            self.marks[row.id] = row

    # --- reading ---------------------------------------------------------------------------------

    def start_over(self, at: Place = TOP) -> None:
        """Read the list anew (another filter or order), keeping the cursor if its row is in it.

        Read from its bottom, the cursor goes to the last row.
        """
        self._wanted = at
        self._held = None
        self.unseen_above = 0

    def changed(self) -> None:
        """The store changed: what is held may be out of date."""
        for chunk in self.chunks:
            chunk.stale = True
        self._stale = True

    def failed(self, number: int) -> None:
        """A request could not be carried out; the rows stay, and it is asked again later."""
        if self._pending is None or self._pending.number != number:
            return
        if self._pending.place is not None and self._pending.place.edge in _ENDS:
            self._wanted = self._wanted or self._pending.place
        self._pending = None

    def next_request(self) -> Request | None:
        """What to read now; None while something is being read or nothing is needed."""
        if self._wanted is not None:
            place, self._wanted = self._wanted, None
            return self._ask(place=place)
        if self._pending is not None:
            return None
        edge = self._needed_edge()
        if edge is not None:
            return self._ask(place=edge)
        return self._again()

    def take(self, answer: Answer) -> Taken | None:
        """What was read; None when it was void because something else was asked since."""
        request = answer.request
        if self._pending is None or request.number != self._pending.number:
            return None
        self._pending = None
        self.is_loaded = True
        if request.place is None:
            return self._take_again(answer)
        page = answer.page or RowPage()
        if request.place.edge in _ENDS:
            self._take_end(request.place, page)
        else:
            self._take_edge(request.place.edge, page)
        return Taken()

    # --- inside ----------------------------------------------------------------------------------

    def _ask(self, *, place: Place | None = None, **more: object) -> Request:
        self._number += 1
        request = Request(self._number, self.page, place)
        self._pending = replace(request, **more) if more else request  # type: ignore[arg-type]
        return self._pending

    def _needed_edge(self) -> Place | None:
        if not self.chunks:
            return None
        first, last = self._visible_range()
        if not self.at_bottom and len(self.rows) - 1 - last < self.height:
            return Place(Edge.BELOW, self.chunks[-1].last)
        if not self.at_top and first < self.height:
            return Place(Edge.ABOVE, self.chunks[0].first)
        return None

    def _again(self) -> Request | None:
        if not self.chunks:
            if not self._stale:
                return None
            self._stale = False
            return self._ask(body=True, watched=self._watched())
        self._stale = False
        first, last = self._visible_chunks()
        if not any(chunk.stale for chunk in self.chunks[first : last + 1]):
            return None
        watched = self._watched()
        if self.immutable:
            for chunk in self.chunks:
                chunk.stale = False
            if not (self.at_top or self.at_bottom):
                return None
            return self._ask(
                first=self.chunks[0].first if self.at_top else None,
                tail=self.chunks[-1].last if self.at_bottom else None,
            )
        started = sum(len(chunk.rows) for chunk in self.chunks[:first])
        limit = max(self.page, self._visible_range()[1] - started + 1 + self.height)
        if first:
            request = self._ask(above=self.chunks[first - 1].last, body=True, watched=watched)
        else:
            request = self._ask(first=self.chunks[0].first, body=True, watched=watched)
        in_chunks = sum(len(chunk.rows) for chunk in self.chunks[first:])
        held = min(in_chunks, self._visible_range()[1] - started + 1)
        self._pending = replace(request, limit=limit, cursor=self.cursor, held=held)
        return self._pending

    def _watched(self) -> tuple[Row, ...]:
        """The row under the cursor, and some of the marks, in turn."""
        current = self.current
        others = [row for key, row in self.marks.items() if key != self.cursor]
        start = self._mark_turn % len(others) if others else 0
        some = (others[start:] + others[:start])[:WATCHED_MARKS]
        self._mark_turn = start + len(some)
        return tuple(some) if current is None else (current, *some)

    def _take_end(self, place: Place, page: RowPage) -> None:
        eye = self._eye()
        self.chunks = []
        self._put_below(page.rows, page)
        self.at_top = place.edge is Edge.TOP or (place.edge is Edge.BOTTOM and page.ends)
        self.at_bottom = place.edge is Edge.BOTTOM or page.ends
        self._held = None
        keeps = place == TOP and any(row.id == self.cursor for row in page.rows)
        self._rebuild()
        if keeps:
            self._look(eye)
        elif self.rows:
            self.cursor = self.rows[-1 if place == BOTTOM else 0].id
            self.top = self._clamped(len(self.lines) if place == BOTTOM else 0)
            self.show_cursor()
        else:
            self.cursor, self.top = None, 0

    def _take_edge(self, edge: Edge, page: RowPage) -> None:
        eye = self._eye()
        if edge is Edge.ABOVE:
            self._take_above(page)
        else:
            self.at_bottom = page.ends
            self._put_below(self._new(page), page)
        self._rebuild()
        if self.follow and self.rows and self.at_bottom:
            self.cursor = self.rows[-1].id
            self.show_cursor()
        else:
            self._look(eye)
        self._trim()

    def _take_again(self, answer: Answer) -> Taken:
        eye = self._eye()
        self._remember_order()
        came_above = self._take_above(answer.above)
        if answer.page is not None:
            self._take_body(answer.request, answer.page, answer.above)
        if answer.below is not None:
            self._take_below(answer.below)
        dropped = self._take_fates(dict(answer.fates))
        self._rebuild()
        if self.follow and self.rows and self.at_bottom:
            self.cursor = self.rows[-1].id
            self.show_cursor()
        else:
            self._look(eye)
            self.unseen_above = self.unseen_above + came_above if self.top else 0
        self._trim()
        return Taken(dropped)

    def _take_above(self, page: RowPage | None) -> int:
        if page is None:
            return 0
        self.at_top = page.ends
        rows = self._new(page)
        if rows:
            self.chunks.insert(0, Chunk(rows, page.first, page.last))
        elif page.first is not None and self.chunks:
            self.chunks[0].first = page.first
        return len(rows)

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

    def _take_below(self, page: RowPage) -> None:
        self.at_bottom = page.ends
        self._put_below(self._new(page), page)
        if self.follow and not page.ends:
            self._wanted = BOTTOM

    def _take_body(self, request: Request, page: RowPage, above: RowPage | None) -> None:
        """The rows from the first chunk on the screen on, read again; what lies below is let go."""
        kept = [chunk for chunk in self.chunks if chunk.last == request.above]
        start = 0
        if request.above is not None and kept:
            start = self.chunks.index(kept[0]) + 1
        elif above is not None and above.rows and self.chunks and self.chunks[0].last == above.last:
            start = 1
        self.chunks = self.chunks[:start]
        self._put_below(self._new(page), page)
        if start == 0 and self.chunks and above is not None and above.first is not None:
            self.chunks[0].first = above.first
        self.at_top = self.at_top or start == 0
        self.at_bottom = page.ends

    def _take_fates(self, fates: dict[str, Row | None]) -> tuple[Row, ...]:
        """Hold the row under the cursor that left; drop the marks of rows that did."""
        current = self.current
        self._held = None
        dropped: list[Row] = []
        for row_id, fate in fates.items():
            if row_id == self.cursor and current is not None:
                self._held = replace(current, left=GONE) if fate is None else fate
            if row_id in self.marks and (fate is None or fate.left is not None):
                marked = self.marks.pop(row_id)
                dropped.append(replace(marked, left=GONE) if fate is None else fate)
        for chunk in self.chunks:
            for row in chunk.rows:
                if row.id in self.marks:
                    self.marks[row.id] = row
        return tuple(dropped)

    def _let_go(self) -> None:
        """The cursor left the row that was only held for it."""
        self._held = None
        eye = self._eye()
        self._rebuild()
        self._look(eye)

    def _remember_order(self) -> None:
        self._order = [row.id for row in self.rows]

    def _rebuild(self) -> None:
        """Rows and lines from the chunks, with the held row in its old place."""
        self.rows = [row for chunk in self.chunks for row in chunk.rows]
        if self._held is not None:
            self.rows.insert(self._held_index(), self._held)
        self.lines = []
        lane = ""
        titles = {each.key: each for each in self.lanes}
        for row in self.rows:
            if row.lane != lane and row.lane in titles:
                if self.spaced:
                    self.lines.append(None)
                self.lines.append(titles[row.lane])
                lane = row.lane
            self.lines.append(row)
        self._line_of = {
            line.id: index for index, line in enumerate(self.lines) if isinstance(line, Row)
        }
        if self.cursor not in self._line_of:
            self.cursor = self._nearest()

    def _nearest(self) -> str | None:
        """Where the cursor goes when its row is nowhere: to what stood nearest to it."""
        if not self.rows:
            return None
        if self.cursor in self._order:
            here = self._order.index(self.cursor)
            for row_id in (*self._order[here + 1 :], *reversed(self._order[:here])):
                if row_id in self._line_of:
                    return row_id
        return self.rows[0].id

    def _held_index(self) -> int:
        """Where the held row stands: beside its old neighbours, and in its lane."""
        assert self._held is not None
        keys = [lane.key for lane in self.lanes]
        if self._held.lane not in keys:
            return self._held_index_of(self._held)
        order = [keys.index(row.lane) if row.lane in keys else 0 for row in self.rows]
        lane = keys.index(self._held.lane)
        first = sum(each < lane for each in order)
        last = sum(each <= lane for each in order)
        return max(first, min(self._held_index_of(self._held), last))

    def _held_index_of(self, held: Row) -> int:
        places = {row.id: index for index, row in enumerate(self.rows)}
        here = self._order.index(held.id) if held.id in self._order else 0
        for row_id in reversed(self._order[:here]):
            if row_id in places:
                return places[row_id] + 1
        for row_id in self._order[here + 1 :]:
            if row_id in places:
                return places[row_id]
        return min(here, len(self.rows))

    def _trim(self) -> None:
        """Let go of pages far from the screen."""
        while len(self.rows) > MOST_PAGES * self.page and len(self.chunks) > 1:
            eye = self._eye()
            if not self._let_a_page_go():
                return
            self._remember_order()
            self._rebuild()
            self._look(eye)

    def _let_a_page_go(self) -> bool:
        """Drop the first or last page, the farther one, unless it would be asked for again."""
        first_row, last_row = self._visible_range()
        above, below = first_row, len(self.rows) - 1 - last_row
        spare_above = above - len(self.chunks[0].rows) >= self.height
        spare_below = below - len(self.chunks[-1].rows) >= self.height
        if spare_above and (above > below or not spare_below):
            self.chunks.pop(0)
            self.at_top = False
        elif spare_below:
            self.chunks.pop()
            self.at_bottom = False
        return spare_above or spare_below

    def _eye(self) -> list[tuple[str, int]]:
        """Where rows stand on the screen: the cursor's first, it is what the eye is on."""
        places = [(line.id, y) for y, line in enumerate(self.visible) if isinstance(line, Row)]
        return sorted(places, key=lambda place: place[0] != self.cursor)

    def _look(self, eye: Iterable[tuple[str, int]]) -> None:
        """Put the first of these rows that is still held where it stood."""
        for row_id, y in eye:
            line = self._line_of.get(row_id)
            if line is not None:
                self.top = self._clamped(line - y)
                return
        self.top = self._clamped(self.top)
        self.show_cursor()

    def _clamped(self, top: int) -> int:
        return max(0, min(top, len(self.lines) - self.height))

    def _row_index(self, row_id: str | None) -> int | None:
        for index, row in enumerate(self.rows):
            if row.id == row_id:
                return index
        return None

    def _visible_range(self) -> tuple[int, int]:
        """Indexes of the first and last row on the screen."""
        shown = {line.id for line in self.visible if isinstance(line, Row)}
        indexes = [index for index, row in enumerate(self.rows) if row.id in shown]
        return (indexes[0], indexes[-1]) if indexes else (0, 0)

    def _visible_chunks(self) -> tuple[int, int]:
        """Indexes of the first and last chunk on the screen."""
        first_row, last_row = self._visible_range()
        first = last = 0
        end = 0
        for index, chunk in enumerate(self.chunks):
            if end <= first_row:
                first = index
            if end <= last_row:
                last = index
            end += len(chunk.rows)
        while first and not self.chunks[first - 1].rows:  # looked through, nothing found
            first -= 1
        return first, last


_ENDS = frozenset({Edge.TOP, Edge.BOTTOM, Edge.LANE})
