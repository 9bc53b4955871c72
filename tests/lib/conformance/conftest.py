"""What holds for these tests: nothing here is about power cuts, so the disk may lag."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _a_disk_that_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRLRUN_DURABILITY", "normal")
