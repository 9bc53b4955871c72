"""Cancelling a protected call where one wants to, and what must hold of its store afterwards."""

from __future__ import annotations

import asyncio
import functools
import itertools
import random
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.errors import CTRLRunError, NotExecuted
from ctrlrun.policy import Policy
from ctrlrun.state import StateStore

POLICY = Policy.from_yaml("schema: ctrlrun.policy/v1\nactions: {pay: {decision: allow}}\n")
CANCELLED = "cancelled before execution"

KEYS = ("pay:p1", "pay:p2")
EVENTS_OF_AN_END = ("EXECUTION_COMMITTED", "EXECUTION_FAILED", "EXECUTION_AMBIGUOUS")


class Interruption:
    """Interrupts a coroutine at its `at`-th suspension, and says whether it came so far.

    `early`: its task is cancelled as it suspends. `late`: the cancellation meets a future that is
    done. `close`: the loop has gone. `keep`: it has gone, and somebody has the coroutine still.
    """

    def __init__(self, at: int, how: str) -> None:
        self.happened = False
        self._at = at
        self._how = how

    @types.coroutine
    def drive(self, call: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """What the coroutine returns, or None when it did not come to its end."""
        step: Callable[[], Any] = functools.partial(call.send, None)
        for count in itertools.count(1):
            try:
                suspended_on = step()
            except StopIteration as end:
                return end.value
            how = self._how if count == self._at else ""
            self.happened |= bool(how)
            if how == "close":
                call.close()
            if how in ("close", "keep"):
                return None
            if how == "early":
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                yield suspended_on
            except BaseException as error:
                step = functools.partial(call.throw, error)
            else:
                step = functools.partial(call.send, None)
                if how == "late":
                    step = functools.partial(call.throw, asyncio.CancelledError())


class Remote:
    """What executors reach: who began there, and who acted."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.asked: list[str] = []
        self.acts: Counter[str] = Counter()
        self.unproved: Counter[str] = Counter()
        """Executors that ran and did not prove that they did nothing."""

    def tell(self, key: str) -> str:
        """A hook that tells the truth, once nobody is on the way any more."""
        self.asked.append(key)
        return "committed" if self.acts[key] else "not_executed"

    async def executor(self, key: str, behaviour: str) -> str:
        """One executor: it may be cancelled at each of its awaits, before and after it acts."""
        self.begun.append(key)
        self.unproved[key] += 1
        await asyncio.sleep(0)
        if behaviour == "refuses":
            self.unproved[key] -= 1
            raise NotExecuted("nothing sent")
        self.acts[key] += 1
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if behaviour != "swallows":
                raise
        if behaviour == "raises":
            raise TimeoutError("no reply")
        return "re_1"


def broken_promises(store: StateStore, remote: Remote, keys: tuple[str, ...] = KEYS) -> list[str]:
    """What does not hold of a store whose calls have all ended."""
    events = store.events()
    found = []
    for key in keys:
        if remote.acts[key] > 1:
            found.append(f"{key}: acted {remote.acts[key]} times")
        unproved = 0 if key in remote.asked else remote.unproved[key]  # the remote has told
        if unproved > 1:
            found.append(f"{key}: {unproved} executors ran and may have acted")
        record = store.get_effect(key)
        state = None if record is None else record.state.value
        if state in ("reserved", "executing"):
            found.append(f"{key} is still {state}")
        if state == "committed" and not remote.acts[key]:
            found.append(f"{key} is committed, and nobody acted")
        if state in (None, "failed") and (unproved or remote.acts[key]):
            found.append(f"{key} is {state}, and somebody may have acted")
        kinds = Counter(str(event.type) for event in events if event.effect_key == key)
        ends = sum(kinds[kind] for kind in EVENTS_OF_AN_END)
        if kinds["EXECUTION_STARTED"] != ends:
            found.append(f"{key}: {kinds['EXECUTION_STARTED']} attempts, {ends} ends")
    ran = sum(
        receipt.result in ("committed", "failed", "ambiguous") for receipt in store.receipts()
    )
    started = sum(event.type == "EXECUTION_STARTED" for event in events)
    if ran != started:
        found.append(f"{started} attempts began, and {ran} have a receipt")
    return found


BEHAVIOURS = ("returns", "returns", "returns", "refuses", "raises", "swallows")


async def _play(control: Control, remote: Remote, choose: random.Random) -> Counter[str]:
    ended: Counter[str] = Counter()

    async def call() -> None:
        key, behaviour = choose.choice(KEYS), choose.choice(BEHAVIOURS)
        action = Action("pay", {"key": key}, Principal("a"))
        executor = functools.partial(remote.executor, key, behaviour)
        patience = choose.choice((None, None, 0.0, 0.0005, 0.002))
        hook = choose.choice((None, remote.tell))
        eager = hook is not None and choose.random() < 0.5
        work = control.aexecute(action, executor, key, reconcile=hook, reconcile_eagerly=eager)
        try:
            await asyncio.wait_for(work, patience)
            ended["returned"] += 1
        except (CTRLRunError, TimeoutError) as error:
            ended[type(error).__name__] += 1

    async def cancel(task: asyncio.Task[None]) -> None:
        for _ in range(choose.choice((0, 0, 1, 2))):
            await asyncio.sleep(choose.choice((0, 0.0003, 0.001)))
            if task.cancel():
                ended["cancelled"] += 1

    calls = [asyncio.create_task(call()) for _ in range(4)]
    await asyncio.gather(*calls, *(cancel(task) for task in calls), return_exceptions=True)
    return ended


def play(store: StateStore, seed: int) -> tuple[list[str], Counter[str]]:
    """One round: four calls on two keys, cancelled at random. What is broken, and how they ended."""
    remote = Remote()
    control = Control(POLICY, store)
    ended = asyncio.run(_play(control, remote, random.Random(seed)))
    for event in store.events():
        if event.data.get("error") == CANCELLED:
            ended[CANCELLED] += 1
        elif event.type == "EXECUTION_AMBIGUOUS" and "CancelledError" in event.data["error"]:
            ended["cancelled in the executor"] += 1
    ended["asked the remote"] += len(remote.asked)
    return broken_promises(store, remote), ended
