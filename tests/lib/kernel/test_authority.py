"""Grants in a protected call: what is written, who is refused, what happens to calls in flight."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.authority import Authority, Delegation
from ctrlrun.conditions import parse_conditions
from ctrlrun.control import Control
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalRequired,
    AuthorityDenied,
    DuplicateEffect,
    IdentityError,
    NotExecuted,
    Suspended,
)
from ctrlrun.policy import hash_with_authority
from ctrlrun.receipt import Event
from tests.cases import walk
from tests.lib.kernel.grants import DANA, authority, grant, handed_on, row
from tests.lib.kernel.test_paths import raising
from tests.lib.kernel.world import START, World

Make = Callable[..., World]

EXPIRED = START - timedelta(microseconds=1)
ID = "dlg_" + "1" * 32


def by_type(w: World, kind: str) -> list[Event]:
    return [event for event in w.store.events() if event.type == kind]


# --- covered -------------------------------------------------------------------------------------


@walk(
    ("amount", "key", "events", "decision"),
    [
        (100, "pay:p1", "PROP AUTH+ EVAL RES START COM", ("allow", "rule[0]")),
        (100, None, "PROP AUTH+ EVAL START COM", ("allow", "rule[0]")),
    ],
)
def test_a_covered_call_goes_on_to_the_policy(
    world: Make, amount: int, key: str | None, events: str, decision: tuple[str, str]
) -> None:
    w = world(authority=authority())
    receipt = w.run(amount, key=key)
    assert w.codes() == events
    assert (receipt.decision, receipt.decision_reason) == decision
    resolved = w.store.events()[1]
    assert dict(resolved.data) == {"reason": "authority_grant", "grant_id": "root"}
    assert (resolved.action_id, resolved.effect_key) == (receipt.action_id, key)
    assert [type(item).__name__ for item in w.sink.heard].count("Receipt") == 1
    assert len(w.sink.heard) == len(w.store.events()) + 1


def test_a_delegation_that_covers_is_named(world: Make) -> None:
    w = world(authority=authority(grant()))
    made = w.control.delegate("root", handed_on(), by=DANA)
    w.run()
    assert w.codes() == "DCRE PROP AUTH+ EVAL RES START COM"
    assert dict(by_type(w, "AUTHORITY_RESOLVED")[0].data) == {
        "reason": "authority_grant",
        "grant_id": made.delegation_id,
        "delegation_id": made.delegation_id,
        "depth": 1,
    }


def test_what_is_covered_may_still_need_a_person(world: Make) -> None:
    w = world(authority=authority())
    assert isinstance(w.caught(1000), ApprovalRequired)
    assert w.codes() == "PROP AUTH+ EVAL REQ*"
    presented = w.granted(1000)
    before = len(w.store.events())
    w.run(1000, presented=presented)
    assert w.codes(before) == "PROP AUTH+ EVAL CONS* RES* START* COM*"


def test_what_is_covered_may_still_be_denied(world: Make) -> None:
    w = world(authority=authority())
    error = w.caught(9000)
    assert type(error) is ActionDenied
    assert w.codes() == "PROP AUTH+ EVAL DENY"
    assert (w.last.decision_reason, w.last.result) == ("rule[2]", "denied")


def test_a_refused_key_comes_after_the_grants(world: Make) -> None:
    w = world(authority=authority())
    w.run()
    before = len(w.store.events())
    assert isinstance(w.caught(), DuplicateEffect)
    assert w.codes(before) == "PROP AUTH+ EVAL REF"


# --- not covered ---------------------------------------------------------------------------------

ROOT = authority(grant())
NARROW = parse_conditions({"amount_gte": 0, "amount_lte": 10}, where="test")

DENIALS: Mapping[str, tuple[Authority, list[Any], dict[str, Any]]] = {
    "no grant": (ROOT, [], {"reason": "no_authority"}),
    "no grants at all": (Authority({}), [], {"reason": "no_authority"}),
    "a grant's constraint": (
        authority(grant("root", "a", constraints=NARROW)),
        [],
        {"reason": "authority_constraint", "grant_id": "root"},
    ),
    "a grant's expiry": (
        authority(grant("root", "a", expires_at=EXPIRED)),
        [],
        {"reason": "authority_expired", "grant_id": "root"},
    ),
    "a delegation's constraint": (
        ROOT,
        [row("1", "root", constraints={"amount_gte": 0, "amount_lte": 10})],
        {"reason": "authority_constraint", "grant_id": ID, "delegation_id": ID, "depth": 1},
    ),
    "a delegation's expiry": (
        ROOT,
        [row("1", "root", expires_at=EXPIRED.isoformat())],
        {"reason": "authority_expired", "grant_id": ID, "delegation_id": ID, "depth": 1},
    ),
    "a parent that is nowhere": (
        ROOT,
        [row("1", "gone")],
        {
            "reason": "authority_escalation",
            "grant_id": ID,
            "delegation_id": ID,
            "depth": 1,
            "missing_parent_id": "gone",
        },
    ),
    "a parent that has expired": (
        authority(grant("root", expires_at=EXPIRED)),
        [row("1", "root")],
        {
            "reason": "authority_escalation",
            "grant_id": ID,
            "delegation_id": ID,
            "depth": 1,
            "expired_parent_id": "root",
        },
    ),
    "more than the parent": (
        ROOT,
        [row("1", "root", constraints={"amount_lte": 10000})],
        {
            "reason": "authority_escalation",
            "grant_id": ID,
            "delegation_id": ID,
            "depth": 1,
            "dimension": "constraints",
        },
    ),
    "a parent that may not be handed on": (
        authority(grant("root", delegable=False)),
        [row("1", "root")],
        {"reason": "authority_escalation", "grant_id": ID, "delegation_id": ID, "depth": 1},
    ),
    "too deep": (
        authority(grant(), depth=0),
        [row("1", "root")],
        {
            "reason": "authority_escalation",
            "grant_id": ID,
            "delegation_id": ID,
            "depth": 1,
            "depth_exceeded": 1,
        },
    ),
    "a revoked delegation": (
        ROOT,
        [replace(row("1", "root"), revoked_at=START, revoked_by="cli:local")],
        {"reason": "authority_revoked", "grant_id": ID, "delegation_id": ID, "depth": 1},
    ),
}


@walk("case", DENIALS)
def test_what_no_grant_covers_is_denied(world: Make, case: str) -> None:
    grants, rows, data = DENIALS[case]
    w = world(authority=grants)
    for record in rows:
        w.store.put_delegation(record)
    action = w.action()
    assert w.control.evaluate(action).decision == "deny"
    assert w.control.evaluate(action).reason == data["reason"]
    assert w.store.events() == ()
    error = w.caught(action=action)
    assert isinstance(error, AuthorityDenied)
    assert (error.reason, error.action_id) == (data["reason"], action.action_id)
    assert (error.grant_id, error.delegation_id) == (
        data.get("grant_id"),
        data.get("delegation_id"),
    )
    assert "pay" in str(error)
    assert data["reason"] in str(error)
    assert w.codes() == "PROP AUTH- DENY"
    denied, ended = w.store.events()[1:]
    assert dict(denied.data) == data
    assert list(denied.data) == list(data)
    assert dict(ended.data) == {"reason": data["reason"]}
    receipt = w.last
    assert (receipt.decision, receipt.result, receipt.error) == ("deny", "denied", None)
    assert (receipt.decision_reason, receipt.effect_key) == (data["reason"], "pay:p1")
    assert (receipt.attempt, receipt.controls) == (1, ())
    assert w.calls == []
    assert w.state() is None


def test_a_circle_denies_even_what_a_grant_covers(world: Make) -> None:
    w = world(authority=authority())
    first = row("1", "dlg_" + "2" * 32, delegable=True)
    w.store.put_delegation(first)
    w.store.put_delegation(row("2", first.delegation_id, delegable=True))
    assert isinstance(w.caught(), AuthorityDenied)
    (denied,) = by_type(w, "AUTHORITY_DENIED")
    assert dict(denied.data) == {
        "reason": "authority_unreadable",
        "grant_id": ID,
        "delegation_id": ID,
        "depth": 2,
        "cycle_at": ID,
    }


UNREADABLE = [
    replace(row("1", "root"), grant_json="{}"),
    replace(row("1", "root"), grant_json="not json"),
    replace(row("1", "root"), created_via="tui"),
    replace(row("1", "root"), created_by_agent=""),
    replace(row("1", "root"), delegation_id="dlg_short"),
    row("1", "root", actions="pay"),
    row("1", "root", extra=1),
    row("1", "root", delegable="no"),
    row("1", "root", expires_at="2030-01-01T00:00:00"),
]


@walk("record", UNREADABLE)
def test_one_unreadable_row_denies_everybody_until_it_is_revoked(world: Make, record: Any) -> None:
    w = world(authority=authority())
    w.store.put_delegation(record)
    error = w.caught()
    assert isinstance(error, AuthorityDenied)
    assert error.reason == "authority_unreadable"
    assert w.last.decision_reason == "authority_unreadable"
    assert w.codes() == "PROP AUTH- DENY"
    assert dict(by_type(w, "AUTHORITY_DENIED")[0].data) == {
        "reason": "authority_unreadable",
        "delegation_id": record.delegation_id,
        "depth": 0,
    }
    w.control.revoke(record.delegation_id)
    assert w.run().result == "committed"


def test_a_denial_keeps_the_approval_that_was_presented(world: Make) -> None:
    w = world(authority=ROOT)
    presented = w.granted(1000)
    assert isinstance(w.caught(1000, presented=presented), AuthorityDenied)
    assert w.codes() == "PROP AUTH- DENY*"
    assert (w.last.approval_id, w.last.approver) == (presented, "cli:local")
    assert w.store.get_approval(presented).status == "granted"


def test_nobody_is_asked_about_what_no_grant_covers(world: Make) -> None:
    w = world(authority=ROOT)
    action = w.action(1000)
    assert isinstance(w.caught(action=action), AuthorityDenied)
    assert w.store.approvals_for(action.action_hash) == ()


def test_an_expired_principal_comes_before_the_grants(world: Make) -> None:
    w = world(authority=ROOT)
    action = w.action(principal=Principal("a", expires_at=EXPIRED))
    assert w.control.evaluate(action).reason == "principal_expired"
    assert isinstance(w.caught(action=action), IdentityError)
    assert w.codes() == "PROP DENY"
    assert (w.last.decision_reason, w.last.result) == ("principal_expired", "denied")


def test_a_grant_is_good_until_its_last_microsecond(world: Make) -> None:
    w = world(authority=authority(grant("root", "a", expires_at=START)))
    assert w.run().result == "committed"
    w.clock.pass_(microseconds=1)
    assert isinstance(w.caught(key="pay:p2"), AuthorityDenied)


# --- the store -----------------------------------------------------------------------------------


class Failing:
    """A store whose delegations cannot be read while `broken`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.broken = True
        self.reads = 0

    def __getattr__(self, name: str) -> Any:
        if "delegation" not in name:
            return getattr(self.inner, name)
        self.reads += 1
        if self.broken:
            raise OSError("the disk is gone")
        return getattr(self.inner, name)


