"""The tree as it was read last, and whether that is still it.

A large tree costs a tenth of a second to read; a screen looks several times a second. Delegations are
only ever added and revoked, so two counts tell whether there is anything new. Small stores are read
whole each time, and so is a large one after a while: a row that somebody altered by hand shows, too.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import datetime, timedelta

from ctrlrun.authority import Authority, DelegationRecord
from ctrlrun.operator.authority_state import Standings
from ctrlrun.operator.authority_tree import build_tree
from ctrlrun.operator.grant_texts import GrantTexts
from ctrlrun.state import Damage, PagedReader
from ctrlrun.state.page import START

READ_ALWAYS = 300
"""Delegations up to which they are read anew each time."""

READ_AGAIN = timedelta(seconds=30)
"""How old a reading of more of them may be, although the counts are the same."""

_PAGE = 20_000
"""The list has no index of its order, so each page costs all of it."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """All delegations as they were read, oldest first, and what they were counted as."""

    counts: tuple[int, int]  # all, and those that nobody revoked
    read_at: datetime
    records: tuple[DelegationRecord, ...]
    damaged: tuple[Damage, ...]


class AuthorityShelf:
    """Reads trees for one sitting; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts = GrantTexts()
        self._stored: _Stored | None = None
        self._shown: tuple[_Stored, Authority | None, Standings] | None = None

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
        if (
            held is not None
            and counts[0] > READ_ALWAYS
            and counts == held.counts
            and timedelta(0) <= now - held.read_at < READ_AGAIN
        ):
            return held
        records, damaged = _all(reader)
        if held is not None and (records, damaged) == (held.records, held.damaged):
            # The same tree: what was found out about it stands.
            stored = held
        else:
            stored = _Stored(counts, now, records, damaged)
        self._stored = stored
        return stored


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
