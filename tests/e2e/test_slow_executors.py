"""A slow executor, a person who answers truthfully, and a replacement: one act, or two.

The agent is a real process. Nothing here waits for a length of time: a test waits until a lease is
seen to have lapsed, or to have been extended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import IO

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.control import Control
from ctrlrun.effect import EffectRecord
from ctrlrun.errors import AmbiguousEffect, DuplicateEffect
from ctrlrun.operator.holding import HolderStanding, Holding, holding
from ctrlrun.operator.verbs import resolve
from ctrlrun.receipt import verify_chain
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.crashes import POLICY, Remote
from tests.e2e.slow import KEY, action

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
SHORT, MIDDLE, LONG = 0.2, 2.0, 5.0


class Agent:
    """The slow process."""

    def __init__(self, folder: Path, lease: float, *means: str) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "tui")])
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.slow", str(folder), str(lease), *means],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.says() == "runs"

    def says(self) -> str:
        return self._pipe(self.process.stdout).readline().strip()

    def goes_on(self) -> str:
        """Let the executor go on; how its call ended."""
        pipe = self._pipe(self.process.stdin)
        pipe.write("go\n")
        pipe.flush()
        return self.says()

    def stop(self) -> None:
        """As a debugger, a suspended machine or a frozen container does."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE_S)

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


class Desk:
    """What happens meanwhile: others who try, and the person who answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = SQLiteStateStore(folder / "state.db")
        self.control = Control(POLICY, self.store)
        self.remote = Remote(folder / "acts")

    def tries(self) -> str:
        """Another attempt, whose executor is quick."""
        try:
            self.control.execute(action(), lambda: self.remote.act(KEY), KEY)
        except AmbiguousEffect:
            return "ambiguous"
        except DuplicateEffect as refusal:
            return refusal.state
        return "acted"

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, "it never came about"
            time.sleep(0.01)

    def sees_it_lapse_and_answers_failed(self) -> None:
        """Somebody tries until the lease is over, then a person looks at the provider: nothing."""
        self.until(lambda: self.tries() == "ambiguous")
        assert self.acts == 0
        resolve(self.store, KEY, "failed", "cli:dana", note="the provider shows nothing")

    @property
    def record(self) -> EffectRecord:
        record = self.store.get_effect(KEY)
        assert record is not None
        return record

    @property
    def ends_at(self) -> datetime:
        until = self.record.lease_expires_at
        assert until is not None
        return until

    @property
    def holder(self) -> Holding | None:
        return holding(self.store, self.record, utc_now())

    @property
    def acts(self) -> int:
        path = self.folder / "acts"
        return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Callable[..., tuple[Agent, Desk]]]:
    """Makes a slow agent on a store, and the desk beside it."""
    agents: list[Agent] = []
    desks: list[Desk] = []

    def make(lease: float, *means: str) -> tuple[Agent, Desk]:
        agents.append(Agent(tmp_path, lease, *means))
        desks.append(Desk(tmp_path))
        return agents[-1], desks[-1]

    yield make
    for agent in agents:
        agent.kill()
        for pipe in (agent.process.stdin, agent.process.stdout):
            if pipe is not None:
                pipe.close()
    for desk in desks:
        with closing(desk.store):
            assert verify_chain(desk.store).ok


Slow = Callable[..., tuple[Agent, Desk]]


@pytest.mark.parametrize(
    ("means", "acts", "ended"),
    [((), 2, "AmbiguousEffect -"), (("fence",), 1, "LeaseLost taken")],
    ids=["without a fence", "with a fence"],
)
def test_nobody_lied(slow: Slow, means: tuple[str, ...], acts: int, ended: str) -> None:
    """The hole, pinned open without the fence, and closed with it."""
    agent, desk = slow(SHORT, *means)
    desk.sees_it_lapse_and_answers_failed()
    assert desk.tries() == "acted"
    after = desk.record
    assert agent.goes_on() == ended
    assert desk.acts == acts
    assert desk.record == after
    assert (after.state.value, after.attempt) == ("committed", 2)
    last = desk.store.receipts()[-1]
    assert last.attempt == 1
    if means:
        assert last.result == "failed"
        assert (last.error or "").startswith("LeaseLost: ")
    else:
        assert last.result == "ambiguous"


def test_a_lease_that_is_kept_outlives_itself_many_times(slow: Slow) -> None:
    agent, desk = slow(LONG, "fence", "keep")
    first = desk.ends_at
    desk.until(lambda: utc_now() > first)
    assert desk.tries() == "in_progress"
    held = desk.holder
    assert held is not None and held.standing is HolderStanding.ALIVE
    assert held.holder.pid == agent.process.pid
    assert agent.goes_on() == "committed"
    assert desk.acts == 1


def test_a_process_that_was_stopped_and_goes_on_does_not_act(slow: Slow) -> None:
    """Stopped, nothing keeps its lease alive: replaced meanwhile, it wakes up and is fenced."""
    agent, desk = slow(MIDDLE, "fence", "keep")
    first = desk.ends_at
    desk.until(lambda: desk.ends_at > first)
    agent.stop()
    desk.until(lambda: desk.tries() == "ambiguous")
    held = desk.holder
    assert held is not None and held.may_act, "a stopped process may go on"
    resolve(desk.store, KEY, "failed", "cli:dana")
    assert desk.tries() == "acted"
    agent.wake()
    assert agent.goes_on() == "LeaseLost taken"
    assert desk.acts == 1


def test_stopped_over_the_end_of_its_lease_it_gives_the_effect_back(slow: Slow) -> None:
    """Nobody contended: the record is its own, FAILED is what it knows, and a retry may run."""
    agent, desk = slow(MIDDLE, "fence", "keep")
    agent.stop()
    desk.until(lambda: utc_now() > desk.ends_at)
    agent.wake()
    assert agent.goes_on() == "LeaseLost lapsed"
    assert (desk.record.state.value, desk.acts) == ("failed", 0)
    assert desk.tries() == "acted"
    assert desk.record.attempt == 2


def test_a_process_that_was_killed_is_gone(slow: Slow) -> None:
    agent, desk = slow(SHORT, "fence")
    held = desk.holder
    assert held is not None and held.standing is HolderStanding.ALIVE
    agent.kill()
    gone = desk.holder
    assert gone is not None
    assert gone.said == f"{held.holder.host} pid {agent.process.pid}, same host, process is gone"
    desk.sees_it_lapse_and_answers_failed()
    assert desk.tries() == "acted"
    assert desk.acts == 1
