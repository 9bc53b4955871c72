"""Grants on their shelves: by shape, found by the action that they cover, each judged once.

Rows that say the same (one grant text beneath one parent) are one group: what is found about one
holds for all. It knows nothing of rows and stores. The rules are in docs/authority.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ctrlrun.action import Action
from ctrlrun.authority.chain import ChainVerdict, Failure, Link, judge_chain
from ctrlrun.authority.gates import MANY, Gates
from ctrlrun.authority.grants import Grant
from ctrlrun.authority.index import ShapeIndex
from ctrlrun.authority.verdict import AUTHORITY_CONSTRAINT, AUTHORITY_EXPIRED, AuthorityResult
from ctrlrun.conditions import AllOf

if TYPE_CHECKING:
    from ctrlrun.authority.standing import Standing

_Shape = tuple[object, ...]


class Group:
    """Grants that differ in their ids alone; `ids` ascend."""

    __slots__ = (
        "_first",
        "_limit",
        "_verdict",
        "_version",
        "grant",
        "ids",
        "is_revoked",
        "limits",
        "parent_id",
    )

    def __init__(self, grant: Grant, parent_id: str | None, *, is_revoked: bool) -> None:
        self.ids: list[str] = []
        self.grant = grant
        self.parent_id = parent_id
        self.is_revoked = is_revoked
        self.limits = AllOf(grant.constraints.values())
        self._first = ""
        self._limit: int | None = None
        self._version = -1
        self._verdict = ChainVerdict(0)

    @property
    def first(self) -> str:
        """The lowest id, which speaks for all."""
        return self.ids[0]

    def depth(self, standing: Standing) -> int | None:
        """The distance from the document; None for one of its own grants."""
        return None if self.parent_id is None else self.verdict(standing).depth

    def verdict(self, standing: Standing) -> ChainVerdict:
        """About the chain above; for a grant of the document nothing can be wrong with it."""
        if self.parent_id is not None and self._version != standing.version:
            limit = None if standing.circles(self.first) else standing.max_depth
            if (self._first, self._limit) != (self.first, limit) or standing.has_changed(
                self._verdict.rests_on, self._version
            ):
                leaf = Link(self.first, self.parent_id, self.grant, self.is_revoked)
                self._verdict = judge_chain(leaf, standing.roots, standing.find, limit)
                self._first, self._limit = self.first, limit
            self._version = standing.version
        return self._verdict

    def failure_at(self, standing: Standing, now: datetime) -> Failure | None:
        """The gravest failure that no argument can mend: of the chain, or its own expiry."""
        failure = self.verdict(standing).failure_at(now)
        if failure is not None:
            return failure
        return _EXPIRED if self.grant.is_expired(now) else None

    def covers(self, standing: Standing, action: Action, now: datetime) -> bool:
        """Whether a group whose shape is the action's stands, and its limits hold."""
        return self.failure_at(standing, now) is None and self.limits.hold(
            action.name, action.arguments
        )


_EXPIRED = Failure(AUTHORITY_EXPIRED)
_CONSTRAINT = Failure(AUTHORITY_CONSTRAINT)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Refusals:
    """Of each reason, the refusal with the lowest id, when no group of a shelf covers an action.

    It holds at one version, later than `after` and not later than `until`.
    """

    version: int
    after: datetime | None
    until: datetime | None
    by_reason: dict[str, AuthorityResult]

    def hold(self, version: int, now: datetime) -> bool:
        return (
            self.version == version
            and (self.after is None or now > self.after)
            and (self.until is None or now <= self.until)
        )


