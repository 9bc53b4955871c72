"""What a store says when its disk fails: which file it was, in one line, as the class it always was."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest

from ctrlrun.state import sqlite_connection
from ctrlrun.state.sqlite import SQLiteReader, SQLiteStateStore
from tests.lib import sqlite_helpers as old


@pytest.fixture
def path() -> Iterator[Path]:
    for folder in old.quick_folder():
        yield folder / "state.db"


def test_a_write_to_a_full_disk_names_the_file(path: Path) -> None:
    with closing(SQLiteStateStore(path)) as store:
        connection = store._sessions.current().connection
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count={pages}")
        with pytest.raises(sqlite3.OperationalError) as caught:
            store.reserve_effect("k" * 100_000, "a")
    assert str(caught.value) == f"cannot write '{path}': database or disk is full"
    assert caught.value.sqlite_errorcode == sqlite3.SQLITE_FULL
    assert caught.value.sqlite_errorname == "SQLITE_FULL"


def test_a_read_that_fails_names_the_file(path: Path) -> None:
    with closing(SQLiteStateStore(path)):
        pass
    with closing(SQLiteReader(path)) as store:
        assert store.get_effect("k") is None
        connection = store._sessions.current().connection
        connection.set_progress_handler(lambda: 1, 1)
        with pytest.raises(sqlite3.OperationalError) as caught:
            store.get_effect("k")
        connection.set_progress_handler(None, 1)
    assert str(caught.value) == f"cannot read '{path}': interrupted"
    assert caught.value.sqlite_errorname == "SQLITE_INTERRUPT"


def test_a_lock_that_is_never_given_up_names_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_PATIENCE_S", 0.1)
    with closing(SQLiteStateStore(path)) as store, closing(old.plain(path)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError) as caught:
            store.reserve_effect("k", "a")
        holder.execute("ROLLBACK")
    assert str(caught.value) == f"cannot write '{path}': database is locked"
    assert sqlite_connection.is_busy(caught.value)


def test_a_commit_that_fails_names_the_file(path: Path) -> None:
    with closing(SQLiteStateStore(path)) as store:
        connection = store._sessions.current().connection
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("CREATE TABLE a (id PRIMARY KEY)")
        connection.execute("CREATE TABLE b (a REFERENCES a DEFERRABLE INITIALLY DEFERRED)")
        with pytest.raises(sqlite3.IntegrityError) as caught:
            store.unit(lambda: connection.execute("INSERT INTO b VALUES (1)"), durable=True)
        assert store.reserve_effect("k", "a").attempt == 1
    assert str(caught.value) == f"cannot write '{path}': FOREIGN KEY constraint failed"


def test_a_sync_that_fails_at_the_first_open_names_the_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(handle: int) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(OSError) as caught:
        SQLiteStateStore(path)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(path))
    assert list(path.parent.iterdir()) == []


def test_a_connection_that_a_failing_disk_left_read_only_is_not_kept(path: Path) -> None:
    """SQLite opens a file for reading when it fails to for writing, and stays with that."""
    SQLiteStateStore(path).close()
    mode = "rw"

    class Unlucky(SQLiteStateStore):
        @staticmethod
        def connector(uri: str) -> sqlite3.Connection:
            return sqlite_connection.open_connection(uri.replace("mode=rw", f"mode={mode}"))

    with closing(Unlucky(path)) as store:
        for call in (
            lambda: store.reserve_effect("k", "a"),
            lambda: store.unit(lambda: store.reserve_effect("k", "a"), durable=True),
        ):
            store.close()
            mode = "ro"
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                call()
            mode = "rw"
        assert store.reserve_effect("k", "a").attempt == 1


def test_a_unit_goes_on_failing_until_it_is_left(path: Path) -> None:
    """No half of it is written through another connection."""
    with closing(SQLiteStateStore(path)) as store:
        before = store._sessions.current().connection

        def work() -> None:
            store.reserve_effect("first", "a")
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR
            error.sqlite_errorname = "SQLITE_IOERR"
            store._sessions.current()._named("write", error)
            assert store._sessions.current().connection is before
            raise error

        with pytest.raises(sqlite3.OperationalError):
            store.unit(work, durable=True)
        assert store.get_effect("first") is None
        assert store._sessions.current().connection is not before
