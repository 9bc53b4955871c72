"""What a call inside an executor raises says nothing about the call around it."""

from __future__ import annotations

import asyncio
import contextvars
import os
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

import ctrlrun
from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalRequired,
    DuplicateEffect,
    LeaseLost,
    NotExecuted,
    Suspended,
)
from ctrlrun.policy import Policy
from ctrlrun.state import InMemoryStateStore
from tests.cases import walk
from tests.lib.kernel.test_paths import raising
from tests.lib.kernel.world import Clock, World
from tests.lib.sqlite_helpers import new_store

Make = Callable[..., World]
Inner = Callable[[World], object]

STOCK = """
schema: ctrlrun.policy/v1
actions:
  reserve: {decision: allow}
"""

INSIDE = " (raised by the call of pay inside this one)"


def declined(w: World) -> object:
    return w.control.execute(w.action(7), raising(NotExecuted("card declined")), "pay:inner")


def declined_without_a_key(w: World) -> object:
    return w.control.execute(w.action(7), raising(NotExecuted("card declined")))


def fenced(w: World) -> object:
    def lapse_and_fence() -> None:
        w.clock.pass_(seconds=2)
        ctrlrun.fence()

    action = w.action(7)
    return w.control.execute(action, lapse_and_fence, "pay:inner", lease=timedelta(seconds=1))


def suspended(w: World) -> object:
    return w.control.execute(w.action(7), raising(Suspended("token")), "pay:inner")


def refused_on_resume(w: World) -> object:
    with pytest.raises(Suspended):
        suspended(w)
    return w.control.resume("token", raising(NotExecuted("gone")))


def denied(w: World) -> object:
    return w.control.execute(w.action(9000), lambda: None, "pay:inner")


def unapproved(w: World) -> object:
    return w.control.execute(w.action(1000), lambda: None, "pay:inner")


def duplicate(w: World) -> object:
    w.control.execute(w.action(8), lambda: None, "pay:inner")
    return w.control.execute(w.action(8), lambda: None, "pay:inner")


def two_deep(w: World) -> object:
    return w.control.execute(w.action(6), lambda: declined(w), "pay:between")


def in_a_bare_thread(w: World) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(declined, w).result()


def in_a_thread_with_the_context(w: World) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, declined, w).result()


def caught_and_raised_again(w: World) -> object:
    kept: list[Exception] = []
    try:
        declined(w)
    except NotExecuted as error:
        kept.append(error)
    raise kept[0]


def in_a_task_group(w: World) -> object:
    async def call() -> object:
        return declined(w)

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(call())

    with ThreadPoolExecutor(1) as pool:  # a loop may run in this thread
        return pool.submit(asyncio.run, main()).result()


@walk(
    ("inner", "kind"),
    [
        (declined, NotExecuted),
        (declined_without_a_key, NotExecuted),
        (fenced, LeaseLost),
        (suspended, Suspended),
        (refused_on_resume, NotExecuted),
        (denied, ActionDenied),
        (unapproved, ApprovalRequired),
        (duplicate, DuplicateEffect),
        (two_deep, NotExecuted),
        (in_a_bare_thread, NotExecuted),
        (in_a_thread_with_the_context, NotExecuted),
        (caught_and_raised_again, NotExecuted),
        (in_a_task_group, ExceptionGroup),
    ],
)
def test_what_a_call_inside_raises_leaves_the_outer_effect_ambiguous(
    world: Make, inner: Inner, kind: type[Exception]
) -> None:
    w = world()
    acted: list[str] = []

    def outer() -> object:
        acted.append("outer")
        return inner(w)

    error = w.caught(executor=outer)
    assert type(error) is kind
    assert w.state() == "ambiguous"
    assert w.last.result == "ambiguous"
    assert w.last.error == f"{kind.__name__}: {error}{INSIDE}"
    assert w.store.get_effect("pay:p1").error == w.last.error
    with pytest.raises(AmbiguousEffect):
        w.run(executor=outer)
    assert acted == ["outer"]


def test_the_outer_executor_may_speak_for_itself(world: Make) -> None:
    w = world()

    def outer() -> None:
        try:
            declined(w)
        except NotExecuted as inner:
            raise NotExecuted("nothing sent out here either") from inner

    assert isinstance(w.caught(executor=outer), NotExecuted)
    assert (w.state(), w.last.error) == ("failed", "nothing sent out here either")


