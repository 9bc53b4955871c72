"""Inspect: everything that is known of one action, as one history; `J` shows it as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from ctrlrun.operator import Timeline, action_timeline, find_action, inspection_for
from ctrlrun.operator.money import money
from ctrlrun.operator.wording import short_hash
from ctrlrun.state import PagedReader
from ctrlrun_tui.cards.facts_view import argument_facts, environment_span, principal_facts
from ctrlrun_tui.data.models import BLANK, Detail, DetailLine, Fact, Line, Prose, Role, Span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.paper import Paper, json_detail
from ctrlrun_tui.screens.receipt_detail import approval_fact, effect_fact, receipt_fact
from ctrlrun_tui.screens.timeline import timeline_lines

HISTORY = 500
"""Events of one action that are read; a longer history says that it goes further back."""


class InspectScreen(Paper, inherit_bindings=False):
    """One action: what it was, what became of it, and its history."""

    TITLE_LINE = "Inspect"

    def __init__(self, action_id: str) -> None:
        super().__init__(action_id)
        self._raw = False

    def title_line(self) -> Line:
        line = super().title_line()
        return (*line, Span("  as JSON", Role.YOURS)) if self._raw else line

    def read(self, reader: PagedReader, now: datetime) -> Detail | None:
        glyphs = self.console_app.glyphs
        if self._raw:
            document = inspection_for(reader, self.record_id)
            if document is None:
                return None
            text = json.dumps(document, ensure_ascii=False, indent=2)
            return json_detail(self.record_id, text, glyphs)
        history = action_timeline(reader, self.record_id, now, limit=HISTORY)
        if not history.events and not history.receipts:
            return None
        return inspection_detail(reader, self.record_id, history, glyphs, now)

    def do_raw(self) -> None:
        self._raw = not self._raw
        self._is_read = False
        self.pane.show(None)
        self.renew()


def inspection_detail(
    reader: PagedReader, action_id: str, history: Timeline, glyphs: Glyphs, now: datetime
) -> Detail:
    """The sheet of one action."""
    lines = (
        *_what_it_was(reader, action_id, history, glyphs),
        BLANK,
        *_what_became_of_it(reader, history, glyphs, now),
        BLANK,
        *_history(history, glyphs, now),
    )
    name = history.receipts[-1].action if history.receipts else "action"
    title = (Span(glyphs.said(name)),)
    return Detail(action_id, title, (Span(glyphs.said(action_id), Role.QUIET),), lines, action_id)


def _what_it_was(
    reader: PagedReader, action_id: str, history: Timeline, glyphs: Glyphs
) -> Iterator[DetailLine]:
    key = next((event.effect_key for event in history.events if event.effect_key), None)
    action = find_action(reader, action_id, key)
    if action is None:
        yield Prose((Span("its arguments stand nowhere in this store", Role.QUIET),))
        return
    environment = (environment_span(action.environment, glyphs),)
    yield Fact("action", (Span(glyphs.said(action.name)),), environment, whole=True)
    yield from argument_facts(action, money(dict(action.arguments)), glyphs, whole=True).facts
    yield from principal_facts(action, glyphs)
    if action.resource is not None:
        yield Fact("resource", (Span(glyphs.said(action.resource)),), whole=True)
    yield Fact("hash", (Span(short_hash(action.action_hash, ellipsis=glyphs.middle)),))


def _what_became_of_it(
    reader: PagedReader, history: Timeline, glyphs: Glyphs, now: datetime
) -> Iterator[DetailLine]:
    approvals = dict.fromkeys(event.approval_id for event in history.events if event.approval_id)
    for approval_id in approvals:
        record = reader.get_approval(approval_id)
        if record is not None:
            yield approval_fact(record, glyphs, now)
    keys = dict.fromkeys(event.effect_key for event in history.events if event.effect_key)
    for key in keys:
        effect = reader.get_effect(key)
        if effect is not None:
            yield effect_fact(effect, glyphs, now)
    for receipt in history.receipts:
        yield receipt_fact(receipt, glyphs)
    if not history.receipts:
        yield Fact("receipt", (Span("none yet", Role.QUIET),))


def _history(history: Timeline, glyphs: Glyphs, now: datetime) -> Iterator[DetailLine]:
    if not history.complete:
        text = f"the newest {HISTORY} events; the history goes further back"
        yield Prose((Span(text, Role.NEEDS),))
    for damage in history.damaged:
        text = f"{damage.table} {damage.row_id} cannot be read: {damage.detail}"
        yield Prose((Span(glyphs.said(text), Role.NEEDS),), (Span(glyphs.denied, Role.NEEDS),))
    yield from timeline_lines(history.entries, glyphs, now, whole=True)
