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
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import Input

from ctrlrun_tui.data.models import Role
from ctrlrun_tui.services import services

LONGEST = 2000
"""Characters that a field takes."""

_EDITS: Mapping[str, Callable[[Field], None]] = {
    "left": lambda field: field.step_left(),
    "right": lambda field: field.step_right(),
    "ctrl+left": lambda field: field.action_cursor_left_word(),
    "ctrl+right": lambda field: field.action_cursor_right_word(),
    "home": lambda field: field.action_home(),
    "end": lambda field: field.action_end(),
    "backspace": lambda field: field.take_left(),
    "delete": lambda field: field.take_right(),
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
            self._show_caret()
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

    def step_left(self) -> None:
        """The caret before the sign at its left, or before what is selected."""
        start, end = sorted(self.selection)
        self.cursor_position = start if start != end else _sign_start(self.value, start)

    def step_right(self) -> None:
        """The caret behind the sign under it, or behind what is selected."""
        start, end = sorted(self.selection)
        self.cursor_position = end if start != end else _sign_end(self.value, end)

    def take_left(self) -> None:
        """Delete the sign at the caret's left, or what is selected."""
        start, end = sorted(self.selection)
        self.delete(start if start != end else _sign_start(self.value, start), end)

    def take_right(self) -> None:
        """Delete the sign under the caret, or what is selected."""
        start, end = sorted(self.selection)
        self.delete(start, end if start != end else _sign_end(self.value, end))

    def _put(self, text: str) -> None:
        """Text at the cursor, or in place of what is selected, made visible.

        A letter and its accent become one character, as keyboards of other systems send it.
        """
        start, end = sorted(self.selection)
        sign = _sign_start(self.value, start)
        before = self.value[sign:start]
        said = services(self).glyphs.said
        joined = unicodedata.normalize("NFC", before + text)
        if not joined.startswith(before):
            self.replace(str(said(joined)), sign, end)
            return
        shown = said(joined)
        shown = shown[len(before) :] if shown.startswith(before) else said(joined[len(before) :])
        self.replace(str(shown), start, end)

    def on_focus(self) -> None:
        """Where letters go is on the screen, also in a value that is longer than the field."""
        self._show_caret()

    def _show_caret(self) -> None:
        self.scroll_to_region(
            Region(self._cursor_offset, 0, 1, 1), force=True, animate=False, immediate=True
        )

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


def _sign_start(text: str, at: int) -> int:
    """Where the sign that ends at `at` begins: a character, with the marks that stand on it."""
    start = max(0, at - 1)
    while start > 0 and _is_mark(text[start]):
        start -= 1
    return start


def _sign_end(text: str, at: int) -> int:
    """Where the sign that begins at `at` ends."""
    end = min(len(text), at + 1)
    while end < len(text) and _is_mark(text[end]):
        end += 1
    return end


def _is_mark(character: str) -> bool:
    return unicodedata.category(character)[0] == "M"
