"""Lives of a machine whose power fails: the same calls at each start, on a disk that forgets.

The disk is a folder of `tests.proof.fuse_disk`, the calls are those of `tests.proof.fuse_agent`,
and what they did is in a file that is not on that disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from ctrlrun.errors import CTRLRunError, SchemaMismatch, StoreNotFound
from ctrlrun.state.sqlite import SQLiteReader
from tests.e2e.history import broken_promises, read_acts
from tests.proof.fuse_agent import POLICY, effect_key
from tests.proof.fuse_disk import Task

CALLS = 200
ROOT = Path(__file__).parents[2]
STATE = Path("agent", ".ctrlrun", "state.db")
_PATIENCE_S = 100
# Measured, for cuts that fall everywhere; where there are fewer steps the cut comes at rest.
_STEPS_OF_OPENING = 75
_STEPS_WITHOUT_LINKS = 480
_STEPS_OF_REOPENING = 40
_STEPS_OF_A_CALL = 100
_UNSETTLED = ("reserved", "executing", "ambiguous")

Process = subprocess.Popen[str]


class MountRefusedError(Exception):
    """Nobody may mount here."""


@dataclass(frozen=True, slots=True)
class Life:
    """A disk from its first use to its last: a start for each cut, and one that is let finish."""

    seed: int
    cuts: tuple[int, ...]
    """The step of each start at which the power goes; one that is never reached cuts at rest."""
    calls: int = CALLS
    agents: int = 1
    """Processes that make the same calls at the same time."""
    durability: str | None = None
    links: bool = True
    syncs_content: bool = True
    syncs_names: bool = True


@dataclass(slots=True)
class Tally:
    """What some lives came to."""

    lives: int = 0
    cuts: int = 0
    """While agents were at work."""
    unborn: int = 0
    """Of those, cuts that left no store, or one that is not whole."""
    acts: int = 0
    lost: int = 0
    """Keys that were acted on and that the store knew nothing of after a cut."""
    twice: int = 0
    """Keys that were acted on more than once."""
    unknown: int = 0
    """Keys that nobody acted on, and that the store holds to be unknown."""
    steps: int = 0
    """Changes and syncs of the disk."""
    ends: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def lives(cuts: int, *, calls: int = CALLS, first: int = 1) -> Iterator[Life]:
    """Lives with so many cuts, of the seeds from `first` on.

    A life has up to three. Of three lives one is cut in its first open, and of later starts one in
    three soon after the store was opened again; of four one has two agents, and of five one has a
    disk without hard links, on which a new store can't be put to its place whole.
    """
    for seed in count(first):
        if cuts <= 0:
            return
        choices = random.Random(seed)
        agents = 2 if seed % 4 == 0 else 1
        links = seed % 5 != 0
        whole = _STEPS_OF_A_CALL * calls * agents
        opening = _STEPS_OF_OPENING if links else _STEPS_WITHOUT_LINKS
        drawn = [choices.randint(1, opening if seed % 3 == 0 else opening + whole)]
        for _ in range(choices.randint(0, 2)):
            limit = _STEPS_OF_REOPENING if choices.random() < 1 / 3 else whole // 2
            drawn.append(choices.randint(1, limit))
        drawn = drawn[:cuts]
        cuts -= len(drawn)
        yield Life(seed, tuple(drawn), calls=calls, agents=agents, links=links)


def openings(steps: int, *, calls: int = 5) -> Iterator[Life]:
    """Lives that are cut at each of the first steps; at some also with two agents, or no links."""
    for cut in range(1, steps + 1):
        yield Life(cut, (cut,), calls=calls)
        if cut % 4 == 1:
            yield Life(cut, (cut,), calls=calls, agents=2)
        if cut % 4 == 3:
            # There it takes so many more steps.
            later = cut * _STEPS_WITHOUT_LINKS // _STEPS_OF_OPENING
            yield Life(cut, (later,), calls=calls, links=False)


def lacking() -> str | None:
    """Why such a disk can't be had here, as far as can be told without mounting one."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "there is no /dev/fuse that this user may open"
    if _fusermount() is None:
        return "there is no fusermount3 (package fuse3)"
    return None


def live(life: Life, home: Path, tally: Tally) -> None:
    """Live it, in a folder that is not there yet, and add what it came to.

    Raises MountRefusedError where nobody may mount.
    """
    (home / "mount").mkdir(parents=True)
    (home / "disk-0").mkdir()
    (home / "ctrlrun.yaml").write_text(POLICY)
    seeds = random.Random(life.seed)
    tally.lives += 1
    for number, cut in enumerate((*life.cuts, sys.maxsize)):
        found = _start(life, home, number, (cut, seeds.getrandbits(32)), tally)
        tally.violations += [f"seed {life.seed}, start {number}: {what}" for what in found]
        if not found:
            shutil.rmtree(home / f"disk-{number}")
    _count(life, home / f"disk-{len(life.cuts) + 1}" / STATE, home / "acts", tally)


def _start(life: Life, home: Path, number: int, drawn: tuple[int, int], tally: Tally) -> list[str]:
    """Start the agents, until they are done or the power goes; what is wrong then."""
    after = home / f"disk-{number + 1}"
    with _agents(life, home, refuses=number == 0) as agents:
        task = Task(
            mount=str(home / "mount"),
            before=str(home / f"disk-{number}"),
            after=str(after),
            victims=tuple(agent.pid for agent in agents),
            cut=drawn[0],
            seed=drawn[1],
            links=life.links,
            syncs_content=life.syncs_content,
            syncs_names=life.syncs_names,
        )
        with _disk(task) as said:
            errors = _worked(agents, tally)
    was_cut = bool(said["cut"])
    tally.cuts += was_cut
    tally.steps += said["steps"]
    failed = [
        f"an agent ended with {agent.returncode}: {error[-3000:]}"
        for agent, error in zip(agents, errors, strict=True)
        if agent.returncode and not (was_cut and agent.returncode == -signal.SIGKILL)
    ]
    return failed + _judged(life, after / STATE, home / "acts", tally, was_cut=was_cut)


