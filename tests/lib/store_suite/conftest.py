"""Every store, behind one fixture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state import InMemoryStateStore, UnitStateStore
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.lib.store_suite.helpers import FakeClock
from tests.pg.server import borrow, give_back, server_url

BACKENDS = ("memory", "sqlite", "postgres")


def open_store(backend: str, path: Path, clock: FakeClock) -> UnitStateStore:
    """A new store; nothing here is about power cuts, so the disk may lag."""
    if backend == "memory":
        return InMemoryStateStore(clock=clock)
    if backend == "postgres":
        return PostgresStateStore(server_url(), clock=clock, schema=borrow())
    return SQLiteStateStore(path / "state.db", clock=clock, durability="normal")


def let_go(store: UnitStateStore) -> None:
    """Close a store; a schema is another test's then: making one takes its time."""
    store.close()
    if isinstance(store, PostgresStateStore):
        give_back(store.schema)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def store(backend: str, tmp_path: Path, clock: FakeClock) -> Iterator[UnitStateStore]:
    opened = open_store(backend, tmp_path, clock)
    yield opened
    let_go(opened)


@pytest.fixture
def new_store(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[FakeClock], UnitStateStore]]:
    """Makes a store of its own for each call: for examples of one property."""
    opened: list[UnitStateStore] = []

    def make(clock: FakeClock) -> UnitStateStore:
        if backend == "postgres" and opened:  # one server for all of them: one example at a time
            let_go(opened.pop())
        made = open_store(backend, tmp_path_factory.mktemp("store"), clock)
        opened.append(made)
        return made

    yield make
    for made in opened:
        let_go(made)