@walk("mode", ["enforce", "observe"])
def test_a_store_that_fails_under_the_grants_is_the_stores_error(world: Make, mode: str) -> None:
    w = world()
    store = Failing(w.store)
    failing = World(store, w.clock, mode, authority=authority())
    assert isinstance(failing.caught(), OSError)
    assert failing.calls == []
    assert w.store.events() == ()
    assert w.store.receipts() == ()
    store.broken = False
    failing.run()
    assert failing.state() == "committed"


def test_without_authority_no_delegation_is_read(world: Make) -> None:
    w = world()
    store = Failing(w.store)
    bare = World(store, w.clock)
    bare.run()
    bare.caught(key="pay:p2", executor=raising(Suspended("tok")))
    bare.control.resume("tok", lambda: None)
    assert store.reads == 0
    assert "AUTH" not in w.codes()


class Counted:
    """A store that counts its units, and the writes that come outside of one."""

    _READS = ("get", "find", "list", "delegation", "receipt_rows", "events", "approvals_for")

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.units: list[bool] = []
        self.outside: list[str] = []
        self._open = False

    def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
        self.units.append(durable)
        self._open = True
        try:
            return self.inner.unit(work, durable=durable)
        finally:
            self._open = False

    def __getattr__(self, name: str) -> Any:
        if not self._open and not name.startswith(self._READS) and name != "in_unit":
            self.outside.append(name)
        return getattr(self.inner, name)


