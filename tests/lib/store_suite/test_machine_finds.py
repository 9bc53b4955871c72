"""The random games have to find each of these faults, as few as the tests play of them.

Each fault is one wrong verdict, in the store in memory or in the kernel: a store whose records stay
equal until somebody makes the one call that it answers wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import Phase

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.control import executing, outcome, reconcile, suspension
from ctrlrun.effect import HELD_STATES, EffectRecord, EffectState
from ctrlrun.state import InMemoryStateStore, verdicts
from ctrlrun.state.protocol import HeldContinuation
from tests.lib.store_suite.compared import Difference
from tests.lib.store_suite.machine import play
from tests.lib.store_suite.test_machine import GAMES, SEED

Plant = Callable[[pytest.MonkeyPatch], None]


def wrong(owner: Any, name: str, change: Callable[..., Any]) -> Plant:
    """Put `change` in the place of a function; it gets the real one first."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **named: change(real, *args, **named))

    return plant


# --- the fence -----------------------------------------------------------------------------------


def fence_passes(reason: str, *states: EffectState) -> Plant:
    """Where it should say `reason` of a record in one of these states."""

    def change(real: Any, record: EffectRecord | None, *rest: Any) -> str | None:
        said: str | None = real(record, *rest)
        return None if said == reason and record is not None and record.state in states else said

    return wrong(executing, "_why_lost", change)


# --- answers -------------------------------------------------------------------------------------


def resolve_without(*forgotten: str) -> Plant:
    """An answer is not bound to these."""

    def change(real: Any, *seen: Any, **bound: Any) -> Any:
        return real(*seen, **{key: value for key, value in bound.items() if key not in forgotten})

    return wrong(verdicts, "resolve", change)


def stale_resolve(real: Any, record: EffectRecord | None, *seen: Any, **bound: Any) -> Any:
    """An answer about an attempt that was replaced is taken for one about the later."""
    attempt = bound.get("attempt")
    if record is not None and attempt is not None and attempt < record.attempt:
        bound = {}
    return real(record, *seen, **bound)


def stale_hook(real: Any, ledger: Any, question: reconcile.Question, *rest: Any) -> Any:
    """A hook's answer moves whatever attempt stands there."""
    record = ledger.store.get_effect(question.effect_key)
    about = replace(question, attempt=record.attempt, action_id=record.action_id)
    return real(ledger, about, *rest)


# --- outcomes ------------------------------------------------------------------------------------


def outcome_without_attempt(real: Any, store: Any, reservation: Any, *rest: Any) -> Any:
    """The kernel binds an outcome to its action alone."""
    record = store.get_effect(reservation.effect_key)
    return real(store, replace(reservation, attempt=record.attempt), *rest)


def suspend_without_attempt(
    real: Any, settings: Any, call: Any, reservation: Any, suspended: Any, ledger: Any
) -> Any:
    """The kernel binds a suspension to its action alone."""
    record = ledger.store.get_effect(reservation.effect_key)
    bound = replace(reservation, attempt=record.attempt)
    return real(settings, call, bound, suspended, ledger)


def of_anyone(real: Any, record: EffectRecord | None, key: str, action_id: str, *rest: Any) -> Any:
    """The store takes it from whoever says it."""
    return real(record, key, action_id if record is None else record.action_id, *rest)


# --- reservations --------------------------------------------------------------------------------


def free_when(is_free: Callable[[EffectRecord, Any], bool]) -> Plant:
    """A key can be reserved as if its attempt had failed."""

    def change(real: Any, record: EffectRecord | None, key: str, action: str, *rest: Any) -> Any:
        if record is not None and is_free(record, rest[-1]):
            record = replace(record, state=EffectState.FAILED)
        return real(record, key, action, *rest)

    return wrong(verdicts, "reserve", change)


# --- continuations -------------------------------------------------------------------------------


def spent_token_stands(real: Any, store: Any, continuation: str) -> HeldContinuation:
    taken: HeldContinuation = real(store, continuation)
    held = store._tables.held
    held[taken.effect_key] = replace(held[taken.effect_key], token=continuation)
    return taken


# --- approvals -----------------------------------------------------------------------------------


def usable_when(status: ApprovalStatus) -> Plant:
    """An approval of this status can be spent as if it had been granted."""

    def change(real: Any, record: ApprovalRecord | None, name: str, of: str, now: Any) -> Any:
        if record is not None and record.status is status:
            at = record.granted_at or now
            record = replace(record, status=ApprovalStatus.GRANTED, granted_at=at, approver="a")
        return real(record, name, of, now)

    return wrong(verdicts, "consume", change)


def expired_is_usable(real: Any, record: Any, name: str, of: str, now: Any) -> Any:
    return real(record, name, of, now if record is None else min(now, record.expires_at))


