"""The frame around every screen, and how a key becomes an action.

`Framed` puts the pinned line above and notice and footer below whatever a screen shows, refuses a
terminal that is too small, and is the only place where keys are read. `Overlay` is the same over
another screen, opaque: help, palette, inspect, cards. Screens are told of time and data only while
they are on top; one that comes back on top catches up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widget import Widget

from ctrlrun_tui.actions import Action, Effect, Need
from ctrlrun_tui.data.models import Live, Row
from ctrlrun_tui.layout import Layout, size_refusal
from ctrlrun_tui.widgets.footer import FooterLine, Hint
from ctrlrun_tui.widgets.notice import NoticeLine
from ctrlrun_tui.widgets.pinned import PinnedLine
from ctrlrun_tui.widgets.strips import OneLine
from ctrlrun_tui.widgets.toosmall import TooSmall

if TYPE_CHECKING:
    from ctrlrun_tui.app import ConsoleApp

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyNote:
    """A line of the key page about keys that are no actions: keys, word, sentence."""

    keys: str
    word: str
    sentence: str


class Framed(Screen[T], inherit_bindings=False):
    """A screen in the frame. Subclasses fill `compose_body` and set `PLACE`."""

    PLACE: ClassVar[str]
    """The name under which the registry knows this screen."""

    ALLOW_SELECT = False  # a drag must not become a second way to the clipboard
    AUTO_FOCUS = ""

    _lines: tuple[OneLine, ...] | None = None

    _had_focus: Widget | None = None

    is_behind = False
    """Whether the store changed while another screen was on top."""

    @property
    def console_app(self) -> ConsoleApp:
        """The application, as what it is."""
        return cast("ConsoleApp", self.app)

    def compose(self) -> ComposeResult:
        yield PinnedLine()
        with Vertical(id="body"):
            yield from self.compose_body()
        yield NoticeLine()
        yield FooterLine()
        yield TooSmall()

    def compose_body(self) -> ComposeResult:
        """What stands between the pinned line and the notice."""
        raise NotImplementedError

    def renew_frame(self) -> None:
        """Draw the lines of the frame that say something else now."""
        for line in self._lines_of_frame:
            line.renew()

    def renew_clocks(self) -> None:
        """Draw the lines of the frame that time changes."""
        for line in self._lines_of_frame:
            if line.has_clock:
                line.renew()

    @property
    def _lines_of_frame(self) -> tuple[OneLine, ...]:
        """The lines, looked up once: what composes a screen does not change."""
        if self._lines is None and self.is_mounted:
            self._lines = tuple(self.query(OneLine))
        return self._lines or ()

    # --- what the application tells the screen on top --------------------------------------------

    def on_tick(self, now: datetime) -> None:
        """A second has passed. Widgets with clocks redraw what changed."""

    def on_live(self, live: Live) -> None:
        """The store can be read again, or no longer. Told to every screen."""

    def on_store_changed(self) -> None:
        """Something was committed: what is on the screen may be read again."""

    def store_replaced(self) -> None:
        """Another store stands at this place: nothing that was read is of it. Told to every screen."""

    def has_draft(self) -> str | None:
        """What would be lost by leaving (`a note`), or None."""
        return None

    def catch_up(self) -> None:
        """Read again what may be out of date."""
        if self.is_behind:
            self.is_behind = False
            self.on_store_changed()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """On top again, or for the first time."""
        # No rule asks whether a screen is on top: its styles are those it was composed with.
        event.refresh_styles = False
        self.renew_frame()
        self.catch_up()

    # --- keys ------------------------------------------------------------------------------------

    def take_key(self, event: events.Key) -> bool:
        """Whether the screen used this key itself, before the registry: codes do."""
        return False

    def on_key(self, event: events.Key) -> None:
        """Every key that no focused field took ends here."""
        event.stop()
        event.prevent_default()
        if not self.is_active:  # left by the key before it: what was typed ahead was not for this
            return
        if self.is_covered or self.take_key(event):
            return
        action = self.console_app.keys.action_for(event, self.PLACE)
        if action is not None:
            self.perform(action.name)
        else:
            self.unknown_key(event)

    def unknown_key(self, event: events.Key) -> None:
        """A key that means nothing here: the notice says so, and where the keys are."""
        keys = self.console_app.keys
        self.console_app.say_of_key(
            f"{keys.shown_for(event)} does nothing here; {keys.shown('help')} shows the keys"
        )

    def perform(self, name: str) -> bool:
        """Run an action of the registry as its key does; when it is off, say why and return False."""
        action = self.console_app.keys.named(name)
        reason = self.reason(action)
        if reason is not None:
            self.console_app.say_of_key(f"{action.word}: {reason}")
            return False
        self.console_app.unsay_of_key()
        method = getattr(self, f"do_{action.name}", None) or getattr(self.app, f"do_{action.name}")
        method()
        return True

    def reason(self, action: Action) -> str | None:
        """Why an action cannot work now, as the notice says it, or None."""
        app = self.console_app
        if action.effect is not Effect.READS:
            if app.where.read_only:
                return "READ-ONLY, nothing is written"
            if not app.live.is_live:
                return f"{app.live.reach.value.upper()}, what is shown may be out of date"
            too_small = size_refusal(app.size)
            if too_small is not None:
                return too_small
        if Need.ROW in action.needs and self.current_row is None:
            return "nothing under the cursor"
        if Need.MARKS in action.needs and not self.marked_rows:
            return "nothing is marked"
        return self.off(action)

    def off(self, action: Action) -> str | None:
        """Reasons of the screen's own, beyond those that hold everywhere."""
        return None

    @property
    def is_at_rest(self) -> bool:
        """Whether all that was drawn has been taken note of."""
        return True

    @property
    def called(self) -> str:
        """What the person at it knows this screen as."""
        return self.PLACE

    def key_notes(self) -> Sequence[KeyNote]:
        """What its key page says besides the actions of the registry."""
        return ()

    def hints(self) -> tuple[Sequence[Hint], int | None]:
        """The footer's keys: those that work now, the most telling first; and how many there are."""
        keys = self.console_app.keys
        actions = [action for action in keys.on(self.PLACE) if action.name != "help"]
        shown = sorted(
            (action for action in actions if action.rank is not None and not self.reason(action)),
            key=lambda action: action.rank or 0,
        )
        return [Hint(keys.shown(action.name), action.word) for action in shown], len(actions)

    @property
    def current_row(self) -> Row | None:
        """The record under the cursor."""
        return None

    @property
    def marked_rows(self) -> tuple[Row, ...]:
        """The marked records, in the order of their marking."""
        return ()

    def do_help(self) -> None:
        """Every key of this screen, with a sentence each."""
        from ctrlrun_tui.screens.help import HelpScreen

        self.app.push_screen(HelpScreen(self))

    def do_palette(self) -> None:
        """Every action of this screen, by its words."""
        from ctrlrun_tui.screens.palette import PaletteScreen

        self.app.push_screen(PaletteScreen(self))

    # --- size ------------------------------------------------------------------------------------

    def on_resize(self) -> None:
        """What is hidden takes no letters; shown again, it takes them as before."""
        if self.is_covered and self.focused is not None:
            self._had_focus = self.focused
            self.set_focus(None)
        self.call_after_refresh(self.resized)

    def resized(self) -> None:
        """The new size is laid out."""
        if not self.is_covered and self._had_focus is not None:
            widget, self._had_focus = self._had_focus, None
            if self.focused is None:
                self.set_focus(widget)

    @property
    def is_covered(self) -> bool:
        """Whether the terminal is too small for this screen to be shown at all."""
        return self.console_app.layout is Layout.TINY


class Overlay(Framed[T], ModalScreen[T], inherit_bindings=False):
    """An opaque screen over another: it waits, unseen, while the terminal is below 80x24."""

    @property
    def is_covered(self) -> bool:
        return self.console_app.layout in (Layout.TINY, Layout.SMALL)
