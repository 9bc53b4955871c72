"""The receipts of a call, and the texts of exceptions in evidence."""

from __future__ import annotations

import json
from typing import Any

from ctrlrun.control.call import Call, Settings, Start
from ctrlrun.effect import EffectState, escape_surrogates, storable_result
from ctrlrun.policy import Evaluation
from ctrlrun.receipt import Receipt, ReceiptResult, WouldHave, new_receipt_id

_LONGEST_ERROR = 1_000_000
"""Characters of an error's text that are kept: it stands in the record, an event and a receipt."""


def refusal_receipt(
    settings: Settings,
    call: Call,
    evaluation: Evaluation,
    result: ReceiptResult,
    *,
    error: str | None = None,
    approval_id: str | None = None,
    approver: str | None = None,
) -> Receipt:
    """The receipt of a call that was refused before its executor."""
    return _receipt(
        settings,
        call,
        evaluation,
        result=result,
        error=error,
        approval_id=approval_id,
        approver=approver,
    )


def outcome_receipt(
    settings: Settings, call: Call, start: Start, state: EffectState, error: str | None
) -> Receipt:
    """The receipt of a call whose executor ran; in observe mode it says what would have been."""
    execution = ReceiptResult(state.value)
    facts: dict[str, Any] = {
        "error": error,
        "approval_id": start.approval_id or start.unusable,
        "approver": start.approver,
        "attempt": start.attempt,
    }
    if not settings.observe:
        return _receipt(settings, call, start.evaluation, result=execution, **facts)
    return _receipt(
        settings,
        call,
        start.evaluation,
        result=ReceiptResult.OBSERVED,
        execution=execution,
        would_have=WouldHave(
            decision=start.evaluation.decision.value,
            reason=start.evaluation.reason,
            blocked_reason=start.blocked,
        ),
        **facts,
    )


def _receipt(
    settings: Settings, call: Call, evaluation: Evaluation, *, result: ReceiptResult, **facts: Any
) -> Receipt:
    action = call.action
    return Receipt(
        receipt_id=new_receipt_id(),
        action_id=action.action_id,
        action=action.name,
        action_hash=action.action_hash,
        principal=action.principal,
        resource=action.resource,
        arguments=action.canonical_arguments,
        environment=action.environment,
        decision=evaluation.decision,
        decision_reason=evaluation.reason,
        effect_key=call.effect_key,
        result=result,
        started_at=call.started_at,
        finished_at=settings.clock(),
        policy_hash=settings.policy_hash,
        policy_version=settings.policy.version,
        controls=evaluation.controls,
        **facts,
    )


def plain_result(result: object) -> Any:
    """A result as the JSON value that is stored of it: no code of the caller runs in a unit."""
    if result is None or type(result) in (bool, int, str):
        return result
    text = storable_result(result)
    return None if text is None else json.loads(text)


def message_of(error: BaseException) -> str:
    """`str(error)`, fit to be stored, whatever the exception does; cut where it is beyond measure."""
    try:
        text = str(error)
        cut = text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"
        return escape_surrogates(cut)
    except BaseException:  # somebody's __str__ must not cost the outcome; `error` rises anyway
        return f"<unprintable {type(error).__name__}>"


def described(error: BaseException) -> str:
    """`Type: message`."""
    return f"{type(error).__name__}: {message_of(error)}"
