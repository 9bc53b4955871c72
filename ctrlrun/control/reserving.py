"""Step 4 in detail: the unit that ends with EXECUTION_STARTED on disk, or with a refusal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ctrlrun.approval import Approval
from ctrlrun.clock import iso_timestamp
from ctrlrun.conditions import Decision
from ctrlrun.control import reconcile
from ctrlrun.control.call import REFUSALS, Call, Refused, Settings, Start
from ctrlrun.control.denial import approver_of
from ctrlrun.control.evidence import message_of, refusal_receipt
from ctrlrun.control.holding import note_holder
from ctrlrun.control.journal import Ledger
from ctrlrun.control.outcome import interrupted, record_outcome
from ctrlrun.effect import Reservation
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalMismatch,
    CTRLRunError,
    DuplicateEffect,
    InvalidArgument,
)
from ctrlrun.logs import get_logger
from ctrlrun.operator.difference import different_fields
from ctrlrun.operator.pages import paged
from ctrlrun.policy import Evaluation
from ctrlrun.receipt import EventType, ReceiptResult
from ctrlrun.state import StateStore
from ctrlrun.state.page import START
from ctrlrun.text import cut_middle, inert

log = get_logger("ctrlrun.control")

_NAMED = 5
"""Differences that a message names; the exception has all of them."""
_NAME_WIDTH, _NOTE_WIDTH = 80, 500
"""Cells of a difference and of a note in a message; the exception has them whole."""


@dataclass(frozen=True, slots=True)
class _AskRemote:
    """The key is ambiguous and a hook can ask about it, once the unit is closed."""

    refusal: AmbiguousEffect
    question: reconcile.Question


def reserve_and_begin(
    settings: Settings, call: Call, evaluation: Evaluation, approval_id: str | None
) -> Start:
    """Run the first unit; raise the refusal when the call ends there."""
    durable = not (call.effect_key is None and approval_id is None and call.presented is None)

    def first(ledger: Ledger) -> Start | Refused | _AskRemote:
        try:
            return _take(call, evaluation, approval_id, ledger)
        except AmbiguousEffect as refusal:
            if call.hook is not None and call.effect_key is not None:
                question = reconcile.open_question(ledger, call.effect_key, "blocking")
                return _AskRemote(refusal, question)
            return _refused(settings, call, evaluation, approval_id, ledger, refusal)
        except REFUSALS as refusal:
            return _refused(settings, call, evaluation, approval_id, ledger, refusal)

    written = call.journal.try_write(first, durable=durable)
    settled = written.value
    if written.failure is not None:
        if isinstance(settled, Start):  # it is on disk, and the executor will not be called
            record_outcome(settings, call, settled, interrupted(written.failure))
        raise written.failure
    assert settled is not None
    if isinstance(settled, _AskRemote):
        settled = _after_asking(settings, call, evaluation, approval_id, settled)
    if isinstance(settled, Refused):
        raise settled.error
    return settled


def _after_asking(
    settings: Settings, call: Call, evaluation: Evaluation, approval_id: str | None, ask: _AskRemote
) -> Start | Refused:
    """Ask the remote outside any transaction, then go on in the direction of its answer."""
    assert call.hook is not None
    answer = reconcile.ask_remote(call, call.hook, ask.question)

    def second(ledger: Ledger) -> Start | Refused:
        moved = reconcile.apply(ledger, call, ask.question, answer)
        if not moved:
            return _refused(settings, call, evaluation, approval_id, ledger, ask.refusal)
        try:
            start = _take(call, evaluation, approval_id, ledger)
        except REFUSALS as refusal:
            return _refused(settings, call, evaluation, approval_id, ledger, refusal)
        return replace(start, asked=True)

    return call.journal.write(second, durable=True)


def _take(call: Call, evaluation: Evaluation, approval_id: str | None, ledger: Ledger) -> Start:
    """Consume, reserve, begin; raises the store's refusal, kept writes stay in the unit."""
    approval, reservation = _consume_and_reserve(ledger.store, call, approval_id)
    if approval is not None:
        ledger.event(
            EventType.APPROVAL_CONSUMED, {"approver": approval.approver}, approval_id=approval_id
        )
    if reservation is not None:
        reserved(ledger, reservation, approval_id)
    if evaluation.decision is Decision.ALLOW and call.presented is not None:
        approval = _spend_unneeded(call, call.presented, ledger)
        approval_id = None if approval is None else approval.approval_id
    if reservation is not None:
        begin(ledger.store, reservation)
    ledger.event(EventType.EXECUTION_STARTED, approval_id=approval_id)
    approver = None if approval is None else approval.approver
    return Start(evaluation, reservation, approval_id, approver)


def _consume_and_reserve(
    store: StateStore, call: Call, approval_id: str | None
) -> tuple[Approval | None, Reservation | None]:
    action, key = call.action, call.effect_key
    if approval_id is not None and key is not None:
        return store.consume_approval_and_reserve(
            approval_id, action.action_hash, key, action.action_id, call.lease
        )
    if approval_id is not None:
        return store.consume_approval(approval_id, action.action_hash), None
    if key is not None:
        return None, store.reserve_effect(key, action.action_id, call.lease)
    return None, None


