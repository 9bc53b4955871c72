"""A field of the cards about grants: label, field, and at its right edge a mark or a remark."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len

from ctrlrun_tui.cards.fieldrow import FieldRow
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.sheet import GUTTER
from ctrlrun_tui.data.models import Line, Role, Span, line

LABEL = 13
"""Cells of a label: `environments` needs one more than those of other cards."""

MARK = 7
"""Cells of the marks, `✓ fits` and `≠ wider`."""


class FormRow(FieldRow):
    """One line of the form."""

    def __init__(
        self, name: str, on_key_read: Callable[[float], None], hint: str = " " * MARK
    ) -> None:
        super().__init__(name, hint, on_key_read)
        self._cells = INSIDE - GUTTER - LABEL - len(hint) - 2
        self._label.styles.width = GUTTER + LABEL
        self.field.styles.width = self._cells

    def mark(self, mark: Line) -> None:
        """Say this at the right edge from now on."""
        self._hint.show([line(Span("  ", Role.QUIET), *mark)])

    @property
    def holds_more(self) -> bool:
        """Whether the field holds more than it shows at once, its cursor's cell included."""
        return cell_len(self.field.value) >= self._cells
