"""Suite `resolution`: what nobody knows is answered by a name, and nothing else is."""

from __future__ import annotations

from functools import partial
from typing import Any

from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import effect_of, refused, same, unmoved
from ctrlrun.conformance.store.samples import KEY, OTHER, bring_to
from ctrlrun.effect import EffectState
from ctrlrun.errors import DuplicateEffect, InvalidArgument

_RESOLVER = "human:ada"
_ANSWERS = (EffectState.COMMITTED, EffectState.FAILED)
_BAD_NAMES = ("", "ada\nlee", "ada\tlee", "ada\u202elee")


def only_ambiguous(bench: Bench) -> None:
    store = bench.open()
    for state in (
        EffectState.COMMITTED,
        EffectState.RESERVED,
        EffectState.EXECUTING,
        EffectState.FAILED,
    ):
        key = f"{KEY}:{state}"
        bring_to(store, key, state)
        before = effect_of(store, key)
        for answer in _ANSWERS:
            what = f"resolving an effect that is {state} to {answer}"
            refused(what, partial(store.resolve_effect, key, answer, _RESOLVER), InvalidArgument)
            unmoved(store, key, before, what)
    what = "resolving an effect that has no record"
    call = partial(store.resolve_effect, f"{KEY}:absent", EffectState.COMMITTED, _RESOLVER)
    refused(what, call, InvalidArgument)
    unmoved(store, f"{KEY}:absent", None, what)


def two_resolutions(bench: Bench) -> None:
    store = bench.open()
    for answer in _ANSWERS:
        key = f"{KEY}:{answer}"
        bring_to(store, key, EffectState.AMBIGUOUS)
        before = effect_of(store, key)
        others: list[Any] = [state for state in EffectState if state not in _ANSWERS]
        for other in [*others, "resolved"]:
            what = f"resolving to {other}"
            refused(what, partial(store.resolve_effect, key, other, _RESOLVER), InvalidArgument)
            unmoved(store, key, before, what)
        resolved = store.resolve_effect(key, answer, _RESOLVER)
        same("the state that resolve_effect returned", resolved.state, answer)
        same("the stored record", effect_of(store, key), resolved)
        for again in _ANSWERS:
            what = "resolving once more"
            refused(what, partial(store.resolve_effect, key, again, OTHER), InvalidArgument)
            unmoved(store, key, resolved, what)
    refused(
        "retrying what was resolved to committed",
        partial(store.reserve_effect, f"{KEY}:committed", OTHER),
        DuplicateEffect,
        state="committed",
    )
    renewed = store.reserve_effect(f"{KEY}:failed", OTHER)
    same("the attempt after what was resolved to failed", renewed.attempt, 2)


def resolution_attribution(bench: Bench) -> None:
    store = bench.open()
    bring_to(store, f"{KEY}:untouched", EffectState.COMMITTED)
    untouched = effect_of(store, f"{KEY}:untouched")
    same("resolved_by of what nobody resolved", untouched.resolved_by, None)
    bring_to(store, KEY, EffectState.AMBIGUOUS)
    before = effect_of(store, KEY)
    for name in _BAD_NAMES:
        what = f"resolving under the name {name!a}"
        call = partial(store.resolve_effect, KEY, EffectState.FAILED, name)
        refused(what, call, InvalidArgument)
        unmoved(store, KEY, before, what)
    resolved = store.resolve_effect(KEY, EffectState.FAILED, _RESOLVER)
    same("resolved_by as returned", resolved.resolved_by, _RESOLVER)
    same("resolved_by as stored", effect_of(store, KEY).resolved_by, _RESOLVER)
    store.reserve_effect(KEY, OTHER)
    same("resolved_by after a retry", effect_of(store, KEY).resolved_by, None)


CASES = (
    Case("only-ambiguous", "only what is ambiguous can be resolved", only_ambiguous),
    Case("two-resolutions", "to committed or failed, once", two_resolutions),
    Case(
        "resolution-attribution",
        "who resolved it is kept, for that attempt",
        resolution_attribution,
    ),
)
