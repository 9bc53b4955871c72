"""The feed is woken by what a store tells at its commits, and polls where nothing is told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from types import SimpleNamespace

import psycopg
import pytest

from ctrlrun.clock import utc_now
from ctrlrun.operator import Feed, ReadingDesk
from ctrlrun.operator import feed as feeds
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state.location import locate
from ctrlrun.state.postgres_listen import Listener
from ctrlrun.state.postgres_schema import NOTIFICATIONS, TOLD_BY, channel_of
from tests.lib.store_suite.helpers import event
from tests.pg.server import a_url, rows, run, server_url

DEADLINE = 30.0
NEVER_S = 3_600.0
TAKEN_AWAY = (
    f"DROP TRIGGER {TOLD_BY} ON {{s}}.events",
    f"DROP FUNCTION {{s}}.{TOLD_BY}()",
    f"DELETE FROM {{s}}.schema_extensions WHERE extension_id = '{NOTIFICATIONS.id}'",
)
LISTENS = "SELECT pid FROM pg_stat_activity WHERE query = 'LISTEN \"{channel}\"' AND state = 'idle'"


@pytest.fixture
def store(schema: str) -> Iterator[PostgresStateStore]:
    with closing(PostgresStateStore(server_url(), schema=schema)) as opened:
        yield opened


@pytest.fixture
def never_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feed that hears of commits looks only when it is woken."""
    monkeypatch.setattr(feeds, "_QUIET_PERIOD_S", NEVER_S)


@contextmanager
def a_feed(schema: str) -> Iterator[Feed]:
    feed = Feed(ReadingDesk(locate(a_url(schema), {})), receipts=True)
    try:
        yield feed
    finally:
        feed.close()


def commit(store: PostgresStateStore, action_id: str, *, durable: bool = False) -> None:
    """An event, as a call's second transaction leaves it, or its first."""
    told = event(action_id=action_id, ts=utc_now())
    store.unit(lambda: store.append_event(told), durable=durable)


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def listening(feed: Feed) -> None:
    """Wait until it hears of commits, and has looked since."""
    until(lambda: feed._listener is not None and feed._listener.is_alive)
    feed.poll()


def next_events(feed: Feed) -> list[str]:
    """What the feed finds when it looks of its own accord."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if feed.wait(deadline - time.monotonic()) and feed._due() <= time.monotonic():
            found = [item.event.action_id for item in feed.poll().events]
            if found:
                return [str(name) for name in found]
    raise AssertionError("nothing came")


def backends(schema: str) -> list[int]:
    """The server's processes that listen for this store."""
    found = rows(schema, LISTENS.replace("{channel}", channel_of(schema)))
    return [int(str(pid)) for (pid,) in found]


@pytest.mark.usefixtures("never_polls")
def test_a_commit_elsewhere_wakes_the_feed(store: PostgresStateStore, schema: str) -> None:
    with a_feed(schema) as feed:
        listening(feed)
        for number in range(5):
            commit(store, f"act_{number}")
            assert next_events(feed) == [f"act_{number}"]


@pytest.mark.usefixtures("never_polls")
def test_a_listener_that_was_cut_off_comes_back(store: PostgresStateStore, schema: str) -> None:
    with a_feed(schema) as feed:
        listening(feed)
        (before,) = backends(schema)
        run(schema, f"SELECT pg_terminate_backend({before})")
        commit(store, "act_lost")
        assert next_events(feed) == ["act_lost"]
        until(lambda: backends(schema) not in ([], [before]))
        listening(feed)
        commit(store, "act_heard")
        assert next_events(feed) == ["act_heard"]


@pytest.mark.usefixtures("store")
def test_it_wakes_when_it_ceases_to_hear_and_when_it_hears_again(schema: str) -> None:
    """So that what fell between is looked for."""
    heard: list[bool] = []
    listener = Listener(server_url(), schema, lambda: heard.append(listener.is_alive))
    listener.start()
    try:
        until(lambda: heard == [True])
        (backend,) = backends(schema)
        run(schema, f"SELECT pg_terminate_backend({backend})")
        until(lambda: heard == [True, False, True])
    finally:
        listener.close()
    assert heard == [True, False, True, False]


def test_a_store_that_does_not_tell_is_polled(store: PostgresStateStore, schema: str) -> None:
    run(schema, *TAKEN_AWAY)
    with a_feed(schema) as feed:
        feed.poll()
        commit(store, "act_polled")
        assert next_events(feed) == ["act_polled"]
        assert feed._listener is not None
        assert not feed._listener.is_alive
        assert backends(schema) == []


