"""The one list of the console: any number of rows, drawn a line at a time, a page at a time held.

It draws a `Window` and knows no store: what should be read it posts as `Asked`, and is handed the
answer. It scrolls by itself, without Textual's scrollbars, because a page that arrives moves rows
and screen in one step. Every change of any kind ends in `sync`, which compares what each line
should be with what it is and draws only those that differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.timer import Timer

from ctrlrun_tui.data.models import Column, Lane, Line, Role, Row, Span
from ctrlrun_tui.data.sources import TOP, Answer, Place, Request
from ctrlrun_tui.data.unread import unread_span
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.pages import Pages
from ctrlrun_tui.widgets.rows import Drawing, Look, same_line
from ctrlrun_tui.widgets.strips import Drawn, fit, strip
from ctrlrun_tui.widgets.window import Window

REST = 0.1
"""Seconds that the cursor rests before the detail follows it."""

STILL_LOOKING = "nothing so far, looking through the rest"
"""What an empty list says while a search has not seen all of it."""

AS_READ = ", as it was read last"
"""Added to what an empty list says while nobody knows whether it still is."""

HEAD = 1
"""Lines of the column names."""


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
        self.unread = ""  # why it could not be read the last time
        self._empty_drawn: Line = ()
        self.dimmed = False
        self._now: datetime | None = None
        self.drawing: Drawing | None = None  # None before there is a width
        self._looks: list[Look] = []
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
        if self.drawing is None:  # not laid out: the number of rows to read is not known
            return
        request = self.window.next_request()
        if request is not None:
            self.post_message(self.Asked(self, request))

    def take(self, answer: Answer) -> None:
        """Take what was read."""
        taken = self.window.take(answer)
        if taken is None:
            return
        self.unread = ""
        if taken.dropped:
            self.post_message(self.MarksLeft(self, taken.dropped))
        self.sync()
        self.pump()

    def failed(self, request: Request, why: str) -> None:
        """What was asked could not be read; what is on the screen stays. `why` is safe to show."""
        self.window.failed(request.number)
        self.unread = why
        self.sync()

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
        if self.drawing is None:
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
        width = self.size.width
        clocks_end = width if self.drawing is None else self.drawing.clocks_end
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
        if row is told or (row is not None and told is not None and same_line(row, told)):
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
        clocked = () if self.drawing is None else self.drawing.clocked
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
            head = () if self.drawing is None else self.drawing.head()
            return strip(head, width, app.palette)
        look = self._looks[y - HEAD] if y - HEAD < len(self._looks) else Look(None)
        match look.line:
            case Row() if self.drawing is not None:
                return self.drawing.strip(look, look.line)
            case Lane(title=title):
                text = fit((Span(f" {title}", Role.QUIET),), width, app.glyphs)
                return strip(text, width, app.palette)
            case _:
                text = fit(self._empty_line(y - HEAD), width, app.glyphs)
                return strip(text, width, app.palette)

    def _empty_line(self, y: int) -> Line:
        """What stands in place of rows: nothing that was not read is called empty."""
        window = self.window
        if y or window.rows:
            return ()
        live, signs = services(self).live, Span(" " * self.signs)
        if not window.is_loaded:
            return (signs, unread_span(live, self.unread))
        if not (window.at_top and window.at_bottom):
            return (signs, Span(STILL_LOOKING, Role.QUIET))
        then = "" if live.is_live else AS_READ
        return (signs, Span(f"{self.empty}{then}", Role.QUIET))

    # --- layout, mouse ---------------------------------------------------------------------------

    def on_resize(self, event: events.Resize) -> None:
        """The columns that fit, and the number of lines, are new."""
        app = services(self)
        self.drawing = Drawing(self.columns, self.signs, event.size.width, app.glyphs, app.palette)
        self.window.resize(event.size.height - HEAD)
        self._looks = []
        self.sync()
        self.pump()

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
