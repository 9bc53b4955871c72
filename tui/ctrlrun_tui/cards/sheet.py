"""A card's facts laid out in lines of a fixed width, none of them cut.

Pure: facts in, lines out. Cutting a long value is up to whoever made the fact; here everything
that was given is shown, on as many lines as it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rich.cells import cell_len

from ctrlrun.text import cell_width
from ctrlrun.text import wrapped as wrapped_by
from ctrlrun_tui.data.models import Fact, Line, Prose, Role, Span

LABEL = 12
"""Cells of a label, the space behind it included; values stand in one column after it."""

GUTTER = 2
"""Cells before the labels, where signs stand."""

BETWEEN = 2
"""The least space between a value and the remark on its line."""


def cells_of(text: str) -> int:
    """The most cells that a text may take: terminals and libraries count some signs differently.

    A line that is measured too short would be cut where it is drawn, and hide what it cuts.
    """
    return len(text) if text.isascii() else max(cell_width(text), cell_len(text))


def wrapped(text: str, width: int) -> tuple[str, ...]:
    """A text in lines that fit `width` cells however they are counted."""
    return wrapped_by(text, width, cells=cells_of)


@dataclass(frozen=True, slots=True)
class Laid:
    """One line as drawn; `owed` is whether it has to be seen before anything is answered."""

    line: Line
    owed: bool = False


def lay(items: Iterable[Fact | Prose], width: int, *, owed: bool = False) -> tuple[Laid, ...]:
    """Facts and sentences as lines of at most `width` cells."""
    return tuple(
        Laid(line, owed)
        for item in items
        for line in (_fact(item, width) if isinstance(item, Fact) else _prose(item, width))
    )


def heading(left: Line, right: Line, width: int) -> tuple[Laid, ...]:
    """What a card is about, with a word at the right edge; it has to be seen like an argument."""
    if line_width(left) + BETWEEN + line_width(right) <= width:
        return (Laid(edges(left, right, width), owed=True),)
    pieces = [Laid(each, owed=True) for each in _value_lines(left, width)]
    return (*pieces, Laid(edges((), right, width), owed=True))


def line_width(line: Line) -> int:
    """How many cells a line takes."""
    return sum(cells_of(span.text) for span in line)


def edges(left: Line, right: Line, width: int) -> Line:
    """A line with one part at each edge; the caller knows that both fit."""
    gap = width - line_width(left) - line_width(right)
    return (*left, Span(" " * max(gap, 0)), *right)


def wrap_words(line: Line, width: int) -> tuple[Line, ...]:
    """A sentence in lines that break between words, and within a word that is too long."""
    lines: list[Line] = []
    current: list[Span] = []
    used = 0
    for word, role, glued in _words(line):
        space = 0 if glued or not current else 1
        for index, piece in enumerate(wrapped(word, width)):
            cells = cells_of(piece)
            if current and (index or used + space + cells > width):
                lines.append(tuple(current))
                current, used, space = [], 0, 0
            if space:
                current.append(Span(" ", role))
            current.append(Span(piece, role))
            used += space + cells
            space = 0
    lines.append(tuple(current))
    return tuple(_joined(line) for line in lines)


def _words(line: Line) -> Iterator[tuple[str, Role, bool]]:
    """Each word with its role, and whether it goes on from the word before it."""
    ends_open = False
    for span in line:
        words = span.text.split(" ")
        for index, word in enumerate(words):
            if word:
                yield word, span.role, ends_open and index == 0
        ends_open = bool(words[-1])


def _joined(line: Line) -> Line:
    """Neighbours of one role as one span."""
    spans: list[Span] = []
    for span in line:
        if spans and spans[-1].role is span.role:
            spans[-1] = Span(spans[-1].text + span.text, span.role)
        else:
            spans.append(span)
    return tuple(spans)


def _fact(fact: Fact, width: int) -> Iterator[Line]:
    label_cells = fact.label_cells or LABEL
    room = width - GUTTER - label_cells
    label = wrapped(fact.label, width - GUTTER)
    gutter = _padded(fact.sign, GUTTER)
    below = gutter if fact.sign_on_all else _padded((), GUTTER)
    values = _value_lines(fact.value, room)
    same_line = len(label) == 1 and cells_of(fact.label) < label_cells
    if not same_line:
        yield from ((*gutter, Span(part, Role.QUIET)) for part in label)
        gutter, label = below, ("",)
    first = (*gutter, *_padded((Span(label[0], Role.QUIET),), label_cells), *values[0])
    fits = line_width(first) + BETWEEN + line_width(fact.remark) <= width
    if fact.remark and len(values) == 1 and fits:
        yield edges(first, fact.remark, width)
        return
    yield first
    indent = (*below, Span(" " * label_cells))
    yield from ((*indent, *value) for value in values[1:])
    for remark in wrap_words(fact.remark, room) if fact.remark else ():
        yield edges(indent, remark, width)


def _value_lines(value: Line, room: int) -> list[Line]:
    """A value of one role breaks anywhere, one that is made of several between its words."""
    if len(value) == 1:
        return [(Span(part, value[0].role),) for part in wrapped(value[0].text, room)]
    return list(wrap_words(value, room))


def _prose(prose: Prose, width: int) -> Iterator[Line]:
    gutter = _padded(prose.sign, GUTTER)
    for line in wrap_words(prose.text, width - GUTTER):
        yield (*gutter, *line) if line else ()
        gutter = _padded((), GUTTER)


def _padded(line: Line, width: int) -> Line:
    return (*line, Span(" " * max(width - line_width(line), 0)))
