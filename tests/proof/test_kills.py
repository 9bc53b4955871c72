"""Some of the system calls of each program are its last, or fail; benchmarks/kills.py has them all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.sqlite_helpers import quick_folder
from tests.proof.kills import CALLS, SCENARIOS, Fault, Scenario, why_not

_REASON = why_not()
pytestmark = pytest.mark.skipif(_REASON is not None, reason=_REASON or "")


@pytest.fixture
def folder() -> Iterator[Path]:
    yield from quick_folder()


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_at_a_system_call_breaks_no_promise(name: str, folder: Path) -> None:
    scenario = Scenario(name, folder)
    counts = scenario.count()
    assert counts["pwrite64"] >= 5
    assert counts["fsync"] + counts["fdatasync"] >= 1
    sync = max(CALLS[1:], key=lambda call: counts[call])
    trials = [
        (Fault("KILL"), "pwrite64", counts["pwrite64"] // 2),
        (Fault("KILL"), sync, 1),
        (Fault("ENOSPC", lasting=True), "pwrite64", counts["pwrite64"] // 2),
        (Fault("EIO"), sync, 1),
    ]
    broken = {
        f"{call} {fault} at {number}": said
        for fault, call, number in trials
        if (said := scenario.trial(fault, call, number))
    }
    assert broken == {}
