"""A call whose remote answers later: holding it, and refusing to hold it."""

from __future__ import annotations

import logging
from typing import NoReturn

from ctrlrun.clock import iso_timestamp
from ctrlrun.control.call import PRINCIPAL_EXPIRED, Call, Settings, Start
from ctrlrun.control.evidence import described, outcome_receipt
from ctrlrun.control.journal import Ledger
from ctrlrun.effect import EffectState, Reservation
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, IdentityError, Suspended
from ctrlrun.receipt import EventType

log = logging.getLogger("ctrlrun.control")


def suspend(settings: Settings, call: Call, start: Start, suspended: Suspended) -> NoReturn:
    """Hold the continuation and the whole action, and raise `suspended`.

    Without a reservation there is nothing to hold it by; with an expired principal nothing is
    held, and the effect stays as it is until its lease lapses.
    """
    if start.reservation is None:
        _not_held(call, start, suspended)
    principal = call.action.principal
    if not settings.observe and principal.is_expired(settings.clock()):
        _refuse_expired(call, start)
    reservation = start.reservation

    def work(ledger: Ledger) -> None:
        rounds = _hold(settings, call, reservation, suspended, ledger)
        facts = {"held": True, "round": rounds}
        ledger.event(EventType.EXECUTION_SUSPENDED, facts, approval_id=start.approval_id)

    try:
        call.journal.write(work, durable=True)
    except Exception as failure:
        _abandon(settings, call, start, failure)
        raise
    raise suspended


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


def _refuse_expired(call: Call, start: Start) -> NoReturn:
    call.journal.write(
        lambda ledger: ledger.event(
            EventType.ACTION_DENIED, {"reason": PRINCIPAL_EXPIRED}, approval_id=start.approval_id
        ),
        durable=False,
    )
    expires_at = call.action.principal.expires_at
    assert expires_at is not None
    raise IdentityError(
        f"{call.action.name} is not held: the principal's credential expired at "
        f"{iso_timestamp(expires_at)}"
    )


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
