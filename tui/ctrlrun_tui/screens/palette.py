"""The palette: every action of a screen by the words typed; what is off says why."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.widgets import Input

from ctrlrun_tui.actions import PALETTE, Action
from ctrlrun_tui.screens.help import ActionMenu
from ctrlrun_tui.widgets.filter_bar import FilterBar
from ctrlrun_tui.widgets.menu import Menu
from ctrlrun_tui.widgets.viewline import ViewLine


class PaletteScreen(ActionMenu, inherit_bindings=False):
    """`:` and ctrl+p."""

    PLACE = PALETTE
    TITLE_LINE = "Actions"
    AUTO_FOCUS = "Field"

    def compose_body(self) -> ComposeResult:
        yield ViewLine()
        yield FilterBar(":")
        yield Menu(id="menu")

    def matches(self, action: Action) -> bool:
        """Whether every word that was typed begins a word of the action's."""
        words = f"{action.name} {action.word} {action.sentence}".casefold().split()
        return all(
            any(word.startswith(typed) for word in words)
            for typed in self.query_one(FilterBar).value.casefold().split()
        )

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrow the menu as words are typed."""
        event.stop()
        self.show_entries()

    def take_letter(self, event: events.Key) -> bool:
        """The field has taken what it can; nothing else means anything here."""
        return True
