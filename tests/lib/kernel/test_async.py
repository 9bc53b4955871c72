"""Coroutine functions: decorated, awaited, cancelled at each of their awaits, and waiting for people.

That an awaited call leaves what a synchronous one leaves is shown by every test that takes a
`world`: one kind of it awaits its calls.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import logging
import os
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ctrlrun
from ctrlrun.action import Action, Principal
from ctrlrun.approval import Approval, ApprovalRecord, ApprovalRequest, ApprovalStatus
from ctrlrun.control import Control, context, protect, with_approval, workers
from ctrlrun.control.call import Outcome
from ctrlrun.effect import EffectState
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalRequired,
    ApprovalTimeout,
    DuplicateEffect,
    EffectKeyError,
    InvalidArgument,
    LeaseLost,
    NotExecuted,
    Suspended,
)
from ctrlrun.policy import Policy
from ctrlrun.providers import LocalApprovalProvider, ScriptedApprovalProvider
from ctrlrun.state import InMemoryStateStore, StateStore
from tests.cases import walk
from tests.lib.kernel.interrupting import (
    BEHAVIOURS,
    CANCELLED,
    Interruption,
    Remote,
    broken_promises,
    play,
)
from tests.lib.kernel.world import Clock
from tests.lib.sqlite_helpers import new_store

POLICY = Policy.from_yaml("""
schema: ctrlrun.policy/v2
actions:
  refund:
    effect: "refund:{payment_id}"
    rules:
      - when: {amount_lte: 500}
        decision: allow
      - decision: approve
  note: {decision: allow}
""")
KEY = "pay:p1"


@pytest.fixture
def store(clock: Clock) -> InMemoryStateStore:
    return InMemoryStateStore(clock=clock)


@pytest.fixture
def control(store: InMemoryStateStore, clock: Clock) -> Control:
    return Control(POLICY, store, clock=clock)


def as_agent(call: Coroutine[Any, Any, Any]) -> Any:
    """Run one coroutine, as the agent that asks."""
    with context(agent="a"):
        return asyncio.run(call)


def state_of(control: Control, key: str) -> str | None:
    record = control.store.get_effect(key)
    return None if record is None else record.state.value


async def until(condition: Callable[[], object]) -> None:
    """Let others go on until something is so; the test's timeout is the end of patience."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def requests(store: StateStore) -> list[ApprovalRecord]:
    """The approvals that were asked for."""
    asked = [e.approval_id for e in store.events() if e.type == "APPROVAL_REQUESTED"]
    return [record for each in asked if (record := store.get_approval(each or "")) is not None]


# --- @protect ------------------------------------------------------------------------------------


async def refund(payment_id: str, amount: int = 100) -> dict[str, Any]:
    await asyncio.sleep(0)
    return {"of": payment_id, "amount": amount}


class Refunds:
    async def refund(self, payment_id: str, amount: int = 100) -> dict[str, Any]:
        return await refund(payment_id, amount)

    async def __call__(self, payment_id: str, amount: int = 100) -> dict[str, Any]:
        return await refund(payment_id, amount)


@walk("function", [refund, Refunds().refund, Refunds(), functools.partial(refund, amount=7)])
def test_a_protected_coroutine_function_is_one(
    function: Callable[..., Awaitable[dict[str, Any]]],
) -> None:
    control = Control(POLICY, InMemoryStateStore())
    protected = protect("refund", control=control)(function)
    assert inspect.iscoroutinefunction(protected)
    given = as_agent(protected("p1"))
    assert given == {"of": "p1", "amount": 7 if isinstance(function, functools.partial) else 100}
    assert state_of(control, "refund:p1") == "committed"
    with pytest.raises(DuplicateEffect):
        as_agent(protected("p1"))


def test_its_type_is_that_of_the_function(control: Control) -> None:
    @protect("refund", control=control)
    async def typed(payment_id: str, amount: int) -> str:
        return f"{payment_id} {amount}"

    async def main() -> str:
        text: str = await typed("p1", amount=5)
        return text

    assert as_agent(main()) == "p1 5"


