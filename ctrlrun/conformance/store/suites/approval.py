"""Suite `approval`: an approval is of one action, answered once, spent once, and lapses."""

from __future__ import annotations

from functools import partial

from ctrlrun.approval import ApprovalStatus
from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import (
    approval_of,
    effect_is,
    effect_of,
    refused,
    same,
    there,
    unmoved,
)
from ctrlrun.conformance.store.contest import one_winner
from ctrlrun.conformance.store.samples import (
    APPROVER,
    HOLDER,
    HOUR,
    KEY,
    OTHER,
    SECOND,
    MovableClock,
    bring_to,
    sample_action,
    sample_request,
)
from ctrlrun.effect import EffectState
from ctrlrun.errors import ActionDenied, ApprovalMismatch, DuplicateEffect, InvalidArgument
from ctrlrun.state import StateStore

_ROUNDS = 4
_ID = "apr_1"
_HASH = sample_action().action_hash
_OTHER_HASH = sample_action(arguments={"payment_id": "txn_1", "amount": 50001}).action_hash


def _granted(store: StateStore, approval_id: str = _ID) -> None:
    store.put_approval_request(sample_request(approval_id))
    store.grant_approval(approval_id, APPROVER)


def _status_is(store: StateStore, status: ApprovalStatus, approval_id: str = _ID) -> None:
    same(f"the status of {approval_id}", approval_of(store, approval_id).status, status)


def consume_cross_process(bench: Bench) -> None:
    bench.need_processes()
    store = bench.open()
    _granted(store)
    told = [
        {
            "approval_id": _ID,
            "action_hash": _HASH,
            "effect_key": f"{KEY}:{index}",
            "name": f"act_{index}",
        }
        for index in range(bench.processes)
    ]
    outcomes = bench.contest("consume", [told]).rounds[0]
    winner = one_winner(outcomes, "processes that spend one approval", ApprovalMismatch)
    facts = {outcome.fact for outcome in outcomes if not outcome.won}
    same("the reason that the losers were given", facts, {"consumed"})
    _status_is(store, ApprovalStatus.CONSUMED)
    reserved = [record.action_id for record in store.list_effects()]
    same("the actions that hold a key", reserved, [winner.name])


def answered_once(bench: Bench) -> None:
    bench.need_processes()
    store = bench.open()
    rounds = []
    for number in range(_ROUNDS):
        store.put_approval_request(sample_request(f"apr_{number}"))
        rounds.append(
            [
                {"approval_id": f"apr_{number}", "yes": index % 2 == 0, "name": f"cli:{index}"}
                for index in range(bench.processes)
            ]
        )
    for told, outcomes in zip(rounds, bench.contest("answer", rounds).rounds, strict=True):
        approval_id = str(told[0]["approval_id"])
        winner = one_winner(outcomes, f"processes that answer {approval_id}", ApprovalMismatch)
        said_yes = told[outcomes.index(winner)]["yes"]
        _status_is(
            store, ApprovalStatus.GRANTED if said_yes else ApprovalStatus.DENIED, approval_id
        )
        same("the name of who answered", approval_of(store, approval_id).approver, winner.name)


def binding(bench: Bench) -> None:
    store = bench.open()
    _granted(store)
    before = approval_of(store, _ID)
    what = "spending an approval on another action"
    for call in (
        partial(store.consume_approval, _ID, _OTHER_HASH),
        partial(store.consume_approval_and_reserve, _ID, _OTHER_HASH, KEY, HOLDER),
    ):
        refused(what, call, ApprovalMismatch, reason="mismatch")
        same(f"{what}: the approval", approval_of(store, _ID), before)
    same(f"{what}: the record of {KEY}", store.get_effect(KEY), None)
    same("the hash of what is spent", store.consume_approval(_ID, _HASH).action_hash, _HASH)


def single_use(bench: Bench) -> None:
    store = bench.open()
    _only_a_grant_is_spent(store)
    _granted(store)
    found = there("the grant of the hash", store.find_granted_approval(_HASH))
    same("the grant of the hash", found.approval_id, _ID)
    store.consume_approval(_ID, _HASH)
    _status_is(store, ApprovalStatus.CONSUMED)
    same("the grant of the hash, once spent", store.find_granted_approval(_HASH), None)
    before = approval_of(store, _ID)
    what = "spending an approval again"
    refused(what, partial(store.consume_approval, _ID, _HASH), ApprovalMismatch, reason="consumed")
    refused(
        what,
        partial(store.consume_approval_and_reserve, _ID, _HASH, KEY, HOLDER),
        ApprovalMismatch,
        reason="consumed",
    )
    what = "asking again under an id that was spent"
    refused(what, partial(store.put_approval_request, sample_request(_ID)), InvalidArgument)
    same(f"{what}: the approval", approval_of(store, _ID), before)
    same(f"{what}: the record of {KEY}", store.get_effect(KEY), None)


