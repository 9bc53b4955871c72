"""Agents that are killed, and agents that race: nothing happens twice, nothing is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.history import violations

ROOT = Path(__file__).parents[2]


def crashes(*arguments: object) -> dict[str, Any]:
    """Run the program that kills agents, and hand back what it says it did."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tui")])
    done = subprocess.run(
        [sys.executable, "-m", "tests.e2e.crashes", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not done.stderr, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_call_killed_at_each_of_its_boundaries(tmp_path: Path) -> None:
    statuses = crashes("boundaries", tmp_path)["statuses"]
    assert statuses[-1] == 0
    assert len(statuses) > 20
    assert set(statuses[:-1]) == {-signal.SIGKILL}
    assert violations(tmp_path / "state.db", tmp_path / "acts") == []
    acts = Counter((tmp_path / "acts").read_text().split())
    store = SQLiteStateStore(tmp_path / "state.db")
    states = {record.effect_key: record.state.value for record in store.list_effects()}
    store.close()
    # Before the first unit is on disk the second attempt runs; after it, nothing may run again.
    first_kept = min(int(key[1:]) for key, state in states.items() if state == "executing")
    first_acted = min(at for at in range(first_kept, len(statuses)) if acts[f"k{at}"])
    first_written = len(statuses) - 2  # the last boundary is passed after the second commit
    for at in range(len(statuses)):
        expected = "executing" if first_kept <= at < first_written else "committed"
        assert states[f"k{at}"] == expected, at
        assert acts[f"k{at}"] == (0 if first_kept <= at < first_acted else 1), at


@pytest.mark.parametrize("seed", [1])
def test_two_hundred_random_kills(tmp_path: Path, seed: int) -> None:
    assert crashes("random", tmp_path, 200, seed)["killed"] == 200
    assert violations(tmp_path / "state.db", tmp_path / "acts") == []
    store = SQLiteStateStore(tmp_path / "state.db")
    states = Counter(record.state.value for record in store.list_effects())
    store.close()
    assert states["committed"] > 50
    assert states["executing"] + states["ambiguous"] > 10, "the kills did not land in a call"
    assert set(states) <= {"committed", "executing", "ambiguous"}


def test_eight_processes_on_one_key(tmp_path: Path) -> None:
    result = crashes("race", tmp_path, 8, 1)
    assert result["statuses"] == [0] * 8
    assert result["ends"].pop("ran") == 1
    assert sum(result["ends"].values()) == 7
    assert set(result["ends"]) <= {"committed", "in_progress"}
    assert (tmp_path / "acts").read_text() == "k0\n"
    assert violations(tmp_path / "state.db", tmp_path / "acts") == []


def test_eight_processes_on_many_keys(tmp_path: Path) -> None:
    result = crashes("race", tmp_path, 8, 60)
    assert result == {"statuses": [0] * 8, "ends": {"ran": 480}}
    assert violations(tmp_path / "state.db", tmp_path / "acts") == []
    store = SQLiteStateStore(tmp_path / "state.db")
    assert store.receipts_count() == 480
    assert store.events_count() == 480 * 5
    store.close()
