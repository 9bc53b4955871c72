"""A page of figures: lines of text, and on them what the cursor can stand on.

Pure values: the page knows where each number stands, and what it stands for is its maker's
(`Number.stands_for`). A row may run over several lines, and two rows may share one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.widgets.strips import width_of

SIGN = 3
"""Cells before the text of a row: the cursor, and what sets rows off from headings."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number on a line: `width` cells from `x` on; the cell before it is blank, for the cursor."""

    name: str
    x: int
    width: int
    stands_for: object


@dataclass(frozen=True, slots=True)
class Spot:
    """What the cursor can stand on: from cell `x` on, `width` cells; `part` is its list.

    With `bar` all of it is lit under the cursor, else only the number. Without numbers there is
    nothing behind it. `acts` names what Enter does there instead of opening a number.
    """

    id: str
    part: str
    x: int
    width: int
    numbers: tuple[Number, ...] = ()
    bar: bool = True
    acts: str | None = None


@dataclass(frozen=True, slots=True)
class PageLine:
    """One line, in whose width it was made."""

    text: Line = ()
    spots: tuple[Spot, ...] = ()


BLANK_LINE = PageLine()


@dataclass(frozen=True, slots=True)
class PageColumn:
    """Lines beneath one another, from cell `x` of the screen on."""

    x: int
    width: int
    lines: tuple[PageLine, ...]


LayPage = Callable[[int, int], tuple[PageColumn, ...]]
"""`(width, height)`: the page in that size, one column or several."""


def beside(left: PageLine, right: PageLine, x: int) -> PageLine:
    """Two lines as one, the right one from cell `x` on."""
    gap = Span(" " * max(0, x - width_of(left.text)))
    moved = tuple(
        Spot(
            spot.id,
            spot.part,
            spot.x + x,
            spot.width,
            tuple(
                Number(number.name, number.x + x, number.width, number.stands_for)
                for number in spot.numbers
            ),
            spot.bar,
            spot.acts,
        )
        for spot in right.spots
    )
    text = (*left.text, gap, *right.text) if right.text else left.text
    return PageLine(text, (*left.spots, *moved))


@dataclass(frozen=True, slots=True)
class Told:
    """A number in running text."""

    text: str
    name: str
    stands_for: object | None


def flow(
    row: str,
    part: str,
    words: tuple[str | Told, ...],
    width: int,
    *,
    first: int = 1,
    hangs: int = 1,
    role: Role = Role.VALUE,
    label: str = "",
) -> tuple[PageLine, ...]:
    """Running text with numbers in it, wrapped at words: a row of as many lines as it takes.

    It begins at cell `first` behind the `label`, and goes on at cell `hangs`.
    """
    lines: list[PageLine] = []
    text: list[Span] = [Span(" " + label.ljust(first - 1), Role.QUIET)]
    numbers: list[Number] = []
    at, fresh = first, True

    def ended() -> PageLine:
        spot = (Spot(row, part, 0, width, tuple(numbers), bar=False),) if numbers else ()
        return PageLine(tuple(text), spot)

    for word, told in _words(words):
        cells = width_of((Span(word),))
        if not fresh and at + 1 + cells > width:
            lines.append(ended())
            text, numbers, at, fresh = [Span(" " * hangs)], [], hangs, True
        if not fresh:
            text.append(Span(" "))
            at += 1
        if told is not None and told.stands_for is not None:
            numbers.append(Number(told.name, at, width_of((Span(told.text),)), told.stands_for))
        text.append(Span(word, role))
        at, fresh = at + cells, False
    lines.append(ended())
    return tuple(lines)


def _words(parts: tuple[str | Told, ...]) -> list[tuple[str, Told | None]]:
    """Words, each with the number that it is or begins with; text that follows a number at once
    (a comma, a bracket) is part of its word."""
    words: list[tuple[str, Told | None]] = []
    joins = False
    for part in parts:
        if isinstance(part, Told):
            words.append((part.text, part))
            joins = True
            continue
        pieces = part.split()
        if joins and pieces and not part[0].isspace():
            last, told = words[-1]
            words[-1] = (last + pieces[0], told)
            pieces = pieces[1:]
        words += [(piece, None) for piece in pieces]
        joins = False
    return words
