"""A COMMIT of SQLite that went into files which nobody sees any more, and what is done then.

A durable transaction licenses an act, so it counts only when it is in the files at the store's path.
Where those were replaced while it was written, it is looked for in what is there now, and made once
more where it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ctrlrun.errors import StoreReplaced
from ctrlrun.state.core import Writes
from ctrlrun.state.lost_commit import (
    AGAIN,
    EFFECT_BY_KEY,
    EVENT_VALUES,
    STANDS,
    Branch,
    branch_of,
    refusal_of,
)
from ctrlrun.state.rows import effect_from
from ctrlrun.state.session import Session
from ctrlrun.state.sqlite_session import SQLiteSession

T = TypeVar("T")

_TRIES = 5
_EVENT = f"SELECT {', '.join(EVENT_VALUES)} FROM events WHERE event_id = ?"


class SeenWrites(Writes):
    """Transactions that are made again where they landed in files that were replaced meanwhile."""

    def _transact(
        self, session: Session, work: Callable[[], T], *, durable: bool, is_unit: bool
    ) -> T:
        assert isinstance(session, SQLiteSession)
        for _ in range(_TRIES):
            value = super()._transact(session, work, durable=durable, is_unit=is_unit)
            if not durable or session.in_place():
                return value
            if self._is_there(session):
                return value
        raise StoreReplaced(
            f"{str(session.path)!r} was replaced {_TRIES} times while one transaction was made; "
            "whether it is kept is not known"
        )

    def _is_there(self, session: SQLiteSession) -> bool:
        """Whether what is at the path now holds the transaction; raises the refusal where the record
        there has moved on."""
        trace = session.trace
        with session:  # opens what is there now
            if trace.event_id is not None:
                return session.row(_EVENT, (trace.event_id,)) == trace.event
            if trace.change is None:
                return False
            row = session.row(EFFECT_BY_KEY, (trace.change.effect_key,))
        record = None if row is None else effect_from(row)
        branch: Branch = branch_of(trace.change, record)
        if branch in STANDS:
            return True
        refusal = refusal_of(trace.change, record, self._now())
        if branch not in AGAIN and refusal is not None:
            raise refusal
        return False