def test_a_covered_call_costs_two_transactions_and_a_denied_one_one(world: Make) -> None:
    w = world()
    if not hasattr(w.store, "unit"):
        pytest.skip("a store of single calls")
    store = Counted(w.store)
    counted = World(store, w.clock, authority=authority(grant("g"), grant("root", "a")))
    store.outside.clear()
    counted.run()
    assert store.units == [True, False]
    counted.caught(action=counted.action(principal=Principal("stranger")))
    assert store.units == [True, False, False]
    assert store.outside == []


# --- in flight -----------------------------------------------------------------------------------


def delegated(world: Make, mode: str = "enforce", **changes: Any) -> tuple[World, Delegation]:
    """A world in which agent `a` acts by a delegation."""
    w = world(mode, authority=authority(grant()))
    return w, w.control.delegate("root", handed_on(**changes), by=DANA)


def revoke(w: World, made: Delegation) -> None:
    w.control.revoke(made.delegation_id, by="cli:local")


def expire_grant(w: World, made: Delegation) -> None:
    w.clock.pass_(seconds=2)


LOST: list[tuple[Callable[[World, Delegation], None], dict[str, Any], dict[str, Any]]] = [
    (revoke, {}, {"reason": "authority_revoked"}),
    (expire_grant, {"expires_at": START + timedelta(seconds=1)}, {"reason": "authority_expired"}),
]


