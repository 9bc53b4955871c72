"""Step 3 in detail: asking a person, or finding that one was asked the same thing before."""

from __future__ import annotations

from typing import NoReturn

from ctrlrun.approval import ApprovalRecord, ApprovalRequest, ApprovalStatus, asking_policy
from ctrlrun.clock import iso_timestamp
from ctrlrun.control.call import Call, Settings
from ctrlrun.control.executing import run_apart
from ctrlrun.control.journal import Ledger
from ctrlrun.errors import ApprovalRequired
from ctrlrun.receipt import EventType


def answered_before(settings: Settings, call: Call) -> str | None:
    """With `reuse_requests`, the id of a denial that still stands.

    Raises ApprovalRequired with an earlier request that still waits. Both only under the policy
    that asks now: another policy may mean another question.
    """
    if not settings.reuse_requests:
        return None
    now = settings.clock()
    for record in reversed(settings.store.approvals_for(call.action.action_hash)):
        if record.policy_hash_at_approval != settings.policy_hash or now > record.expires_at:
            continue
        if record.status is ApprovalStatus.DENIED:
            return record.approval_id
        if record.status is ApprovalStatus.PENDING:
            _ask_again(call, record)
    return None


def _ask_again(call: Call, record: ApprovalRecord) -> NoReturn:
    def work(ledger: Ledger) -> None:
        _requested(ledger, record.request, reused=True)

    call.journal.write(work, durable=False)
    raise _required(call, record.approval_id)


def ask_person(settings: Settings, call: Call) -> NoReturn:
    """Have the provider put the question, and raise ApprovalRequired with its id.

    The provider writes by itself, so what led to the question is written before it.
    """
    call.journal.write(lambda ledger: None, durable=False)
    before = asking_policy.get()
    try:
        asking_policy.set(settings.policy_hash)  # in here: an interrupt may come right behind it
        request = run_apart(lambda: settings.approvals.request(call.action, settings.approval_ttl))
    finally:
        asking_policy.set(before)

    def work(ledger: Ledger) -> None:
        _requested(ledger, request, reused=False)

    call.journal.write(work, durable=False)
    raise _required(call, request.request_id)


def _requested(ledger: Ledger, request: ApprovalRequest, *, reused: bool) -> None:
    facts: dict[str, object] = {
        "action_hash": request.action_hash,
        "expires_at": iso_timestamp(request.expires_at),
    }
    if reused:
        facts["reused"] = True
    ledger.event(EventType.APPROVAL_REQUESTED, facts, approval_id=request.request_id)


def _required(call: Call, request_id: str) -> ApprovalRequired:
    return ApprovalRequired(
        f"{call.action.name} needs an approval: run `ctrlrun approve {request_id}` (or answer it "
        f"in `ctrlrun console`), then call again inside with_approval({request_id!r})",
        request_id=request_id,
        action_id=call.action.action_id,
    )
