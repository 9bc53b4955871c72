"""The rows of the Authority view: lines of the tree, in its order or by their end, under a filter.

Reads the tree through the operator room in a worker; touches no widget. A row's id is the key of its
line, so that the cursor stays on a grant wherever others come in above it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum

from ctrlrun.authority import Grant
from ctrlrun.operator import (
    AuthorityRow,
    Filter,
    GrantNode,
    GrantStanding,
    GrantState,
    NodeKind,
    Standings,
)
from ctrlrun.operator.authority_tree import BLANK, FURTHER, LAST, PASSES
from ctrlrun.operator.grant_words import limits_texts
from ctrlrun.operator.wording import short_id
from ctrlrun.state import PagedReader
from ctrlrun.text import cell_width
from ctrlrun_tui.data.models import Line, Role, Row, Span
from ctrlrun_tui.data.sources import Edge, Place, RowPage
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.cells import BETWEEN, short_value
from ctrlrun_tui.widgets.countdown import left_line
from ctrlrun_tui.widgets.strips import width_of

HIDDEN = "the filter hides it now"
GONE = "no longer there"

NO_END = "no end"
"""Said of a grant that never expires."""

LEAST_NAME = 3
"""Cells that the name of a limit is cut to at least."""

_STATES: dict[GrantState, tuple[str, str, Role]] = {
    GrantState.LIVE: ("granted", "live", Role.VALUE),
    GrantState.EXPIRED: ("expired", "EXPIRED", Role.VALUE),
    GrantState.REVOKED: ("denied", "revoked", Role.VALUE),
    GrantState.UNREADABLE: ("denied", "unreadable", Role.NEEDS),
    GrantState.NOT_CONTAINED: ("differs", "wider", Role.NEEDS),
    GrantState.CUT_OFF: ("denied", "cut off", Role.VALUE),
    GrantState.NO_PARENT: ("denied", "no parent", Role.NEEDS),
    GrantState.CYCLE: ("denied", "circle", Role.NEEDS),
    GrantState.TOO_DEEP: ("denied", "too deep", Role.NEEDS),
    GrantState.NOT_READ: ("skipped", "not read", Role.QUIET),
}
"""The sign, the word and the role of each state."""

_BRANCHES = {FURTHER: "├ ", LAST: "└ ", PASSES: "│ ", BLANK: "  "}
_ASCII_BRANCHES = {FURTHER: "+ ", LAST: "+ ", PASSES: "| ", BLANK: "  "}


class Order(StrEnum):
    """How the list is sorted."""

    TREE = "tree"
    ENDS = "soonest end first"


def line_of(row: Row) -> AuthorityRow:
    """The line that a row shows."""
    assert isinstance(row.record, AuthorityRow)
    return row.record


def standing_of(row: Row, now: datetime) -> GrantStanding:
    """Where a row's line stands by the clock."""
    return line_of(row).outlook.at(now)


def ends_cell(row: Row, now: datetime) -> Line:
    """The time left, or the word for where it stands."""
    outlook = line_of(row).outlook
    standing = outlook.at(now)
    if not standing.is_live:
        return state_cell(standing.state, row.cells["signs"])
    if outlook.ends_at is None:
        return (Span(NO_END, Role.QUIET),)
    return left_line(outlook.ends_at, now)


def state_cell(state: GrantState, signs: Line) -> Line:
    """A state by sign and word; `signs` are those of the terminal, a span for each state."""
    _, word, role = _STATES[state]
    sign = signs[list(GrantState).index(state)].text
    return (Span(f"{sign} ", role), Span(word, role))


def signs_line(glyphs: Glyphs) -> Line:
    """The signs of all states, so that a cell can be made by the clock alone."""
    return tuple(Span(getattr(glyphs, _STATES[state][0])) for state in GrantState)


def state_word(state: GrantState) -> str:
    """The word that stands for a state on the screen."""
    return _STATES[state][1]