@walk(("lose", "changes", "data"), LOST)
@walk(
    ("outcome", "end", "state"),
    [
        (lambda: None, "COM", "committed"),
        (raising(NotExecuted("no")), "FAIL", "failed"),
        (raising(OSError("x")), "AMB", "ambiguous"),
    ],
)
def test_an_outcome_is_recorded_whatever_was_taken_back_meanwhile(
    world: Make,
    lose: Callable[[World, Delegation], None],
    changes: dict[str, Any],
    data: dict[str, Any],
    outcome: Callable[[], object],
    end: str,
    state: str,
) -> None:
    w, made = delegated(world, **changes)

    def executor() -> object:
        lose(w, made)
        return outcome()

    w.caught(executor=executor)
    assert w.codes().split()[-1] == end
    assert "AUTH-" not in w.codes()
    assert (w.state(), w.last.result, w.last.decision) == (state, state, "allow")


@walk(("lose", "changes", "data"), LOST)
def test_what_is_not_covered_any_more_is_not_held(
    world: Make,
    lose: Callable[[World, Delegation], None],
    changes: dict[str, Any],
    data: dict[str, Any],
) -> None:
    w, made = delegated(world, **changes)

    def executor() -> object:
        lose(w, made)
        raise Suspended("tok")

    error = w.caught(executor=executor)
    assert isinstance(error, AuthorityDenied)
    assert (error.reason, error.delegation_id) == (data["reason"], made.delegation_id)
    assert w.codes().split()[-1] == "DENY"
    last = w.store.events()[-1]
    facts = {"grant_id": made.delegation_id, "delegation_id": made.delegation_id, "depth": 1}
    assert dict(last.data) == data | facts
    assert last.effect_key == "pay:p1"
    assert w.state() == "executing"
    assert w.store.continuation_rounds("pay:p1") == 0
    assert w.store.receipts() == ()
    w.clock.pass_(minutes=6)
    w.control.delegate("root", handed_on(), by=DANA)
    assert isinstance(w.caught(), AmbiguousEffect)


