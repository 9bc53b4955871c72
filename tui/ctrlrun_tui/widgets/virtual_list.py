"""The one list of the console: any number of rows, drawn a line at a time, a page at a time held.

It draws a `Window` and knows no store: what should be read it posts as `Asked`, and is handed the
answer. It scrolls by itself, without Textual's scrollbars, because a page that arrives moves rows
and screen in one step. Every change of any kind ends in `sync`, which compares what each line
should be with what it is and draws only those that differ.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.segment import Segment
from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from ctrlrun_tui.data.models import Column, Lane, Line, Role, Row, Span
from ctrlrun_tui.data.sources import TOP, Answer, Place, Request
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.pages import Pages
from ctrlrun_tui.widgets.strips import Drawn, fit, segments, strip, width_of
from ctrlrun_tui.widgets.window import ListLine, Window

REST = 0.1
"""Seconds that the cursor rests before the detail follows it."""

ROWS_KEPT = 512
"""Rows whose drawing is kept."""

CELLS_KEPT = 4096
"""Cells whose drawing is kept."""

STILL_LOOKING = "nothing so far, looking through the rest"
"""What an empty list says while a search has not seen all of it."""

HEAD = 1
"""Lines of the column names."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A column where it stands in a certain width."""

    column: Column
    x: int
    width: int


@dataclass(frozen=True, slots=True)
class Look:
    """All that a line's appearance depends on; `clocks` are the cells that time changes."""

    line: ListLine
    clocks: tuple[Line, ...] = ()
    cursor: bool = False
    marked: bool = False
    dim: bool = False

    def is_as(self, other: Look) -> bool:
        """Whether both look the same, clocks left out."""
        return (
            self.cursor == other.cursor
            and self.marked == other.marked
            and self.dim == other.dim
            and _same_line(self.line, other.line)
        )


def _same_line(one: ListLine, other: ListLine) -> bool:
    if one is other:
        return True
    if isinstance(one, Row) and isinstance(other, Row):
        return one.id == other.id and one.left == other.left and one.cells == other.cells
    return one == other


_Key = tuple[str, bool, bool, bool]


def _merged(segments: list[Segment]) -> list[Segment]:
    """Neighbours of one style as one segment; empty ones left out."""
    return list(Segment.simplify(segment for segment in segments if segment.text))


