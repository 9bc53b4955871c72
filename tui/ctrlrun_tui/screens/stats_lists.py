"""The lists of a report as tables: which rows, in which order, folded where there is no room.

Pure: figures come from `ctrlrun.operator`, which counts; here is only how they stand on a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

from ctrlrun.operator.stats_filter import ListRow, StatsFilter
from ctrlrun.operator.stats_report import (
    ActionRow,
    Figure,
    PolicyRow,
    PrincipalRow,
    ReasonRow,
    StatsReport,
)
from ctrlrun_tui.data.figures import BLANK_LINE, SIGN, Number, PageLine, Spot
from ctrlrun_tui.data.models import Column, Line, Role, Span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.widgets.rows import Placed, place_columns
from ctrlrun_tui.widgets.strips import MARGIN, fit, width_of

MOST_ROWS = 100
"""Rows of one list that a page has at most, unfolded; a filter finds the others. To lay out more
would be noticed."""

ROOMY = 78
"""Cells from which columns have their whole names."""

UNFOLD, FOLD = "unfold", "fold"

T = TypeVar("T", bound=ListRow)


class Sort(StrEnum):
    """The order of the lists' rows."""

    MOST = "most first"
    CHANGE = "most changed first"
    NAME = "by name"

    @property
    def next(self) -> Sort:
        """The one that `s` goes to."""
        orders = list(Sort)
        return orders[(orders.index(self) + 1) % len(orders)]


@dataclass(frozen=True, slots=True)
class Lists:
    """A report's lists, as they were asked for. `hidden` rows were kept out by the filter."""

    reasons: tuple[ReasonRow, ...] = ()
    actions: tuple[ActionRow, ...] = ()
    policies: tuple[PolicyRow, ...] = ()
    principals: tuple[PrincipalRow, ...] = ()
    hidden: int = 0


def arranged(report: StatsReport, wanted: StatsFilter | None, sort: Sort) -> Lists:
    """The rows of a report under a filter, in an order."""
    hidden = 0

    def some(rows: tuple[T, ...], figures: Callable[[T], Iterable[Figure]]) -> tuple[T, ...]:
        nonlocal hidden
        kept = [row for row in rows if wanted is None or wanted.matches(row)]
        hidden += len(rows) - len(kept)
        if sort is Sort.NAME:
            kept.sort(key=names_of)
        elif sort is Sort.CHANGE:
            kept.sort(key=lambda row: -_change(figures(row)))
        return tuple(kept)

    return Lists(
        some(report.reasons, lambda row: (row.denied, row.asked, row.blocked)),
        some(report.actions, lambda row: (row.calls,)),
        some(report.policies, lambda row: (row.calls,)),
        some(report.principals, lambda row: (row.calls,)),
        hidden,
    )


def _change(figures: Iterable[Figure]) -> int:
    return sum(abs(figure.change or 0) for figure in figures)


def names_of(row: ListRow) -> tuple[str, ...]:
    """What a row is called, in the order in which rows are sorted by name."""
    match row:
        case ReasonRow():
            return (row.reason, row.action, row.agent)
        case ActionRow():
            return (row.action,)
        case PolicyRow():
            return (row.policy_hash or "",)
        case PrincipalRow():
            return (row.agent,)


def row_id(part: str, row: ListRow) -> str:
    """What the cursor holds: the part, and the names as they are."""
    return "\0".join((part, *names_of(row)))


# --- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table: texts and figures by the name of their column."""

    id: str
    texts: dict[str, Line]
    figures: dict[str, Figure]
    remarks: dict[str, Line] | None = None  # columns of text that stand like numbers
    zeros: bool = False  # whether nothing reads `0`, for rows that are always there
    needs: bool = False  # whether its numbers need somebody


@dataclass(frozen=True, slots=True)
class Table:
    """A list with its heading. The first column's title is the heading.

    Where there is no room for the column `hangs`, its texts stand beneath those of `under`: without
    them two rows would read alike.
    """

    part: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    empty: str = ""
    hangs: str | None = None
    under: str | None = None


