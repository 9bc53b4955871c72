"""The soak for some seconds: nothing happens twice, and each fault that is built in is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pg.server import a_schema, a_url
from tests.proof import faults
from tests.proof.soaking import is_sound, soak


def test_agents_that_are_killed(tmp_path: Path) -> None:
    url = f"sqlite://{tmp_path / 'state.db'}"
    tally = soak(url, tmp_path / "run", seconds=3, processes=4, kill=0.6)
    assert is_sound(tally), tally.violations
    assert tally.kills > 2 and tally.acts > 10


def test_agents_that_are_killed_over_postgres(tmp_path: Path) -> None:
    with a_schema() as schema:
        tally = soak(a_url(schema), tmp_path / "run", seconds=3, processes=4, kill=0.6)
    assert is_sound(tally), tally.violations
    assert tally.kills > 2 and tally.acts > 10


@pytest.mark.parametrize("planted", faults.ALL)
def test_a_planted_fault_is_found(tmp_path: Path, planted: str) -> None:
    url = f"sqlite://{tmp_path / 'state.db'}"
    tally = soak(url, tmp_path / "run", seconds=1, processes=3, kill=60, planted=planted)
    assert tally.planted
    assert {said.split()[0] for said in tally.violations} == tally.planted
