"""Help: every key of one screen with a sentence each; Enter runs the one under the cursor."""

from __future__ import annotations

from typing import Any

from textual import events
from textual.app import ComposeResult

from ctrlrun_tui.actions import HELP, Action
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.keymap import shown_key
from ctrlrun_tui.screens.base import Framed, KeyNote, Overlay
from ctrlrun_tui.widgets.footer import Hint
from ctrlrun_tui.widgets.menu import Entry, Menu
from ctrlrun_tui.widgets.viewline import ViewLine

_KEYS = 15
_WORD = 14


class ActionMenu(Overlay[None], inherit_bindings=False):
    """A menu of another screen's actions; what is chosen runs there, as its key would."""

    AUTO_FOCUS = "#menu"
    TITLE_LINE: str

    def __init__(self, over: Framed[Any]) -> None:
        super().__init__()
        self.over = over

    def compose_body(self) -> ComposeResult:
        yield ViewLine()
        yield Menu(id="menu")

    def on_mount(self) -> None:
        """The entries, with the reasons as they are now."""
        self.query_one(ViewLine).show(
            (Span(self.TITLE_LINE), Span(f"  {self.over.called}", Role.QUIET))
        )
        self.show_entries()

    def show_entries(self) -> None:
        """Fill the menu."""
        actions = self.over.console_app.keys.on(self.over.PLACE)
        self.menu.show([self.entry(action) for action in actions if self.matches(action)])

    def matches(self, action: Action) -> bool:
        """Whether an action is in the menu."""
        return True

    def entry(self, action: Action) -> Entry:
        """An action's line: keys, word, sentence, and why it is off."""
        keys = " ".join(shown_key(key) for key in action.keys)
        reason = self.over.reason(action)
        off = reason is not None
        left: Line = (
            Span(keys[:_KEYS].ljust(_KEYS), Role.QUIET if off else Role.YOURS),
            Span(action.word.ljust(_WORD), Role.QUIET if off else Role.VALUE),
            Span(f"off: {reason}" if off else action.sentence, Role.QUIET),
        )
        return Entry(action.name, left, off=reason)

    @property
    def menu(self) -> Menu:
        """The menu itself."""
        return self.query_one(Menu)

    def take_key(self, event: events.Key) -> bool:
        match event.key:
            case "escape" | "backspace":
                self.dismiss()
            case "enter":
                self.run_current()
            case "down" | "up":
                self.menu.move(1 if event.key == "down" else -1)
            case "pagedown" | "pageup":
                self.menu.turn_page(1 if event.key == "pagedown" else -1)
            case "home" | "end":
                self.menu.move(len(self.menu.entries) * (1 if event.key == "end" else -1))
            case _:
                return self.take_letter(event)
        return True

    def take_letter(self, event: events.Key) -> bool:
        """A key that does not move in the menu."""
        return False

    def run_current(self) -> None:
        """Close, and run what is under the cursor on the screen beneath."""
        entry = self.menu.current
        if entry is None:
            return
        if entry.off is not None:
            self.console_app.say_of_key(entry.off)
            return
        self.dismiss()
        self.app.call_later(self.over.perform, entry.name)

    def hints(self) -> tuple[list[Hint], int]:
        return [Hint("Enter", "run"), Hint("Esc", "back")], 2


class HelpScreen(ActionMenu, inherit_bindings=False):
    """`?`."""

    PLACE = HELP
    TITLE_LINE = "Keys"

    def take_letter(self, event: events.Key) -> bool:
        match event.character:
            case "j" | "k":
                self.menu.move(1 if event.character == "j" else -1)
            case "?" | "q":
                self.dismiss()
            case _:
                return False
        return True

    def show_entries(self) -> None:
        """The actions, then what there is to know about other keys."""
        super().show_entries()
        notes = [self._note_entry(note) for note in self.over.key_notes()]
        self.menu.show([*self.menu.entries, *notes])

    def _note_entry(self, note: KeyNote) -> Entry:
        left: Line = (
            Span(note.keys.ljust(_KEYS), Role.YOURS),
            Span(note.word.ljust(_WORD)),
            Span(note.sentence, Role.QUIET),
        )
        return Entry(f"note {note.word}", left, off="this line explains, and runs nothing")
