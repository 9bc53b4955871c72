"""Processes that are let go together, round after round: on one key, one approval, one continuation.

Each makes whole protected calls; what acts is a remote that appends to a file. The processes are
started once, and a barrier lets all of them go at the beginning of each round.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.synchronize import Barrier
from pathlib import Path
from statistics import median
from typing import NoReturn

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control, with_approval
from ctrlrun.errors import (
    AmbiguousEffect,
    ApprovalMismatch,
    CTRLRunError,
    DuplicateEffect,
    InvalidArgument,
    Suspended,
)
from ctrlrun.receipt import verify_chain
from ctrlrun.state import UnitStateStore
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.children import served
from tests.e2e.crashes import POLICY, Remote

PROCESSES = 8
PATIENCE_S = 120.0
LONG = timedelta(hours=1)
"""Of leases and requests: nothing lapses here, however slow the machine is."""

LOSSES = {
    "key": {"in_progress", "committed"},
    "approval": {"consumed"},
    "continuation": {"InvalidArgument"},
}
KINDS = tuple(LOSSES)

UNGUARDED = "unguarded"
"""The control: nothing but a look, and then the act. A race that it survives is no race."""


@dataclass(frozen=True, slots=True)
class Course:
    """Where the race is run: a folder, and the server and schema when the store is Postgres."""

    folder: Path
    url: str = ""
    schema: str = ""

    def store(self) -> UnitStateStore:
        """The store, opened by whoever asks."""
        if self.url:
            from ctrlrun.postgres import PostgresStateStore

            return PostgresStateStore(self.url, schema=self.schema)
        return SQLiteStateStore(self.folder / "state.db")

    @property
    def acts(self) -> Path:
        """What the remote did, a line each."""
        return self.folder / "acts"


@dataclass(frozen=True, slots=True)
class Call:
    """One process's call of one round: how it ended, and when it ran, on the machine's clock."""

    kind: str
    round: int
    ended: str
    began_ns: int
    ended_ns: int


def action(kind: str, number: int) -> Action:
    """What is asked for in a round: the same of every process, so that one approval covers it."""
    amount = 1000 if kind == "approval" else 100
    return Action("pay", {"kind": kind, "round": number, "amount": amount}, Principal("a"))


def _control(store: UnitStateStore) -> Control:
    return Control(POLICY, store, lease=LONG, suspend_timeout=LONG, approval_ttl=LONG)


# --- what is raced for ---------------------------------------------------------------------------


def prepare(course: Course, kinds: Iterable[str], rounds: int) -> dict[int, str]:
    """Grant an approval and suspend a call for each round; the ids of the approvals."""
    approvals: dict[int, str] = {}
    with closing(course.store()) as store:
        control = _control(store)
        for number in range(rounds):
            if "approval" in kinds:
                asked = control.approvals.request(action("approval", number), LONG)
                store.grant_approval(asked.request_id, "cli:ada")
                approvals[number] = asked.request_id
            if "continuation" in kinds:
                _suspend(control, number)
    return approvals


def _suspend(control: Control, number: int) -> None:
    def executor() -> NoReturn:
        raise Suspended(f"token {number}")

    try:
        control.execute(action("continuation", number), executor, f"continuation{number}")
    except Suspended:
        return
    raise AssertionError("the call was not suspended")


# --- one racer -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Racer:
    """One process's view: its number, its store, and the remote that all of them share."""

    number: int
    course: Course
    control: Control
    approvals: dict[int, str]

    def run(self, kind: str, number: int) -> str:
        """One call; how it ended, in a word."""
        try:
            self._call(kind, number)
        except DuplicateEffect as refusal:
            return refusal.state
        except AmbiguousEffect:
            return "ambiguous"
        except ApprovalMismatch as refusal:
            return refusal.reason
        except CTRLRunError as error:
            return type(error).__name__
        return "won"

    def _call(self, kind: str, number: int) -> None:
        shared = f"{kind}{number}"

        def executor() -> None:
            Remote(self.course.acts).act(shared)

        if kind == "continuation":
            self.control.resume(f"token {number}", executor)
        elif kind == "approval":
            with with_approval(self.approvals[number]):
                self.control.execute(action(kind, number), executor, f"{shared}-{self.number}")
        elif kind == "key":
            self.control.execute(action(kind, number), executor, shared)
        else:
            self._unguarded(shared, executor)

    def _unguarded(self, shared: str, executor: Callable[[], None]) -> None:
        mark = self.course.folder / shared
        if mark.exists():
            raise InvalidArgument("somebody was here")
        time.sleep(0.02)  # what a look over the network takes
        mark.touch()
        executor()


