"""The tree as it was read last, and whether that is still it.

A large tree costs more than a tenth of a second to read; a screen looks several times a second.
Delegations are only ever added and revoked, and each time an event says so: two counts tell whether
there is anything new, and the events which ones, as long as both agree. Small stores are read whole
each time, and so is a large one after a while: a row that somebody altered by hand shows, too.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from ctrlrun.authority import Authority, DelegationRecord
from ctrlrun.errors import DamagedRow
from ctrlrun.forks import Forked, watch_forks
from ctrlrun.operator.authority_state import Standings
from ctrlrun.operator.authority_tree import build_tree
from ctrlrun.operator.grant_texts import GrantTexts
from ctrlrun.receipt import EventType
from ctrlrun.state import Damage, PagedReader
from ctrlrun.state.page import START

READ_ALWAYS = 300
"""Delegations up to which they are read anew each time."""

READ_AGAIN = timedelta(seconds=30)
"""How old a reading of more of them may be, although the counts are the same."""

_TOLD = 200
_CHANGES = (EventType.DELEGATION_CREATED, EventType.DELEGATION_REVOKED)
_PAGE = 20_000
"""The list has no index of its order, so each page costs all of it."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """All delegations as they were read, oldest first, and what they were counted as."""

    counts: tuple[int, int]  # all, and those that nobody revoked
    read_at: datetime
    last_event: str
    records: tuple[DelegationRecord, ...]
    damaged: tuple[Damage, ...]


class AuthorityShelf(Forked):
    """Reads trees for one sitting; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts = GrantTexts()
        self._stored: _Stored | None = None
        self._shown: tuple[_Stored, Authority | None, Standings] | None = None
        watch_forks(self)

    def after_fork_in_child(self) -> None:
        """A thread that is not here may have been reading."""
        self._lock = threading.Lock()

    def read(self, reader: PagedReader, authority: Authority | None, now: datetime) -> Standings:
        """The tree under a document (None where none is read), and where its lines stand."""
        with self._lock:
            stored = self._current(reader, now)
            shown = self._shown
            if shown is not None and shown[0] is stored and shown[1] is authority:
                return shown[2]
            tree = build_tree(authority, stored.records, stored.damaged)
            standings = Standings(tree, self._texts)
            self._shown = (stored, authority, standings)
            return standings

    def forget(self) -> None:
        """Another store stands at this place."""
        with self._lock:
            self._texts = GrantTexts()
            self._stored = self._shown = None

    def _current(self, reader: PagedReader, now: datetime) -> _Stored:
        counts = (
            reader.delegations_count(include_revoked=True),
            reader.delegations_count(),
        )
        held = self._stored
        is_fresh = held is not None and timedelta(0) <= now - held.read_at < READ_AGAIN
        if held is not None and is_fresh and counts[0] > READ_ALWAYS:
            if counts == held.counts:
                return held
            told = _told(reader, held, counts)
            if told is not None:
                self._stored = told
                return told
        last_event = _last_event(reader)
        records, damaged = _all(reader)
        if held is not None and (records, damaged) == (held.records, held.damaged):
            # The same tree: what was found out about it stands.
            records, damaged = held.records, held.damaged
            self._stored = replace(held, read_at=now, last_event=last_event)
            if self._shown is not None and self._shown[0] is held:
                self._shown = (self._stored, *self._shown[1:])
        else:
            self._stored = _Stored(counts, now, last_event, records, damaged)
        return self._stored


def _told(reader: PagedReader, held: _Stored, counts: tuple[int, int]) -> _Stored | None:
    """What was read, with what events tell since; None when these do not come to the counts."""
    page = reader.events_page(after=held.last_event, limit=_TOLD, types=_CHANGES)
    if len(page.items) == _TOLD or page.damaged or held.damaged:
        return None
    ids = [str(event.data.get("delegation_id")) for event in page.items]
    changed: dict[str, DelegationRecord] = {}
    for delegation_id in ids:
        try:
            record = reader.get_delegation(delegation_id)
        except DamagedRow:
            return None
        if record is not None:
            changed[delegation_id] = record
    records = [changed.pop(each.delegation_id, each) for each in held.records]
    records = sorted([*records, *changed.values()], key=lambda each: each.created_at)
    unrevoked = sum(not each.is_revoked for each in records)
    if (len(records), unrevoked) != counts:
        return None
    last_event = held.last_event if page.after is None else page.after
    return _Stored(counts, held.read_at, last_event, tuple(records), ())


def _last_event(reader: PagedReader) -> str:
    """The cursor behind which events tell more."""
    return reader.events_page(limit=1).after or START


def _all(reader: PagedReader) -> tuple[tuple[DelegationRecord, ...], tuple[Damage, ...]]:
    """Every delegation; of those that cannot be read at all, the ones that nobody revoked.

    A revoked row that cannot be read counts for nothing and says nothing.
    """
    records, damaged = _listed(reader, include_revoked=True)
    if damaged:
        _, damaged = _listed(reader, include_revoked=False)
    return tuple(records), tuple(damaged)


def _listed(
    reader: PagedReader, *, include_revoked: bool
) -> tuple[list[DelegationRecord], list[Damage]]:
    records: list[DelegationRecord] = []
    damaged: list[Damage] = []
    cursor: str | None = START
    while cursor is not None:
        page = reader.delegations_page(after=cursor, limit=_PAGE, include_revoked=include_revoked)
        records += page.items
        damaged += page.damaged
        cursor = page.after
    return records, damaged
