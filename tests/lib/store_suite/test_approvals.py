"""Approvals in every store: who may answer what, and the one use of a grant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ctrlrun.approval import Approval, ApprovalRecord, ApprovalRequest, ApprovalStatus
from ctrlrun.effect import EffectState, Reservation
from ctrlrun.errors import ActionDenied, ApprovalMismatch, CTRLRunError, InvalidArgument
from ctrlrun.state import UnitStateStore
from tests.lib.store_suite.conftest import walk_stores
from tests.lib.store_suite.helpers import (
    HOLDER,
    KEY,
    LEASE,
    OTHER,
    TICK,
    FakeClock,
    action,
    bring_about,
    effect,
    refused,
    request,
)

HASH = action().action_hash
FOREIGN_HASH = "sha256:" + "0" * 64

# What a request may have come to, and what each call makes of it. A status: it becomes that. Any
# other word is the reason of an ApprovalMismatch, "denied!" is ActionDenied, IA InvalidArgument; a
# trailing + says that the record becomes expired all the same.
TABLE = """
call         none     pending  lapsed    granted   granted-lapsed  denied   consumed  expired
grant        unknown  GRANTED  expired+  granted   granted         denied   consumed  expired
deny         unknown  DENIED   expired+  granted   granted         denied   consumed  expired
consume      unknown  pending  expired+  CONSUMED  expired+        denied!  consumed  expired
consume-it   unknown  pending  expired+  CONSUMED  expired+        denied!  consumed  expired
misuse       unknown  mismatch mismatch  mismatch  mismatch        mismatch mismatch  mismatch
misuse-it    unknown  mismatch mismatch  mismatch  mismatch        mismatch mismatch  mismatch
no-hash      IA       IA       IA        IA        IA              IA       IA        IA
"""


def cells() -> list[tuple[str, str, str]]:
    """(call, condition, what is expected) of every cell."""
    header, *lines = (line.split() for line in TABLE.strip().splitlines())
    return [
        (name, condition, cell)
        for name, *columns in lines
        for condition, cell in zip(header[1:], columns, strict=True)
    ]


def bring(store: UnitStateStore, clock: FakeClock, condition: str) -> None:
    """Put the request apr_1 into a condition; the clock moves on."""
    if condition == "none":
        return
    store.put_approval_request(request(clock))
    clock.advance()
    if condition in ("granted", "granted-lapsed", "consumed"):
        store.grant_approval("apr_1", "cli:ada")
    if condition == "denied":
        store.deny_approval("apr_1", "cli:ada")
    clock.advance()
    if condition == "consumed":
        store.consume_approval("apr_1", HASH)
    if condition in ("lapsed", "granted-lapsed", "expired"):
        clock.advance(LEASE)
    if condition == "expired":
        with pytest.raises(ApprovalMismatch):
            store.grant_approval("apr_1", "cli:ada")
    clock.advance()


def call(store: UnitStateStore, name: str) -> object:
    """Make a call of the table."""
    calls: dict[str, Callable[[], object]] = {
        "grant": lambda: store.grant_approval("apr_1", "cli:bob"),
        "deny": lambda: store.deny_approval("apr_1", "cli:bob"),
        "consume": lambda: store.consume_approval("apr_1", HASH),
        "consume-it": lambda: store.consume_approval_and_reserve("apr_1", HASH, KEY, HOLDER),
        "misuse": lambda: store.consume_approval("apr_1", FOREIGN_HASH),
        "misuse-it": lambda: store.consume_approval_and_reserve("apr_1", FOREIGN_HASH, KEY, HOLDER),
        "no-hash": lambda: store.consume_approval("apr_1", ""),
    }
    return calls[name]()


def approval(store: UnitStateStore, approval_id: str = "apr_1") -> ApprovalRecord:
    """The record of an id that has one."""
    record = store.get_approval(approval_id)
    assert record is not None
    return record


def written(before: ApprovalRecord, expected: str, clock: FakeClock) -> ApprovalRecord:
    """The record that an accepted call leaves."""
    now = clock()
    changes: dict[str, dict[str, Any]] = {
        "GRANTED": {"approver": "cli:bob", "granted_at": now},
        "DENIED": {"approver": "cli:bob"},
        "CONSUMED": {"consumed_at": now},
    }
    return replace(before, status=ApprovalStatus(expected.lower()), **changes[expected])


def refusal_of(expected: str, error: CTRLRunError) -> bool:
    """Whether the error is the one that the table names."""
    if expected == "IA":
        return type(error) is InvalidArgument
    if expected == "denied!":
        named = "stripe.refund" in str(error) and "approval_denied" in str(error)
        return isinstance(error, ActionDenied) and error.reason == "approval_denied" and named
    return (
        isinstance(error, ApprovalMismatch)
        and (error.reason, error.approval_id) == (expected.rstrip("+"), "apr_1")
        and "apr_1" in str(error)
    )


@walk_stores(("name", "condition", "expected"), cells())
def test_call_by_request(
    store: UnitStateStore, clock: FakeClock, name: str, condition: str, expected: str
) -> None:
    bring(store, clock, condition)
    before = store.get_approval("apr_1")
    if expected.isupper() and expected != "IA":
        returned = call(store, name)
        assert before is not None
        assert approval(store) == written(before, expected, clock)
        if expected != "DENIED":
            granted = returned[0] if isinstance(returned, tuple) else returned
            assert granted == approval(store).as_approval()
        assert (store.get_effect(KEY) is not None) is name.endswith("-it")
        return
    with pytest.raises(CTRLRunError) as caught:
        call(store, name)
    assert refusal_of(expected, caught.value), caught.value
    kept = before and replace(before, status=ApprovalStatus.EXPIRED)
    assert store.get_approval("apr_1") == (kept if expected.endswith("+") else before)
    assert store.get_effect(KEY) is None


def test_messages_of_a_mismatch_and_of_an_expiry(store: UnitStateStore, clock: FakeClock) -> None:
    bring(store, clock, "granted")
    with pytest.raises(ApprovalMismatch) as caught:
        store.consume_approval("apr_1", FOREIGN_HASH)
    assert HASH in str(caught.value)
    assert FOREIGN_HASH in str(caught.value)
    clock.advance(2 * LEASE)
    with pytest.raises(ApprovalMismatch) as caught:
        store.consume_approval("apr_1", HASH)
    assert approval(store).expires_at.isoformat() in str(caught.value)


@walk_stores("name", ["grant", "deny", "consume"])
def test_everything_still_works_at_the_expiry(
    store: UnitStateStore, clock: FakeClock, name: str
) -> None:
    bring(store, clock, "granted" if name == "consume" else "pending")
    clock.now = approval(store).expires_at
    call(store, name)


@walk_stores("verb", ["grant_approval", "deny_approval"])
@walk_stores("name", ["", "  ", "a\nb", "a\x1bb", "\u202ea", "a\u2028b", None])
def test_an_approver_needs_a_visible_name(
    store: UnitStateStore, clock: FakeClock, verb: str, name: Any
) -> None:
    bring(store, clock, "pending")
    before = approval(store)
    with pytest.raises(InvalidArgument):
        getattr(store, verb)("apr_1", name)
    assert approval(store) == before


def test_a_used_id_is_refused_and_nothing_is_overwritten(
    store: UnitStateStore, clock: FakeClock
) -> None:
    bring(store, clock, "granted")
    before = approval(store)
    with pytest.raises(InvalidArgument, match="apr_1"):
        store.put_approval_request(request(clock, ttl=2 * LEASE))
    assert approval(store) == before
    assert len(store.approvals_for(HASH)) == 1


def test_a_request_keeps_its_whole_action(store: UnitStateStore, clock: FakeClock) -> None:
    asked = request(clock)
    store.put_approval_request(asked)
    kept = approval(store)
    assert kept == ApprovalRecord(asked, ApprovalStatus.PENDING)
    stored = kept.request.action
    assert stored.action_hash == asked.action.action_hash
    assert stored.canonical_arguments == asked.action.canonical_arguments
    assert stored.principal == asked.action.principal
    assert (stored.name, stored.resource, stored.environment) == (
        asked.action.name,
        asked.action.resource,
        asked.action.environment,
    )
    assert kept.policy_hash_at_approval == "sha256:p"


# --- with a reservation --------------------------------------------------------------------------


def test_an_approval_and_a_key_are_taken_together(store: UnitStateStore, clock: FakeClock) -> None:
    bring(store, clock, "granted")
    spent, reservation = store.consume_approval_and_reserve("apr_1", HASH, KEY, HOLDER, 2 * LEASE)
    assert isinstance(spent, Approval)
    assert reservation == Reservation(KEY, HOLDER, 1, clock() + 2 * LEASE)
    assert effect(store).state is EffectState.RESERVED
    assert approval(store).status is ApprovalStatus.CONSUMED


@walk_stores(
    ("condition", "expected"),
    [
        ("reserved live", "ip"),
        ("executing live", "ip"),
        ("committed", "done"),
        ("ambiguous", "AE"),
        ("executing lapsed", "AE"),
    ],
)
def test_a_refused_reservation_leaves_the_approval_usable(
    store: UnitStateStore, clock: FakeClock, condition: str, expected: str
) -> None:
    bring_about(store, clock, condition)
    bring(store, clock, "granted")
    before = approval(store)
    refused(expected, lambda: store.consume_approval_and_reserve("apr_1", HASH, KEY, OTHER))
    assert approval(store) == before
    if condition.endswith("lapsed"):
        assert effect(store).state is EffectState.AMBIGUOUS
    store.consume_approval_and_reserve("apr_1", HASH, "refund:another", OTHER)


@walk_stores("bad", [("", HOLDER, LEASE), (KEY, "", LEASE), (KEY, HOLDER, -LEASE)])
def test_a_reservation_that_makes_no_sense_leaves_the_approval_usable(
    store: UnitStateStore, clock: FakeClock, bad: tuple[Any, ...]
) -> None:
    bring(store, clock, "granted")
    before = approval(store)
    refused("IA", lambda: store.consume_approval_and_reserve("apr_1", HASH, *bad))
    assert approval(store) == before
    assert store.list_effects() == ()


def test_of_two_refusals_the_approvals_wins(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "executing lapsed")
    before = effect(store)
    bring(store, clock, "consumed")
    with pytest.raises(ApprovalMismatch):
        store.consume_approval_and_reserve("apr_1", HASH, KEY, OTHER)
    assert effect(store) == before


# --- finding -------------------------------------------------------------------------------------


def put(store: UnitStateStore, clock: FakeClock, request_id: str, **changes: Any) -> None:
    store.put_approval_request(request(clock, request_id, **changes))


def test_requests_of_a_hash_are_listed_as_they_came(
    backend: str, store: UnitStateStore, clock: FakeClock
) -> None:
    for request_id in ("apr_c", "apr_a", "apr_b"):
        put(store, clock, request_id)
        clock.advance(-TICK)
    put(store, clock, "apr_x", action_hash=FOREIGN_HASH)
    store.deny_approval("apr_a", "cli:ada")
    ids = [record.approval_id for record in store.approvals_for(HASH)]
    by_time = backend == "postgres"  # the times run backwards here
    assert ids == (["apr_b", "apr_a", "apr_c"] if by_time else ["apr_c", "apr_a", "apr_b"])


def test_the_newest_grant_is_found_while_it_has_not_expired(
    store: UnitStateStore, clock: FakeClock
) -> None:
    for request_id in ("apr_1", "apr_2", "apr_3", "apr_4"):
        put(store, clock, request_id)
    assert store.find_granted_approval(HASH) is None
    store.grant_approval("apr_2", "cli:ada")
    clock.advance()
    for request_id in ("apr_3", "apr_1"):  # at the same moment: the one stored later
        store.grant_approval(request_id, "cli:ada")
    found = store.find_granted_approval(HASH)
    assert isinstance(found, Approval) and found.approval_id == "apr_3"
    store.consume_approval("apr_3", HASH)
    found = store.find_granted_approval(HASH)
    assert found is not None and found.approval_id == "apr_1"
    clock.now = (
        found.expires_at
    )  # a grant that can be used in this moment is not handed out any more
    assert store.find_granted_approval(HASH) is None
    assert store.find_granted_approval(FOREIGN_HASH) is None


def test_the_newest_denial_is_found_while_it_has_not_expired(
    store: UnitStateStore, clock: FakeClock
) -> None:
    put(store, clock, "apr_1")
    clock.advance()
    for request_id in ("apr_2", "apr_3"):
        put(store, clock, request_id)
    for request_id in ("apr_3", "apr_2", "apr_1"):
        store.deny_approval(request_id, "cli:ada")
    found = store.find_denied_request(HASH)
    assert isinstance(found, ApprovalRequest) and found.request_id == "apr_3"
    assert store.find_granted_approval(HASH) is None
    clock.now = found.expires_at
    assert store.find_denied_request(HASH) is None
