"""Step 2 in detail: what is decided about an action, and the end of a call that is denied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ctrlrun.action import Action
from ctrlrun.authority import AuthorityResult
from ctrlrun.clock import iso_timestamp
from ctrlrun.conditions import Decision
from ctrlrun.control.call import PRINCIPAL_EXPIRED, Call, Judgement, Settings
from ctrlrun.control.evidence import message_of, refusal_receipt
from ctrlrun.control.journal import Ledger
from ctrlrun.errors import (
    ActionDenied,
    AuthorityDenied,
    CTRLRunError,
    EffectKeyError,
    IdentityError,
)
from ctrlrun.policy import Evaluation
from ctrlrun.receipt import EventType, ReceiptResult
from ctrlrun.state import StateReader


def judge(settings: Settings, action: Action) -> Judgement:
    """Expiry of the principal, then grants, then policy; writes nothing."""
    if action.principal.is_expired(settings.clock()):
        return Judgement(Evaluation(Decision.DENY, PRINCIPAL_EXPIRED))
    return weigh(settings, action)


def weigh(settings: Settings, action: Action) -> Judgement:
    """Grants, then policy: the stricter of the two, the policy unasked where no grant covers."""
    grants = covered(settings, action)
    if grants is not None and not grants.passed:
        return Judgement(Evaluation(Decision.DENY, grants.reason), grants)
    return Judgement(settings.policy.evaluate(action), grants)


def covered(settings: Settings, action: Action) -> AuthorityResult | None:
    """What the grants say about an action now, delegations of this moment included; None without."""
    if settings.authority is None:
        return None
    return settings.authority.evaluate(action, now=settings.clock(), store=settings.store)


def grants_event(grants: AuthorityResult) -> tuple[EventType, Mapping[str, Any]]:
    """The event that says what the grants said, and its data."""
    kind = EventType.AUTHORITY_RESOLVED if grants.passed else EventType.AUTHORITY_DENIED
    return kind, grants.event_data()


def deny(settings: Settings, call: Call, judgement: Judgement) -> NoReturn:
    """Write a denial's evidence, with the approval that was presented, and raise it."""
    presented = call.presented
    evaluation = judgement.evaluation

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
    raise _denial(call.action, judgement)


def _denial(action: Action, judgement: Judgement) -> CTRLRunError:
    reason = judgement.evaluation.reason
    if judgement.uncovered is not None:
        return uncovered_error(action, judgement.uncovered)
    if reason == PRINCIPAL_EXPIRED:
        return expired_error(action)
    return ActionDenied(
        f"{action.name} is denied by policy: {reason}", reason=reason, action_id=action.action_id
    )


def uncovered_error(action: Action, grants: AuthorityResult) -> AuthorityDenied:
    """The refusal of an action that no grant covers, or not any more."""
    return AuthorityDenied(
        f"{action.name} is denied: {grants.describe()}",
        reason=grants.reason,
        action_id=action.action_id,
        grant_id=grants.grant_id,
        delegation_id=grants.delegation_id,
    )


def expired_error(action: Action) -> IdentityError:
    """The refusal of a principal whose credential is over."""
    expires_at = action.principal.expires_at
    assert expires_at is not None
    return IdentityError(
        f"{action.name} refused: the principal's credential expired at {iso_timestamp(expires_at)}"
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
