"""The power goes at any write or sync: what was acted on stays on record."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("apsw", reason="cutting the power under SQLite needs apsw")

from tests.proof.powercut import cuts


def test_no_acted_reservation_is_lost(tmp_path: Path) -> None:
    tally = cuts(tmp_path, 50)
    assert (tally.lost, tally.twice, tally.faults) == (0, 0, [])
    assert tally.acted > 20
    assert tally.logged > 25, "the calls did not go through the write-ahead log"


def test_without_the_sync_before_the_act_some_are_lost(tmp_path: Path) -> None:
    tally = cuts(tmp_path, 50, "normal")
    assert tally.lost > 0
    assert tally.twice == tally.lost
