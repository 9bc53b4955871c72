"""The requests behind a number of Stats: all that a filter lets through, answered or not.

A page over the view that opened it. Nothing is answered here: what waits stands in the Inbox.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.operator import (
    RowKind,
    action_of_request,
    approval_facts,
    request_document,
    request_standing,
)
from ctrlrun.state import Page, PagedReader
from ctrlrun_tui.actions import REQUESTS
from ctrlrun_tui.data.models import Column, Detail, Line, Role, Row, Span
from ctrlrun_tui.data.searched import Searched
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.cells import arguments_line, cut_values, short_value, state_line
from ctrlrun_tui.screens.details import gone_detail, request_detail
from ctrlrun_tui.screens.evidence import EvidenceView
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipts import when_text

_SIGNS = {
    ApprovalStatus.PENDING: ("waiting", "waiting"),
    ApprovalStatus.GRANTED: ("granted", "granted"),
    ApprovalStatus.DENIED: ("denied", "denied"),
    ApprovalStatus.EXPIRED: ("expired", "EXPIRED"),
    ApprovalStatus.CONSUMED: ("spent", "spent"),
}


class RequestsScreen(EvidenceView, inherit_bindings=False):
    """Requests under a filter, newest first."""

    PLACE = REQUESTS
    KIND = RowKind.APPROVALS
    NEWEST_FIRST = True
    EMPTY = "no request"
    COLUMNS: ClassVar[tuple[Column, ...]] = (
        Column("time", "asked", 8),
        Column("state", "  state", 10),
        Column("action", "action", 20),
        Column("arguments", "arguments", 18, flexible=True, cut=cut_values),
        Column("principal", "principal", 13, drop=1),
        Column("by", "answered by", 12, drop=2),
    )

    def __init__(self, filter_text: str) -> None:
        super().__init__()
        self.filter_text = filter_text

    # --- rows ------------------------------------------------------------------------------------

    def source(self) -> Searched[ApprovalRecord]:
        return replace(self.searched(), immutable=False)

    def pages(self, reader: PagedReader) -> Callable[..., Page[ApprovalRecord]]:
        return reader.approvals_page

    def shown(self, record: Any, glyphs: Glyphs, now: datetime) -> Row:
        return request_row(record, glyphs, now)

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        glyphs = self.console_app.glyphs
        record = reader.get_approval(row.id)
        if record is None:
            return gone_detail(row.id, row.id, glyphs)
        facts = approval_facts(reader, record, self.console_app.policy, now)
        return request_detail(row.id, facts, request_standing(reader, row.id, now), None, glyphs)

    def told(self) -> tuple[Line, Line]:
        return (Span("Requests"), Span("  newest first", Role.QUIET)), ()

    # --- actions ---------------------------------------------------------------------------------

    def do_back(self) -> None:
        """The open detail, then the view that asked."""
        if self.pane_has_keys:
            super().do_back()
        else:
            self.console_app.say("")
            self.dismiss()

    def do_inspect(self) -> None:
        record = self._record
        if record is not None:
            self.app.push_screen(InspectScreen(record.request.action.action_id))

    def do_raw(self) -> None:
        record = self._record
        if record is not None:
            text = json.dumps(request_document(record), ensure_ascii=False, indent=2)
            self.app.push_screen(JsonPaper(record.approval_id, text))

    @property
    def _record(self) -> ApprovalRecord | None:
        row = self.current_row
        return row.record if row is not None and isinstance(row.record, ApprovalRecord) else None


def request_row(record: ApprovalRecord, glyphs: Glyphs, now: datetime) -> Row:
    """A request in the list, in its state by the clock."""
    action = action_of_request(record.request.action, record.action_hash)
    approver = record.approver
    cells: dict[str, Line] = {
        "time": (Span(when_text(record.request.created_at, now), Role.QUIET),),
        "state": state_line(*_SIGNS[record.status_at(now)], glyphs),
        "action": (Span(short_value(action.name, glyphs)),),
        "arguments": arguments_line(action, None, glyphs),
        "principal": (Span(short_value(action.principal.agent, glyphs), Role.QUIET),),
        "by": () if approver is None else (Span(short_value(approver, glyphs), Role.QUIET),),
    }
    return Row(record.approval_id, cells, "approval", record)
