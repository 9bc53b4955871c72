"""A list and the detail of its cursor's record: how both share the screen, and what their keys do.

It reads nothing: what a list asks for, and when a detail is due, is the view's.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Container

from ctrlrun_tui.actions import Action
from ctrlrun_tui.data.models import Column, Lane, Row
from ctrlrun_tui.data.sources import BOTTOM, TOP
from ctrlrun_tui.layout import Layout
from ctrlrun_tui.screens.filtering import FilterScreen
from ctrlrun_tui.widgets.detail import DetailPane
from ctrlrun_tui.widgets.filter_bar import FilterBar
from ctrlrun_tui.widgets.separator import Separator
from ctrlrun_tui.widgets.tabs import Tabs
from ctrlrun_tui.widgets.viewline import ViewLine
from ctrlrun_tui.widgets.virtual_list import VirtualList


class Plain(Container):
    """A container that draws nothing of its own."""

    BLANK = True


class PanesScreen(FilterScreen, inherit_bindings=False):
    """A screen of a list and a detail, with every key of a list."""

    COLUMNS: ClassVar[tuple[Column, ...]]
    LANES: ClassVar[tuple[Lane, ...]] = ()
    MARKS: ClassVar[bool] = False
    EMPTY: ClassVar[str] = "nothing here"
    AUTO_FOCUS = "#list"

    def __init__(self) -> None:
        super().__init__()
        self.is_open = False  # the detail whole, the list behind it

    # --- what the view adds ----------------------------------------------------------------------

    def is_immutable(self) -> bool:
        """Whether the list's rows never change nor leave."""
        raise NotImplementedError

    def detail_wanted(self) -> None:
        """The detail is on the screen now: read it if it is due."""
        raise NotImplementedError

    def show_view_line(self) -> None:
        """Say what is marked, and what else changed."""
        raise NotImplementedError

    def copied(self, row: Row) -> tuple[str, str]:
        """What `y` copies of a row, and what that is called."""
        return row.id, row.id

    # --- composition -----------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        yield Tabs(self.PLACE)
        yield ViewLine()
        yield FilterBar("/", id="filter")
        with Plain(id="panes"):
            yield VirtualList(
                self.COLUMNS,
                lanes=self.LANES,
                immutable=self.is_immutable(),
                marks=self.MARKS,
                empty=self.EMPTY,
                id="list",
            )
            yield Separator()
            yield DetailPane(id="detail")

    @property
    def list(self) -> VirtualList:
        """The list."""
        return self.query_one("#list", VirtualList)

    @property
    def pane(self) -> DetailPane:
        """The detail pane."""
        return self.query_one("#detail", DetailPane)

    @property
    def main(self) -> VirtualList:
        return self.list

    @property
    def current_row(self) -> Row | None:
        return self.list.current

    @property
    def marked_rows(self) -> tuple[Row, ...]:
        return self.list.marked

    def on_resize(self) -> None:
        """Another layout may be due."""
        self.lay_out()

    def lay_out(self) -> None:
        """Lay list and detail out for the terminal as it is."""
        wide = self.console_app.layout is Layout.WIDE
        self.pane.set_beside(beside=wide and not self.is_open)
        self.list.space_lanes(spaced=wide)
        self.set_class(self.is_open, "-open")
        self.renew_frame()

    # --- actions ---------------------------------------------------------------------------------

    @property
    def pane_has_keys(self) -> bool:
        """Whether the keys that move are the detail's."""
        return self.is_open or self.pane.has_focus

    def do_down(self) -> None:
        self.pane.scroll_lines(1) if self.pane_has_keys else self.list.move(1)

    def do_up(self) -> None:
        self.pane.scroll_lines(-1) if self.pane_has_keys else self.list.move(-1)

    def do_page_down(self) -> None:
        self.pane.turn_page(1) if self.pane_has_keys else self.list.turn_page(1)

    def do_page_up(self) -> None:
        self.pane.turn_page(-1) if self.pane_has_keys else self.list.turn_page(-1)

    def do_top(self) -> None:
        self.pane.go_end(bottom=False) if self.pane_has_keys else self.list.go(TOP)

    def do_bottom(self) -> None:
        self.pane.go_end(bottom=True) if self.pane_has_keys else self.list.go(BOTTOM)

    def do_next_lane(self) -> None:
        self.list.go_lane(1)

    def do_previous_lane(self) -> None:
        self.list.go_lane(-1)

    def do_other_pane(self) -> None:
        if not self.is_open:
            self.set_focus(self.list if self.pane.has_focus else self.pane)

    def do_open(self) -> None:
        """The detail whole; on a small terminal the only way to see it."""
        self.is_open = True
        self.pane.set_whole(whole=True)
        self.lay_out()
        self.set_focus(self.pane)
        self.detail_wanted()

    def do_back(self) -> None:
        """One step back: the open detail, the focus, the filter. Never out of the console."""
        if self.is_open:
            self.is_open = False
            self.pane.set_whole(whole=False)
            self.lay_out()
            self.set_focus(self.list)
        elif self.pane.has_focus:
            self.set_focus(self.list)
        elif not self.take_filter_off():
            keys = self.console_app.keys
            self.console_app.say_of_key(f"nothing to go back to; {keys.shown('quit')} leaves")

    def do_whole(self) -> None:
        self.pane.set_whole(whole=not self.pane.whole)

    def do_copy(self) -> None:
        row = self.current_row
        if row is not None:
            self.console_app.copy(*self.copied(row))

    def do_mark(self) -> None:
        self.list.toggle_mark()
        self.show_view_line()

    def do_approve(self) -> None:
        self._open_card("approve")

    def do_deny(self) -> None:
        self._open_card("deny")

    def do_resolve(self) -> None:
        self._open_card("resolve")

    def do_review(self) -> None:
        self.console_app.open_card("review", self.marked_rows)

    def do_deny_marked(self) -> None:
        self.console_app.open_card("deny_marked", self.marked_rows)

    def _open_card(self, name: str) -> None:
        row = self.current_row
        if row is not None:
            self.console_app.open_card(name, (row,))

    def off(self, action: Action) -> str | None:
        if action.name == "copy" and self.current_row is None:
            return "nothing under the cursor"
        row = self.current_row
        answers = ("approve", "deny", "resolve", "mark", "delegate", "revoke")
        if action.name in answers and row is not None and row.left is not None:
            return row.left
        return None
