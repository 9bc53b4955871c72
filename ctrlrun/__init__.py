"""The last check before an AI agent does something that it can't undo.

    @ctrlrun.protect("stripe.refund", effect="refund:{payment_id}")
    def refund(payment_id: str, amount: int) -> dict: ...

    with ctrlrun.context(agent="refund-agent"):
        refund(payment_id="txn_1", amount=10000)

A policy file says how much autonomy the action gets; README.md is the way in. Names are resolved
on first use, so that a program pays only for what it touches.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ctrlrun._version import __version__ as __version__

if TYPE_CHECKING:
    from ctrlrun.action import Action, Principal, action_hash, canonicalize
    from ctrlrun.approval import Approval, ApprovalProvider, ApprovalRequest
    from ctrlrun.authority import (
        Authority,
        AuthorityResult,
        Delegation,
        DelegationRecord,
        Grant,
        Subject,
    )
    from ctrlrun.canonical import canonical_bytes
    from ctrlrun.conditions import Condition, Decision, parse_conditions
    from ctrlrun.control import (
        Control,
        aanswer_of,
        afence,
        answer_of,
        attempt_key,
        context,
        fence,
        idempotency_key,
        keep_alive,
        protect,
        remaining,
        with_approval,
    )
    from ctrlrun.effect import EffectRecord, EffectState, ReconcileOutcome
    from ctrlrun.errors import (
        ActionDenied,
        AmbiguousEffect,
        ApprovalMismatch,
        ApprovalRequired,
        ApprovalTimeout,
        AuthorityDenied,
        AuthorityEscalation,
        CTRLRunError,
        DuplicateEffect,
        EffectKeyError,
        IdentityError,
        InvalidArgument,
        LeaseLost,
        MissingDependency,
        NotExecuted,
        PolicyError,
        SchemaMismatch,
        StoreReplaced,
        Suspended,
    )
    from ctrlrun.identity import (
        HeaderIdentityProvider,
        IdentityContext,
        IdentityProvider,
        StaticIdentityProvider,
    )
    from ctrlrun.policy import Policy
    from ctrlrun.providers import LocalApprovalProvider, ScriptedApprovalProvider
    from ctrlrun.receipt import Event, Receipt
    from ctrlrun.sinks import EventSink, JSONLEventSink
    from ctrlrun.state import InMemoryStateStore, SQLiteStateStore, StateStore

_HOMES = {
    "action": ("Action", "Principal", "action_hash", "canonicalize"),
    "approval": ("Approval", "ApprovalProvider", "ApprovalRequest"),
    "authority": (
        "Authority",
        "AuthorityResult",
        "Delegation",
        "DelegationRecord",
        "Grant",
        "Subject",
    ),
    "canonical": ("canonical_bytes",),
    "conditions": ("Condition", "Decision", "parse_conditions"),
    "control": (
        "Control",
        "aanswer_of",
        "afence",
        "answer_of",
        "attempt_key",
        "context",
        "fence",
        "idempotency_key",
        "keep_alive",
        "protect",
        "remaining",
        "with_approval",
    ),
    "effect": ("EffectRecord", "EffectState", "ReconcileOutcome"),
    "errors": (
        "ActionDenied",
        "AmbiguousEffect",
        "ApprovalMismatch",
        "ApprovalRequired",
        "ApprovalTimeout",
        "AuthorityDenied",
        "AuthorityEscalation",
        "CTRLRunError",
        "DuplicateEffect",
        "EffectKeyError",
        "IdentityError",
        "InvalidArgument",
        "LeaseLost",
        "MissingDependency",
        "NotExecuted",
        "PolicyError",
        "SchemaMismatch",
        "StoreReplaced",
        "Suspended",
    ),
    "identity": (
        "HeaderIdentityProvider",
        "IdentityContext",
        "IdentityProvider",
        "StaticIdentityProvider",
    ),
    "policy": ("Policy",),
    "providers": ("LocalApprovalProvider", "ScriptedApprovalProvider"),
    "receipt": ("Event", "Receipt"),
    "sinks": ("EventSink", "JSONLEventSink"),
    "state": ("InMemoryStateStore", "SQLiteStateStore", "StateStore"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Action",
    "ActionDenied",
    "AmbiguousEffect",
    "Approval",
    "ApprovalMismatch",
    "ApprovalProvider",
    "ApprovalRequest",
    "ApprovalRequired",
    "ApprovalTimeout",
    "Authority",
    "AuthorityDenied",
    "AuthorityEscalation",
    "AuthorityResult",
    "CTRLRunError",
    "Condition",
    "Control",
    "Decision",
    "Delegation",
    "DelegationRecord",
    "DuplicateEffect",
    "EffectKeyError",
    "EffectRecord",
    "EffectState",
    "Event",
    "EventSink",
    "Grant",
    "HeaderIdentityProvider",
    "IdentityContext",
    "IdentityError",
    "IdentityProvider",
    "InMemoryStateStore",
    "InvalidArgument",
    "JSONLEventSink",
    "LeaseLost",
    "LocalApprovalProvider",
    "MissingDependency",
    "NotExecuted",
    "Policy",
    "PolicyError",
    "Principal",
    "Receipt",
    "ReconcileOutcome",
    "SQLiteStateStore",
    "SchemaMismatch",
    "ScriptedApprovalProvider",
    "StateStore",
    "StaticIdentityProvider",
    "StoreReplaced",
    "Subject",
    "Suspended",
    "aanswer_of",
    "action_hash",
    "afence",
    "answer_of",
    "attempt_key",
    "canonical_bytes",
    "canonicalize",
    "context",
    "fence",
    "idempotency_key",
    "keep_alive",
    "parse_conditions",
    "protect",
    "remaining",
    "with_approval",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'ctrlrun' has no attribute {name!r}")
    value = getattr(import_module(f"ctrlrun.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
