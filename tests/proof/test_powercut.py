"""The power goes at any write or sync: what was acted on, spent or answered stays on record."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("apsw", reason="cutting the power under SQLite needs apsw")

from tests.proof.powercut import CALLS, cuts


def test_no_act_no_spent_approval_and_no_answer_is_lost(tmp_path: Path) -> None:
    tally = cuts(tmp_path, 50)
    assert (tally.lost, tally.twice, tally.faults) == (0, 0, [])
    assert (tally.unspent, tally.unanswered) == (0, 0)
    assert min(tally.acted, tally.spent, tally.answered) > 20
    assert tally.logged > 25, "the calls did not go through the write-ahead log"
    assert tally.begun.keys() >= {1, CALLS // 2, CALLS}, "the cuts do not reach the whole run"


def test_without_the_sync_before_the_act_some_are_lost(tmp_path: Path) -> None:
    tally = cuts(tmp_path, 25, "normal")
    assert tally.lost > 0
    assert tally.unspent > 0
    assert tally.unanswered > 0
    assert 0 < tally.twice <= tally.lost
