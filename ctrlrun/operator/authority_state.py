"""Where each grant and delegation of a tree stands by the clock, and why.

It says in words what an evaluation of authority decides for an action (docs/authority.md), for a
whole tree at once: a delegation counts only while everything above it does. What does not depend on
the time is found out once a line, and only for the lines that are asked about.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from ctrlrun.authority import Grant
from ctrlrun.operator.authority_tree import AuthorityTree, GrantNode, NodeKind
from ctrlrun.operator.grant_texts import GrantTexts, Unreadable


class GrantState(StrEnum):
    """Where a line of the tree stands; filters name these words."""

    LIVE = "live"
    EXPIRED = "expired"
    REVOKED = "revoked"
    UNREADABLE = "unreadable"  # denies every action of everyone until it is revoked
    NOT_CONTAINED = "not-contained"  # wider than what it hangs under
    CUT_OFF = "cut-off"  # something above it does not count any more
    NO_PARENT = "no-parent"  # neither the document nor the store has what is above it
    CYCLE = "cycle"  # its parents run in a circle, or into one
    TOO_DEEP = "too-deep"  # more delegations above it than the document allows
    NOT_READ = "not-read"  # the bare id of a grant, while no document is read


@dataclass(frozen=True, slots=True)
class GrantStanding:
    """Where a line stands; `why` says more, in a line without an end, except of one that is live.

    `cause` is the id of what is to blame where that is another line. Texts of the store are in
    both: they pass `inert` before a screen.
    """

    state: GrantState
    why: str | None = None
    cause: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether it covers anything now."""
        return self.state is GrantState.LIVE


_LIVE = GrantStanding(GrantState.LIVE)
_OVER = GrantStanding(GrantState.EXPIRED, "its time is over")


@dataclass(frozen=True, slots=True)
class Outlook:
    """Where a line stands at any time: what is wrong with it for good, and what will end when.

    `ends_above` is the earliest end among the lines above it, that of `ends_above_id`.
    """

    fault: GrantStanding | None = None
    ends_at: datetime | None = None
    ends_above: datetime | None = None
    ends_above_id: str | None = None

    def at(self, now: datetime) -> GrantStanding:
        """Where it stands at a time: exactly at its end it still counts."""
        if self.fault is not None:
            return self.fault
        if self.ends_above is not None and now > self.ends_above:
            cause = self.ends_above_id
            return GrantStanding(GrantState.CUT_OFF, f"{cause}, above it, has expired", cause)
        return _OVER if self.ends_at is not None and now > self.ends_at else _LIVE

    def next_end(self, now: datetime) -> datetime | None:
        """When the clock alone will change where it stands; None when it never will."""
        ends = [end for end in (self.ends_at, self.ends_above) if end is not None and end >= now]
        return min(ends) if ends and self.fault is None else None


@dataclass(frozen=True, slots=True)
class AuthorityRow:
    """A line of the tree with what stands there and how long; `grant` is None where none can be read."""

    node: GrantNode
    grant: Grant | None
    outlook: Outlook