class AuthorityRows:
    """The tree as a list, under a filter or none."""

    immutable = False

    def __init__(
        self,
        read: Callable[[PagedReader, datetime], Standings],
        glyphs: Glyphs,
        wanted: Filter | None,
        order: Order,
    ) -> None:
        self._read = read
        self._glyphs = glyphs
        self._wanted = wanted
        self._order = order
        self._signs = signs_line(glyphs)

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        """A page in the order of the screen; a cursor says where a line stood, and which it was."""
        standings = self._read(reader, now)
        lines = self._lines(standings, now)
        match place.edge:
            case Edge.BELOW:
                start = self._index(lines, place.cursor, below=True)
                shown = lines[start : start + limit]
                ends = start + limit >= len(lines)
            case Edge.ABOVE | Edge.BOTTOM:
                at_end = place.edge is Edge.BOTTOM
                end = len(lines) if at_end else self._index(lines, place.cursor, below=False)
                shown = lines[max(0, end - limit) : end]
                ends = end <= limit
            case Edge.TOP | Edge.LANE:
                shown = lines[:limit]
                ends = limit >= len(lines)
        if not shown:
            return RowPage(ends=True)
        rows = tuple(self._row(standings, node, now) for node in shown)
        return RowPage(rows, self._cursor(shown[0]), self._cursor(shown[-1]), ends)

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        """The row as it is now; it leaves the list when a filter hides it, or its grant is gone."""
        standings = self._read(reader, now)
        node = standings.tree.find(row.id)
        if node is None:
            return Row(row.id, row.cells, record=row.record, left=GONE)
        fresh = self._row(standings, node, now)
        if self._passes(standings, node, now):
            return fresh
        return Row(fresh.id, fresh.cells, record=fresh.record, left=HIDDEN)

    # --- inside ----------------------------------------------------------------------------------

    def _lines(self, standings: Standings, now: datetime) -> tuple[GrantNode, ...]:
        nodes = standings.tree.nodes
        if self._wanted is not None:
            nodes = tuple(node for node in nodes if self._passes(standings, node, now))
        if self._order is Order.ENDS:
            return tuple(sorted(nodes, key=lambda node: _end_key(standings, node)))
        return nodes

    def _passes(self, standings: Standings, node: GrantNode, now: datetime) -> bool:
        wanted = self._wanted
        return wanted is None or wanted.matches(standings.row(node), now=now)

    def _cursor(self, node: GrantNode) -> str:
        return f"{node.place} {node.key}"

    def _index(self, lines: tuple[GrantNode, ...], cursor: str | None, *, below: bool) -> int:
        """Where to read on: behind the line of the cursor, or before it.

        Where that line is gone, from where it stood.
        """
        place, _, key = (cursor or "0 ").partition(" ")
        index = _index_of(lines, key, int(place))
        if index is not None:
            return index + 1 if below else index
        return min(int(place), len(lines))

    def _row(self, standings: Standings, node: GrantNode, now: datetime) -> Row:
        row = standings.row(node)
        glyphs = self._glyphs
        lives = row.outlook.at(now).is_live
        role = Role.VALUE if lives else Role.QUIET
        grant = row.grant
        cells: dict[str, Line] = {
            "signs": self._signs,
            "subject": (*self._branch(node), *_subject(node, grant, glyphs, role)),
            "actions": (),
            "limits": (),
        }
        if grant is not None:
            actions = ", ".join(grant.actions)
            cells["actions"] = (Span(short_value(actions, glyphs), role),)
            cells["limits"] = tuple(
                Span(short_value(text, glyphs), role) for text in limits_texts(grant)
            )
        return Row(node.key, cells, record=row)

    def _branch(self, node: GrantNode) -> Line:
        if self._order is not Order.TREE or self._wanted is not None or not node.branch:
            return ()
        signs = _ASCII_BRANCHES if self._glyphs.ascii else _BRANCHES
        return (Span("".join(signs[sign] for sign in node.branch), Role.FAINT),)


def _index_of(lines: tuple[GrantNode, ...], key: str, place: int) -> int | None:
    """Where a line stands in the list: found at once where it stood, or in the tree's order."""
    if place < len(lines) and lines[place].key == key:
        return place
    near = bisect_left(lines, place, key=lambda node: node.place)
    if near < len(lines) and lines[near].key == key:
        return near
    return next((index for index, node in enumerate(lines) if node.key == key), None)


def _end_key(standings: Standings, node: GrantNode) -> tuple[bool, float, int]:
    ends_at = standings.ends_at(node)
    return ends_at is None, 0.0 if ends_at is None else ends_at.timestamp(), node.place


def _subject(node: GrantNode, grant: Grant | None, glyphs: Glyphs, role: Role) -> Line:
    """For whom it is; an id where nothing tells."""
    if grant is not None:
        return (Span(subject_said(grant, glyphs), role),)
    shown = glyphs.said(short_id(node.node_id, ellipsis=glyphs.middle))
    if node.kind is NodeKind.MISSING:
        return (Span(glyphs.cut(shown, 60), Role.QUIET),)
    return (Span(glyphs.cut(shown, 60), role),)


def fit_limit(text: str, width: int, glyphs: Glyphs) -> str:
    """A limit in at most `width` cells: its name is cut, and never its numbers.

    A number with a piece missing would be another number, so there is none rather than that.
    """
    if cell_width(text) <= width:
        return text
    name, space, limit = text.partition(" ")
    if not space:
        return glyphs.cut(text, width)
    room = width - cell_width(limit) - 1
    return f"{glyphs.cut(name, room)} {limit}" if room >= LEAST_NAME else glyphs.middle


def cut_limits(cell: Line, width: int, glyphs: Glyphs) -> Line:
    """The first limit as far as it fits, and others whole or not at all."""
    shown: Line = ()
    for span in cell:
        free = width - width_of(shown) - (len(BETWEEN) if shown else 0)
        text = fit_limit(span.text, free, glyphs) if not shown else span.text
        if shown and cell_width(text) > free:
            break
        shown = (*shown, Span((BETWEEN if shown else "") + text, span.role))
    return shown


def subject_said(grant: Grant, glyphs: Glyphs) -> str:
    """`finance-agent, dana@example.com`; a subject without an agent is for any."""
    agent, user = grant.subject.agent, grant.subject.user
    who = "any agent" if agent is None else short_value(agent, glyphs)
    return who if user is None else f"{who}, {short_value(user, glyphs)}"
