"""Receipts: how each attempt ended, newest first, and whether their chain holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar

from textual import work
from textual.message import Message

from ctrlrun.operator import RowKind, mutation_facts, uncovered_text
from ctrlrun.operator.wording import clock_text
from ctrlrun.receipt import Receipt
from ctrlrun.state import Page, PagedReader
from ctrlrun_tui.actions import RECEIPTS
from ctrlrun_tui.data.chain import ChainChild, ChainState
from ctrlrun_tui.data.models import Column, Detail, Line, Role, Row, Span
from ctrlrun_tui.data.searched import Searched
from ctrlrun_tui.data.sources import TOP
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.evidence import NO_MATCH, EvidenceView
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipt_detail import (
    mutation_detail,
    receipt_detail,
    result_span,
    result_word,
)

WALK_AGAIN = timedelta(seconds=1)
"""How often the chain is walked on at most while receipts keep coming."""


class ChainTold(Message, bubble=False):
    """How far a chain is verified by now; `child` tells the store's from one that was replaced."""

    def __init__(self, child: ChainChild, state: ChainState) -> None:
        super().__init__()
        self.child = child
        self.state = state

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ChainTold) and message.child is self.child


class ReceiptsView(EvidenceView, inherit_bindings=False):
    """Every receipt of the store, however many: only what is on the screen is held."""

    PLACE = RECEIPTS
    KIND = RowKind.RECEIPTS
    NEWEST_FIRST = True
    EMPTY = "no receipts yet"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("time", "time UTC", 8),
        Column("action", "action", 20),
        Column("result", "  decision/result", 19),
        Column("effect", "effect", 14, flexible=True, drop=2),
        Column("principal", "principal", 13, drop=1),
    )

    def __init__(self) -> None:
        super().__init__()
        self._chain: ChainChild | None = None
        self._chain_state = ChainState()
        self._walking = False
        self._walk_due = True
        self._walked_at: datetime | None = None
        self._behind: tuple[str, str] | None = None

    # --- what is behind a number of another view -------------------------------------------------

    def show_behind(self, filter_text: str, *, back_to: str) -> None:
        """Show what this filter lets through, and go back there when it is left."""
        self._behind = (filter_text, back_to)
        if not self.is_mounted:  # read for the first time when the list stands
            self.filter_text = filter_text
            return
        if self.is_open:
            super().do_back()
        self.set_filter(filter_text)
        self.list.go(TOP)

    def on_screen_suspend(self) -> None:
        """Whoever went on to another view by its key does not come back by the number's way."""
        if self.console_app.current_mode != RECEIPTS:
            self._behind = None

    def do_back(self) -> None:
        """From what is behind a number to that number."""
        behind = self._behind
        if behind is None or self.pane_has_keys or self.filter_text != behind[0]:
            super().do_back()
            return
        self.set_filter("")
        self.console_app.say("")
        self.console_app.show_view(behind[1])

    # --- rows ------------------------------------------------------------------------------------

    def source(self) -> Searched[Receipt]:
        return self.searched()

    def pages(self, reader: PagedReader) -> Callable[..., Page[Receipt]]:
        return reader.receipts_page

    def shown(self, record: Any, glyphs: Glyphs, now: datetime) -> Row:
        return receipt_row(record, glyphs, now)

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        receipt = row.record
        assert isinstance(receipt, Receipt)
        glyphs = self.console_app.glyphs
        mutation = mutation_facts(reader, receipt)
        if mutation is not None:
            return mutation_detail(mutation, glyphs, here=self.console_app.where.environment)
        uncovered = uncovered_text(reader, receipt, self.console_app.authority, now)
        return receipt_detail(receipt, glyphs, uncovered)

    # --- the view line, with the chain's state ---------------------------------------------------

    def told(self) -> tuple[Line, Line]:
        glyphs = self.console_app.glyphs
        more_to_say = bool(self.filter_text or self.damage.told(glyphs))
        left: Line = (Span("Receipts"),)
        if not more_to_say:
            left = (*left, Span("  newest first", Role.QUIET))
        return left, chain_line(self._chain_state, glyphs, short=more_to_say)

    # --- the chain -------------------------------------------------------------------------------

    def on_mount(self) -> None:
        if self.filter_text:
            self.list.empty = NO_MATCH
        super().on_mount()
        self._chain = ChainChild(self.console_app.desk.location)
        self._walk_when_due(self.console_app.clock())

    def on_unmount(self) -> None:
        """The walking process ends with the view."""
        if self._chain is not None:
            self._chain.stop()

    def on_store_changed(self) -> None:
        super().on_store_changed()
        self._walk_due = True
        self._walk_when_due(self.console_app.clock())

    def on_tick(self, now: datetime) -> None:
        super().on_tick(now)
        self._walk_when_due(now)

    def store_replaced(self) -> None:
        """What was verified was another chain."""
        if self._chain is not None:
            self._chain.stop()
        self._chain = ChainChild(self.console_app.desk.location)
        self._chain_state = ChainState()
        self._walking, self._walk_due, self._walked_at = False, True, None
        super().store_replaced()
        if self.is_current:
            self._walk_when_due(self.console_app.clock())

    def _walk_when_due(self, now: datetime) -> None:
        """Have the chain verified to its end, if it may have grown."""
        if not self._walk_due or self._walking or self._chain is None:
            return
        if self._walked_at is not None and timedelta(0) <= now - self._walked_at < WALK_AGAIN:
            return
        self._walking, self._walk_due, self._walked_at = True, False, now
        self._walk(self._chain)

    @work(thread=True, group="chain", exit_on_error=False)
    def _walk(self, child: ChainChild) -> None:
        child.walk(lambda state: self.post_message(ChainTold(child, state)))

    def on_chain_told(self, message: ChainTold) -> None:
        """The view line says how far."""
        if message.child is not self._chain:
            return
        self._chain_state = message.state
        if message.state.done:
            self._walking = False
        self.show_view_line()

    # --- actions ---------------------------------------------------------------------------------

    def do_inspect(self) -> None:
        receipt = self._receipt
        if receipt is not None:
            self.app.push_screen(InspectScreen(receipt.action_id))

    def do_raw(self) -> None:
        receipt = self._receipt
        if receipt is not None:
            text = json.dumps(receipt.to_dict(), ensure_ascii=False, indent=2)
            self.app.push_screen(JsonPaper(receipt.receipt_id, text))

    @property
    def _receipt(self) -> Receipt | None:
        row = self.current_row
        return row.record if row is not None and isinstance(row.record, Receipt) else None


