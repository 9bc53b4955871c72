"""Opening a SQLite store: what is made, what is refused, and what is left alone."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.errors import InvalidArgument, SchemaMismatch, StoreNotFound
from ctrlrun.state import (
    ExistingSQLiteStore,
    SQLiteReader,
    SQLiteStateStore,
    StateStore,
    UnitStateStore,
    sqlite_connection,
    sqlite_make,
)
from tests.cases import walk
from tests.lib import sqlite_helpers as old

quick_folder = pytest.fixture(old.quick_folder)


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("strict_umask")
def test_new_files_and_folders_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "state.db"
    with closing(SQLiteStateStore(path)) as store:
        store.reserve_effect("k", "a")
        assert {mode_of(path.parent), mode_of(path.parent.parent)} == {0o700}
        assert {item.name: mode_of(item) for item in path.parent.iterdir()} == {
            "state.db": 0o600,
            "state.db-wal": 0o600,
            "state.db-shm": 0o600,
        }
    assert [item.name for item in path.parent.iterdir()] == ["state.db"]


def test_existing_modes_are_untouched(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir(mode=0o755)
    path = folder / "state.db"
    path.touch(mode=0o640)
    before = mode_of(folder), mode_of(path)
    SQLiteStateStore(path).close()
    assert (mode_of(folder), mode_of(path)) == before


def test_a_zero_byte_file_is_an_empty_database(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    with closing(SQLiteStateStore(path)) as store:
        store.reserve_effect("k", "a")
    assert old.journal_mode(path) == "wal"
    assert old.select(path, "SELECT effect_key FROM effects") == [("k",)]


def test_both_are_stores_and_a_reader_has_nothing_that_writes(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(SQLiteStateStore(path)) as store, closing(SQLiteReader(path)) as reader:
        assert isinstance(store, StateStore)
        assert isinstance(store, UnitStateStore)
        writes = {
            name
            for name in vars(StateStore) | vars(UnitStateStore)
            if not name.startswith("_") and not hasattr(SQLiteReader, name)
        }
        assert not hasattr(reader, "unit")
        assert {"append_event", "put_receipt", "reserve_effect", "unit"} <= writes
        assert store.path == path
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._rows("DELETE FROM effects")


@walk("name", ["x#1?a=b.db", "%41.db", "мой магазин.db", "a&mode=ro.db"])
def test_any_name_of_a_file_means_that_file(tmp_path: Path, name: str) -> None:
    with closing(SQLiteStateStore(tmp_path / name)) as store:
        store.reserve_effect("k", "a")
        with closing(SQLiteReader(tmp_path / name)) as reader:
            assert reader.get_effect("k") == store.get_effect("k")
    assert [item.name for item in tmp_path.iterdir() if item.suffix == ".db"] == [name]


def test_a_relative_path_stays_the_same_file_when_the_folder_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(SQLiteStateStore("state.db")) as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        worker = threading.Thread(target=store.reserve_effect, args=("k", "a"))
        worker.start()
        worker.join()
        assert store.path == Path("state.db")
        assert store.get_effect("k") is not None
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_link_is_followed_to_a_store_and_never_makes_one(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "data" / "real.db")
    with pytest.raises(InvalidArgument, match=r"link\.db is a symbolic link to no file"):
        SQLiteStateStore(link)
    assert os.listdir(tmp_path) == ["link.db"]
    SQLiteStateStore(tmp_path / "data" / "real.db").close()
    with closing(SQLiteStateStore(link)) as store:
        store.reserve_effect("k", "a")
    assert link.is_symlink()
    assert old.select(tmp_path / "data" / "real.db", "SELECT COUNT(*) FROM effects") == [(1,)]


# --- refusals ------------------------------------------------------------------------------------

OPENERS: dict[str, Callable[[Path], Any]] = {
    "store": SQLiteStateStore,
    "reader": SQLiteReader,
    "answering": lambda path: ExistingSQLiteStore(path, extend=True),
    "attached": lambda path: ExistingSQLiteStore(path, extend=False),
}
openers = pytest.mark.parametrize("opener", OPENERS)
existing_openers = pytest.mark.parametrize("opener", ["reader", "answering", "attached"])


@openers
@pytest.mark.parametrize(
    "path",
    ["", "  ", ":memory:", "file:x?mode=memory&cache=shared", "a\0b", b"state.db"],
)
def test_paths_that_can_be_no_store(opener: str, path: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        OPENERS[opener](path)
    assert list(tmp_path.iterdir()) == []


@openers
def test_a_directory_is_refused_by_name(opener: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"is a directory.*CTRLRUN_STATE") as caught:
        OPENERS[opener](tmp_path)
    assert str(tmp_path) in str(caught.value)


@openers
def test_what_is_no_regular_file_is_refused(opener: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument, match="no regular file"):
        OPENERS[opener](tmp_path / "pipe")


@openers
def test_a_file_that_is_no_database_is_refused_and_stays(opener: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are notes, not a database, and long enough to have a header " * 9)
    before = old.contents(tmp_path)
    with pytest.raises(InvalidArgument, match="CTRLRUN_STATE") as caught:
        OPENERS[opener](path)
    assert str(path) in str(caught.value)
    assert old.contents(tmp_path) == before


@openers
@pytest.mark.parametrize("damage", [b"CRE\xadTE INDEX", b"\xff"])
def test_a_schema_that_is_damaged_is_refused_by_name(
    opener: str, damage: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    SQLiteStateStore(path).close()
    with closing(old.plain(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = CAST(? AS TEXT) WHERE name = 'receipts_by_seq'",
            (damage,),
        )
    with pytest.raises(sqlite3.DatabaseError, match="malformed database schema") as caught:
        OPENERS[opener](path)
    assert str(path) in str(caught.value)


@existing_openers
def test_a_folder_that_cannot_be_written_is_what_is_said(
    opener: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    SQLiteStateStore(path).close()
    writable = os.access
    monkeypatch.setattr(
        os, "access", lambda place, mode: place != tmp_path and writable(place, mode)
    )

    def refused(uri: str) -> sqlite3.Connection:  # what SQLite does beside a log on such a disk
        return sqlite3.connect(f"file:{tmp_path}/none/none?mode=ro", uri=True)

    monkeypatch.setattr(SQLiteReader, "connector", staticmethod(refused))
    monkeypatch.setattr(SQLiteStateStore, "connector", staticmethod(refused))
    with pytest.raises(sqlite3.OperationalError, match="its folder is read-only") as caught:
        OPENERS[opener](path)
    assert str(path) in str(caught.value)


@openers
@pytest.mark.parametrize("wal", [False, True], ids=["rollback", "wal"])
@pytest.mark.parametrize("pending", [False, True], ids=["closed", "pending"])
def test_another_applications_database_is_left_exactly_as_it_was(
    opener: str, wal: bool, pending: bool, tmp_path: Path
) -> None:
    path = tmp_path / "django.db"

    def build() -> None:
        db = old.plain(path)
        db.execute(f"PRAGMA journal_mode={'WAL' if wal else 'DELETE'}")
        db.execute("CREATE TABLE auth_user (id INTEGER)")
        db.execute("CREATE TABLE django_session (id INTEGER)")
        if pending:
            old.kill_self()
        db.close()

    old.in_child(build)
    before = old.contents(tmp_path)
    assert ("django.db-wal" in before) is (wal and pending)
    with pytest.raises(SchemaMismatch, match="auth_user, django_session"):
        OPENERS[opener](path)
    after = old.contents(tmp_path)
    after.pop("django.db-shm", None)  # the shared index of a log: no data, and remade at will
    before.pop("django.db-shm", None)
    assert after == before
    assert old.journal_mode(path) == ("wal" if wal else "rollback")


@existing_openers
def test_a_missing_file_is_refused_and_nothing_is_made(opener: str, tmp_path: Path) -> None:
    path = tmp_path / "none" / "state.db"
    with pytest.raises(StoreNotFound, match=r"no database at '.*agent") as caught:
        OPENERS[opener](path)
    assert f"'{path}'" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@existing_openers
def test_an_empty_file_stays_empty(opener: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()
    with pytest.raises(SchemaMismatch, match="0001_baseline"):
        OPENERS[opener](path)
    assert old.contents(tmp_path) == {"state.db": b""}


@walk("opener", ["reader", "attached"])
@walk("steps", [0, 1, 2, 3])
def test_a_store_that_is_behind_is_not_brought_on_by_reading(
    opener: str, steps: int, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    old.make_format(path, steps)
    before = old.contents(tmp_path)
    with pytest.raises(SchemaMismatch) as caught:
        OPENERS[opener](path)
    error = caught.value
    assert all(name in str(error) for name in old.MIGRATION_IDS[steps:])
    assert error.applied == old.MIGRATION_IDS[:steps]
    assert error.known == old.MIGRATION_IDS
    assert old.contents(tmp_path) == before


@openers
def test_a_store_whose_table_is_gone_is_refused_by_the_tables_name(
    opener: str, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    old.make_format(path)
    old.execute(path, "DROP TABLE receipts")
    with pytest.raises(SchemaMismatch, match="receipts"):
        OPENERS[opener](path)


def test_an_old_sqlite_is_refused_with_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.34.1")
    for opener in OPENERS.values():
        with pytest.raises(InvalidArgument, match=r"3\.34\.1.*3\.35\.0"):
            opener(tmp_path / "state.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["", "FULL", "off", "maybe"])
def test_an_unknown_durability_is_refused(
    value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgument, match="full, normal"):
        SQLiteStateStore(tmp_path / "state.db", durability=value)
    monkeypatch.setenv("CTRLRUN_DURABILITY", value)
    with pytest.raises(InvalidArgument, match="CTRLRUN_DURABILITY"):
        SQLiteStateStore(tmp_path / "state.db")
    assert list(tmp_path.iterdir()) == []


# --- locks ---------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five seconds are the rule; a fifth of one is enough to see it."""
    monkeypatch.setattr(sqlite_connection, "BUSY_PATIENCE_S", 0.2)


