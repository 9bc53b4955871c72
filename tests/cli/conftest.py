"""Fixtures of the command line's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.helpers import Scene


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, and no setting of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("CTRLRUN_", "PYTHONIO"))]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.fixture
def scene(here: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Scene]:
    """A folder with a store in it."""
    made = Scene(here, capsys)
    yield made
    made.store.close()
