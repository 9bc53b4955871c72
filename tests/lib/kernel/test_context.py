"""`context` and `with_approval` as blocks and as decorators."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, Generator
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.control import Control, context, protect, with_approval, workers
from ctrlrun.control.ambient import ambient_principal, presented_approval
from ctrlrun.control.identifying import no_principal
from ctrlrun.errors import ActionDenied
from ctrlrun.identity import IdentityContext
from ctrlrun.policy import Policy
from ctrlrun.state import InMemoryStateStore


def agent() -> str | None:
    """Whose call a protected call would be."""
    principal = ambient_principal()
    return None if principal is None else principal.agent


def test_decorated_generator_has_the_principal_at_each_step_and_its_driver_does_not() -> None:
    seen: list[Any] = []

    @context(agent="bot")
    def steps(first: str) -> Generator[str, str, str]:
        seen.append(agent())
        try:
            seen.append((yield first))
        except KeyError:
            seen.append(("caught", agent()))
        try:
            yield "second"
        finally:
            seen.append(agent())
        return "returned"

    running = steps("first")
    assert (next(running), agent()) == ("first", None)
    assert (running.throw(KeyError("k")), agent()) == ("second", None)
    with pytest.raises(StopIteration) as stopped:
        next(running)
    assert stopped.value.value == "returned"
    assert seen == ["bot", ("caught", "bot"), "bot"]

    seen.clear()
    running = steps("first")
    next(running)
    assert running.send("sent") == "second"
    running.close()
    assert (seen, agent()) == (["bot", "sent", "bot"], None)


def test_decorated_async_generator_has_the_principal_at_each_step() -> None:
    seen: list[Any] = []

    @context(agent="bot")
    async def steps() -> AsyncGenerator[str, str]:
        try:
            seen.append((yield "first"))
            await asyncio.sleep(0)
            seen.append(agent())
            yield "second"
        except KeyError:
            yield "caught"
        finally:
            seen.append(agent())

    async def main() -> None:
        running = steps()
        assert (await anext(running), agent()) == ("first", None)
        assert (await running.asend("sent"), agent()) == ("second", None)
        assert (await running.athrow(KeyError("k")), agent()) == ("caught", None)
        await running.aclose()
        assert agent() is None

    asyncio.run(main())
    assert seen == ["sent", "bot", "bot"]


def test_decorated_functions_and_coroutine_functions_have_the_principal() -> None:
    @context(agent="bot")
    def plain() -> str | None:
        return agent()

    @context(agent="bot")
    async def coroutine() -> str | None:
        await asyncio.sleep(0)
        return agent()

    @with_approval("apr_1")
    def presents() -> str | None:
        return presented_approval()

    assert (plain(), asyncio.run(coroutine()), presents()) == ("bot", "bot", "apr_1")
    assert (agent(), presented_approval(), plain.__name__) == (None, None, "plain")


def test_one_object_can_be_entered_again() -> None:
    bot = context(agent="bot")
    with bot, context(agent="inner"):
        with bot:
            assert agent() == "bot"
        assert agent() == "inner"
    assert agent() is None


@pytest.mark.parametrize("block", [context("bot"), with_approval("apr_1")])
def test_block_left_in_another_context_does_not_hide_its_exception(block: Any) -> None:
    def body() -> Generator[None, None, None]:
        with block:
            yield
            raise KeyError("the program's own")

    running = body()
    contextvars.copy_context().run(next, running)
    with pytest.raises(KeyError, match="the program's own"):
        next(running)
    assert (agent(), presented_approval()) == (None, None)


def test_blocks_left_out_of_order_restore_what_is_still_entered() -> None:
    first, second = context("first"), context("second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert agent() == "second"
    second.__exit__(None, None, None)
    assert agent() is None


def test_refusal_in_a_bare_thread_names_what_carries_the_principal() -> None:
    said: list[str] = []

    def work() -> None:
        said.append(str(no_principal("pay")))

    with context("bot"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "contextvars.copy_context().run" in said[0]
    assert "asyncio.to_thread" in said[0]
    assert "thread" not in str(no_principal("pay"))


class Nobody:
    """An identity provider that finds no credential."""

    def resolve(self, context: IdentityContext) -> Principal | None:
        return None


async def pays(amount: int) -> None: ...


@pytest.mark.parametrize("identified", [False, True])
@pytest.mark.parametrize("in_a_bare_thread", [False, True])
@pytest.mark.parametrize("inside_a_hook", [False, True])
def test_refusal_of_an_awaited_call_speaks_of_the_threads_of_the_program_only(
    identified: bool, in_a_bare_thread: bool, inside_a_hook: bool
) -> None:
    """A worker asks who calls, with a copy of the caller's context."""
    policy = Policy.from_yaml("schema: ctrlrun.policy/v2\nactions:\n  pay: {decision: allow}\n")
    control = Control(policy, InMemoryStateStore(), identity=Nobody()) if identified else None
    pay = protect("pay", control=control)(pays)
    said: list[str] = []

    def call() -> None:
        with pytest.raises(ActionDenied) as refused:
            asyncio.run(pay(5))
        said.append(str(refused.value))

    def work() -> None:
        asyncio.run(workers.on_worker(call)) if inside_a_hook else call()

    if in_a_bare_thread:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    else:
        work()
    assert ("a new thread starts without the context" in said[0]) is in_a_bare_thread
