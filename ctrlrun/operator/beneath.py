"""What hangs on a grant: the grants beneath it, and the requests and effects that it covers.

A request, or an effect, is covered by a grant when the authority of its call was resolved by it, or
by a delegation beneath it: the last AUTHORITY_RESOLVED of its action names that id. It is a record of
what let the call pass, and no promise that nothing else would (docs/authority.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.effect import HELD_STATES, EffectRecord
from ctrlrun.operator.authority_state import Standings
from ctrlrun.operator.authority_tree import GrantNode, NodeKind
from ctrlrun.operator.pages import ReadsPages, is_indexed
from ctrlrun.operator.searching import search
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import PagedReader
from ctrlrun.state.page import START

LOOKED_AT = 400
"""Waiting requests, and running effects, whose authority is looked up; beyond them it is `at least`."""

_SCANNED = 2_000
_RESOLVED = (EventType.AUTHORITY_RESOLVED,)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Covered:
    """How many requests or effects a grant covers; `more` says that not all were looked at."""

    count: int
    more: bool = False


@dataclass(frozen=True, slots=True)
class Beneath:
    """What hangs on a line of the tree.

    `is_live` is about the line itself, `live` are the lines beneath it that count now. `requests`
    wait for an answer; `effects` run, and would go on running.
    """

    is_live: bool
    live: tuple[GrantNode, ...]
    requests: Covered
    effects: Covered

    @property
    def grants(self) -> int:
        """How many live grants would stop with it, itself included."""
        return self.is_live + len(self.live)


def beneath(reader: PagedReader, standings: Standings, node: GrantNode, now: datetime) -> Beneath:
    """What hangs on a line; the grants exactly, requests and effects as far as they are looked at."""
    below = standings.tree.subtree(node)
    ids = frozenset(
        line.node_id for line in below if line.kind is not NodeKind.MISSING or line is node
    )
    covers = _Coverage(reader, ids)
    return Beneath(
        standings.is_live(node, now),
        tuple(line for line in below[1:] if standings.is_live(line, now)),
        _requests(reader, covers, now),
        _effects(reader, covers, now),
    )


class _Coverage:
    """Whether an action's authority was resolved by one of some grants."""

    def __init__(self, reader: PagedReader, ids: frozenset[str]) -> None:
        self._reader = reader
        self._ids = ids
        self._is_partial = False
        self._scanned: dict[str, Event] | None = None if is_indexed(reader) else self._scan()

    def covers(self, action_id: str) -> bool:
        if self._scanned is not None:
            event = self._scanned.get(action_id)
        else:
            resolved = self._reader.events_page(limit=1, action_id=action_id, types=_RESOLVED).items
            event = resolved[-1] if resolved else None
        return event is not None and event.data.get("grant_id") in self._ids

    @property
    def is_partial(self) -> bool:
        """Whether only the newest events were looked at: a store without our indexes."""
        return self._is_partial

    def _scan(self) -> dict[str, Event]:
        """By action: the last of the newest such events, read at once."""
        events = self._reader.events_page(limit=_SCANNED, types=_RESOLVED).items
        self._is_partial = len(events) >= _SCANNED
        return {event.action_id: event for event in events if event.action_id is not None}


def _requests(reader: PagedReader, covers: _Coverage, now: datetime) -> Covered:
    pending = partial(
        reader.approvals_page, status=ApprovalStatus.PENDING, live_at=now, order="expiry"
    )

    def keep(record: ApprovalRecord) -> bool:
        return covers.covers(record.request.action.action_id)

    return _counted(pending, keep, partly=covers.is_partial)


def _effects(reader: PagedReader, covers: _Coverage, now: datetime) -> Covered:
    def keep(record: EffectRecord) -> bool:
        return record.lease_is_live(now) and covers.covers(record.action_id)

    found = [
        _counted(partial(reader.effects_page, state=state), keep, partly=covers.is_partial)
        for state in sorted(HELD_STATES)
    ]
    return Covered(sum(each.count for each in found), any(each.more for each in found))


def _counted(read: ReadsPages[T], keep: Callable[[T], bool], *, partly: bool) -> Covered:
    """How many of the first rows of a list are kept."""
    found = search(read, keep, after=START, at_least=LOOKED_AT, budget=LOOKED_AT)
    return Covered(len(found.items), partly or not found.exhausted)
