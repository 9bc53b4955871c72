"""Suspended calls: held, resumed once, refused when they may not go on."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from ctrlrun.action import Principal
from ctrlrun.control import Control
from ctrlrun.effect import EffectState
from ctrlrun.errors import (
    AmbiguousEffect,
    CTRLRunError,
    IdentityError,
    InvalidArgument,
    NotExecuted,
    Suspended,
)
from ctrlrun.policy import Policy
from tests.cases import walk
from tests.lib.kernel.test_paths import raising
from tests.lib.kernel.world import START, World

Make = Callable[..., World]


def suspended(w: World, token: str = "tok-1", amount: int = 100, **options: object) -> None:
    error = w.caught(amount, executor=raising(Suspended(token)), **options)
    assert isinstance(error, Suspended), error
    assert error.continuation == token


def test_a_held_call_is_resumed_with_its_own_evidence(world: Make) -> None:
    w = world()
    presented = w.granted(1000)
    suspended(w, amount=1000, presented=presented)
    assert w.codes() == "PROP EVAL CONS* RES* START* SUS*"
    assert w.store.events()[-1].data == {"held": True, "round": 1}
    assert w.store.receipts() == ()
    assert w.state() == "executing"
    before = len(w.store.events())
    w.clock.pass_(minutes=1)
    receipt = w.control.resume("tok-1", lambda: {"id": "re_2"})
    assert w.codes(before) == "RSM* COM*"
    assert w.store.events()[before].data == {"round": 1}
    assert receipt.result == "committed"
    assert (receipt.approval_id, receipt.approver) == (presented, "cli:local")
    assert receipt.started_at == START
    assert receipt.action_id == w.calls[0]
    assert receipt.attempt == 1
    assert receipt.action_hash == w.action(1000).action_hash
    assert w.store.get_effect("pay:p1").result == {"id": "re_2"}


def test_a_token_is_spent_superseded_or_forged_alike(world: Make) -> None:
    w = world()
    suspended(w, "tok-ü")
    with pytest.raises(Suspended):
        w.control.resume("tok-ü".encode(), raising(Suspended("tok-2")))
    assert w.store.continuation_rounds("pay:p1") == 2
    texts = set()
    for token in ("tok-ü", "forged", "", b"\xff"):
        with pytest.raises(InvalidArgument) as caught:
            w.control.resume(token, lambda: pytest.fail("must not run"))
        texts.add(str(caught.value))
    assert len(texts) == 1
    assert w.control.resume("tok-2", lambda: None).result == "committed"
    with pytest.raises(InvalidArgument):
        w.control.resume("tok-2", lambda: None)


def test_a_lapsed_lease_cannot_be_resumed_and_nothing_moves(world: Make) -> None:
    w = world()
    suspended(w)
    before = w.store.events()
    w.clock.pass_(minutes=5, microseconds=1)
    with pytest.raises(AmbiguousEffect):
        w.control.resume("tok-1", lambda: None)
    assert w.store.events() == before
    assert w.state() == "executing"


def test_suspension_never_shortens_the_lease(world: Make) -> None:
    w = world()
    suspended(w, lease=timedelta(minutes=30))
    assert w.store.get_effect("pay:p1").lease_expires_at == START + timedelta(minutes=30)
    w.caught(key="pay:p2", executor=raising(Suspended("t2")), lease=timedelta(seconds=1))
    assert w.store.get_effect("pay:p2").lease_expires_at == START + timedelta(minutes=5)


def test_an_expired_principal_is_not_held(world: Make) -> None:
    w = world()
    principal = Principal("a", expires_at=START + timedelta(seconds=1))

    def executor() -> object:
        w.clock.pass_(seconds=2)
        raise Suspended("tok")

    error = w.caught(action=w.action(principal=principal), executor=executor)
    assert isinstance(error, IdentityError)
    assert w.codes() == "PROP EVAL RES START DENY"
    assert w.store.events()[-1].data == {"reason": "principal_expired"}
    assert w.state() == "executing"
    assert w.store.continuation_rounds("pay:p1") == 0


def test_a_token_held_for_another_effect_makes_the_call_ambiguous(world: Make) -> None:
    w = world()
    suspended(w)
    error = w.caught(key="pay:p2", executor=raising(Suspended("tok-1")))
    assert isinstance(error, CTRLRunError)
    assert not isinstance(error, Suspended)
    assert w.state("pay:p2") == "ambiguous"
    assert w.codes().endswith("PROP EVAL RES START AMB")
    assert w.last.result == "ambiguous"
    assert w.control.resume("tok-1", lambda: None).result == "committed"


def test_an_attempt_that_cannot_be_held_leaves_the_next_one_alone(world: Make) -> None:
    w = world()
    action = w.action()

    def late() -> None:
        w.clock.pass_(hours=1)
        assert isinstance(w.caught(), AmbiguousEffect)
        w.store.resolve_effect("pay:p1", EffectState.FAILED, "cli:local")
        w.store.reserve_effect("pay:p1", action.action_id)
        w.store.begin_execution("pay:p1", action.action_id)
        raise Suspended("tok-1")

    assert isinstance(w.caught(action=action, executor=late), AmbiguousEffect)
    assert w.last.result == "ambiguous"
    record = w.store.get_effect("pay:p1")
    assert (record.state, record.attempt) == ("executing", 2)


def test_what_is_denied_by_now_still_completes(world: Make) -> None:
    w = world()
    suspended(w)
    denying = Policy.from_yaml("schema: ctrlrun.policy/v1\nactions: {pay: {decision: deny}}")
    control = Control(denying, w.store, clock=w.clock)
    receipt = control.resume("tok-1", lambda: None)
    assert (receipt.decision, receipt.result) == ("deny", "committed")


def test_a_foreign_environment_takes_nothing(world: Make) -> None:
    w = world()
    suspended(w)
    staging = Control(w.policy, w.store, clock=w.clock, environment="staging")
    before = len(w.store.events())
    with pytest.raises(InvalidArgument, match="staging"):
        staging.resume("tok-1", lambda: None)
    assert len(w.store.events()) == before
    if hasattr(w.store, "unit"):
        assert w.control.resume("tok-1", lambda: None).result == "committed"


@walk(("error", "state"), [(NotExecuted("no"), "failed"), (OSError("gone"), "ambiguous")])
def test_a_resumed_call_ends_like_any_other(world: Make, error: Exception, state: str) -> None:
    w = world()
    suspended(w)
    with pytest.raises(type(error)):
        w.control.resume("tok-1", raising(error))
    assert w.state() == state
    assert w.last.result == state


def test_rounds_count_from_one_in_each_attempt(world: Make) -> None:
    w = world()
    suspended(w)
    with pytest.raises(NotExecuted):
        w.control.resume("tok-1", raising(NotExecuted("no")))
    suspended(w, "tok-2")
    assert w.store.events()[-1].data == {"held": True, "round": 1}


def test_the_proposal_of_the_attempt_is_where_a_resumed_receipt_starts(world: Make) -> None:
    w = world()
    action = w.action()
    w.caught(action=action, executor=raising(NotExecuted("no")))
    w.clock.pass_(minutes=1)
    w.caught(action=action, executor=raising(Suspended("tok-1")))
    w.clock.pass_(minutes=1)
    assert w.control.resume("tok-1", lambda: None).started_at == START + timedelta(minutes=1)


@walk("value", [b"", "", b"\xff", 5, "\ud800"])
def test_a_continuation_that_is_no_text(value: object) -> None:
    with pytest.raises(InvalidArgument):
        Suspended(value)  # type: ignore[arg-type]
