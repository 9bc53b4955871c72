"""Every store, behind one fixture."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import GENESIS_HASH
from ctrlrun.state import InMemoryStateStore, UnitStateStore
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.cases import walk
from tests.lib import sqlite_helpers
from tests.lib.store_suite.helpers import START_TIME, FakeClock
from tests.pg.server import EMPTIED, borrow, empty, give_back, server_url

BACKENDS = ("memory", "sqlite", "postgres")


def open_store(backend: str, path: Path, clock: FakeClock) -> UnitStateStore:
    """A new store; nothing here is about power cuts, so the disk may lag."""
    if backend == "memory":
        return InMemoryStateStore(clock=clock)
    if backend == "postgres":
        return PostgresStateStore(server_url(), clock=clock, schema=borrow())
    return sqlite_helpers.new_store(path / "state.db", clock=clock, durability="normal")


def let_go(store: UnitStateStore) -> None:
    """Close a store; a schema is another test's then: making one takes its time."""
    store.close()
    if isinstance(store, PostgresStateStore):
        give_back(store.schema)


def clear(store: UnitStateStore) -> None:
    """Take everything out of a store, which costs less than a new one."""
    if isinstance(store, PostgresStateStore):
        empty(store.schema)
    elif isinstance(store, InMemoryStateStore):
        store.__init__(clock=store._clock)  # type: ignore[misc]
    elif isinstance(store, SQLiteStateStore):
        with closing(sqlite3.connect(store.path)) as db:
            for table in (*EMPTIED, "sqlite_sequence"):
                db.execute(f"DELETE FROM {table}")
            db.execute("INSERT INTO receipt_chain VALUES (1, 0, ?)", (GENESIS_HASH,))
            db.commit()
        store.close()
        # Another store of that path: this one has seen evidence that is gone.
        store.__init__(store.path, clock=store._clock)  # type: ignore[misc]


def begin_anew(fixtures: dict[str, Any]) -> None:
    """As for a new test: nothing in the store, and the clock where it began."""
    clear(fixtures["store"])
    if "clock" in fixtures:
        fixtures["clock"].now = START_TIME


walk_stores = partial(walk, between=begin_anew)
"""A table of cases on one store, which is empty again for each."""


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