class VirtualList(Drawn, inherit_bindings=False):
    """A list of records under column names."""

    DEFAULT_CSS = """
    VirtualList { height: 1fr; width: 1fr; }
    """
    can_focus = True

    class Asked(Message):
        """Something should be read for this list."""

        def __init__(self, source: VirtualList, request: Request) -> None:
            super().__init__()
            self.list = source
            self.request = request

    class CursorMoved(Message):
        """The cursor is on another row, or its row changed."""

        def __init__(self, source: VirtualList, row: Row | None) -> None:
            super().__init__()
            self.list = source
            self.row = row

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, VirtualList.CursorMoved) and message.list is self.list

    class Rested(Message):
        """The cursor has rested on a row: its detail is worth reading."""

        def __init__(self, source: VirtualList, row: Row | None) -> None:
            super().__init__()
            self.list = source
            self.row = row

    class MarksLeft(Message):
        """Marked rows left the list, and their marks were dropped."""

        def __init__(self, source: VirtualList, rows: tuple[Row, ...]) -> None:
            super().__init__()
            self.list = source
            self.rows = rows

    def __init__(
        self,
        columns: Sequence[Column],
        *,
        lanes: Sequence[Lane] = (),
        immutable: bool = False,
        marks: bool = False,
        empty: str = "",
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.columns = tuple(columns)
        self.window = Window(tuple(lanes), Pages(immutable))
        self.signs = 3 if marks else 2  # cells before the columns: cursor, mark
        self.empty = empty
        self._empty_drawn: Line = ()
        self.dimmed = False
        self._now: datetime | None = None
        self._placed: tuple[Placed, ...] = ()
        self._clocks_end = 0  # the column behind the last cell that time changes
        self._looks: list[Look] = []
        self._kept: OrderedDict[_Key, tuple[Row, list[list[Segment] | Placed]]] = OrderedDict()
        self._cells: dict[tuple[Line, int, bool, bool, bool], list[Segment]] = {}
        self._rest_timer: Timer | None = None
        self._told: Row | None = None

    # --- what the screen calls -------------------------------------------------------------------

    @property
    def current(self) -> Row | None:
        """The row under the cursor."""
        return self.window.current

    @property
    def marked(self) -> tuple[Row, ...]:
        """The marked rows, in the order of their marking."""
        return tuple(self.window.marks.values())

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is being read for it and its cursor has rested."""
        return self._rest_timer is None and not self.window.is_reading

    def start_over(self, *, immutable: bool | None = None, at: Place = TOP) -> None:
        """Read the list anew, from an end of it: another filter or order."""
        if immutable is not None:
            self.window.pages.immutable = immutable
        self.window.start_over(at)
        self.pump()

    def store_changed(self) -> None:
        """Something was committed: read again what is on the screen."""
        self.window.changed()
        self.pump()

    def space_lanes(self, *, spaced: bool) -> None:
        """Leave a blank line before each lane, or not."""
        if spaced != self.window.spaced:
            self.window.space_lanes(spaced=spaced)
            self.sync()

    def pump(self) -> None:
        """Ask for what should be read now, if anything."""
        if not self._placed:  # not laid out: the number of rows to read is not known
            return
        request = self.window.next_request()
        if request is not None:
            self.post_message(self.Asked(self, request))

    def take(self, answer: Answer) -> None:
        """Take what was read."""
        taken = self.window.take(answer)
        if taken is None:
            return
        if taken.dropped:
            self.post_message(self.MarksLeft(self, taken.dropped))
        self.sync()
        self.pump()

    def failed(self, request: Request) -> None:
        """What was asked could not be read; what is on the screen stays."""
        self.window.failed(request.number)

    def tick(self, now: datetime) -> None:
        """Draw the countdowns that read otherwise now."""
        self._now = now
        self.sync()

    def dim(self, *, dimmed: bool) -> None:
        """Show the rows as stale, or as fresh again."""
        self.dimmed = dimmed
        self.sync()

    # --- moving ----------------------------------------------------------------------------------

    def move(self, steps: int) -> None:
        """Move the cursor by rows."""
        self.window.move(steps)
        self._moved()

    def turn_page(self, direction: int) -> None:
        """Move by a screen."""
        self.window.turn_page(direction)
        self._moved()

    def scroll_lines(self, lines: int) -> None:
        """Move the screen by lines; the cursor comes along at its edges."""
        self.window.scroll(lines)
        self._moved()

    def go(self, place: Place, *, follow: bool = False) -> None:
        """Go to an end of the list; with `follow` stay at its bottom as rows come."""
        self.window.follow = follow
        self.window.go(place)
        self._moved()

    def go_lane(self, step: int) -> None:
        """Go to the next or previous lane."""
        self.window.go_lane(step)
        self._moved()

    def go_row(self, row_id: str) -> bool:
        """Put the cursor on a record if it is held; whether it is."""
        self.window.move_to(row_id)
        self._moved()
        return self.window.cursor == row_id

    def toggle_mark(self) -> None:
        """Mark the row under the cursor or take its mark away, and go on to the next."""
        self.window.toggle_mark()
        self.move(1)

    def _moved(self) -> None:
        self.sync()
        self.pump()

    # --- drawing ---------------------------------------------------------------------------------

    def sync(self) -> None:
        """Draw the lines that should look otherwise than they do; tell when the cursor's row did."""
        if not self._placed:
            return
        looks = self._looks_now()
        drawn, self._looks = self._looks, looks
        empty, self._empty_drawn = self._empty_drawn, self._empty_line(0)
        if len(looks) != len(drawn) or empty != self._empty_drawn:
            self.refresh()
        else:
            regions = self._regions_to_draw(looks, drawn)
            if regions:
                self.redraw(*regions)
        self._tell()

    def _regions_to_draw(self, looks: list[Look], drawn: list[Look]) -> list[Region]:
        """The lines that look otherwise; where only clocks do, only as far as clocks stand."""
        clocks_end, width = self._clocks_end, self.size.width
        regions: list[Region] = []
        for y, (look, before) in enumerate(zip(looks, drawn, strict=True), HEAD):
            if look == before:
                continue
            right = clocks_end if look.is_as(before) else width
            last = regions[-1] if regions else None
            if last is not None and last.bottom == y and last.width == right:
                regions[-1] = Region(0, last.y, right, last.height + 1)
            else:
                regions.append(Region(0, y, right, 1))
        return regions

    def _tell(self) -> None:
        row = self.window.current
        told = self._told
        if row is told or (row is not None and told is not None and _same_line(row, told)):
            self._told = row
            return
        moved = (row.id if row else None) != (told.id if told else None)
        self._told = row
        self.post_message(self.CursorMoved(self, row))
        if self._rest_timer is not None:
            self._rest_timer.stop()
        if moved and told is not None:
            self._rest_timer = self.set_timer(REST, self._rested)
        else:
            self._rested()

    def _rested(self) -> None:
        self._rest_timer = None
        self.post_message(self.Rested(self, self.window.current))

    def _looks_now(self) -> list[Look]:
        now = self._now or services(self).clock()
        window = self.window
        clocked = [placed.column for placed in self._placed if placed.column.clock is not None]
        looks: list[Look] = []
        for line in window.visible:
            if not isinstance(line, Row):
                looks.append(Look(line))
                continue
            clocks = tuple(column.clock(line, now) for column in clocked if column.clock)
            looks.append(
                Look(
                    line,
                    clocks,
                    line.id == window.cursor,
                    line.id in window.marks,
                    self.dimmed or line.left is not None,
                )
            )
        looks += [Look(None)] * (window.height - len(looks))
        return looks

    def render_line(self, y: int) -> Strip:
        app = services(self)
        width = self.size.width
        if y < HEAD:
            return strip(self._head(), width, app.palette)
        look = self._looks[y - HEAD] if y - HEAD < len(self._looks) else Look(None)
        match look.line:
            case Row():
                return self._row_strip(look, look.line, width)
            case Lane(title=title):
                text = fit((Span(f" {title}", Role.QUIET),), width, app.glyphs)
                return strip(text, width, app.palette)
            case _:
                return strip(self._empty_line(y - HEAD), width, app.palette)

    def _head(self) -> Line:
        spans: list[Span] = []
        at = 0
        for placed in self._placed:
            title = placed.column.title[: placed.width]
            title = title.rjust(placed.width) if placed.column.right else title.ljust(placed.width)
            spans.append(Span(" " * (placed.x - at) + title, Role.QUIET))
            at = placed.x + placed.width
        return tuple(spans)

    def _empty_line(self, y: int) -> Line:
        window = self.window
        if y or window.rows or not window.is_loaded:
            return ()
        text = self.empty if window.at_top and window.at_bottom else STILL_LOOKING
        return (Span(f"{'':{self.signs}}{text}", Role.QUIET),)

    def _row_strip(self, look: Look, row: Row, width: int) -> Strip:
        """A row as drawn. What time leaves alone is kept; clocks are put in each time."""
        key = (row.id, look.cursor, look.marked, look.dim)
        kept = self._kept.get(key)
        if kept is None or not _same_line(kept[0], row):
            kept = self._kept[key] = (row, self._pieces(look, row, width))
            if len(self._kept) > ROWS_KEPT:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(key)
        drawn: list[Segment] = []
        clocks = iter(look.clocks)
        for piece in kept[1]:
            if isinstance(piece, Placed):
                drawn += self._cell(piece, next(clocks), look)
            else:
                drawn += piece
        return Strip(drawn, width)

    def _pieces(self, look: Look, row: Row, width: int) -> list[list[Segment] | Placed]:
        """A row's segments, with the columns that have clocks left open."""
        app = services(self)
        glyphs, palette = app.glyphs, app.palette
        ground = palette.style(Role.VALUE, cursor=look.cursor)
        fixed = [
            Segment(
                glyphs.cursor if look.cursor else " ",
                palette.style(Role.YOURS, cursor=look.cursor),
            ),
            Segment(
                (glyphs.mark if look.marked else " ").ljust(self.signs - 1),
                palette.style(Role.NEEDS, cursor=look.cursor),
            ),
        ]
        pieces: list[list[Segment] | Placed] = []
        at = self.signs
        for placed in self._placed:
            fixed.append(Segment(" " * (placed.x - at), ground))
            at = placed.x + placed.width
            if placed.column.clock is None:
                fixed += self._cell(placed, row.cells.get(placed.column.name, ()), look)
                continue
            pieces += [_merged(fixed), placed]
            fixed = []
        fixed.append(Segment(" " * max(0, width - at), ground))
        return [*pieces, _merged(fixed)]

    def _cell(self, placed: Placed, cell: Line, look: Look) -> list[Segment]:
        """One cell, exactly as wide as its column. Clocks read alike often, so they are kept."""
        key = (cell, placed.width, placed.column.right, look.cursor, look.dim)
        kept = self._cells.get(key)
        if kept is None:
            if len(self._cells) > CELLS_KEPT:
                self._cells.clear()
            kept = self._cells[key] = self._draw_cell(placed, cell, look)
        return kept

    def _draw_cell(self, placed: Placed, cell: Line, look: Look) -> list[Segment]:
        app = services(self)
        cell = (placed.column.cut or fit)(cell, placed.width, app.glyphs)
        if look.dim:
            cell = tuple(Span(span.text, Role.QUIET) for span in cell)
        pad = Segment(
            " " * (placed.width - width_of(cell)),
            app.palette.style(Role.VALUE, cursor=look.cursor),
        )
        drawn = segments(cell, app.palette, cursor=look.cursor)
        return _merged([pad, *drawn] if placed.column.right else [*drawn, pad])

    # --- layout, mouse ---------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """The columns that fit, and the number of lines, are new."""
        self._placed = place_columns(self.columns, self.signs, event.size.width)
        self._clocks_end = max(
            (placed.x + placed.width for placed in self._placed if placed.column.clock), default=0
        )
        self.window.resize(event.size.height - HEAD)
        self._forget_drawings()
        self._looks = []
        self.sync()
        self.pump()

    def _forget_drawings(self) -> None:
        self._kept.clear()
        self._cells.clear()

    def restyle(self) -> None:
        """The theme or the signs changed."""
        self._forget_drawings()
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor; it never opens or answers anything."""
        row = self.window.row_at(event.y - HEAD)
        if row is not None:
            self.window.follow = False
            self.window.move_to(row.id)
            self._moved()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)


def place_columns(columns: Sequence[Column], gutter: int, width: int) -> tuple[Placed, ...]:
    """The columns that fit, from the left; those with the lowest `drop` give way first."""
    kept = list(columns)

    def needed() -> int:
        return gutter + sum(column.width + 1 for column in kept) - 1

    while needed() > width:
        droppable = [column for column in kept if column.drop is not None]
        if not droppable:
            break
        kept.remove(min(droppable, key=lambda column: column.drop or 0))
    spare = max(0, width - needed())
    placed: list[Placed] = []
    x = gutter
    for column in kept:
        cells = column.width + (spare if column.flexible else 0)
        cells = max(0, min(cells, width - x))
        placed.append(Placed(column, x, cells))
        x += cells + 1
    return tuple(placed)
