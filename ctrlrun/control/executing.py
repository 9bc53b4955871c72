"""What an executor can ask about its own call while it runs: the call, its lease, its loss.

A context variable leads there: the kernel sets it around each executor, nested calls put theirs
over it, and code of others (hooks, providers) runs apart from it. A thread that an executor starts
finds it in a copied context. The rules are in docs/slow-executors.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar, Token
from datetime import datetime, timedelta
from typing import TypeVar

from ctrlrun.clock import SteadyClock
from ctrlrun.control.ambient import presenting, restore
from ctrlrun.control.call import Call, Outcome, Settings, Start
from ctrlrun.control.evidence import described, message_of
from ctrlrun.control.holding import see_holder
from ctrlrun.control.nesting import moment, raised_inside
from ctrlrun.effect import EffectRecord, EffectState, Reservation
from ctrlrun.errors import (
    AmbiguousEffect,
    CTRLRunError,
    InvalidArgument,
    LeaseLost,
    NotExecuted,
    Suspended,
)
from ctrlrun.logs import get_logger

log = get_logger("ctrlrun.control")

T = TypeVar("T")

_LOST = {
    "lapsed": "its lease ran out",
    "resolved": "somebody answered for it",
    "taken": "another attempt stands there",
}


class Running:
    """One executor that runs, and what is known of its hold on the effect.

    Shared by the executor's threads: each field is written whole, and a hold that is lost stays so.
    """

    def __init__(self, settings: Settings, call: Call, start: Start) -> None:
        self.call = call
        self.start = start
        self._store = settings.store
        self._clock = settings.clock
        self._steady = SteadyClock(settings.clock)
        self._began = moment()
        self._pid = os.getpid()
        self._over = False
        self._passed = start.resumed  # what was sent before the suspension is not unsent
        self._lost: str | None = None
        self._raised: list[LeaseLost] = []
        reservation = start.reservation
        self._ends = (
            self._steady() + call.lease if reservation is None else reservation.lease_expires_at
        )

    @property
    def is_over(self) -> bool:
        """Whether the executor has ended; a thread that it left behind is not it any more."""
        return self._over

    def end(self) -> None:
        """The executor has ended."""
        self._over = True

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is a child that the executor forked, and that came back in its stead."""
        return os.getpid() != self._pid

    def forked(self) -> AmbiguousEffect:
        """What a child ends with: the executor of its parent may have acted, or may yet."""
        action = self.call.action
        return AmbiguousEffect(
            f"the executor of {action.name} forked, and this is the child: nobody knows here "
            "whether its parent acts; end a child with os._exit inside the executor",
            effect_key=self.call.effect_key,
            action_id=action.action_id,
        )

    def left(self) -> timedelta:
        """How long the lease still lives, as far as this process knows; never negative."""
        if self._lost is not None:
            return timedelta(0)
        return max(self._ends - self._steady(), timedelta(0))

    def check(self) -> None:
        """Raise LeaseLost unless the attempt holds its effect at this moment."""
        reservation = self.start.reservation
        if reservation is None:
            return
        record = self._store.get_effect(reservation.effect_key)
        reason = _why_lost(record, reservation, self._steady()) or self._lost
        if reason is None:
            self._passed = True
            return
        self._lost = reason
        ending = "something may have gone out before" if self._passed else "nothing was sent"
        lost = LeaseLost(
            f"attempt {reservation.attempt} at {reservation.effect_key} was stopped by its fence: "
            f"{_LOST[reason]}; {ending}",
            effect_key=reservation.effect_key,
            attempt=reservation.attempt,
            reason=reason,
        )
        self._raised.append(lost)
        raise lost

    def extend(self) -> None:
        """Extend the lease to its full length and note that the holder lives.

        A refusal is kept for the next fence. A store that fails is logged: the lease still lives,
        and the next extension may come in time.
        """
        reservation = self.start.reservation
        if reservation is None:
            return
        unit = getattr(self._store, "unit", None)
        try:
            # May lag: after a power cut nobody holds this lease, however long it was.
            extended: datetime | str = (
                self._extend(reservation)
                if unit is None
                else unit(lambda: self._extend(reservation), durable=False)
            )
        except Exception as failure:
            log.warning(
                "the lease of effect %s was not extended: %s",
                reservation.effect_key,
                described(failure),
            )
            return
        if isinstance(extended, datetime):
            self._ends = extended
        elif self._lost is None:
            self._lost = extended
            log.warning(
                "effect %s: %s; its fence will stop it", reservation.effect_key, _LOST[extended]
            )

    def _extend(self, reservation: Reservation) -> datetime | str:
        """One extension, in one unit: the lease's new end, or why it is refused."""
        key, action_id = reservation.effect_key, reservation.action_id
        # Also of a lease that is lost: somebody may ask.
        see_holder(self._store, reservation, self._clock())
        if self._lost is not None:
            return self._lost
        record = self._store.get_effect(key)
        now = self._steady()
        reason = _why_lost(record, reservation, now)
        if reason is not None:
            return reason
        assert record is not None and record.lease_expires_at is not None  # it is live
        until = max(record.lease_expires_at, now + self.call.lease)
        try:
            self._store.extend_lease(key, action_id, until)
        except CTRLRunError:  # by the store's clock, which has the last word
            return "lapsed"
        return until

    def outcome_of(self, error: BaseException) -> Outcome:
        """What the exception that ended the executor says about this attempt.

        What a call inside raised says nothing about this one, which may have acted before, and
        neither does what a forked child raised.
        """
        if self.is_elsewhere:
            told = f"{described(error)} (raised in a child that the executor forked)"
            return Outcome(EffectState.AMBIGUOUS, error=told, raised=error, deferred=True)
        inside = raised_inside(error, self._began, self.call.action.name)
        if inside is not None:
            told = f"{described(error)} (raised by the call of {inside} inside this one)"
            return Outcome(EffectState.AMBIGUOUS, error=told, raised=error)
        if isinstance(error, Suspended):
            return Outcome(EffectState.EXECUTING, raised=error)
        if isinstance(error, LeaseLost):
            failed = self._stopped_by(error)
        else:
            failed = isinstance(error, NotExecuted)
        if failed:
            return Outcome(EffectState.FAILED, error=message_of(error), raised=error)
        return Outcome(EffectState.AMBIGUOUS, error=described(error), raised=error)

    def _stopped_by(self, lost: LeaseLost) -> bool:
        """Whether the fence of this very attempt stopped it before anything was sent.

        The fence of another call says nothing about this one, not even where key and attempt are
        the same: that of another store. After a fence that passed, or a suspension, something may
        have gone out.
        """
        return not self._passed and any(raised is lost for raised in self._raised)


