"""A line to type a filter into, between view line and list; letters typed there are its own."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal

from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.widgets.strips import OneLine


class _Sign(OneLine):
    """The sign in front of the field."""

    DEFAULT_CSS = """
    _Sign { width: 3; }
    """

    def __init__(self, sign: str) -> None:
        super().__init__()
        self._sign = sign

    def line(self, width: int) -> Line:
        return (Span(self._sign, Role.YOURS),)


class FilterBar(Horizontal):
    """A sign and a field. `value` is safe to show."""

    DEFAULT_CSS = """
    FilterBar { height: 1; width: 1fr; padding: 0 1 0 0; }
    FilterBar Field { width: 1fr; }
    """

    def __init__(self, sign: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sign = sign

    def compose(self) -> ComposeResult:
        yield _Sign(self._sign)
        yield Field(_ignore)

    @property
    def field(self) -> Field:
        """The field itself."""
        return self.query_one(Field)

    @property
    def value(self) -> str:
        """What was typed."""
        return self.field.value

    def set(self, text: str) -> None:
        """Begin with this text, the cursor behind it."""
        self.field.value = text
        self.field.action_end()


def _ignore(at: float) -> None:
    """Keys typed here belong to no code."""
