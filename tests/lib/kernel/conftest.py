"""Fixtures of the kernel's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.control import Control
from ctrlrun.postgres import PostgresStateStore
from tests.lib.kernel.world import AWAITED, STORES, AwaitedControl, Clock, World
from tests.pg.server import give_back


class Worlds:
    """A maker of worlds, on one kind of store."""

    def __init__(self, kind: str, folder: Path) -> None:
        self._kind = kind
        self._folder = folder
        self._made: list[Any] = []
        self._count = 0

    def __call__(self, mode: str = "enforce", **options: Any) -> World:
        clock = Clock()
        self._count += 1
        folder = self._folder / str(self._count)
        folder.mkdir()
        self._made.append(STORES[self._kind](clock, folder))
        kind = AwaitedControl if self._kind == AWAITED else Control
        return World(self._made[-1], clock, mode, kind, **options)

    def end_case(self) -> None:
        """Close the stores of a case that is over."""
        while self._made:
            store = self._made.pop()
            store.close()
            if isinstance(store, PostgresStateStore):
                give_back(store.schema)


@pytest.fixture(params=list(STORES))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Worlds]:
    """A maker of worlds, on every kind of store."""
    made = Worlds(request.param, tmp_path)
    yield made
    made.end_case()


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()
