"""Suite `durability`: what was written is there for the next handle."""

from __future__ import annotations

from functools import partial

from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import effect_of, refused, same
from ctrlrun.conformance.store.samples import HOLDER, KEY, OTHER, bring_to
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.errors import AmbiguousEffect, DuplicateEffect
from ctrlrun.state import StateStore

_RESOLVER = "human:ada"


def ambiguous_survives(bench: Bench) -> None:
    kept: list[EffectRecord] = []

    def write(store: StateStore) -> None:
        bring_to(store, KEY, EffectState.AMBIGUOUS)
        kept.append(effect_of(store, KEY))

    again = bench.reopened(write)
    same(f"the record of {KEY} in the next handle", effect_of(again, KEY), kept[0])
    call = partial(again.reserve_effect, KEY, OTHER)
    refused("reserving what another handle left ambiguous", call, AmbiguousEffect)
    same("the record after that", effect_of(again, KEY), kept[0])


def terminal_states_survive(bench: Bench) -> None:
    kept: list[EffectRecord] = []
    closed: list[StateStore] = []
    states = (EffectState.COMMITTED, EffectState.FAILED)

    def write(store: StateStore) -> None:
        closed.append(store)
        for state in states:
            bring_to(store, f"{KEY}:{state}", state)
            kept.append(effect_of(store, f"{KEY}:{state}"))

    again = bench.reopened(write)
    for before in kept:
        key = before.effect_key
        same(f"the record of {key} in the next handle", effect_of(again, key), before)
    call = partial(again.reserve_effect, f"{KEY}:committed", OTHER)
    refused("reserving what another handle committed", call, DuplicateEffect, state="committed")
    renewed = again.reserve_effect(f"{KEY}:failed", OTHER)
    same("the attempt after one that failed in another handle", renewed.attempt, 2)
    _closing_is_no_fence(closed[0], again)


def _closing_is_no_fence(closed: StateStore, other: StateStore) -> None:
    key = f"{KEY}:late"
    bring_to(closed, key, EffectState.COMMITTED)
    same(
        "what was written after close(), in another handle",
        effect_of(other, key).state,
        "committed",
    )


def resolver_survives(bench: Bench) -> None:
    kept: list[EffectRecord] = []

    def write(store: StateStore) -> None:
        bring_to(store, KEY, EffectState.AMBIGUOUS, HOLDER)
        kept.append(store.resolve_effect(KEY, EffectState.COMMITTED, _RESOLVER))

    again = bench.reopened(write)
    record = effect_of(again, KEY)
    same("resolved_by in the next handle", record.resolved_by, _RESOLVER)
    same(f"the record of {KEY} in the next handle", record, kept[0])


CASES = (
    Case("ambiguous-survives", "what nobody knows is still unknown", ambiguous_survives),
    Case("terminal-states-survive", "committed and failed stay so", terminal_states_survive),
    Case("resolver-survives", "who resolved it is still known", resolver_survives),
)
