"""The suites over Postgres: full marks, in schemas that are gone afterwards."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from ctrlrun.conformance.store import StoreBackend, run
from ctrlrun.conformance.store.backends import PostgresBackend, store_from_url
from ctrlrun.errors import InvalidArgument
from ctrlrun.postgres import PostgresStateStore
from tests.cases import walk
from tests.pg.server import server_url


def schemas(backend: PostgresBackend) -> list[str]:
    """Those of a backend that are there; other tests use the same server."""
    mark = backend.schema.rpartition("_")[0]
    with psycopg.connect(server_url(), autocommit=True) as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", [f"{mark}_"]
        ).fetchall()
    return [name for (name,) in found]


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("forked_contenders")
def test_postgres_gets_full_marks() -> None:
    backend = PostgresBackend(server_url())
    report = run(backend, processes=4)
    assert report.to_text().splitlines()[-1] == "postgres: 28/28", report.to_text()
    assert report.ok
    assert schemas(backend) == []


def test_a_schema_is_its_own_until_it_is_reset() -> None:
    backend = PostgresBackend(server_url())
    assert isinstance(backend, StoreBackend)
    first = backend.open()
    try:
        first.reserve_effect("k", "a")
        url = backend.url()
        assert url is not None and url.endswith(f"ctrlrun_schema={backend.schema}")
        assert schemas(backend) == [backend.schema]
        again = store_from_url(url)
        assert isinstance(again, PostgresStateStore) and again.schema == backend.schema
        assert again.get_effect("k") == first.get_effect("k")
        again.close()
    finally:
        first.close()
        backend.reset()
    assert schemas(backend) == []
    assert backend.url() != url


@walk("url", ["", "host=here dbname=there", "sqlite://x", "redis://ada:secret@h"])
def test_a_database_is_named_by_a_url(url: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as caught:
        PostgresBackend(url)
    assert "secret" not in str(caught.value)
