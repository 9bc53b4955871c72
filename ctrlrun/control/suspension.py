"""A call whose remote answers later: holding it, and refusing to hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ctrlrun.action import Action
from ctrlrun.control.call import PRINCIPAL_EXPIRED, Call, Settings, Start
from ctrlrun.control.denial import covered, expired_error, uncovered_error
from ctrlrun.control.evidence import described, outcome_receipt
from ctrlrun.control.journal import Ledger
from ctrlrun.effect import EffectState, Reservation
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, Suspended
from ctrlrun.logs import get_logger
from ctrlrun.receipt import EventType

log = get_logger("ctrlrun.control")


def suspend(settings: Settings, call: Call, start: Start, suspended: Suspended) -> NoReturn:
    """Hold the continuation and the whole action, and raise `suspended`.

    Without a reservation there is nothing to hold it by. For a principal that has expired or that no
    grant covers any more nothing is held, and the effect stays as it is until its lease lapses.
    """
    if start.reservation is None:
        _not_held(call, start, suspended)
    reservation = start.reservation

    def work(ledger: Ledger) -> None:
        rounds = _hold(settings, call, reservation, suspended, ledger)
        facts = {"held": True, "round": rounds}
        ledger.event(EventType.EXECUTION_SUSPENDED, facts, approval_id=start.approval_id)

    try:
        refusal = None if settings.observe else _refusal(settings, call.action)
        if refusal is None:
            call.journal.write(work, durable=True)
    except Exception as failure:
        _abandon(settings, call, start, failure)
        raise
    if refusal is not None:
        _refuse(call, start, refusal)
    raise suspended


@dataclass(frozen=True, slots=True)
class _Refusal:
    """Why a call may not be held: what is raised, and the data of ACTION_DENIED."""

    error: CTRLRunError
    facts: Mapping[str, Any]


def _refusal(settings: Settings, action: Action) -> _Refusal | None:
    """What speaks against holding an action now: its principal's expiry, or its grants."""
    if action.principal.is_expired(settings.clock()):
        return _Refusal(expired_error(action), {"reason": PRINCIPAL_EXPIRED})
    grants = covered(settings, action)
    if grants is None or grants.passed:
        return None
    return _Refusal(uncovered_error(action, grants), grants.event_data())


def _refuse(call: Call, start: Start, refusal: _Refusal) -> NoReturn:
    call.journal.write(
        lambda ledger: ledger.event(
            EventType.ACTION_DENIED, refusal.facts, approval_id=start.approval_id
        ),
        durable=False,
    )
    raise refusal.error


def _hold(
    settings: Settings, call: Call, reservation: Reservation, suspended: Suspended, ledger: Ledger
) -> int:
    key = reservation.effect_key
    record = ledger.store.get_effect(key)
    if record is None or record.attempt != reservation.attempt:
        raise AmbiguousEffect(
            f"effect {key} was taken from this attempt before it was suspended",
            effect_key=key,
            action_id=None if record is None else record.action_id,
        )
    until = settings.clock() + settings.suspend_timeout
    if record.lease_expires_at is not None:
        until = max(until, record.lease_expires_at)
    return ledger.store.hold_continuation(call.action, key, suspended.continuation, until)


def _not_held(call: Call, start: Start, suspended: Suspended) -> NoReturn:
    if call.effect_key is None:
        log.warning(
            "%s was suspended and has no effect key: it cannot be resumed", call.action.name
        )
    facts = {"held": False, "round": 1}
    call.journal.write(
        lambda ledger: ledger.event(
            EventType.EXECUTION_SUSPENDED, facts, approval_id=start.approval_id
        ),
        durable=False,
    )
    raise suspended


def _abandon(settings: Settings, call: Call, start: Start, failure: Exception) -> None:
    """What cannot be held is ambiguous: the remote may still act on it."""
    assert start.reservation is not None
    error = described(failure)
    key, action_id = start.reservation.effect_key, start.reservation.action_id
    attempt = start.reservation.attempt

    def work(ledger: Ledger) -> None:
        try:
            record = ledger.store.get_effect(key)
            if record is not None and record.attempt == attempt:
                ledger.store.mark_ambiguous(key, action_id, error)
        except CTRLRunError as refusal:
            log.warning("effect %s is not ours to mark ambiguous: %s", key, refusal)
        ledger.event(EventType.EXECUTION_AMBIGUOUS, {"error": error}, approval_id=start.approval_id)
        ledger.receipt(outcome_receipt(settings, call, start, EffectState.AMBIGUOUS, error))

    try:
        call.journal.write(work, durable=False)
    except Exception:
        log.exception("effect %s stays as it was: its lease will lapse", key)
