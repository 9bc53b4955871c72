"""Readers of a sitting: connections that are kept, and a store that is looked at for each use."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.errors import InvalidArgument, SchemaMismatch, StoreNotFound
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state.location import KeptReaders, StoreLocation, locate
from tests.lib.store_suite.helpers import event
from tests.pg.server import a_url, drop, new_schema, rows, run, server_url

NAME = "kept_readers"


@pytest.fixture
def kept(schema: str) -> Iterator[KeptReaders]:
    with closing(PostgresStateStore(server_url(), schema=schema)) as store:
        store.append_event(event())
    with closing(KeptReaders(located(schema), clock=utc_now)) as readers:
        yield readers


def located(schema: str) -> StoreLocation:
    return locate(f"{a_url(schema)}&application_name={NAME}_{schema}", {})


def backends(schema: str) -> set[object]:
    """The connections that the readers have."""
    asked = f"SELECT pid FROM pg_stat_activity WHERE application_name = '{NAME}_{schema}'"
    return {row[0] for row in rows(schema, asked)}


def count(kept: KeptReaders) -> int:
    with closing(kept.reader()) as reader:
        return reader.events_count()


def test_a_thread_has_one_connection_until_all_is_closed(kept: KeptReaders, schema: str) -> None:
    assert [count(kept), count(kept)] == [1, 1]
    mine = backends(schema)
    assert len(mine) == 1
    found: list[int] = []
    other = threading.Thread(target=lambda: found.append(count(kept)))
    other.start()
    other.join()
    assert found == [1]
    assert count(kept) == 1 and mine <= backends(schema)
    kept.close()
    while backends(schema):  # a server ends them in its own time
        pass


def test_a_connection_that_was_ended_is_made_again(kept: KeptReaders, schema: str) -> None:
    assert count(kept) == 1
    before = backends(schema)
    for pid in before:
        run(schema, f"SELECT pg_terminate_backend({pid})")
    assert count(kept) == 1
    assert not before & backends(schema)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO {s}.schema_version VALUES ('0099_new', 'x', '9.9')",
        "DROP TABLE {s}.effects",
    ],
)
def test_a_store_that_became_another_is_refused_at_the_next_use(
    kept: KeptReaders, schema: str, statement: str
) -> None:
    assert count(kept) == 1
    run(schema, statement)
    with pytest.raises(SchemaMismatch):
        kept.reader()


def test_a_schema_that_is_gone_and_comes_back() -> None:
    schema = new_schema()
    with closing(PostgresStateStore(server_url(), schema=schema)):
        pass
    with closing(KeptReaders(located(schema), clock=utc_now)) as kept:
        assert count(kept) == 0
        drop(schema)
        with pytest.raises((StoreNotFound, InvalidArgument)):
            kept.reader()
        PostgresStateStore.create_schema(server_url(), schema)
        with closing(PostgresStateStore(server_url(), schema=schema)) as store:
            store.append_event(event())
            assert count(kept) == 1
    drop(schema)
