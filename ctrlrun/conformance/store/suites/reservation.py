"""Suite `reservation`: one attempt at a time holds a key."""

from __future__ import annotations

from functools import partial

from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import (
    effect_is,
    effect_of,
    refused,
    require,
    same,
    unmoved,
)
from ctrlrun.conformance.store.contest import among_threads, one_winner
from ctrlrun.conformance.store.samples import (
    HOLDER,
    KEY,
    LEASE,
    OTHER,
    SECOND,
    MovableClock,
    bring_to,
)
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, DuplicateEffect
from ctrlrun.state import StateStore

_THREADS = 8
_ROUNDS = 12


def e1_in_process(bench: Bench) -> None:
    store = bench.open()
    bench.detail.update(threads=_THREADS, rounds=_ROUNDS)
    for number in range(_ROUNDS):
        key = f"{KEY}:{number}"
        names = [f"act_{number}_{index}" for index in range(_THREADS)]
        outcomes = among_threads({name: partial(store.reserve_effect, key, name) for name in names})
        winner = one_winner(
            outcomes, f"threads that reserve {key}", DuplicateEffect, AmbiguousEffect
        )
        effect_is(store, key, EffectState.RESERVED, winner.name)
        same(f"the attempt of {key}", effect_of(store, key).attempt, 1)


def e1_cross_process(bench: Bench) -> None:
    bench.need_processes()
    store = bench.open()
    told = [{"effect_key": KEY, "name": f"act_{index}"} for index in range(bench.processes)]
    result = bench.contest("reserve", [told])
    winner = one_winner(
        result.rounds[0], f"processes that reserve {KEY}", DuplicateEffect, AmbiguousEffect
    )
    same("how often the remote was called", result.remote_calls, 1)
    effect_is(store, KEY, EffectState.COMMITTED, winner.name)
    same(f"the result of {KEY}", effect_of(store, KEY).result, {"by": winner.name})


def retry_table(bench: Bench) -> None:
    store = bench.open()
    for state, word in (
        (EffectState.COMMITTED, "committed"),
        (EffectState.RESERVED, "in_progress"),
        (EffectState.EXECUTING, "in_progress"),
    ):
        key = f"{KEY}:{state}"
        bring_to(store, key, state)
        before = effect_of(store, key)
        result = {"charge": "ch_7", "amount": 50000} if state is EffectState.COMMITTED else None
        same(f"the result of {key}", before.result, result)
        for name in (OTHER, HOLDER):
            what = f"reserving a key that is {state}"
            refused(what, partial(store.reserve_effect, key, name), DuplicateEffect, state=word)
            unmoved(store, key, before, what)
    _ambiguous_is_refused(store)
    _failed_is_renewed(store)


def _ambiguous_is_refused(store: StateStore) -> None:
    key = f"{KEY}:ambiguous"
    bring_to(store, key, EffectState.AMBIGUOUS)
    before = effect_of(store, key)
    what = "reserving a key that is ambiguous"
    for name in (OTHER, HOLDER):
        refused(what, partial(store.reserve_effect, key, name), AmbiguousEffect, effect_key=key)
        unmoved(store, key, before, what)


def _failed_is_renewed(store: StateStore) -> None:
    key = f"{KEY}:failed"
    bring_to(store, key, EffectState.FAILED)
    before = effect_of(store, key)
    same(f"the error of {key}", before.error, "the card was declined")
    reservation = store.reserve_effect(key, OTHER)
    same("the attempt after a failed one", reservation.attempt, 2)
    effect_is(store, key, EffectState.RESERVED, OTHER)
    record = effect_of(store, key)
    same("the stored attempt after a failed one", record.attempt, 2)
    same("created_at after a failed attempt", record.created_at, before.created_at)
    same("the error after a failed attempt", record.error, None)
    same("the lease of the record", record.lease_expires_at, reservation.lease_expires_at)


def lease_expiry(bench: Bench) -> None:
    clock = MovableClock()
    store = bench.open_with(clock)
    bring_to(store, f"{KEY}:late", EffectState.EXECUTING)
    states = (EffectState.RESERVED, EffectState.EXECUTING)
    for state in states:
        bring_to(store, f"{KEY}:{state}", state)
    clock.advance(LEASE)
    for state in states:
        call = partial(store.reserve_effect, f"{KEY}:{state}", OTHER)
        what = f"reserving a key that is {state}, exactly when its lease ends"
        refused(what, call, DuplicateEffect, state="in_progress")
    clock.advance(SECOND)
    for state in states:
        key = f"{KEY}:{state}"
        same("the state after a lapse that nobody contended", effect_of(store, key).state, state)
        what = f"reserving a key that is {state} after its lease lapsed"
        for _ in range(2):
            refused(what, partial(store.reserve_effect, key, OTHER), AmbiguousEffect)
            effect_is(store, key, EffectState.AMBIGUOUS, HOLDER)
        record = effect_of(store, key)
        same("the attempt that lapsed", record.attempt, 1)
        same("the lease of what lapsed", record.lease_expires_at, None)
        require(bool(record.error), f"{key} lapsed, and its record has no error that says so")
    store.commit_effect(f"{KEY}:late", HOLDER, None)  # late, and nobody contended
    effect_is(store, f"{KEY}:late", EffectState.COMMITTED, HOLDER)


CASES = (
    Case("e1-in-process", "one of several threads reserves a key", e1_in_process),
    Case("e1-cross-process", "one of several processes acts on a key", e1_cross_process),
    Case("retry-table", "what a retry is told, by the state of the record", retry_table),
    Case("lease-expiry", "a lapsed lease is ambiguous, and never free", lease_expiry),
)
