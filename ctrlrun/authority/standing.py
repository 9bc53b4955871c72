"""A store's delegations as they stood at the last look: parsed, grouped, indexed.

Rows that say the same (one grant text beneath one parent) are one group: what is found about one
holds for all. It takes changes and answers; it reads no store. The rules are in docs/authority.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from heapq import merge
from typing import NamedTuple

from ctrlrun.action import Action
from ctrlrun.authority.chain import ChainVerdict, Link, judge_chain
from ctrlrun.authority.delegation import read_row
from ctrlrun.authority.grants import Grant
from ctrlrun.authority.index import ShapeIndex, covers_shape
from ctrlrun.authority.records import DelegationChanges, DelegationRow
from ctrlrun.conditions import AllOf
from ctrlrun.errors import InvalidArgument

_Shape = tuple[object, ...]
_GroupKey = tuple[str, str, bool]


class Group:
    """Grants that differ in their ids alone; `ids` ascend."""

    __slots__ = ("_verdict", "_version", "grant", "ids", "is_revoked", "limits", "parent_id")

    def __init__(self, grant: Grant, parent_id: str | None, *, is_revoked: bool) -> None:
        self.ids: list[str] = []
        self.grant = grant
        self.parent_id = parent_id
        self.is_revoked = is_revoked
        self.limits = AllOf(grant.constraints.values())
        self._version = -1
        self._verdict = ChainVerdict(0)

    @property
    def first(self) -> str:
        """The lowest id, which speaks for all."""
        return self.ids[0]

    def has_expired(self, now: datetime) -> bool:
        """Whether the grant itself has."""
        expires_at = self.grant.expires_at
        return expires_at is not None and now > expires_at

    def depth(self, standing: Standing) -> int | None:
        """The distance from the document; None for one of its own grants."""
        return None if self.parent_id is None else self.verdict(standing).depth

    def verdict(self, standing: Standing) -> ChainVerdict:
        """About the chain above; for a grant of the document nothing can be wrong with it."""
        if self.parent_id is not None and self._version != standing.version:
            leaf = Link(self.first, self.parent_id, self.grant, self.is_revoked)
            self._verdict = judge_chain(leaf, standing.roots, standing.find, standing.max_depth)
            self._version = standing.version
        return self._verdict


class _Shelf:
    """The groups of one shape, in the order of their first ids."""

    __slots__ = ("_by_first", "_firsts", "grant")

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self._firsts: list[str] = []
        self._by_first: dict[str, Group] = {}

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, group: Group) -> None:
        insort(self._firsts, group.first)
        self._by_first[group.first] = group

    def remove(self, group: Group) -> None:
        del self._firsts[bisect_left(self._firsts, group.first)]
        del self._by_first[group.first]

    def __iter__(self) -> Iterator[tuple[str, Group]]:
        for first in self._firsts:
            yield first, self._by_first[first]


class Shelves:
    """Groups by shape, found by the action that they cover."""

    def __init__(self) -> None:
        self._shelves: dict[_Shape, _Shelf] = {}
        self._index: ShapeIndex[_Shelf] = ShapeIndex()

    def add(self, group: Group, grant_id: str) -> None:
        """One more id in a group."""
        shelf = self._shelf(group.grant)
        if group.ids:
            shelf.remove(group)
        insort(group.ids, grant_id)
        shelf.add(group)

    def remove(self, group: Group, grant_id: str) -> None:
        """One id less in a group."""
        shelf = self._shelf(group.grant)
        shelf.remove(group)
        del group.ids[bisect_left(group.ids, grant_id)]
        if group.ids:
            shelf.add(group)
        elif not shelf:
            self._index.remove(shelf)
            del self._shelves[_shape(group.grant)]

    def _shelf(self, grant: Grant) -> _Shelf:
        shape = _shape(grant)
        shelf = self._shelves.get(shape)
        if shelf is None:
            shelf = self._shelves[shape] = _Shelf(grant)
            self._index.add(grant, shelf)
        return shelf

    def covering(self, action: Action) -> list[_Shelf]:
        """The shelves of the shapes that cover the action."""
        return [shelf for shelf in self._index.find(action) if covers_shape(shelf.grant, action)]


def _shape(grant: Grant) -> _Shape:
    return (grant.subject, grant.actions, grant.resources, grant.environments)


class _Entry(NamedTuple):
    """A row as it was read, and what it says; `group` is None when it gives nothing to anybody."""

    row: DelegationRow
    link: Link
    group: Group | None


class Standing:
    """What is known of a store's delegations, and of the document's grants beside them."""

    def __init__(self, roots: Mapping[str, Grant], max_depth: int) -> None:
        self.roots = roots
        self.max_depth = max_depth
        self.mark: object | None = None
        self.version = 0
        self._documents = Shelves()
        for grant_id, grant in roots.items():
            self._documents.add(Group(grant, None, is_revoked=False), grant_id)
        self._clear()

    def _clear(self) -> None:
        self._shelves = Shelves()
        self._groups: dict[_GroupKey, Group] = {}
        self._entries: dict[str, _Entry] = {}
        self._unreadable: set[str] = set()
        self._strange: frozenset[str] = frozenset()
        self._circles: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Everything about delegations: the next look is a whole one."""
        self._clear()
        self.mark = None
        self.version += 1

    # --- taking changes --------------------------------------------------------------------------

    def take(self, changes: DelegationChanges) -> None:
        """What a look found; what did not change costs nothing but a comparison."""
        changed = self._differences(changes)
        if changed:
            self.version += 1
            self._find_circles(changed)
        self.mark = changes.mark

    def _differences(self, changes: DelegationChanges) -> list[str]:
        gone: Iterable[str] = changes.gone
        if changes.is_whole:
            here = {row.delegation_id for row in changes.rows}
            gone = [known for known in self._entries if known not in here]
            strange = [row for row in changes.rows if not isinstance(row.delegation_id, str)]
            self._strange = frozenset(
                _shown(row.delegation_id) for row in strange if row.revoked_at is None
            )
        changed = [known for known in gone if known in self._entries]
        for known in changed:
            self._drop(known)
        changed += [str(row.delegation_id) for row in changes.rows if self._takes(row)]
        return changed

    def _takes(self, row: DelegationRow) -> bool:
        """Put a row in its place; False when it is there as it is."""
        delegation_id = row.delegation_id
        if not isinstance(delegation_id, str):
            return False
        known = self._entries.get(delegation_id)
        if known is not None:
            if known.row == row:
                return False
            self._drop(delegation_id)
        self._put(delegation_id, row)
        return True

    def _drop(self, delegation_id: str) -> None:
        entry = self._entries.pop(delegation_id)
        self._unreadable.discard(delegation_id)
        group = entry.group
        if group is not None:
            self._shelves.remove(group, delegation_id)
            if not group.ids:
                del self._groups[_key(entry.row)]

    def _put(self, delegation_id: str, row: DelegationRow) -> None:
        is_revoked = row.revoked_at is not None
        group = self._groups.get(_key(row))
        try:
            delegation = read_row(row, None if group is None else group.grant)
        except InvalidArgument:
            # Revoked, it harms nobody: one command restores the service that it stopped.
            if not is_revoked:
                self._unreadable.add(delegation_id)
            link = Link(delegation_id, "", None, is_revoked)
            self._entries[delegation_id] = _Entry(row, link, None)
            return
        grant, parent_id = delegation.grant, delegation.parent_id
        if delegation_id in self.roots:
            group = None  # the grant of that name stands before it
        else:
            if group is None:
                group = self._groups[_key(row)] = Group(grant, parent_id, is_revoked=is_revoked)
            self._shelves.add(group, delegation_id)
        link = Link(delegation_id, parent_id, grant, is_revoked)
        self._entries[delegation_id] = _Entry(row, link, group)

    # --- answers ---------------------------------------------------------------------------------

    def find(self, delegation_id: str) -> Link | None:
        """The row of an id, as a link of a chain."""
        entry = self._entries.get(delegation_id)
        return None if entry is None else entry.link

    @property
    def unreadable(self) -> str | None:
        """The lowest id of the rows that nobody can read and nobody has revoked."""
        if not self._unreadable and not self._strange:
            return None
        return min(self._unreadable | self._strange)

    def covering(self, action: Action) -> Iterator[tuple[str, Group]]:
        """The groups whose shape covers an action, by ascending first ids; may be left early."""
        shelves = self._documents.covering(action) + self._shelves.covering(action)
        return iter(shelves[0]) if len(shelves) == 1 else merge(*shelves, key=lambda pair: pair[0])

    @property
    def has_circles(self) -> bool:
        """Whether some chain leads in a circle."""
        return bool(self._circles)

    def _find_circles(self, changed: Iterable[str]) -> None:
        """A new circle goes through a row that changed; once there is one, all rows are looked at."""
        starts: Iterable[str] = self._entries if self._circles else changed
        self._circles = frozenset(start for start in starts if self._returns(start))

    def _returns(self, start: str) -> bool:
        """Whether the way up from a row comes back to it."""
        seen = set()
        at = start
        while at not in seen:
            seen.add(at)
            entry = None if at in self.roots else self._entries.get(at)
            if entry is None or entry.link.grant is None:
                return False
            at = entry.link.parent_id
        return at == start


def _key(row: DelegationRow) -> _GroupKey:
    """What rows of one group have in common; what is no text is spelled as no grant's text is."""
    return str(row.grant_json), str(row.parent_id), row.revoked_at is not None


def _shown(delegation_id: object) -> str:
    """A stored id that is not text, for the evidence."""
    if isinstance(delegation_id, bytes):
        return delegation_id.decode("utf-8", "backslashreplace")
    return "" if delegation_id is None else str(delegation_id)
