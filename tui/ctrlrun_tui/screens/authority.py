"""View 6, Authority: who may do what, handed on by whom, and for how long.

The tree is the operator room's; here is how it looks, and which key is off for a line and why.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from pathlib import PurePath

from ctrlrun.authority import Authority
from ctrlrun.operator import (
    AuthorityRow,
    AuthorityUnread,
    Filter,
    GrantState,
    NodeKind,
    RowKind,
    Standings,
)
from ctrlrun.operator.delegations import authority_document
from ctrlrun.state import PagedReader
from ctrlrun_tui.actions import AUTHORITY, Action
from ctrlrun_tui.data.models import Column, Detail, Line, Role, Row, Span
from ctrlrun_tui.screens.authority_detail import read_authority_detail
from ctrlrun_tui.screens.authority_off import why_off
from ctrlrun_tui.screens.authority_rows import (
    AuthorityRows,
    Order,
    cut_limits,
    ends_cell,
    line_of,
)
from ctrlrun_tui.screens.cells import joined, room_for_counts
from ctrlrun_tui.screens.details import gone_detail
from ctrlrun_tui.screens.records import RecordsView

SOURCE_SHOWN = 24
"""Cells of a document's name on the view line."""


class AuthorityView(RecordsView, inherit_bindings=False):
    """View 6."""

    PLACE = AUTHORITY
    KIND = RowKind.AUTHORITY
    EMPTY = "no grant and no delegation"
    # In 80 cells all fit; in the 66 beside a detail all but the actions, in 60 the same.
    COLUMNS = (
        Column("ends", "ends in", 12, right=True, clock=ends_cell),
        Column("subject", "subject", 26, flexible=True),
        Column("actions", "actions", 14, drop=1),
        Column("limits", "limits", 16, cut=cut_limits),
    )

    def __init__(self) -> None:
        super().__init__()
        self.order = Order.TREE

    # --- what a view says ------------------------------------------------------------------------

    @property
    def document(self) -> Authority | None:
        """The grants that are read, if any."""
        authority = self.console_app.authority
        return authority if isinstance(authority, Authority) else None

    def standings(self, reader: PagedReader, now: datetime) -> Standings:
        """The tree as it stands. Called in workers."""
        return self.console_app.shelf.read(reader, self.document, now)

    def source(self) -> AuthorityRows:
        return AuthorityRows(self.standings, self.console_app.glyphs, self.wanted, self.order)

    def hidden(self, reader: PagedReader, wanted: Filter, now: datetime) -> tuple[int, bool]:
        standings = self.standings(reader, now)
        nodes = standings.tree.nodes
        return sum(not wanted.matches(standings.row(node), now=now) for node in nodes), False

    def detail(self, reader: PagedReader, row: Row, now: datetime) -> Detail | None:
        standings, glyphs = self.standings(reader, now), self.console_app.glyphs
        node = standings.tree.find(row.id)
        if node is None:
            return gone_detail(row.id, line_of(row).node.node_id, glyphs)
        return read_authority_detail(reader, standings, node, glyphs, now)

    def view_line(self, reader: PagedReader, now: datetime) -> tuple[Line, Line]:
        right = self.hides_line(reader, now) or self._document_line()
        room = room_for_counts(self.console_app.size.width, self.filter_text, right)
        parts = [Span("Authority"), *_counts(self.standings(reader, now), now)]
        if self.order is not Order.TREE:
            parts.insert(1, Span(self.order, Role.QUIET))
        return joined(parts, room), right

    def _document_line(self) -> Line:
        authority, glyphs = self.console_app.authority, self.console_app.glyphs
        if isinstance(authority, AuthorityUnread):
            return (Span("no grants read", Role.NEEDS),)
        name = glyphs.cut(glyphs.said(PurePath(authority.source).name), SOURCE_SHOWN)
        return (Span(f"{name}, depth {authority.max_delegation_depth} at most", Role.QUIET),)

    def copied(self, row: Row) -> tuple[str, str]:
        node_id = line_of(row).node.node_id
        return node_id, node_id

    # --- actions ---------------------------------------------------------------------------------

    def off(self, action: Action) -> str | None:
        reason = super().off(action)
        row = self.current_row
        if reason is not None or row is None:
            return reason
        return why_off(action, line_of(row), self.console_app)

    def do_sort(self) -> None:
        """The tree, or by what ends first."""
        self.order = Order.ENDS if self.order is Order.TREE else Order.TREE
        self.start_over()

    def do_delegate(self) -> None:
        self._open_card("delegate")

    def do_revoke(self) -> None:
        self._open_card("revoke")

    def do_raw(self) -> None:
        """The grant as JSON, a delegation as its row."""
        from ctrlrun_tui.screens.paper import JsonPaper

        row = self.current_row
        if row is not None:
            found = line_of(row)
            text = json.dumps(authority_document(found), ensure_ascii=False, indent=2)
            self.app.push_screen(JsonPaper(found.node.node_id, text))


def _counts(standings: Standings, now: datetime) -> tuple[Span, ...]:
    """Grants, delegations, and what of them does not count; who is to blame for a standstill first."""
    rows = [standings.row(node) for node in standings.tree.nodes]
    delegations = [row for row in rows if row.node.kind in (NodeKind.DELEGATION, NodeKind.DAMAGED)]
    grants = sum(row.node.kind is NodeKind.GRANT for row in rows)
    in_state = partial(_in_state, delegations, now)
    stopping = in_state(GrantState.UNREADABLE) + in_state(GrantState.CYCLE)
    parts = [
        counted_first(grants, "grant", Role.VALUE),
        counted_first(len(delegations), "delegation", Role.VALUE),
    ]
    if stopping:
        parts.insert(0, Span(f"{stopping:,} unreadable: EVERY ACTION IS DENIED", Role.ALARM))
    for state, word, role in (
        (GrantState.NOT_CONTAINED, "wider", Role.NEEDS),
        (GrantState.NO_PARENT, "no parent", Role.NEEDS),
        (GrantState.REVOKED, "revoked", Role.QUIET),
        (GrantState.EXPIRED, "expired", Role.QUIET),
    ):
        number = in_state(state)
        if number:
            parts.append(Span(f"{number:,} {word}", role))
    return tuple(parts)


def _in_state(rows: list[AuthorityRow], now: datetime, state: GrantState) -> int:
    return sum(row.outlook.at(now).state is state for row in rows)


def counted_first(number: int, noun: str, role: Role) -> Span:
    """`3 grants`."""
    return Span(f"{number:,} {noun}{'' if number == 1 else 's'}", role if number else Role.QUIET)
