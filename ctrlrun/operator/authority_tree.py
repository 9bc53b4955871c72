"""Grants and the delegations beneath them as one tree, in the order of a screen.

Structure alone: who hangs under whom. It judges nothing, reads nothing, and takes whatever the store
holds: delegations whose parent is nowhere stand under its bare id, those whose parents run in a
circle under the first of them, rows that cannot be read as lines of their own. No walk goes on for ever, however
the parents are written. The rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from ctrlrun.authority import Authority, DelegationRecord, Grant
from ctrlrun.state import Damage

DRAWN_LEVELS = 8
"""Levels whose branches are remembered; what hangs deeper is drawn at the last of them."""

FURTHER, LAST, PASSES, BLANK = "+", "-", "|", " "
"""Branches, a character a level: a sibling follows, none does; one of an ancestor's does, none does."""


class NodeKind(StrEnum):
    """What stands at a place of the tree."""

    GRANT = "grant"  # of the document
    DELEGATION = "delegation"
    MISSING = "missing"  # a parent that delegations name and nobody has: its bare id
    DAMAGED = "damaged"  # a row that cannot be read at all


class GrantNode(NamedTuple):
    """One line of the tree. Exactly one of `grant`, `record`, `damage` is set, none for a bare id.

    `place` is its line, `parent` that of what it hangs under, `beneath` how many lines hang under
    it, directly or not. `depth` counts the delegations down to it, 0 at the top; in a circle and
    under a bare id it counts from there. `in_cycle` says that its parents lead back to it.

    A tuple, because a tree of ten thousand is made anew at each change: frozen dataclasses take four
    times as long.
    """

    node_id: str
    kind: NodeKind
    place: int
    parent: int | None
    depth: int
    branch: str
    beneath: int = 0
    grant: Grant | None = None
    record: DelegationRecord | None = None
    damage: str | None = None
    in_cycle: bool = False

    @property
    def key(self) -> str:
        """What tells it from every other line: a grant and a delegation may have one id."""
        return f"{self.kind}:{self.node_id}"


class AuthorityTree:
    """The lines of the tree from above, and where each id stands. Immutable."""

    __slots__ = ("_delegations", "_parents", "authority", "nodes")

    def __init__(self, authority: Authority | None, nodes: Sequence[GrantNode]) -> None:
        self.authority = authority
        self.nodes = tuple(nodes)
        self._delegations: dict[str, int] = {}
        self._parents: dict[str, int] = {}
        for node in self.nodes:
            if node.kind in (NodeKind.DELEGATION, NodeKind.DAMAGED):
                self._delegations[node.node_id] = node.place
            if node.kind is NodeKind.GRANT or node.node_id not in self._parents:
                self._parents[node.node_id] = node.place

    def delegation(self, delegation_id: str) -> GrantNode | None:
        """The line of a delegation, readable or not."""
        place = self._delegations.get(delegation_id)
        return None if place is None else self.nodes[place]

    def holder(self, grant_id: str) -> GrantNode | None:
        """What an id means as a parent: a grant of the document before a delegation."""
        place = self._parents.get(grant_id)
        return None if place is None else self.nodes[place]

    def find(self, key: str) -> GrantNode | None:
        """The line with that key."""
        kind, _, node_id = key.partition(":")
        delegation = kind in (NodeKind.DELEGATION, NodeKind.DAMAGED)
        node = self.delegation(node_id) if delegation else self.holder(node_id)
        return node if node is not None and node.key == key else None

    def parent_of(self, node: GrantNode) -> GrantNode | None:
        """What a line hangs under."""
        return None if node.parent is None else self.nodes[node.parent]

    def subtree(self, node: GrantNode) -> tuple[GrantNode, ...]:
        """A line and all that hangs under it, from above."""
        return self.nodes[node.place : node.place + 1 + node.beneath]


def build_tree(
    authority: Authority | None,
    records: Iterable[DelegationRecord],
    damaged: Iterable[Damage] = (),
) -> AuthorityTree:
    """The tree of a document's grants (None: no document was read) and of stored delegations.

    `records` come oldest first, and so do the children of one parent. Costs a step for each.
    """
    return AuthorityTree(authority, _Builder(authority, tuple(records), tuple(damaged)).built())


