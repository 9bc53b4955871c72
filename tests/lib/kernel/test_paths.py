"""Every path of a call in enforce mode: its events, its receipt, what it raises."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalStatus
from ctrlrun.control import Control
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalMismatch,
    ApprovalRequired,
    DuplicateEffect,
    IdentityError,
    NotExecuted,
    Suspended,
)
from ctrlrun.operator import deny
from ctrlrun.receipt import Receipt
from tests.cases import walk
from tests.lib.kernel.world import START, World

Make = Callable[..., World]


def raising(error: BaseException) -> Callable[[], object]:
    def executor() -> object:
        raise error

    return executor


def facts(receipt: Receipt) -> tuple[str, str, str, str | None, bool, str | None, int]:
    return (
        receipt.decision.value,
        receipt.decision_reason,
        receipt.result.value,
        receipt.error,
        receipt.approval_id is not None,
        receipt.approver,
        receipt.attempt,
    )


@walk(
    ("amount", "key", "presents", "events", "receipt"),
    [
        (100, "pay:p1", False, "PROP EVAL RES START COM", ("allow", "rule[0]", False, None)),
        (100, None, False, "PROP EVAL START COM", ("allow", "rule[0]", False, None)),
        (
            1000,
            "pay:p1",
            True,
            "PROP EVAL CONS* RES* START* COM*",
            ("approve", "rule[1]", True, "cli:local"),
        ),
        (
            1000,
            None,
            True,
            "PROP EVAL CONS* START* COM*",
            ("approve", "rule[1]", True, "cli:local"),
        ),
        (
            100,
            "pay:p1",
            True,
            "PROP EVAL RES CONS* START* COM*",
            ("allow", "rule[0]", True, "cli:local"),
        ),
        (100, None, True, "PROP EVAL CONS* START* COM*", ("allow", "rule[0]", True, "cli:local")),
    ],
)
def test_a_permitted_call(
    world: Make, amount: int, key: str | None, presents: bool, events: str, receipt: tuple[Any, ...]
) -> None:
    w = world()
    presented = w.granted(amount) if presents else None
    returned = w.run(amount, key=key, presented=presented)
    decision, reason, has_id, approver = receipt
    assert w.codes() == events
    assert facts(returned) == (decision, reason, "committed", None, has_id, approver, 1)
    assert returned.effect_key == key
    assert w.last.receipt_id == returned.receipt_id
    assert w.state() == ("committed" if key else None)
    assert len(w.calls) == 1
    if presents:
        record = w.store.get_approval(presented)
        assert record.status is ApprovalStatus.CONSUMED
    if amount == 100 and presents:
        consumed = next(e for e in w.store.events() if e.type == "APPROVAL_CONSUMED")
        assert consumed.data == {"approver": "cli:local", "required": False}


def test_an_unusable_approval_never_stops_an_allowed_call(world: Make) -> None:
    w = world()
    other = w.granted(200)
    receipt = w.run(100, presented=other)
    assert w.codes() == "PROP EVAL RES START COM"
    assert receipt.approval_id is None
    expired = w.granted(100)
    w.clock.pass_(hours=1)
    receipt = w.run(100, key=None, presented=expired)
    assert receipt.approval_id is None
    assert w.store.get_approval(expired).status is ApprovalStatus.EXPIRED
    assert w.store.get_approval(other).status is ApprovalStatus.GRANTED


def test_nothing_presented_asks_a_person_and_leaves_no_receipt(world: Make) -> None:
    w = world()
    error = w.caught(1000)
    assert isinstance(error, ApprovalRequired)
    assert w.codes() == "PROP EVAL REQ*"
    assert w.store.receipts() == ()
    assert w.calls == []
    assert f"ctrlrun approve {error.request_id}" in str(error)
    assert "with_approval" in str(error)
    assert "pay" in str(error)
    record = w.store.get_approval(error.request_id)
    assert record.status is ApprovalStatus.PENDING
    assert record.policy_hash_at_approval == w.control._settings.policy_hash
    assert w.store.events()[-1].data == {
        "action_hash": w.action(1000).action_hash,
        "expires_at": "2026-09-03T10:27:01.000Z",
    }


def test_an_expired_principal_is_refused_before_policy(world: Make) -> None:
    w = world()
    principal = Principal("a", expires_at=START - timedelta(seconds=1))
    presented = w.granted(9000)
    error = w.caught(9000, action=w.action(9000, principal=principal), presented=presented)
    assert isinstance(error, IdentityError)
    assert "pay" in str(error)
    assert "2026-09-03T10:12:00.000Z" in str(error)
    assert w.codes() == "PROP DENY*"
    assert facts(w.last) == ("deny", "principal_expired", "denied", None, True, "cli:local", 1)
    assert w.last.error is None
    at_expiry = Principal("a", expires_at=START)
    assert w.run(100, action=w.action(100, principal=at_expiry)).result == "committed"


@walk("presents", ["nothing", "a grant", "an unknown id"])
def test_a_denied_call_touches_no_approval(world: Make, presents: str) -> None:
    w = world()
    presented = {"nothing": None, "a grant": w.granted(9000), "an unknown id": "apr_nope"}[presents]
    error = w.caught(9000, presented=presented)
    assert isinstance(error, ActionDenied)
    assert error.reason == "rule[2]"
    assert "pay" in str(error)
    assert "rule[2]" in str(error)
    assert w.codes() == ("PROP EVAL DENY*" if presented else "PROP EVAL DENY")
    approver = "cli:local" if presents == "a grant" else None
    assert facts(w.last) == ("deny", "rule[2]", "denied", None, bool(presented), approver, 1)
    assert w.calls == []
    if presents == "a grant":
        assert w.store.get_approval(presented).status is ApprovalStatus.GRANTED


def test_a_person_denied_it(world: Make) -> None:
    w = world()
    request = w.control.approvals.request(w.action(1000), timedelta(minutes=5))
    w.store.deny_approval(request.request_id, "tui:alice")
    error = w.caught(1000, presented=request.request_id)
    assert isinstance(error, ActionDenied)
    assert error.reason == "approval_denied"
    assert w.codes() == "PROP EVAL ADEN* DENY"
    assert facts(w.last) == (
        "approve",
        "rule[1]",
        "denied",
        str(error),
        True,
        "tui:alice",
        1,
    )
    assert w.store.events()[-2].data == {"approver": "tui:alice"}
    assert w.store.events()[-1].data == {"reason": "approval_denied"}


@walk(
    ("note", "said"),
    [("not before Monday", ": not before Monday)"), ("a\nb", ": a⏎b)"), (None, "tui:alice)")],
)
def test_the_note_of_a_denial_reaches_the_agent(world: Make, note: str | None, said: str) -> None:
    """Also when it is presented again: the evidence of that carries no note."""
    w = world()
    request = w.control.approvals.request(w.action(1000), timedelta(minutes=5))
    deny(w.store, request.request_id, "tui:alice", note=note, clock=w.clock)
    for _ in range(2):
        error = w.caught(1000, presented=request.request_id)
        assert isinstance(error, ActionDenied)
        assert error.note == note
        assert str(error).endswith(said)
        assert w.last.error == str(error)


@walk(
    ("attempted", "differences"),
    [
        ({"amount": 2000}, ("amount",)),
        ({"principal": Principal("b", "ada")}, ("agent", "user")),
        ({"amount": 1001, "resource": "p:2"}, ("amount", "resource")),
    ],
)
def test_a_mismatch_names_what_differs(
    world: Make, attempted: dict[str, Any], differences: tuple[str, ...]
) -> None:
    w = world()
    presented = w.granted(1000)
    attempted = dict(attempted)
    action = w.action(attempted.pop("amount", 1000), **attempted)
    error = w.caught(action=action, presented=presented)
    assert isinstance(error, ApprovalMismatch)
    assert (error.reason, error.differences) == ("mismatch", differences)
    assert f"(different: {', '.join(differences)})" in str(error)
    for other in (presented_consumed(w), "apr_nope"):
        error = w.caught(1000, presented=other)
        assert isinstance(error, ApprovalMismatch) and error.differences == ()


def test_long_texts_of_others_are_cut_in_messages_alone(world: Make) -> None:
    w = world()
    long = "k" * 100_000
    approved = Action("pay", {"amount": 1000, long: 1}, Principal("a"))
    request = w.control.approvals.request(approved, timedelta(minutes=15))
    w.store.grant_approval(request.request_id, "cli:local")
    other = Action("pay", {"amount": 1000, long: 2}, Principal("a"))
    mismatch = w.caught(action=other, presented=request.request_id)
    assert isinstance(mismatch, ApprovalMismatch) and mismatch.differences == (long,)
    pending = presented_pending(w)
    deny(w.store, pending, "tui:alice", note=long, clock=w.clock)
    denied = w.caught(1000, presented=pending)
    assert isinstance(denied, ActionDenied) and denied.note == long
    for error in (mismatch, denied):
        assert "kkk…kkk" in str(error)
        assert len(str(error)) < 1000


def presented_pending(w: World) -> str:
    return w.control.approvals.request(w.action(1000), timedelta(minutes=5)).request_id


def presented_consumed(w: World) -> str:
    approval = w.granted(1000)
    w.store.consume_approval(approval, w.action(1000).action_hash)
    return approval


def presented_expired(w: World) -> str:
    approval = w.granted(1000)
    w.clock.pass_(minutes=15, microseconds=1)
    return approval


def presented_unanswered(w: World) -> str:
    approval = presented_pending(w)
    w.clock.pass_(minutes=5, microseconds=1)
    return approval


def presented_spent_long_ago(w: World) -> str:
    approval = presented_consumed(w)
    w.clock.pass_(minutes=16)
    return approval


@walk(
    ("present", "reason", "events", "approver"),
    [
        (lambda w: w.granted(2000), "mismatch", "PROP EVAL INV*", "cli:local"),
        (presented_consumed, "consumed", "PROP EVAL INV*", "cli:local"),
        (presented_pending, "pending", "PROP EVAL INV*", None),
        (lambda w: "apr_nope", "unknown", "PROP EVAL INV*", None),
        (presented_expired, "expired", "PROP EVAL EXP* INV*", "cli:local"),
        (presented_unanswered, "expired", "PROP EVAL EXP* INV*", None),
        (presented_spent_long_ago, "consumed", "PROP EVAL INV*", "cli:local"),
    ],
)
def test_an_unusable_approval_blocks(
    world: Make, present: Callable[[World], str], reason: str, events: str, approver: str | None
) -> None:
    w = world()
    presented = present(w)
    error = w.caught(1000, presented=presented)
    assert isinstance(error, ApprovalMismatch)
    assert error.reason == reason
    assert presented in str(error)
    assert w.codes() == events
    assert facts(w.last) == ("approve", "rule[1]", "blocked", str(error), True, approver, 1)
    assert w.store.events()[-1].data == {
        "reason": reason,
        "action_hash": w.action(1000).action_hash,
    }
    assert w.calls == []
    assert w.state() is None


@walk(("present",), [(presented_expired,), (presented_unanswered,)])
def test_an_expired_approval_is_expired_every_time(
    world: Make, present: Callable[[World], str]
) -> None:
    w = world()
    presented = present(w)
    for _ in range(2):
        before = len(w.store.events())
        error = w.caught(1000, presented=presented)
        assert isinstance(error, ApprovalMismatch)
        assert error.reason == "expired"
        assert w.codes(before) == "PROP EVAL EXP* INV*"
    assert w.store.get_approval(presented).status is ApprovalStatus.EXPIRED


def test_an_approval_usable_exactly_at_its_expiry(world: Make) -> None:
    w = world()
    presented = w.granted(1000)
    w.clock.pass_(minutes=15)
    assert w.run(1000, presented=presented).result == "committed"


@walk("amount", [100, 1000])
def test_a_committed_key_is_a_duplicate(world: Make, amount: int) -> None:
    w = world()
    w.run(100)
    first = w.store.get_effect("pay:p1").action_id
    before = len(w.store.events())
    presented = w.granted(1000) if amount == 1000 else None
    error = w.caught(amount, presented=presented)
    assert isinstance(error, DuplicateEffect)
    assert (error.state, error.effect_key) == ("committed", "pay:p1")
    assert "pay:p1" in str(error)
    assert first in str(error)
    star = "*" if presented else ""
    assert w.codes(before) == f"PROP EVAL REF{star}"
    assert w.store.events()[-1].data == {"reason": "duplicate", "state": "committed"}
    decision, reason = ("approve", "rule[1]") if presented else ("allow", "rule[0]")
    approver = "cli:local" if presented else None
    assert facts(w.last) == (decision, reason, "blocked", str(error), bool(presented), approver, 1)
    assert len(w.calls) == 1
    if presented:
        assert w.store.get_approval(presented).status is ApprovalStatus.GRANTED


def test_a_key_in_progress_is_a_duplicate_even_of_the_same_action(world: Make) -> None:
    w = world()
    action = w.action()
    inner: list[BaseException | None] = []
    w.run(action=action, executor=lambda: inner.append(w.caught(action=action)))
    assert isinstance(inner[0], DuplicateEffect)
    assert inner[0].state == "in_progress"
    refused = w.store.receipts()[0]
    assert refused.result == "blocked"
    assert w.last.result == "committed"


def test_an_ambiguous_key_refuses_a_blind_retry(world: Make) -> None:
    w = world()
    assert isinstance(w.caught(executor=raising(TimeoutError("no reply"))), TimeoutError)
    before = len(w.store.events())
    error = w.caught()
    assert isinstance(error, AmbiguousEffect)
    assert error.effect_key == "pay:p1"
    assert error.action_id == w.calls[0]
    assert "ctrlrun resolve pay:p1" in str(error)
    assert w.codes(before) == "PROP EVAL REF"
    assert w.store.events()[-1].data == {"reason": "ambiguous"}
    assert facts(w.last) == ("allow", "rule[0]", "blocked", str(error), False, None, 1)
    assert len(w.calls) == 1


def test_a_lapsed_lease_is_ambiguous_to_the_next_attempt(world: Make) -> None:
    w = world()
    w.store.reserve_effect("pay:p1", "act_dead", timedelta(milliseconds=200))
    w.store.begin_execution("pay:p1", "act_dead")
    w.clock.pass_(milliseconds=200)
    assert isinstance(w.caught(), DuplicateEffect)
    w.clock.pass_(microseconds=1)
    assert w.state() == "executing"
    assert isinstance(w.caught(), AmbiguousEffect)
    assert w.state() == "ambiguous"
    record = w.store.get_effect("pay:p1")
    assert record.error.startswith("lease expired")
    assert record.action_id == "act_dead"
    receipt = w.run(reconcile=lambda key: "not_executed")
    assert (receipt.result, receipt.attempt) == ("committed", 2)


@walk(
    ("error", "events", "state", "text"),
    [
        (NotExecuted("card declined"), "PROP EVAL RES START FAIL", "failed", "card declined"),
        (TimeoutError("30 s"), "PROP EVAL RES START AMB", "ambiguous", "TimeoutError: 30 s"),
        (KeyboardInterrupt(), "PROP EVAL RES START AMB", "ambiguous", "KeyboardInterrupt: "),
        (SystemExit(3), "PROP EVAL RES START AMB", "ambiguous", "SystemExit: 3"),
        (GeneratorExit(), "PROP EVAL RES START AMB", "ambiguous", "GeneratorExit: "),
        (
            ActionDenied("inner", reason="rule[9]"),
            "PROP EVAL RES START AMB",
            "ambiguous",
            "ActionDenied: inner",
        ),
        (NotExecuted("\ud800"), "PROP EVAL RES START FAIL", "failed", "\\ud800"),
        (ValueError("\ud800"), "PROP EVAL RES START AMB", "ambiguous", "ValueError: \\ud800"),
    ],
)
@walk("key", ["pay:p1", None])
def test_what_an_exception_means(
    world: Make, error: BaseException, events: str, state: str, text: str, key: str | None
) -> None:
    w = world()
    assert w.caught(key=key, executor=raising(error)) is error
    assert w.codes() == (events if key else events.replace(" RES", ""))
    assert facts(w.last) == ("allow", "rule[0]", state, text, False, None, 1)
    assert w.store.events()[-1].data == {"error": text}
    if key:
        assert w.state() == state
        assert w.store.get_effect(key).error == text


@walk("raised", [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)])
@walk(("base", "state"), [(Exception, "ambiguous"), (NotExecuted, "failed")])
def test_an_exception_whose_text_raises_is_still_recorded(
    world: Make, raised: BaseException, base: type[Exception], state: str
) -> None:
    class Hostile(base):  # type: ignore[misc, valid-type]
        def __str__(self) -> str:
            raise raised

    w = world()
    error = w.caught(executor=raising(Hostile()))
    assert type(error) is Hostile
    assert "<unprintable Hostile>" in (w.last.error or "")
    assert (w.last.result, w.state()) == (state, state)


@walk("interrupt", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interrupt_while_a_result_says_what_it_is_costs_no_outcome(
    world: Make, interrupt: BaseException
) -> None:
    class Hostile:
        def __repr__(self) -> str:
            raise interrupt

    w = world()
    assert w.caught(executor=lambda: [Hostile()]) is interrupt
    assert w.codes() == "PROP EVAL RES START COM"
    assert (w.last.result, w.state()) == ("committed", "committed")
    assert w.store.get_effect("pay:p1").result == {"repr": "<unrepresentable list>"}


def test_the_attempt_counts_over_failures(world: Make) -> None:
    w = world()
    for _ in range(3):
        w.caught(executor=raising(NotExecuted("no")))
    w.run()
    w.caught()
    assert [receipt.attempt for receipt in w.store.receipts()] == [1, 2, 3, 4, 1]
    record = w.store.get_effect("pay:p1")
    assert record.attempt == 4
    assert record.error is None
    assert record.result == {"id": "re_1"}


def test_an_approval_is_not_given_back_after_a_failure(world: Make) -> None:
    w = world()
    presented = w.granted(1000)
    w.caught(1000, presented=presented, executor=raising(NotExecuted("no")))
    assert w.codes() == "PROP EVAL CONS* RES* START* FAIL*"
    assert (w.last.approval_id, w.last.approver) == (presented, "cli:local")
    error = w.caught(1000, presented=presented)
    assert isinstance(error, ApprovalMismatch)
    assert error.reason == "consumed"


@walk(
    ("prepare", "reason"),
    [
        (lambda w: w.store.get_approval(presented_consumed(w)).approval_id, "consumed"),
        (presented_expired, "expired"),
    ],
)
def test_the_approval_is_judged_before_the_key(
    world: Make, prepare: Callable[[World], str], reason: str
) -> None:
    w = world()
    w.run(100)
    error = w.caught(1000, presented=prepare(w))
    assert isinstance(error, ApprovalMismatch)
    assert error.reason == reason


def test_the_hash_is_judged_before_the_status(world: Make) -> None:
    w = world()
    request = w.control.approvals.request(w.action(2000), timedelta(minutes=5))
    w.store.deny_approval(request.request_id, "cli:local")
    error = w.caught(1000, presented=request.request_id)
    assert isinstance(error, ApprovalMismatch)
    assert error.reason == "mismatch"
    assert w.action(1000).action_hash in str(error)
    assert w.action(2000).action_hash in str(error)


def test_suspending_without_a_key_cannot_be_resumed(world: Make) -> None:
    w = world()
    error = w.caught(key=None, executor=raising(Suspended("later")))
    assert isinstance(error, Suspended)
    assert w.codes() == "PROP EVAL START SUS"
    assert w.store.events()[-1].data == {"held": False, "round": 1}
    assert w.store.receipts() == ()


def test_sinks_hear_what_was_stored_in_order(world: Make) -> None:
    w = world()
    w.run(100)
    w.caught(9000)
    w.caught(executor=raising(TimeoutError()), key="pay:p2")
    stored = {event.event_id: event.type for event in w.store.events()}
    heard = [entry for entry in w.sink.heard if hasattr(entry, "event_id")]
    assert [event.event_id for event in heard] == sorted(stored)
    receipts = [entry for entry in w.sink.heard if isinstance(entry, Receipt)]
    assert [receipt.seq for receipt in receipts] == [1, 2, 3]
    assert all(receipt.hash for receipt in receipts)


def test_a_sink_that_raises_costs_nothing(world: Make, caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def on_event(self, event: object) -> None:
            raise OSError("disk")

        def on_receipt(self, receipt: object) -> None:
            raise OSError("disk")

    w = world()
    control = Control(w.policy, w.store, clock=w.clock, sinks=[Broken(), w.sink])
    assert control.execute(w.action(), lambda: None, "pay:p9").result == "committed"
    assert len(w.sink.heard) == 6
    assert "Broken.on_event" in caplog.text
