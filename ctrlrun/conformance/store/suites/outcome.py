"""Suite `outcome`: no refusal says that nothing happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import (
    CheckFailed,
    described,
    effect_of,
    require,
    same,
)
from ctrlrun.conformance.store.samples import (
    APPROVER,
    HOLDER,
    KEY,
    LEASE,
    OTHER,
    SECOND,
    MovableClock,
    bring_to,
    sample_action,
    sample_request,
)
from ctrlrun.effect import EffectState
from ctrlrun.errors import CTRLRunError, NotExecuted
from ctrlrun.state import StateStore


@dataclass(frozen=True, slots=True)
class _Refusal:
    """A call that must be refused, and what its key is before and after."""

    what: str
    key: str
    state: EffectState
    call: Callable[[], object]
    leaves: EffectState


def _refusals(store: StateStore, clock: MovableClock) -> list[_Refusal]:
    """Thirteen refusals on one store, each on a record of its own."""
    made: list[_Refusal] = []

    def add(
        what: str,
        state: EffectState,
        call: Callable[[str], object],
        leaves: EffectState | None = None,
    ) -> None:
        key = f"{KEY}:{len(made)}"
        bring_to(store, key, state)
        made.append(_Refusal(what, key, state, partial(call, key), leaves or state))

    add("reserve, lapsed", EffectState.EXECUTING, _by(store.reserve_effect), EffectState.AMBIGUOUS)
    clock.advance(LEASE + SECOND)
    add("reserve, committed", EffectState.COMMITTED, _by(store.reserve_effect))
    add("reserve, reserved", EffectState.RESERVED, _by(store.reserve_effect))
    add("reserve, executing", EffectState.EXECUTING, _by(store.reserve_effect))
    add("reserve, ambiguous", EffectState.AMBIGUOUS, _by(store.reserve_effect))
    add("begin, another's", EffectState.RESERVED, _by(store.begin_execution))
    add("commit, another's", EffectState.EXECUTING, _by(store.commit_effect, {"n": 1}))
    add("fail, another's", EffectState.EXECUTING, _by(store.fail_effect, "no"))
    add("mark ambiguous, another's", EffectState.EXECUTING, _by(store.mark_ambiguous, "lost"))
    add("fail, committed", EffectState.COMMITTED, partial(_own_fail, store))
    add("extend, another's", EffectState.EXECUTING, partial(_extend, store, clock))
    add("resolve, executing", EffectState.EXECUTING, partial(_resolve, store))
    add("spend and reserve, executing", EffectState.EXECUTING, partial(_spend, store, clock))
    return made


def _by(call: Callable[..., object], *rest: object) -> Callable[[str], object]:
    """The call on a key by another action."""
    return lambda key: call(key, OTHER, *rest)


def _own_fail(store: StateStore, key: str) -> None:
    store.fail_effect(key, HOLDER, "no")


def _extend(store: StateStore, clock: MovableClock, key: str) -> None:
    store.extend_lease(key, OTHER, clock() + 2 * LEASE)


def _resolve(store: StateStore, key: str) -> object:
    return store.resolve_effect(key, EffectState.FAILED, APPROVER)


def _spend(store: StateStore, clock: MovableClock, key: str) -> object:
    store.put_approval_request(sample_request("apr_1", clock()))
    store.grant_approval("apr_1", APPROVER)
    return store.consume_approval_and_reserve("apr_1", sample_action().action_hash, key, OTHER)


def no_failed_on_refusal(bench: Bench) -> None:
    clock = MovableClock()
    store = bench.open_with(clock)
    refusals = _refusals(store, clock)
    bench.detail["refusals"] = len(refusals)
    for refusal in refusals:
        _refusal_of(refusal)
        record = store.get_effect(refusal.key)
        require(record is not None, f"{refusal.what}: the refusal took the record away")
        state = effect_of(store, refusal.key).state
        require(
            state is not EffectState.FAILED,
            f"{refusal.what}: the refusal wrote failed over {refusal.state}, and a retry may act",
        )
    for refusal in refusals:
        record = effect_of(store, refusal.key)
        same(f"{refusal.what}: the state in the end", record.state, refusal.leaves)
        same(f"{refusal.what}: the action in the end", record.action_id, HOLDER)
    same("the effects that are failed", store.list_effects(EffectState.FAILED), ())
    keys = [record.effect_key for record in store.list_effects()]
    same("the keys of all effects", sorted(keys), sorted(refusal.key for refusal in refusals))


def no_not_executed(bench: Bench) -> None:
    clock = MovableClock()
    store = bench.open_with(clock)
    refusals = _refusals(store, clock)
    bench.detail["refusals"] = len(refusals)
    for refusal in refusals:
        error = _refusal_of(refusal)
        require(
            not isinstance(error, NotExecuted),
            f"{refusal.what}: the store raised NotExecuted, which only an executor may",
        )
        require(
            isinstance(error, CTRLRunError),
            f"{refusal.what}: raised {described(error)}, which is no refusal",
        )


def _refusal_of(refusal: _Refusal) -> Exception:
    try:
        returned = refusal.call()
    except Exception as error:
        return error
    raise CheckFailed(f"{refusal.what}: was not refused but returned {returned!r}")


CASES = (
    Case("no-failed-on-refusal", "no refusal makes an effect failed", no_failed_on_refusal),
    Case("no-not-executed", "no refusal is NotExecuted", no_not_executed),
)
