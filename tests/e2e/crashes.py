"""A program that kills agents: forked children make protected calls and die by SIGKILL.

    python -m tests.e2e.crashes boundaries FOLDER    one child for each boundary of a call
    python -m tests.e2e.crashes random FOLDER N SEED N children, killed at a random moment
    python -m tests.e2e.crashes race FOLDER N KEYS   N children race over KEYS keys

It prints one line of JSON about what it did; the store and the remote's acts are in FOLDER.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control, with_approval
from ctrlrun.errors import AmbiguousEffect, CTRLRunError, DuplicateEffect
from ctrlrun.policy import Policy
from ctrlrun.state.sqlite import SQLiteStateStore

POLICY = Policy.from_yaml(
    """
schema: ctrlrun.policy/v1
actions:
  pay:
    rules:
      - when: {amount_lte: 500}
        decision: allow
      - decision: approve
"""
)


def die() -> None:
    """As a machine that is pulled from under the process."""
    os.kill(os.getpid(), signal.SIGKILL)


class Bomb:
    """Kills the process at the n-th boundary it passes."""

    def __init__(self, at: int | None) -> None:
        self.left = at

    def passes(self) -> None:
        if self.left is None:
            return
        if self.left == 0:
            die()
        self.left -= 1


class Mined:
    """A store with a boundary before and after each call of it, the commit of a unit included."""

    def __init__(self, store: SQLiteStateStore, bomb: Bomb) -> None:
        self.store = store
        self.bomb = bomb

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.store, name)
        if not callable(value) or name == "unit":
            return value
        return self._mined(value)

    def _mined(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def mined(*args: Any, **kwargs: Any) -> Any:
            self.bomb.passes()
            value = call(*args, **kwargs)
            self.bomb.passes()
            return value

        return mined

    def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
        return self._mined(self.store.unit)(work, durable=durable)


class Remote:
    """Acts by appending a key to a file, in one write."""

    def __init__(self, acts: Path) -> None:
        self.acts = acts

    def act(self, key: str) -> None:
        descriptor = os.open(self.acts, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{key}\n".encode())
        os.close(descriptor)


def call(control: Control, remote: Remote, key: str, bomb: Bomb, amount: int = 100) -> str:
    """One protected call; how it ended, in a word."""

    def executor() -> None:
        bomb.passes()
        remote.act(key)
        bomb.passes()

    action = Action("pay", {"key": key, "amount": amount}, Principal("a"))
    try:
        control.execute(action, executor, key)
    except DuplicateEffect as refusal:
        return refusal.state
    except AmbiguousEffect:
        return "ambiguous"
    except CTRLRunError as error:
        return type(error).__name__
    return "ran"


def forked(work: Callable[[], object]) -> int:
    """The pid of a child that does `work` and exits 0, or 7 with the traceback on stderr."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work()
    except BaseException:
        import traceback

        traceback.print_exc()
        os._exit(7)
    os._exit(0)


def ended(pid: int) -> int:
    """The exit status of a child; negative for the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def boundaries(folder: Path) -> dict[str, Any]:
    """Kill a fresh child at each boundary of an approved call until one passes them all."""
    remote = Remote(folder / "acts")
    state = folder / "state.db"
    statuses: list[int] = []
    while not statuses or statuses[-1] != 0:
        at = len(statuses)
        key = f"k{at}"
        SQLiteStateStore(state).close()

        def one(key: str = key, at: int = at) -> None:
            bomb = Bomb(at)
            store = SQLiteStateStore(state)
            control = Control(POLICY, Mined(store, bomb))  # type: ignore[arg-type]
            plain = Control(POLICY, store)
            action = Action("pay", {"key": key, "amount": 1000}, Principal("a"))
            request = plain.approvals.request(action, timedelta(minutes=5))
            store.grant_approval(request.request_id, "cli:test")
            with with_approval(request.request_id):
                call(control, remote, key, bomb, 1000)

        statuses.append(ended(forked(one)))
        if statuses[-1] not in (0, -signal.SIGKILL):
            break
        # A second attempt at once: whatever is left of the first must refuse or run it, once.
        store = SQLiteStateStore(state)
        call(Control(POLICY, store), remote, key, Bomb(None))
        store.close()
    return {"statuses": statuses}


def at_random(folder: Path, kills: int, seed: int) -> dict[str, Any]:
    """Kill children that call in a loop, two at a time, at moments drawn from `seed`."""
    choices = random.Random(seed)
    remote = Remote(folder / "acts")
    state = folder / "state.db"
    SQLiteStateStore(state).close()

    def loop(number: int) -> None:
        store = SQLiteStateStore(state)
        control = Control(POLICY, store, lease=timedelta(milliseconds=50))
        mine = random.Random(number)
        while True:
            call(control, remote, f"r{mine.randrange(kills * 20)}", Bomb(None))

    killed = 0
    running: list[int] = []
    for number in range(kills):
        running.append(forked(lambda number=number: loop(number)))  # type: ignore[misc]
        time.sleep(choices.uniform(0.005, 0.05))
        if len(running) == 2:
            victim = running.pop(0)
            os.kill(victim, signal.SIGKILL)
            killed += ended(victim) == -signal.SIGKILL
    for victim in running:
        os.kill(victim, signal.SIGKILL)
        killed += ended(victim) == -signal.SIGKILL
    return {"killed": killed}


def race(folder: Path, processes: int, keys: int) -> dict[str, Any]:
    """Have children call the same keys at once; how each call ended, counted."""
    remote = Remote(folder / "acts")
    state = folder / "state.db"
    SQLiteStateStore(state).close()
    gate, opener = os.pipe()

    def one(number: int) -> None:
        os.close(opener)
        store = SQLiteStateStore(state)
        control = Control(POLICY, store)
        os.read(gate, 1)
        own = "" if keys == 1 else f"p{number}-"
        ends = [call(control, remote, f"{own}k{index}", Bomb(None)) for index in range(keys)]
        (folder / f"ends-{number}").write_text(" ".join(ends))
        store.close()

    children = [forked(lambda number=number: one(number)) for number in range(processes)]  # type: ignore[misc]
    os.close(gate)
    os.close(opener)
    statuses = [ended(child) for child in children]
    ends = [end for path in folder.glob("ends-*") for end in path.read_text().split()]
    return {"statuses": statuses, "ends": {end: ends.count(end) for end in sorted(set(ends))}}


def main(argv: list[str]) -> None:
    """Run one of the three and print what it did."""
    kind, folder, *numbers = argv
    run = {"boundaries": boundaries, "random": at_random, "race": race}[kind]
    result = run(Path(folder), *map(int, numbers))  # type: ignore[operator]
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