def test_it_hears_as_soon_as_the_store_tells(
    store: PostgresStateStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ctrlrun.state.postgres_listen._UNHEARD_S", 0.01)
    run(schema, *TAKEN_AWAY)
    with a_feed(schema) as feed:
        feed.poll()
        PostgresStateStore(server_url(), schema=schema).close()
        listening(feed)


def test_what_an_executor_waits_for_tells_nobody(store: PostgresStateStore, schema: str) -> None:
    """Its commit would wait for the lock of all that notify, and hold it while it is written."""
    with closing(psycopg.connect(server_url(), autocommit=True)) as ear:
        ear.execute(f'LISTEN "{channel_of(schema)}"')
        commit(store, "act_1", durable=True)
        for number in range(3):
            commit(store, f"act_2{number}")
        store.unit(lambda: [commit(store, f"act_3{n}") for n in range(20)], durable=False)
        store.unit(lambda: [commit(store, f"act_4{n}") for n in range(20)], durable=True)
        heard = list(ear.notifies(timeout=DEADLINE, stop_after=4))
        assert [told.payload for told in heard] == [""] * 4  # one for each that does not wait
        assert list(ear.notifies(timeout=0)) == []


def test_a_role_that_may_not_notify_may_still_write(schema: str) -> None:
    with closing(PostgresStateStore(server_url(), schema=schema)):
        run(schema, "REVOKE EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) FROM PUBLIC")
        role = f"r_{schema[-12:]}"
        run(
            schema,
            f"CREATE ROLE {role}",
            f"GRANT USAGE ON SCHEMA {{s}} TO {role}",
            f"GRANT INSERT ON {{s}}.events TO {role}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {{s}} TO {role}",
        )
        try:
            run(
                schema,
                f"SET ROLE {role}; SET synchronous_commit TO off; "
                "INSERT INTO {s}.events (ts, type) VALUES ('x', 'y')",
            )
        finally:
            run(
                schema,
                f"DROP OWNED BY {role}",
                f"DROP ROLE {role}",
                "GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) TO PUBLIC",
            )
        assert len(rows(schema, "SELECT 1 FROM {s}.events")) == 1


@pytest.mark.usefixtures("store")
def test_a_pooler_is_not_listened_through(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number of the backend is not the server's."""
    monkeypatch.setattr("ctrlrun.state.postgres_listen._UNHEARD_S", 0.01)
    tries: list[str] = []
    heard = threading.Event()

    class Pooled:
        """A connection as a pooler hands it on."""

        def __init__(self, url: str) -> None:
            self._real = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)
            tries.append(url)

        @property
        def info(self) -> object:
            return SimpleNamespace(backend_pid=self._real.info.backend_pid + 1)

        def __getattr__(self, name: str) -> object:
            return getattr(self._real, name)

    listener = Listener(server_url(), schema, heard.set, connect=Pooled)
    listener.start()
    until(lambda: len(tries) > 2)
    listener.close()
    assert not heard.is_set()


def test_closing_leaves_no_thread_and_no_connection(store: PostgresStateStore, schema: str) -> None:
    before = threading.active_count()
    for _ in range(3):
        with a_feed(schema) as feed:
            listening(feed)
            until(lambda: len(backends(schema)) == 1)
    assert threading.active_count() == before
    until(lambda: backends(schema) == [])


def test_closing_while_nothing_can_be_reached(schema: str) -> None:
    before = threading.active_count()
    listener = Listener("postgresql://u:secret@/nowhere?host=/nowhere", schema, lambda: None)
    listener.start()
    listener.close()
    listener.close()
    assert threading.active_count() == before


def test_a_long_name_has_a_channel(schema: str) -> None:
    long = ("l_" + schema * 3)[:63]
    run(schema, f'CREATE SCHEMA "{long}"')
    try:
        with closing(PostgresStateStore(server_url(), schema=long)) as store, a_feed(long) as feed:
            listening(feed)
            commit(store, "act_1")
            assert next_events(feed) == ["act_1"]
    finally:
        run(schema, f'DROP SCHEMA "{long}" CASCADE')


def test_a_second_store_beside_a_lost_ledger_opens(schema: str) -> None:
    PostgresStateStore(server_url(), schema=schema).close()
    run(schema, "DROP TABLE {s}.schema_extensions")
    PostgresStateStore(server_url(), schema=schema).close()
