"""Frames, thinned: of what Textual draws, only the cells that changed go to the terminal.

Textual sends whole stretches of lines, each piece with its full colours. Over ssh that is the
difference between fine and unusable: forty countdowns cost 6 kB/s so, and under 1 kB/s as cells. A
`Screen` remembers what the terminal shows; what it does not understand it passes on untouched and
forgets everything, so that a wrong guess costs bytes and never a wrong picture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from rich.cells import cell_len
from textual.driver import Driver
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget

_TOKEN = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H"
    r"|\x1b\[(?P<style>[\d;]*)m"
    r"|(?P<quiet>\x1b\[\?2026[hl]|\x1b\[6n|\x1b\][^\x07\x1b]*\x07|\x07)"
    r"|(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|(?P<line>[\r\n]+)"
    r"|(?P<other>[\s\S])"
)
_BRIDGE = 6
"""Unchanged cells that are cheaper to send again than to jump over."""

_PLAIN = ""


Cell = tuple[str, str]
"""A text and its style; the empty text is the second half of a wide character."""


class Shown:
    """What the terminal shows, as far as it is known."""

    def __init__(self) -> None:
        self._lines: dict[int, _ShownLine] = {}
        self._position: tuple[int, int] | None = None

    def forget(self) -> None:
        """Nothing is known: the next frame is sent as it comes."""
        self._lines.clear()
        self._position = None

    def thin(self, data: str) -> str:
        """The part of a write that changes the terminal."""
        tokens = list(_TOKEN.finditer(data))
        kinds = {token.lastgroup for token in tokens}
        if "other" in kinds or "column" not in kinds:
            if kinds != {"quiet"}:
                self.forget()
            return data
        sent: list[str] = []
        lines: dict[int, _Writing] = {}
        x = y = 0
        style = _PLAIN
        for token in tokens:
            kind = token.lastgroup
            if kind == "column":
                x, y = int(token["column"]) - 1, int(token["row"]) - 1
            elif kind == "style":
                style = _PLAIN if token["style"] in ("", "0") else token["style"]
            elif kind == "text":
                if y not in lines:
                    lines[y] = _Writing(self._lines.setdefault(y, _ShownLine()))
                x = lines[y].put(x, token["text"], style)
            elif kind == "quiet":
                sent.append(token[0])
        pen = _PLAIN
        for line in sorted(lines):
            pen = _send(sent, line, lines[line], pen)
        if pen != _PLAIN:
            sent.append("\x1b[0m")
        if self._position != (x, y) or any(each.startswith("\x1b[") for each in sent):
            sent.append(f"\x1b[{y + 1};{x + 1}H")
        self._position = (x, y)
        return "".join(sent)


@dataclass(slots=True)
class _ShownLine:
    """A line as it is known; `odd` when a character on it is not one cell wide beyond doubt."""

    cells: list[Cell | None] = field(default_factory=list)
    odd: bool = False


class _Writing:
    """What one write does to one line: the cells that it changes, by column."""

    def __init__(self, line: _ShownLine) -> None:
        self.line = line
        self.changed: dict[int, Cell] = {}
        self._all: dict[int, Cell] = {}

    def put(self, x: int, text: str, style: str) -> int:
        """Write a text; the column behind it."""
        if text.isascii():
            known, changed, every = self.line.cells, self.changed, self._all
            for at, character in enumerate(text, x):
                cell = (character, style)
                every[at] = cell
                if self.line.odd or at >= len(known) or known[at] != cell:
                    changed[at] = cell
                else:
                    changed.pop(at, None)
            return x + len(text)
        if not self.line.odd and any(_is_odd(character) for character in text):
            # Terminals disagree about such widths: from now on this line is sent as it comes.
            self.line.odd = True
            self.changed = dict(self._all)
        for character in text:
            x = self._put_one(x, character, style)
        return x

    def _put_one(self, x: int, character: str, style: str) -> int:
        width = 1 if character.isascii() else cell_len(character)
        if width == 0:
            at = x - 2 if self._all.get(x - 1, ("?",))[0] == "" else x - 1  # on the first half
            before = self._all.get(at)
            if before is not None:
                self._keep(at, (before[0] + character, before[1]))
            return x
        self._keep(x, (character, style))
        if width == 2:
            self._keep(x + 1, ("", style))
        return x + width

    def _keep(self, x: int, cell: Cell) -> None:
        self._all[x] = cell
        known = self.line.cells
        if self.line.odd or x >= len(known) or known[x] != cell:
            self.changed[x] = cell
        else:
            self.changed.pop(x, None)


@lru_cache(maxsize=4096)
def _is_odd(text: str) -> bool:
    """Whether a character, or what stands in a cell, is not one cell wide beyond doubt."""
    return len(text) != 1 or cell_len(text) != 1


def _send(sent: list[str], y: int, writing: _Writing, pen: str) -> str:
    """Send a line's changed cells, and remember them; the style left in the pen."""
    known = writing.line.cells
    changed = writing.changed
    if not changed:
        return pen
    last = max(changed)
    if len(known) <= last:
        known.extend([None] * (last + 1 - len(known)))
    at = -1
    for x in sorted(changed):
        text, style = known[x] = changed[x]
        if not text:
            continue  # it came with the first half
        if at != x:
            bridge = _bridge(known, at, x, pen)
            sent.append(f"\x1b[{y + 1};{x + 1}H" if bridge is None else bridge)
        if style != pen:
            sent.append(_change(pen, style))
            pen = style
        sent.append(text)
        at = x + (1 if text.isascii() else cell_len(text))
    return pen


