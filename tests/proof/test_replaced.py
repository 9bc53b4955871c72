"""A SQLite store whose files are read, copied, moved, replaced or deleted while agents run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.replaced import KINDS, Course, play

ROUNDS = 2
"""A few: `benchmarks/replaced.py` plays two hundred of each."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_is_acted_on_twice(kind: str, tmp_path: Path) -> None:
    for seed in range(ROUNDS):
        found = play(Course(tmp_path / str(seed), seed=seed), kind)
        assert found.violations == []
        assert found.acts > 0


@pytest.mark.parametrize("kind", ["moved", "deleted"])
def test_without_the_guard_a_promise_is_broken(kind: str, tmp_path: Path) -> None:
    """The control. The benchmark has one of each kind: the others need a moment that fits."""
    assert play(Course(tmp_path, guarded=False), kind).violations != []


@pytest.mark.parametrize(("guarded", "acts"), [(True, 1), (False, 2)])
def test_reading_the_folder_forgets_no_act(guarded: bool, acts: int, tmp_path: Path) -> None:
    course = Course(tmp_path, guarded=guarded)
    with course.agent() as agent:
        agent.ask("calls", ["before"])
        agent.ask("read")
        course.program(["other"])  # it leaves, and takes itself for the last one
        agent.ask("calls", ["after"])
        course.program(["after"])
    assert [key for key, _ in course.acted()].count("after") == acts