def test_it_runs_on_the_callers_loop_in_the_callers_context(control: Control) -> None:
    @protect("note", control=control)
    async def note() -> tuple[Any, str]:
        return asyncio.get_running_loop(), threading.current_thread().name

    async def main() -> None:
        assert await note() == (asyncio.get_running_loop(), threading.current_thread().name)

    as_agent(main())


def test_nobody_is_asked_for_without_a_context_or_a_key(control: Control) -> None:
    protected = protect("refund", control=control)(refund)
    with pytest.raises(ActionDenied) as caught:
        asyncio.run(protected("p1"))
    assert caught.value.reason == "no_principal"
    unkeyed = protect("refund", effect="refund:{resource}", control=control)(refund)
    with pytest.raises(EffectKeyError):
        as_agent(unkeyed("p1"))
    with pytest.raises(TypeError):
        as_agent(protected())
    assert [event.type for event in control.store.events()] == ["ACTION_PROPOSED", "ACTION_DENIED"]


def test_without_a_loop_nothing_begins(control: Control) -> None:
    action = Action("note", {}, Principal("a"))
    call = control.aexecute(action, functools.partial(refund, "p1"))
    with pytest.raises(InvalidArgument, match="asyncio loop"):
        call.send(None)
    assert control.store.events() == ()


def test_arguments_are_taken_when_the_call_is_made(control: Control) -> None:
    """What another task does to them meanwhile is another thing than what is judged."""

    @protect("note", control=control)
    async def note(rows: list[int]) -> list[int]:
        return rows

    async def main() -> list[int]:
        rows = [1]
        call = asyncio.create_task(note(rows))
        await until(control.store.events)
        rows.append(2)
        return await call

    assert as_agent(main()) == [1]


# --- the executor's own calls --------------------------------------------------------------------


def test_what_an_executor_asks_is_about_its_own_call(control: Control) -> None:
    @protect("refund", control=control)
    async def paying(payment_id: str, amount: int) -> tuple[Any, ...]:
        await ctrlrun.afence()
        ctrlrun.fence()
        await asyncio.to_thread(ctrlrun.fence)
        await asyncio.create_task(ctrlrun.afence())
        async with ctrlrun.keep_alive():
            await asyncio.sleep(0)
        return ctrlrun.remaining(), ctrlrun.idempotency_key(), ctrlrun.attempt_key()

    async def main() -> list[tuple[Any, ...]]:
        return await asyncio.gather(*(paying(f"p{number}", 5) for number in range(5)))

    told = as_agent(main())
    assert {left for left, _, _ in told} == {timedelta(minutes=4, seconds=55)}
    assert len({key for told_one in told for key in told_one[1:]}) == 10
    with pytest.raises(InvalidArgument, match="no protected call runs here"):
        asyncio.run(ctrlrun.afence())


def test_a_task_that_an_executor_leaves_behind_is_not_it_any_more(control: Control) -> None:
    left: list[asyncio.Task[None]] = []
    over = asyncio.Event()

    async def later() -> None:
        await over.wait()
        await ctrlrun.afence()

    @protect("refund", control=control)
    async def leaving(payment_id: str, amount: int) -> None:
        left.append(asyncio.create_task(later()))

    async def main() -> None:
        await leaving("p1", 5)
        over.set()
        with pytest.raises(InvalidArgument, match="no protected call runs here"):
            await left[0]

    as_agent(main())


def test_a_fence_that_finds_its_lease_over_stops_the_executor(
    control: Control, clock: Clock
) -> None:
    @protect("refund", control=control)
    async def slow(payment_id: str, amount: int) -> None:
        clock.pass_(minutes=6)
        await ctrlrun.afence()

    with pytest.raises(LeaseLost):
        as_agent(slow("p1", 5))
    assert state_of(control, "refund:p1") == "failed"


