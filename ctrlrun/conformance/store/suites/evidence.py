"""Suite `evidence`: what is kept comes back as it was."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from typing import Any

from ctrlrun.action import Action
from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import (
    CheckFailed,
    approval_of,
    described,
    require,
    same,
    there,
)
from ctrlrun.conformance.store.contest import among_threads
from ctrlrun.conformance.store.samples import (
    HOLDER,
    KEY,
    LEASE,
    NOON,
    SECOND,
    MovableClock,
    sample_action,
    sample_receipt,
    sample_request,
)
from ctrlrun.receipt import GENESIS_HASH, Event, EventType, Receipt, verify_chain

_THREADS = 8
_EACH = 4


def action_round_trip(bench: Bench) -> None:
    clock = MovableClock()
    store = bench.open_with(clock)
    request = sample_request("apr_1", clock())
    store.put_approval_request(request)
    found = approval_of(store, "apr_1").request
    _same_action("the action of a request", found.action, request.action)
    for name in ("action_hash", "created_at", "expires_at", "policy_hash"):
        same(f"{name} of a request", getattr(found, name), getattr(request, name))
    listed = [record.approval_id for record in store.approvals_for(request.action_hash)]
    same("the requests about the action's hash", listed, ["apr_1"])
    bare = sample_action(
        arguments={}, principal=replace(request.action.principal, claims={}), resource=None
    )
    store.reserve_effect(KEY, HOLDER, LEASE)
    store.begin_execution(KEY, HOLDER)
    for token, action in (("token-1", request.action), ("token-2", bare)):
        store.hold_continuation(action, KEY, token, clock() + LEASE)
        held = store.take_continuation(token)
        _same_action("the action of a suspended call", held.action, action)


def _same_action(what: str, found: Action, wanted: Action) -> None:
    same(f"action_id of {what}", found.action_id, wanted.action_id)
    same(f"the arguments of {what}", found.arguments_json, wanted.arguments_json)
    for name in ("name", "resource", "environment", "action_hash"):
        same(f"{name} of {what}", getattr(found, name), getattr(wanted, name))
    for name in ("agent", "user", "issuer", "expires_at"):
        same(
            f"the principal's {name} in {what}",
            getattr(found.principal, name),
            getattr(wanted.principal, name),
        )
    same(f"the principal's claims in {what}", _typed(found), _typed(wanted))


def _typed(action: Action) -> dict[str, tuple[str, Any]]:
    """The claims with their types: True equals 1, and is not the same."""
    return {name: (type(value).__name__, value) for name, value in action.principal.claims.items()}


def event_ids(bench: Bench) -> None:
    store = bench.open()
    written = [
        store.append_event(event)
        for event in (
            _event(
                EventType.ACTION_PROPOSED, {"action_hash": "sha256:ä", "n": [1, True, None, 0.5]}
            ),
            replace(
                _event(EventType.EFFECT_RESERVED, {"attempt": 1}), effect_key=KEY, event_id=700
            ),
            replace(_event(EventType.DELEGATION_CREATED, {}), action_id=None),
            replace(_event(EventType.APPROVAL_GRANTED, {"approver": "a"}), approval_id="apr_1"),
        )
    ]
    appenders = {f"thread {number}": partial(_append, store, number) for number in range(_THREADS)}
    for outcome in among_threads(appenders):
        require(outcome.won, f"appending from a thread raised {outcome.shown}")
    found = store.events()
    ids = [event.event_id for event in found]
    same("how many events there are", len(found), len(written) + _THREADS * _EACH)
    require(all(isinstance(each, int) and each > 0 for each in ids), f"an id is not above 0: {ids}")
    require(len(set(ids)) == len(ids), f"an id was given twice: {ids}")
    require(ids == sorted(ids, key=lambda each: each or 0), f"ids do not ascend: {ids}")
    same("the events as append_event returned them", list(found[: len(written)]), written)
    same("the data of the first", dict(found[0].data), dict(written[0].data))
    payloads = sorted(event.data["n"] for event in found[len(written) :])
    same("the data of the others", payloads, list(range(_THREADS * _EACH)))


def _event(kind: EventType, data: dict[str, Any]) -> Event:
    return Event(kind, HOLDER, NOON, data)


def _append(store: Any, number: int) -> None:
    for index in range(_EACH):
        store.append_event(_event(EventType.POLICY_EVALUATED, {"n": number * _EACH + index}))


def receipt_round_trip(bench: Bench) -> None:
    store = bench.open()
    bare = sample_receipt(
        3,
        effect_key=None,
        approval_id=None,
        execution=None,
        would_have=None,
        error=None,
        controls=(),
    )
    given = (
        sample_receipt(1),
        sample_receipt(2, seq=99, prev_hash="sha256:supplied", hash="sha256:supplied"),
        bare,
    )
    previous = GENESIS_HASH
    written = []
    for number, receipt in enumerate(given, 1):
        put = store.put_receipt(receipt)
        same("the seq of a receipt", put.seq, number)
        same("the prev_hash of a receipt", put.prev_hash, previous)
        same("the hash of a receipt", put.hash, _hash(put))
        _same_receipt(put, replace(receipt, seq=number, prev_hash=previous, hash=put.hash))
        previous = there("the hash of a receipt", put.hash)
        same("the head of the chain", store.chain_head(), (number, previous))
        written.append(put)
    found = store.receipts()
    same("how many receipts there are", len(found), len(written))
    for receipt, put in zip(found, written, strict=True):
        _same_receipt(receipt, put)
        same("the hash of a stored receipt", receipt.hash, _hash(receipt))
    report = verify_chain(store)
    require(report.ok, f"the chain is broken: {[item.to_dict() for item in report.breaks]}")
    later = store.put_receipt(sample_receipt(4, finished_at=NOON - SECOND))
    same("the seq of a receipt that finished earlier", later.seq, 4)


def _hash(receipt: Receipt) -> str:
    try:
        return receipt.chain_hash()
    except Exception as error:
        raise CheckFailed(f"a receipt cannot be hashed: {described(error)}") from error


def _same_receipt(found: Receipt, wanted: Receipt) -> None:
    for each in fields(Receipt):
        same(f"{each.name} of a receipt", getattr(found, each.name), getattr(wanted, each.name))


CASES = (
    Case("action-round-trip", "an action keeps its hash, types and principal", action_round_trip),
    Case("event-ids", "events have ids that ascend, and their data", event_ids),
    Case("receipt-round-trip", "receipts are chained, and come back whole", receipt_round_trip),
)
