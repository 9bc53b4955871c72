"""The kernel's steps on a store, each by itself, so that a game can let them come at any time.

In a whole call a fence, an outcome, a hook's answer and a suspension follow the reservation that
they belong to. Here an attempt does them whenever it likes, also long after it was replaced.
"""

from __future__ import annotations

from ctrlrun.action import Action, Principal
from ctrlrun.conditions import Decision
from ctrlrun.control import Control, reconcile
from ctrlrun.control.call import Call, Outcome, Settings, Start
from ctrlrun.control.executing import Running
from ctrlrun.control.outcome import record_outcome
from ctrlrun.control.suspension import suspend
from ctrlrun.effect import EffectState, Reservation
from ctrlrun.errors import NotExecuted, Suspended
from ctrlrun.policy import Evaluation
from ctrlrun.state import UnitStateStore
from tests.e2e.crashes import POLICY
from tests.lib.store_suite.helpers import LEASE, FakeClock
from tests.lib.store_suite.model import Made

SUSPENDED = 2 * LEASE
OUTCOMES = {
    "committed": Outcome(EffectState.COMMITTED, result=1),
    "failed": Outcome(EffectState.FAILED, error="no", raised=NotExecuted("no")),
    "ambiguous": Outcome(EffectState.AMBIGUOUS, error="?", raised=TimeoutError("?")),
}


class Hands:
    """What the kernel does for one attempt."""

    def __init__(self, store: UnitStateStore, clock: FakeClock, made: Made) -> None:
        control = Control(POLICY, store, clock=clock, lease=LEASE, suspend_timeout=SUSPENDED)
        self._settings: Settings = control._settings
        action = Action("pay", {"amount": 1}, Principal("a"), action_id=made.owner)
        journal = self._settings.journal(made.owner, made.key)
        self._call = Call(action, made.key, LEASE, None, None, clock.now, journal)
        reservation = Reservation(made.key, made.owner, made.attempt, clock.now)
        self._start = Start(Evaluation(Decision.ALLOW, "rule[0]"), reservation)
        self._made = made

    def fence(self) -> None:
        """LeaseLost unless the attempt may send its first byte."""
        Running(self._settings, self._call, self._start).check()

    def end(self, state: str) -> None:
        """Write the outcome with its evidence; raises what the call would end with."""
        record_outcome(self._settings, self._call, self._start, OUTCOMES[state])

    def answer(self, outcome: str) -> bool:
        """Apply what a hook says of this attempt; whether the record moved."""
        question = reconcile.Question(self._made.key, self._made.attempt, self._made.owner)
        return self._call.journal.write(
            lambda ledger: reconcile.apply(ledger, self._call, question, reconcile.Answer(outcome)),
            durable=True,
        )

    def suspend(self, token: str) -> None:
        """Hold the attempt under a token; always raises, Suspended when it is held."""
        suspend(self._settings, self._call, self._start, Suspended(token))
