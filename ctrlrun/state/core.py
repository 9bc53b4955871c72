"""How a relational store runs a call: reads, writes of one transaction, and units of several.

A write is a step that is handed the session with the write lock held. It raises a refusal that
leaves nothing behind, and returns one that keeps a write: that is committed, then raised.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from ctrlrun.clock import Clock
from ctrlrun.errors import CTRLRunError, InvalidArgument
from ctrlrun.state.dialect import Dialect
from ctrlrun.state.session import Row, Session, Sessions, Values

T = TypeVar("T")

Step = Callable[[Session], T | CTRLRunError]


class Reads:
    """The base of all reads."""

    def __init__(self, sessions: Sessions[Any], dialect: Dialect, clock: Clock) -> None:
        self._sessions = sessions
        self._dialect = dialect
        self._clock = clock

    def close(self) -> None:
        """Disconnect every thread. Later calls work: they connect again."""
        self._sessions.close()

    def _now(self) -> datetime:
        now = self._clock()
        if now.tzinfo is None:
            raise InvalidArgument("the clock must return times with an offset from UTC")
        return now if now.tzinfo is UTC else now.astimezone(UTC)

    def _rows(self, sql: str, values: Values = ()) -> list[Row]:
        session: Session = self._sessions.current()
        return session.use(lambda: session.rows(sql, values))

    def _row(self, sql: str, values: Values = ()) -> Row | None:
        rows = self._rows(sql, values)
        return rows[0] if rows else None


class Writes(Reads):
    """The base of all writes."""

    def unit(self, work: Callable[[], T], *, durable: bool) -> T:
        """Run `work` as one transaction of this thread and return its value after the commit.

        This thread's calls on the store join it, those that a subclass overrides too; so does a
        unit inside (the outer one's `durable` holds). Whatever leaves `work` rolls all of its
        writes back, kept ones included, so refusals are to be caught inside. `work` may run more than
        once and keeps nothing of an earlier run. With `durable` the transaction is on disk when
        this returns; without, a power cut may undo it. Rules: docs/stores.md.
        """
        session: Session = self._sessions.current()
        if session.active:
            return session.nested(work)
        return self._transact(session, work, durable=durable, is_unit=True)

    @property
    def in_unit(self) -> bool:
        """Whether this thread has a unit open, which its calls join."""
        session: Session = self._sessions.current()
        return session.active

    @property
    def unit_committed(self) -> bool:
        """Whether this thread's last transaction is committed, even if an interrupt left `unit`.

        For callers who catch such an interrupt: what is committed is not to be written again.
        """
        session: Session = self._sessions.current()
        return session.committed

    def _write(self, step: Step[T]) -> T:
        """One call of the store: joins this thread's transaction, or is a durable one itself."""
        session: Session = self._sessions.current()
        if session.active:
            outcome = session.joined(step)
        else:
            outcome = self._transact(session, lambda: step(session), durable=True, is_unit=False)
        if isinstance(outcome, CTRLRunError):
            raise outcome
        return outcome

    def _transact(
        self, session: Session, work: Callable[[], T], *, durable: bool, is_unit: bool
    ) -> T:
        """`work` in a transaction; `is_unit` tells a caller's unit from one call of the store."""
        while True:
            session.committed = False
            try:
                with session:
                    try:
                        session.begin(durable=durable)
                        value = work()
                        session.commit()
                    except BaseException:
                        session.rollback()
                        raise
                    if session.landed():
                        return value
            finally:
                session.leave()
