"""Effects in a relational store: reservations, outcomes, answers and leases.

What is allowed is decided in `verdicts`; this module reads, asks, and writes. The statements of
the common path carry their condition with them, so that a call that is fine costs one statement;
only a miss reads the record and asks why.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from ctrlrun.effect import (
    DEFAULT_LEASE,
    EffectRecord,
    EffectState,
    Reservation,
    storable_result,
    within,
)
from ctrlrun.errors import CTRLRunError, DamagedRow
from ctrlrun.state import verdicts
from ctrlrun.state.core import Reads, Writes
from ctrlrun.state.dialect import Order
from ctrlrun.state.page import known_value
from ctrlrun.state.rows import EFFECT_COLUMNS, column_time, effect_from, optional_column_time
from ctrlrun.state.session import EffectChange, Session
from ctrlrun.state.verdicts import EffectVerdict

_BY_KEY = f"SELECT {EFFECT_COLUMNS} FROM effects WHERE effect_key = ?"

_RESERVE_NEW = (
    "INSERT INTO effects (effect_key, state, action_id, attempt, lease_expires_at, created_at, "
    "updated_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (effect_key) DO NOTHING"
)
_BEGIN = (
    "UPDATE effects SET state = 'executing', updated_at = ? "
    "WHERE effect_key = ? AND action_id = ? AND state = 'reserved'"
)
_COMMIT = (
    "UPDATE effects SET state = 'committed', updated_at = ?, lease_expires_at = NULL, "
    "result_json = ?, error = NULL "
    "WHERE effect_key = ? AND action_id = ? AND state = 'executing'"
)
_FAIL = (
    "UPDATE effects SET state = 'failed', updated_at = ?, lease_expires_at = NULL, "
    "result_json = NULL, error = ? "
    "WHERE effect_key = ? AND action_id = ? AND state = 'executing'"
)
_LOSE = (
    "UPDATE effects SET state = 'ambiguous', updated_at = ?, lease_expires_at = NULL, "
    "result_json = NULL, error = ? "
    "WHERE effect_key = ? AND action_id = ? AND state IN ('reserved', 'executing', 'ambiguous')"
)
# A verdict's record over the row it was asked about; results are kept, but for a renewal's.
_REWRITE = (
    "UPDATE effects SET state = ?, action_id = ?, attempt = ?, lease_expires_at = ?, error = ?, "
    "updated_at = ?, resolved_by = ? WHERE effect_key = ?"
)
_MOVES = {
    _BEGIN: ("executing", ("reserved",)),
    _COMMIT: ("committed", ("executing",)),
    _FAIL: ("failed", ("executing",)),
    _LOSE: ("ambiguous", ("reserved", "executing", "ambiguous")),
}
_FORGET_RESULT = "UPDATE effects SET result_json = NULL WHERE effect_key = ?"
_FORGET_CONTINUATION = "UPDATE continuations SET continuation = '', rounds = 0 WHERE effect_key = ?"


class EffectReads(Reads):
    """What a store tells about effects."""

    def get_effect(self, effect_key: str) -> EffectRecord | None:
        """The record of a key, or None."""
        row = self._row(_BY_KEY, (effect_key,))
        return None if row is None else effect_from(row)

    def list_effects(self, state: EffectState | None = None) -> tuple[EffectRecord, ...]:
        """All records (of a state), oldest first."""
        order: Order = self._dialect.stored["effects"]
        wanted = known_value(EffectState, state, "state")
        where = "" if wanted is None else " WHERE state = ?"
        sql = f"SELECT {EFFECT_COLUMNS} FROM effects{where} ORDER BY {order.key} NULLS FIRST, {order.tie}"
        values = () if wanted is None else (wanted.value,)
        return tuple(effect_from(row) for row in self._rows(sql, values))


class EffectWrites(EffectReads, Writes):
    """What moves an effect. The verdicts, and the error of each refusal: docs/stores.md."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        """Hold the key for one attempt, until `lease` from now.

        Raises DuplicateEffect when it is committed or in progress, AmbiguousEffect when nobody
        knows (a lease that has lapsed makes it so, and that is kept), InvalidArgument for an empty
        key or id or a lease that is not positive.
        """
        return self._write(lambda session: self._reserve(session, effect_key, action_id, lease))

    def _reserve(
        self, session: Session, effect_key: str, action_id: str, lease: timedelta
    ) -> Reservation | CTRLRunError:
        now = self._now()
        fresh = verdicts.reserve(None, effect_key, action_id, lease, now).accepted()
        if _insert(session, fresh):
            return verdicts.reservation_of(fresh)
        record = self._locked_effect(session, effect_key)
        if record is None:  # whoever held the key went back meanwhile
            if _insert(session, fresh):
                return verdicts.reservation_of(fresh)
            raise DamagedRow(table="effects", row_id=effect_key)
        verdict = verdicts.reserve(record, effect_key, action_id, lease, now)
        if verdict.write is not None:
            rewrite_effect(session, verdict.write)
            if session.is_traced:
                session.note_effect(_change(record, verdict.write))
        if verdict.refusal is not None:
            return verdict.refusal
        # What the failed attempt left is not this one's: its result, and a call it had suspended.
        session.execute(_FORGET_RESULT, (effect_key,))
        session.execute(_FORGET_CONTINUATION, (effect_key,))
        return verdicts.reservation_of(verdict.accepted())

    def begin_execution(self, effect_key: str, action_id: str) -> None:
        """`reserved` to `executing`, by its holder."""

        def step(session: Session) -> CTRLRunError | None:
            now = self._now()
            values = (column_time(now), effect_key, action_id)
            return self._move(
                session,
                _BEGIN,
                values,
                lambda record: verdicts.begin(record, effect_key, action_id, now),
            )

        self._write(step)

    def commit_effect(self, effect_key: str, action_id: str, result: Any) -> None:
        """`executing` to `committed`. `result` is stored as JSON, and never fails the commit.

        One that the database cannot take leaves a marker in its place (docs/effects.md).
        """
        stored = storable_result(result)  # somebody's repr: not under the write lock

        def step(session: Session) -> CTRLRunError | None:
            now = self._now()
            fitting = within(stored, session.longest_row)
            values = (column_time(now), fitting, effect_key, action_id)
            return self._move(
                session,
                _COMMIT,
                values,
                lambda record: verdicts.commit(record, effect_key, action_id, now),
            )

        self._write(step)

    def fail_effect(self, effect_key: str, action_id: str, error: str) -> None:
        """`executing` to `failed`: nothing happened, and a retry is permitted."""

        def step(session: Session) -> CTRLRunError | None:
            now = self._now()
            values = (column_time(now), self._dialect.storable(error), effect_key, action_id)
            return self._move(
                session,
                _FAIL,
                values,
                lambda record: verdicts.fail(record, effect_key, action_id, now, error),
            )

        self._write(step)

    def mark_ambiguous(self, effect_key: str, action_id: str, error: str) -> None:
        """To `ambiguous`: nobody knows whether it happened. Repeatable, the newer error stands."""

        def step(session: Session) -> CTRLRunError | None:
            now = self._now()
            values = (column_time(now), self._dialect.storable(error), effect_key, action_id)
            return self._move(
                session,
                _LOSE,
                values,
                lambda record: verdicts.lose(record, effect_key, action_id, now, error),
            )

        self._write(step)

    def _move(
        self,
        session: Session,
        statement: str,
        values: tuple[Any, ...],
        judge: Callable[[EffectRecord | None], EffectVerdict],
    ) -> CTRLRunError | None:
        """Run a statement that holds its own condition; a miss is judged by the record."""
        effect_key = values[-2]
        verdicts.check_name(effect_key, "effect_key")
        verdicts.check_name(values[-1], "action_id")
        if session.execute(statement, values).rowcount != 1:
            verdict = judge(self._locked_effect(session, effect_key))
            if verdict.refusal is not None:
                return verdict.refusal
            session.execute(statement, values)  # it moved in between; the read locks the row
        if session.is_traced:
            state, before = _MOVES[statement]
            session.note_effect(EffectChange(effect_key, values[-1], state, before, values[0]))
        return None

    def resolve_effect(
        self,
        effect_key: str,
        state: EffectState,
        resolver: str,
        *,
        attempt: int | None = None,
        action_id: str | None = None,
    ) -> EffectRecord:
        """Say what became of an ambiguous effect: `committed` or `failed`.

        `attempt` and `action_id` are what the resolver saw. Raises InvalidArgument, and writes
        nothing, for any other state, a bad name, and another attempt than the one seen.
        """

        def step(session: Session) -> EffectRecord:
            record = self._locked_effect(session, effect_key)
            resolved = verdicts.resolve(
                record,
                effect_key,
                state,
                resolver,
                self._now(),
                attempt=attempt,
                action_id=action_id,
            ).accepted()
            rewrite_effect(session, resolved)
            return resolved

        return self._write(step)

    def extend_lease(self, effect_key: str, action_id: str, until: datetime) -> None:
        """Let an executing attempt hold its key until then, never shorter than it does."""

        def step(session: Session) -> None:
            record = self._locked_effect(session, effect_key)
            verdict = verdicts.extend(record, effect_key, action_id, until, self._now())
            rewrite_effect(session, verdict.accepted())

        self._write(step)

    def _locked_effect(self, session: Session, effect_key: str) -> EffectRecord | None:
        row = session.row(f"{_BY_KEY}{self._dialect.for_update}", (effect_key,))
        return None if row is None else effect_from(row)


def _insert(session: Session, record: EffectRecord) -> bool:
    created_at = column_time(record.created_at)  # of a new record, also the time of its last change
    values = (
        record.effect_key,
        record.state.value,
        record.action_id,
        record.attempt,
        optional_column_time(record.lease_expires_at),
        created_at,
        created_at,
    )
    if session.execute(_RESERVE_NEW, values).rowcount != 1:
        return False
    if session.is_traced:
        session.note_effect(
            EffectChange(
                record.effect_key,
                record.action_id,
                record.state.value,
                (),
                created_at,
                record=record,
            )
        )
    return True


def _change(before: EffectRecord, after: EffectRecord) -> EffectChange:
    """A rewritten record: a renewal, or a lease that lapsed."""
    return EffectChange(
        after.effect_key,
        after.action_id,
        after.state.value,
        (before.state.value,),
        column_time(after.updated_at),
        renews=True,
    )


def rewrite_effect(session: Session, record: EffectRecord) -> None:
    """Write a verdict's record over the row that it was asked about."""
    values = (
        record.state.value,
        record.action_id,
        record.attempt,
        optional_column_time(record.lease_expires_at),
        record.error,
        column_time(record.updated_at),
        record.resolved_by,
        record.effect_key,
    )
    session.execute(_REWRITE, values)
