"""A field of a card with its label and a remark about what belongs in it."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.containers import Horizontal

from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.cards.parts import INSIDE, Block
from ctrlrun_tui.cards.sheet import GUTTER, LABEL
from ctrlrun_tui.data.models import Role, Span, line
from ctrlrun_tui.services import services


class FieldRow(Horizontal):
    """One line: label, field, remark. The field's id is its name; a sign marks it while it is typed into."""

    DEFAULT_CSS = f"""
    FieldRow {{ width: {INSIDE}; height: 1; }}
    """

    def __init__(self, name: str, hint: str, on_key_read: Callable[[float], None]) -> None:
        super().__init__(id=f"row-{name}")
        self._called = Span(name, Role.QUIET)
        self._label = Block()
        self._label.styles.width = GUTTER + LABEL
        self._label.show([line(" " * GUTTER, self._called)])
        self._hint = Block()
        self.field = Field(on_key_read, id=name)
        self.remark(hint)

    def compose(self) -> ComposeResult:
        yield self._label
        yield self.field
        yield self._hint

    def remark(self, hint: str, role: Role = Role.QUIET) -> None:
        """Say this about what belongs in it; the field has the rest of the line."""
        self._hint.styles.width = len(hint) + 2
        self._hint.show([line("  ", Span(hint, role))])
        self.field.styles.width = INSIDE - GUTTER - LABEL - len(hint) - 2

    def on_descendant_focus(self) -> None:
        """Letters go here from now on."""
        sign = services(self).glyphs.cursor.ljust(GUTTER)
        self._label.show([line(Span(sign, Role.YOURS), self._called)])

    def on_descendant_blur(self) -> None:
        """No longer."""
        self._label.show([line(" " * GUTTER, self._called)])