def test_without_a_key_nothing_is_held_and_nothing_refused(world: Make) -> None:
    w, made = delegated(world)

    def executor() -> object:
        revoke(w, made)
        raise Suspended("tok")

    assert isinstance(w.caught(key=None, executor=executor), Suspended)
    assert dict(w.store.events()[-1].data) == {"held": False, "round": 1}


def test_a_store_that_fails_before_holding_leaves_the_effect_ambiguous(world: Make) -> None:
    w = world()
    store = Failing(w.store)
    store.broken = False
    failing = World(store, w.clock, authority=authority())

    def executor() -> object:
        store.broken = True
        raise Suspended("tok")

    assert isinstance(failing.caught(executor=executor), OSError)
    assert failing.codes().endswith("START AMB")
    assert (failing.state(), failing.last.result) == ("ambiguous", "ambiguous")


def test_a_resumed_call_says_that_it_is_covered(world: Make) -> None:
    w = world(authority=authority())
    presented = w.granted(1000)
    w.caught(1000, presented=presented, executor=raising(Suspended("tok")))
    before = len(w.store.events())
    receipt = w.control.resume("tok", lambda: None)
    assert w.codes(before) == "RSM* AUTH+* COM*"
    assert dict(w.store.events()[before + 1].data) == {
        "reason": "authority_grant",
        "grant_id": "root",
    }
    assert (receipt.decision, receipt.result) == ("approve", "committed")


@walk(("lose", "changes", "data"), LOST)
@walk(
    ("outcome", "end", "result"),
    [(lambda: None, "COM", "committed"), (raising(OSError("x")), "AMB", "ambiguous")],
)
def test_a_resumed_call_goes_on_and_says_that_it_is_not(
    world: Make,
    lose: Callable[[World, Delegation], None],
    changes: dict[str, Any],
    data: dict[str, Any],
    outcome: Callable[[], object],
    end: str,
    result: str,
) -> None:
    w, made = delegated(world, **changes)
    w.caught(executor=raising(Suspended("tok")))
    lose(w, made)
    before = len(w.store.events())
    try:
        w.control.resume("tok", outcome)
    except OSError:
        assert result == "ambiguous"
    assert w.codes(before) == f"RSM AUTH- {end}"
    assert w.store.events()[before + 1].data["reason"] == data["reason"]
    assert (w.last.decision, w.last.decision_reason) == ("deny", data["reason"])
    assert (w.last.result, w.state()) == (result, result)


def test_the_principals_expiry_is_not_looked_at_again(world: Make) -> None:
    w = world(authority=authority())
    principal = Principal("a", "dana", {"role": "ops"}, "https://issuer", START)
    w.caught(action=w.action(principal=principal), executor=raising(Suspended("tok")))
    w.clock.pass_(seconds=1)
    receipt = w.control.resume("tok", lambda: None)
    assert (receipt.decision, receipt.result) == ("allow", "committed")
    assert receipt.principal == principal
    assert receipt.principal.claims == {"role": "ops"}
    assert receipt.principal.issuer == "https://issuer"


def test_suspending_again_asks_again(world: Make) -> None:
    w, made = delegated(world)
    w.caught(executor=raising(Suspended("tok")))
    revoke(w, made)
    with pytest.raises(AuthorityDenied):
        w.control.resume("tok", raising(Suspended("tok-2")))
    assert w.codes().endswith("RSM AUTH- DENY")
    assert w.state() == "executing"


