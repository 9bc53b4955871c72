"""The inbox: what needs a human now, and what became of what was answered.

What stands in which lane is the operator room's to say; here is how it looks, which key is off
for a row and why, and that the clock alone can move an item.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime

from ctrlrun.approval import ApprovalStatus
from ctrlrun.authority import Authority
from ctrlrun.operator import (
    Filter,
    InboxCounts,
    InboxRow,
    Lane,
    RowKind,
    Standings,
    approval_facts,
    effect_document,
    effect_facts,
    inbox_counts,
    request_document,
    request_standing,
)
from ctrlrun.operator.delegations import authority_document
from ctrlrun.operator.endings import endings
from ctrlrun.operator.inbox import hidden_count
from ctrlrun.operator.wording import clock_text
from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import INBOX, Action
from ctrlrun_tui.data.models import Column, Detail, Line, Role, Row, Span
from ctrlrun_tui.screens.authority_detail import read_authority_detail
from ctrlrun_tui.screens.authority_off import why_off
from ctrlrun_tui.screens.cells import counted, cut_values, joined, room_for_counts
from ctrlrun_tui.screens.details import effect_detail, gone_detail, request_detail
from ctrlrun_tui.screens.inbox_rows import (
    COUNTED_DOWN,
    LANES,
    InboxRows,
    age_cell,
    item_of,
    left_cell,
)
from ctrlrun_tui.screens.records import RecordsView


class InboxView(RecordsView, inherit_bindings=False):
    """View 1."""

    PLACE = INBOX
    KIND = RowKind.INBOX
    MARKS = True
    EMPTY = "nothing waits for a human"
    LANES = LANES
    # In 80 cells all but the effect fit, in the 66 beside a detail all up to the arguments.
    COLUMNS = (
        Column("age", "age", 5, right=True, clock=age_cell),
        Column("left", "  left", 11, clock=left_cell),
        Column("action", "action", 20),
        Column("arguments", "arguments", 18, flexible=True, drop=3, cut=cut_values),
        Column("principal", "principal", 13, drop=2),
        Column("effect", "effect", 28, drop=1),
    )

    # --- what a view says ------------------------------------------------------------------------

    def source(self) -> InboxRows:
        glyphs = self.console_app.glyphs
        return InboxRows(glyphs, self.wanted, self.damage.hear, self.standings)

    def standings(self, reader: PagedReader, now: datetime) -> Standings:
        """The grants as they stand. Called in workers."""
        app = self.console_app
        document = app.authority if isinstance(app.authority, Authority) else None
        return app.shelf.read(reader, document, now)

    def hidden(self, reader: PagedReader, wanted: Filter, now: datetime) -> tuple[int, bool]:
        return hidden_count(reader, wanted, now, endings=endings(self.standings(reader, now), now))

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        item, glyphs = item_of(row), self.console_app.glyphs
        if item.ending is not None:
            return self._ending_detail(reader, row, item.item_id, now)
        if item.approval is None:
            effect = reader.get_effect(item.item_id)
            if effect is None:
                return gone_detail(row.id, item.item_id, glyphs)
            return effect_detail(row.id, effect_facts(reader, effect, now), glyphs, now)
        record = reader.get_approval(item.item_id)
        if record is None:
            return gone_detail(row.id, item.item_id, glyphs)
        facts = approval_facts(reader, record, self.console_app.policy, now)
        standing = request_standing(reader, item.item_id, now)
        granted = facts.status is ApprovalStatus.GRANTED
        return request_detail(row.id, facts, standing, item.refused if granted else None, glyphs)

    def _ending_detail(
        self, reader: PagedReader, row: Row, key: str, now: datetime
    ) -> Detail | None:
        glyphs = self.console_app.glyphs
        standings = self.standings(reader, now)
        node = standings.tree.find(key)
        if node is None:
            return gone_detail(row.id, key, glyphs)
        found = read_authority_detail(reader, standings, node, glyphs, now)
        return replace(found, id=row.id)

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        right = self.hides_line(reader, now)
        room = room_for_counts(self.console_app.size.width, self.filter_text, right)
        standings = self.standings(reader, now)
        counts = replace(inbox_counts(reader, now), ending=len(endings(standings, now)))
        return joined(counts_of(counts, grants=bool(standings.tree.nodes)), room), right

    def copied(self, row: Row) -> tuple[str, str]:
        item = item_of(row)
        item_id = item.item_id if item.ending is None else item.ending.row.node.node_id
        return item_id, item_id

    # --- time ------------------------------------------------------------------------------------

    def on_tick(self, now: datetime) -> None:
        """An item whose time ran out stands elsewhere now, although nobody wrote anything."""
        super().on_tick(now)
        if any(_ran_out(row, now) for row in self.list.window.rows):
            self.list.store_changed()
            self._read_view()

    # --- actions ---------------------------------------------------------------------------------

    def off(self, action: Action) -> str | None:
        reason = super().off(action)
        row = self.current_row
        if reason is not None or row is None:
            return reason
        item, now = item_of(row), self.console_app.clock()
        match action.name:
            case "approve" | "deny":
                return self._why_not_answered(item, now)
            case "mark":
                why = self._why_not_answered(item, now)
                return (
                    None if why is None else f"only what can be granted or denied is marked; {why}"
                )
            case "resolve":
                return self._why_not_resolved(item)
            case "delegate" | "revoke":
                if item.ending is None:
                    return "this is no grant"
                return why_off(action, item.ending.row, self.console_app)
            case _:
                return None

    def _why_not_answered(self, item: InboxRow, now: datetime) -> str | None:
        match item.lane:
            case Lane.WAITING:
                if item.until is not None and now > item.until:
                    return f"expired {clock_text(item.until)}, nothing was granted"
                return None
            case Lane.EXPIRED:
                return f"expired {_time(item.until)}"
            case Lane.UNSPENT:
                return "it is granted; the agent has not spent it yet"
            case Lane.AMBIGUOUS | Lane.LAPSED:
                resolve = self.console_app.keys.shown("resolve")
                return f"nobody asks; {resolve} says what became of it"
            case Lane.ENDING:
                return "nobody asks; this is a grant, and its time runs out"

    def _why_not_resolved(self, item: InboxRow) -> str | None:
        if item.lane in (Lane.AMBIGUOUS, Lane.LAPSED):
            return None
        if item.lane is Lane.ENDING:
            return "this is a grant; only an effect without an outcome is resolved"
        return "this is a request; only an effect without an outcome is resolved"

    def do_inspect(self) -> None:
        """The whole history of the action."""
        from ctrlrun_tui.screens.inspect import InspectScreen

        row = self.current_row
        if row is None:
            return
        ending = item_of(row).ending
        if ending is not None:
            self.console_app.show_grant(ending.row.node.node_id)
        else:
            self.app.push_screen(InspectScreen(_action_id(item_of(row))))

    def do_delegate(self) -> None:
        self._open_card("delegate")

    def do_revoke(self) -> None:
        self._open_card("revoke")

    def do_raw(self) -> None:
        """The record as JSON."""
        from ctrlrun_tui.screens.paper import JsonPaper

        row = self.current_row
        if row is not None:
            item = item_of(row)
            text = json.dumps(_document(item), ensure_ascii=False, indent=2)
            self.app.push_screen(JsonPaper(self.copied(row)[0], text))


def counts_of(counts: InboxCounts, *, grants: bool) -> tuple[Span, ...]:
    """The view's name and its lanes, empty ones too; endings where there are `grants` at all."""
    ending = (counted("ending", counts.ending, Role.VALUE),) if grants else ()
    return (
        Span("Inbox"),
        counted("waiting", counts.waiting, Role.NEEDS),
        counted("AMBIGUOUS", counts.ambiguous, Role.NEEDS),
        counted("lapsed", counts.lapsed, Role.NEEDS),
        counted("unspent", counts.unspent, Role.VALUE),
        *ending,
        counted("expired", counts.expired, Role.VALUE),
    )


def _ran_out(row: Row, now: datetime) -> bool:
    """Whether the clock moved an item out of the lane in which it is shown."""
    item = item_of(row)
    counts = row.left is None and item.lane in COUNTED_DOWN
    return counts and item.until is not None and now > item.until


def _time(moment: datetime | None) -> str:
    return "" if moment is None else clock_text(moment)


def _action_id(item: InboxRow) -> str:
    if item.approval is not None:
        return item.approval.request.action.action_id
    assert item.effect is not None
    return item.effect.action_id


def _document(item: InboxRow) -> dict[str, object]:
    if item.ending is not None:
        return authority_document(item.ending.row)
    if item.approval is not None:
        return request_document(item.approval)
    assert item.effect is not None
    return effect_document(item.effect)