def reserved(ledger: Ledger, reservation: Reservation, approval_id: str | None) -> None:
    """Append EFFECT_RESERVED, and write down who holds it."""
    facts = {
        "attempt": reservation.attempt,
        "lease_expires_at": iso_timestamp(reservation.lease_expires_at),
    }
    ledger.event(EventType.EFFECT_RESERVED, facts, approval_id=approval_id)
    note_holder(ledger.store, reservation, ledger.now())


def begin(store: StateStore, reservation: Reservation) -> None:
    """Begin the reserved attempt; a reservation that is not ours any more is ambiguous."""
    key = reservation.effect_key
    try:
        store.begin_execution(key, reservation.action_id)
    except InvalidArgument:
        record = store.get_effect(key)
        holder = None if record is None else record.action_id
        raise AmbiguousEffect(
            f"effect {key} was taken from this attempt before it began; held by action {holder}",
            effect_key=key,
            action_id=holder,
        ) from None


def _spend_unneeded(call: Call, presented: str, ledger: Ledger) -> Approval | None:
    """Spend an approval that the policy did not ask for; it can never stop the call."""
    try:
        approval = ledger.store.consume_approval(presented, call.action.action_hash)
    except Exception as error:
        log.warning(
            "%s is allowed; the approval presented with it was not spent: %s",
            call.action.name,
            error,
        )
        return None
    facts = {"approver": approval.approver, "required": False}
    ledger.event(EventType.APPROVAL_CONSUMED, facts, approval_id=presented)
    return approval


def _refused(
    settings: Settings,
    call: Call,
    evaluation: Evaluation,
    approval_id: str | None,
    ledger: Ledger,
    refusal: CTRLRunError,
) -> Refused:
    """Append a refusal's events and receipt."""
    approver = approver_of(ledger.store, approval_id)
    result = ReceiptResult.BLOCKED
    if isinstance(refusal, ActionDenied):
        refusal = _denied_by_person(ledger.store, call, approval_id, approver)
        result = ReceiptResult.DENIED
        ledger.event(EventType.APPROVAL_DENIED, {"approver": approver}, approval_id=approval_id)
        ledger.event(EventType.ACTION_DENIED, {"reason": refusal.reason})
    elif isinstance(refusal, ApprovalMismatch):
        refusal = _told_apart(ledger.store, call, refusal)
        invalidated(ledger, call, approval_id, refusal.reason)
    else:
        refused_by_key(ledger, refusal, approval_id)
    ledger.receipt(
        refusal_receipt(
            settings,
            call,
            evaluation,
            result,
            error=message_of(refusal),
            approval_id=approval_id,
            approver=approver,
        )
    )
    return Refused(refusal)


def _denied_by_person(
    store: StateStore, call: Call, approval_id: str | None, approver: str | None
) -> ActionDenied:
    note = None if approval_id is None else _denial_note(store, approval_id)
    said = "" if note is None else f": {_shown(note, _NOTE_WIDTH)}"
    return ActionDenied(
        f"{call.action.name} is denied: approval_denied ({approval_id} was denied by "
        f"{approver}{said})",
        reason="approval_denied",
        action_id=call.action.action_id,
        note=note,
    )


def _denial_note(store: StateStore, approval_id: str) -> str | None:
    """What the person noted who denied a request: with the first event of it, which is the answer."""
    denials = paged(store).events_page(
        after=START, limit=1, approval_id=approval_id, types=(EventType.APPROVAL_DENIED,)
    )
    note = denials.items[0].data.get("note") if denials.items else None
    return note if isinstance(note, str) else None


def _shown(text: str, width: int) -> str:
    """A text of others in a message, cut in the middle where it is long."""
    if len(text) > 2 * width:  # do not look at each character of a megabyte
        text = text[:width] + text[-width:]
    return cut_middle(inert(text), width)


def _told_apart(store: StateStore, call: Call, refusal: ApprovalMismatch) -> ApprovalMismatch:
    """The refusal of an action that was not the approved one, with what is different about it."""
    if refusal.reason != "mismatch" or refusal.approval_id is None:
        return refusal
    record = store.get_approval(refusal.approval_id)
    if record is None:
        return refusal
    names = different_fields(record.request.action, call.action)
    told = ", ".join(_shown(name, _NAME_WIDTH) for name in names[:_NAMED])
    told += ", ..." if len(names) > _NAMED else ""
    return ApprovalMismatch(
        f"{refusal} (different: {told})" if names else str(refusal),
        reason=refusal.reason,
        approval_id=refusal.approval_id,
        differences=names,
    )


def invalidated(ledger: Ledger, call: Call, approval_id: str | None, reason: str) -> None:
    """Append the events of an approval that cannot be used, its expiry first."""
    if reason == "expired":
        ledger.event(EventType.APPROVAL_EXPIRED, approval_id=approval_id)
    facts = {"reason": reason, "action_hash": call.action.action_hash}
    ledger.event(EventType.APPROVAL_INVALIDATED, facts, approval_id=approval_id)


def refused_by_key(ledger: Ledger, refusal: CTRLRunError, approval_id: str | None) -> None:
    """Append EFFECT_RESERVATION_REFUSED."""
    if isinstance(refusal, DuplicateEffect):
        facts = {"reason": "duplicate", "state": refusal.state}
    else:
        facts = {"reason": "ambiguous"}
    ledger.event(EventType.EFFECT_RESERVATION_REFUSED, facts, approval_id=approval_id)
