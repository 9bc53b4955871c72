"""Fixtures of the kernel's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.postgres import PostgresStateStore
from tests.lib.kernel.world import STORES, Clock, World
from tests.pg.server import give_back


@pytest.fixture(params=list(STORES))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., World]]:
    """A maker of worlds, on every kind of store."""
    made: list[Any] = []

    def make(mode: str = "enforce", **options: Any) -> World:
        clock = Clock()
        store = STORES[request.param](clock, tmp_path)
        made.append(store)
        return World(store, clock, mode, **options)

    yield make
    for store in made:
        store.close()
        if isinstance(store, PostgresStateStore):
            give_back(store.schema)


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()
