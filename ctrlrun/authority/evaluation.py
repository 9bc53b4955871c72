"""Whether an action is covered: the verdict over the document's grants and a store's delegations.

What was read of a store is kept, and brought up to date by each call before it judges: the store is
always asked what changed. Reads stores, writes nothing. The rules are in docs/authority.md.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Mapping
from datetime import datetime
from heapq import merge
from itertools import chain

from ctrlrun.action import Action
from ctrlrun.authority.grants import Grant
from ctrlrun.authority.records import (
    DelegationChanges,
    DelegationReader,
    DelegationRow,
    is_follower,
    row_of,
)
from ctrlrun.authority.shelves import Shelf
from ctrlrun.authority.standing import Standing
from ctrlrun.authority.verdict import (
    AUTHORITY_CONSTRAINT,
    AUTHORITY_ESCALATION,
    AUTHORITY_EXPIRED,
    AUTHORITY_GRANT,
    AUTHORITY_REVOKED,
    AUTHORITY_UNREADABLE,
    NO_AUTHORITY,
    AuthorityResult,
)
from ctrlrun.errors import DamagedRow

_PRECEDENCE = (
    AUTHORITY_ESCALATION,
    AUTHORITY_REVOKED,
    AUTHORITY_EXPIRED,
    AUTHORITY_CONSTRAINT,
)
"""Which refusal is told when there are several; what cannot be read was told before."""


class Evaluator:
    """The judge of one set of grants, with what it knows of each store."""

    def __init__(self, roots: Mapping[str, Grant], max_depth: int) -> None:
        self._roots = roots
        self._max_depth = max_depth
        self._known = _Known()

    def evaluate(self, action: Action, now: datetime, store: DelegationReader) -> AuthorityResult:
        """The verdict over everything that stands at this call."""
        standing, lock = self._standing(store)
        while True:
            mark = standing.mark
            # Without the lock: a store may make this thread wait for another that waits for us.
            changes = _look(store, mark)
            with lock:
                if standing.mark is not mark:
                    continue  # another thread knows more by now: look again from there
                try:
                    standing.take(changes)
                    return _judge(standing, action, now)
                except BaseException:
                    standing.forget()  # an interrupt may have left it between two steps
                    raise

    def _standing(self, store: DelegationReader) -> tuple[Standing, threading.RLock]:
        if self._known.pid != os.getpid():
            # In a forked child a lock may be held by a thread that is not there.
            self._known = _Known()
        return self._known.standing_of(store, self._roots, self._max_depth)


class _Known:
    """What is known, by store, for as long as the store lives; for one process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._by_id: dict[int, tuple[weakref.ref[DelegationReader], Standing, threading.RLock]] = {}

    def standing_of(
        self, store: DelegationReader, roots: Mapping[str, Grant], max_depth: int
    ) -> tuple[Standing, threading.RLock]:
        """What is known of this very store: stores that call themselves equal need not be."""
        known = self._by_id.get(id(store))
        if known is not None and known[0]() is store:
            return known[1], known[2]
        standing, lock = Standing(roots, max_depth), threading.RLock()
        try:
            reference = weakref.ref(store)
        except TypeError:
            return standing, lock
        with self._lock:
            known = self._by_id.get(id(store))
            if known is None or known[0]() is not store:
                self._by_id = {
                    key: value for key, value in self._by_id.items() if value[0]() is not None
                }
                known = self._by_id[id(store)] = (reference, standing, lock)
        return known[1], known[2]


# --- looking -------------------------------------------------------------------------------------


def _look(store: DelegationReader, mark: object | None) -> DelegationChanges:
    if is_follower(store):
        return store.delegation_changes(mark)
    try:
        return _whole(store, include_revoked=True)
    except DamagedRow as error:
        damaged = error
    try:
        # A damaged row that was revoked is to be ignored, and this list is without it.
        return _whole(store, include_revoked=False)
    except DamagedRow:
        row = DelegationRow(damaged.row_id, *(None,) * 9)
        return DelegationChanges(None, True, (row,))


def _whole(store: DelegationReader, *, include_revoked: bool) -> DelegationChanges:
    records = store.delegations(include_revoked=include_revoked)
    return DelegationChanges(None, True, tuple(map(row_of, records)))


# --- judging -------------------------------------------------------------------------------------


def _judge(standing: Standing, action: Action, now: datetime) -> AuthorityResult:
    unreadable = standing.unreadable
    if unreadable is not None:
        return AuthorityResult(False, AUTHORITY_UNREADABLE, delegation_id=unreadable)
    shelves = standing.covering(action)
    if standing.has_circles:
        circle = _circle(standing, shelves)
        if circle is not None:
            return circle
    candidates = (shelf.candidates(action.arguments, now) for shelf in shelves)
    for grant_id, group in merge(*candidates, key=lambda pair: pair[0]):
        if group.covers(standing, action, now):
            depth = group.depth(standing)
            delegation_id = None if depth is None else grant_id
            return AuthorityResult(True, AUTHORITY_GRANT, grant_id, delegation_id, depth or 0)
    return _gravest([shelf.refusals(standing, now) for shelf in shelves])


def _circle(standing: Standing, shelves: list[Shelf]) -> AuthorityResult | None:
    """A circle denies whatever other grants say: somebody wrote it past all checks."""
    circling = (group for group in chain.from_iterable(shelves) if standing.circles(group.first))
    lowest = min(circling, key=lambda group: group.first, default=None)
    if lowest is None:
        return None
    verdict = lowest.verdict(standing)
    assert verdict.early is not None
    return verdict.early.result(lowest.first, verdict.depth)


def _gravest(found: list[dict[str, AuthorityResult]]) -> AuthorityResult:
    for reason in _PRECEDENCE:
        refusals = [refusals[reason] for refusals in found if reason in refusals]
        if refusals:
            return min(refusals, key=lambda refusal: refusal.grant_id or "")
    return AuthorityResult(False, NO_AUTHORITY)
