"""A store's files change while programs work: a round of each; benchmarks/files.py has two hundred."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.sqlite_helpers import quick_folder
from tests.proof.files import KINDS, Found, Scene, play


@pytest.fixture
def folder() -> Iterator[Path]:
    yield from quick_folder()


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_is_acted_on_twice_whatever_happens_to_the_files(kind: str, folder: Path) -> None:
    found = play(Scene(folder, kind, f"{kind} short"))
    assert found.acts >= 24
    assert (found.twice, found.unseen, found.broken) == (0, 0, [])


def test_without_the_guard_it_is_found(folder: Path) -> None:
    """The control: neither locks that stay nor a look at the files."""
    total = Found()
    for number in range(5):
        total.add(play(Scene(folder / str(number), "shm", f"control {number}", guarded=False)))
        if total.violations:
            return
    pytest.fail("the control broke no promise")
