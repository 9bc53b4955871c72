"""A COMMIT whose answer was lost: what became of the transaction, and what to do then.

The server may have committed it or not. A fresh connection reads the record that the transaction
was about, or the last event of a unit, and the table in docs/stores.md decides: it stands, it is
made once more, or it is refused. Nothing is guessed: what this does not settle is `AmbiguousWrite`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ctrlrun.effect import EffectRecord
from ctrlrun.errors import AmbiguousWrite
from ctrlrun.logs import get_logger
from ctrlrun.state.core import Writes
from ctrlrun.state.lost_commit import (
    AGAIN,
    EFFECT_BY_KEY,
    STANDS,
    Branch,
    Trace,
    branch_of,
    refusal_of,
)
from ctrlrun.state.postgres_session import PostgresSession, driver
from ctrlrun.state.rows import effect_from
from ctrlrun.state.session import Session

T = TypeVar("T")

log = get_logger("ctrlrun.postgres")

_BY_ID = "SELECT 1 FROM events WHERE event_id = ?"
_PATIENCE_S = 5.0
_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class _Lost:
    """A transaction in doubt: why, what it did, and which backend was to commit it."""

    error: BaseException
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
        if not isinstance(lost.error, driver().Error):
            self._note_interrupted(session, lost, is_unit=is_unit)
            raise lost.error
        branch, record = self._settle(session, lost, is_unit=is_unit)
        log.warning("a COMMIT was lost and is settled: %s", branch, extra={"branch": branch.value})
        if branch in STANDS:
            session.committed = True
            return value
        if branch not in AGAIN:
            raise refusal_of(lost.trace.change, record, self._now()) or _unknown(lost.error)
        value, again = _attempt(session, work, durable=durable)
        if again is not None:
            raise _unknown(again.error) from again.error
        return value

    def _note_interrupted(self, session: PostgresSession, lost: _Lost, *, is_unit: bool) -> None:
        """Find out whether a COMMIT that an interrupt fell into stands: it is not made again."""
        try:
            branch, _ = self._settle(session, lost, is_unit=is_unit)
        except (driver().Error, AmbiguousWrite) as unknown:
            log.warning(
                "an interrupt fell into a COMMIT, and whether it stands is not known: %s", unknown
            )
            return
        session.committed = branch in STANDS

    def _settle(
        self, session: PostgresSession, lost: _Lost, *, is_unit: bool
    ) -> tuple[Branch, EffectRecord | None]:
        """What a fresh connection finds; AmbiguousWrite where that says nothing."""
        change, event_id = lost.trace.change, lost.trace.event_id
        if change is None and not (is_unit and event_id is not None):
            raise _unknown(lost.error) from lost.error
        try:
            with session:
                _await_end(session, lost)
                if change is None:
                    found = session.row(_BY_ID, (event_id,))
                    return (Branch.EVENT_AGAIN if found is None else Branch.EVENT_LANDED), None
                row = session.row(EFFECT_BY_KEY, (change.effect_key,))
        finally:
            session.leave()
        record = None if row is None else effect_from(row)
        return branch_of(change, record), record


def _attempt(
    session: PostgresSession, work: Callable[[], T], *, durable: bool
) -> tuple[T, _Lost | None]:
    """`work` in a transaction, once; what became of it when its COMMIT got no answer."""
    session.committed = False
    try:
        with session:
            try:
                session.begin(durable=durable)
                backend = session.backend
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
    finally:
        session.leave()


def _await_end(session: PostgresSession, lost: _Lost) -> None:
    """Let the backend end that may still be committing; AmbiguousWrite when it does not."""
    deadline = time.monotonic() + _PATIENCE_S
    while session.is_running(lost.backend):
        if time.monotonic() >= deadline:
            raise _unknown(lost.error) from lost.error
        time.sleep(_PAUSE_S)


def _unknown(error: BaseException) -> AmbiguousWrite:
    reason = str(error).strip().partition("\n")[0] or type(error).__name__
    return AmbiguousWrite(
        f"the connection broke during a COMMIT, and whether it stands is not known: {reason}"
    )
