"""Connections: one a thread, gone with it; closing, forking, and files that change underneath."""

from __future__ import annotations

import gc
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.errors import DuplicateEffect, SchemaMismatch, StoreNotFound
from ctrlrun.state import SQLiteReader, SQLiteStateStore
from tests.lib import sqlite_helpers as old


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStateStore]:
    with closing(SQLiteStateStore(path, durability="normal")) as opened:
        yield opened


def run_in_thread(work: Callable[[], object]) -> None:
    """Run `work` in a thread of its own, and raise here what it raises there."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


# --- threads -------------------------------------------------------------------------------------


def test_a_thread_that_ends_takes_its_descriptors_along(store: SQLiteStateStore) -> None:
    store.reserve_effect("k", "a")
    inside: list[int] = []

    def work() -> None:
        store.get_effect("k")
        inside.append(old.open_files())

    run_in_thread(work)
    # SQLite keeps one descriptor of the file for the next connection while another has locks.
    before = old.open_files()
    for _ in range(30):
        run_in_thread(work)
    assert min(inside) > before
    assert old.open_files() == before


def test_a_store_that_is_dropped_takes_its_descriptors_along(path: Path) -> None:
    gc.collect()
    before = old.open_files()
    for _ in range(5):
        store = SQLiteStateStore(path, durability="normal")
        store.append_event(old.event())
        reader = SQLiteReader(path)
        assert reader.events()
        del store, reader
    gc.collect()
    assert old.open_files() == before


def test_threads_write_beside_each_other(store: SQLiteStateStore) -> None:
    def work(name: int) -> None:
        for number in range(20):
            store.unit(partial(store.append_event, old.event(number)), durable=False)
            store.reserve_effect(f"k{name}-{number}", "a")

    threads = [threading.Thread(target=work, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.event_id for event in store.events()] == [*range(1, 121)]
    assert store.effects_count() == 120


# --- closing -------------------------------------------------------------------------------------


def test_close_disconnects_all_threads_and_is_no_fence(store: SQLiteStateStore, path: Path) -> None:
    here = threading.Barrier(2)
    done = threading.Event()

    def work() -> None:
        store.get_effect("k")
        here.wait()
        done.wait()
        store.reserve_effect("late", "a")

    thread = threading.Thread(target=work)
    thread.start()
    here.wait()
    names = {os.readlink(f"/proc/self/fd/{fd}") for fd in numbers()}
    assert str(path) in names
    store.close()
    store.close()
    names = {os.readlink(f"/proc/self/fd/{fd}") for fd in numbers()}
    assert str(path) not in names
    done.set()
    thread.join()
    assert store.get_effect("late") is not None


def numbers() -> list[int]:
    """The descriptors that are still there when they are looked at."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue
        found.append(int(name))
    return found


def test_closing_beside_busy_threads_disturbs_none_of_their_calls(store: SQLiteStateStore) -> None:
    stop = threading.Event()
    raised: list[BaseException] = []
    counts = [0, 0, 0]

    def work(name: int) -> None:
        try:
            while not stop.is_set():
                store.append_event(old.event(name))
                store.events_page(limit=20)
                counts[name] += 1
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(3)]
    for thread in threads:
        thread.start()
    while min(counts) < 20 and not raised:
        store.close()
    stop.set()
    for thread in threads:
        thread.join()
    assert raised == []
    assert store.events_count() == sum(counts)


def test_closing_inside_a_unit_waits_for_its_end(store: SQLiteStateStore) -> None:
    def work() -> None:
        store.reserve_effect("k", "a")
        store.close()
        store.begin_execution("k", "a")

    store.unit(work, durable=True)
    record = store.get_effect("k")
    assert record is not None
    assert record.state == "executing"


# --- forking -------------------------------------------------------------------------------------


def test_parent_and_child_go_on_with_connections_of_their_own(store: SQLiteStateStore) -> None:
    store.reserve_effect("before", "a")

    def child() -> None:
        assert store.get_effect("before") is not None
        store.reserve_effect("child", "b")
        with pytest.raises(DuplicateEffect):
            store.reserve_effect("before", "b")

    children = [old.start_child(child)]
    store.reserve_effect("parent", "a")
    assert old.wait_for(children[0]) == 0
    assert {record.effect_key for record in store.list_effects()} == {"before", "child", "parent"}