class Shelf:
    """The groups of one shape: by first id, and those that nobody revoked by their expiry.

    Delegations are never deleted. An agent that is given one for each task leaves thousands behind
    that are over; a call goes through those that are not, and of many only those it may pass.
    """

    __slots__ = (
        "_by_expiry",
        "_by_first",
        "_gates",
        "_live",
        "_refusals",
        "_start",
        "grant",
    )

    def __init__(self, grant: Grant) -> None:
        self.grant = grant
        self._by_first: dict[str, Group] = {}
        self._by_expiry: list[tuple[datetime, str]] = []
        self._start = 0  # of those that had not expired at the last look
        self._live: list[str] = []  # their first ids, in order
        self._refusals: _Refusals | None = None
        self._gates = Gates()

    def __len__(self) -> int:
        return len(self._by_first)

    def __iter__(self) -> Iterator[Group]:
        return iter(self._by_first.values())

    def add(self, group: Group) -> None:
        """A group whose first id is in its place."""
        self._refusals = None
        self._by_first[group.first] = group
        if group.is_revoked:
            return
        self._gates.add(group.grant, group.first)
        end = _end(group)
        place = bisect_left(self._by_expiry, end)
        self._by_expiry.insert(place, end)
        if place < self._start:
            self._start += 1
        else:
            insort(self._live, group.first)

    def remove(self, group: Group) -> None:
        """Take back what `add` did, before the group's ids change."""
        self._refusals = None
        del self._by_first[group.first]
        if group.is_revoked:
            return
        self._gates.remove(group.grant, group.first)
        place = bisect_left(self._by_expiry, _end(group))
        del self._by_expiry[place]
        if place < self._start:
            self._start -= 1
        else:
            del self._live[bisect_left(self._live, group.first)]

    def candidates(
        self, arguments: Mapping[str, Any], now: datetime
    ) -> Iterator[tuple[str, Group]]:
        """By ascending first ids, all groups that may cover a call, and of others at least the first.

        That one is tried so that a refusal names the argument which is absent or no number.
        """
        start = bisect_left(self._by_expiry, (now, ""))
        if start != self._start:
            self._start = start
            self._live = sorted(first for _, first in self._by_expiry[start:])
        firsts = self._live
        if len(firsts) > MANY:
            passed = self._gates.passed_by(arguments)
            if passed is not None:
                firsts = sorted({firsts[0], *passed})
        for first in firsts:
            yield first, self._by_first[first]

    def refusals(self, standing: Standing, now: datetime) -> dict[str, AuthorityResult]:
        """By reason, the refusal with the lowest id, once no group covers the call.

        A group that stands and has not expired was refused for its limits then.
        """
        if self._refusals is None or not self._refusals.hold(standing.version, now):
            self._refusals = self._look_at_all(standing, now)
        return self._refusals.by_reason

    def _look_at_all(self, standing: Standing, now: datetime) -> _Refusals:
        moments = {moment for moment, _ in self._by_expiry}
        by_reason: dict[str, AuthorityResult] = {}
        for first in sorted(self._by_first):
            group = self._by_first[first]
            failure = group.failure_at(standing, now) or _CONSTRAINT
            if failure.reason not in by_reason:
                by_reason[failure.reason] = failure.result(first, group.depth(standing))
            moments.update(moment for moment, _ in group.verdict(standing).expiries)
        return _Refusals(
            standing.version,
            max((moment for moment in moments if moment < now), default=None),
            min((moment for moment in moments if moment >= now), default=None),
            by_reason,
        )


def _end(group: Group) -> tuple[datetime, str]:
    return group.grant.expires_at or _NEVER, group.first


class Shelves:
    """Groups by shape, found by the action that they cover."""

    def __init__(self) -> None:
        self._shelves: dict[_Shape, Shelf] = {}
        self._index: ShapeIndex[Shelf] = ShapeIndex()

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

    def _shelf(self, grant: Grant) -> Shelf:
        shape = _shape(grant)
        shelf = self._shelves.get(shape)
        if shelf is None:
            shelf = self._shelves[shape] = Shelf(grant)
            self._index.add(grant, shelf)
        return shelf

    def covering(self, action: Action) -> list[Shelf]:
        """The shelves of the shapes that cover the action."""
        return [shelf for shelf in self._index.find(action) if shelf.grant.matches_shape(action)]


def _shape(grant: Grant) -> _Shape:
    return (grant.subject, grant.actions, grant.resources, grant.environments)
