"""A short menu: lines with a cursor. Bounded by design; a click puts the cursor and runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.strip import Strip

from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import MARGIN, Drawn, spread, strip


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a menu. `off` is why it cannot be chosen now."""

    name: str
    left: Line
    right: Line = ()
    off: str | None = None


class Menu(Drawn, inherit_bindings=False):
    """Entries beneath one another; the one under the cursor is `current`."""

    DEFAULT_CSS = """
    Menu { height: 1fr; width: 1fr; }
    """
    can_focus = True

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: tuple[Entry, ...] = ()
        self._at = 0
        self._top = 0

    def show(self, entries: Sequence[Entry]) -> None:
        """Show these; the cursor stays on its entry if that is among them."""
        name = self.current.name if self.current else None
        self.entries = tuple(entries)
        names = [entry.name for entry in self.entries]
        self._at = names.index(name) if name in names else 0
        self._show_cursor()

    @property
    def current(self) -> Entry | None:
        """The entry under the cursor."""
        return self.entries[self._at] if self.entries else None

    def move(self, steps: int) -> None:
        """Move the cursor."""
        self._at = max(0, min(self._at + steps, len(self.entries) - 1))
        self._show_cursor()

    def turn_page(self, direction: int) -> None:
        """Move by a screen."""
        self.move(direction * max(1, self.size.height - 1))

    def _show_cursor(self) -> None:
        height = max(1, self.size.height)
        self._top = max(self._at - height + 1, min(self._top, self._at))
        self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor in sight."""
        self._show_cursor()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there."""
        index = self._top + event.y
        if index < len(self.entries):
            self._at = index
            self._show_cursor()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.move(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.move(-1)

    def render_line(self, y: int) -> Strip:
        app = services(self)
        width = self.size.width
        index = self._top + y
        if index >= len(self.entries):
            return strip((), width, app.palette)
        entry = self.entries[index]
        here = index == self._at
        gutter = Span(f"{app.glyphs.cursor if here else ' '} ", Role.YOURS)
        line = spread(entry.left, entry.right, width - 2 - MARGIN, app.glyphs)
        return strip((gutter, *line), width, app.palette, cursor=here)