class Standings:
    """The standings of a tree's lines, found out when they are asked for."""

    def __init__(self, tree: AuthorityTree, texts: GrantTexts) -> None:
        self.tree = tree
        self._texts = texts
        self._outlooks: dict[int, Outlook] = {}

    def grant(self, node: GrantNode) -> Grant | None:
        """The grant that stands at a line; None for a bare id and for what cannot be read."""
        if node.grant is not None:
            return node.grant
        read = None if node.record is None else self._texts.read(node.record)
        return read if isinstance(read, Grant) else None

    def ends_at(self, node: GrantNode) -> datetime | None:
        """When its own time is over; None for what never ends or cannot be read."""
        if node.record is not None:
            return self._texts.expiry(node.record)
        return None if node.grant is None else node.grant.expires_at

    def outlook(self, node: GrantNode) -> Outlook:
        """Where a line stands, at any time."""
        waiting: list[GrantNode] = []
        at: GrantNode | None = node
        while at is not None and at.place not in self._outlooks:
            waiting.append(at)
            at = self.tree.parent_of(at)
        for line in reversed(waiting):  # downwards, and without recursion
            self._outlooks[line.place] = self._judge(line)
        return self._outlooks[node.place]

    def at(self, node: GrantNode, now: datetime) -> GrantStanding:
        """Where a line stands at a time."""
        return self.outlook(node).at(now)

    def is_live(self, node: GrantNode, now: datetime) -> bool:
        """Whether a line covers anything at a time."""
        return self.at(node, now).is_live

    def row(self, node: GrantNode) -> AuthorityRow:
        """A line with all that is said of it."""
        return AuthorityRow(node, self.grant(node), self.outlook(node))

    # --- inside ----------------------------------------------------------------------------------

    def _judge(self, node: GrantNode) -> Outlook:
        """A line whose parent is judged."""
        ends_at = self.ends_at(node)
        match node.kind:
            case NodeKind.GRANT:
                return Outlook(ends_at=ends_at)
            case NodeKind.MISSING:
                if self.tree.authority is None:
                    return Outlook(GrantStanding(GrantState.NOT_READ, "no document was read"))
                why = "neither the document nor the store has it"
                return Outlook(GrantStanding(GrantState.NO_PARENT, why))
            case NodeKind.DAMAGED:
                return Outlook(GrantStanding(GrantState.UNREADABLE, node.damage))
            case NodeKind.DELEGATION:
                return self._judge_delegation(node, ends_at)

    def _judge_delegation(self, node: GrantNode, ends_at: datetime | None) -> Outlook:
        parent = self.tree.parent_of(node)
        above = Outlook() if parent is None else self._outlooks[parent.place]
        fault = self._own_fault(node) or self._fault_above(parent, above)
        fault = fault or self._misfit(node, parent)
        if parent is None:
            return Outlook(fault, ends_at)
        ends = [(above.ends_above, above.ends_above_id), (above.ends_at, parent.node_id)]
        earliest = min(
            ((end, end_id) for end, end_id in ends if end is not None),
            key=lambda found: found[0],
            default=(None, None),
        )
        return Outlook(fault, ends_at, *earliest)

    def _own_fault(self, node: GrantNode) -> GrantStanding | None:
        """What is wrong with the row itself."""
        record = node.record
        assert record is not None
        if record.is_revoked:
            by = "" if record.revoked_by is None else f" by {record.revoked_by}"
            return GrantStanding(GrantState.REVOKED, f"revoked{by}")
        read = self._texts.read(record)
        if isinstance(read, Unreadable):
            return GrantStanding(GrantState.UNREADABLE, read.why)
        if node.in_cycle:
            why = f"its parents lead in a circle through {record.parent_id}"
            return GrantStanding(GrantState.CYCLE, why, record.parent_id)
        return None

    def _fault_above(self, parent: GrantNode | None, above: Outlook) -> GrantStanding | None:
        """What is wrong with the lines above."""
        if parent is None or above.fault is None:
            return None
        fault = above.fault
        match fault.state:
            case GrantState.NOT_READ:
                return None
            case GrantState.NO_PARENT:
                missing = fault.cause or parent.node_id
                why = f"neither the document nor the store has {missing}"
                return GrantStanding(GrantState.NO_PARENT, why, missing)
            case GrantState.CYCLE:
                why = f"{parent.node_id}, above it, leads in a circle"
                return GrantStanding(GrantState.CYCLE, why, parent.node_id)
            case GrantState.CUT_OFF | GrantState.TOO_DEEP:
                return fault
            case GrantState.NOT_CONTAINED:
                why = f"{parent.node_id}, above it, {fault.why}"
                return GrantStanding(GrantState.CUT_OFF, why, parent.node_id)
            case _:
                words = {"revoked": "is revoked", "unreadable": "cannot be read"}
                why = f"{parent.node_id}, above it, {words.get(fault.state, fault.state)}"
                return GrantStanding(GrantState.CUT_OFF, why, parent.node_id)

    def _misfit(self, node: GrantNode, parent: GrantNode | None) -> GrantStanding | None:
        """How it does not fit under its parent."""
        holder = None if parent is None else self.grant(parent)
        grant = self.grant(node)
        if parent is None or holder is None or grant is None:
            return None
        dimension = self._texts.wider_in(holder, grant)
        if dimension is not None:
            why = f"it is wider than what it hangs under: {dimension}"
            return GrantStanding(GrantState.NOT_CONTAINED, why)
        authority = self.tree.authority
        if authority is not None and node.depth > authority.max_delegation_depth:
            why = f"it stands at depth {node.depth}; {authority.max_delegation_depth} at most"
            return GrantStanding(GrantState.TOO_DEEP, why)
        if not holder.delegable:
            why = f"{parent.node_id}, above it, is not delegable"
            return GrantStanding(GrantState.CUT_OFF, why, parent.node_id)
        return None