def _why_lost(record: EffectRecord | None, mine: Reservation, now: datetime) -> str | None:
    """Why an attempt does not hold its effect any more, or None while it does."""
    if record is None or (record.action_id, record.attempt) != (mine.action_id, mine.attempt):
        return "taken"
    match record.state:
        case EffectState.EXECUTING:
            return None if record.lease_is_live(now) else "lapsed"
        case EffectState.AMBIGUOUS:
            return "lapsed"  # a contender found the lease over, and nobody has answered yet
        case EffectState.COMMITTED | EffectState.FAILED:
            return "resolved"
        case _:
            return "taken"


_running: ContextVar[Running | None] = ContextVar("ctrlrun_running", default=None)


class _Inside:
    """Inside, `running` is the call that executors ask about, and no approval is presented.

    An interrupt may keep `__exit__` from starting: whoever uses this calls `leave` after it, in a
    `finally`.
    """

    def __init__(self, running: Running | None) -> None:
        self._inner = running
        self._presenting = presenting(None)
        self._token: Token[Running | None] | None = None

    def __enter__(self) -> None:
        before = _running.get()
        try:
            self._presenting.__enter__()
            self._token = _running.set(self._inner)
        except BaseException:  # an interrupt between two of them
            _running.set(before)
            self._presenting.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        """The executor, or the code of others, has ended; nothing more when that is known."""
        if self._inner is not None:
            self._inner.end()
        self._presenting.__exit__()
        token, self._token = self._token, None
        if token is not None:
            restore(_running, token)


def executing(running: Running) -> _Inside:
    """Inside, the executor of this call runs, with no approval presented."""
    return _Inside(running)


def run_apart(work: Callable[[], T]) -> T:
    """Run code of others that is no executor, even where one waits for it."""
    inside = _Inside(None)
    try:
        with inside:
            return work()
    finally:
        inside.leave()


def running_call(asked: str) -> Running:
    """The call whose executor runs here; InvalidArgument where none does."""
    running = _running.get()
    if running is None or running.is_over:
        raise InvalidArgument(
            f"{asked} is for executors: no protected call runs here; a thread that an executor "
            "starts needs contextvars.copy_context()"
        )
    return running
