"""Suspended calls in every store: held by one token, taken once."""

from __future__ import annotations

import hmac
from typing import Any

import pytest

from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, InvalidArgument
from ctrlrun.state import UnitStateStore, verdicts
from tests.lib.store_suite.conftest import walk_stores
from tests.lib.store_suite.helpers import (
    CONDITIONS,
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
)

FORGED = "no suspended call is waiting for this continuation"


def hold(store: UnitStateStore, clock: FakeClock, token: str = "tök-1", key: str = KEY) -> int:
    """Suspend the holder's call for twice a lease."""
    return store.hold_continuation(action(), key, token, clock() + 2 * LEASE)


def take_refused(store: UnitStateStore, token: Any) -> None:
    with pytest.raises(InvalidArgument) as caught:
        store.take_continuation(token)
    assert str(caught.value) == FORGED


@walk_stores(
    ("condition", "expected"),
    zip(CONDITIONS, ["AE", "ip", "AE", "ok", "AE", "done", "AE", "AE"], strict=True),
)
def test_holding_by_record(
    store: UnitStateStore, clock: FakeClock, condition: str, expected: str
) -> None:
    bring_about(store, clock, condition)
    before = store.get_effect(KEY)
    if expected == "ok":
        assert hold(store, clock) == 1
        assert effect(store).lease_expires_at == clock() + 2 * LEASE
        refused("ip", lambda: store.hold_continuation(action(OTHER), KEY, "t", clock() + 3 * LEASE))
        return
    refused(expected, lambda: hold(store, clock))
    assert store.get_effect(KEY) == before
    assert store.continuation_rounds(KEY) == 0
    take_refused(store, "tök-1")


def test_a_call_is_taken_once_and_whole(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "executing live")
    hold(store, clock)
    before = effect(store)
    clock.advance()
    held = store.take_continuation("tök-1")
    asked = action()
    assert (held.effect_key, held.rounds, held.record) == (KEY, 1, before)
    assert (held.action, held.action.action_hash) == (asked, asked.action_hash)
    assert held.action.canonical_arguments == asked.canonical_arguments
    assert held.action.principal == asked.principal
    assert effect(store) == before
    assert store.continuation_rounds(KEY) == 1
    take_refused(store, "tök-1")


def test_a_later_round_replaces_the_token(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "executing live")
    rounds = [hold(store, clock, token) for token in ("one", "two", "two")]
    assert rounds == [1, 2, 3]
    take_refused(store, "one")
    assert store.take_continuation("two").rounds == 3
    assert hold(store, clock, "three") == 4


@walk_stores("token", ["", "forged", "TÖK-1", "tök-1\x00", "tök-1 ", "\ud800", None, 7, b"x"])
def test_what_was_never_held_is_one_and_the_same_refusal(
    store: UnitStateStore, clock: FakeClock, token: Any
) -> None:
    take_refused(store, token)
    bring_about(store, clock, "executing live")
    hold(store, clock)
    take_refused(store, token)
    assert store.take_continuation("tök-1").effect_key == KEY


def test_every_held_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(held: bytes, wanted: bytes) -> bool:
        compared.append(held)
        return held == wanted

    monkeypatch.setattr(hmac, "compare_digest", compare)
    assert verdicts.find_token("ä", [("ä", 1), ("b", 2), ("", 3)]) == 1
    assert compared == ["ä".encode(), b"b", b""]


@walk_stores("token", ["", "\udcff", None, b"bytes"])
def test_only_text_can_be_held(store: UnitStateStore, clock: FakeClock, token: Any) -> None:
    bring_about(store, clock, "executing live")
    before = effect(store)
    refused("IA", lambda: hold(store, clock, token))
    assert effect(store) == before


def test_a_token_waits_for_one_effect(store: UnitStateStore, clock: FakeClock) -> None:
    for key in (KEY, "second"):
        bring_about(store, clock, "executing live", key)
    hold(store, clock, "shared")
    before = effect(store, "second")
    error = refused("IA", lambda: hold(store, clock, "shared", "second"))
    assert "shared" not in str(error)
    assert effect(store, "second") == before
    assert store.continuation_rounds("second") == 0
    store.take_continuation("shared")
    assert hold(store, clock, "shared", "second") == 1  # spent, so it is free


def test_holding_never_cuts_the_lease(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "executing live")
    held = effect(store).lease_expires_at
    assert held is not None
    refused("IA", lambda: store.hold_continuation(action(), KEY, "t", held - TICK))
    assert store.hold_continuation(action(), KEY, "t", held) == 1


def test_a_call_is_taken_at_the_last_moment_of_its_lease_and_not_after(
    store: UnitStateStore, clock: FakeClock
) -> None:
    for key in (KEY, "second"):
        bring_about(store, clock, "executing live", key)
        hold(store, clock, f"token of {key}", key)
    clock.now = effect(store).lease_expires_at or clock.now
    store.take_continuation(f"token of {KEY}")
    clock.now = (effect(store, "second").lease_expires_at or clock.now) + TICK
    before = effect(store, "second")
    with pytest.raises(AmbiguousEffect) as caught:
        store.take_continuation("token of second")
    assert (caught.value.effect_key, caught.value.action_id) == ("second", HOLDER)
    assert effect(store, "second") == before


@walk_stores("end", ["commit", "lose"])
def test_a_call_whose_effect_ended_cannot_go_on(
    store: UnitStateStore, clock: FakeClock, end: str
) -> None:
    bring_about(store, clock, "executing live")
    hold(store, clock)
    if end == "commit":
        store.commit_effect(KEY, HOLDER, None)
    else:
        store.mark_ambiguous(KEY, HOLDER, "lost")
    with pytest.raises(AmbiguousEffect):
        store.take_continuation("tök-1")


@walk_stores("taken", [True, False])
def test_the_next_attempt_counts_anew_and_the_old_token_is_dead(
    store: UnitStateStore, clock: FakeClock, taken: bool
) -> None:
    bring_about(store, clock, "executing live")
    hold(store, clock)
    hold(store, clock)
    if taken:
        store.take_continuation("tök-1")
    store.fail_effect(KEY, HOLDER, "not done")
    assert store.continuation_rounds(KEY) == 2
    store.reserve_effect(KEY, HOLDER)  # the same action once more
    store.begin_execution(KEY, HOLDER)
    take_refused(store, "tök-1")
    assert store.continuation_rounds(KEY) == 0
    assert hold(store, clock, "new") == 1
    assert store.take_continuation("new").record.attempt == 2


def test_a_token_that_an_older_build_left_opens_no_other_call(
    store: UnitStateStore, clock: FakeClock
) -> None:
    """Format 0.6.1 lets a token outlive its attempt: the call that holds the key is another."""
    bring_about(store, clock, "executing live")
    standing = effect(store)
    assert verdicts.takeable(standing, KEY, HOLDER, clock()) is None
    error = verdicts.takeable(standing, KEY, OTHER, clock())
    assert isinstance(error, AmbiguousEffect)
    assert error.action_id == HOLDER


def test_nothing_was_ever_held(store: UnitStateStore) -> None:
    assert store.continuation_rounds("nobody") == 0
    assert store.list_effects(EffectState.EXECUTING) == ()
