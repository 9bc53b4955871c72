"""Forking while another thread holds a lock of ours: the child asks for itself, and ends."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from ctrlrun.action import Principal
from ctrlrun.clock import SteadyClock, utc_now
from ctrlrun.control import context, protect, protection
from ctrlrun.control.identifying import Identifying
from ctrlrun.errors import IdentityError
from ctrlrun.forks import watched
from ctrlrun.jwt_identity import jwks
from ctrlrun.operator.authority_shelf import AuthorityShelf
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore, location
from ctrlrun.state.postgres_session import PostgresSession
from ctrlrun.state.session import Sessions
from tests.lib import sqlite_helpers as old

POLICY = "schema: ctrlrun.policy/v1\nactions: {pay: {decision: allow}}\n"


def ends_well(work: Callable[[], object]) -> bool:
    """Whether a forked child comes to its end, within 20 s and without an error."""
    child = old.start_child(work)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


@contextmanager
def meanwhile(hold: Callable[[Callable[[], None]], object]) -> Iterator[None]:
    """Another thread runs `hold`, which calls what it is given with the lock in its hands."""
    inside, done = threading.Event(), threading.Event()

    def wait() -> None:
        inside.set()
        assert done.wait(30)

    thread = threading.Thread(target=lambda: hold(wait), daemon=True)
    thread.start()
    assert inside.wait(10)
    try:
        yield
    finally:
        done.set()
        thread.join(10)


def holding(lock: Any) -> Callable[[Callable[[], None]], None]:
    def hold(wait: Callable[[], None]) -> None:
        with lock:
            wait()

    return hold


def test_the_default_control_that_another_thread_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ctrlrun.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(protection, "_default", protection._DefaultControl())

    @protect("pay", effect="pay:{key}")
    def pay(key: str) -> str:
        return key

    def child() -> None:
        with context("agent"):
            assert pay("k1") == "k1"

    with meanwhile(holding(protection._default._lock)):
        assert ends_well(child)


def test_a_key_set_that_another_thread_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    wait: list[Callable[[], None]] = []

    def fetch(address: object, *, timeout: float) -> bytes:
        asked.append(os.getpid())
        if wait:
            wait[0]()
        return b'{"keys": []}'

    monkeypatch.setattr(jwks, "fetch", fetch)
    where: Any = SimpleNamespace(
        address=None,
        timeout=timedelta(seconds=1),
        interval=timedelta(hours=1),
        max_age=timedelta(hours=1),
    )
    keys = jwks.PublishedKeys(where, {}, utc_now)

    def ask() -> None:
        with pytest.raises(IdentityError, match="not in the key set"):
            keys.key_for({"kid": "k", "alg": "RS256"})

    def child() -> None:
        wait.clear()
        ask()
        assert asked[-1] == os.getpid()

    def hold(waiting: Callable[[], None]) -> None:
        wait.append(waiting)
        ask()

    with meanwhile(hold):
        assert ends_well(child)


def test_every_other_lock_of_an_object(tmp_path: Path) -> None:
    clock = SteadyClock(utc_now)
    identifying = Identifying(None, "production", grants_enforced=False)
    shelf = AuthorityShelf()
    place = location.StoreLocation("sqlite", tmp_path / "state.db", "state.db")
    readers = location.KeptReaders(place, clock=utc_now)
    tried: list[tuple[Any, Callable[[], object]]] = [
        (clock, clock),
        (identifying, lambda: identifying._compare(Principal("a"), Principal("b"))),
        (shelf, shelf.forget),
        (readers, readers.close),
    ]
    for owner, use in tried:
        with meanwhile(holding(owner._lock)):
            assert ends_well(use), type(owner).__name__


def test_a_unit_in_memory_of_another_thread_is_undone_in_the_child() -> None:
    store = InMemoryStateStore()
    store.reserve_effect("before", "act_1")

    def child() -> None:
        assert not store.in_unit
        assert [record.effect_key for record in store.list_effects()] == ["before"]
        store.reserve_effect("half", "act_2")

    def hold(wait: Callable[[], None]) -> None:
        def work() -> None:
            store.reserve_effect("half", "act_1")
            wait()

        store.unit(work, durable=False)

    with meanwhile(hold):
        assert ends_well(child)
    assert store.get_effect("half") is not None


def test_a_fork_inside_a_unit_in_memory_keeps_the_unit() -> None:
    store = InMemoryStateStore()

    def work() -> None:
        store.reserve_effect("half", "act_1")
        assert ends_well(lambda: _is_inside(store))

    store.unit(work, durable=False)


def _is_inside(store: InMemoryStateStore) -> None:
    assert store.in_unit
    assert store.get_effect("half") is not None


def test_a_store_whose_session_another_thread_uses(tmp_path: Path) -> None:
    """The child has sessions of its own, whatever the threads of its parent were doing."""
    with closing(SQLiteStateStore(tmp_path / "state.db")) as store:

        def hold(wait: Callable[[], None]) -> None:
            with store._sessions._guard:
                # The fork waits for this one, which is never held for long.
                threading.Timer(0.05, wait_over.set).start()
                inside.set()
                assert wait_over.wait(10)

        inside, wait_over = threading.Event(), threading.Event()
        thread = threading.Thread(target=lambda: hold(lambda: None))
        thread.start()
        assert inside.wait(10)
        assert ends_well(lambda: store.reserve_effect("k", "act_1"))
        thread.join()


def test_what_is_watched_does_not_outlive_its_store() -> None:
    gc.collect()
    before = watched()
    with mock.patch.object(os, "register_at_fork") as register:
        for _ in range(1_000):
            InMemoryStateStore()
            _sessions_of_a_store()
    gc.collect()
    assert watched() == before
    register.assert_not_called()


def _sessions_of_a_store() -> None:
    sessions = Sessions(lambda: PostgresSession(mock.Mock(), "public"))
    sessions.current()
    sessions.close()


def test_stores_that_are_opened_and_dropped_leave_no_hook(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SQLiteStateStore(path).close()
    gc.collect()
    before = watched()
    with mock.patch.object(os, "register_at_fork") as register:
        for _ in range(20):
            SQLiteStateStore(path).close()
    gc.collect()
    assert watched() == before
    register.assert_not_called()
