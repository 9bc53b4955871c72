"""Reconcile hooks: when they are asked, what counts as an answer, and where it leads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, DuplicateEffect, InvalidArgument, NotExecuted
from tests.cases import walk
from tests.lib.kernel.test_paths import raising
from tests.lib.kernel.world import World

Make = Callable[..., World]


class Hook:
    """Answers what it was told to, and remembers the keys it was asked about."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, effect_key: str) -> Any:
        self.asked.append(effect_key)
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def ambiguous(w: World) -> int:
    """Leave the key ambiguous; the number of events so far."""
    w.caught(executor=raising(TimeoutError("lost")))
    return len(w.store.events())


class _Unhashable(str):
    __hash__ = None  # type: ignore[assignment]


@walk(
    ("answer", "events", "state", "resolved"),
    [
        ("committed", "PROP EVAL RST RRS ERES REF", "committed", "committed"),
        ("not_executed", "PROP EVAL RST RRS ERES RES START COM", "committed", "failed"),
        ("unknown", "PROP EVAL RST RRS REF", "ambiguous", None),
        (ValueError("down"), "PROP EVAL RST RRS REF", "ambiguous", None),
        (None, "PROP EVAL RST RRS REF", "ambiguous", None),
        (True, "PROP EVAL RST RRS REF", "ambiguous", None),
        ([], "PROP EVAL RST RRS REF", "ambiguous", None),
        (_Unhashable("committed"), "PROP EVAL RST RRS REF", "ambiguous", None),
    ],
)
def test_a_blocked_attempt_asks_once(
    world: Make, answer: Any, events: str, state: str, resolved: str | None
) -> None:
    w = world()
    before = ambiguous(w)
    hook = Hook(answer)
    error = w.caught(reconcile=hook)
    assert hook.asked == ["pay:p1"]
    assert w.codes(before) == events
    assert w.state() == state
    started = next(e for e in w.store.events()[before:] if e.type == "RECONCILIATION_STARTED")
    assert started.data == {"effect_key": "pay:p1", "trigger": "blocking"}
    if answer == "not_executed":
        assert error is None
        assert (w.last.result, w.last.attempt) == ("committed", 2)
    elif resolved == "committed":
        assert isinstance(error, DuplicateEffect)
        assert error.state == "committed"
        assert w.last.result == "blocked"
    else:
        assert isinstance(error, AmbiguousEffect)
        assert w.last.result == "blocked"
    if resolved:
        moved = next(e for e in w.store.events() if e.type == "EFFECT_RESOLVED")
        assert moved.data == {
            "state": resolved,
            "resolver": "reconcile:pay",
            "resolved_by": "reconcile",
        }
        assert moved.approval_id is None