def test_a_child_outlives_its_parent_without_harm(path: Path) -> None:
    """The parent's exit must not give away the locks that the child relies on."""
    reading, writing = os.pipe()

    def parent() -> None:
        store = SQLiteStateStore(path, durability="normal")
        store.append_event(old.event(0))

        def grandchild() -> None:
            os.read(reading, 1)
            for number in range(1, 40):
                store.append_event(old.event(number))

        old.start_child(grandchild)

    assert old.in_child(parent) == 0
    os.write(writing, b"x")
    os.close(writing)
    with closing(SQLiteStateStore(path, durability="normal")) as store:
        for number in range(40, 80):
            store.append_event(old.event(number))
        while store.events_count() < 80:
            threading.Event().wait(0.005)  # the grandchild is nobody's to wait for
        assert old.select(path, "PRAGMA integrity_check") == [("ok",)]
        assert [event.event_id for event in store.events()] == [*range(1, 81)]
    os.close(reading)


def test_forking_beside_busy_threads(store: SQLiteStateStore) -> None:
    stop = threading.Event()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                store.append_event(old.event())
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        statuses = [
            old.in_child(partial(store.reserve_effect, f"k{number}", "a")) for number in range(10)
        ]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert raised == []
    assert statuses == [0] * 10
    assert store.effects_count() == 10
    assert old.select(store.path, "PRAGMA integrity_check") == [("ok",)]


def test_a_fork_inside_a_unit_leaves_the_unit_to_the_parent(store: SQLiteStateStore) -> None:
    def child() -> None:
        # It has no part in the transaction, and a connection that knows nothing of it.
        assert store.get_effect("k") is None

    def work() -> int:
        store.reserve_effect("k", "a")
        return old.in_child(child)

    assert store.unit(work, durable=False) == 0
    assert store.get_effect("k") is not None
    assert old.select(store.path, "PRAGMA integrity_check") == [("ok",)]


# --- files that change underneath ----------------------------------------------------------------


def test_a_file_that_was_removed_is_not_made_again(store: SQLiteStateStore, path: Path) -> None:
    store.reserve_effect("k", "a")
    store.close()
    path.unlink()
    with pytest.raises(StoreNotFound):
        store.get_effect("k")
    with pytest.raises(StoreNotFound):
        store.reserve_effect("j", "a")
    assert not path.exists()


def test_a_replaced_file_is_noticed_and_read(path: Path, tmp_path: Path) -> None:
    SQLiteStateStore(path).close()
    with closing(SQLiteReader(path)) as reader:
        token = reader.change_token()
        assert reader.change_token() == token
        with closing(SQLiteStateStore(tmp_path / "restored.db")) as other:
            other.reserve_effect("k", "a")
        os.replace(tmp_path / "restored.db", path)
        assert reader.change_token() != token
        assert reader.get_effect("k") is not None
        path.unlink()
        assert reader.change_token() != token
        with pytest.raises(StoreNotFound):
            reader.get_effect("k")
        SQLiteStateStore(path).close()
        assert reader.change_token() is not None
        assert reader.get_effect("k") is None


def test_a_file_that_was_replaced_by_a_strange_one_is_refused(path: Path, tmp_path: Path) -> None:
    with closing(SQLiteStateStore(path)) as store, closing(SQLiteReader(path)) as reader:
        old.execute(tmp_path / "other.db", "CREATE TABLE auth_user (id)")
        store.close()
        os.replace(tmp_path / "other.db", path)
        with pytest.raises(SchemaMismatch, match="auth_user"):
            reader.change_token()
        with pytest.raises(SchemaMismatch, match="auth_user"):
            store.reserve_effect("k", "a")


def test_the_token_is_another_one_after_anybodys_commit(
    store: SQLiteStateStore, path: Path
) -> None:
    with closing(SQLiteReader(path)) as reader:
        ours: Callable[[], object] = partial(store.append_event, old.event())
        theirs = partial(old.fill, path, "events", ts=old.STAMP, type="X")
        for write in (ours, theirs):
            tokens = reader.change_token(), store.change_token()
            assert (reader.change_token(), store.change_token()) == tokens
            write()
            assert reader.change_token() != tokens[0]
            assert store.change_token() != tokens[1]
            tokens = reader.change_token(), store.change_token()
            reader.close()
            assert reader.change_token() != tokens[0]  # a new connection counts anew


# --- the seam ------------------------------------------------------------------------------------


def test_every_connection_is_made_in_one_place(path: Path) -> None:
    made: list[str] = []

    def connect(uri: str) -> sqlite3.Connection:
        made.append(uri)
        return sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=0
        )

    class Watched(SQLiteStateStore):
        connector: Any = staticmethod(connect)

    with closing(Watched(path)) as store:
        store.reserve_effect("k", "a")
        run_in_thread(lambda: store.get_effect("k"))
    assert ".new?mode=rw" in made[0]
    # The first makes the log: only one that found it there is known to have that one open.
    assert made[1:] == [f"{path.as_uri()}?mode=rw"] * 3
