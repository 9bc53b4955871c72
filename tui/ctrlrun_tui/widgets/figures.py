"""A page of figures with one cursor over all of them, in one column or several.

It draws `PageLine`s and knows nothing of what they say. The cursor stands on a row, and on one of
its numbers; both are names, so a page that is made anew, or in another width, keeps it.
"""

from __future__ import annotations

from textual import events
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip

from ctrlrun_tui.data.figures import LayPage, Number, PageColumn, Spot
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import Drawn, fit, strip

SCROLLED = 3
"""Lines that a turn of the wheel moves."""


Look = tuple[int, str | None, str | None, str]
"""A line of a column: its index, the row and the number under the cursor if it has them, its arrow."""


class FiguresPage(Drawn, inherit_bindings=False):
    """Lines with numbers that can be opened."""

    DEFAULT_CSS = """
    FiguresPage { height: 1fr; width: 1fr; }
    """
    can_focus = True

    class CursorMoved(Message):
        """The cursor is on another number."""

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, FiguresPage.CursorMoved)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.columns: tuple[PageColumn, ...] = ()
        self.dimmed = False
        self.row: str | None = None
        self.number: str | None = None
        self._starts_at: str | None = None
        self._moved_by_hand = False
        self._stay_at: int | None = None
        self._lay: LayPage | None = None
        self._tops: list[int] = []
        self._order: list[str] = []
        self._spots: dict[str, list[tuple[int, int, Spot]]] = {}  # column, line
        self._shown: list[Strip] = []
        self._kept: dict[tuple[Look, ...], Strip] = {}

    # --- what the screen calls -------------------------------------------------------------------

    def show(self, lay: LayPage, *, starts_at: str | None = None) -> None:
        """Show this page. The cursor keeps its row, wherever that stands by now; at first it is put
        on the first row of the part `starts_at`, once that is there and on the first screen."""
        self._lay, self._starts_at = lay, starts_at
        self._lay_out()

    def dim(self, *, dimmed: bool) -> None:
        """Show it as stale, or as fresh again."""
        if dimmed != self.dimmed:
            self.dimmed = dimmed
            self._kept.clear()
            self.sync()

    def stay_at_place(self) -> None:
        """At the next layout the cursor stands on the row that takes the place of its own."""
        if self.row in self._order:
            self._stay_at = self._order.index(self.row)

    def go_to(self, row: str | None) -> None:
        """Put the cursor on a row, if it is there."""
        if row in self._spots:
            self._go(row)

    @property
    def spot(self) -> Spot | None:
        """The row under the cursor, with the numbers of all its lines."""
        places = self._spots.get(self.row or "")
        if not places:
            return None
        spot = places[0][2]
        numbers = tuple(number for *_, each in places for number in each.numbers)
        return Spot(spot.id, spot.part, spot.x, spot.width, numbers, spot.bar, spot.acts)

    @property
    def current(self) -> Number | None:
        """The number under the cursor."""
        spot = self.spot
        for number in () if spot is None else spot.numbers:
            if number.name == self.number:
                return number
        return None

    @property
    def _part(self) -> str | None:
        places = self._spots.get(self.row or "")
        return places[0][2].part if places else None

    # --- moving ----------------------------------------------------------------------------------

    def move(self, steps: int) -> None:
        """Move by rows, over all columns."""
        if self._order:
            here = self._order.index(self.row) if self.row in self._order else 0
            self._go(self._order[max(0, min(here + steps, len(self._order) - 1))])

    def turn_page(self, direction: int) -> None:
        """Move to the next part of the page, but by no more than a screen."""
        if self.row not in self._order:
            return
        here = self._order.index(self.row)
        most = max(1, self.size.height - 2)
        parts = [self._spots[row][0][2].part for row in self._order]
        target = here
        for _ in range(most):
            if not 0 <= target + direction < len(self._order):
                break
            target += direction
            begins = target == 0 or parts[target] != parts[target - 1]
            if begins and (direction < 0 or parts[target] != parts[here]):
                break
        self._go(self._order[target])

    def go_end(self, *, bottom: bool) -> None:
        """To the first or last row."""
        if self._order:
            self._go(self._order[-1 if bottom else 0])

    def turn_number(self, step: int) -> None:
        """To the next number of the row, round at its end."""
        spot = self.spot
        if spot is None or not spot.numbers:
            return
        names = [number.name for number in spot.numbers]
        here = names.index(self.number) if self.number in names else 0
        self.number = names[(here + step) % len(names)]
        self._moved()

    def scroll_lines(self, lines: int, x: int = 0) -> None:
        """Move the column at `x` by lines; the cursor comes along when it would leave the screen."""
        index = self._column_at(x)
        column = self.columns[index]
        self._tops[index] = self._clamped(index, self._tops[index] + lines)
        top = self._tops[index]
        places = self._spots.get(self.row or "", [])
        if any(at == index and not top <= y < top + self.size.height for at, y, _ in places):
            shown = [
                spot.id
                for line in column.lines[top : top + self.size.height]
                for spot in line.spots
            ]
            if shown:
                self.row = shown[0 if lines > 0 else -1]
                self._keep_number()
        self._moved_by_hand = True
        self.sync()

    def _go(self, row: str) -> None:
        if self._spots[row][0][2].part != self._part:
            self.number = None
        self.row = row
        self._keep_number()
        self._moved()

    def _moved(self) -> None:
        self._moved_by_hand = True
        self._show_cursor()
        self.sync()
        self.post_message(self.CursorMoved())

    def _keep_number(self) -> None:
        """The number of that name in the row, else its first."""
        spot = self.spot
        names = [] if spot is None else [number.name for number in spot.numbers]
        if self.number not in names:
            self.number = names[0] if names else None

    # --- layout ----------------------------------------------------------------------------------

    def _lay_out(self) -> None:
        width, height = self.size
        if self._lay is None or not width or not height:
            return
        self.columns = self._lay(width, height)
        self._kept.clear()
        self._tops = [*self._tops, *[0] * len(self.columns)][: len(self.columns)]
        places = [
            (at, y, spot)
            for at, column in enumerate(self.columns)
            for y, line in enumerate(column.lines)
            for spot in line.spots
        ]
        self._find_order(places)
        self._place_cursor(places)
        self.sync()

    def _find_order(self, places: list[tuple[int, int, Spot]]) -> None:
        """Rows in the order of their parts, and where each stands."""
        before, self._spots, parts = self._order, {}, []
        for place in places:
            spot = place[2]
            self._spots.setdefault(spot.id, []).append(place)
            if spot.part not in parts:
                parts.append(spot.part)
        self._order = [
            row for part in parts for row in self._spots if self._spots[row][0][2].part == part
        ]
        if self._stay_at is not None and self._order:
            self.row = self._order[min(self._stay_at, len(self._order) - 1)]
            self._stay_at = None
        elif self.row is not None and self.row not in self._spots:
            self.row = self._nearest(before)

    def _nearest(self, before: list[str]) -> str | None:
        """Where the cursor goes when its row has left: to what stood nearest to it."""
        here = before.index(self.row) if self.row in before else 0
        for row in (*before[here + 1 :], *reversed(before[:here])):
            if row in self._spots:
                return row
        return None

    def _place_cursor(self, places: list[tuple[int, int, Spot]]) -> None:
        if self.row is None or (not self._moved_by_hand and self._part != self._starts_at):
            height = self.size.height
            first = [
                spot.id for _, y, spot in places if spot.part == self._starts_at and y < height
            ]
            self.row = next(iter(first or self._order), None)
            self._tops = [0] * len(self.columns)
            self.number = None
        self._keep_number()
        self._tops = [self._clamped(at, top) for at, top in enumerate(self._tops)]
        self._show_cursor()

    def _show_cursor(self) -> None:
        """Bring the row on the screen, with the heading above it, and what ends its column."""
        places = self._spots.get(self.row or "")
        if not places:
            return
        at, first, _ = places[0]
        last = places[-1][1]
        lines, height = self.columns[at].lines, self.size.height
        while first > 0 and not lines[first - 1].spots:
            first -= 1
        if not any(line.spots for line in lines[last + 1 :]):
            last = len(lines) - 1
        top = min(self._tops[at], first)
        top = max(top, min(last, places[0][1] + height - 1) - height + 1)
        top = min(top, places[0][1])
        self._tops[at] = self._clamped(at, top)

    def _clamped(self, at: int, top: int) -> int:
        return max(0, min(top, len(self.columns[at].lines) - self.size.height))

    def _column_at(self, x: int) -> int:
        starts = [at for at, column in enumerate(self.columns) if column.x <= x]
        return starts[-1] if starts else 0

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new size."""
        self._lay_out()

    # --- drawing ---------------------------------------------------------------------------------

    def sync(self) -> None:
        """Draw the lines that should look otherwise than they do."""
        if not self.size.width or self._lay is None:
            return
        before, self._shown = self._shown, [self._strip(y) for y in range(self.size.height)]
        if len(before) != len(self._shown):
            self.refresh()
            return
        changed = [
            Region(0, y, self.size.width, 1)
            for y, (new, old) in enumerate(zip(self._shown, before, strict=True))
            if new is not old and new != old
        ]
        if changed:
            self.redraw(*changed)

    def render_line(self, y: int) -> Strip:
        if y < len(self._shown):
            return self._shown[y]
        return Strip.blank(self.size.width, services(self).palette.style(Role.VALUE))

    def _strip(self, y: int) -> Strip:
        """A line of the screen; as long as it looks the same it is drawn once."""
        look = tuple(self._look(at, y) for at in range(len(self.columns)))
        kept = self._kept.get(look)
        if kept is None:
            kept = self._kept[look] = self._drawn(look)
        return kept

    def _look(self, at: int, y: int) -> Look:
        """All that a line of a column depends on: which it is, the cursor, and the arrow."""
        lines, top = self.columns[at].lines, self._tops[at]
        index = top + y
        lit = index < len(lines) and any(spot.id == self.row for spot in lines[index].spots)
        return index, self.row if lit else None, self.number if lit else None, self._arrow(at, y)

    def _arrow(self, at: int, y: int) -> str:
        """At the edge of a column that goes on above or below the screen."""
        glyphs = services(self).glyphs
        height, top = self.size.height, self._tops[at]
        if y == 0 and top > 0:
            return glyphs.up
        return glyphs.down if y == height - 1 and top + height < len(self.columns[at].lines) else ""

    def _drawn(self, look: tuple[Look, ...]) -> Strip:
        app = services(self)
        drawn: list[Strip] = []
        x = 0
        for column, (index, row, _, arrow) in zip(self.columns, look, strict=True):
            if column.x > x:
                side: Line = (Span(f" {app.glyphs.side} ".center(column.x - x), Role.FAINT),)
                drawn.append(strip(side, column.x - x, app.palette))
            made = self._column_strip(column, index, lit=row is not None)
            if arrow:
                edge = strip((Span(arrow, Role.YOURS),), 1, app.palette)
                made = Strip.join([made.crop(0, column.width - 1), edge])
            drawn.append(made)
            x = column.x + column.width
        drawn.append(Strip.blank(self.size.width - x, app.palette.style(Role.VALUE)))
        return Strip.join(drawn)

    def _column_strip(self, column: PageColumn, index: int, *, lit: bool) -> Strip:
        app = services(self)
        line = column.lines[index] if index < len(column.lines) else None
        text = () if line is None else line.text
        if self.dimmed:
            text = tuple(Span(span.text, Role.QUIET) for span in text)
        text = fit(text, column.width, app.glyphs)
        drawn = strip(text, column.width, app.palette)
        for spot in line.spots if lit and line is not None else ():
            if spot.id == self.row:
                drawn = self._lit(drawn, strip(text, column.width, app.palette, cursor=True), spot)
        return drawn

    def _lit(self, plain: Strip, lit: Strip, spot: Spot) -> Strip:
        """A line with the cursor on a row of it."""
        glyphs = services(self).glyphs
        if spot.bar:
            plain = _put(plain, lit, spot.x, spot.width)
            plain = self._sign(plain, spot.x, glyphs.cursor)
        one_of_several = len(spot.numbers) > 1 or not spot.bar
        for number in spot.numbers:
            if number.name == self.number and one_of_several:
                plain = _put(plain, lit, number.x, number.width)
                plain = self._sign(plain, number.x - 1, glyphs.cursor)
        return plain

    def _sign(self, drawn: Strip, x: int, sign: str) -> Strip:
        palette = services(self).palette
        cell = strip((Span(sign, Role.YOURS),), 1, palette, cursor=True)
        return Strip.join([drawn.crop(0, x), cell, drawn.crop(x + 1)])

    # --- mouse -----------------------------------------------------------------------------------

    def on_click(self, event: events.Click) -> None:
        """A click puts the cursor; it never opens anything."""
        index = self._column_at(event.x)
        if index >= len(self.columns):
            return
        column = self.columns[index]
        y, x = self._tops[index] + event.y, event.x - column.x
        for spot in column.lines[y].spots if y < len(column.lines) else ():
            if spot.x <= x < spot.x + spot.width:
                self.row = spot.id
                under = [each for each in spot.numbers if each.x <= x < each.x + each.width]
                self.number = under[0].name if under else self.number
                self._keep_number()
                self._moved()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(SCROLLED, event.x)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-SCROLLED, event.x)


def _put(plain: Strip, lit: Strip, x: int, width: int) -> Strip:
    """Some cells of a strip taken from another one."""
    return Strip.join([plain.crop(0, x), lit.crop(x, x + width), plain.crop(x + width)])
