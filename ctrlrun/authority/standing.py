"""A store's delegations as they stood at the last look: parsed, and on their shelves.

It takes changes and answers; it reads no store. The rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ctrlrun.action import Action
from ctrlrun.authority.chain import Link
from ctrlrun.authority.delegation import read_row
from ctrlrun.authority.grants import Grant
from ctrlrun.authority.records import DelegationChanges, DelegationRow
from ctrlrun.authority.shelves import Group, Shelf, Shelves
from ctrlrun.errors import InvalidArgument

_GroupKey = tuple[str, str, bool]


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
        self._clear()

    def _clear(self) -> None:
        self._documents = Shelves()
        for grant_id, grant in self.roots.items():
            self._documents.add(Group(grant, None, is_revoked=False), grant_id)
        self._shelves = Shelves()
        self._groups: dict[_GroupKey, Group] = {}
        self._entries: dict[str, _Entry] = {}
        self._changed_at: dict[str, int] = {}
        self._unreadable: set[str] = set()
        self._strange: frozenset[str] = frozenset()
        self._circling: frozenset[str] = frozenset()

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
            self._changed_at.update(dict.fromkeys(changed, self.version))
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

    def covering(self, action: Action) -> list[Shelf]:
        """The shelves whose shape covers an action: the document's, and those of delegations."""
        return self._documents.covering(action) + self._shelves.covering(action)

    def has_changed(self, delegation_ids: Iterable[str], version: int) -> bool:
        """Whether some of these rows changed after a version; -1 is before everything."""
        return version < 0 or any(
            self._changed_at.get(name, 0) > version for name in delegation_ids
        )

    @property
    def has_circles(self) -> bool:
        """Whether the way up from some delegation leads into a circle."""
        return bool(self._circling)

    def circles(self, delegation_id: str) -> bool:
        """Whether the way up from a delegation leads into a circle, with nothing revoked on it."""
        return delegation_id in self._circling

    def _find_circles(self, changed: Iterable[str]) -> None:
        """A new circle goes through a row that changed; once there is one, all rows are looked at."""
        if self._circling or self._leading_into_circles(changed):
            self._circling = self._leading_into_circles(self._entries)

    def _leading_into_circles(self, starts: Iterable[str]) -> frozenset[str]:
        """Those on the ways up from `starts` that lead into a circle.

        Each row is passed once: a chain is as long as whoever writes into the store makes it.
        """
        leading: set[str] = set()
        passed: set[str] = set()
        for start in starts:
            way: dict[str, None] = {}
            at: str | None = start
            while at is not None and at not in way and at not in passed:
                way[at] = None
                at = self._above(at)
            if at is not None and (at in way or at in leading):
                leading.update(way)
            passed.update(way)
        return frozenset(leading)

    def _above(self, delegation_id: str) -> str | None:
        """The parent of a row; None where a walk ends, or where what was revoked decides."""
        entry = None if delegation_id in self.roots else self._entries.get(delegation_id)
        if entry is None or entry.link.grant is None or entry.link.is_revoked:
            return None
        return entry.link.parent_id


def _key(row: DelegationRow) -> _GroupKey:
    """What rows of one group have in common; what is no text is spelled as no grant's text is."""
    return str(row.grant_json), str(row.parent_id), row.revoked_at is not None


def _shown(delegation_id: object) -> str:
    """A stored id that is not text, for the evidence."""
    if isinstance(delegation_id, bytes):
        return delegation_id.decode("utf-8", "backslashreplace")
    return "" if delegation_id is None else str(delegation_id)