def test_a_disk_that_is_full_at_the_first_open_is_named_and_left_empty(tmp_path: Path) -> None:
    class Full(SQLiteStateStore):
        @staticmethod
        def connector(uri: str) -> sqlite3.Connection:
            connection = sqlite_connection.open_connection(uri)
            connection.execute("PRAGMA max_page_count=3")
            return connection

    path = tmp_path / "state.db"
    with pytest.raises(sqlite3.OperationalError, match="full") as caught:
        Full(path)
    assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("impatient")
@walk("opener", ["store", "answering"])
def test_a_lock_that_is_never_given_up_says_so_at_open(opener: str, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old.make_format(path, 1, wal=False)
    with closing(old.plain(path)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="another process") as caught:
            OPENERS[opener](path)
        assert str(path) in str(caught.value)
        holder.execute("ROLLBACK")
    assert old.select(path, "SELECT COUNT(*) FROM schema_version") == [(1,)]
    with closing(OPENERS[opener](path)):
        assert old.journal_mode(path) == "wal"


@pytest.mark.usefixtures("impatient")
def test_a_call_that_waits_in_vain_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(SQLiteStateStore(path)) as store, closing(old.plain(path)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.reserve_effect("k", "a")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            store.unit(lambda: pytest.fail("ran without the lock"), durable=True)
        assert store.get_effect("k") is None  # reading goes on beside a writer
        holder.execute("ROLLBACK")
        assert store.reserve_effect("k", "a").attempt == 1


def test_a_call_waits_for_a_lock_that_is_given_up(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(SQLiteStateStore(path)) as store:
        waits = threading.Event()
        pause = time.sleep

        def waiting(seconds: float) -> None:
            waits.set()
            pause(seconds)

        def give_up() -> None:
            assert waits.wait(30)
            db.execute("COMMIT")

        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        db.execute("BEGIN IMMEDIATE")
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(time, "sleep", waiting)
            other = threading.Thread(target=give_up)
            other.start()
            assert store.reserve_effect("k", "a").attempt == 1
            other.join()
        db.close()


# --- creating ------------------------------------------------------------------------------------


def test_eight_processes_make_one_store(tmp_path: Path) -> None:
    path = tmp_path / "new" / "state.db"

    def work(number: int) -> None:
        with closing(SQLiteStateStore(path, durability="normal")) as store:
            store.reserve_effect(f"k{number}", "a")

    assert old.at_once(8, work) == [0] * 8
    assert [item.name for item in path.parent.iterdir()] == ["state.db"]
    assert old.select(path, "SELECT COUNT(*) FROM effects") == [(8,)]


def test_a_file_that_another_process_made_meanwhile_is_never_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.db"
    link = os.link

    def link_too_late(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        with closing(SQLiteStateStore(path)) as theirs:
            theirs.reserve_effect("theirs", "a")
        link(source, target)

    monkeypatch.setattr(os, "link", link_too_late)
    with closing(SQLiteStateStore(path)) as store:
        assert store.get_effect("theirs") is not None
    assert [item.name for item in tmp_path.iterdir()] == ["state.db"]


def test_a_new_store_and_its_folders_are_on_disk_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, link = os.fsync, os.link

    def watched_fsync(handle: int) -> None:
        done.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def watched_link(source: Any, target: Any) -> None:
        done.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "link", watched_link)
    folder = tmp_path / "a" / "b"
    SQLiteStateStore(folder / "state.db").close()
    beside = done.pop(2)
    assert beside.startswith(f"{folder}/.ctrlrun-")
    assert done == [str(tmp_path), str(tmp_path / "a"), "link", str(folder)]


def test_where_links_are_not_to_be_had_a_store_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Any, target: Any) -> None:
        raise PermissionError(1, "Operation not permitted", str(source))

    monkeypatch.setattr(os, "link", refuse)
    with closing(SQLiteStateStore(tmp_path / "state.db")) as store:
        store.reserve_effect("k", "a")
    assert [item.name for item in tmp_path.iterdir()] == ["state.db"]
    assert mode_of(tmp_path / "state.db") == 0o600


def test_a_kill_at_any_step_of_the_first_open_leaves_nothing_that_stops_the_next(
    quick_folder: Path,
) -> None:
    """The child dies around each thing that is done to files, each commit, and some statements."""
    whole = quick_folder / "whole"
    whole.mkdir()
    assert old.in_child(partial(dying_create, 10_000, whole / "state.db")) == 0
    steps = (whole / "steps").read_text().split()
    assert len(steps) > 60
    around = [
        {*FILES, "BEGIN", "COMMIT"} & {*steps[max(0, n - 1) : n + 2]} for n in range(len(steps))
    ]
    for number in [n for n, near in enumerate(around) if near or n % 4 == 0]:
        folder = quick_folder / str(number)
        folder.mkdir()
        status = old.in_child(partial(dying_create, number, folder / "state.db"))
        assert status == -signal.SIGKILL
        left = [item for item in folder.iterdir() if not item.name.startswith(".ctrlrun-")]
        # Whole or not there: never half of a store under its name.
        assert all(len(old.select(item, "SELECT * FROM schema_version")) == 4 for item in left)
        with closing(SQLiteStateStore(folder / "state.db")) as store:
            store.reserve_effect("k", "a")


FILES = ("link", "fsync", "unlink", "open")


def dying_create(number: int, path: Path) -> None:
    """Make a store, and be killed before the n-th step; or write down what the steps were."""
    steps: list[str] = []

    def step(what: str) -> None:
        if len(steps) == number:
            old.kill_self()
        steps.append(what)

    class Dying(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            step(sql.split()[0])
            return super().execute(sql, *values)

    for name in FILES:
        real = getattr(os, name)

        def watched(*values: Any, name: str = name, real: Any = real, **named: Any) -> Any:
            step(name)
            return real(*values, **named)

        setattr(os, name, watched)

    def connect(uri: str) -> sqlite3.Connection:
        return sqlite3.connect(uri, uri=True, isolation_level=None, factory=Dying)

    sqlite_make.create(path, utc_now, connect)
    path.with_name("steps").write_text(" ".join(steps))
