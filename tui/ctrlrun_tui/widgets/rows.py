"""Rows as they are drawn: where columns stand, and a row's cells as segments.

What time leaves alone is drawn once and kept; the cells that clocks make are put in each time. It
knows neither list nor screen.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from rich.segment import Segment
from textual.strip import Strip

from ctrlrun_tui.data.models import Column, Line, Role, Row, Span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.theme import Palette
from ctrlrun_tui.widgets.strips import fit, segments, width_of
from ctrlrun_tui.widgets.window import ListLine

ROWS_KEPT = 512
"""Rows whose drawing is kept."""

CELLS_KEPT = 4096
"""Cells whose drawing is kept."""


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
            and same_line(self.line, other.line)
        )


def same_line(one: ListLine, other: ListLine) -> bool:
    """Whether two lines look the same, as far as their contents go."""
    if one is other:
        return True
    if isinstance(one, Row) and isinstance(other, Row):
        return one.id == other.id and one.left == other.left and one.cells == other.cells
    return one == other


_RowKey = tuple[str, bool, bool, bool]
_CellKey = tuple[Line, int, bool, bool]


def _merged(segments: list[Segment]) -> list[Segment]:
    """Neighbours of one style as one segment; empty ones left out."""
    return list(Segment.simplify(segment for segment in segments if segment.text))


class Drawing:
    """A list's rows in a certain width. `signs` are the cells before the columns: cursor, mark."""

    def __init__(
        self, columns: Sequence[Column], signs: int, width: int, glyphs: Glyphs, palette: Palette
    ) -> None:
        self.width = width
        self.placed = place_columns(columns, signs, width)
        self.clocked = tuple(each.column for each in self.placed if each.column.clock)
        self.clocks_end = max(
            (each.x + each.width for each in self.placed if each.column.clock), default=0
        )
        self._signs = signs
        self._glyphs = glyphs
        self._palette = palette
        self._kept: OrderedDict[_RowKey, tuple[Row, list[list[Segment] | Placed]]] = OrderedDict()
        self._cells: dict[_CellKey, list[Segment]] = {}

    def head(self) -> Line:
        """The line of the column names."""
        spans: list[Span] = []
        at = 0
        for placed in self.placed:
            title = placed.column.title[: placed.width]
            title = title.rjust(placed.width) if placed.column.right else title.ljust(placed.width)
            spans.append(Span(" " * (placed.x - at) + title, Role.QUIET))
            at = placed.x + placed.width
        return tuple(spans)

    def strip(self, look: Look, row: Row) -> Strip:
        """A row as drawn. What time leaves alone is kept; clocks are put in each time."""
        key = (row.id, look.cursor, look.marked, look.dim)
        kept = self._kept.get(key)
        if kept is None or not same_line(kept[0], row):
            kept = self._kept[key] = (row, self._pieces(look, row))
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
        return Strip(drawn, self.width)

    def _pieces(self, look: Look, row: Row) -> list[list[Segment] | Placed]:
        """A row's segments, with the columns that have clocks left open."""
        glyphs, palette = self._glyphs, self._palette
        ground = palette.style(Role.VALUE, cursor=look.cursor)
        fixed = [
            Segment(
                glyphs.cursor if look.cursor else " ",
                palette.style(Role.YOURS, cursor=look.cursor),
            ),
            Segment(
                (glyphs.mark if look.marked else " ").ljust(self._signs - 1),
                palette.style(Role.NEEDS, cursor=look.cursor),
            ),
        ]
        pieces: list[list[Segment] | Placed] = []
        at = self._signs
        for placed in self.placed:
            fixed.append(Segment(" " * (placed.x - at), ground))
            at = placed.x + placed.width
            if placed.column.clock is None:
                fixed += self._cell(placed, row.cells.get(placed.column.name, ()), look)
                continue
            pieces += [_merged(fixed), placed]
            fixed = []
        fixed.append(Segment(" " * max(0, self.width - at), ground))
        return [*pieces, _merged(fixed)]

    def _cell(self, placed: Placed, cell: Line, look: Look) -> list[Segment]:
        """One cell, exactly as wide as its column. Clocks read alike often, so they are kept."""
        key = (cell, placed.x, look.cursor, look.dim)
        kept = self._cells.get(key)
        if kept is None:
            if len(self._cells) > CELLS_KEPT:
                self._cells.clear()
            kept = self._cells[key] = self._draw_cell(placed, cell, look)
        return kept

    def _draw_cell(self, placed: Placed, cell: Line, look: Look) -> list[Segment]:
        cell = (placed.column.cut or fit)(cell, placed.width, self._glyphs)
        if look.dim:
            cell = tuple(Span(span.text, Role.QUIET) for span in cell)
        pad = Segment(
            " " * (placed.width - width_of(cell)),
            self._palette.style(Role.VALUE, cursor=look.cursor),
        )
        drawn = segments(cell, self._palette, cursor=look.cursor)
        return _merged([pad, *drawn] if placed.column.right else [*drawn, pad])


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