def folded_lines(
    make: Callable[[Sequence[T]], Table],
    rows: Sequence[T],
    width: int,
    glyphs: Glyphs,
    *,
    room: int,
    unfolded: bool,
) -> list[PageLine]:
    """A list in a width, in `room` lines with its heading unless it is unfolded.

    Only rows that are shown are made, for there may be very many.
    """
    bare = make(())
    lines_each = 1 if _hanging(bare, _placed(bare.columns, width)) is None else 2
    shown, fold = _folded(len(rows), (room - 1) // lines_each, unfolded=unfolded)
    table = make(rows[:shown])
    lines = table_lines(table, width, glyphs)
    if fold is not None:
        lines.append(_fold_line(table.part, fold, len(rows) - shown, width, glyphs))
    return lines


def table_lines(table: Table, width: int, glyphs: Glyphs) -> list[PageLine]:
    """A table in a width, whole."""
    columns = _widened(table)
    placed = _placed(columns, width)
    lines = [_heading(table, columns, width)]
    if not table.rows and table.empty:
        lines.append(PageLine((Span(" " * SIGN + table.empty, Role.QUIET),)))
    hanging = _hanging(table, placed)
    for row in table.rows:
        lines.append(_row_line(row, table.part, placed, width, glyphs))
        if hanging is not None:
            lines.append(_hanging_line(row, table, hanging, width, glyphs))
    return lines


def _placed(columns: Sequence[Column], width: int) -> Sequence[Placed]:
    return place_columns(columns, SIGN, width - MARGIN)


def _hanging(table: Table, placed: Sequence[Placed]) -> Placed | None:
    """Under what the texts stand that there is no room for; None where there is, or are none."""
    places = {place.column.name: place for place in placed}
    if table.hangs is None or table.under is None or table.hangs in places:
        return None
    return places.get(table.under)


def _hanging_line(row: TableRow, table: Table, at: Placed, width: int, glyphs: Glyphs) -> PageLine:
    text = fit(_cell(row, table.hangs or ""), width - MARGIN - at.x, glyphs)
    spot = Spot(row.id, table.part, 0, width, bar=False)
    return PageLine((Span(" " * at.x), *text), (spot,))


def _row_line(
    row: TableRow, part: str, placed: Sequence[Placed], width: int, glyphs: Glyphs
) -> PageLine:
    text: list[Span] = []
    numbers: list[Number] = []
    at = 0
    for place in placed:
        name = place.column.name
        cell = _cell(row, name)
        if not cell:
            continue
        cell = fit(cell, place.width, glyphs)
        cells = width_of(cell)
        x = place.x + (place.width - cells if place.column.right else 0)
        text += [Span(" " * (x - at)), *cell]
        at = x + cells
        figure = row.figures.get(name)
        if figure is not None and figure.count:
            numbers.append(Number(name, x, cells, figure))
    return PageLine(tuple(text), (Spot(row.id, part, 0, width, tuple(numbers)),))


def _folded(rows: int, room: int, *, unfolded: bool) -> tuple[int, str | None]:
    """How many rows are shown, and what the line beneath them does, if there is one."""
    room = max(2, room)
    if unfolded:
        return min(rows, MOST_ROWS), FOLD if rows > room else None
    return (rows, None) if rows <= room else (room - 1, UNFOLD)


def _fold_line(part: str, acts: str, more: int, width: int, glyphs: Glyphs) -> PageLine:
    if acts == UNFOLD:
        text = f"{glyphs.middle} {more:,} more"
    elif more:
        text = f"fewer; {more:,} more rows, which a filter finds"
    else:
        text = "fewer"
    spot = Spot(f"{part}\0fold", part, 0, width, acts=acts)
    return PageLine((Span(" " * SIGN), Span(text, Role.QUIET)), (spot,))


def _cell(row: TableRow, name: str) -> Line:
    if name in row.texts:
        return row.texts[name]
    if row.remarks is not None and name in row.remarks:
        return row.remarks[name]
    figure = row.figures.get(name)
    if figure is None:
        return ()
    if not figure.count:
        return (Span("0", Role.QUIET),) if row.zeros else ()
    needs = row.needs or name == "ambiguous"
    return (Span(f"{figure.count:,}", Role.NEEDS if needs else Role.VALUE),)


def change_line(figure: Figure) -> Line:
    """Against the window before: `+12`, `-3`, `0`; nothing where there is none."""
    change = figure.change
    if change is None:
        return ()
    return (Span(f"{change:+,}" if change else "0", Role.QUIET),)


def _heading(table: Table, columns: Sequence[Column], width: int) -> PageLine:
    """The heading stands further out than the rows, over as much as it needs."""
    placed = _placed(columns, width)
    text: list[Span] = []
    at = 0
    for index, place in enumerate(placed):
        title = place.column.title
        x = 1 if index == 0 else place.x
        cells = place.x + place.width - x
        title = title[:cells]
        x += cells - len(title) if place.column.right else 0
        text.append(Span(" " * max(0, x - at) + title, Role.QUIET))
        at = max(at, x) + len(title)
    return PageLine(tuple(text))


def _widened(table: Table) -> tuple[Column, ...]:
    """Columns of numbers as wide as their widest number."""

    def widened(column: Column) -> Column:
        if not column.right:
            return column
        cells = max((width_of(_cell(row, column.name)) for row in table.rows), default=0)
        return replace(column, width=max(column.width, cells + 1))

    return tuple(widened(column) for column in table.columns)


# --- the lists -----------------------------------------------------------------------------------


def number(name: str, title: str, width: int, drop: int | None = None) -> Column:
    """A column of numbers."""
    return Column(name, title, width, right=True, drop=drop)


def reasons_table(rows: Sequence[ReasonRow], glyphs: Glyphs, width: int) -> Table:
    """What calls were stopped by, or asked a human for."""
    said = glyphs.said
    roomy = width >= ROOMY
    longest = max((width_of((Span(said(row.reason)),)) for row in rows), default=0)
    columns = (
        # Its end tells one reason of grants from another: what is cut first is the action.
        Column(
            "reason",
            "stopped by",
            max(16, min(longest, 20)) if roomy else max(12, min(longest, 15)),
        ),
        Column("action", "", 20 if roomy else 10, flexible=True),
        Column("agent", "", 13, drop=1),
        number("denied", "denied", 6),
        number("asked", "asked", 7 if roomy else 5),
        number("blocked", "blocked", 9 if roomy else 7),
    )
    made = (
        TableRow(
            row_id("reasons", row),
            {
                "reason": (Span(said(row.reason)),),
                "action": (Span(said(row.action)),),
                "agent": (Span(said(row.agent), Role.QUIET),),
            },
            {"denied": row.denied, "asked": row.asked, "blocked": row.blocked},
        )
        for row in rows
    )
    return Table("reasons", columns, tuple(made), "nothing was stopped", "agent", "action")


def actions_table(rows: Sequence[ActionRow], glyphs: Glyphs, width: int, *, observe: bool) -> Table:
    """How the calls of each action went."""
    roomy = width >= ROOMY
    stopped = (
        (
            number("blocked", "blocked", 7, drop=1),
            number("duplicates", "duplicates" if roomy else "dupl", 10 if roomy else 4, drop=2),
        )
        if observe
        else (number("blocked", "blocked", 7, drop=4),)
    )
    columns = (
        Column("action", "by action", 19 if roomy else 13, flexible=True),
        number("calls", "calls", 5),
        number("allowed", "allowed", 7, drop=3),
        number("asked", "asked", 5),
        number("denied", "denied", 6),
        *stopped,
        number("ambiguous", "ambiguous" if roomy else "ambig", 9 if roomy else 5),
        number("failed", "failed", 6, drop=5),
    )
    made = (
        TableRow(
            row_id("actions", row),
            {"action": (Span(glyphs.said(row.action)),)},
            action_figures(row),
        )
        for row in rows
    )
    return Table("actions", columns, tuple(made), "no calls")


def action_figures(row: ActionRow) -> dict[str, Figure]:
    """All that is counted of an action, by column."""
    figures = {
        "calls": row.calls,
        "allowed": row.allowed,
        "asked": row.asked,
        "denied": row.denied,
        "blocked": row.blocked,
        "ambiguous": row.ambiguous,
        "failed": row.failed,
    }
    if row.duplicates is not None:
        figures["duplicates"] = row.duplicates
    return figures


def policies_table(rows: Sequence[PolicyRow], glyphs: Glyphs) -> Table:
    """Calls under each policy."""
    columns = (
        Column("policy", "by policy", 14, flexible=True),
        number("calls", "calls", 7),
        number("asked", "asked", 7),
        number("stopped", "stopped", 8),
    )
    made = (
        TableRow(
            row_id("policies", row),
            {"policy": (Span(policy_word(row.policy_hash, glyphs)),)},
            {"calls": row.calls, "asked": row.asked, "stopped": row.stopped},
        )
        for row in rows
    )
    return Table("policies", columns, tuple(made))


def policy_word(policy_hash: str | None, glyphs: Glyphs) -> str:
    """A policy by the first eight characters of its hash."""
    if policy_hash is None:
        return "none named"
    return glyphs.cut(glyphs.said(policy_hash.rpartition(":")[2])[:8], 8)


def principals_table(rows: Sequence[PrincipalRow], glyphs: Glyphs) -> Table:
    """Calls of each agent."""
    columns = (
        Column("agent", "by principal", 14, flexible=True),
        number("calls", "calls", 6),
        number("asked", "asked", 6),
        number("denied", "denied", 6),
        number("blocked", "blocked", 7),
    )
    made = (
        TableRow(
            row_id("principals", row),
            {"agent": (Span(glyphs.said(row.agent)),)},
            {
                "calls": row.calls,
                "asked": row.asked,
                "denied": row.denied,
                "blocked": row.blocked,
            },
        )
        for row in rows
    )
    return Table("principals", columns, tuple(made))


def stacked(parts: Iterable[Sequence[PageLine]]) -> list[PageLine]:
    """Parts beneath one another with a blank line between; empty ones left out."""
    lines: list[PageLine] = []
    for part in parts:
        if part:
            lines += [*([BLANK_LINE] if lines else []), *part]
    return lines