@walk(
    ("answer", "facts"),
    [
        ("unknown", {"outcome": "unknown"}),
        (
            ValueError("down"),
            {"outcome": "unknown", "reason": "raised", "error": "ValueError: down"},
        ),
        ("maybe", {"outcome": "unknown", "reason": "invalid_return", "error": "'maybe'"}),
        ("committed", {"outcome": "committed"}),
    ],
)
def test_the_evidence_of_an_answer(
    world: Make, answer: Any, facts: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    w = world()
    ambiguous(w)
    w.caught(reconcile=Hook(answer))
    resolved = next(e for e in w.store.events() if e.type == "RECONCILIATION_RESOLVED")
    assert dict(resolved.data) == facts
    if "reason" in facts:
        assert "pay:p1" in caplog.text


def test_a_just_lapsed_lease_is_ambiguous_before_the_hook_runs(world: Make) -> None:
    w = world()
    w.store.reserve_effect("pay:p1", "act_dead", timedelta(seconds=1))
    w.clock.pass_(seconds=2)
    seen: list[str | None] = []

    def hook(key: str) -> str:
        seen.append(w.state(key))
        return "not_executed"

    assert w.run(reconcile=hook).attempt == 2
    assert seen == ["ambiguous"]


def test_an_eager_hook_asks_at_once_and_the_receipt_stays_ambiguous(world: Make) -> None:
    w = world()
    hook = Hook("committed")
    lost = TimeoutError("lost")
    assert w.caught(executor=raising(lost), reconcile=hook, reconcile_eagerly=True) is lost
    assert w.codes() == "PROP EVAL RES START AMB RST RRS ERES"
    assert w.state() == "committed"
    assert w.last.result == "ambiguous"
    assert w.last.error == "TimeoutError: lost"
    assert w.store.get_effect("pay:p1").resolved_by == "reconcile:pay"
    assert isinstance(w.caught(), DuplicateEffect)


@walk("error", [KeyboardInterrupt(), NotExecuted("no")])
def test_an_eager_hook_is_not_asked(world: Make, error: BaseException) -> None:
    w = world()
    w.caught(executor=raising(error), reconcile=Hook(), reconcile_eagerly=True)
    assert "RST" not in w.codes()


def test_without_a_key_no_hook_is_asked(world: Make) -> None:
    w = world()
    w.caught(executor=raising(ValueError()), key=None, reconcile=Hook(), reconcile_eagerly=True)
    assert w.codes() == "PROP EVAL START AMB"


def test_one_call_asks_once_even_when_its_retry_is_lost(world: Make) -> None:
    w = world()
    ambiguous(w)
    hook = Hook("not_executed")
    w.caught(executor=raising(OSError("again")), reconcile=hook, reconcile_eagerly=True)
    assert hook.asked == ["pay:p1"]
    assert w.state() == "ambiguous"


def test_a_person_who_is_faster_than_the_hook_wins(
    world: Make, caplog: pytest.LogCaptureFixture
) -> None:
    w = world()
    before = ambiguous(w)

    def hook(key: str) -> str:
        w.store.resolve_effect(key, EffectState.COMMITTED, "cli:local")
        return "not_executed"

    assert isinstance(w.caught(reconcile=hook), AmbiguousEffect)
    assert w.codes(before) == "PROP EVAL RST RRS REF"
    assert w.store.get_effect("pay:p1").resolved_by == "cli:local"
    assert "left AMBIGUOUS" in caplog.text


def test_a_key_taken_while_the_hook_asked_is_a_duplicate(world: Make) -> None:
    w = world()
    ambiguous(w)

    def hook(key: str) -> str:
        w.store.resolve_effect(key, EffectState.FAILED, "cli:local")
        w.store.reserve_effect(key, "act_rival")
        w.store.begin_execution(key, "act_rival")
        w.store.mark_ambiguous(key, "act_rival", "lost again")
        return "not_executed"

    assert isinstance(w.caught(reconcile=hook), AmbiguousEffect)
    record = w.store.get_effect("pay:p1")
    assert (record.action_id, record.attempt, record.state) == ("act_rival", 2, "ambiguous")


class _Interrupting:
    """A hook's answer that interrupts whoever looks at it."""

    def __init__(self, interrupt: BaseException) -> None:
        self.interrupt = interrupt

    def __repr__(self) -> str:
        raise self.interrupt


@walk("answers", [False, True])
@walk("eager", [False, True])
def test_an_interrupted_hook_is_recorded_and_the_interrupt_goes_on(
    world: Make, eager: bool, answers: bool
) -> None:
    w = world()
    interrupt = KeyboardInterrupt()
    hook = Hook(_Interrupting(interrupt) if answers else interrupt)
    if eager:
        lost = raising(TimeoutError("lost"))
        error = w.caught(executor=lost, reconcile=hook, reconcile_eagerly=True)
        assert w.codes() == "PROP EVAL RES START AMB RST RRS"
        assert w.last.result == "ambiguous"
    else:
        before = ambiguous(w)
        error = w.caught(reconcile=hook)
        assert w.codes(before) == "PROP EVAL RST RRS"
    assert error is interrupt
    assert w.state() == "ambiguous"
    assert w.store.events()[-1].data["reason"] == "raised"


def test_an_approval_stays_granted_when_the_answer_blocks(world: Make) -> None:
    w = world()
    ambiguous(w)
    presented = w.granted(1000)
    assert isinstance(w.caught(1000, presented=presented, reconcile=Hook("unknown")), Exception)
    assert w.store.get_approval(presented).status == "granted"
    w.run(1000, presented=presented, reconcile=Hook("not_executed"))
    assert w.codes().endswith("PROP EVAL RST RRS ERES CONS* RES* START* COM*")


@walk("options", [{"reconcile": 5}, {"reconcile_eagerly": True}, {"reconcile_eagerly": 1}])
def test_a_hook_that_makes_no_sense_is_wiring(world: Make, options: dict[str, Any]) -> None:
    w = world()
    error = w.caught(**options)
    assert isinstance(error, InvalidArgument)
    assert "reconcile" in str(error)
    assert w.store.events() == ()
