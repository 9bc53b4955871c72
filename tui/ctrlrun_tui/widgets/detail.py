"""The detail of the record under the cursor: beneath the list, beside it, or whole.

It lays out a `Detail` for its own width and knows nothing of what it says. Values that are too
long are cut in the middle, with their length, until somebody asks for the whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from textual import events
from textual.geometry import Region
from textual.strip import Strip

from ctrlrun.text import cell_width, wrapped
from ctrlrun_tui.cards.sheet import BETWEEN, GUTTER, LABEL, lay
from ctrlrun_tui.data.models import (
    Clocked,
    Detail,
    DetailLine,
    Fact,
    Line,
    Pair,
    Prose,
    Role,
    Span,
    Verbatim,
)
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import MARGIN, Drawn, fit, spread, strip, width_of


@dataclass(frozen=True, slots=True)
class Laid:
    """One line as it is drawn; `clocked` makes it anew each second."""

    line: Line
    clocked: Clocked | None = None


class DetailPane(Drawn, inherit_bindings=False):
    """A pane that shows one `Detail`, scrolls by lines, and can take the focus."""

    DEFAULT_CSS = """
    DetailPane { height: 1fr; width: 1fr; }
    """
    can_focus = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.detail: Detail | None = None
        self.whole = False
        self.beside = False  # the list stands to the left: a title instead of a rule
        self.dimmed = False
        self._lines: tuple[Laid, ...] = ()
        self._top = 0
        self._now: datetime | None = None

    # --- what the screen calls -------------------------------------------------------------------

    def show(self, detail: Detail | None) -> None:
        """Show this record from now on; the same record keeps its place."""
        if detail is not None and self.detail is not None and detail == self.detail:
            return
        if detail is None or self.detail is None or detail.id != self.detail.id:
            self._top = 0
            self.whole = False
        self.detail = detail
        self._lay()

    def set_whole(self, *, whole: bool) -> None:
        """Show every value in full, or cut long ones."""
        self.whole = whole
        self._lay()

    def set_beside(self, *, beside: bool) -> None:
        """Stand beside the list, or beneath it."""
        if beside != self.beside:
            self.beside = beside
            self._lay()

    def dim(self, *, dimmed: bool) -> None:
        """Show it as stale, or as fresh again."""
        if dimmed != self.dimmed:
            self.dimmed = dimmed
            self.refresh()

    def tick(self, now: datetime) -> None:
        """Draw the lines that read otherwise now."""
        self._now = now
        lines = list(self._lines)
        regions: list[Region] = []
        for index, laid in enumerate(lines):
            if laid.clocked is None:
                continue
            line = self._clocked(laid.clocked)
            if line != laid.line:
                lines[index] = Laid(line, laid.clocked)
                y = index - self._top
                if 0 <= y < self._room:
                    regions.append(Region(0, y + 1, self.size.width, 1))
        self._lines = tuple(lines)
        if regions:
            self.redraw(*regions)

    def scroll_lines(self, lines: int) -> None:
        """Move by lines."""
        self._scroll_to_line(self._top + lines)

    def turn_page(self, direction: int) -> None:
        """Move by a screen."""
        self.scroll_lines(direction * max(1, self._room - 1))

    def go_end(self, *, bottom: bool) -> None:
        """Move to the first or last line."""
        self._scroll_to_line(len(self._lines) if bottom else 0)

    # --- layout ----------------------------------------------------------------------------------

    @property
    def _room(self) -> int:
        return max(0, self.size.height - 1)

    @property
    def _inner(self) -> int:
        return max(1, self.size.width - (0 if self.beside else 2 * MARGIN))

    @property
    def shown(self) -> Detail | None:
        """What is shown of the detail: whole, beside the list, or beneath it."""
        detail = self.detail
        if detail is None:
            return None
        if self.whole and detail.whole is not None:
            return detail.whole
        return detail.beside if self.beside and detail.beside is not None else detail

    def _scroll_to_line(self, top: int) -> None:
        top = max(0, min(top, len(self._lines) - self._room))
        if top != self._top:
            self._top = top
            self.refresh()

    def _lay(self) -> None:
        shown = self.shown
        if shown is not None and self.size.width:
            glyphs = services(self).glyphs
            self._lines = tuple(
                laid for item in shown.lines for laid in self._laid(item, self._inner, glyphs)
            )
        else:
            self._lines = ()
        self._top = max(0, min(self._top, len(self._lines) - self._room))
        self.refresh()

    def _laid(self, item: DetailLine, width: int, glyphs: Glyphs) -> Iterator[Laid]:
        match item:
            case Clocked():
                yield Laid(self._clocked(item), item)
            case Pair():
                yield from (Laid(line) for line in lay_pair(item, width))
            case Verbatim():
                yield from (Laid(line) for line in lay_verbatim(item, width))
            case Fact(whole=False) if not self.whole:
                yield Laid(cut_fact(item, width, glyphs))
            case Fact() | Prose():
                yield from (Laid(each.line) for each in lay([item], width))

    def _clocked(self, item: Clocked) -> Line:
        line = item.make(self._now or services(self).clock())
        return fit(line, self._inner, services(self).glyphs)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out for the new width."""
        self._lay()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_lines(3)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_lines(-3)

    # --- drawing ---------------------------------------------------------------------------------

    def render_line(self, y: int) -> Strip:
        app = services(self)
        width = self.size.width
        if y == 0:
            line = self._title(width, app.glyphs)
        else:
            line = self._body_line(y - 1)
            line = (Span(" " * (0 if self.beside else MARGIN)), *line)
        if self.dimmed:
            line = tuple(Span(span.text, Role.QUIET) for span in line)
        return strip(fit(line, width, app.glyphs), width, app.palette)

    def _body_line(self, y: int) -> Line:
        index = self._top + y
        below = len(self._lines) - index - 1
        if y == self._room - 1 and below > 0 and not self.has_focus:
            more = f"{services(self).glyphs.middle} {below + 1} more lines, Enter shows them"
            return (Span(" " * GUTTER), Span(more, Role.QUIET))
        return self._lines[index].line if index < len(self._lines) else ()

    def _title(self, width: int, glyphs: Glyphs) -> Line:
        detail = self.shown
        if self.beside:
            if detail is None:
                return ()
            return (Span(" "), *spread(detail.title, detail.remark, width - 1, glyphs))
        return rule(detail, width, glyphs, focused=self.has_focus)

    def on_focus(self) -> None:
        """The rule shows where the keys go."""
        self.refresh()

    def on_blur(self) -> None:
        """The rule shows where the keys go."""
        self.refresh()


