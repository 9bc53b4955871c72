"""A COMMIT whose answer was lost: what became of the transaction, and what to do then.

The server may have committed it or not. A fresh connection reads the record that the transaction
was about, or the last event of a unit, and the table in docs/stores.md decides: it stands, it is
made once more, or it is refused. Nothing is guessed: what this does not settle is `AmbiguousWrite`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from ctrlrun.effect import DEFAULT_LEASE, HELD_STATES, EffectRecord, EffectState
from ctrlrun.errors import AmbiguousWrite, CTRLRunError
from ctrlrun.state import verdicts
from ctrlrun.state.core import Writes
from ctrlrun.state.postgres_session import PostgresSession, Trace
from ctrlrun.state.rows import EFFECT_COLUMNS, column_time, effect_from
from ctrlrun.state.session import EffectChange, Session

T = TypeVar("T")

log = logging.getLogger("ctrlrun.postgres")

_BY_KEY = f"SELECT {EFFECT_COLUMNS} FROM effects WHERE effect_key = ?"
_BY_ID = "SELECT 1 FROM events WHERE event_id = ?"
_PATIENCE_S = 5.0
_PAUSE_S = 0.01


class Branch(StrEnum):
    """How a lost COMMIT was settled, as the log names it."""

    NEW_OURS = "a1.row1.ours"
    NEW_AGAIN = "a1.row2.reinsert"
    NEW_REFUSED = "a1.row3.refuse"
    LANDED = "a2.row1.landed"
    AGAIN = "a2.row2.reissue"
    REFUSED = "a2.row3.refuse"
    EVENT_LANDED = "a3.row1.landed"
    EVENT_AGAIN = "a3.row2.reissue"


_STANDS = frozenset({Branch.NEW_OURS, Branch.LANDED, Branch.EVENT_LANDED})
_AGAIN = frozenset({Branch.NEW_AGAIN, Branch.AGAIN, Branch.EVENT_AGAIN})


@dataclass(frozen=True, slots=True)
class _Lost:
    """A transaction in doubt: why, what it did, and which backend was to commit it."""

    error: Exception
    trace: Trace
    backend: int


class SettledWrites(Writes):
    """Transactions whose lost COMMIT is looked into."""

    def _transact(
        self, session: Session, work: Callable[[], T], *, durable: bool, is_unit: bool
    ) -> T:
        assert isinstance(session, PostgresSession)
        value, lost = _attempt(session, work, durable=durable)
        if lost is None:
            return value
        branch, record = self._settle(session, lost, is_unit=is_unit)
        log.warning("a COMMIT was lost and is settled: %s", branch, extra={"branch": branch.value})
        if branch in _STANDS:
            return value
        if branch not in _AGAIN:
            raise _refusal(lost.trace.change, record, self._now()) or _unknown(lost.error)
        value, again = _attempt(session, work, durable=durable)
        if again is not None:
            raise _unknown(again.error) from again.error
        return value

    def _settle(
        self, session: PostgresSession, lost: _Lost, *, is_unit: bool
    ) -> tuple[Branch, EffectRecord | None]:
        """What a fresh connection finds; AmbiguousWrite where that says nothing."""
        change, event_id = lost.trace.change, lost.trace.event_id
        if change is None and not (is_unit and event_id is not None):
            raise _unknown(lost.error) from lost.error
        with session:
            _await_end(session, lost)
            if change is None:
                found = session.row(_BY_ID, (event_id,))
                return (Branch.EVENT_AGAIN if found is None else Branch.EVENT_LANDED), None
            row = session.row(_BY_KEY, (change.effect_key,))
        record = None if row is None else effect_from(row)
        return _branch(change, record), record


def _attempt(
    session: PostgresSession, work: Callable[[], T], *, durable: bool
) -> tuple[T, _Lost | None]:
    """`work` in a transaction, once; what became of it when its COMMIT got no answer."""
    with session:
        session.begin(durable=durable)
        backend = session.backend
        try:
            value = work()
        except BaseException:
            session.rollback()
            raise
        try:
            session.commit()
        except BaseException as error:
            lost, trace = session.lost, session.trace
            session.rollback()
            if lost is None or lost is not error:
                raise
            session.disconnect()  # what is read next is read on a connection of its own
            return value, _Lost(lost, trace, backend)
    return value, None


def _await_end(session: PostgresSession, lost: _Lost) -> None:
    """Let the backend end that may still be committing; AmbiguousWrite when it does not."""
    deadline = time.monotonic() + _PATIENCE_S
    while session.is_running(lost.backend):
        if time.monotonic() >= deadline:
            raise _unknown(lost.error) from lost.error
        time.sleep(_PAUSE_S)


def _branch(change: EffectChange, record: EffectRecord | None) -> Branch:
    if not change.before:
        if record is None:
            return Branch.NEW_AGAIN
        return Branch.NEW_OURS if _is_what_was_made(change, record) else Branch.NEW_REFUSED
    if record is None:
        return Branch.REFUSED
    own = record.action_id == change.action_id
    if own and record.state == change.state:
        # A step may end where it began, and anybody who asks makes a lapsed lease ambiguous: then
        # the time tells whether it was this transaction.
        is_plain = change.state not in change.before and change.state != EffectState.AMBIGUOUS
        if is_plain or column_time(record.updated_at) == change.at:
            return Branch.LANDED
    if record.state in change.before and (own or change.renews):
        return Branch.AGAIN
    return Branch.REFUSED


def _is_what_was_made(change: EffectChange, record: EffectRecord) -> bool:
    """Whether the row is the one that the transaction made, down to its times."""
    made = change.record
    return (
        made is not None
        and (record.effect_key, record.action_id, record.attempt)
        == (made.effect_key, change.action_id, made.attempt)
        and record.state == change.state
        and record.created_at == made.created_at
        and column_time(record.updated_at) == change.at
        and record.lease_expires_at
        == (made.lease_expires_at if record.state in HELD_STATES else None)
    )


def _refusal(
    change: EffectChange | None, record: EffectRecord | None, now: datetime
) -> CTRLRunError | None:
    """What the record that stands now says to the call; nothing is written for it."""
    if change is None:
        return None
    key, action_id = change.effect_key, change.action_id
    if not change.before or change.renews:
        lease = verdicts.reserve(record, key, action_id, DEFAULT_LEASE, now)
        return lease.refusal
    judges = {
        EffectState.EXECUTING: lambda: verdicts.begin(record, key, action_id, now),
        EffectState.COMMITTED: lambda: verdicts.commit(record, key, action_id, now),
        EffectState.FAILED: lambda: verdicts.fail(record, key, action_id, now, ""),
        EffectState.AMBIGUOUS: lambda: verdicts.lose(record, key, action_id, now, ""),
    }
    return judges[EffectState(change.state)]().refusal


def _unknown(error: Exception) -> AmbiguousWrite:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return AmbiguousWrite(
        f"the connection broke during a COMMIT, and whether it stands is not known: {reason}"
    )
