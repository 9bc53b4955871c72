"""Suite `continuation`: a suspended call goes on once, while its lease lives."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from ctrlrun.clock import utc_now
from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import effect_is, effect_of, refused, same, unmoved
from ctrlrun.conformance.store.contest import one_winner
from ctrlrun.conformance.store.samples import (
    HOLDER,
    HOUR,
    KEY,
    LEASE,
    OTHER,
    SECOND,
    MovableClock,
    bring_to,
    sample_action,
)
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, DuplicateEffect, InvalidArgument

_TOKEN = "token-1"


def taken_once_cross_process(bench: Bench) -> None:
    bench.need_processes()
    store = bench.open()
    bring_to(store, KEY, EffectState.EXECUTING)
    store.hold_continuation(sample_action(), KEY, _TOKEN, utc_now() + HOUR)
    told = [
        {"continuation": _TOKEN, "name": f"process {index}"} for index in range(bench.processes)
    ]
    outcomes = bench.contest("take", [told]).rounds[0]
    one_winner(outcomes, "processes that take one continuation", InvalidArgument)
    effect_is(store, KEY, EffectState.EXECUTING, HOLDER)
    again = partial(store.take_continuation, _TOKEN)
    refused("taking it after that", again, InvalidArgument)


def one_resumption(bench: Bench) -> None:
    clock = MovableClock()
    store = bench.open_with(clock)
    action = sample_action()
    bring_to(store, KEY, EffectState.EXECUTING)
    same("the rounds of what was never held", store.continuation_rounds(KEY), 0)
    same("the first round", store.hold_continuation(action, KEY, _TOKEN, clock() + LEASE), 1)
    held = store.take_continuation(_TOKEN)
    same("the key of what was taken", held.effect_key, KEY)
    same("the action of what was taken", held.action.action_hash, action.action_hash)
    same("the round of what was taken", held.rounds, 1)
    same("the record of what was taken", held.record, effect_of(store, KEY))
    what = "taking a continuation a second time"
    refused(what, partial(store.take_continuation, _TOKEN), InvalidArgument)
    effect_is(store, KEY, EffectState.EXECUTING, HOLDER)
    for number, token in enumerate(("token-2", "token-3"), 2):
        rounds = store.hold_continuation(action, KEY, token, clock() + LEASE)
        same("the round of holding again", rounds, number)
    for token, word in (("token-2", "superseded"), ("forged", "forged"), ("", "empty")):
        what = f"taking a {word} continuation"
        refused(what, partial(store.take_continuation, token), InvalidArgument)
    other = f"{KEY}:other"
    bring_to(store, other, EffectState.EXECUTING)
    what = "holding a continuation that another effect waits for"
    call = partial(store.hold_continuation, action, other, "token-3", clock() + LEASE)
    refused(what, call, InvalidArgument)
    same(f"{what}: the rounds", store.continuation_rounds(other), 0)
    clock.advance(LEASE + SECOND)
    lapsed = partial(store.take_continuation, "token-3")
    refused("taking a continuation after its lease lapsed", lapsed, AmbiguousEffect)
    same("the rounds after that", store.continuation_rounds(KEY), 3)


def extend_lease_refusals(bench: Bench) -> None:
    clock = MovableClock()
    store = bench.open_with(clock)
    lapsed, reserved, executing, committed, absent = (f"{KEY}:{word}" for word in "abcde")
    bring_to(store, lapsed, EffectState.EXECUTING)
    clock.advance(LEASE + SECOND)
    bring_to(store, reserved, EffectState.RESERVED)
    bring_to(store, executing, EffectState.EXECUTING)
    bring_to(store, committed, EffectState.COMMITTED)
    later = clock() + 2 * LEASE
    busy = (DuplicateEffect, {"state": "in_progress"})
    table: tuple[tuple[str, str, str, datetime, tuple[type[Exception], dict[str, str]]], ...] = (
        ("that is only reserved", reserved, HOLDER, later, busy),
        ("of another action", executing, OTHER, later, busy),
        ("that lapsed", lapsed, HOLDER, later, (AmbiguousEffect, {})),
        ("of no record", absent, HOLDER, later, (AmbiguousEffect, {})),
        (
            "of what is committed",
            committed,
            HOLDER,
            later,
            (DuplicateEffect, {"state": "committed"}),
        ),
        ("to a time that is past", executing, HOLDER, clock(), (InvalidArgument, {})),
        (
            "to a time without an offset",
            executing,
            HOLDER,
            later.replace(tzinfo=None),
            (InvalidArgument, {}),
        ),
        ("to an earlier end", executing, HOLDER, clock() + SECOND, (InvalidArgument, {})),
    )
    for word, key, name, until, (kind, facts) in table:
        before = store.get_effect(key)
        what = f"extending a lease {word}"
        refused(what, partial(store.extend_lease, key, name, until), kind, **facts)
        unmoved(store, key, before, what)
    store.extend_lease(executing, HOLDER, later)
    same("the lease that was extended", effect_of(store, executing).lease_expires_at, later)
    clock.advance(LEASE + SECOND)
    call = partial(store.reserve_effect, executing, OTHER)
    refused("reserving under an extended lease", call, DuplicateEffect, state="in_progress")


CASES = (
    Case("taken-once-cross-process", "one of several processes takes it", taken_once_cross_process),
    Case("one-resumption", "each round is taken once", one_resumption),
    Case("extend-lease-refusals", "only a live executor extends its lease", extend_lease_refusals),
)
