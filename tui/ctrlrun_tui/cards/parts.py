"""The pieces a card is drawn with: its frame, the facts that scroll, blocks of lines, Cancel.

Each is given lines and draws them; none of them reads a store, keeps a rule or takes a letter.
"""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ctrlrun_tui.cards.sheet import Laid
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import Drawn, fit, strip, width_of

CARD_WIDTH = 76
"""Columns of a card, its frame included, whatever the terminal's width."""

INSIDE = CARD_WIDTH - 4
"""Columns between the frame and one free column at each side."""


class Block(Drawn, inherit_bindings=False):
    """Some lines, as many rows high."""

    DEFAULT_CSS = f"""
    Block {{ width: {INSIDE}; height: 0; }}
    """
    can_focus = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: tuple[Line, ...] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Say this from now on; nothing is drawn when it is the same."""
        if tuple(lines) == self.lines:
            return
        grows = len(lines) != len(self.lines)
        self.lines = tuple(lines)
        if grows:
            self.styles.height = len(self.lines)
        self.refresh(layout=grows)

    def render_line(self, y: int) -> Strip:
        app = services(self)
        line = self.lines[y] if y < len(self.lines) else ()
        width = self.size.width
        return strip(fit(line, width, app.glyphs), width, app.palette)


class Rim(Drawn, inherit_bindings=False):
    """The top or foot of the frame. The top holds the card's name and its clock."""

    DEFAULT_CSS = f"""
    Rim {{ width: {CARD_WIDTH}; height: 1; }}
    """
    can_focus = False

    def __init__(self, *, foot: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._foot = foot
        self._title: Line = ()
        self._clock: Line = ()

    def show(self, title: Line, clock: Line) -> None:
        """Say this from now on."""
        if (title, clock) != (self._title, self._clock):
            self._title, self._clock = title, clock
            self.refresh()

    def render_line(self, y: int) -> Strip:
        app = services(self)
        corners, rule = app.glyphs.corners, app.glyphs.rule
        left, right = (corners[2], corners[3]) if self._foot else (corners[0], corners[1])
        title = (Span(" "), *self._title, Span(" ")) if self._title else ()
        clock = (Span(" "), *self._clock, Span(" ")) if self._clock else ()
        room = CARD_WIDTH - 4
        clock = fit(clock, room, app.glyphs)
        title = fit(title, room - width_of(clock), app.glyphs)
        gap = rule * (room - width_of(title) - width_of(clock))
        frame = (
            Span(left + rule, Role.FAINT),
            *title,
            Span(gap, Role.FAINT),
            *clock,
            Span(rule + right, Role.FAINT),
        )
        return strip(frame, CARD_WIDTH, app.palette)


class FactsPane(ScrollView, inherit_bindings=False, can_focus=False):
    """A card's facts; it knows which of the lines that are owed have been on the screen."""

    DEFAULT_CSS = f"""
    FactsPane {{ width: {INSIDE}; height: 1fr; min-height: 1; scrollbar-size: 0 0; }}
    """

    class AllSeen(Message):
        """Every owed line has been on the screen."""

    class Scrolled(Message):
        """Other lines are on the screen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._laid: tuple[Laid, ...] = ()
        self._unseen: set[int] = set()
        self._rendered: set[int] = set()

    def show(self, laid: Sequence[Laid]) -> None:
        """Show these lines. Owed lines that are new, or stand elsewhere, are to be seen."""
        laid = tuple(laid)
        if laid == self._laid:
            return
        for index, new in enumerate(laid):
            old = self._laid[index] if index < len(self._laid) else None
            if new.owed and new != old:
                self._unseen.add(index)
        self._unseen = {index for index in self._unseen if index < len(laid) and laid[index].owed}
        self._laid = laid
        self._rendered.clear()
        self.virtual_size = Size(INSIDE, len(laid))
        self.refresh()

    def clear(self) -> None:
        """Show nothing, as at first."""
        self._laid = ()
        self._unseen = set()
        self.virtual_size = Size(INSIDE, 0)
        self.scroll_home(animate=False, immediate=True)
        self.refresh()

    @property
    def all_seen(self) -> bool:
        """Whether every owed line has been on the screen."""
        return not self._unseen

    def count_seen(self) -> None:
        """What was drawn and is still on the screen has been seen: the layout has come to rest.

        A line that was drawn where another widget stands a moment later has not.
        """
        top = self.lines_above
        seen = self._unseen & self._rendered & set(range(top, top + self.size.height))
        self._unseen -= seen
        self._rendered.clear()
        if seen and not self._unseen:
            self.post_message(self.AllSeen())

    @property
    def lines_above(self) -> int:
        """Lines that are scrolled off at the top."""
        return min(int(self.scroll_offset.y), len(self._laid))

    @property
    def lines_below(self) -> int:
        """Lines that do not fit below."""
        return max(0, len(self._laid) - self.lines_above - self.size.height)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def on_resize(self) -> None:
        """Another number of lines fits."""
        self.post_message(self.Scrolled())

    def move(self, lines: int) -> None:
        """Scroll by that many lines."""
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, immediate=True)

    def turn_page(self, direction: int) -> None:
        """Scroll by a screen, one line of overlap."""
        self.move(direction * max(1, self.size.height - 1))

    def render_line(self, y: int) -> Strip:
        app = services(self)
        index = y + int(self.scroll_offset.y)
        laid = self._laid[index] if index < len(self._laid) else Laid(())
        if index in self._unseen and width_of(laid.line) <= INSIDE:  # one that is cut is not seen
            self._rendered.add(index)
        return strip(fit(laid.line, INSIDE, app.glyphs), self.size.width, app.palette)


class Cancel(Drawn, inherit_bindings=False, can_focus=True):
    """The only button of a card: it has the focus first, and Enter on it leaves."""

    DEFAULT_CSS = f"""
    Cancel {{ width: {INSIDE}; height: 1; }}
    """

    class Pressed(Message):
        """It was clicked."""

    def __init__(self, word: str = "Cancel", *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._word = word

    def say(self, word: str) -> None:
        """Read this from now on."""
        if word != self._word:
            self._word = word
            self.refresh()

    def render_line(self, y: int) -> Strip:
        app = services(self)
        sign = app.glyphs.cursor if self.has_focus else " "
        role = Role.YOURS if self.has_focus else Role.VALUE
        text = f"{sign} {self._word}"
        line = (Span(" " * (INSIDE - len(text))), Span(text, role))
        return strip(line, INSIDE, app.palette)

    def on_click(self, event: events.Click) -> None:
        """The pointer may leave a card, and do nothing else on it."""
        event.stop()
        self.post_message(self.Pressed())