class _Line(NamedTuple):
    """A line that is being built: how much hangs under it is known at the end."""

    node_id: str
    kind: NodeKind
    parent: int | None
    depth: int
    branch: str
    grant: Grant | None = None
    record: DelegationRecord | None = None
    damage: str | None = None


class _Builder:
    def __init__(
        self,
        authority: Authority | None,
        records: tuple[DelegationRecord, ...],
        damaged: tuple[Damage, ...],
    ) -> None:
        self._roots: Mapping[str, Grant] = {} if authority is None else authority.grants
        self._records = records
        self._damaged = damaged
        self._by_id = {record.delegation_id: record for record in records}
        self._children: dict[str, list[DelegationRecord]] = {}
        for record in records:
            self._children.setdefault(record.parent_id, []).append(record)
        self._lines: list[_Line] = []
        self._placed: set[str] = set()
        self._circles: set[str] = set()

    def built(self) -> list[GrantNode]:
        for grant_id, grant in self._roots.items():
            self._hang(_Line(grant_id, NodeKind.GRANT, None, 0, "", grant=grant))
        known = {*self._by_id, *(damage.row_id for damage in self._damaged)}
        for parent_id in self._children:
            if parent_id not in self._roots and parent_id not in known:
                self._hang(_Line(parent_id, NodeKind.MISSING, None, 0, ""))
        for damage in self._damaged:
            self._hang(_Line(damage.row_id, NodeKind.DAMAGED, None, 0, "", damage=damage.detail))
        for record in self._first_of_circles():
            self._placed.add(record.delegation_id)
            self._hang(_Line(record.delegation_id, NodeKind.DELEGATION, None, 1, "", record=record))
        return self._frozen()

    def _hang(self, top: _Line) -> None:
        """A line and all beneath it, without recursion: a chain may be as long as the store."""
        waiting = [top]
        lines = self._lines
        while waiting:
            line = waiting.pop()
            place = len(lines)
            lines.append(line)
            if line.record is not None and line.node_id in self._roots:
                continue  # what names this id as its parent hangs under the grant
            children = self._unplaced(line.node_id)
            if not children:
                continue
            depth = line.depth + 1
            branch = _branch(line.branch, is_last=True)
            for record in reversed(children):
                waiting.append(
                    _Line(
                        record.delegation_id,
                        NodeKind.DELEGATION,
                        place,
                        depth,
                        branch,
                        None,
                        record,
                    )
                )
                branch = branch[:-1] + FURTHER

    def _unplaced(self, parent_id: str) -> list[DelegationRecord]:
        placed = self._placed
        children = self._children.get(parent_id)
        if children is None:
            return []
        children = [record for record in children if record.delegation_id not in placed]
        placed.update([record.delegation_id for record in children])
        return children

    def _first_of_circles(self) -> Iterator[DelegationRecord]:
        """Of each circle its lowest id; what hangs under a circle is reached from there."""
        for record in self._records:
            if record.delegation_id in self._placed:
                continue
            circle = self._circle_above(record)
            self._circles.update(circle)
            yield self._by_id[min(circle)]

    def _circle_above(self, record: DelegationRecord) -> list[str]:
        """The ids of the circle that the parents of an unplaced record run into."""
        seen: dict[str, int] = {}
        at = record.delegation_id
        while at not in seen:
            seen[at] = len(seen)
            at = self._by_id[at].parent_id
        return list(seen)[seen[at] :]

    def _frozen(self) -> list[GrantNode]:
        beneath = [0] * len(self._lines)
        for place in range(len(self._lines) - 1, -1, -1):
            parent = self._lines[place].parent
            if parent is not None:
                beneath[parent] += 1 + beneath[place]
        circles = self._circles
        return [
            GrantNode(
                line.node_id,
                line.kind,
                place,
                line.parent,
                line.depth,
                line.branch,
                beneath[place],
                line.grant,
                line.record,
                line.damage,
                line.node_id in circles and line.record is not None,
            )
            for place, line in enumerate(self._lines)
        ]


def _branch(above: str, *, is_last: bool) -> str:
    """The branches of a line beneath one that has those `above`."""
    own = LAST if is_last else FURTHER
    if len(above) >= DRAWN_LEVELS:
        return above[:-1] + own
    return above.replace(FURTHER, PASSES).replace(LAST, BLANK) + own
