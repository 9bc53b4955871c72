"""The Stats page in a size: which parts stand where, and how much of each list there is room for.

Narrow, all stands beneath one another: the sentence that decides, the numbers, the chart, then
lists. From 120 columns on the lists of what was stopped, of policies and of principals stand at the
right. A list takes the lines that are left over, and folds where it has more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from ctrlrun.operator.stats_filter import ListRow
from ctrlrun.operator.stats_report import StatsReport
from ctrlrun_tui.data.figures import BLANK_LINE, PageColumn, PageLine
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.layout import WIDE
from ctrlrun_tui.screens.evidence import NO_MATCH
from ctrlrun_tui.screens.stats_lists import (
    Lists,
    Table,
    actions_table,
    folded_lines,
    policies_table,
    principals_table,
    reasons_table,
    stacked,
)
from ctrlrun_tui.screens.stats_parts import (
    answers,
    chart,
    notes,
    policies_in_a_row,
    sentence,
    totals,
)

LEFT = 66
"""Cells of the left column at 120; above that both grow."""

BETWEEN = 3
"""Cells between the columns."""

LEAST = 4
"""Lines that a list has at least, its heading among them."""

FEW = 9
"""Lines of a list that stands below the first screen."""

T = TypeVar("T", bound=ListRow)

IN_A_ROW = 2
"""Policies that stand side by side."""


@dataclass(frozen=True, slots=True)
class StatsPage:
    """A report as it is shown: with its lists as they were asked for, and which are unfolded."""

    report: StatsReport
    lists: Lists
    unfolded: Collection[str]
    glyphs: Glyphs

    @property
    def starts_at(self) -> str:
        """The list on which the cursor stands at first."""
        return "reasons" if self._observe else "actions"

    def __call__(self, width: int, height: int) -> tuple[PageColumn, ...]:
        """The page in that size."""
        if width < WIDE:
            return (PageColumn(0, width, tuple(self._narrow(width, height))),)
        left = LEFT + (width - WIDE) // 2
        x = left + BETWEEN
        return (
            PageColumn(0, left, tuple(self._left(left, height))),
            PageColumn(x, width - x, tuple(self._right(width - x, height))),
        )

    # --- inside ----------------------------------------------------------------------------------

    @property
    def _observe(self) -> bool:
        return self.report.rollout is not None

    def _top(self, width: int) -> list[PageLine]:
        report, glyphs = self.report, self.glyphs
        return [
            BLANK_LINE,
            *stacked(
                (
                    (*sentence(report, width), *notes(report, width, glyphs)),
                    totals(report, width, glyphs),
                    chart(report, width, glyphs),
                    answers(report, width),
                )
            ),
        ]

    def _narrow(self, width: int, height: int) -> list[PageLine]:
        lines = self._top(width)
        policies = self._policies_beneath(width)
        below = len(policies) + 2 if policies else 1
        room = max(LEAST, height - len(lines) - below)
        more = max(FEW, height // 3)
        first, second = (
            (self._reasons, self._actions) if self._observe else (self._actions, self._reasons)
        )
        parts = (
            first(width, room),
            policies,
            second(width, more),
            self._principals(width, more),
        )
        return [*lines, BLANK_LINE, *stacked(parts)]

    def _left(self, width: int, height: int) -> list[PageLine]:
        lines = self._top(width)
        room = max(LEAST, height - len(lines) - 1)
        return [*lines, BLANK_LINE, *self._actions(width, room)]

    def _right(self, width: int, height: int) -> list[PageLine]:
        # What the short ones do not need is the first one's, but never less than half.
        share = max(LEAST, height // 4 - 1)
        low = [self._policies(width, share), self._principals(width, share)]
        used = sum(min(len(part), share) + 1 for part in low if part)
        room = max(LEAST, height - used - 1)
        return [BLANK_LINE, *stacked((self._reasons(width, room), *low))]

    def _policies_beneath(self, width: int) -> list[PageLine]:
        """On one line where there are no more than stand side by side; else as a list."""
        rows = self.lists.policies
        if 0 < len(rows) <= IN_A_ROW:
            named = [(row.policy_hash or "", row.asked, row.calls) for row in rows]
            in_a_row = policies_in_a_row(width, self.glyphs, named)
            if in_a_row:
                return list(in_a_row)
        return self._policies(width, LEAST + 1)

    # --- the lists -------------------------------------------------------------------------------

    def _reasons(self, width: int, room: int) -> list[PageLine]:
        make = partial(reasons_table, glyphs=self.glyphs, width=width)
        return self._lines("reasons", make, self.lists.reasons, width, room)

    def _actions(self, width: int, room: int) -> list[PageLine]:
        make = partial(actions_table, glyphs=self.glyphs, width=width, observe=self._observe)
        return self._lines("actions", make, self.lists.actions, width, room)

    def _policies(self, width: int, room: int) -> list[PageLine]:
        make = partial(policies_table, glyphs=self.glyphs)
        rows = self.lists.policies
        return self._lines("policies", make, rows, width, room) if rows else []

    def _principals(self, width: int, room: int) -> list[PageLine]:
        make = partial(principals_table, glyphs=self.glyphs)
        rows = self.lists.principals
        return self._lines("principals", make, rows, width, room) if rows else []

    def _lines(
        self,
        part: str,
        make: Callable[[Sequence[T]], Table],
        rows: Sequence[T],
        width: int,
        room: int,
    ) -> list[PageLine]:
        def made(some: Sequence[T]) -> Table:
            table = make(some)
            return replace(table, empty=NO_MATCH) if self.lists.hidden else table

        unfolded = part in self.unfolded
        return folded_lines(made, rows, width, self.glyphs, room=room, unfolded=unfolded)