def _bridge(known: list[Cell | None], at: int, x: int, pen: str) -> str | None:
    """The unchanged cells from `at` to `x`, where sending them is cheaper than a jump."""
    if at < 0 or not 0 < x - at <= _BRIDGE:
        return None
    between = known[at:x]
    if all(cell is not None and cell[1] == pen for cell in between):
        return "".join(cell[0] for cell in between if cell is not None)
    return None


@lru_cache(maxsize=1024)
def _parts(style: str) -> tuple[frozenset[str], str, str]:
    """A style's attributes, its colour and its ground, as SGR codes."""
    codes = style.split(";") if style else []
    attributes: set[str] = set()
    colours = ["39", "49"]
    while codes:
        code = codes.pop(0)
        if code in ("38", "48"):
            length = 4 if codes[:1] == ["2"] else 2
            colours[code == "48"] = ";".join([code, *codes[:length]])
            codes = codes[length:]
        elif code.isdigit() and (30 <= int(code) <= 39 or 90 <= int(code) <= 97):
            colours[0] = code
        elif code.isdigit() and (40 <= int(code) <= 49 or 100 <= int(code) <= 107):
            colours[1] = code
        else:
            attributes.add(code)
    return frozenset(attributes), colours[0], colours[1]


@lru_cache(maxsize=4096)
def _change(pen: str, style: str) -> str:
    """The shortest way from one style to another."""
    had, had_colour, had_ground = _parts(pen)
    has, colour, ground = _parts(style)
    afresh = "\x1b[0;" + style + "m" if style else "\x1b[0m"
    if not had <= has:
        return afresh
    codes = sorted(has - had)
    codes += [colour] if colour != had_colour else []
    codes += [ground] if ground != had_ground else []
    step = "\x1b[" + ";".join(codes) + "m" if codes else ""
    return step if len(step) <= len(afresh) else afresh


def awaits_frame(screen: Screen[Any]) -> bool:
    """Whether what the screen knows to have changed is not drawn yet."""
    return bool(
        screen._layout_required
        or screen._scroll_required
        or screen._repaint_required
        or screen._recompose_required
        or screen._dirty_widgets
        or screen._compositor._dirty_regions
    )


def awaits_layout(screen: Screen[Any]) -> bool:
    """Whether a widget is to get another place or size, or has not told its screen so yet."""
    return (
        screen._layout_required
        or not screen._message_queue.empty()
        or any(widget._layout_required for widget in _displayed(screen))
    )


def is_drawn(screen: Screen[Any]) -> bool:
    """Whether all that changed is drawn, and no message waits that could change more."""
    waits = awaits_frame(screen) or bool(screen._callbacks)
    return not waits and not any(map(_waits, (screen, *_displayed(screen))))


def _waits(widget: Widget) -> bool:
    """Whether a widget has still to handle something, or to tell its screen of it."""
    return bool(
        widget._next_callbacks
        or widget._layout_required
        or widget._scroll_required
        or widget._repaint_required
        or not widget._message_queue.empty()
    )


def _displayed(widget: Widget) -> Iterator[Widget]:
    """The widgets in a widget; of those that are hidden a change may wait for ever."""
    for child in widget.displayed_children:
        yield child
        yield from _displayed(child)


def paint(widget: Widget, regions: Iterable[Region]) -> bool:
    """Send parts of a widget to the terminal as they are now; False where that must wait.

    Composing a frame costs as much for one digit as for a screen: with forty countdowns it is most
    of what an idle console does. So what is where it was, and lies under nothing, is sent past the
    compositor, which would send the same. While anything else is about to be drawn, it waits for it.
    """
    app, screen = widget.app, widget.screen
    driver = app._driver
    still = app.screen is screen and not (app._batch_count or awaits_frame(screen))
    if not still or app.is_headless or not isinstance(getattr(driver, "shown", None), Shown):
        return False
    if driver is None or widget not in screen._compositor.visible_widgets:
        return False
    origin = widget.region.offset
    sent: list[str] = []
    for region in regions:
        for y, strip in enumerate(widget.render_lines(region), origin.y + region.y):
            sent.append(f"\x1b[{y + 1};{origin.x + region.x + 1}H{strip.render(app.console)}")
    x, y = app.screen.outer_size.clamp_offset(app.cursor_position)
    driver.write(f"{''.join(sent)}\x1b[{y + 1};{x + 1}H")
    driver.flush()
    return True


def thinning(driver: type[Driver]) -> type[Driver]:
    """The driver, with a `Shown` between it and the terminal."""

    class ThinDriver(driver):  # type: ignore[valid-type, misc]
        def __init__(self, *given: Any, **named: Any) -> None:
            self.shown = Shown()
            super().__init__(*given, **named)

        def write(self, data: str) -> None:
            thinned = self.shown.thin(data)
            if thinned:
                super().write(thinned)

        def start_application_mode(self) -> None:
            self.shown.forget()
            super().start_application_mode()

    return ThinDriver
