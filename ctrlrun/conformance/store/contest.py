"""Contests: threads, and processes, that make one call at the same moment.

Whoever starts them ends them: no child outlives its contest, on whatever way out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ctrlrun.conformance.store.checking import CheckFailed, described, require

TIMEOUT = 120.0
"""Seconds until contenders that have not come back are given up."""

_POLL = 0.005


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one contender did: it won under a name, or saw an error.

    `kinds` are the names of the error's class and its bases, `fact` its `state` or `reason`.
    """

    name: str
    won: bool
    kinds: tuple[str, ...] = ()
    fact: str | None = None
    shown: str = ""

    def saw(self, *kinds: type[Exception]) -> bool:
        """Whether the error is one of these."""
        return any(kind.__name__ in self.kinds for kind in kinds)

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON values."""
        kinds = list(self.kinds)
        return {
            "name": self.name,
            "won": self.won,
            "kinds": kinds,
            "fact": self.fact,
            "shown": self.shown,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Outcome:
        """The outcome that a process wrote."""
        return cls(
            values["name"], values["won"], tuple(values["kinds"]), values["fact"], values["shown"]
        )


def attempt(name: str, call: Callable[[], object]) -> Outcome:
    """Make the call of a contender."""
    try:
        call()
    except Exception as error:
        fact = getattr(error, "state", None) or getattr(error, "reason", None)
        kinds = tuple(kind.__name__ for kind in type(error).__mro__)
        return Outcome(name, False, kinds, None if fact is None else str(fact), described(error))
    return Outcome(name, True)


def one_winner(outcomes: Sequence[Outcome], what: str, *losing: type[Exception]) -> Outcome:
    """The only one that won; CheckFailed for more, for none, and for another error than these."""
    allowed = " or ".join(kind.__name__ for kind in losing)
    for outcome in outcomes:
        if not outcome.won and not outcome.saw(*losing):
            raise CheckFailed(f"{what}: a loser saw {outcome.shown}, not {allowed}")
    winners = [outcome for outcome in outcomes if outcome.won]
    require(
        len(winners) == 1,
        f"{what}: {len(winners)} of {len(outcomes)} won, and exactly one may: "
        f"{', '.join(winner.name for winner in winners) or 'nobody'}",
    )
    return winners[0]


# --- threads -------------------------------------------------------------------------------------


def among_threads(calls: Mapping[str, Callable[[], object]]) -> list[Outcome]:
    """Make every call at once, each in a thread; CheckFailed when one does not come back."""
    barrier = threading.Barrier(len(calls))
    outcomes: list[Outcome] = []
    interrupts: list[BaseException] = []

    def contend(name: str, call: Callable[[], object]) -> None:
        try:
            barrier.wait(TIMEOUT)
            outcomes.append(attempt(name, call))
        except BaseException as error:  # it belongs to whoever runs the suite
            interrupts.append(error)

    threads = [threading.Thread(target=contend, args=item, daemon=True) for item in calls.items()]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + TIMEOUT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if any(thread.is_alive() for thread in threads):
        raise CheckFailed(f"a thread did not come back within {TIMEOUT:.0f} s")
    if interrupts:
        raise interrupts[0]
    return outcomes


# --- processes -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contest:
    """What processes are to do: `rounds[r][i]` is what contender `i` is told in round `r`."""

    url: str
    opener: str | None
    task: str
    rounds: Sequence[Sequence[Mapping[str, Any]]]


@dataclass(frozen=True, slots=True)
class ContestResult:
    """The outcomes of each round, and how often the remote was called in all."""

    rounds: tuple[tuple[Outcome, ...], ...]
    remote_calls: int


def among_processes(contest: Contest) -> ContestResult:
    """Let a process for each contender make its calls, all of a round at once.

    CheckFailed when one of them does not reach the barrier, dies, or does not come back.
    """
    with TemporaryDirectory(prefix="ctrlrun-contest-") as name:
        folder = Path(name)
        children: list[subprocess.Popen[bytes]] = []
        try:
            for index in range(len(contest.rounds[0])):
                children.append(_start(contest, folder, index))  # noqa: PERF401 - each is ended
            _await(children, folder)
        finally:
            for child in children:
                child.kill()
            for child in children:
                child.wait()
        return _read(contest, folder)


def _start(contest: Contest, folder: Path, index: int) -> subprocess.Popen[bytes]:
    told = {
        "url": contest.url,
        "opener": contest.opener,
        "task": contest.task,
        "folder": str(folder),
        "index": index,
        "contenders": len(contest.rounds[0]),
        "rounds": [round_[index] for round_ in contest.rounds],
    }
    with (folder / f"told-{index}").open("w+b") as stdin:
        stdin.write(json.dumps(told).encode())
        stdin.seek(0)
        with (folder / f"said-{index}").open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "ctrlrun.conformance.store.worker"],
                stdin=stdin,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": _path()},
            )


def _path() -> str:
    """Where this process finds modules: the opener is one that it can import."""
    return os.pathsep.join(entry or os.getcwd() for entry in sys.path)


def _await(children: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    deadline = time.monotonic() + TIMEOUT
    while True:
        statuses = [child.poll() for child in children]
        for index, status in enumerate(statuses):
            if status:
                raise CheckFailed(_death(folder, index, status, len(children)))
        if None not in statuses:
            return
        if time.monotonic() > deadline:
            raise CheckFailed(
                f"{statuses.count(None)} of {len(children)} processes did not come back within "
                f"{TIMEOUT:.0f} s; {_reached(folder)} reached the barrier"
            )
        time.sleep(_POLL)


def _death(folder: Path, index: int, status: int, contenders: int) -> str:
    said = (folder / f"said-{index}").read_text("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(said) if line.strip()), "nothing")
    return (
        f"a process ended with status {status} when {_reached(folder)} of {contenders} had reached "
        f"the barrier; it said: {last}"
    )


def _reached(folder: Path) -> int:
    return len(list(folder.glob("met-0-*")))


def _read(contest: Contest, folder: Path) -> ContestResult:
    contenders = range(len(contest.rounds[0]))
    written = [json.loads((folder / f"did-{index}").read_text("utf-8")) for index in contenders]
    rounds = tuple(
        tuple(Outcome.from_dict(did[number]) for did in written)
        for number in range(len(contest.rounds))
    )
    return ContestResult(rounds, len(list(folder.glob("remote-*"))))