def test_a_lease_is_kept_while_the_block_runs(
    control: Control, store: InMemoryStateStore, clock: Clock
) -> None:
    def lease() -> Any:
        record = store.get_effect("refund:p1")
        assert record is not None
        return record.lease_expires_at

    @protect("refund", control=control)
    async def slow(payment_id: str, amount: int) -> None:
        begun = lease()
        async with ctrlrun.keep_alive(timedelta(milliseconds=1)):
            clock.pass_(minutes=4)
            await until(lambda: lease() == begun + timedelta(minutes=4))
        clock.pass_(minutes=1)
        beats = [each for each in threading.enumerate() if each.name == "ctrlrun-keep-alive"]
        assert beats == []
        assert lease() == begun + timedelta(minutes=4)

    as_agent(slow("p1", 5))


NESTED = [NotExecuted("declined"), Suspended("token"), TimeoutError("no reply")]


@walk("error", NESTED)
@walk("inside", ["awaited", "synchronous"])
def test_a_call_inside_says_nothing_about_the_call_around(error: Exception, inside: str) -> None:
    control = Control(POLICY, InMemoryStateStore())

    @protect("refund", effect="inner", control=control)
    async def inner(amount: int) -> None:
        raise error

    @protect("refund", effect="inner", control=control)
    def inner_plain(amount: int) -> None:
        raise error

    @protect("note", effect="outer", control=control)
    async def outer() -> None:
        if inside == "awaited":
            await inner(5)
        inner_plain(5)

    with pytest.raises(type(error)) as caught:
        as_agent(outer())
    assert caught.value is error
    assert state_of(control, "outer") == "ambiguous"
    told = control.store.get_effect("outer")
    assert told is not None
    assert (told.error or "").endswith("(raised by the call of refund inside this one)")


@walk("executor", [lambda: refund("p1"), lambda: {"of": "p1"}])
def test_an_executor_need_not_be_a_coroutine_function(executor: Callable[[], Any]) -> None:
    """One that has acted when it returns has acted."""
    control = Control(POLICY, InMemoryStateStore())
    action = Action("note", {}, Principal("a"))
    assert asyncio.run(control.aexecute(action, executor, "note:1")).result == "committed"


def test_work_that_has_still_to_run_after_the_await_is_ambiguous(control: Control) -> None:
    async def lazy() -> object:
        return refund("p1")

    action = Action("note", {}, Principal("a"))
    with pytest.raises(AmbiguousEffect, match="returned a coroutine"):
        asyncio.run(control.aexecute(action, lazy, "note:1"))
    assert state_of(control, "note:1") == "ambiguous"


# --- cancelling ----------------------------------------------------------------------------------


def stores(folder: Path, clock: Clock | None = None) -> Iterator[Any]:
    clock = clock or Clock()
    yield InMemoryStateStore(clock=clock)
    with closing(new_store(folder / "state.db", clock=clock)) as store:
        yield store


def interrupt(behaviour: str, at: int, how: str) -> bool:
    """Interrupt one call, look at what it leaves, and say whether it came to where it should be."""
    store, remote, interruption = InMemoryStateStore(), Remote(), Interruption(at, how)
    control = Control(POLICY, store)
    executor = functools.partial(remote.executor, KEY, behaviour)

    async def main() -> None:
        action = Action("note", {}, Principal("a"))
        await interruption.drive(control.aexecute(action, executor, KEY))

    with suppress(NotExecuted, TimeoutError, asyncio.CancelledError):
        asyncio.run(main())
    assert broken_promises(store, remote, (KEY,)) == []
    record = store.get_effect(KEY)
    if record is not None and not remote.begun:
        assert (record.state, record.error) == ("failed", CANCELLED)
    return interruption.happened


@walk("behaviour", sorted(set(BEHAVIOURS)))
@walk("how", ["early", "late", "close"])
def test_a_call_is_interrupted_at_each_of_its_awaits(behaviour: str, how: str) -> None:
    reached = 1
    while interrupt(behaviour, reached, how):
        reached += 1
    assert reached > 3


