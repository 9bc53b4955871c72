"""A view: a list that is read, the detail that follows its cursor, and a filter.

A subclass says what its rows are and what a detail says; reading, staleness and the filter are
here, layouts and keys beneath, in `panes`. Reads run in thread workers with a connection of their
own, and what they find comes back as messages; only handlers touch widgets.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from datetime import datetime, timedelta
from typing import ClassVar

from textual import on, work
from textual.worker import get_current_worker

from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import VIEWS
from ctrlrun_tui.data.messages import DetailRead, ReadFailed, RowsRead, ViewRead, ViewUnread
from ctrlrun_tui.data.models import Detail, Line, Live, Prose, Role, Row, Span
from ctrlrun_tui.data.sources import TOP, Place, Request, RowSource, answer
from ctrlrun_tui.data.unread import unread_span
from ctrlrun_tui.ending import reason_of
from ctrlrun_tui.layout import Layout
from ctrlrun_tui.screens.panes import PanesScreen
from ctrlrun_tui.widgets.viewline import ViewLine
from ctrlrun_tui.widgets.virtual_list import VirtualList

DETAIL_AGAIN = timedelta(milliseconds=500)
"""How often the detail is read again at most while the store keeps changing."""


class ViewScreen(PanesScreen, inherit_bindings=False):
    """A base screen of the console.

    Subclasses set `PLACE`, `COLUMNS` and, where they apply, `LANES` and `MARKS`, and implement
    `source`, `detail` and `view_line`. The last two, and the source, are called in worker threads:
    they read through `ctrlrun.operator` and touch no widget.
    """

    STARTS: ClassVar[Place] = TOP
    """Where the cursor stands when the list is read anew."""

    def __init__(self) -> None:
        super().__init__()
        self._detail_number = 0
        self._detail_read_at: datetime | None = None
        self._detail_due = False
        self._left: Line = ()
        self._right: Line = ()
        self._failed = False
        self._view_due = False
        self._view_failed = False  # the view line is older than what it stands above

    # --- what a view says ------------------------------------------------------------------------

    @abstractmethod
    def source(self) -> RowSource:
        """The rows, under the filter and order that are set. Called on the loop for each read."""
        raise NotImplementedError

    @abstractmethod
    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        """The detail of a row. Called in a worker."""
        raise NotImplementedError

    @abstractmethod
    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        """The view line: name and counts, and what stands at its right edge. Called in a worker."""
        raise NotImplementedError

    # --- reading ---------------------------------------------------------------------------------

    def is_immutable(self) -> bool:
        return self.source().immutable

    def on_mount(self) -> None:
        """Nothing is read before the list knows how many lines it has."""
        self._dim()
        self._read_view()
        self.lay_out()

    def start_over(self) -> None:
        """Read everything anew: another store, filter or order."""
        self.list.start_over(immutable=self.source().immutable, at=self.STARTS)
        self._read_view()

    def store_replaced(self) -> None:
        """Another store stands at this place: nothing that was read is of it."""
        self.start_over()

    def on_store_changed(self) -> None:
        self._view_due = True
        self.list.store_changed()
        self._read_view_alone()
        self._detail_due = True
        self._read_detail_when_due(self.console_app.clock())

    def on_tick(self, now: datetime) -> None:
        self.list.tick(now)
        self.pane.tick(now)
        self._read_detail_when_due(now)
        if self._failed:
            self._failed = False
            self.list.pump()
        if self._view_failed:
            self._view_failed, self._view_due = False, True
        self._read_view_alone()

    def _dim(self) -> None:
        """Show as out of date what may be: a view can be looked at first while the store is away."""
        dimmed = not self.console_app.live.is_live
        self.list.dim(dimmed=dimmed)
        self.pane.dim(dimmed=dimmed)

    def on_live(self, live: Live) -> None:
        self._dim()
        if live.is_live:
            self.is_behind = True
            if self.is_current:
                self.catch_up()

    @on(VirtualList.Asked)
    def _asked(self, message: VirtualList.Asked) -> None:
        message.stop()
        with_view, self._view_due = self._view_due, False
        self._read_rows(message.list, message.request, self.source(), with_view=with_view)

    @work(thread=True, exclusive=True, group="rows", exit_on_error=False, description="rows")
    def _read_rows(
        self, target: VirtualList, request: Request, source: RowSource, *, with_view: bool
    ) -> None:
        app = self.console_app
        try:
            with closing(app.desk.reader()) as reader:
                found = answer(source, reader, request, app.clock())
                self.post_message(RowsRead(target, found))
                if with_view:
                    self.post_message(ViewRead(*self.view_line(reader, app.clock())))
        except Exception as error:  # whatever it is, the rows stay and the notice says it
            self.post_message(ReadFailed(target, request, reason_of(error)))

    def on_rows_read(self, message: RowsRead) -> None:
        """Rows are here."""
        self.console_app.was_read()
        message.list.take(message.answer)
        self._read_view_alone()

    def _read_view_alone(self) -> None:
        """Read the view line, where no rows are read that it could come with."""
        if self._view_due and not self.list.window.is_reading:
            self._view_due = False
            self._read_view()

    def on_read_failed(self, message: ReadFailed) -> None:
        """The rows stay; it is tried again at the next second, and what is said above them too."""
        why = self.console_app.glyphs.said(message.why)
        message.list.failed(message.request, why)
        self._failed = self._view_failed = True
        if self.console_app.live.is_live:
            self.console_app.say(why, Role.NEEDS)

    @work(thread=True, exclusive=True, group="view", exit_on_error=False, description="view")
    def _read_view(self) -> None:
        app = self.console_app
        try:
            with closing(app.desk.reader()) as reader:
                left, right = self.view_line(reader, app.clock())
        except Exception:  # the line stays as it was; what is wrong is said where rows are read
            self.post_message(ViewUnread())
            return
        if not get_current_worker().is_cancelled:
            self.post_message(ViewRead(left, right))

    def on_view_unread(self) -> None:
        """It is tried again at the next second; until then the view has its name at least."""
        self._view_failed = True
        if not self._left and self.PLACE in VIEWS:
            self._left = (Span(self.console_app.keys.named(self.PLACE).word),)
        self.show_view_line()

    def on_view_read(self, message: ViewRead) -> None:
        """The view line's parts are here."""
        self._left, self._right = message.left, message.right
        self.show_view_line()

    def show_view_line(self) -> None:
        """Name, counts, filter, marks, and what came above the screen."""
        left = self._left
        if self.filter_text:
            said = self.console_app.glyphs.said(self.filter_text)
            left = (*left, Span("  /"), Span(said, Role.YOURS))
            if not self.console_app.live.is_live and not self.list.window.is_loaded:
                left = (*left, Span(" not read yet", Role.NEEDS))  # rows are those of before
        parts: list[Line] = [self._right] if self._right else []
        newer = self.list.window.unseen_above
        if newer:
            up = self.console_app.glyphs.up
            parts.append((Span(f"{up} {newer} newer", Role.NEEDS),))
        marked = len(self.marked_rows)
        if marked:
            parts.append((Span(f"{marked} marked", Role.NEEDS),))
        right: Line = ()
        for part in parts:
            right = (*right, Span("  "), *part) if right else part
        self.query_one(ViewLine).show(left, right)

    # --- the detail ------------------------------------------------------------------------------

    @on(VirtualList.CursorMoved)
    def _cursor_moved(self, message: VirtualList.CursorMoved) -> None:
        message.stop()
        self.show_view_line()
        self.renew_frame()

    @on(VirtualList.Rested)
    def _rested(self, message: VirtualList.Rested) -> None:
        message.stop()
        self._detail_due = True
        self._detail_read_at = None
        self._read_detail_when_due(self.console_app.clock())

    @on(VirtualList.MarksLeft)
    def _marks_left(self, message: VirtualList.MarksLeft) -> None:
        message.stop()
        said = self.console_app.glyphs.said
        first = message.rows[0]
        others = f", and {len(message.rows) - 1} more" if len(message.rows) > 1 else ""
        _, name = self.copied(first)
        self.console_app.say(f"mark dropped: {said(name)} {first.left}{others}", Role.NEEDS)
        self.show_view_line()

    def _read_detail_when_due(self, now: datetime) -> None:
        is_hidden = self.console_app.layout is Layout.SMALL and not self.is_open
        if not self._detail_due or is_hidden:
            return
        if self._detail_read_at is not None and now - self._detail_read_at < DETAIL_AGAIN:
            return
        self._detail_due = False
        self._detail_read_at = now
        self._detail_number += 1
        row = self.current_row
        if row is None:
            self.pane.show(None)
        else:
            self._read_detail(self._detail_number, row)

    @work(thread=True, exclusive=True, group="detail", exit_on_error=False, description="detail")
    def _read_detail(self, number: int, row: Row) -> None:
        app = self.console_app
        try:
            with closing(app.desk.reader()) as reader:
                found = self.detail(reader, row, app.clock())
        except Exception as error:
            self.post_message(DetailRead(number, None, reason_of(error)))
            return
        self.post_message(DetailRead(number, found))

    def on_detail_read(self, message: DetailRead) -> None:
        """A detail is here; an older one than was asked for last is void."""
        if message.number != self._detail_number:
            return
        if message.why:
            self._detail_failed(self.console_app.glyphs.said(message.why))
            return
        self.pane.show(message.detail)
        if self.is_open:
            self.pane.set_whole(whole=True)

    def _detail_failed(self, why: str) -> None:
        """It is tried again; what the pane says of another record does not stay for this one."""
        app, row, shown = self.console_app, self.current_row, self.pane.detail
        self._detail_due = True
        if app.live.is_live:
            app.say(why, Role.NEEDS)
        if row is not None and (shown is None or shown.id != row.id):
            name = Span(app.glyphs.said(self.copied(row)[1]))
            self.pane.show(Detail(row.id, (name,), (), (Prose((unread_span(app.live, why),)),)))

    def detail_wanted(self) -> None:
        self._read_detail_when_due(self.console_app.clock())

    # --- the filter ------------------------------------------------------------------------------

    def filter_changed(self) -> None:
        self.start_over()
        self.show_view_line()
