"""What the suite of the stores is made of: a clock, records in every condition, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest
from ctrlrun.conditions import Decision
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, DuplicateEffect, InvalidArgument
from ctrlrun.receipt import Event, EventType, Receipt, ReceiptResult
from ctrlrun.state import UnitStateStore

START_TIME = datetime(2026, 9, 3, 10, 12, 1, 123456, tzinfo=UTC)
LEASE = timedelta(minutes=5)
TICK = timedelta(microseconds=1)
SECOND = timedelta(seconds=1)

KEY = "refund:txn_1"
HOLDER = "act_holder"
OTHER = "act_other"


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = START_TIME) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, by: timedelta = SECOND) -> datetime:
        """Move on, and say to when."""
        self.now += by
        return self.now


def action(action_id: str = HOLDER, **changes: Any) -> Action:
    """An action whose every part is worth a round trip."""
    values: dict[str, Any] = {
        "name": "stripe.refund",
        "arguments": {"payment_id": "txn_1", "amount": 50000, "labels": ["z", "ä"], "flag": True},
        "principal": Principal(
            "refund-agent",
            "ada@example.com",
            claims={"team": "zürich", "level": 3, "oncall": False},
            issuer="https://idp.example",
            expires_at=datetime(2026, 9, 3, 18, 0, tzinfo=UTC),
        ),
        "resource": "payment:txn_1",
        "environment": "staging",
        "action_id": action_id,
    }
    return Action(**(values | changes))


def event(kind: EventType | str = EventType.ACTION_PROPOSED, **changes: Any) -> Event:
    """An event of the holder's action."""
    values: dict[str, Any] = {"action_id": HOLDER, "ts": START_TIME, "data": {"n": 1}}
    return Event(kind, **(values | changes))


def receipt(number: int = 1, **changes: Any) -> Receipt:
    """A receipt of a committed refund."""
    values: dict[str, Any] = {
        "receipt_id": f"ctr_{number:032x}",
        "action_id": f"act_{number:032x}",
        "action": "stripe.refund",
        "action_hash": "sha256:" + "ab" * 32,
        "principal": Principal("refund-agent", "ada@example.com", claims={"level": 3}),
        "resource": None,
        "arguments": {"amount": 50000, "payment_id": f"txn_{number}"},
        "environment": "production",
        "decision": Decision.ALLOW,
        "decision_reason": "rule[0]",
        "result": ReceiptResult.COMMITTED,
        "started_at": START_TIME,
        "finished_at": START_TIME + number * SECOND,
        "effect_key": f"refund:txn_{number}",
        "policy_hash": "sha256:" + "cd" * 32,
    }
    return Receipt(**(values | changes))


def request(
    clock: FakeClock, request_id: str = "apr_1", ttl: timedelta = LEASE, **changes: Any
) -> ApprovalRequest:
    """A request about the holder's action."""
    asked = action()
    made = ApprovalRequest(request_id, asked.action_hash, asked, clock(), clock() + ttl, "sha256:p")
    return replace(made, **changes)


# --- records in every condition ------------------------------------------------------------------

CONDITIONS = (
    "none",
    "reserved live",
    "reserved lapsed",
    "executing live",
    "executing lapsed",
    "committed",
    "failed",
    "ambiguous",
)


def bring_about(store: UnitStateStore, clock: FakeClock, condition: str, key: str = KEY) -> None:
    """Put the effect of `key`, held by HOLDER, into a condition; the clock moves on."""
    if condition == "none":
        return
    state, _, lease = condition.partition(" ")
    store.reserve_effect(key, HOLDER, LEASE)
    clock.advance()
    if state != "reserved":
        store.begin_execution(key, HOLDER)
    clock.advance()
    if state == "committed":
        store.commit_effect(key, HOLDER, {"charge": 7})
    elif state == "failed":
        store.fail_effect(key, HOLDER, "the card was declined")
    elif state == "ambiguous":
        store.mark_ambiguous(key, HOLDER, "TimeoutError: no reply")
    clock.advance(LEASE if lease == "lapsed" else SECOND)


def refused(expected: str, call: Callable[[], object]) -> CTRLRunError:
    """That a call is refused as the tables abbreviate it: IA, AE, ip (in progress), done."""
    kinds: dict[str, type[CTRLRunError]] = {
        "IA": InvalidArgument,
        "AE": AmbiguousEffect,
        "ip": DuplicateEffect,
        "done": DuplicateEffect,
    }
    with pytest.raises(kinds[expected]) as caught:
        call()
    error = caught.value
    assert type(error) is kinds[expected]
    if isinstance(error, DuplicateEffect):
        assert error.state == {"ip": "in_progress", "done": "committed"}[expected]
    return error


def effect(store: UnitStateStore, key: str = KEY) -> EffectRecord:
    """The record of a key that has one."""
    record = store.get_effect(key)
    assert record is not None
    return record


def state_of(store: UnitStateStore, key: str = KEY) -> EffectState | None:
    """The state of a key, or None."""
    record = store.get_effect(key)
    return None if record is None else record.state
