"""What the views of requests and of effects have in common: records that change.

They change because somebody writes, and because time passes: a lease ends without an event, so the
counts are taken again every few seconds, and when they moved the rows are read again.

A filter that hardly anything passes can take seconds on a large store. While the store keeps
changing, such a list rests ten times as long as its last search took; without a filter, and where a
search is quick, nothing of this is to be noticed.
"""

from __future__ import annotations

from abc import abstractmethod
from datetime import datetime, timedelta

from ctrlrun.operator import Filter, RowKind, parse
from ctrlrun.state import PagedReader
from ctrlrun_tui.data.damaged import Damaged
from ctrlrun_tui.data.messages import RowsRead, ViewRead
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.screens.view import ViewScreen

LOOK_AGAIN = timedelta(seconds=5)
"""How often it is counted although nothing was written."""

SHARE = 10
"""The rest after a search, as a multiple of what it took."""


class RecordsView(ViewScreen, inherit_bindings=False):
    """A view of records that change. Subclasses set `KIND` and count what a filter hides."""

    KIND: RowKind

    def __init__(self) -> None:
        super().__init__()
        self._search_began: datetime | None = None
        self._search_again_at: datetime | None = None
        self._search_waits = False
        self._hides: Line = ()
        self._hides_again_at: datetime | None = None
        self._counted_at: datetime | None = None
        self._counts_by_clock = False
        self.damage = Damaged()

    @abstractmethod
    def hidden(self, reader: PagedReader, wanted: Filter, now: datetime) -> tuple[int, bool]:
        """How many records a filter hides, and whether it may be more. Called in a worker."""
        raise NotImplementedError

    @property
    def wanted(self) -> Filter | None:
        """The filter that is set, as of now."""
        if not self.filter_text:
            return None
        return parse(self.filter_text, self.KIND, now=self.console_app.clock())

    def check_filter(self, text: str, now: datetime) -> None:
        parse(text, self.KIND, now=now)

    def set_filter(self, text: str) -> None:
        self.list.empty = "nothing matches" if text else self.EMPTY
        self._search_again_at = self._hides_again_at = None
        super().set_filter(text)

    def hides_line(self, reader: PagedReader, now: datetime) -> Line:
        """`hides 3`, for the view line. Called in a worker."""
        wanted = self.wanted
        if wanted is None:
            return ()
        if self._hides_again_at is None or now >= self._hides_again_at:
            clock = self.console_app.clock
            began = clock()
            number, more = self.hidden(reader, wanted, now)
            self._hides = (Span(f"hides {number:,}{'+' if more else ''}", Role.NEEDS),)
            self._hides_again_at = clock() + SHARE * (clock() - began)
        return self._hides

    def show_view_line(self) -> None:
        left = self._left
        self._left = (*left, *self.damage.told(self.console_app.glyphs))
        super().show_view_line()
        self._left = left

    def store_replaced(self) -> None:
        self.damage = Damaged()
        super().store_replaced()

    # --- reading again ---------------------------------------------------------------------------

    def on_resize(self) -> None:
        super().on_resize()
        self._read_view()

    def on_store_changed(self) -> None:
        now = self.console_app.clock()
        self._counted_at, self._counts_by_clock = now, False
        again_at = self._search_again_at
        self._search_waits = bool(self.filter_text) and again_at is not None and now < again_at
        if self._search_waits:
            self.read_beside_the_list(now)
            return
        self._search_began = now
        super().on_store_changed()

    def on_rows_read(self, message: RowsRead) -> None:
        super().on_rows_read(message)
        self.show_view_line()
        if self._search_began is not None and not self.list.window.is_reading:
            now = self.console_app.clock()
            self._search_again_at = now + SHARE * (now - self._search_began)
            self._search_began = None

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        again_at = self._search_again_at
        if self._search_waits and (again_at is None or now >= again_at):
            self.on_store_changed()
        elif self._counted_at is None or now - self._counted_at >= LOOK_AGAIN:
            self._counted_at, self._counts_by_clock = now, True
            self._read_view()

    def on_view_read(self, message: ViewRead) -> None:
        """When the counts moved by the clock alone, the rows are read again."""
        if self._counts_by_clock and message.left != self._left:
            self.list.store_changed()
        self._counts_by_clock = False
        super().on_view_read(message)

    def read_beside_the_list(self, now: datetime) -> None:
        """Read view line and detail again: they cost what they show."""
        self._read_view()
        self._detail_due = True
        self._read_detail_when_due(now)
