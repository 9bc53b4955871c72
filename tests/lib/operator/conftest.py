"""Fixtures of the operator room's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lib.operator.helpers import STORES, Clock, Scene


@pytest.fixture(params=list(STORES))
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """A scene on every kind of store."""
    clock = Clock()
    store = STORES[request.param](clock, tmp_path)
    yield Scene(store, clock)
    store.close()
