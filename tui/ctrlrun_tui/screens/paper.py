"""A sheet of text over a view: one record whole, as a person reads it or as JSON."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import ClassVar

from textual import work
from textual.app import ComposeResult

from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import INSPECT
from ctrlrun_tui.data.messages import DetailRead
from ctrlrun_tui.data.models import Detail, Line, Live, Prose, Role, Span, Verbatim
from ctrlrun_tui.data.unread import unread_span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.base import Overlay
from ctrlrun_tui.screens.timeline import words
from ctrlrun_tui.widgets.detail import DetailPane
from ctrlrun_tui.widgets.footer import Hint
from ctrlrun_tui.widgets.viewline import ViewLine

READ_AGAIN = timedelta(seconds=1)
"""How often a sheet is read again at most while the store keeps changing."""


class Paper(Overlay[None], inherit_bindings=False):
    """An overlay that shows one `Detail` on the whole screen, read in a worker."""

    PLACE = INSPECT
    AUTO_FOCUS = "#paper"
    TITLE_LINE: ClassVar[str]

    def __init__(self, record_id: str) -> None:
        super().__init__()
        self.record_id = record_id
        self._number = 0
        self._read_at: datetime | None = None
        self._due = False
        self._is_read = False

    @abstractmethod
    def read(self, reader: PagedReader, now: datetime) -> Detail | None:
        """What stands on the sheet. Called in a worker."""
        raise NotImplementedError

    def title_line(self) -> Line:
        """What the view line says."""
        record = self.console_app.glyphs.said(self.record_id)
        return (Span(self.TITLE_LINE), Span(f"  {record}", Role.QUIET))

    def compose_body(self) -> ComposeResult:
        yield ViewLine()
        yield DetailPane(id="paper")

    @property
    def pane(self) -> DetailPane:
        """The sheet."""
        return self.query_one("#paper", DetailPane)

    def on_mount(self) -> None:
        """Everything in full: this is the place for it."""
        self.pane.set_whole(whole=True)
        self.pane.dim(dimmed=not self.console_app.live.is_live)
        self.renew()

    def renew(self) -> None:
        """Read it, again or anew."""
        self.query_one(ViewLine).show(self.title_line())
        self._number += 1
        self._due = False
        self._read_at = self.console_app.clock()
        self._read(self._number)

    @work(thread=True, exclusive=True, group="paper", exit_on_error=False)
    def _read(self, number: int) -> None:
        app = self.console_app
        try:
            with closing(app.desk.reader()) as reader:
                found = self.read(reader, app.clock())
        except Exception as error:  # whatever it is, the sheet stays and the notice says it
            self.post_message(DetailRead(number, None, " ".join(str(error).split())))
            return
        self.post_message(DetailRead(number, found))

    def on_detail_read(self, message: DetailRead) -> None:
        """The sheet is here; an older one than was asked for last is void."""
        if message.number != self._number:
            return
        if message.why:
            self._unread(self.console_app.glyphs.said(message.why))
        else:
            self._is_read = True
            self.pane.show(message.detail or self._nothing())
            self.pane.set_whole(whole=True)

    def _unread(self, why: str) -> None:
        """It is tried again; a sheet that never was says why."""
        app, self._due = self.console_app, True
        if app.live.is_live:
            app.say(why, Role.NEEDS)
        if not self._is_read:
            said = Prose((unread_span(app.live, why),))
            self.pane.show(Detail(self.record_id, (Span("not read"),), (), (said,)))

    def _nothing(self) -> Detail:
        text = "Nothing is known of it: no event and no receipt of this store has this id."
        return Detail(self.record_id, (Span("not found"),), (), (Prose(words(text)),))

    # --- what the application tells --------------------------------------------------------------

    def on_store_changed(self) -> None:
        self._due = True
        self._renew_when_due(self.console_app.clock())

    def on_tick(self, now: datetime) -> None:
        self.pane.tick(now)
        self._renew_when_due(now)

    def _renew_when_due(self, now: datetime) -> None:
        """A history can be long: while the store keeps changing it is read once in a while."""
        read_at = self._read_at
        if self._due and (read_at is None or not timedelta(0) <= now - read_at < READ_AGAIN):
            self.renew()

    def on_live(self, live: Live) -> None:
        self.pane.dim(dimmed=not live.is_live)
        if live.is_live:
            self.is_behind = True
            if self.is_current:
                self.catch_up()

    def hints(self) -> tuple[Sequence[Hint], int | None]:
        """The way back first: a sheet covers what its reader came from."""
        shown, count = super().hints()
        back = self.console_app.keys.named("back").word
        return sorted(shown, key=lambda hint: hint.word != back), count

    # --- actions ---------------------------------------------------------------------------------

    def do_back(self) -> None:
        self.dismiss()

    def do_down(self) -> None:
        self.pane.scroll_lines(1)

    def do_up(self) -> None:
        self.pane.scroll_lines(-1)

    def do_page_down(self) -> None:
        self.pane.turn_page(1)

    def do_page_up(self) -> None:
        self.pane.turn_page(-1)

    def do_top(self) -> None:
        self.pane.go_end(bottom=False)

    def do_bottom(self) -> None:
        self.pane.go_end(bottom=True)

    def do_whole(self) -> None:
        self.pane.set_whole(whole=not self.pane.whole)

    def do_copy(self) -> None:
        detail = self.pane.shown
        if detail is not None:
            self.console_app.copy(detail.copied or self.record_id, self.record_id)

    def do_raw(self) -> None:
        self.console_app.say("this is the record as JSON")


class JsonPaper(Paper, inherit_bindings=False):
    """A record as JSON, indented; `text` is the document as data."""

    TITLE_LINE = "JSON"

    def __init__(self, record_id: str, text: str) -> None:
        super().__init__(record_id)
        self._text = text

    def read(self, reader: PagedReader, now: datetime) -> Detail | None:
        return json_detail(self.record_id, self._text, self.console_app.glyphs)

    def on_store_changed(self) -> None:
        """A record that was read does not change under its reader."""


def json_detail(record_id: str, text: str, glyphs: Glyphs) -> Detail:
    """A JSON text of several lines, each made safe on its own, indentation kept."""
    lines = tuple(Verbatim(glyphs.said(line)) for line in text.split("\n"))
    return Detail(record_id, (Span("as JSON"),), (), lines, copied=text)
