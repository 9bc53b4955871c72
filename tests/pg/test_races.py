"""Many processes and many threads on one store: one key, one approval, one token, one chain."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from ctrlrun.clock import utc_now
from ctrlrun.errors import ApprovalMismatch, CTRLRunError, DuplicateEffect, InvalidArgument
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import verify_chain
from ctrlrun.state.page import START
from tests.lib.sqlite_helpers import at_once
from tests.lib.store_suite.helpers import LEASE, FakeClock, action, event, receipt, request
from tests.pg.server import server_url


@pytest.fixture
def store(schema: str) -> Iterator[PostgresStateStore]:
    with closing(PostgresStateStore(server_url(), schema=schema)) as opened:
        yield opened


def test_eight_processes_and_one_winner(
    store: PostgresStateStore, schema: str, tmp_path: Path
) -> None:
    digest = action().action_hash
    for number in range(10):
        store.put_approval_request(request(_now(), f"apr_{number}"))
        store.grant_approval(f"apr_{number}", "cli:ada")
    together = multiprocessing.get_context("fork").Barrier(8)

    def race(racer: int) -> None:
        said, name = [], f"act_{racer}"
        with closing(PostgresStateStore(server_url(), schema=schema)) as mine:
            calls: dict[str, Callable[[int], object]] = {
                "reserve": lambda n: mine.reserve_effect(f"k{n}", name),
                "consume": lambda n: mine.consume_approval_and_reserve(
                    f"apr_{n}", digest, f"k{name}{n}", name
                ),
            }
            for call, make in calls.items():
                together.wait(60)
                for number in range(10):
                    try:
                        make(number)
                        said.append(f"{call} won {number}")
                    except (DuplicateEffect, ApprovalMismatch) as error:
                        why = getattr(error, "state", getattr(error, "reason", ""))
                        said.append(f"{call} {type(error).__name__} {why}")
        (tmp_path / name).write_text("\n".join(said))

    assert at_once(8, race) == [0] * 8
    said = Counter(line for path in tmp_path.iterdir() for line in path.read_text().splitlines())
    won = {f"{call} won {number}": 1 for call in ("reserve", "consume") for number in range(10)}
    lost = {"reserve DuplicateEffect in_progress": 70, "consume ApprovalMismatch consumed": 70}
    assert won | lost == said
    assert len(store.list_effects()) == 20


def _now() -> FakeClock:
    return FakeClock(utc_now())


def _together(calls: list[Callable[[], object]]) -> list[object]:
    """Each in a thread, begun at once; what it returned or raised."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        barrier.wait()
        try:
            return call()
        except CTRLRunError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def test_a_token_is_taken_once(store: PostgresStateStore) -> None:
    for number in range(5):
        key, token = f"k{number}", f"token {number}"
        store.reserve_effect(key, "act_holder")
        store.begin_execution(key, "act_holder")
        store.hold_continuation(action(), key, token, _now()() + 2 * LEASE)
        ended = _together([lambda token=token: store.take_continuation(token)] * 6)
        refused = [one for one in ended if isinstance(one, CTRLRunError)]
        assert len(refused) == 5
        assert {(type(error), str(error)) for error in refused} == {
            (InvalidArgument, "no suspended call is waiting for this continuation")
        }


def test_one_token_is_held_for_one_effect(store: PostgresStateStore) -> None:
    until = _now()() + 2 * LEASE
    for round_ in range(5):
        keys = [f"k{round_}.{number}" for number in range(4)]
        for key in keys:
            store.reserve_effect(key, "act_holder")
            store.begin_execution(key, "act_holder")
        ended = _together(
            [
                lambda key=key, token=f"t{round_}": store.hold_continuation(
                    action(), key, token, until
                )
                for key in keys
            ]
        )
        assert [one for one in ended if not isinstance(one, CTRLRunError)] == [1]
        assert {type(one) for one in ended if isinstance(one, CTRLRunError)} == {InvalidArgument}


def test_one_answer_of_many(store: PostgresStateStore) -> None:
    store.put_approval_request(request(_now()))
    ended = _together([lambda n=n: store.grant_approval("apr_1", f"cli:{n}") for n in range(6)])
    refused = [one for one in ended if isinstance(one, CTRLRunError)]
    assert len(refused) == 5 and {type(one) for one in refused} == {ApprovalMismatch}


def test_the_chain_queues(store: PostgresStateStore) -> None:
    def write(first: int) -> None:
        for number in range(first, first + 10):
            store.put_receipt(receipt(number))

    _together([lambda first=first: write(first) for first in range(0, 60, 10)])
    report = verify_chain(store)
    assert report.ok and report.verified == 60


def test_a_key_whose_holder_goes_back_is_free(store: PostgresStateStore) -> None:
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        def work() -> None:
            store.reserve_effect("k", "act_a")
            held.set()
            go.wait(10)
            raise KeyError

        with pytest.raises(KeyError):
            store.unit(work, durable=True)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(hold)
        assert held.wait(10)
        second = pool.submit(store.reserve_effect, "k", "act_b")
        go.set()
        first.result(10)
        assert second.result(10).attempt == 1


# --- events --------------------------------------------------------------------------------------


def test_no_id_is_passed_over_that_commits_later(store: PostgresStateStore, schema: str) -> None:
    with psycopg.connect(server_url()) as slow:
        slow.execute(f"INSERT INTO \"{schema}\".events (ts, type) VALUES ('x', 'x')")
        second = store.append_event(event()).event_id
        assert second == 2
        for filters in ({}, {"action_id": event().action_id}):
            page = store.events_page(after=START, limit=10, **filters)
            assert page.items == () and page.after is None
        token = store.change_token()
        slow.rollback()
    assert store.change_token() != token
    for filters in ({}, {"action_id": event().action_id}):
        page = store.events_page(after=START, limit=10, **filters)
        assert [one.event_id for one in page.items] == [2]