def of_another_action(real: Any, record: Any, name: str, of: str, now: Any) -> Any:
    return real(record, name, of if record is None else record.action_hash, now)


def spent_though_refused(real: Any, store: Any, approval_id: str, of: str, *rest: Any) -> Any:
    """The approval is gone when the key is not free."""
    try:
        return real(store, approval_id, of, *rest)
    except Exception:
        store._keep_approval(store._consume(approval_id, of))
        raise


# --- all of them ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and the beginning of the name of the call that shows it."""

    plant: Plant
    shown_by: str


AMBIGUOUS, COMMITTED = EffectState.AMBIGUOUS, EffectState.COMMITTED
FAULTS = {
    "a fence passes after its lease": Fault(
        fence_passes("lapsed", EffectState.EXECUTING), "fence of the attempt that stands"
    ),
    "a fence passes when a contender came": Fault(
        fence_passes("lapsed", AMBIGUOUS), "fence of the attempt that stands"
    ),
    "a fence passes after an answer": Fault(
        fence_passes("resolved", COMMITTED, EffectState.FAILED), "fence of the attempt that stands"
    ),
    "a fence passes where another attempt stands": Fault(
        fence_passes("taken", EffectState.EXECUTING), "fence of an earlier attempt"
    ),
    "an answer is not bound to the attempt": Fault(resolve_without("attempt"), "resolve"),
    "an answer is not bound to the action": Fault(
        resolve_without("action_id"), "resolve, of another action"
    ),
    "an answer is bound to nothing": Fault(resolve_without("attempt", "action_id"), "resolve"),
    "a stale answer resolves what replaced its attempt": Fault(
        wrong(verdicts, "resolve", stale_resolve), "resolve"
    ),
    "a stale answer of a hook does": Fault(
        wrong(reconcile, "_moved", stale_hook), "reconcile about an earlier attempt"
    ),
    "a late outcome lands on a later attempt of its action": Fault(
        wrong(outcome, "_write_effect", outcome_without_attempt), "an earlier attempt of the same"
    ),
    "a late suspension holds a later attempt of its action": Fault(
        wrong(suspension, "_hold", suspend_without_attempt), "suspend an earlier attempt"
    ),
    "anyone begins": Fault(wrong(verdicts, "begin", of_anyone), "begin"),
    "anyone commits": Fault(wrong(verdicts, "commit", of_anyone), "commit"),
    "anyone fails": Fault(wrong(verdicts, "fail", of_anyone), "fail"),
    "anyone loses": Fault(wrong(verdicts, "lose", of_anyone), "lose"),
    "anyone extends": Fault(wrong(verdicts, "extend", of_anyone), ""),
    "committed is not final": Fault(
        free_when(lambda record, now: record.state is COMMITTED), "reserve"
    ),
    "ambiguous is retried": Fault(
        free_when(lambda record, now: record.state is AMBIGUOUS), "reserve"
    ),
    "a lapsed lease is free": Fault(
        free_when(
            lambda record, now: record.state in HELD_STATES and not record.lease_is_live(now)
        ),
        "reserve",
    ),
    "a spent token is taken again": Fault(
        wrong(InMemoryStateStore, "take_continuation", spent_token_stands), "take"
    ),
    "a token outlives its attempt": Fault(wrong(verdicts, "renews", lambda real, *args: False), ""),
    "a token is taken when its attempt holds nothing": Fault(
        wrong(verdicts, "takeable", lambda real, *args: None), "take"
    ),
    "an approval is spent twice": Fault(usable_when(ApprovalStatus.CONSUMED), "consume"),
    "a denied approval is spent": Fault(usable_when(ApprovalStatus.DENIED), "consume"),
    "an unanswered approval is spent": Fault(usable_when(ApprovalStatus.PENDING), "consume"),
    "an expired approval is spent": Fault(wrong(verdicts, "consume", expired_is_usable), "consume"),
    "another action's approval is spent": Fault(
        wrong(verdicts, "consume", of_another_action), "consume"
    ),
    "an approval is spent on a refusal": Fault(
        wrong(InMemoryStateStore, "consume_approval_and_reserve", spent_though_refused), ""
    ),
    "a unit that broke stands": Fault(
        wrong(InMemoryStateStore, "unit", lambda real, store, work, durable: work()), ""
    ),
}


def first_difference(fault: Fault, patch: pytest.MonkeyPatch, games: int, seed: int) -> Difference:
    """What the games find; the first is enough, and nobody reads the shortest."""
    fault.plant(patch)
    with pytest.raises(Difference) as found:
        play(
            "memory",
            games,
            seed,
            phases=[Phase.generate],
            report_multiple_bugs=False,
            print_blob=False,
        )
    return found.value


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = FAULTS[name]
    found = first_difference(fault, monkeypatch, GAMES["memory"], SEED)
    assert fault.shown_by in found.call, found
