"""The chain above a delegation: walked up to the document, and judged.

A stored depth, or an earlier verdict, is never trusted: whatever stands above now decides. The
rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from ctrlrun.authority.containment import contained_dimension
from ctrlrun.authority.grants import Grant
from ctrlrun.authority.verdict import (
    AUTHORITY_ESCALATION,
    AUTHORITY_REVOKED,
    AUTHORITY_UNREADABLE,
    AuthorityResult,
)


class Link(NamedTuple):
    """One stored row of a chain. `grant` is None when the row cannot be read."""

    delegation_id: str
    parent_id: str
    grant: Grant | None
    is_revoked: bool


Find = Callable[[str], Link | None]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a grant does not cover an action, or a delegation does not stand; the facts are those of an `AuthorityResult`."""

    reason: str
    dimension: str | None = None
    missing_parent_id: str | None = None
    expired_parent_id: str | None = None
    depth_exceeded: int | None = None
    cycle_at: str | None = None

    def result(self, grant_id: str, depth: int | None) -> AuthorityResult:
        """The refusal about a grant; a delegation has a depth, a grant of the document none."""
        return AuthorityResult(
            passed=False,
            reason=self.reason,
            grant_id=grant_id,
            delegation_id=None if depth is None else grant_id,
            depth=depth or 0,
            dimension=self.dimension,
            missing_parent_id=self.missing_parent_id,
            expired_parent_id=self.expired_parent_id,
            depth_exceeded=self.depth_exceeded,
            cycle_at=self.cycle_at,
        )


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """What is wrong with a chain whenever it is asked, and what lapses in it when.

    `early` is found before any expiry is looked at, `late` after; `expiries` are those above the
    delegation, from the document down. `depth` counts the rows that were walked, the delegation's
    own included. It holds for as long as the rows of the ids in `rests_on` are what they were.
    """

    depth: int
    rests_on: tuple[str, ...] = ()
    early: Failure | None = None
    late: Failure | None = None
    expiries: tuple[tuple[datetime, str], ...] = ()

    def failure_at(self, now: datetime) -> Failure | None:
        """The first failure at a moment, or None."""
        if self.early is not None:
            return self.early
        for expires_at, grant_id in self.expiries:
            if now > expires_at:
                return Failure(AUTHORITY_ESCALATION, expired_parent_id=grant_id)
        return self.late


@dataclass(frozen=True, slots=True)
class _Walk:
    """The rows above a delegation, nearest first, and where they end."""

    above: tuple[Link, ...]
    root: Grant | None = None
    missing_id: str | None = None
    cycle_at: str | None = None
    is_cut: bool = False

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids that were looked up."""
        found = tuple(link.delegation_id for link in self.above)
        return found if self.missing_id is None else (*found, self.missing_id)


def judge_chain(
    leaf: Link, roots: Mapping[str, Grant], find: Find, max_depth: int | None
) -> ChainVerdict:
    """The verdict about the chain above `leaf`, at most `max_depth` rows of it.

    None: all of it, for a chain that may lead in a circle. That is one at any length: it denies
    outright, and no limit may hide it.
    """
    walk = _walk(leaf, roots, find, None if max_depth is None else max(max_depth, 1))
    rests_on = walk.ids
    depth = len(walk.above) + 1
    early = _early(leaf, walk)
    if early is not None:
        return ChainVerdict(depth, rests_on, early)
    grants = _from_the_top(leaf, walk)
    expiries = tuple(
        (grant.expires_at, grant_id)
        for grant_id, grant in grants[:-1]
        if grant.expires_at is not None
    )
    late = _escalation([grant for _, grant in grants])
    if late is None and (walk.is_cut or (max_depth is not None and depth > max_depth)):
        late = Failure(AUTHORITY_ESCALATION, depth_exceeded=depth)
    if late is None and not all(grant.delegable for _, grant in grants[:-1]):
        late = Failure(AUTHORITY_ESCALATION)
    return ChainVerdict(depth, rests_on, None, late, expiries)


def _walk(leaf: Link, roots: Mapping[str, Grant], find: Find, limit: int | None) -> _Walk:
    """Up to a grant of the document, a gap, a circle, a row that tells no parent, or the limit.

    What stands higher than that is not looked at, so that no chain costs more than it may.
    """
    above: list[Link] = []
    seen = {leaf.delegation_id}
    at = leaf
    while at.grant is not None:
        if len(above) == limit:
            return _Walk(tuple(above), is_cut=True)
        parent_id = at.parent_id
        root = roots.get(parent_id)
        if root is not None:
            return _Walk(tuple(above), root=root)
        if parent_id in seen:
            return _Walk(tuple(above), cycle_at=parent_id)
        parent = find(parent_id)
        if parent is None:
            return _Walk(tuple(above), missing_id=parent_id)
        above.append(parent)
        seen.add(parent_id)
        at = parent
    return _Walk(tuple(above))


def _early(leaf: Link, walk: _Walk) -> Failure | None:
    if walk.missing_id is not None:
        return Failure(AUTHORITY_ESCALATION, missing_parent_id=walk.missing_id)
    if leaf.is_revoked or any(link.is_revoked for link in walk.above):
        return Failure(AUTHORITY_REVOKED)
    if walk.cycle_at is not None:
        return Failure(AUTHORITY_UNREADABLE, cycle_at=walk.cycle_at)
    if any(link.grant is None for link in walk.above):
        return Failure(AUTHORITY_UNREADABLE)
    return None


def _from_the_top(leaf: Link, walk: _Walk) -> list[tuple[str, Grant]]:
    """Ids and grants from the document down to the delegation's own."""
    found = [] if walk.root is None else [(walk.root.id, walk.root)]
    rows = (*reversed(walk.above), leaf)
    return found + [(row.delegation_id, row.grant) for row in rows if row.grant is not None]


def _escalation(grants: list[Grant]) -> Failure | None:
    for parent, child in pairwise(grants):
        dimension = contained_dimension(parent, child)
        if dimension is not None:
            return Failure(AUTHORITY_ESCALATION, dimension=dimension)
    return None