def test_a_call_inside_that_was_handled_costs_the_outer_call_nothing(world: Make) -> None:
    w = world()

    def outer() -> str:
        with pytest.raises(NotExecuted):
            declined(w)
        return "sent another way"

    assert w.run(executor=outer).result == "committed"


def test_an_exception_that_a_module_keeps_is_the_word_of_whoever_raises_it(world: Make) -> None:
    kept = NotExecuted("declined")
    w = world()
    for attempt in (1, 2):
        assert w.caught(executor=raising(kept)) is kept
        assert (w.state(), w.last.attempt, w.last.error) == ("failed", attempt, "declined")


@walk("as_group", [False, True])
def test_a_future_that_was_ready_before_tells_of_its_own_call(world: Make, as_group: bool) -> None:
    """The executor has acted before it asks for the result of a call that ended before it began."""
    w = world()
    stock = Control(Policy.from_yaml(STOCK), InMemoryStateStore())
    action = Action("reserve", {}, Principal("a"))
    with ThreadPoolExecutor(1) as pool:
        reserved = pool.submit(stock.execute, action, raising(NotExecuted("sold out")))
        assert reserved.exception() is not None

    def outer() -> object:
        if as_group:
            raise ExceptionGroup("both", [ValueError(), cast("Exception", reserved.exception())])
        return reserved.result()

    assert w.caught(executor=outer) is not None
    assert w.state() == "ambiguous"
    assert (w.last.error or "").endswith(" (raised by the call of reserve inside this one)")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@walk("ending", [raising(NotExecuted("no file")), lambda: "sent", raising(LookupError())])
def test_a_forked_child_has_no_word_about_its_parents_effect(
    tmp_path: Path, ending: Callable[[], object]
) -> None:
    clock = Clock()
    w = World(new_store(tmp_path / "state.db", clock=clock), clock)
    parent = os.getpid()
    seen: list[str | None] = []

    def executor() -> object:
        child = os.fork()
        if child == 0:
            return ending()
        os.waitpid(child, 0)
        seen.append(w.state())
        return "sent"

    try:
        error = w.caught(executor=executor)
    finally:
        if os.getpid() != parent:
            os._exit(0)
    assert isinstance(error, AmbiguousEffect)
    assert (seen, w.state()) == (["ambiguous"], "ambiguous")


def test_a_suspension_inside_holds_its_own_effect_and_not_the_outer(world: Make) -> None:
    w = world()
    assert isinstance(w.caught(executor=lambda: suspended(w)), Suspended)
    assert w.control.resume("token", lambda: "answered").effect_key == "pay:inner"
    assert (w.state("pay:inner"), w.state()) == ("committed", "ambiguous")


def test_another_process_made_the_call_inside(world: Make) -> None:
    """Its exception comes pickled, with what the call there has marked."""
    w = world()
    there = NotExecuted("card declined")
    w.caught(key="pay:there", executor=raising(there))
    there.__dict__["_ctrlrun_raised_by"] = ("pay", os.getpid() + 1, 0)
    here = pickle.loads(pickle.dumps(there))
    assert w.caught(executor=raising(here)) is here
    assert (w.state(), w.last.error) == ("ambiguous", f"NotExecuted: card declined{INSIDE}")


def test_an_observed_call_says_the_same(world: Make) -> None:
    w = world("observe")
    assert isinstance(w.caught(executor=lambda: declined(w)), NotExecuted)
    assert (w.last.result, w.last.execution, w.state()) == ("observed", "ambiguous", "ambiguous")


def test_a_protected_function_inside_another(world: Make) -> None:
    w = world()

    @ctrlrun.protect("pay", effect="inner:{payment_id}", control=w.control)
    def inner(payment_id: str, amount: int) -> None:
        raise NotExecuted("card declined")

    @ctrlrun.protect("pay", effect="outer:{payment_id}", control=w.control)
    def outer(payment_id: str, amount: int) -> None:
        inner(payment_id, amount)

    with ctrlrun.context(agent="a"), pytest.raises(NotExecuted):
        outer("p1", 5)
    assert (w.state("inner:p1"), w.state("outer:p1")) == ("failed", "ambiguous")