def test_a_store_that_fails_under_the_grants_keeps_the_continuation(world: Make) -> None:
    w = world()
    store = Failing(w.store)
    store.broken = False
    failing = World(store, w.clock, authority=authority())
    failing.caught(executor=raising(Suspended("tok")))
    before = len(w.store.events())
    store.broken = True
    with pytest.raises(OSError, match="gone"):
        failing.control.resume("tok", lambda: pytest.fail("must not run"))
    store.broken = False
    if hasattr(w.store, "unit"):
        assert len(w.store.events()) == before
        assert failing.control.resume("tok", lambda: None).result == "committed"


# --- observing -----------------------------------------------------------------------------------


def blocked(w: World) -> str | None:
    assert w.last.result == "observed"
    assert w.last.would_have is not None
    assert w.last.decision == w.last.would_have["decision"]
    assert w.last.decision_reason == w.last.would_have["reason"]
    reason: str | None = w.last.would_have["blocked_reason"]
    return reason


def held_by_other(w: World, state: str) -> None:
    w.store.reserve_effect("pay:p1", "act_other")
    w.store.begin_execution("pay:p1", "act_other")
    if state == "committed":
        w.store.commit_effect("pay:p1", "act_other", None)
    if state == "ambiguous":
        w.store.mark_ambiguous("pay:p1", "act_other", "lost")
    if state == "lapsed":
        w.clock.pass_(minutes=6)


def present(kind: str) -> Callable[[World], str]:
    def make(w: World) -> str:
        if kind == "unknown":
            return "apr_no"
        if kind == "good":
            return w.granted(1000)
        if kind == "other action":
            return w.granted(2000)
        request = w.control.approvals.request(w.action(1000), timedelta(minutes=5))
        if kind == "denied":
            w.store.deny_approval(request.request_id, "cli:local")
        if kind == "expired":
            w.store.grant_approval(request.request_id, "cli:local")
            w.clock.pass_(minutes=5, microseconds=1)
        if kind == "consumed":
            w.store.grant_approval(request.request_id, "cli:local")
            w.store.consume_approval(request.request_id, request.action_hash)
        return request.request_id

    return make


OBSERVED: list[tuple[int, str | None, str | None, str, str | None]] = [
    # amount, approval presented, the key is, events when covered, blocked when covered
    (100, None, None, "RES START COM", None),
    (100, "good", None, "RES START COM", None),
    (9000, None, None, "RES START COM", "rule[2]"),
    (1000, None, None, "RES START COM", "approval_required"),
    (1000, "unknown", None, "INV* RES START COM", "approval_mismatch"),
    (1000, "other action", None, "INV* RES START COM", "approval_mismatch"),
    (1000, "pending", None, "INV* RES START COM", "approval_mismatch"),
    (1000, "consumed", None, "INV* RES START COM", "approval_mismatch"),
    (1000, "expired", None, "EXP* INV* RES START COM", "approval_mismatch"),
    (1000, "denied", None, "ADEN* RES START COM", "approval_denied"),
    (1000, "good", None, "RES* START* COM*", None),
    (100, None, "committed", "REF START COM", "duplicate"),
    (100, None, "executing", "REF START COM", "in_progress"),
    (100, None, "ambiguous", "REF START COM", "ambiguous"),
    (100, None, "lapsed", "REF START COM", "ambiguous"),
    (9000, None, "committed", "REF START COM", "rule[2]"),
    (1000, None, "executing", "REF START COM", "approval_required"),
]


