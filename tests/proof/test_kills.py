"""Some of the system calls of each program are its last, or fail; benchmarks/kills.py has them all."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from ctrlrun.effect import EffectState
from ctrlrun.state.sqlite import SQLiteReader
from tests.lib.sqlite_helpers import quick_folder
from tests.proof.injection import (
    CHANGES,
    ROOT,
    Nursery,
    Trials,
    Untraceable,
    calls_for,
    why_not,
)
from tests.proof.killed import Trial
from tests.proof.kills import CONTROLS, EIO, FAILED, FAULTS, KEY, KILL, SCENARIOS, Fault, prepare

KILLS, ERRORS, CONTROL_FAULTS = 2, 1, 24


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    if reason := why_not():
        pytest.skip(reason)
    with Nursery() as nursery:
        yield nursery


@pytest.fixture
def folder() -> Iterator[Path]:
    yield from quick_folder()


def _spread(last: int, wanted: int, choices: random.Random) -> list[int]:
    """So many numbers up to the last, one at random from each of as many equal parts."""
    edges = [round(last * part / wanted) for part in range(wanted + 1)]
    parts = [(start + 1, end) for start, end in pairwise(edges) if end > start]
    return [choices.randint(*part) for part in parts]


def _sample(name: str, counts: dict[str, int]) -> Iterator[tuple[Fault, str, int]]:
    """Kills at every kind of call, over the whole length of the program; of the errors every second
    at every second kind, and the others in the next scenario."""
    choices, turn = random.Random(name), list(SCENARIOS).index(name)
    for number_of_fault, fault in enumerate(FAULTS):
        for number_of_call, call in enumerate(calls_for(fault)):
            if fault is not KILL and (number_of_fault + number_of_call + turn) % 2:
                continue
            wanted = KILLS if fault is KILL else ERRORS
            few = wanted if call == "pwrite64" else max(1, wanted // 2)
            yield from ((fault, call, number) for number in _spread(counts[call], few, choices))


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_at_a_system_call_breaks_no_promise(
    name: str, nursery: Nursery, folder: Path
) -> None:
    trials = Trials(nursery, name, folder)
    counts = trials.count()
    assert counts["pwrite64"] > 20
    assert counts["fsync"] + counts["fdatasync"] >= 3
    broken = {
        f"{call} {fault} at {number}": said
        for fault, call, number in _sample(name, counts)
        if (said := trials.trial(fault, call, number))
    }
    assert broken == {}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_program_that_breaks_a_promise_is_found(
    name: str, nursery: Nursery, folder: Path
) -> None:
    trials = Trials(nursery, name, folder)
    last = trials.count()["pwrite64"]
    places = _spread(last, CONTROL_FAULTS, random.Random(name))
    fault = CONTROLS[name].fault
    assert any(trials.trial(fault, "pwrite64", number) for number in places)


def test_a_fault_that_falls_behind_the_last_call_is_no_trial(
    nursery: Nursery, folder: Path
) -> None:
    trials = Trials(nursery, "create", folder)
    behind = trials.count()["fsync"] + 1
    assert trials.trial(EIO, "fsync", behind) == ["the program met the fault 0 times"]
    assert trials.trial(KILL, "fsync", behind) == ["not killed: status 0, ''"]


def test_a_commit_whose_sync_failed_can_stand_after_a_crash_and_never_acted(
    nursery: Nursery, folder: Path
) -> None:
    trials = Trials(nursery, "dies", folder)
    left = folder / "dies" / "trial"
    stands = 0
    for number in range(1, trials.count()["fdatasync"] + 1):
        assert trials.trial(EIO, "fdatasync", number) == []
        if (left / "out").read_text().startswith(FAILED) and not (left / "acts").exists():
            with closing(SQLiteReader(left / "state.db")) as store:
                record = store.get_effect(KEY)
            assert record is not None
            assert record.state is EffectState.AMBIGUOUS
            stands += 1
    assert stands == 1


def test_a_program_is_killed_before_the_call_is_made(nursery: Nursery, folder: Path) -> None:
    trials = Trials(nursery, "create", folder)
    assert trials.trial(KILL, "pwrite64", 1) == []
    (beside,) = (folder / "create" / "trial").glob(".ctrlrun-*.new")
    assert beside.stat().st_size == 0


def test_a_forked_program_makes_the_calls_of_a_fresh_one(nursery: Nursery, folder: Path) -> None:
    counts = Trials(nursery, "migrate", folder).count()
    prepare("migrate", folder)
    store = ["--store-url", f"sqlite://{folder / 'state.db'}"]
    traced = ["strace", "-f", "-o", folder / "log", "-e", f"trace={','.join(CHANGES)}"]
    fresh = subprocess.run(
        [*traced, sys.executable, "-B", "-m", "ctrlrun", "migrate", *store],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (fresh.returncode, fresh.stderr) == (0, "")
    made = re.findall(r"^\d+ +(\w+)\(", (folder / "log").read_text(), re.MULTILINE)
    assert counts == {call: made.count(call) for call in CHANGES}


def test_where_strace_may_not_attach_it_says_so(nursery: Nursery, folder: Path) -> None:
    trials = Trials(nursery, "create", folder)
    with pytest.raises(Untraceable, match="strace"):
        trials._run(["--no-such-option"])


@pytest.mark.parametrize(
    ("status", "err", "sound"),
    [
        (1, "Error: cannot write 'DIR/state.db': disk I/O error\n", True),
        (1, "Error: the store cannot be used: disk I/O error\n", False),
        (1, "", False),
        (1, "Error: cannot write 'DIR/state.db'\nand more\n", False),
        (1, "Traceback (most recent call last):\n", False),
        (1, "sqlite3.OperationalError: cannot write 'DIR/state.db': disk I/O error\n", False),
        (3, "Error: internal error, please report it: KeyError: 'k'\n", False),
        (0, "", False),  # it says that it was answered, and the effect is AMBIGUOUS
    ],
)
def test_what_a_command_says_is_judged(status: int, err: str, sound: bool, folder: Path) -> None:
    prepare("resolve", folder)
    err = err.replace("DIR", str(folder))
    assert (Trial("resolve", folder, EIO, status, "", err).broken() == []) is sound