def test_a_call_that_has_not_begun_leaves_nothing(control: Control) -> None:
    """All workers are busy, so nothing of it has begun when it is cancelled."""
    release = threading.Event()
    busy = [workers.BEGINNING.submit(release.wait) for _ in range(8)]
    action = Action("note", {}, Principal("a"))

    async def main() -> None:
        call = asyncio.create_task(control.aexecute(action, functools.partial(refund, "p1"), KEY))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call

    try:
        asyncio.run(main())
    finally:
        release.set()
    assert all(each.result() for each in busy)
    assert control.store.events() == ()


class Gated(InMemoryStateStore):
    """A store whose unit of one kind stops at a gate, after or before its commit."""

    def __init__(self, durable: bool, *, after: bool) -> None:
        super().__init__()
        self.reached, self.opened = threading.Event(), threading.Event()
        self._durable = durable
        self._after = after

    def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
        def gate() -> None:
            if durable is self._durable:
                self.reached.set()
                self.opened.wait()

        if not self._after:
            gate()
        value = super().unit(work, durable=durable)
        if self._after:
            gate()
        return value


@walk("after", [True, False])
def test_cancelled_before_its_executor_nothing_runs_and_the_evidence_says_so(after: bool) -> None:
    store, remote = Gated(True, after=after), Remote()
    control = Control(POLICY, store)
    request = control.approvals.request(
        Action("refund", {"amount": 1000}, Principal("a")), timedelta(minutes=5)
    )
    store.grant_approval(request.request_id, "cli:local")

    async def main() -> None:
        action = Action("refund", {"amount": 1000}, Principal("a"))
        with with_approval(request.request_id):
            call = asyncio.create_task(
                control.aexecute(action, functools.partial(remote.executor, KEY, "returns"), KEY)
            )
        await until(store.reached.is_set)
        call.cancel()
        await asyncio.sleep(0)
        call.cancel()
        assert not call.done()
        store.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    record, receipt = store.get_effect(KEY), store.receipts()[-1]
    assert remote.begun == []
    assert record is not None
    assert (record.state, record.error) == ("failed", CANCELLED)
    assert (receipt.result, receipt.error) == ("failed", CANCELLED)
    assert store.events()[-1].type == "EXECUTION_FAILED"
    spent = store.get_approval(request.request_id)
    assert spent is not None
    assert spent.status is ApprovalStatus.CONSUMED
    assert broken_promises(store, remote, (KEY,)) == []


def test_cancelled_in_step_6_the_outcome_is_written_before_it_goes_on() -> None:
    store, remote = Gated(False, after=False), Remote()
    control = Control(POLICY, store)
    action = Action("note", {}, Principal("a"))

    async def main() -> None:
        executor = functools.partial(remote.executor, KEY, "returns")
        call = asyncio.create_task(control.aexecute(action, executor, KEY))
        await until(store.reached.is_set)
        for _ in range(3):
            call.cancel()
            await asyncio.sleep(0)
        assert not call.done()
        store.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert state_of(control, KEY) == "committed"

    asyncio.run(main())
    assert broken_promises(store, remote, (KEY,)) == []


class Hung:
    """An executor that has acted and hears nothing."""

    def __init__(self) -> None:
        self.acted = 0

    async def __call__(self, payment_id: str, amount: int = 100) -> None:
        self.acted += 1
        await asyncio.Event().wait()


async def timed_out(call: Coroutine[Any, Any, Any], remote: Hung) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            watch = asyncio.create_task(until(lambda: remote.acted))
            watch.add_done_callback(lambda _: limit.reschedule(asyncio.get_running_loop().time()))
            await call


async def waited_for(call: Coroutine[Any, Any, Any], remote: Hung) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(call, 0.05)


async def scope_left(call: Coroutine[Any, Any, Any], remote: Hung) -> None:
    """A scope of anyio, which cancels again and again until its task has left."""
    anyio = pytest.importorskip("anyio")
    with anyio.CancelScope() as scope:
        watch = asyncio.create_task(until(lambda: remote.acted))
        watch.add_done_callback(lambda _: scope.cancel())
        await call
    assert scope.cancelled_caught


