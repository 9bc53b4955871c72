"""Step 2 in detail: what is decided about an action, and the end of a call that is denied."""

from __future__ import annotations

from typing import NoReturn

from ctrlrun.action import Action
from ctrlrun.clock import iso_timestamp
from ctrlrun.conditions import Decision
from ctrlrun.control.call import PRINCIPAL_EXPIRED, Call, Settings
from ctrlrun.control.evidence import message_of, refusal_receipt
from ctrlrun.control.journal import Ledger
from ctrlrun.errors import ActionDenied, CTRLRunError, EffectKeyError, IdentityError
from ctrlrun.policy import Evaluation
from ctrlrun.receipt import EventType, ReceiptResult
from ctrlrun.state import StateReader


def judge(settings: Settings, action: Action) -> Evaluation:
    """Expiry of the principal, then policy; writes nothing."""
    if action.principal.is_expired(settings.clock()):
        return Evaluation(Decision.DENY, PRINCIPAL_EXPIRED)
    return settings.policy.evaluate(action)


def deny(settings: Settings, call: Call, evaluation: Evaluation) -> NoReturn:
    """Write a denial's evidence, with the approval that was presented, and raise it."""
    presented = call.presented

    def work(ledger: Ledger) -> None:
        ledger.event(EventType.ACTION_DENIED, {"reason": evaluation.reason}, approval_id=presented)
        ledger.receipt(
            refusal_receipt(
                settings,
                call,
                evaluation,
                ReceiptResult.DENIED,
                approval_id=presented,
                approver=approver_of(settings.store, presented),
            )
        )

    call.journal.write(work, durable=False)
    raise _denial(call, evaluation)


def _denial(call: Call, evaluation: Evaluation) -> CTRLRunError:
    action = call.action
    if evaluation.reason == PRINCIPAL_EXPIRED:
        expires_at = action.principal.expires_at
        assert expires_at is not None
        return IdentityError(
            f"{action.name} refused: the principal's credential expired at "
            f"{iso_timestamp(expires_at)}"
        )
    return ActionDenied(
        f"{action.name} is denied by policy: {evaluation.reason}",
        reason=evaluation.reason,
        action_id=action.action_id,
    )


def deny_unkeyed(settings: Settings, call: Call, template: str, error: EffectKeyError) -> NoReturn:
    """Write the evidence of a call whose effect key cannot be made, and raise `error`.

    Without its key a call could happen twice, so it is refused before any policy, observed or not.
    """
    evaluation = Evaluation(Decision.DENY, "effect_key_error")
    message = message_of(error)

    def work(ledger: Ledger) -> None:
        facts = {"reason": evaluation.reason, "effect": template, "error": message}
        ledger.event(EventType.ACTION_DENIED, facts)
        ledger.receipt(
            refusal_receipt(settings, call, evaluation, ReceiptResult.DENIED, error=message)
        )

    call.journal.write(work, durable=False)
    raise error


def approver_of(store: StateReader, approval_id: str | None) -> str | None:
    """Who answered an approval, if anybody did."""
    if approval_id is None:
        return None
    record = store.get_approval(approval_id)
    return None if record is None else record.approver