# --- processes -----------------------------------------------------------------------------------


@contextlib.contextmanager
def _agents(life: Life, home: Path, *, refuses: bool) -> Iterator[list[Process]]:
    """Agents that wait for the word."""
    settings = {
        name: value for name, value in os.environ.items() if not name.startswith("CTRLRUN_")
    }
    settings["CTRLRUN_CONFIG"] = str(home / "ctrlrun.yaml")
    settings["CTRLRUN_STATE"] = str(home / "mount" / STATE)
    if life.durability is not None:
        settings["CTRLRUN_DURABILITY"] = life.durability
    program = [sys.executable, "-m", "tests.proof.fuse_agent", str(home / "acts"), str(life.calls)]
    program += ["refuses"] if refuses else []
    with contextlib.ExitStack() as stack:
        agents = []
        for _ in range(life.agents):
            agent = subprocess.Popen(
                program,
                cwd=ROOT,
                env=settings,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            stack.enter_context(agent)
            stack.callback(agent.kill)
            agents.append(agent)
        yield agents


@contextlib.contextmanager
def _disk(task: Task) -> Iterator[dict[str, int]]:
    """The disk, mounted inside the block; behind it, what it has to say is in what was given."""
    said: dict[str, int] = {}
    with subprocess.Popen(
        task.command(), cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as disk:
        assert disk.stdout is not None
        try:
            if disk.stdout.readline() != "ready\n":
                raise _refusal(disk.communicate(timeout=_PATIENCE_S)[1])
            yield said
        except BaseException:
            _unmount(task.mount)
            disk.kill()
            raise
        _unmount(task.mount)
        told, errors = disk.communicate(timeout=_PATIENCE_S)
    if errors:
        raise AssertionError(f"the disk failed:\n{errors[-3000:]}")
    said.update(json.loads(told))


def _refusal(errors: str) -> Exception:
    """What kept the disk from being mounted: the system, or a fault of ours."""
    for line in errors.splitlines():
        if line.startswith(("fuse: ", "fusermount")):
            return MountRefusedError(line)
    return AssertionError(f"the disk failed:\n{errors[-3000:]}")


def _unmount(mount: str) -> None:
    # Lazily, and mounted anew for the next start: no page of before is read after.
    subprocess.run([str(_fusermount()), "-u", "-z", "-q", mount], check=False, capture_output=True)


def _fusermount() -> str | None:
    return shutil.which("fusermount3") or shutil.which("fusermount")


def _worked(agents: list[Process], tally: Tally) -> list[str]:
    """Let the agents work until they are done or without power; what each said was wrong."""
    for agent in agents:
        assert agent.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it failed already, and will be heard
            agent.stdin.write("go\n")
            agent.stdin.flush()
    errors = []
    for agent in agents:
        said, error = agent.communicate(timeout=_PATIENCE_S)
        errors.append(error)
        if agent.returncode == 0:
            tally.ends.update(json.loads(said))
    return errors


# --- judging -------------------------------------------------------------------------------------


@contextlib.contextmanager
def _reader(state: Path) -> Iterator[SQLiteReader]:
    """A look at a store without touching it: even reading would make files beside it."""
    copy = state.parents[2].with_name(f"{state.parents[2].name}-looked-at")
    shutil.copytree(state.parents[2], copy)
    try:
        reader = SQLiteReader(copy / STATE)
        try:
            yield reader
        finally:
            reader.close()
    finally:
        shutil.rmtree(copy)


def _judged(life: Life, state: Path, acts: Path, tally: Tally, *, was_cut: bool) -> list[str]:
    """The promises that are broken by what a cut left."""
    acted = {act.key for act in read_acts(acts)}
    try:
        with _reader(state) as reader:
            found = broken_promises(reader, read_acts(acts))
            states = _states(reader)
    except (CTRLRunError, sqlite3.Error) as error:
        tally.lost += len(acted)
        # Where there are links a store is there whole or not at all.
        early = StoreNotFound if life.links else (StoreNotFound, SchemaMismatch)
        if was_cut and not acted and isinstance(error, early):
            tally.unborn += 1
            return []
        return [f"{len(acted)} acts, and {type(error).__name__}: {error}"]
    lost = {key for key in acted if states.get(key) in (None, "failed")}
    tally.lost += len(lost)
    return [*(f"{key} happened and is forgotten" for key in sorted(lost)), *found]


def _states(reader: SQLiteReader) -> dict[str, str]:
    return {record.effect_key: record.state.value for record in reader.list_effects()}


def _count(life: Life, state: Path, acts: Path, tally: Tally) -> None:
    """Count the acts of a life that is over, and look for calls that came to nothing."""
    done = Counter(act.key for act in read_acts(acts))
    tally.acts += done.total()
    tally.twice += sum(times > 1 for times in done.values())
    states: dict[str, str] = {}
    with contextlib.suppress(CTRLRunError, sqlite3.Error), _reader(state) as reader:
        states = _states(reader)
    for number in range(life.calls):
        key = effect_key(str(number))
        if not done[key]:
            tally.unknown += states.get(key) in _UNSETTLED
            if states.get(key) not in _UNSETTLED:
                tally.violations.append(f"seed {life.seed}: {key} is {states.get(key)}, not acted")