async def sibling_failed(call: Coroutine[Any, Any, Any], remote: Hung) -> None:
    async def failing() -> None:
        await until(lambda: remote.acted)
        raise ValueError("another tool")

    with pytest.raises(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(call)
            group.create_task(failing())


@walk("leave", [timed_out, waited_for, scope_left, sibling_failed])
def test_a_caller_that_leaves_finds_the_effect_ambiguous(
    leave: Callable[[Coroutine[Any, Any, Any], Hung], Coroutine[Any, Any, Any]],
) -> None:
    control = Control(POLICY, InMemoryStateStore())
    remote = Hung()
    protected = protect("refund", control=control)(remote)

    async def main() -> None:
        await leave(protected("p1"), remote)
        if remote.acted:
            assert state_of(control, "refund:p1") == "ambiguous"
            with pytest.raises(AmbiguousEffect):
                await protected("p1")
        assert remote.acted <= 1

    as_agent(main())
    if remote.acted:
        record = control.store.get_effect("refund:p1")
        assert record is not None
        assert (record.error or "").startswith("CancelledError")


def test_a_hundred_calls_at_once_are_a_hundred_effects_or_one(tmp_path: Path) -> None:
    for number, store in enumerate(stores(tmp_path)):
        control = Control(POLICY, store)
        protected = protect("refund", control=control)(refund)

        async def main() -> None:
            several = await asyncio.gather(*(protected(f"p{n}") for n in range(100)))  # noqa: B023
            assert [each["of"] for each in several] == [f"p{n}" for n in range(100)]
            same = await asyncio.gather(
                *(protected("one") for _ in range(100)),  # noqa: B023
                return_exceptions=True,
            )
            won = [each for each in same if isinstance(each, dict)]
            lost = [each for each in same if isinstance(each, DuplicateEffect)]
            assert (len(won), len(lost)) == (1, 99)

        as_agent(main())
        assert [receipt.seq for receipt in store.receipts()] == list(range(1, 201)), number


@walk("seed", range(40))
def test_calls_that_are_cancelled_at_random_act_at_most_once(seed: int) -> None:
    broken, _ = play(InMemoryStateStore(), seed)
    assert broken == []


def forgotten(*_: object) -> None:
    """Nothing is written of a call that was cancelled before its executor."""


def licensed(self: object, error: BaseException) -> Outcome:
    """Whatever ends an executor, nothing happened."""
    return Outcome(EffectState.FAILED, error="", raised=error)


@walk(
    ("place", "fault", "found"),
    [
        ("ctrlrun.control.asynchronous._give_up", forgotten, "is still executing"),
        ("ctrlrun.control.executing.Running.outcome_of", licensed, "may have acted"),
    ],
)
def test_a_fault_that_is_planted_is_found_at_random(
    monkeypatch: pytest.MonkeyPatch, place: str, fault: Callable[..., object], found: str
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(place, fault)
        assert any(
            found in line for seed in range(300) for line in play(InMemoryStateStore(), seed)[0]
        )


def test_a_loop_that_closes_around_a_call_leaves_evidence(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, remote = InMemoryStateStore(), Hung()
    control = Control(POLICY, store)
    protected = protect("refund", control=control)(remote)
    loop = asyncio.new_event_loop()
    with context(agent="a"), caplog.at_level(logging.CRITICAL, "asyncio"):
        call = loop.create_task(protected("p1"))
        loop.run_until_complete(until(lambda: remote.acted))
        loop.close()
        del call
        gc.collect()
    assert state_of(control, "refund:p1") == "ambiguous"
    assert store.receipts()[-1].error == "GeneratorExit: "


def test_a_coroutine_that_is_collected_in_a_transaction_does_not_end_in_it(
    control: Control, store: InMemoryStateStore
) -> None:
    """Its outcome waits for the end of a transaction that is then rolled back."""
    remote = Remote()
    executor = functools.partial(remote.executor, KEY, "returns")

    async def main() -> None:
        call = control.aexecute(Action("note", {}, Principal("a")), executor, KEY)
        interruption = Interruption(2, "keep")
        await interruption.drive(call)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(ZeroDivisionError):
            patch.setattr(workers, "CLOSING_PATIENCE_S", 0.01)

            def work() -> None:
                call.close()
                raise ZeroDivisionError

            store.unit(work, durable=True)
        await until(lambda: state_of(control, KEY) == "ambiguous")

    asyncio.run(main())
    assert remote.begun == [KEY]
    assert broken_promises(store, remote, (KEY,)) == []


def test_hooks_that_hang_hold_up_no_outcome() -> None:
    """Each has lost its reply and asks the remote at once; the remote does not answer."""
    store = InMemoryStateStore()
    control = Control(POLICY, store)
    asked: list[str] = []
    answered = threading.Event()

    def hook(key: str) -> str:
        asked.append(key)
        answered.wait()
        return "unknown"

    async def lose(payment_id: str, amount: int) -> None:
        raise TimeoutError("no reply")

    lost = protect("refund", control=control, reconcile=hook, reconcile_eagerly=True)(lose)
    kept = protect("refund", control=control)(refund)

    async def main() -> None:
        losing = [asyncio.create_task(lost(f"w{n}", 5)) for n in range(30)]
        await until(lambda: len(asked) == 30)
        assert await kept("p1", 5) == {"of": "p1", "amount": 5}
        answered.set()
        ended = await asyncio.gather(*losing, return_exceptions=True)
        assert {type(each) for each in ended} == {TimeoutError}

    try:
        as_agent(main())
    finally:
        answered.set()


def test_hooks_that_await_calls_of_their_own_do_not_wait_for_each_other() -> None:
    store = InMemoryStateStore()
    control = Control(POLICY, store)
    kept = protect("refund", effect="hook:{payment_id}", control=control)(refund)
    all_there = threading.Barrier(8)

    def hook(key: str) -> str:
        all_there.wait()  # every worker is in a hook
        as_agent(kept(key))
        return "not_executed"

    async def lose(payment_id: str, amount: int) -> None:
        raise TimeoutError("no reply")

    lost = protect("refund", control=control, reconcile=hook)(lose)

    async def main() -> None:
        for _ in range(2):
            calls = (lost(f"p{n}", 5) for n in range(8))
            ended = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(each) for each in ended} == {TimeoutError}

    as_agent(main())
    assert {state_of(control, f"hook:refund:p{n}") for n in range(8)} == {"committed"}


def test_a_resumed_call_that_is_cancelled_before_its_executor_is_ambiguous() -> None:
    """What it sent before its suspension is not unsent."""
    store = Gated(True, after=True)
    control = Control(POLICY, store)
    store.opened.set()

    def later() -> None:
        raise Suspended("token")

    with pytest.raises(Suspended):
        control.execute(Action("note", {}, Principal("a")), later, KEY)
    store.opened.clear()
    store.reached.clear()

    async def main() -> None:
        call = asyncio.create_task(control.aresume("token", functools.partial(refund, "p1")))
        await until(store.reached.is_set)
        call.cancel()
        await asyncio.sleep(0)
        store.opened.set()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    record = store.get_effect(KEY)
    assert record is not None
    assert (record.state, record.error) == ("ambiguous", CANCELLED)


# --- waiting for a person ------------------------------------------------------------------------


class Blocking:
    """A provider of somebody else: its wait holds a thread until somebody answers."""

    def __init__(self, store: StateStore) -> None:
        self._local = LocalApprovalProvider(store)
        self.waiting = 0
        self.answered = threading.Event()

    def request(self, action: Action, ttl: timedelta) -> ApprovalRequest:
        return self._local.request(action, ttl)

    def wait(self, request_id: str, timeout: timedelta | None) -> Approval | None:
        self.waiting += 1
        self.answered.wait()
        return None


QUICK = timedelta(milliseconds=2)


@walk(("step", "result"), [("grant", "committed"), ("deny", "denied")])
@walk("local", [True, False])
def test_a_wait_presents_the_answer_of_the_same_action(step: str, result: str, local: bool) -> None:
    store = InMemoryStateStore()
    provider: Any = (
        LocalApprovalProvider(store, poll_interval=QUICK)
        if local
        else ScriptedApprovalProvider(store, ["pending", step])
    )
    control = Control(POLICY, store, provider)
    protected = protect("refund", wait=True, control=control)(refund)

    async def main() -> None:
        call = asyncio.create_task(protected("p1", 1000))
        if local:
            await until(lambda: requests(store))
            request = requests(store)[0]
            answer = store.grant_approval if step == "grant" else store.deny_approval
            answer(request.approval_id, "cli:local")
        if result == "denied":
            with pytest.raises(ActionDenied):
                await call
        else:
            assert await call == {"of": "p1", "amount": 1000}

    as_agent(main())
    assert store.receipts()[-1].result == result
    proposed = [e.action_id for e in store.events() if e.type == "ACTION_PROPOSED"]
    assert proposed[0] == proposed[1]


def test_a_wait_that_ends_unanswered_leaves_the_request_pending() -> None:
    store = InMemoryStateStore()
    control = Control(POLICY, store, ScriptedApprovalProvider(store, []))
    protected = protect("refund", wait=True, control=control)(refund)
    with pytest.raises(ApprovalTimeout):
        as_agent(protected("p1", 1000))
    assert [each.status for each in requests(store)] == [ApprovalStatus.PENDING]


@walk("kind", ["local", "blocking"])
def test_a_cancelled_wait_leaves_its_request_and_later_answers_run_nothing(kind: str) -> None:
    store = InMemoryStateStore()
    blocking = Blocking(store)
    provider: Any = LocalApprovalProvider(store, poll_interval=QUICK)
    control = Control(POLICY, store, provider if kind == "local" else blocking)
    protected = protect("refund", wait=True, control=control)(refund)

    async def main() -> None:
        call = asyncio.create_task(protected("p1", 1000))
        await until(lambda: requests(store))
        await until(lambda: kind == "local" or blocking.waiting)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert requests(store)[0].status is ApprovalStatus.PENDING
        store.grant_approval(requests(store)[0].approval_id, "cli:local")
        blocking.answered.set()
        await asyncio.sleep(QUICK.total_seconds() * 3)

    as_agent(main())
    assert requests(store)[0].status is ApprovalStatus.GRANTED
    assert (store.receipts(), state_of(control, "refund:p1")) == ((), None)


@walk("kind", ["local", "blocking"])
def test_two_hundred_waiting_calls_hold_up_no_other(kind: str) -> None:
    store = InMemoryStateStore()
    blocking = Blocking(store)
    provider: Any = LocalApprovalProvider(store, poll_interval=timedelta(seconds=0.2))
    control = Control(POLICY, store, provider if kind == "local" else blocking)
    protected = protect("refund", wait=True, control=control)(refund)

    async def main() -> None:
        waiting = [asyncio.create_task(protected(f"w{n}", 1000)) for n in range(200)]
        await until(lambda: len(requests(store)) == 200)
        await until(lambda: kind == "local" or blocking.waiting == 200)
        assert await protected("p1", 5) == {"of": "p1", "amount": 5}
        for call in waiting:
            call.cancel()
        ended = await asyncio.gather(*waiting, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}

    try:
        as_agent(main())
    finally:
        blocking.answered.set()


def test_waiting_is_for_ones_own_request_only() -> None:
    store = InMemoryStateStore()
    provider = ScriptedApprovalProvider(store, [])
    control = Control(POLICY, store, provider)
    inner = protect("refund", control=control)(refund)

    @protect("note", wait=True, control=control)
    async def outer() -> None:
        await inner("p1", 1000)

    with pytest.raises(ApprovalRequired):
        as_agent(outer())
    assert provider.polls == 0


# --- threads and processes -----------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_workers_of_its_own() -> None:
    store = InMemoryStateStore()
    control = Control(POLICY, store)
    protected = protect("refund", control=control)(refund)
    as_agent(protected("parent"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads is the point
        pid = os.fork()
    if pid == 0:
        with suppress(BaseException):
            os._exit(0 if as_agent(protected("child"))["of"] == "child" else 1)
        os._exit(2)
    assert os.waitpid(pid, 0)[1] == 0