def rule(detail: Detail | None, width: int, glyphs: Glyphs, *, focused: bool = False) -> Line:
    """The titled line between list and detail."""
    role = Role.YOURS if focused else Role.FAINT
    if detail is None or not detail.title:
        return (Span(glyphs.rule * width, role),)
    ends = 2 * (2 + 1)  # `── ` and ` ──`
    beside_title = width - ends - width_of(detail.title) - 4
    remark = fit(detail.remark, max(0, width // 2, beside_title), glyphs)
    extra = width_of(remark) + 2 if remark else 0
    title = fit(detail.title, max(1, width - ends - extra - 1), glyphs)
    between = width - ends - width_of(title) - (width_of(remark) + 1 if remark else 0) - 1
    return (
        Span(glyphs.rule * 2 + " ", role),
        *title,
        Span(" " + glyphs.rule * max(1, between), role),
        *((Span(" "), *remark) if remark else ()),
        Span(" " + glyphs.rule * 2, role),
    )


def cut_fact(fact: Fact, width: int, glyphs: Glyphs) -> Line:
    """A fact on one line: a value that does not fit is cut, and says how long it is."""
    sign = fit(fact.sign, GUTTER, glyphs)
    label_cells = fact.label_cells or LABEL
    label = glyphs.cut(fact.label, label_cells - 1)
    room = width - GUTTER - label_cells
    remark = fact.remark
    value = fact.value
    if width_of(value) + (BETWEEN + width_of(remark) if remark else 0) > room:
        remark = fit(remark, room // 2, glyphs) if width_of(value) < room // 2 else ()
    if width_of(value) > room - (BETWEEN + width_of(remark) if remark else 0):
        length = sum(len(span.text) for span in value)
        remark = (Span(f"{length} characters, v", Role.QUIET),)
        value = fit(value, max(1, room - BETWEEN - width_of(remark)), glyphs)
    start: Line = (
        *sign,
        Span(" " * (GUTTER - width_of(sign))),
        Span(label + " " * (label_cells - cell_width(label)), Role.QUIET),
    )
    gap = room - width_of(value) - width_of(remark)
    return (*start, *value, *((Span(" " * gap), *remark) if remark else ()))


HANGS = 2
"""Cells by which the rest of a line that went on below stands further in."""

RIGHT_COLUMN = 20
"""Cells that the right column of two has at least: an amount with its money."""


def lay_verbatim(item: Verbatim, width: int) -> Iterator[Line]:
    """A line with its indentation; its rest hangs below it."""
    text = item.text.lstrip(" ")
    indent = min(len(item.text) - len(text), width // 2)
    first, *rest = wrapped(text, max(2, width - indent))
    yield (Span(" " * indent + first),)
    hanging = indent + HANGS
    for piece in wrapped("".join(rest), max(2, width - hanging)) if rest else ():
        yield (Span(" " * hanging + piece),)


def lay_pair(pair: Pair, width: int) -> Iterator[Line]:
    """A field in two columns; one that is equal and wide runs across, a differing one wraps.

    In a narrow pane the labels give a cell to the columns, and the left one to the right, where
    amounts with their money stand.
    """
    label_width = LABEL if width - GUTTER - LABEL >= 2 * RIGHT_COLUMN else LABEL - 1
    if pair.bar and cell_width(pair.label) != label_width - 1:  # where it costs no line of its own
        pair = replace(pair, label=f" {pair.label}")
    room = max(4, width - GUTTER - label_width)
    left_width = max(room // 3, min(room // 2, room - RIGHT_COLUMN))
    right_width = room - left_width
    left: list[Line] = _column(pair.left, left_width - 1)
    right: list[Line] = _column(pair.right, right_width)
    if pair.left == pair.right and width_of(pair.left) >= left_width:
        left, right = _column(pair.left, room), []
    labels = wrapped(pair.label, label_width - 1)
    if len(labels) > max(len(left), len(right)):  # a path: on lines of its own
        labels = wrapped(pair.label, width - GUTTER)
        above: list[Line] = [()] * len(labels)
        left, right = above + left, above + right
    between_signs = Span(" " * max(0, GUTTER - width_of(pair.sign) - width_of(pair.bar)))
    gutter: Line = (*pair.sign, between_signs, *pair.bar)
    below: Line = (Span(" " * (GUTTER - width_of(pair.bar))), *pair.bar)
    for index in range(max(len(left), len(right), len(labels))):
        one = left[index] if index < len(left) else ()
        other = right[index] if index < len(right) else ()
        label = labels[index] if index < len(labels) else ""
        between = left_width - width_of(one)
        yield (
            *gutter,
            Span(label + " " * max(0, label_width - cell_width(label)), Role.QUIET),
            *one,
            *((Span(" " * between), *other) if other else ()),
        )
        gutter = below


def _column(line: Line, width: int) -> list[Line]:
    """A value in lines of a width, broken anywhere, each piece in its role."""
    width = max(2, width)
    lines: list[Line] = [()]
    for span in line:
        if cell_width(span.text) <= width - width_of(lines[-1]):
            lines[-1] = (*lines[-1], span)
            continue
        pieces = wrapped(span.text.lstrip(" "), width)
        lines += [(Span(piece, span.role),) for piece in pieces]
    return [each for each in lines if each] or [()]
