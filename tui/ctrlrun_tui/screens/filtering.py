"""A screen with a filter: its field, what is wrong with it while it is typed, and when it counts."""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime

from textual import events, on
from textual.widget import Widget
from textual.widgets import Input

from ctrlrun.errors import FilterError
from ctrlrun_tui.data.models import Role
from ctrlrun_tui.screens.base import Framed
from ctrlrun_tui.widgets.filter_bar import FilterBar


class FilterScreen(Framed[None], inherit_bindings=False):
    """A screen of the frame that has a `FilterBar` named `filter`, and a main widget."""

    def __init__(self) -> None:
        super().__init__()
        self.filter_text = ""
        self._offered = ""

    # --- what the view adds ----------------------------------------------------------------------

    @property
    @abstractmethod
    def main(self) -> Widget:
        """What has the keys when nothing is being typed."""
        raise NotImplementedError

    @abstractmethod
    def filter_changed(self) -> None:
        """Another filter is set: show what it lets through."""
        raise NotImplementedError

    def check_filter(self, text: str, now: datetime) -> None:
        """FilterError when a filter cannot be read."""

    # --- the field -------------------------------------------------------------------------------

    @property
    def bar(self) -> FilterBar:
        """The filter's field."""
        return self.query_one("#filter", FilterBar)

    def do_filter(self) -> None:
        """Open the field, with the filter that is set."""
        self.add_class("-filtering")
        self._offered = str(self.console_app.glyphs.said(self.filter_text))
        self.bar.set(self._offered)
        self.set_focus(self.bar.field)

    def take_key(self, event: events.Key) -> bool:
        if not self.has_class("-filtering"):
            return False
        if event.key == "enter":
            self._apply_filter(self.bar.value)
        elif event.key in ("escape", "tab", "shift+tab"):
            self._close_filter()
        return True

    @on(Input.Changed)
    def _filter_typed(self, message: Input.Changed) -> None:
        """Say what is wrong with it while it is typed."""
        message.stop()
        if self.has_class("-filtering"):
            self._filter_error(message.value)

    def _meant(self, typed: str) -> str:
        """What stands in the field as it is meant: what was not touched is the filter that is set,
        also where that holds characters that a field only shows by name."""
        return self.filter_text if typed == self._offered else typed

    def _filter_error(self, text: str) -> bool:
        try:
            self.check_filter(self._meant(text), self.console_app.clock())
        except FilterError as error:
            self.console_app.say(self.console_app.glyphs.said(str(error)), Role.NEEDS)
            return True
        self.console_app.say("")
        return False

    def _apply_filter(self, text: str) -> None:
        if self._filter_error(text):
            return
        self._close_filter()
        self.set_filter(self._meant(text).strip())

    def set_filter(self, text: str) -> None:
        """Show what matches from now on."""
        if text != self.filter_text:
            self.filter_text = text
            self.filter_changed()

    def take_filter_off(self) -> bool:
        """Show everything again; whether a filter was set."""
        had_one = bool(self.filter_text)
        self.set_filter("")
        return had_one

    def _close_filter(self) -> None:
        self.remove_class("-filtering")
        self.set_focus(self.main)