def receipt_row(receipt: Receipt, glyphs: Glyphs, now: datetime) -> Row:
    """A receipt in the list."""
    said = glyphs.said
    sign = result_span(receipt, glyphs)
    result = Span(f" {receipt.decision.value}/{result_word(receipt)}", sign.role)
    cells: dict[str, Line] = {
        "time": (Span(when_text(receipt.finished_at, now), Role.QUIET),),
        "action": (Span(said(receipt.action)),),
        "result": (sign, result),
        "effect": (Span(said(receipt.effect_key or ""), Role.QUIET),),
        "principal": (Span(said(receipt.principal.agent), Role.QUIET),),
    }
    return Row(receipt.receipt_id, cells, "receipt", receipt)


def when_text(moment: datetime, now: datetime) -> str:
    """The time of day; of another day its date, as both fill the same eight cells."""
    if moment.date() == now.date():
        return clock_text(moment)[:8]
    return f"{moment:%y-%m-%d}"


def chain_line(state: ChainState, glyphs: Glyphs, *, short: bool = False) -> Line:
    """`chain ✓ verified to 8,412 of 8,418`, or where it is broken and how."""
    if state.why:
        return (Span(f"chain not read: {glyphs.said(state.why)}", Role.NEEDS),)
    if state.broken is not None:
        where = "" if state.broken_at is None else f" at seq {state.broken_at:,}"
        others = f", {state.breaks:,} breaks" if state.breaks > 1 and not short else ""
        how = glyphs.said(state.broken.replace("_", " "))
        return (Span(f"chain {glyphs.denied} broken{where}: {how}{others}", Role.ALARM),)
    if state.head is None:
        return (Span("chain is being read", Role.QUIET),)
    verified = "" if short else "verified to "
    text = f"chain {glyphs.committed} {verified}{state.seq:,} of {state.head:,}"
    line: Line = (Span(text, Role.QUIET),)
    if state.outside:
        line = (*line, Span(f"  {glyphs.ambiguous} {state.outside:,} outside it", Role.NEEDS))
    return line
