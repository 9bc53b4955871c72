"""View H, the hand-over: what was answered in this sitting, what is open, what expires next.

It reads back what the store holds, in a worker; `w` writes it to a file, `y` copies the command of
the answer under the cursor.
"""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from textual import work
from textual.app import ComposeResult
from textual.message import Message

from ctrlrun.authority import Authority
from ctrlrun.files import write_new
from ctrlrun.operator.endings import endings
from ctrlrun.state import PagedReader
from ctrlrun.state.location import StoreLocation, masked
from ctrlrun_tui.actions import HANDOVER, Action
from ctrlrun_tui.data.handover import (
    NO_COMMAND,
    Handover,
    handover_text,
    read_handover,
)
from ctrlrun_tui.data.models import Live, Role, Span, line
from ctrlrun_tui.data.unread import unread_span
from ctrlrun_tui.screens.base import Overlay
from ctrlrun_tui.widgets.handover_page import Page
from ctrlrun_tui.widgets.viewline import ViewLine


class HandoverScreen(Overlay[None]):
    """The hand-over of this sitting."""

    PLACE = HANDOVER
    AUTO_FOCUS = "#page"

    class Read(Message):
        """A worker read the hand-over."""

        def __init__(self, number: int, handover: Handover | None, why: str = "") -> None:
            super().__init__()
            self.number = number
            self.handover = handover
            self.why = why

    class Saved(Message):
        """A worker wrote the file, or could not."""

        def __init__(self, said: str, *, done: bool) -> None:
            super().__init__()
            self.said = said
            self.done = done

    def __init__(self) -> None:
        super().__init__()
        self.handover: Handover | None = None
        self._why_unread = ""
        self._is_due = False
        self._number = 0

    @property
    def page(self) -> Page:
        """What scrolls."""
        return self.query_one("#page", Page)

    def compose_body(self) -> ComposeResult:
        yield ViewLine()
        yield Page(id="page")

    def on_mount(self) -> None:
        """Read it."""
        self.query_one(ViewLine).show(line("Hand-over"))
        self._show_unread()
        self._start_reading()

    # --- reading ---------------------------------------------------------------------------------

    def on_store_changed(self) -> None:
        self._start_reading()

    def _start_reading(self) -> None:
        self._number += 1
        self._is_due = False
        self._read(self._number)

    @work(thread=True, group="handover", exit_on_error=False)
    def _read(self, number: int) -> None:
        app = self.console_app
        try:
            with closing(app.desk.reader()) as reader:
                handover = self._handover(app.clock(), reader)
        except Exception as error:  # whatever it is, the page says it and stays
            self.post_message(self.Read(number, None, str(error) or type(error).__name__))
        else:
            self.post_message(self.Read(number, handover))

    def _handover(self, now: datetime, reader: PagedReader) -> Handover:
        app = self.console_app
        location = app.desk.location
        document = app.authority if isinstance(app.authority, Authority) else None
        return read_handover(
            reader,
            who=app.who,
            since=app.started_at,
            now=now,
            store=location.shown,
            store_url=_typed(location),
            policy=_absolute(app.sitting.policy_path),
            authority=_absolute(app.sitting.authority_path),
            endings=endings(app.shelf.read(reader, document, now), now),
        )

    def on_handover_screen_read(self, message: Read) -> None:
        """Show it; what cannot be read leaves what was."""
        if message.number != self._number:
            return
        if message.handover is None:
            self._not_read(self.console_app.glyphs.said(message.why))
            return
        self._why_unread = ""
        self.handover = message.handover
        answers = len(message.handover.given)
        is_open = sum(lane.count for lane in message.handover.lanes)
        self.query_one(ViewLine).show(
            line("Hand-over", Span(f"  {answers} answered  {is_open} open", Role.QUIET))
        )
        self.page.show(message.handover)
        self.renew_frame()

    def _not_read(self, why: str) -> None:
        is_news, self._why_unread = why != self._why_unread, why
        self._is_due = True
        if is_news:
            self.console_app.say(f"not read: {why}", Role.NEEDS)
        self._show_unread()

    def _show_unread(self) -> None:
        """A page that was never read says so, and why."""
        if self.handover is None:
            self.page.show_unread(unread_span(self.console_app.live, self._why_unread))

    def on_tick(self, now: datetime) -> None:
        """Ages go on; what could not be read is tried again."""
        self.page.renew()
        if self._is_due:
            self._start_reading()

    def on_live(self, live: Live) -> None:
        """Read it again once that works."""
        self._show_unread()
        if live.is_live:
            self.is_behind = True
            if self.is_current:
                self.catch_up()

    # --- actions ---------------------------------------------------------------------------------

    def off(self, action: Action) -> str | None:
        if action.name == "write_handover" and self.handover is None:
            return "nothing was read yet"
        if action.name == "copy":
            given = self.page.current
            if given is None:
                return "no answer under the cursor"
            if given.command is None:
                return NO_COMMAND
        return super().off(action)

    def do_back(self) -> None:
        """Back to where it was opened."""
        self.dismiss(None)

    def do_down(self) -> None:
        """The next answer, or the next line."""
        self.page.move(1)
        self.renew_frame()

    def do_up(self) -> None:
        """The answer before, or the line before."""
        self.page.move(-1)
        self.renew_frame()

    def do_page_down(self) -> None:
        """On by a screen."""
        self.page.turn_page(1)

    def do_page_up(self) -> None:
        """Back by a screen."""
        self.page.turn_page(-1)

    def do_top(self) -> None:
        """The first answer."""
        self.page.go(0)

    def do_bottom(self) -> None:
        """The last line."""
        self.page.go_end()

    def do_copy(self) -> None:
        """The command that gives the answer under the cursor."""
        given = self.page.current
        if given is not None and given.command is not None:
            what = "the command, without the source" if given.is_told_in_part else "the command"
            self.console_app.copy(given.command, what)

    def do_write_handover(self) -> None:
        """Write the file into the folder that the console was started in."""
        if self.handover is not None:
            self._save(self.handover, self.console_app.clock())

    @work(thread=True, group="handover-file", exit_on_error=False)
    def _save(self, handover: Handover, now: datetime) -> None:
        file = Path(f"handover-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}.txt")
        try:
            write_new(file, handover_text(handover, now).encode())
        except OSError as error:
            why = error.strerror or type(error).__name__
            self.post_message(self.Saved(f"{file} was not written: {why}", done=False))
        else:
            self.post_message(self.Saved(f"written to {file.resolve()}", done=True))

    def on_handover_screen_saved(self, message: Saved) -> None:
        """Say where it is."""
        said = self.console_app.glyphs.said(message.said)
        self.console_app.say(said, Role.VALUE if message.done else Role.NEEDS)


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())


def _typed(location: StoreLocation) -> str:
    """The store as a command names it. A password is not written down: it stays masked."""
    if location.path is not None:
        return f"sqlite://{location.path.resolve()}"
    return masked(location.store_url)
