"""Observe mode: everything is recorded, nothing about an action is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from ctrlrun.action import Principal
from ctrlrun.effect import EffectState
from ctrlrun.errors import NotExecuted, Suspended
from ctrlrun.receipt import Receipt
from tests.cases import walk
from tests.lib.kernel.test_paths import (
    presented_expired,
    presented_pending,
    presented_unanswered,
    raising,
)
from tests.lib.kernel.world import START, World

Make = Callable[..., World]


def would(receipt: Receipt) -> tuple[str, str, str | None]:
    assert receipt.would_have is not None
    assert receipt.result == "observed"
    assert (receipt.decision, receipt.decision_reason) == (
        receipt.would_have["decision"],
        receipt.would_have["reason"],
    )
    return (
        receipt.would_have["decision"],
        receipt.would_have["reason"],
        receipt.would_have["blocked_reason"],
    )


def denied_request(w: World) -> str:
    request = w.control.approvals.request(w.action(1000), timedelta(minutes=5))
    w.store.deny_approval(request.request_id, "cli:local")
    return request.request_id


@walk(
    ("amount", "present", "events", "blocked", "has_id"),
    [
        (100, None, "PROP EVAL RES START COM", None, False),
        (9000, None, "PROP EVAL RES START COM", "rule[2]", False),
        (1000, None, "PROP EVAL RES START COM", "approval_required", False),
        (1000, lambda w: w.granted(1000), "PROP EVAL RES* START* COM*", None, True),
        (
            1000,
            lambda w: w.granted(2000),
            "PROP EVAL INV* RES START COM",
            "approval_mismatch",
            True,
        ),
        (1000, denied_request, "PROP EVAL ADEN* RES START COM", "approval_denied", True),
        (1000, presented_pending, "PROP EVAL INV* RES START COM", "approval_mismatch", True),
        (1000, lambda w: "apr_no", "PROP EVAL INV* RES START COM", "approval_mismatch", True),
        (1000, presented_expired, "PROP EVAL EXP* INV* RES START COM", "approval_mismatch", True),
        (
            1000,
            presented_unanswered,
            "PROP EVAL EXP* INV* RES START COM",
            "approval_mismatch",
            True,
        ),
        (100, lambda w: w.granted(100), "PROP EVAL RES START COM", None, False),
        (9000, lambda w: w.granted(9000), "PROP EVAL RES START COM", "rule[2]", False),
    ],
)
def test_what_would_have_been(
    world: Make,
    amount: int,
    present: Callable[[World], str] | None,
    events: str,
    blocked: str | None,
    has_id: bool,
) -> None:
    w = world("observe")
    presented = present(w) if present else None
    status = w.store.get_approval(presented).status if presented and presented != "apr_no" else None
    receipt = w.run(amount, presented=presented)
    assert w.codes() == events
    assert would(receipt)[2] == blocked
    assert receipt.execution == "committed"
    assert receipt.approval_id == (presented if has_id else None)
    answered = w.store.get_approval(presented) if has_id and presented else None
    assert receipt.approver == (answered.approver if answered else None)
    assert len(w.calls) == 1
    assert w.state() == "committed"
    if status is not None:
        assert w.store.get_approval(presented).status is status


def test_an_expired_principal_runs_and_says_so(world: Make) -> None:
    w = world("observe")
    principal = Principal("a", expires_at=START - timedelta(seconds=1))
    receipt = w.run(action=w.action(principal=principal))
    assert w.codes() == "PROP RES START COM"
    assert would(receipt) == ("deny", "principal_expired", "principal_expired")


def leave(w: World, state: str) -> None:
    w.store.reserve_effect("pay:p1", "act_other")
    w.store.begin_execution("pay:p1", "act_other")
    if state == "committed":
        w.store.commit_effect("pay:p1", "act_other", None)
    if state == "ambiguous":
        w.store.mark_ambiguous("pay:p1", "act_other", "lost")


@walk(
    ("state", "blocked"),
    [("committed", "duplicate"), ("executing", "in_progress"), ("ambiguous", "ambiguous")],
)
@walk("amount", [100, 9000])
def test_a_refused_key_runs_and_never_touches_the_record(
    world: Make, state: str, blocked: str, amount: int
) -> None:
    w = world("observe")
    leave(w, state)
    record = w.store.get_effect("pay:p1")
    assert (
        w.caught(amount, executor=raising(OSError("x")), reconcile=raising(OSError())) is not None
    )
    assert w.codes() == "PROP EVAL REF START AMB"
    assert would(w.last)[2] == (blocked if amount == 100 else "rule[2]")
    assert (w.last.execution, w.last.attempt) == ("ambiguous", 1)
    assert w.store.get_effect("pay:p1") == record


def test_a_refused_key_gives_the_approval_back(world: Make) -> None:
    w = world("observe")
    leave(w, "committed")
    presented = w.granted(1000)
    receipt = w.run(1000, presented=presented)
    assert w.codes() == "PROP EVAL REF* START COM"
    assert (receipt.approval_id, receipt.approver) == (None, None)
    assert would(receipt)[2] == "duplicate"


@walk(("error", "execution"), [(NotExecuted("no"), "failed"), (OSError("x"), "ambiguous")])
def test_executor_exceptions_propagate(world: Make, error: Exception, execution: str) -> None:
    w = world("observe")
    assert w.caught(executor=raising(error)) is error
    assert w.last.execution == execution
    assert w.state() == execution


def test_a_refused_outcome_write_raises_no_refusal(world: Make) -> None:
    w = world("observe")

    def executor() -> None:
        w.store.mark_ambiguous("pay:p1", w.calls[0], "declared")
        w.store.resolve_effect("pay:p1", EffectState.FAILED, "cli:local")

    receipt = w.run(executor=executor)
    assert receipt.execution == "ambiguous"
    assert w.codes() == "PROP EVAL RES START AMB"
    assert w.state() == "failed"


def test_suspension_without_the_key_is_not_held_and_keeps_it_in_the_event(world: Make) -> None:
    w = world("observe")
    leave(w, "committed")
    w.caught(executor=raising(Suspended("tok")))
    event = w.store.events()[-1]
    assert (event.data, event.effect_key) == ({"held": False, "round": 1}, "pay:p1")


def test_a_resumed_call_says_what_todays_policy_would_ask(world: Make) -> None:
    w = world("observe")
    w.caught(1000, executor=raising(Suspended("tok")))
    receipt = w.control.resume("tok", lambda: None)
    assert would(receipt) == ("approve", "rule[1]", "approval_required")


def test_an_eager_hook_asks_only_for_an_attempt_that_reserved(world: Make) -> None:
    w = world("observe")
    asked: list[str] = []

    def hook(key: str) -> str:
        asked.append(key)
        return "committed"

    lost = raising(TimeoutError())
    w.caught(executor=lost, reconcile=hook, reconcile_eagerly=True)
    w.caught(executor=lost, reconcile=hook, reconcile_eagerly=True)
    assert asked == ["pay:p1"]
    assert w.state() == "committed"
