"""What the cases are made of: a clock that is moved, and records worth a round trip.

Times are whole seconds and arguments hold every type, so that what comes back can be compared.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest
from ctrlrun.clock import utc_now
from ctrlrun.conditions import Decision
from ctrlrun.effect import EffectState
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun.state import DelegationRecord, StateStore

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LEASE = timedelta(minutes=5)
SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)

KEY = "refund:txn_1"
HOLDER = "act_holder"
OTHER = "act_other"
APPROVER = "cli:ada"


class MovableClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = NOON) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta) -> None:
        """Move on."""
        self.now += by


def sample_action(action_id: str = HOLDER, **changes: Any) -> Action:
    """An action whose every part has a type that a store could lose."""
    values: dict[str, Any] = {
        "name": "stripe.refund",
        "arguments": {
            "payment_id": "txn_1",
            "amount": 50000,
            "big": 2**63 + 1,
            "digits": "0042",
            "flag": True,
            "one": 1,
            "nothing": None,
            "labels": ["z", "ä", 7, False],
            "nested": {"b": {"deep": "日本 \u202e \\ \" '"}, "a": -1},
        },
        "principal": Principal(
            "refund-agent",
            "ada@example.com",
            claims={"team": "zürich", "level": 3, "oncall": False},
            issuer="https://idp.example",
            expires_at=NOON + 8 * HOUR,
        ),
        "resource": "payment:txn_1",
        "environment": "staging",
        "action_id": action_id,
    }
    return Action(**(values | changes))


def sample_request(
    approval_id: str = "apr_1", now: datetime | None = None, ttl: timedelta = HOUR
) -> ApprovalRequest:
    """A request about the sample action; asked now unless another time is given."""
    asked_at = (now or utc_now()).replace(microsecond=0)
    action = sample_action()
    return ApprovalRequest(
        approval_id, action.action_hash, action, asked_at, asked_at + ttl, "sha256:policy"
    )


def sample_receipt(number: int = 1, **changes: Any) -> Receipt:
    """A receipt with something in every field."""
    action = sample_action()
    values: dict[str, Any] = {
        "receipt_id": f"ctr_{number:032x}",
        "action_id": f"act_{number:032x}",
        "action": action.name,
        "action_hash": action.action_hash,
        "principal": action.principal,
        "resource": action.resource,
        "arguments": action.canonical_arguments,
        "environment": action.environment,
        "decision": Decision.APPROVE,
        "decision_reason": "rule[1]",
        "result": ReceiptResult.OBSERVED,
        "started_at": NOON,
        "finished_at": NOON + number * SECOND,
        "approval_id": f"apr_{number}",
        "approver": APPROVER,
        "effect_key": f"refund:txn_{number}",
        "attempt": number,
        "execution": ReceiptResult.FAILED,
        "would_have": {"decision": "approve", "reason": "rule[1]", "blocked_reason": None},
        "error": 'line 1\nline 2 "café" \u0007',
        "policy_hash": "sha256:" + "cd" * 32,
        "policy_version": "2026-01",
        "controls": ("SOX-1", "PCI"),
    }
    return Receipt(**(values | changes))


GRANT_JSON = (
    '{"id":"grant-é",  "expires_at": "2027-01-01T00:00:00+02:00",'
    '"constraints":{"amount_lte":500000, "amount_gte":0},"note":"\\u00e9 \\ud83d\\ude00","a":1e2}'
)
"""Not how any encoder would write it: a store that parses it cannot give it back."""


def sample_delegation(
    delegation_id: str = "dlg_1", parent_id: str = "grant-head", **changes: Any
) -> DelegationRecord:
    """A delegation that nobody revoked."""
    values: dict[str, Any] = {
        "delegation_id": delegation_id,
        "parent_id": parent_id,
        "depth": 1,
        "grant_json": GRANT_JSON,
        "created_by_agent": "head-agent",
        "created_by_user": "ada@example.com",
        "created_via": "api",
        "created_at": NOON,
    }
    return DelegationRecord(**(values | changes))


def bring_to(
    store: StateStore, effect_key: str, state: EffectState, action_id: str = HOLDER
) -> None:
    """Take the effect of a fresh key to a state, held by an action."""
    store.reserve_effect(effect_key, action_id, LEASE)
    if state is not EffectState.RESERVED:
        store.begin_execution(effect_key, action_id)
    if state is EffectState.COMMITTED:
        store.commit_effect(effect_key, action_id, {"charge": "ch_7", "amount": 50000})
    elif state is EffectState.FAILED:
        store.fail_effect(effect_key, action_id, "the card was declined")
    elif state is EffectState.AMBIGUOUS:
        store.mark_ambiguous(effect_key, action_id, "TimeoutError: no reply")