def _only_a_grant_is_spent(store: StateStore) -> None:
    store.put_approval_request(sample_request("apr_no"))
    call = partial(store.consume_approval, "apr_no", _HASH)
    refused("spending what nobody answered", call, ApprovalMismatch, reason="pending")
    _status_is(store, ApprovalStatus.PENDING, "apr_no")
    for name in ("", "ada\nlee", "ada\u202elee"):
        answer = partial(store.grant_approval, "apr_no", name)
        refused(f"granting under the name {name!a}", answer, InvalidArgument)
    store.deny_approval("apr_no", APPROVER)
    refused("spending what was denied", call, ActionDenied, reason="approval_denied")
    _status_is(store, ApprovalStatus.DENIED, "apr_no")
    denied = there("the denial of the hash", store.find_denied_request(_HASH))
    same("the denial of the hash", denied.request_id, "apr_no")


def expiry(bench: Bench) -> None:
    clock = MovableClock()
    store = bench.open_with(clock)
    for name in ("apr_last", "apr_late", "apr_unanswered", "apr_presented", "apr_no"):
        store.put_approval_request(sample_request(name, clock(), HOUR))
    store.deny_approval("apr_no", APPROVER)
    for name in ("apr_last", "apr_late"):
        store.grant_approval(name, APPROVER)
    clock.advance(HOUR)
    same("the grant of the hash at its expiry", store.find_granted_approval(_HASH), None)
    store.consume_approval("apr_last", _HASH)
    clock.advance(SECOND)
    for call, name in (
        (partial(store.consume_approval, "apr_late", _HASH), "apr_late"),
        (partial(store.consume_approval, "apr_presented", _HASH), "apr_presented"),
        (partial(store.grant_approval, "apr_unanswered", APPROVER), "apr_unanswered"),
        (partial(store.deny_approval, "apr_unanswered", APPROVER), "apr_unanswered"),
    ):
        refused(f"using {name} after it expired", call, ApprovalMismatch, reason="expired")
        _status_is(store, ApprovalStatus.EXPIRED, name)
    denied = partial(store.consume_approval, "apr_no", _HASH)
    refused("using apr_no after its time", denied, ActionDenied, reason="approval_denied")


def atomic_with_reservation(bench: Bench) -> None:
    store = bench.open()
    _granted(store)
    bring_to(store, KEY, EffectState.COMMITTED, OTHER)
    before = effect_of(store, KEY)
    what = "spending an approval on a key that is committed"
    call = partial(store.consume_approval_and_reserve, _ID, _HASH, KEY, HOLDER)
    refused(what, call, DuplicateEffect, state="committed")
    _status_is(store, ApprovalStatus.GRANTED)
    unmoved(store, KEY, before, what)
    approval, reservation = store.consume_approval_and_reserve(_ID, _HASH, f"{KEY}:free", HOLDER)
    same("the approval that was spent", approval.approval_id, _ID)
    same("the attempt that was reserved with it", reservation.attempt, 1)
    _status_is(store, ApprovalStatus.CONSUMED)
    effect_is(store, f"{KEY}:free", EffectState.RESERVED, HOLDER)


def approval_checked_first(bench: Bench) -> None:
    store = bench.open()
    _granted(store)
    store.consume_approval(_ID, _HASH)
    bring_to(store, KEY, EffectState.COMMITTED, OTHER)
    before = effect_of(store, KEY)
    what = "presenting a spent approval for a key that is committed"
    call = partial(store.consume_approval_and_reserve, _ID, _HASH, KEY, HOLDER)
    refused(what, call, ApprovalMismatch, reason="consumed")
    unmoved(store, KEY, before, what)


CASES = (
    Case("consume-cross-process", "one of several processes spends it", consume_cross_process),
    Case("answered-once", "of several answers one counts", answered_once),
    Case("binding", "it is of one action and no other", binding),
    Case("single-use", "it is spent once", single_use),
    Case("expiry", "it lapses, and is kept as expired", expiry),
    Case("atomic-with-reservation", "it is spent with the key or not", atomic_with_reservation),
    Case("approval-checked-first", "its refusal wins over the key's", approval_checked_first),
)
