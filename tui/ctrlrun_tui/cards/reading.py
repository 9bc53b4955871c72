"""A card's facts: read in a thread worker, drawn, read again when the store changes.

A card is over as soon as the record is no longer the one that was drawn, or the clock runs out over
it. This class answers nothing and takes no letter; `Card` does (cards/base.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from textual import on, work
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from ctrlrun.operator.wording import clock_text
from ctrlrun.state import PagedReader
from ctrlrun_tui.cards.fieldrow import FieldRow
from ctrlrun_tui.cards.parts import CARD_WIDTH, INSIDE, Block, Cancel, FactsPane, Rim
from ctrlrun_tui.cards.sheet import Laid
from ctrlrun_tui.data.models import Line, Role, Span, line
from ctrlrun_tui.frames import awaits_layout
from ctrlrun_tui.screens.base import Overlay

FRAME_ROWS = 5
"""Rows of a terminal that are no card's inside: the pinned line, the frame, notice and footer."""

ASK_ROWS = 3
"""Rows of a card's last lines: a blank, the code or why there is none, Cancel."""


A_FRAME = 0.02
"""Seconds until a screen that is to be laid out has been."""


class Phase(StrEnum):
    """Where a card stands."""

    READING = "reading"
    OPEN = "open"
    WRITING = "writing"
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Over:
    """Why nothing can be answered any more; `expired` when time alone did it."""

    line: Line
    expired: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read for a card, and how it is drawn.

    `bound` is what an answer is bound to: once drawn it may not change. `over` is set when nothing
    can be answered, once and for all. `expires_at` is when that will be so by the clock. `folded` says
    that the lines leave a part of a value out. `head` stands above the lines that scroll, `pinned`
    below them: what decides, and is on the screen whenever there is a code.
    """

    bound: object
    facts: Any
    laid: tuple[Laid, ...] = ()
    folded: bool = False
    over: Over | None = None
    expires_at: datetime | None = None
    head: Line = ()
    pinned: tuple[Line, ...] = ()


class FactsCard(Overlay[None]):
    """A card without its answers. Subclasses read and say."""

    DEFAULT_CSS = f"""
    FactsCard {{ background: $background; overflow: hidden; }}
    FactsCard #body {{ align-horizontal: center; height: 1fr; }}
    FactsCard #inside {{
        width: {CARD_WIDTH}; height: 1fr; padding: 0 1; overflow: hidden;
        border-left: solid $faint; border-right: solid $faint;
    }}
    FactsCard.-ascii #inside {{ border-left: ascii $faint; border-right: ascii $faint; }}
    FactsCard #fields {{ width: {INSIDE}; height: auto; }}
    """
    AUTO_FOCUS = "#cancel"

    class Read(Message):
        """A worker read what the card shows."""

        def __init__(self, number: int, reading: Reading) -> None:
            super().__init__()
            self.number = number
            self.reading = reading

    class Unread(Message):
        """A worker could not read."""

        def __init__(self, number: int, why: str) -> None:
            super().__init__()
            self.number = number
            self.why = why

    def __init__(self) -> None:
        super().__init__()
        self.phase = Phase.READING
        self.drawn: Reading | None = None
        self.whole = False
        self.over: Over | None = None
        self.unread: str | None = None
        self.pane = FactsPane(id="facts")
        self.ask_block = Block(id="ask")
        self.refusal_block = Block(id="refusal")
        self.cancel = Cancel(id="cancel")
        self.fields = Vertical(id="fields")
        self._rim = Rim(id="rim")
        self._head = Block(id="head")
        self._more = Block(id="more")
        self.pinned_block = Block(id="pinned")
        self._consequence = Block(id="consequence")
        self._read_number = 0
        self._is_reading = False
        self._reads_again = False
        self._counts_later = False

    # --- what a card says: subclasses fill this in -----------------------------------------------

    def read(self, reader: PagedReader, now: datetime, *, whole: bool) -> Reading:
        """Read what the card shows. Called in a worker thread."""
        raise NotImplementedError

    def title_line(self) -> Line:
        """The card's name, in its frame."""
        raise NotImplementedError

    def clock_line(self, now: datetime) -> Line:
        """What time does to the record, in the frame's right corner."""
        return ()

    def consequence(self) -> Sequence[Line]:
        """What the answer does, under the facts."""
        raise NotImplementedError

    def field_rows(self) -> Sequence[FieldRow]:
        """The fields, made once."""
        return ()

    def expired_line(self, expires_at: datetime) -> Line:
        """What the card says once the clock ran out over it."""
        return line(Span(f"expired {clock_text(expires_at)}, nothing granted", Role.NEEDS))

    def shown_lines(self) -> tuple[Laid, ...]:
        """The lines that scroll: what was read."""
        return () if self.drawn is None else self.drawn.laid

    def pinned_lines(self) -> Sequence[Line]:
        """The lines that stay above the code: what decides."""
        return () if self.drawn is None else self.drawn.pinned

    def leave_word(self) -> str:
        """What the only button says."""
        return "Cancel" if self.over is None else "Close"

    def renew_ask(self) -> None:
        """Say what can be answered now, and how."""
        raise NotImplementedError

    # --- frame -----------------------------------------------------------------------------------

    def compose_body(self) -> ComposeResult:
        yield self._rim
        with Vertical(id="inside"):
            yield self._head
            yield self.pane
            yield self._more
            yield self.pinned_block
            yield self._consequence
            with self.fields:
                yield from self.field_rows()
            yield self.refusal_block
            yield self.ask_block
            yield self.cancel
        yield Rim(foot=True, id="foot")

    def on_mount(self) -> None:
        """Draw the frame, and read what goes into it."""
        self.set_class(self.console_app.glyphs.ascii, "-ascii")
        self.renew()
        self.start_reading()

    # --- reading ---------------------------------------------------------------------------------

    def start_reading(self) -> None:
        """Read, or read once more when the reading under way is done."""
        if self._is_reading:
            self._reads_again = True
            return
        self._is_reading, self._reads_again = True, False
        self._read_number += 1
        self._read(self._read_number, whole=self.whole)

    @work(thread=True, group="card-read", exit_on_error=False)
    def _read(self, number: int, *, whole: bool) -> None:
        app = self.console_app
        try:
            with closing(app.desk.reader()) as reader:
                reading = self.read(reader, app.clock(), whole=whole)
        except Exception as error:  # whatever it is, the card says it and stays
            self.post_message(self.Unread(number, told(error)))
        else:
            self.post_message(self.Read(number, reading))

    def on_facts_card_read(self, message: Read) -> None:
        """Draw it, or say that the record is not the one that was drawn."""
        if message.number != self._read_number:
            return
        self._is_reading, self.unread = False, None
        if self.phase in (Phase.READING, Phase.OPEN):
            self._take(message.reading)
        if self._reads_again and self.phase is not Phase.OVER:
            self.start_reading()

    def on_facts_card_unread(self, message: Unread) -> None:
        """Keep what is drawn; a card that never was says why."""
        if message.number != self._read_number:
            return
        self._is_reading, self.unread = False, message.why
        self.renew_ask()

    def _take(self, reading: Reading) -> None:
        if self.drawn is None:
            self.drawn = reading
            self.phase = Phase.OPEN
        elif reading.over is None and reading.bound != self.drawn.bound:
            moved = Span("it changed while you read; nothing was written", Role.NEEDS)
            self.end(Over(line(moved)))
            return
        elif reading.over is None:
            if reading == self.drawn:
                return
            self.drawn = reading
        if reading.over is not None:
            self.end(reading.over)
        elif not self.look_at_clock(self.console_app.clock()):
            self.took()

    def took(self) -> None:
        """There are facts to draw, and they can be answered."""
        self.renew()

    def forget(self) -> None:
        """Start with another record: nothing of this one is left."""
        self._read_number += 1
        self._is_reading = False
        self.phase = Phase.READING
        self.drawn = None
        self.whole = False
        self.over = None
        self.unread = None
        self.pane.clear()
        for block in (self._head, self.pinned_block, self._consequence):
            block.show(())

    def end(self, over: Over) -> None:
        """Nothing can be answered here any more."""
        self.phase = Phase.OVER
        self.over = over
        self.renew()

    def look_at_clock(self, now: datetime) -> bool:
        """Whether the clock ran out over the card."""
        expires_at = None if self.drawn is None else self.drawn.expires_at
        if self.phase is not Phase.OPEN or expires_at is None or now <= expires_at:
            return False
        self.end(Over(self.expired_line(expires_at), expired=True))
        return True

    # --- what the application tells --------------------------------------------------------------

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        self.look_at_clock(now)
        self.show_rim(now)
        if self.unread is not None and self.phase is not Phase.OVER:
            self.start_reading()

    def on_store_changed(self) -> None:
        super().on_store_changed()
        if self.phase is not Phase.OVER:
            self.start_reading()

    # --- drawing ---------------------------------------------------------------------------------

    def renew(self) -> None:
        """Draw what reads otherwise than it does on the screen."""
        self.show_rim(self.console_app.clock())
        if self.drawn is not None:
            self._head.show([self.drawn.head] if self.drawn.head else [])
            self.pane.show(self.shown_lines())
            self.pinned_block.show(self.pinned_lines())
            self._consequence.show(self._without_blanks(self.consequence()))
        self.cancel.say(self.leave_word())
        self.renew_ask()
        self.renew_frame()
        self.call_after_refresh(self.renew_more)

    @property
    def is_tight(self) -> bool:
        """Whether blank lines would keep facts off the screen."""
        blocks = self.consequence() if self.drawn is not None else ()
        fields = sum(row.display for row in self.fields.children) if self.fields.display else 0
        taken = FRAME_ROWS + 1 + len(self.pinned_lines()) + len(blocks) + fields + ASK_ROWS
        return len(self.shown_lines()) > self.size.height - taken

    def _without_blanks(self, lines: Sequence[Line]) -> Sequence[Line]:
        return [each for each in lines if each] if self.is_tight else lines

    def show_rim(self, now: datetime) -> None:
        self._rim.show(self.title_line(), self.clock_line(now))

    @on(FactsPane.Scrolled)
    def renew_more(self) -> None:
        """Say how much of the facts is not on the screen. What is has been seen, once it is drawn."""
        above, below = self.pane.lines_above, self.pane.lines_below
        if (above, below) == (0, 1) and self._more.size.height:
            below = 0  # the one line fits where it is told of
        parts = []
        if below:
            parts.append(f"{below} more line{'s' * (below > 1)} below")
        if above:
            parts.append(f"{above} above")
        self._more.show([line(Span(", ".join(parts), Role.QUIET))] if parts else [])
        self.call_after_refresh(self._count_seen)

    def _count_seen(self) -> None:
        self._counts_later = self.is_current and awaits_layout(self)
        if self._counts_later:  # the next frame may have other lines
            self.set_timer(A_FRAME, self._count_seen)
        elif self.is_current:
            self.pane.count_seen()

    @property
    def is_at_rest(self) -> bool:
        return not self._counts_later

    # --- actions ---------------------------------------------------------------------------------

    def do_card_whole(self) -> None:
        """Every value whole, or folded again."""
        self.whole = not self.whole
        self.renew()
        self.start_reading()

    def do_card_copy(self) -> None:
        """The facts as text."""
        lines = ("".join(span.text for span in each).rstrip() for each in self.copied())
        self.console_app.copy("\n".join(lines), "what the card says")

    def copied(self) -> Sequence[Line]:
        """What `y` sends, line by line."""
        if self.drawn is None:
            return ()
        facts = [each.line for each in self.drawn.laid]
        return [self.drawn.head, *facts, *self.drawn.pinned]

    def do_next_field(self) -> None:
        """The next field, or Cancel."""
        self.focus_next()

    def do_previous_field(self) -> None:
        """The field before."""
        self.focus_previous()

    def do_card_down(self) -> None:
        """Scroll by a line."""
        self.pane.move(1)

    def do_card_up(self) -> None:
        """Scroll back by a line."""
        self.pane.move(-1)

    def do_card_page_down(self) -> None:
        """Scroll by a screen."""
        self.pane.turn_page(1)

    def do_card_page_up(self) -> None:
        """Scroll back by a screen."""
        self.pane.turn_page(-1)

    def do_card_top(self) -> None:
        """The first line."""
        self.pane.scroll_home(animate=False, immediate=True)

    def do_card_bottom(self) -> None:
        """The last line."""
        self.pane.scroll_end(animate=False, immediate=True)


def told(error: Exception) -> str:
    """An error as one sentence."""
    return str(error).strip() or type(error).__name__