def test_a_follower_sees_every_event_once(store: PostgresStateStore) -> None:
    done = threading.Event()
    seen: list[int] = []

    def follow() -> None:
        cursor = START
        while True:
            ended = done.is_set()
            page = store.events_page(after=cursor, limit=7)
            seen.extend(one.event_id or 0 for one in page.items)
            cursor = page.after or cursor
            if ended and page.after is None:
                return

    def write(fails: bool) -> None:
        for _ in range(20):

            def work() -> None:
                for _ in range(3):
                    store.append_event(event())
                if fails:
                    raise KeyError

            if fails:
                with pytest.raises(KeyError):
                    store.unit(work, durable=False)
            else:
                store.unit(work, durable=False)

    with ThreadPoolExecutor(5) as pool:
        follower = pool.submit(follow)
        writers = [pool.submit(write, fails) for fails in (False, False, False, True)]
        for writer in writers:
            writer.result(60)
        done.set()
        follower.result(60)
    assert seen == [one.event_id for one in store.events()] and len(seen) == 180


# --- connections ---------------------------------------------------------------------------------


def _connections(schema: str) -> int:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'ctrlrun' "
            "AND query LIKE %s",
            (f"%{schema}%",),
        ).fetchone()
        assert row is not None
        return int(row[0])


def test_a_thread_that_ends_takes_its_connection_along(
    store: PostgresStateStore, schema: str
) -> None:
    store.events()
    before = _connections(schema)
    for _ in range(5):
        thread = threading.Thread(target=store.events)
        thread.start()
        thread.join()
    for _ in range(200):
        if _connections(schema) == before:
            break
        threading.Event().wait(0.02)
    assert _connections(schema) == before


def test_no_read_leaves_a_transaction_open(store: PostgresStateStore, schema: str) -> None:
    store.events_page(limit=3)
    store.list_effects()
    with psycopg.connect(server_url(), autocommit=True) as connection:
        states = connection.execute(
            "SELECT DISTINCT state FROM pg_stat_activity WHERE query LIKE %s "
            "AND pid <> pg_backend_pid()",
            (f"%{schema}%",),
        ).fetchall()
    assert states == [("idle",)]


def test_a_connection_that_was_ended_is_made_again(store: PostgresStateStore) -> None:
    store.reserve_effect("k", "act_a")
    _end_connection(store)
    assert store.get_effect("k") is not None
    _end_connection(store)
    store.begin_execution("k", "act_a")


def _end_connection(store: PostgresStateStore) -> None:
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(%s, 5000)", (store._sessions.current().backend,)
        )


FORKS = """
import os, sys
from ctrlrun.postgres import PostgresStateStore
store = PostgresStateStore(sys.argv[1], schema=sys.argv[2])
store.reserve_effect("parent", "act_a")
child = os.fork()
store.reserve_effect("child" if child == 0 else "after", "act_a")
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(sorted(r.effect_key for r in store.list_effects()))
"""


def test_a_child_opens_its_own(store: PostgresStateStore, schema: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORKS, server_url(), schema],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "['after', 'child', 'parent']"


def test_the_lag_is_asked_for_and_nothing_else(store: PostgresStateStore, schema: str) -> None:
    said: list[str] = []

    def look() -> None:
        session = store._sessions.current()
        said.append(session.rows("SELECT current_setting('synchronous_commit')")[0][0])

    store.unit(look, durable=True)
    store.unit(look, durable=False)
    look()
    assert said == ["on", "off", "on"]


# --- text ----------------------------------------------------------------------------------------


def test_an_outcome_is_recorded_whatever_its_text(store: PostgresStateStore) -> None:
    store.reserve_effect("k", "act_a")
    store.begin_execution("k", "act_a")
    store.mark_ambiguous("k", "act_a", "a\0b \ud800 c")
    record = store.get_effect("k")
    assert record is not None and record.error == "a\\u0000b \\ud800 c"
    store.reserve_effect("k2", "act_a")
    store.begin_execution("k2", "act_a")
    store.commit_effect("k2", "act_a", {"x": "a\0b"})
    record = store.get_effect("k2")
    assert record is not None and record.result == {"x": "a\0b"}


def test_a_nul_in_a_key_is_refused_and_the_thread_goes_on(store: PostgresStateStore) -> None:
    with pytest.raises(InvalidArgument, match="NUL"):
        store.reserve_effect("a\0b", "act_a")
    with pytest.raises(InvalidArgument, match="NUL"):
        store.get_effect("a\0b")
    assert store.reserve_effect("k", "act_a").attempt == 1


def test_a_nul_in_an_argument_hides_no_receipt(store: PostgresStateStore) -> None:
    store.put_receipt(receipt(1, arguments={"a": "x\0y"}, controls=("SOX-1",)))
    store.put_receipt(receipt(2, arguments={"a": "x\0y"}, controls=("PCI",)))
    for control in ("SOX-1", "PCI"):
        page = store.receipts_page(limit=5, control=control)
        assert [one.controls for one in page.items] == [(control,)]
    assert verify_chain(store).ok


def test_a_duplicate_key_is_in_progress(store: PostgresStateStore) -> None:
    store.reserve_effect("k", "act_a")
    with pytest.raises(DuplicateEffect):
        store.reserve_effect("k", "act_a")
