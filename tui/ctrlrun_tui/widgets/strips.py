"""Lines of spans as the strips that Textual draws: measured, cut, padded, and never markup."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.frames import paint
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.services import services
from ctrlrun_tui.theme import Palette

MARGIN = 1
"""Cells left free at both edges of the screen."""


def width_of(line: Line) -> int:
    """How many cells a line takes."""
    return sum(cell_len(span.text) for span in line)


def guarded(text: str, glyphs: Glyphs) -> str:
    """A text that cannot hurt the terminal, whoever forgot to pass it through `said`."""
    return text if text.isprintable() else glyphs.said(text)


def fit(line: Line, width: int, glyphs: Glyphs) -> Line:
    """A line in at most `width` cells: its longest span is cut in the middle."""
    if not all(span.text.isprintable() for span in line):
        line = tuple(Span(guarded(span.text, glyphs), span.role) for span in line)
    excess = width_of(line) - width
    while excess > 0:
        longest = max(range(len(line)), key=lambda index: cell_len(line[index].text))
        have = cell_len(line[longest].text)
        if have <= 1:
            return line[: max(0, len(line) - excess)]
        kept = Span(glyphs.cut(line[longest].text, max(1, have - excess)), line[longest].role)
        line = (*line[:longest], kept, *line[longest + 1 :])
        excess = width_of(line) - width
    return line


def spread(left: Line, right: Line, width: int, glyphs: Glyphs) -> Line:
    """`left` at the left edge and `right` at the right one; where both do not fit, left is cut."""
    right = fit(right, width, glyphs)
    gap = 1 if left and right else 0
    left = fit(left, max(0, width - width_of(right) - gap), glyphs)
    return (*left, Span(" " * (width - width_of(left) - width_of(right))), *right)


def segments(line: Line, palette: Palette, *, cursor: bool = False) -> list[Segment]:
    """A line's spans in the styles of their roles."""
    return [
        Segment(span.text, palette.style(span.role, cursor=cursor)) for span in line if span.text
    ]


def strip(line: Line, width: int, palette: Palette, *, cursor: bool = False) -> Strip:
    """A line that was fitted, as a strip of exactly `width` cells."""
    ground = palette.style(Role.VALUE, cursor=cursor)
    return Strip(segments(line, palette, cursor=cursor)).adjust_cell_length(width, ground)


class Drawn(Widget, inherit_bindings=False):
    """A widget that draws its own lines, in styles of the palette, edge to edge.

    It has no border, padding or opacity, so Textual's styling of lines (half of what a tick of
    forty countdowns costs) has nothing to add: lines go to the compositor as they are, and are kept
    until they are refreshed.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn_lines: dict[int, Strip] = {}

    def _set_dirty(self, *regions: Region) -> None:
        if regions:
            for region in regions:
                for y in region.line_range:
                    self._drawn_lines.pop(y, None)
        else:
            self._drawn_lines.clear()
        super()._set_dirty(*regions)

    def redraw(self, *regions: Region) -> None:
        """Draw these parts anew, at once where nothing else is about to be drawn."""
        for region in regions:
            for y in region.line_range:
                self._drawn_lines.pop(y, None)
        if not paint(self, regions):
            self.refresh(*regions)

    def render_lines(self, crop: Region) -> list[Strip]:
        kept = self._drawn_lines
        strips: list[Strip] = []
        for y in crop.line_range:
            drawn = kept.get(y)
            if drawn is None:
                drawn = kept[y] = self.render_line(y)
            strips.append(drawn)
        if crop.x or crop.width != self.size.width:
            strips = [each.crop(crop.x, crop.right) for each in strips]
        return strips


class OneLine(Drawn, inherit_bindings=False):
    """A widget of one line, drawn from spans. It takes no focus and no part in the mouse."""

    DEFAULT_CSS = """
    OneLine { height: 1; width: 100%; }
    """
    can_focus = False
    has_clock = False  # whether time alone changes what it says
    drawn: Line | None = None

    def line(self, width: int) -> Line:
        """What the line says in that width, margins taken off."""
        raise NotImplementedError

    def render_line(self, y: int) -> Strip:
        app = services(self)
        width = self.size.width
        line = fit(self.line(max(0, width - 2 * MARGIN)), width - 2 * MARGIN, app.glyphs)
        return strip((Span(" " * MARGIN), *line), width, app.palette)

    def renew(self) -> None:
        """Draw again if the line says something else than it does on the screen."""
        if not self.is_attached:  # a tick that came while the screen is taken apart
            return
        line = self.line(max(0, self.size.width - 2 * MARGIN))
        if line != self.drawn:
            self.drawn = line
            self.redraw(self.size.region)