@walk("stance", ["covered", "uncovered", "expired"])
@walk(("amount", "presented", "key", "events", "reason"), OBSERVED)
def test_nothing_is_refused_and_the_first_reason_is_kept(
    world: Make,
    stance: str,
    amount: int,
    presented: str | None,
    key: str | None,
    events: str,
    reason: str | None,
) -> None:
    w = world("observe", authority=authority(grant("root", "b" if stance == "uncovered" else "a")))
    approval = None if presented is None else present(presented)(w)
    if key is not None:
        held_by_other(w, key)
    expires_at = EXPIRED if stance == "expired" else None
    receipt = w.run(
        action=w.action(amount, principal=Principal("a", expires_at=expires_at)), presented=approval
    )
    assert len(w.calls) == 1
    assert receipt.execution == "committed"
    if stance == "covered":
        assert w.codes() == f"PROP AUTH+ EVAL {events}"
        assert blocked(w) == reason
        return
    refused = "REF" if key is not None else "RES"
    skipped = "PROP AUTH-" if stance == "uncovered" else "PROP"
    assert w.codes() == f"{skipped} {refused} START COM"
    assert blocked(w) == ("no_authority" if stance == "uncovered" else "principal_expired")
    assert (receipt.decision, receipt.approval_id) == ("deny", None)


@walk("lose", [revoke, None])
def test_an_observed_call_is_held_and_resumed_whoever_makes_it(
    world: Make, lose: Callable[[World, Delegation], None] | None
) -> None:
    w, made = delegated(world, "observe")
    principal = Principal("a", expires_at=None if lose else START)

    def executor() -> object:
        if lose is None:
            w.clock.pass_(seconds=1)
        else:
            lose(w, made)
        raise Suspended("tok")

    assert isinstance(w.caught(action=w.action(principal=principal), executor=executor), Suspended)
    assert dict(w.store.events()[-1].data) == {"held": True, "round": 1}
    before = len(w.store.events())
    w.control.resume("tok", lambda: None)
    assert w.codes(before) == ("RSM AUTH- COM" if lose else "RSM AUTH+ COM")
    assert blocked(w) == ("authority_revoked" if lose else None)
    assert w.state() == "committed"


def test_an_observed_denial_is_held(world: Make) -> None:
    w = world("observe", authority=ROOT)
    assert isinstance(w.caught(executor=raising(Suspended("tok"))), Suspended)
    assert w.codes() == "PROP AUTH- RES START SUS"
    assert w.control.resume("tok", lambda: None).result == "observed"
    assert blocked(w) == "no_authority"


def test_an_observed_commit_is_a_duplicate_when_enforced(world: Make) -> None:
    w, _ = delegated(world, "observe")
    w.run()
    enforcing = World(w.store, w.clock, authority=authority(grant()))
    assert isinstance(enforcing.caught(), DuplicateEffect)
    assert w.codes().endswith("PROP AUTH+ EVAL REF")


# --- hashes --------------------------------------------------------------------------------------


def test_receipts_and_requests_carry_the_hash_of_what_is_enforced(world: Make) -> None:
    grants = authority()
    w = world(authority=grants)
    request = w.caught(1000)
    assert isinstance(request, ApprovalRequired)
    expected = hash_with_authority(w.policy, grants, "production")
    assert w.run().policy_hash == expected
    assert w.store.get_approval(request.request_id).policy_hash_at_approval == expected
    bare = Control(w.policy, w.store, clock=w.clock)
    other = bare.execute(w.action(), lambda: None, "pay:p9")
    assert other.policy_hash == hash_with_authority(w.policy, None, "production") != expected


def test_grants_that_were_edited_count_for_what_was_delegated(world: Make) -> None:
    w, _ = delegated(world)
    w.run()
    tighter = parse_conditions({"amount_gte": 0, "amount_lte": 50}, where="test")
    edited = World(w.store, w.clock, authority=authority(grant(constraints=tighter)))
    error = edited.caught(key="pay:p2")
    assert isinstance(error, AuthorityDenied)
    assert by_type(w, "AUTHORITY_DENIED")[-1].data["dimension"] == "constraints"
