"""Observe mode: every check runs and is recorded, and nothing about an action is refused.

The first reason that enforcing would have stopped at is kept; the executor runs in any case. An
attempt that did not get its key never touches the key's record.
"""

from __future__ import annotations

from dataclasses import replace

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.conditions import Decision
from ctrlrun.control.call import Call, Settings, Start
from ctrlrun.control.journal import Ledger
from ctrlrun.control.reserving import begin, invalidated, refused_by_key, reserved
from ctrlrun.effect import Reservation
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, DuplicateEffect
from ctrlrun.policy import Evaluation
from ctrlrun.receipt import EventType


def reserve_and_begin(settings: Settings, call: Call, evaluation: Evaluation) -> Start:
    """The first unit of an observed call."""
    durable = call.effect_key is not None

    def first(ledger: Ledger) -> Start:
        shown = _presented(settings, call, evaluation, ledger)
        reservation, refusal = _reserve(call, shown, ledger)
        blocked = shown.blocked
        if refusal is not None:
            blocked = blocked or _blocked_by(refusal)
            if shown.approval_id is not None:
                shown = Start(evaluation, None)  # it would have stayed with the refused call
        ledger.event(EventType.EXECUTION_STARTED, approval_id=shown.approval_id)
        return replace(shown, reservation=reservation, blocked=blocked)

    return call.journal.write(first, durable=durable)


def _presented(settings: Settings, call: Call, evaluation: Evaluation, ledger: Ledger) -> Start:
    """What the decision and the approval presented would have meant; an approval stays granted."""
    if evaluation.decision is Decision.DENY:
        return Start(evaluation, None, blocked=evaluation.reason)
    if evaluation.decision is Decision.ALLOW:
        return Start(evaluation, None)
    if call.presented is None:
        return Start(evaluation, None, blocked="approval_required")
    record = ledger.store.get_approval(call.presented)
    reason = "unknown"
    approver = None
    if record is not None:
        approver = record.approver
        reason = _unusable(record, call, settings)
        if not reason:
            return Start(evaluation, None, call.presented, approver)
    if reason == ApprovalStatus.DENIED:
        ledger.event(EventType.APPROVAL_DENIED, {"approver": approver}, approval_id=call.presented)
    else:
        invalidated(ledger, call, call.presented, reason)
    blocked = "approval_denied" if reason == ApprovalStatus.DENIED else "approval_mismatch"
    return Start(evaluation, None, approver=approver, blocked=blocked, unusable=call.presented)


def _unusable(record: ApprovalRecord, call: Call, settings: Settings) -> str:
    """Why enforcing would refuse this approval; empty when it would take it."""
    if record.action_hash != call.action.action_hash:
        return "mismatch"
    status = record.status_at(settings.clock())
    return "" if status is ApprovalStatus.GRANTED else status.value


def _reserve(
    call: Call, shown: Start, ledger: Ledger
) -> tuple[Reservation | None, CTRLRunError | None]:
    """Reserve and begin as an enforced call would; a refusal is recorded and handed back."""
    if call.effect_key is None:
        return None, None
    try:
        reservation = ledger.store.reserve_effect(
            call.effect_key, call.action.action_id, call.lease
        )
        reserved(ledger, reservation, shown.approval_id)
        begin(ledger.store, reservation)
    except (DuplicateEffect, AmbiguousEffect) as refusal:
        refused_by_key(ledger, refusal, shown.approval_id)
        return None, refusal
    return reservation, None


def _blocked_by(refusal: CTRLRunError) -> str:
    if isinstance(refusal, DuplicateEffect):
        return "duplicate" if refusal.state == "committed" else refusal.state
    return "ambiguous"


def resumed_block(evaluation: Evaluation, approval_id: str | None) -> str | None:
    """What enforcing would have stopped a resumed call at, by today's policy."""
    if evaluation.decision is Decision.DENY:
        return evaluation.reason
    if evaluation.decision is Decision.APPROVE and approval_id is None:
        return "approval_required"
    return None