def race(
    number: int,
    course: Course,
    kinds: tuple[str, ...],
    rounds: int,
    approvals: dict[int, str],
    barrier: Barrier,
    results: multiprocessing.queues.Queue[list[Call]],
) -> None:
    """The life of one process: every round of every kind."""
    calls: list[Call] = []
    with closing(course.store()) as store:
        racer = Racer(number, course, _control(store), approvals)
        store.chain_head()  # it is open and has its connection
        for kind in kinds:
            for round_ in range(rounds):
                barrier.wait(PATIENCE_S)
                began = time.monotonic_ns()
                ended = racer.run(kind, round_)
                calls.append(Call(kind, round_, ended, began, time.monotonic_ns()))
    results.put(calls)


# --- the race and its judge ----------------------------------------------------------------------


def let_go(
    course: Course, kinds: tuple[str, ...], rounds: int, processes: int = PROCESSES
) -> list[Call]:
    """Run the race; every call of every process."""
    approvals = prepare(course, kinds, rounds)
    children = served()
    barrier = children.Barrier(processes)
    results: multiprocessing.queues.Queue[list[Call]] = children.Queue()
    racers = [
        children.Process(
            target=race, args=(number, course, kinds, rounds, approvals, barrier, results)
        )
        for number in range(processes)
    ]
    for racer in racers:
        racer.start()
    try:
        calls = [call for _ in racers for call in results.get(timeout=PATIENCE_S)]
        for racer in racers:
            racer.join(PATIENCE_S)
            if racer.exitcode != 0:
                raise AssertionError(f"a racer ended with {racer.exitcode}")
        return calls
    finally:
        for racer in racers:
            racer.kill()
            racer.join(PATIENCE_S)
            racer.close()
        results.close()
        results.join_thread()


def violations(
    course: Course, calls: list[Call], kinds: Iterable[str], rounds: int, processes: int = PROCESSES
) -> list[str]:
    """Each broken promise in words: not one winner, a strange loss, another number of acts."""
    found: list[str] = []
    acts = Counter(course.acts.read_text().split())
    for kind in kinds:
        for number in range(rounds):
            ended = Counter(c.ended for c in calls if (c.kind, c.round) == (kind, number))
            won = ended.pop("won", 0)
            lost = sum(ended.values())
            if (won, lost) != (1, processes - 1) or not set(ended) <= LOSSES[kind]:
                found.append(f"{kind} {number}: {won} won, lost {dict(ended)}")
            if acts[f"{kind}{number}"] != 1:
                found.append(f"{kind} {number}: the remote acted {acts[f'{kind}{number}']} times")
    with closing(course.store()) as store:
        found += _records(store, tuple(kinds), rounds)
    return found


def _records(store: UnitStateStore, kinds: tuple[str, ...], rounds: int) -> list[str]:
    states = Counter(record.state.value for record in store.list_effects())
    expected = Counter({"committed": rounds * len(kinds)})
    found = [] if states == expected else [f"the effects are {dict(states)}"]
    receipts = Counter(receipt.result.value for receipt in store.receipts())
    if receipts["committed"] != rounds * len(kinds):
        found.append(f"{receipts['committed']} receipts say committed")
    report = verify_chain(store)
    return found if report.ok else [*found, f"chain: {report.breaks}"]


def nearness(calls: list[Call], kind: str) -> float:
    """How many calls of a round had begun before its winner's ended, the winner included: median."""
    begun = []
    for number in {call.round for call in calls}:
        mine = [call for call in calls if (call.kind, call.round) == (kind, number)]
        first = min(call.ended_ns for call in mine if call.ended == "won")
        begun.append(sum(call.began_ns < first for call in mine))
    return median(begun)
