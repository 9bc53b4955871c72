"""The values that one protected call hands from step to step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ctrlrun.action import Action
from ctrlrun.approval import ApprovalProvider
from ctrlrun.authority import Authority, AuthorityResult
from ctrlrun.clock import Clock
from ctrlrun.control.journal import Journal
from ctrlrun.effect import EffectState, Reservation
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalMismatch,
    CTRLRunError,
    DuplicateEffect,
    LeaseLost,
    Suspended,
)
from ctrlrun.policy import Evaluation, Policy
from ctrlrun.sinks import EventSink
from ctrlrun.state import StateStore

REFUSALS = (DuplicateEffect, AmbiguousEffect, ApprovalMismatch, ActionDenied)
"""What a store refuses with when a call asks for an approval or a reservation."""

PRINCIPAL_EXPIRED = "principal_expired"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a `Control` was built with: the same for each of its calls."""

    policy: Policy
    authority: Authority | None
    policy_hash: str
    store: StateStore
    approvals: ApprovalProvider
    clock: Clock
    approval_ttl: timedelta
    lease: timedelta
    suspend_timeout: timedelta
    sinks: tuple[EventSink, ...]
    environment: str
    reuse_requests: bool

    @property
    def observe(self) -> bool:
        """Whether decisions are recorded and not enforced."""
        return self.policy.mode == "observe"

    def journal(self, action_id: str, effect_key: str | None) -> Journal:
        """A journal for one call."""
        return Journal(self.store, self.sinks, self.clock, action_id, effect_key)


@dataclass(frozen=True, slots=True)
class Hook:
    """A reconcile hook: asks the remote what became of an effect key."""

    ask: Callable[[str], object]
    eager: bool


@dataclass(frozen=True, slots=True)
class Call:
    """A normalized call: what is proposed, under which key, presenting which approval."""

    action: Action
    effect_key: str | None
    lease: timedelta
    hook: Hook | None
    presented: str | None
    started_at: datetime
    journal: Journal


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is decided about an action, and what the grants said, where they were asked.

    A denial by grants is the whole decision: the policy was not asked then.
    """

    evaluation: Evaluation
    grants: AuthorityResult | None = None

    @property
    def uncovered(self) -> AuthorityResult | None:
        """What the grants refused the action with, if they did."""
        return None if self.grants is None or self.grants.passed else self.grants


@dataclass(frozen=True, slots=True)
class Start:
    """A call that goes on to its executor: what was decided, spent and reserved for it.

    `blocked` is set in observe mode alone: the first reason that enforcing would have stopped at;
    `unusable` and `approver` there are an approval that it would have stopped at, for the receipt.
    `asked` says that this call has had its one answer from its hook, `resumed` that the attempt
    was suspended before.
    """

    evaluation: Evaluation
    reservation: Reservation | None
    approval_id: str | None = None
    approver: str | None = None
    blocked: str | None = None
    unusable: str | None = None
    asked: bool = False
    resumed: bool = False

    @property
    def attempt(self) -> int:
        """The reservation's attempt; 1 when nothing was reserved."""
        return 1 if self.reservation is None else self.reservation.attempt


@dataclass(frozen=True, slots=True)
class Refused:
    """A call that ends before its executor; the evidence is written."""

    error: CTRLRunError


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an executor: `raised` is its exception, `error` that exception's text.

    `deferred` says that it returned work that may run yet: no remote can tell what became of that.
    """

    state: EffectState
    result: Any = None
    error: str | None = None
    raised: BaseException | None = None
    deferred: bool = False

    @property
    def fenced(self) -> LeaseLost | None:
        """The fence's word that nothing was sent, where that is what the call ends with."""
        if self.state is EffectState.FAILED and isinstance(self.raised, LeaseLost):
            return self.raised
        return None

    @property
    def suspended(self) -> Suspended | None:
        """The word that the remote answers later, where that is what the call ends with."""
        if self.state is EffectState.EXECUTING and isinstance(self.raised, Suspended):
            return self.raised
        return None
