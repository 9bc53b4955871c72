"""A line to type into: letters typed here are the field's, and answer nothing.

What is typed or pasted becomes visible text on its way in, so that a note says what its reader
will see. It takes the keys that edit and leaves all others to its card.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping

from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widgets import Input

from ctrlrun_tui.data.models import Role
from ctrlrun_tui.services import services

LONGEST = 2000
"""Characters that a field takes."""

_EDITS: Mapping[str, Callable[[Field], None]] = {
    "left": lambda field: field.action_cursor_left(),
    "right": lambda field: field.action_cursor_right(),
    "ctrl+left": lambda field: field.action_cursor_left_word(),
    "ctrl+right": lambda field: field.action_cursor_right_word(),
    "home": lambda field: field.action_home(),
    "end": lambda field: field.action_end(),
    "backspace": lambda field: field.action_delete_left(),
    "delete": lambda field: field.action_delete_right(),
    "ctrl+w": lambda field: field.action_delete_left_word(),
}


class Field(Input, inherit_bindings=False):
    """A one-line field of a card. `value` is safe to show, and is what is written."""

    DEFAULT_CSS = """
    Field, Field:focus {
        border: none; height: 1; padding: 0; background: $background; color: $foreground;
        background-tint: $background 0%;
    }
    """

    def __init__(self, on_key_read: Callable[[float], None], *, id: str | None = None) -> None:
        super().__init__(id=id, max_length=LONGEST, select_on_focus=False, compact=True)
        self.cursor_blink = False
        self._on_key_read = on_key_read

    async def _on_key(self, event: events.Key) -> None:
        event.prevent_default()  # what is not taken here bubbles to the card all the same
        self._on_key_read(event.time)
        edit = _EDITS.get(event.key)
        if edit is not None:
            edit(self)
        elif event.is_printable and "+" not in event.key[:-1]:
            self._put(event.character or "")
        else:
            return
        event.stop()

    def _on_paste(self, event: events.Paste) -> None:
        """All of it, in one line: what a terminal sends after a line break would be keys else."""
        event.stop()
        event.prevent_default()
        self._on_key_read(event.time)
        self._put(event.text.replace("\r\n", "\n").replace("\r", "\n").strip("\n"))

    def _put(self, text: str) -> None:
        """Text at the cursor, or in place of what is selected, made visible."""
        start, end = sorted(self.selection)
        before = _stands_on(self.value[:start])
        said = services(self).glyphs.said
        shown = said(before + text)
        shown = shown[len(before) :] if shown.startswith(before) else said(text)
        self.replace(str(shown), start, end)

    def on_resize(self) -> None:
        """What fits is shown from its first letter, also when that came before the field had room."""
        if cell_len(self.value) < self.size.width:
            self.scroll_to(x=0, animate=False, force=True, immediate=True)

    def restricted(self) -> None:
        """A field that is full takes nothing, and nothing of what it holds is lost."""
        services(self).say(f"a field takes {LONGEST:,} characters: this was not added")

    def render_line(self, y: int) -> Strip:
        """The text, and a line under what is free, so that it reads as a field in any terminal."""
        line = super().render_line(y)
        if y:
            return line
        app = services(self)
        cursor = 1 if self.has_focus else 0
        used = min(cell_len(self.value) + cursor, self.size.width)
        free = Segment("_" * (self.size.width - used), app.palette.style(Role.FAINT))
        return Strip([*line.crop(0, used), free]).adjust_cell_length(self.size.width)


def _stands_on(text: str) -> str:
    """The end of a text that a combining mark would stand on: a character and its marks."""
    start = len(text) - 1
    while start > 0 and unicodedata.category(text[start])[0] == "M":
        start -= 1
    return text[max(start, 0) :]
