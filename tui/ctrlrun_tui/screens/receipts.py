"""Receipts: how each attempt ended, newest first, and whether their chain holds."""

from __future__ import annotations

import functools
import json
from datetime import datetime
from typing import ClassVar

from textual import work
from textual.message import Message

from ctrlrun.operator import RowKind, mutation_facts, parse
from ctrlrun.operator.wording import clock_text
from ctrlrun.receipt import Receipt
from ctrlrun.state import Damage, PagedReader
from ctrlrun_tui.actions import RECEIPTS
from ctrlrun_tui.data.chain import ChainChild, ChainState
from ctrlrun_tui.data.models import Column, Detail, Line, Role, Row, Span
from ctrlrun_tui.data.searched import Searched
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipt_detail import (
    mutation_detail,
    receipt_detail,
    result_span,
    result_word,
)
from ctrlrun_tui.screens.view import ViewScreen


class ChainTold(Message, bubble=False):
    """How far the chain is verified by now."""

    def __init__(self, state: ChainState) -> None:
        super().__init__()
        self.state = state

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ChainTold)


class ReceiptsView(ViewScreen):
    """Every receipt of the store, however many: only what is on the screen is held."""

    PLACE = RECEIPTS
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
        self._walk_again = False
        self._damaged: dict[str, str] = {}

    # --- rows ------------------------------------------------------------------------------------

    def source(self) -> Searched[Receipt]:
        wanted = parse(self.filter_text, RowKind.RECEIPTS, now=self.console_app.clock())
        filters = wanted.page_filters()
        return Searched(
            pages=lambda reader: functools.partial(reader.receipts_page, **filters),
            keep=lambda receipt: wanted.is_empty or wanted.matches(receipt),
            shown=lambda receipt, now: receipt_row(receipt, self.console_app.glyphs, now),
            damaged=self._hear_damage,
            newest_first=True,
        )

    def check_filter(self, text: str, now: datetime) -> None:
        parse(text, RowKind.RECEIPTS, now=now)

    def _hear_damage(self, damaged: tuple[Damage, ...]) -> None:
        self._damaged.update({damage.row_id: damage.detail for damage in damaged})

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        receipt = row.record
        assert isinstance(receipt, Receipt)
        glyphs = self.console_app.glyphs
        mutation = mutation_facts(reader, receipt)
        if mutation is not None:
            return mutation_detail(mutation, glyphs)
        return receipt_detail(receipt, glyphs)

    def copied(self, row: Row) -> tuple[str, str]:
        return row.id, row.id

    # --- the view line, with the chain's state ---------------------------------------------------

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        left: Line = (Span("Receipts"), Span("  newest first", Role.QUIET))
        if self._damaged:
            said = self.console_app.glyphs.said(next(iter(self._damaged)))
            text = f"  {len(self._damaged)} cannot be read, {said} the first"
            left = (*left, Span(text, Role.NEEDS))
        return left, chain_line(self._chain_state, self.console_app.glyphs)

    def on_mount(self) -> None:
        super().on_mount()
        self._chain = ChainChild(self.console_app.desk.location)
        self._walk_on()

    def on_unmount(self) -> None:
        """The walking process ends with the view."""
        if self._chain is not None:
            self._chain.stop()

    def on_store_changed(self) -> None:
        super().on_store_changed()
        self._walk_on()

    def start_over(self) -> None:
        super().start_over()
        self._damaged.clear()

    def _walk_on(self) -> None:
        """Have the chain verified to its end; once more if it grew meanwhile."""
        if self._walking:
            self._walk_again = True
            return
        self._walking = True
        self._walk_again = False
        self._walk()

    @work(thread=True, group="chain", exit_on_error=False)
    def _walk(self) -> None:
        assert self._chain is not None
        self._chain.walk(lambda state: self.post_message(ChainTold(state)))

    def on_chain_told(self, message: ChainTold) -> None:
        """The view line says how far."""
        self._chain_state = message.state
        self._right = chain_line(message.state, self.console_app.glyphs)
        self.show_view_line()
        if message.state.done:
            self._walking = False
            if self._walk_again:
                self._walk_on()

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


def chain_line(state: ChainState, glyphs: Glyphs) -> Line:
    """`chain ✓ verified to 8,412 of 8,418`, or where it is broken and how."""
    if state.why:
        return (Span("chain not read: ", Role.NEEDS), Span(glyphs.said(state.why), Role.NEEDS))
    if state.broken is not None:
        where = "" if state.broken_at is None else f" at seq {state.broken_at:,}"
        text = f"chain {glyphs.denied} broken{where}: {state.broken.replace('_', ' ')}"
        return (Span(text, Role.ALARM),)
    if state.head is None:
        return (Span("chain is being read", Role.QUIET),)
    sign = f"{glyphs.committed} " if state.done else ""
    text = f"chain {sign}verified to {state.seq:,} of {state.head:,}"
    return (Span(text, Role.QUIET),)
