"""A result that has still to run never commits, and what nobody would await is refused."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

import ctrlrun
from ctrlrun.control import Control, context, protect
from ctrlrun.errors import AmbiguousEffect, InvalidArgument
from tests.cases import walk
from tests.lib.kernel.world import Sink, World

Make = Callable[..., World]

acted: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_acts() -> Iterator[None]:
    """Nothing in this file acts, and no coroutine is left to be warned about."""
    acted.clear()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
        gc.collect()
    assert acted == []


async def send() -> str:
    acted.append("sent")
    return "re_1"


def lines() -> Iterator[str]:
    acted.append("sent")
    yield "re_1"


async def stream() -> AsyncIterator[str]:
    acted.append("sent")
    yield "re_1"


class Later:
    """Awaitable, and no coroutine: a future of some client."""

    def __await__(self) -> Generator[None, None, str]:
        acted.append("sent")
        yield
        return "re_1"


class Client:
    async def send(self) -> str:
        return await send()

    async def __call__(self) -> str:
        return await send()


@functools.wraps(send)
def wrapper() -> Awaitable[str]:
    return send()


def begun_and_hostile() -> Iterator[str]:
    def work() -> Iterator[str]:
        try:
            yield "re_1"
        finally:
            raise SystemExit("from finally")

    begun = work()
    next(begun)
    return begun


@contextlib.contextmanager
def entered() -> Iterator[str]:
    acted.append("sent")
    yield "re_1"


@contextlib.asynccontextmanager
async def entered_later() -> AsyncIterator[str]:
    acted.append("sent")
    yield "re_1"


RESULTS: list[tuple[Callable[[], object], str]] = [
    (send, "a coroutine"),
    (lambda: send(), "a coroutine"),
    (functools.partial(send), "a coroutine"),
    (wrapper, "a coroutine"),
    (Client().send, "a coroutine"),
    (Client(), "a coroutine"),
    (Later, "an awaitable"),
    (lines, "a generator"),
    (lambda: (line for line in ("re_1",)), "a generator"),
    (begun_and_hostile, "a generator"),
    (stream, "an async generator"),
    (entered, "a context manager"),
    (entered_later, "a context manager"),
    (Future, "a future"),
    (lambda: map(acted.append, ["sent"]), "a map object"),
    (lambda: [send(), send()], "a list that holds a coroutine"),
    (lambda: ("re_1", Later()), "a tuple that holds an awaitable"),
    (lambda: {"status": 202, "reply": send()}, "a dict that holds a coroutine"),
]


@walk(("executor", "kind"), RESULTS)
@walk("key", ["pay:p1", None])
def test_work_that_has_still_to_run_is_ambiguous(
    world: Make, executor: Callable[[], object], kind: str, key: str | None
) -> None:
    w = world()
    error = w.caught(key=key, executor=executor)
    assert isinstance(error, AmbiguousEffect)
    assert (error.effect_key, error.action_id) == (key, w.calls[0])
    assert str(error).startswith(f"the executor of pay returned {kind}, so nobody knows")
    assert w.codes() == f"PROP EVAL {'RES ' if key else ''}START AMB"
    assert w.store.events()[-1].data == {"error": str(error)}
    assert (w.last.result, w.last.error) == ("ambiguous", str(error))
    if key:
        assert (w.state(), w.store.get_effect(key).error) == ("ambiguous", str(error))
        assert isinstance(w.caught(), AmbiguousEffect)


def test_a_hook_is_not_asked_at_once_about_work_that_may_still_run(world: Make) -> None:
    w = world()
    asked: list[str] = []

    def hook(key: str) -> str:
        asked.append(key)
        return "not_executed"

    options: dict[str, Any] = {"reconcile": hook, "reconcile_eagerly": True}
    assert isinstance(w.caught(executor=Later, **options), AmbiguousEffect)
    assert (asked, w.state()) == ([], "ambiguous")
    assert w.run(**options).attempt == 2


def test_observing_closes_nothing_and_says_that_nobody_knows(world: Make) -> None:
    w = world("observe")
    kept: list[Any] = []

    def executor() -> object:
        kept.append(send())
        return kept[0]

    receipt = w.run(executor=executor)
    assert (receipt.result, receipt.execution, w.state()) == ("observed", "ambiguous", "ambiguous")
    assert "returned a coroutine" in (receipt.error or "")
    handed_on = protect("pay", control=w.control)(wrapper)
    with context(agent="a"):
        kept.append(handed_on())
    assert [asyncio.run(each) for each in kept] == ["re_1", "re_1"]
    acted.clear()


def test_a_decorated_function_that_hands_on_a_coroutine(world: Make) -> None:
    w = world()

    @protect("pay", effect="pay:{payment_id}", control=w.control)
    def pay(payment_id: str, amount: int) -> Awaitable[str]:
        return send()

    with context(agent="a"), pytest.raises(AmbiguousEffect, match="returned a coroutine"):
        pay("p1", 5)
    assert (w.state(), w.last.result) == ("ambiguous", "ambiguous")


def test_a_resumed_call_is_held_to_the_same(world: Make) -> None:
    w = world()

    def later() -> None:
        raise ctrlrun.Suspended("token")

    assert isinstance(w.caught(executor=later), ctrlrun.Suspended)
    with pytest.raises(AmbiguousEffect, match="returned a coroutine"):
        w.control.resume("token", send)
    assert w.state() == "ambiguous"


async def ask(key: str) -> str:
    return "not_executed"


@walk("hook", [ask, functools.partial(ask), lambda key: ask(key)])
def test_an_async_hook_is_refused_or_taken_for_no_answer(
    world: Make, hook: Callable[[str], object]
) -> None:
    w = world()
    w.caught(executor=lambda: 1 / 0)
    before = len(w.store.events())
    error = w.caught(reconcile=hook)
    if getattr(hook, "__name__", "") == "<lambda>":
        assert w.codes(before) == "PROP EVAL RST RRS REF"
        assert w.store.events()[-2].data["reason"] == "invalid_return"
    else:
        assert isinstance(error, InvalidArgument)
        assert len(w.store.events()) == before
        with pytest.raises(InvalidArgument, match="reconcile must be a synchronous function"):
            protect("pay", reconcile=hook)
    assert w.state() == "ambiguous"


class AsyncSink(Sink):
    async def on_event(self, event: ctrlrun.Event) -> None: ...  # type: ignore[override]


class AsyncReceipts(Sink):
    async def on_receipt(self, receipt: ctrlrun.Receipt) -> None: ...  # type: ignore[override]


class AsyncProvider:
    async def request(self, action: object, ttl: object) -> None: ...
    def wait(self, request_id: str, timeout: object) -> None: ...


class AsyncIdentity:
    async def resolve(self, context: object) -> None: ...


@walk(
    ("options", "role"),
    [
        ({"sinks": [Sink(), AsyncSink()]}, "on_event"),
        ({"sinks": [AsyncReceipts()]}, "on_receipt"),
        ({"approvals": AsyncProvider()}, "request"),
        ({"identity": AsyncIdentity()}, "resolve"),
    ],
)
def test_async_parts_are_refused_at_construction(
    world: Make, options: dict[str, Any], role: str
) -> None:
    w = world()
    with pytest.raises(InvalidArgument, match=rf"{role}.* must be a synchronous function"):
        Control(w.policy, w.store, clock=w.clock, **options)
