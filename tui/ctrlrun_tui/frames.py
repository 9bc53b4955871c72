"""Frames, thinned: of what Textual draws, only the cells that changed go to the terminal.

Textual sends whole stretches of lines, each piece with its full colours. Over ssh that is the
difference between fine and unusable: forty countdowns cost 6 kB/s so, and under 1 kB/s as cells. A
`Screen` remembers what the terminal shows; what it does not understand it passes on untouched and
forgets everything, so that a wrong guess costs bytes and never a wrong picture.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from rich.cells import cell_len
from textual.driver import Driver

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


class Shown:
    """What the terminal shows, as far as it is known; cells are (text, style)."""

    def __init__(self) -> None:
        self._lines: dict[int, list[tuple[str, str] | None]] = {}
        self._position: tuple[int, int] | None = None

    def forget(self) -> None:
        """Nothing is known: the next frame is sent as it comes."""
        self._lines.clear()
        self._position = None

    def thin(self, data: str) -> str:
        """The part of a write that changes the terminal."""
        if "\x1b[" not in data or not _is_frame(data):
            if not _is_quiet(data):
                self.forget()
            return data
        sent: list[str] = []
        writes: dict[int, dict[int, tuple[str, str]]] = {}
        x = y = 0
        style = _PLAIN
        for token in _TOKEN.finditer(data):
            kind = token.lastgroup
            if kind == "column":
                x, y = int(token["column"]) - 1, int(token["row"]) - 1
            elif kind == "style":
                style = "" if token["style"] in ("", "0") else token["style"]
            elif kind == "text":
                x = _put(writes.setdefault(y, {}), x, token["text"], style)
            elif kind == "quiet":
                sent.append(token[0])
        pen = _PLAIN
        for line, cells in sorted(writes.items()):
            pen = self._send_line(sent, line, cells, pen)
        if pen != _PLAIN:
            sent.append("\x1b[0m")
        if self._position != (x, y) or any(each.startswith("\x1b[") for each in sent):
            sent.append(f"\x1b[{y + 1};{x + 1}H")
        self._position = (x, y)
        return "".join(sent)

    def _send_line(
        self, sent: list[str], y: int, cells: dict[int, tuple[str, str]], pen: str
    ) -> str:
        """Send a line's changed cells, and remember them; returns the style left in the pen."""
        known = self._lines.setdefault(y, [])
        if len(known) <= max(cells):
            known.extend([None] * (max(cells) + 1 - len(known)))
        whole = any(
            len(text) != 1 or (not text.isascii() and cell_len(text) != 1)
            for text, _ in cells.values()
        )
        whole = whole or any(cell is not None and cell[0] == "" for cell in known)
        changed = sorted(x for x, cell in cells.items() if whole or known[x] != cell)
        at: int | None = None
        for x in changed:
            if at is not None and at != x:
                between = range(at, x)
                same_pen = all(
                    known[each] is not None and known[each][1] == pen  # type: ignore[index]
                    for each in between
                )
                if len(between) <= _BRIDGE and same_pen:
                    sent.append("".join(known[each][0] for each in between))  # type: ignore[index]
                    at = x
            if at != x:
                sent.append(f"\x1b[{y + 1};{x + 1}H")
            text, style = cells[x]
            if style != pen:
                sent.append(_change(pen, style))
                pen = style
            sent.append(text)
            known[x] = cells[x]
            at = x + 1
        return pen


def _put(cells: dict[int, tuple[str, str]], x: int, text: str, style: str) -> int:
    """Write a text into a line's cells; a wide character leaves an empty cell behind it."""
    if text.isascii():
        for character in text:
            cells[x] = (character, style)
            x += 1
        return x
    for character in text:
        width = cell_len(character)
        if width == 0 and x - 1 in cells:
            before, its_style = cells[x - 1]
            cells[x - 1] = (before + character, its_style)
            continue
        cells[x] = (character, style)
        if width == 2:
            cells[x + 1] = ("", style)
        x += width
    return x


def _is_frame(data: str) -> bool:
    """Whether every piece of a write is understood, and it draws something."""
    kinds = {token.lastgroup for token in _TOKEN.finditer(data)}
    return "other" not in kinds and "column" in kinds


def _is_quiet(data: str) -> bool:
    """Whether a write leaves the cells of the screen alone."""
    return all(token.lastgroup == "quiet" for token in _TOKEN.finditer(data))


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
