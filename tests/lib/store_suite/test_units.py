"""Units in every store: several calls, all of them or none."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, ApprovalMismatch, DuplicateEffect, InvalidArgument
from ctrlrun.receipt import verify_chain
from ctrlrun.state import DelegationRecord, UnitStateStore
from tests.lib.store_suite.helpers import (
    HOLDER,
    KEY,
    LEASE,
    OTHER,
    FakeClock,
    action,
    bring_about,
    effect,
    event,
    receipt,
    request,
    state_of,
)
from tests.pg.server import server_url


class Stopped(BaseException):
    """Not an Exception: what a Ctrl-C is."""


def everything(store: UnitStateStore) -> tuple[object, ...]:
    """What a store shows of itself."""
    return (
        store.list_effects(),
        store.approvals_page(limit=99).items,
        store.delegations(include_revoked=True),
        store.events(),
        store.receipts(),
        store.chain_head(),
        [store.continuation_rounds(record.effect_key) for record in store.list_effects()],
    )


def write_all(store: UnitStateStore, clock: FakeClock) -> None:
    """One of each write, over a store that `prepare` filled."""
    store.grant_approval("apr_1", "cli:ada")
    store.consume_approval_and_reserve("apr_1", action().action_hash, KEY, HOLDER)
    store.begin_execution(KEY, HOLDER)
    store.hold_continuation(action(), KEY, "token", clock() + 2 * LEASE)
    store.take_continuation("token")
    store.commit_effect(KEY, HOLDER, {"a": 1})
    store.resolve_effect("lost", EffectState.FAILED, "cli:ada")
    store.reserve_effect("lost", OTHER)
    store.put_approval_request(request(clock, "apr_new"))
    store.put_delegation(
        DelegationRecord("dlg_new", "head", 1, "{}", "agent", None, "api", clock())
    )
    store.revoke_delegation("dlg_1", by="cli:ada", at=clock())
    store.append_event(event())
    store.put_receipt(receipt(2))


def prepare(store: UnitStateStore, clock: FakeClock) -> None:
    store.put_approval_request(request(clock))
    bring_about(store, clock, "ambiguous", "lost")
    store.put_delegation(DelegationRecord("dlg_1", "head", 1, "{}", "agent", None, "api", clock()))
    store.append_event(event())
    store.put_receipt(receipt(1))


@pytest.mark.parametrize("durable", [True, False])
def test_a_unit_is_its_calls_together(
    store: UnitStateStore, clock: FakeClock, durable: bool
) -> None:
    prepare(store, clock)
    before = everything(store)

    def work() -> str:
        write_all(store, clock)
        assert store.events()[-1].event_id == 2  # a unit sees what it wrote
        return "done"

    assert store.unit(work, durable=durable) == "done"
    assert everything(store) != before
    assert state_of(store) is EffectState.COMMITTED
    assert store.chain_head() == (2, store.receipts()[-1].hash)
    assert verify_chain(store).ok


@pytest.mark.parametrize("failure", [ValueError, DuplicateEffect, Stopped])
def test_whatever_leaves_a_unit_undoes_it(
    backend: str, store: UnitStateStore, clock: FakeClock, failure: type[BaseException]
) -> None:
    prepare(store, clock)
    before = everything(store)

    def work() -> None:
        write_all(store, clock)
        raise failure(state="x") if failure is DuplicateEffect else failure("no")

    with pytest.raises(failure):
        store.unit(work, durable=True)
    assert everything(store) == before
    write_all(store, clock)  # and the store works on, with the same numbers
    skipped = 1 if backend == "postgres" else 0  # it gives no number out twice
    assert store.events()[-1].event_id == 2 + skipped
    assert verify_chain(store).ok


def lapse(store: UnitStateStore) -> None:
    store.reserve_effect(KEY, OTHER)


def expire(store: UnitStateStore) -> None:
    store.grant_approval("apr_1", "cli:ada")


def consume_expired(store: UnitStateStore) -> None:
    store.consume_approval("apr_1", action().action_hash)


def prepare_lapsed(store: UnitStateStore, clock: FakeClock, *, granted: bool) -> None:
    store.put_approval_request(request(clock))
    if granted:
        store.grant_approval("apr_1", "cli:ada")
    bring_about(store, clock, "executing lapsed")


KEPT = [
    pytest.param(lapse, AmbiguousEffect, False, id="lease"),
    pytest.param(expire, ApprovalMismatch, False, id="request"),
    pytest.param(consume_expired, ApprovalMismatch, True, id="grant"),
]


@pytest.mark.parametrize(("call", "refusal", "granted"), KEPT)
def test_a_refusal_that_is_caught_keeps_its_write_with_the_unit(
    store: UnitStateStore,
    clock: FakeClock,
    call: Callable[[UnitStateStore], None],
    refusal: type[Exception],
    granted: bool,
) -> None:
    prepare_lapsed(store, clock, granted=granted)
    before = everything(store)

    def work() -> None:
        with pytest.raises(refusal):
            call(store)
        store.append_event(event())

    store.unit(work, durable=True)
    kept = (effect(store).state, store.approvals_page(limit=1).items[0].status)
    assert EffectState.AMBIGUOUS in kept or ApprovalStatus.EXPIRED in kept
    assert len(store.events()) == 1
    assert everything(store) != before


@pytest.mark.parametrize(("call", "refusal", "granted"), KEPT)
def test_a_refusal_that_leaves_a_unit_takes_its_kept_write_along(
    store: UnitStateStore,
    clock: FakeClock,
    call: Callable[[UnitStateStore], None],
    refusal: type[Exception],
    granted: bool,
) -> None:
    prepare_lapsed(store, clock, granted=granted)
    before = everything(store)
    with pytest.raises(refusal):
        store.unit(lambda: call(store), durable=True)
    assert everything(store) == before
    with pytest.raises(refusal):
        call(store)
    assert everything(store) != before


def test_a_refused_call_leaves_a_unit_usable(store: UnitStateStore, clock: FakeClock) -> None:
    def work() -> None:
        store.reserve_effect(KEY, HOLDER)
        for attempt in (
            lambda: store.reserve_effect(KEY, OTHER),
            lambda: store.commit_effect("nobody", HOLDER, None),
            lambda: store.put_receipt(receipt(1, error="\ud800")),
            lambda: store.append_event(event(data={"x": object()})),
            lambda: store.grant_approval("nobody", "cli:ada"),
        ):
            with pytest.raises((DuplicateEffect, InvalidArgument, ApprovalMismatch)):
                attempt()
        store.put_receipt(receipt(2))

    store.unit(work, durable=True)
    assert state_of(store) is EffectState.RESERVED
    assert store.chain_head() == (1, store.receipts()[0].hash)


# --- units in units ------------------------------------------------------------------------------


def test_a_unit_inside_joins(store: UnitStateStore) -> None:
    def inner() -> int:
        return store.append_event(event()).event_id or 0

    def outer() -> list[int]:
        return [store.unit(inner, durable=True), inner(), store.unit(inner, durable=False)]

    assert store.unit(outer, durable=False) == [1, 2, 3]

    def failing() -> None:
        store.unit(outer, durable=True)
        raise ValueError

    with pytest.raises(ValueError):
        store.unit(failing, durable=True)
    assert len(store.events()) == 3


def test_a_unit_inside_that_fails_takes_only_its_own_back(store: UnitStateStore) -> None:
    def add(key: str) -> None:
        store.reserve_effect(key, HOLDER)

    def inner() -> None:
        add("inner")
        for number in range(20):  # units of its own, that were done
            store.unit(partial(add, f"innermost {number}"), durable=True)
        raise KeyError("inner")

    def outer() -> None:
        add("before")
        with pytest.raises(KeyError):
            store.unit(inner, durable=True)
        add("after")

    store.unit(outer, durable=True)
    assert {record.effect_key for record in store.list_effects()} == {"before", "after"}


def test_calls_that_a_subclass_overrides_join(
    backend: str, store: UnitStateStore, clock: FakeClock
) -> None:
    kind = type(store)

    class Counting(kind):  # type: ignore[valid-type, misc]
        calls = 0

        def append_event(self, item: object) -> object:
            self.calls += 1
            return super().append_event(item)

    counting = {
        "memory": lambda: Counting(clock=clock),
        "sqlite": lambda: Counting(store.path, clock=clock),
        "postgres": lambda: Counting(server_url(), clock=clock, schema=store.schema),
    }[backend]()

    def work() -> None:
        counting.append_event(event())
        raise ValueError

    with pytest.raises(ValueError):
        counting.unit(work, durable=True)
    assert (counting.calls, counting.events()) == (1, ())
    counting.close()


# --- threads -------------------------------------------------------------------------------------


def test_another_thread_sees_a_unit_whole_or_not_at_all(store: UnitStateStore) -> None:
    inside, seen = threading.Event(), []
    may_end = threading.Event()

    def work() -> None:
        store.append_event(event())
        inside.set()
        may_end.wait(0.2)  # the reader tries in the meantime; nothing depends on how long
        store.append_event(event())

    def read() -> None:
        inside.wait(10)
        seen.append(len(store.events()))
        may_end.set()
        seen.append(len(store.events()))

    reader = threading.Thread(target=read)
    reader.start()
    store.unit(work, durable=True)
    reader.join(10)
    assert len(seen) == 2
    assert set(seen) <= {0, 2}
    assert len(store.events()) == 2


def race(store: UnitStateStore, attempts: list[Callable[[], object]]) -> list[object]:
    """Run all at once, a thread each: what they returned or raised."""
    barrier = threading.Barrier(len(attempts))
    results: list[object] = [None] * len(attempts)

    def run(index: int) -> None:
        barrier.wait(10)
        try:
            results[index] = attempts[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(attempts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


@pytest.mark.parametrize("held", ["free", "failed"])
def test_of_eight_threads_one_gets_the_key(
    store: UnitStateStore, clock: FakeClock, held: str
) -> None:
    if held == "failed":
        bring_about(store, clock, "failed")
    results = race(store, [partial(store.reserve_effect, KEY, f"act_{n}") for n in range(8)])
    winners = [item for item in results if not isinstance(item, Exception)]
    losers = [item for item in results if isinstance(item, DuplicateEffect)]
    assert (len(winners), len(losers)) == (1, 7)
    assert effect(store).attempt == (1 if held == "free" else 2)


def test_one_approval_is_spent_by_one_of_eight_threads(
    store: UnitStateStore, clock: FakeClock
) -> None:
    store.put_approval_request(request(clock))
    store.grant_approval("apr_1", "cli:ada")
    digest = action().action_hash
    results = race(
        store,
        [
            partial(store.consume_approval_and_reserve, "apr_1", digest, f"k{n}", f"act_{n}")
            for n in range(8)
        ],
    )
    reasons = [item.reason for item in results if isinstance(item, ApprovalMismatch)]
    assert reasons == ["consumed"] * 7
    assert len(store.list_effects()) == 1


def test_one_token_is_taken_by_one_of_eight_threads(
    store: UnitStateStore, clock: FakeClock
) -> None:
    bring_about(store, clock, "executing live")
    store.hold_continuation(action(), KEY, "token", clock() + LEASE)
    results = race(store, [lambda: store.take_continuation("token")] * 8)
    assert sum(isinstance(item, InvalidArgument) for item in results) == 7
    assert sum(not isinstance(item, Exception) for item in results) == 1


def test_receipts_of_many_threads_make_one_chain(store: UnitStateStore) -> None:
    results = race(store, [partial(store.put_receipt, receipt(n)) for n in range(1, 9)])
    assert not [item for item in results if isinstance(item, Exception)]
    assert verify_chain(store).verified == 8


def test_close_can_be_repeated_and_is_no_end(store: UnitStateStore) -> None:
    store.append_event(event())
    store.close()
    store.close()
    assert store.append_event(event()).event_id == 2
    assert len(store.events()) == 2
