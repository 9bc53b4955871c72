"""Continuations in a relational store: suspended calls, each held by one unguessable token."""

from __future__ import annotations

from datetime import datetime

from ctrlrun.action import Action
from ctrlrun.errors import DamagedRow
from ctrlrun.state import verdicts
from ctrlrun.state.core import Reads
from ctrlrun.state.effects import EffectWrites, rewrite_effect
from ctrlrun.state.protocol import HeldContinuation
from ctrlrun.state.rows import action_json, column_time, continuation_action_from
from ctrlrun.state.session import Session

_HELD = "SELECT continuation, effect_key FROM continuations WHERE continuation <> ''"
_HELD_ELSEWHERE = (
    "SELECT effect_key FROM continuations WHERE continuation <> '' AND continuation = ? "
    "AND effect_key <> ?"
)
_BY_KEY = (
    "SELECT effect_key, action_id, action_json, rounds, continuation FROM continuations "
    "WHERE effect_key = ?"
)
_ROUNDS = "SELECT rounds FROM continuations WHERE effect_key = ?"
_HOLD = (
    "INSERT INTO continuations (effect_key, action_id, action_json, continuation, rounds, "
    "updated_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (effect_key) DO UPDATE SET "
    "action_id = excluded.action_id, action_json = excluded.action_json, "
    "continuation = excluded.continuation, rounds = excluded.rounds, "
    "updated_at = excluded.updated_at"
)
_SPEND = (
    "UPDATE continuations SET continuation = '', updated_at = ? "
    "WHERE effect_key = ? AND continuation = ?"
)


class ContinuationReads(Reads):
    """What a store tells about suspended calls."""

    def continuation_rounds(self, effect_key: str) -> int:
        """How often the standing attempt of a key was suspended; 0 if never."""
        row = self._row(_ROUNDS, (effect_key,))
        return 0 if row is None else _rounds_of(effect_key, row[0])


class ContinuationWrites(ContinuationReads, EffectWrites):
    """Holding a suspended call, and taking it up again once."""

    def hold_continuation(
        self, action: Action, effect_key: str, continuation: str, until: datetime
    ) -> int:
        """Hold the call of a live executing attempt until then; returns its rounds so far.

        Replaces the token that this effect had. Raises as `extend_lease` does, and InvalidArgument
        when another effect waits for the same token.
        """
        document = action_json(action)

        def step(session: Session) -> int:
            now = self._now()
            token = verdicts.check_token(continuation)
            record = self._locked_effect(session, effect_key)
            verdict = verdicts.extend(record, effect_key, action.action_id, until, now)
            held = verdict.accepted()
            if session.row(_HELD_ELSEWHERE, (token, effect_key)) is not None:
                raise verdicts.token_elsewhere(effect_key)
            row = session.row(f"{_BY_KEY}{self._dialect.for_update}", (effect_key,))
            same_attempt = row is not None and row[1] == action.action_id
            rounds = _rounds_of(effect_key, row[3]) + 1 if row and same_attempt else 1
            rewrite_effect(session, held)
            values = (effect_key, action.action_id, document, token, rounds, column_time(now))
            session.execute(_HOLD, values)
            return rounds

        return self._write(step)

    def take_continuation(self, continuation: str) -> HeldContinuation:
        """The call that waits for this token, which is spent by that.

        Raises InvalidArgument, always the same one, for a token that nobody waits for, and
        AmbiguousEffect, with nothing changed, when its attempt is no longer live.
        """

        def step(session: Session) -> HeldContinuation:
            now = self._now()
            tokens = [row for row in session.rows(_HELD) if isinstance(row[0], str)]
            effect_key: str = verdicts.find_token(continuation, tokens)
            record = self._locked_effect(session, effect_key)
            row = session.row(f"{_BY_KEY}{self._dialect.for_update}", (effect_key,))
            if row is None:  # a key that is no text
                raise DamagedRow(table="continuations", row_id=str(effect_key))
            # Taken before the row was locked: spent, whatever became of the attempt since.
            verdicts.find_token(continuation, [(row[4], effect_key)])
            refusal = verdicts.takeable(record, effect_key, row[1], now)
            if refusal is not None:
                raise refusal
            assert record is not None
            action = continuation_action_from(row)
            if session.execute(_SPEND, (column_time(now), effect_key, continuation)).rowcount != 1:
                raise verdicts.unknown_token()  # a store whose locks are not held
            return HeldContinuation(action, effect_key, record, _rounds_of(effect_key, row[3]))

        return self._write(step)


def _rounds_of(effect_key: str, value: object) -> int:
    if not isinstance(value, int):
        raise DamagedRow(table="continuations", row_id=effect_key)
    return value
