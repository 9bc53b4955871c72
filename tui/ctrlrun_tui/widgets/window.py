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
from ctrlrun_tui.widgets.pages import Pages

LEAST_PAGE = 64
"""Rows read at once on a small screen; else two screens full."""

MOST_PAGES = 4
"""Pages held, about; those far from the screen are let go."""

WATCHED_MARKS = 50
"""Marks off the screen that one reading looks after; the next one goes on with others."""

GONE = "gone"
"""The word for a row of which nothing is known any more."""


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
    pages: Pages = field(default_factory=Pages)
    spaced: bool = False  # a blank line before each heading but the first
    height: int = 10
    follow: bool = False  # the cursor stays on the last row as rows are added below
    cursor: str | None = None
    marks: dict[str, Row] = field(default_factory=dict)
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

    # --- what is on the screen -------------------------------------------------------------------

    @property
    def at_top(self) -> bool:
        """Whether the first row held is the list's first."""
        return self.pages.at_top

    @property
    def at_bottom(self) -> bool:
        """Whether the last row held is the list's last."""
        return self.pages.at_bottom

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
        self.is_loaded = False
        self.unseen_above = 0

    def changed(self) -> None:
        """The store changed: what is held may be out of date."""
        self.pages.changed()

    def failed(self, number: int) -> None:
        """A request could not be carried out; the rows stay, and it is asked again later."""
        if self._pending is None or self._pending.number != number:
            return
        if self._pending.place is not None and self._pending.place.edge in _ENDS:
            self._wanted = self._wanted or self._pending.place
        if self._pending.place is None:  # what was to be read again still is
            self.pages.changed()
        self._pending = None

    def next_request(self) -> Request | None:
        """What to read now; None while something is being read or nothing is needed."""
        if self._wanted is not None:
            place, self._wanted = self._wanted, None
            return self._ask(place=place)
        if self._pending is not None:
            return None
        shown = self._shown_rows()
        edge = self.pages.needed(shown, self.height)
        if edge is not None:
            return self._ask(place=edge)
        again = self.pages.again(shown, self.page)
        if again is None:
            return None
        watched = () if self.pages.immutable else self._watched()
        return self._number_request(replace(again, cursor=self.cursor, watched=watched))

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

    def _ask(self, *, place: Place) -> Request:
        return self._number_request(Request(0, self.page, place))

    def _number_request(self, request: Request) -> Request:
        self._number += 1
        self._pending = replace(request, number=self._number)
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
        self.pages.replace(place, page)
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
            self.pages.take_above(page)
        else:
            self.pages.take_below(page)
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
        came_above = self.pages.take_again(answer)
        if self.follow and answer.below is not None and not answer.below.ends:
            self._wanted = BOTTOM
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
        for row in self.pages.rows:
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
        self.rows = self.pages.rows
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
        while len(self.rows) > MOST_PAGES * self.page:
            eye = self._eye()
            if not self.pages.let_one_go(self._shown_rows(), self.height):
                return
            self._remember_order()
            self._rebuild()
            self._look(eye)

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

    def _shown_rows(self) -> range:
        """Which of the rows that the pages hold are on the screen."""
        shown = {line.id for line in self.visible if isinstance(line, Row)}
        indexes = [index for index, row in enumerate(self.pages.rows) if row.id in shown]
        return range(indexes[0], indexes[-1] + 1) if indexes else range(1)


_ENDS = frozenset({Edge.TOP, Edge.BOTTOM, Edge.LANE})
