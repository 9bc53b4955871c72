"""Several processes on one store: one winner, one chain, and nothing of whoever was killed."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from ctrlrun.errors import ApprovalMismatch, CTRLRunError, DuplicateEffect, InvalidArgument
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state import SQLiteReader, SQLiteStateStore
from tests.lib import sqlite_helpers as old
from tests.lib.store_suite.helpers import FakeClock, action, receipt, request

PROCESSES = 8
LOST = 3  # the exit status of a process that was refused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def contend(
    path: Path, call: Callable[[SQLiteStateStore, int], object], *refusals: type[CTRLRunError]
) -> list[int]:
    """The statuses of processes that all make one call at once: 0 for who was let, LOST else."""

    def work(number: int) -> None:
        with closing(SQLiteStateStore(path, clock=FakeClock(), durability="normal")) as store:
            try:
                call(store, number)
            except refusals:
                os._exit(LOST)

    return sorted(old.at_once(PROCESSES, work))


ONE_WINNER = [0] + [LOST] * (PROCESSES - 1)


@pytest.mark.parametrize("round_", range(2))
def test_one_of_eight_reserves_a_key(round_: int, path: Path) -> None:
    def call(store: SQLiteStateStore, number: int) -> None:
        store.reserve_effect("k", f"a{number}")

    SQLiteStateStore(path).close()
    assert contend(path, call, DuplicateEffect) == ONE_WINNER
    assert old.select(path, "SELECT COUNT(*), MAX(attempt) FROM effects") == [(1, 1)]


@pytest.mark.parametrize("round_", range(2))
def test_one_of_eight_spends_an_approval(round_: int, path: Path) -> None:
    with closing(SQLiteStateStore(path, clock=FakeClock())) as store:
        store.put_approval_request(request(FakeClock()))
        store.grant_approval("apr_1", "cli:local")

    def call(store: SQLiteStateStore, number: int) -> None:
        store.consume_approval_and_reserve(
            "apr_1", action().action_hash, f"k{number}", f"a{number}"
        )

    assert contend(path, call, ApprovalMismatch) == ONE_WINNER
    assert old.select(path, "SELECT COUNT(*) FROM effects") == [(1,)]


def test_one_of_eight_answers_a_request(path: Path) -> None:
    with closing(SQLiteStateStore(path, clock=FakeClock())) as store:
        store.put_approval_request(request(FakeClock()))

    def call(store: SQLiteStateStore, number: int) -> None:
        if number % 2:
            store.grant_approval("apr_1", f"tui:{number}")
        else:
            store.deny_approval("apr_1", f"tui:{number}")

    assert contend(path, call, ApprovalMismatch) == ONE_WINNER


def test_one_of_eight_resolves_an_effect(path: Path) -> None:
    with closing(SQLiteStateStore(path, clock=FakeClock())) as store:
        store.reserve_effect("k", "a")
        store.mark_ambiguous("k", "a", "lost")

    def call(store: SQLiteStateStore, number: int) -> None:
        state = "committed" if number % 2 else "failed"
        store.resolve_effect("k", state, f"tui:{number}", attempt=1)  # type: ignore[arg-type]

    assert contend(path, call, InvalidArgument) == ONE_WINNER


def test_one_of_eight_takes_a_continuation(path: Path) -> None:
    clock = FakeClock()
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        store.reserve_effect("k", action().action_id)
        store.begin_execution("k", action().action_id)
        store.hold_continuation(action(), "k", "tok", clock() + timedelta(minutes=9))

    def call(store: SQLiteStateStore, number: int) -> None:
        store.take_continuation("tok")

    assert contend(path, call, InvalidArgument) == ONE_WINNER


def test_eight_processes_write_one_chain_and_one_log(path: Path) -> None:
    """None is told that the store is locked, and nothing is lost or doubled."""
    each = 25
    SQLiteStateStore(path).close()

    def work(number: int) -> None:
        with closing(SQLiteStateStore(path, durability="normal")) as store:
            for index in range(each):
                serial = number * each + index
                key, action_id = f"k{serial}", f"a{serial}"

                def first(key: str = key, action_id: str = action_id) -> None:
                    store.append_event(old.event(1))
                    store.reserve_effect(key, action_id)
                    store.begin_execution(key, action_id)

                def second(key: str = key, action_id: str = action_id, n: int = serial) -> None:
                    store.commit_effect(key, action_id, n)
                    store.append_event(old.event(2))
                    store.put_receipt(receipt(n + 1))

                store.unit(first, durable=True)
                store.unit(second, durable=False)

    assert old.at_once(PROCESSES, work) == [0] * PROCESSES
    total = PROCESSES * each
    with closing(SQLiteReader(path)) as reader:
        assert verify_chain(reader).verified == total
        assert [event.event_id for event in reader.events()] == [*range(1, 2 * total + 1)]
        assert {record.result for record in reader.list_effects()} == set(range(total))
        assert {item.receipt_id for item in reader.receipts()} == {
            f"ctr_{n:032x}" for n in range(1, total + 1)
        }


# --- killed --------------------------------------------------------------------------------------


def test_a_process_that_is_killed_in_a_unit_leaves_nothing_of_it(path: Path) -> None:
    SQLiteStateStore(path).close()

    def child() -> None:
        store = SQLiteStateStore(path)
        store.reserve_effect("before", "a")

        def work() -> None:
            store.reserve_effect("k", "a")
            store.append_event(old.event())
            store.put_receipt(receipt())
            old.kill_self()

        store.unit(work, durable=True)

    assert old.in_child(child) == -signal.SIGKILL
    with closing(SQLiteStateStore(path)) as store:
        assert [record.effect_key for record in store.list_effects()] == ["before"]
        assert store.events() == ()
        assert store.chain_head() == (0, old.GENESIS)
        store.reserve_effect("k", "b")


def test_a_kill_at_any_statement_of_a_call_leaves_whole_units(path: Path) -> None:
    """Reserved and begun with their events, or not at all; committed with its receipt, or not."""
    seen = set()
    for number in itertools.count():
        place = path.with_name(f"{number}.db")
        status = old.in_child(partial(dying_call, place, number))
        with closing(SQLiteStateStore(place)) as store:
            record = store.get_effect("k")
            state = None if record is None else record.state.value
            expected = {None: (0, 0), "executing": (2, 0), "committed": (3, 1)}
            assert (store.events_count(), store.receipts_count()) == expected[state]
            assert verify_chain(store).ok
        seen.add(state)
        if status == 0:
            break
    assert seen == {None, "executing", "committed"}


def dying_call(path: Path, number: int) -> None:
    """One protected call that is killed before its n-th statement."""
    SQLiteStateStore(path).close()
    left = iter(range(number))

    class Dying(SQLiteStateStore):
        @staticmethod
        def connector(uri: str) -> old.Watched:
            return old.Watched.open(uri, step)

    def step() -> None:
        if next(left, None) is None:
            old.kill_self()

    store = Dying(path)

    def first() -> None:
        store.append_event(old.event(1))
        store.reserve_effect("k", "a")
        store.begin_execution("k", "a")
        store.append_event(old.event(2))

    def second() -> None:
        store.commit_effect("k", "a", None)
        store.append_event(old.event(3))
        store.put_receipt(receipt())

    store.unit(first, durable=True)
    store.unit(second, durable=False)


def test_a_killed_processs_lock_is_free_at_once(path: Path) -> None:
    SQLiteStateStore(path).close()
    reading, writing = os.pipe()

    def child() -> None:
        store = SQLiteStateStore(path)

        def work() -> None:
            store.reserve_effect("k", "a")
            os.write(writing, b"x")
            signal.pause()

        store.unit(work, durable=True)

    pid = old.start_child(child)
    os.read(reading, 1)
    with closing(SQLiteStateStore(path)) as store:
        os.kill(pid, signal.SIGKILL)
        assert old.wait_for(pid) == -signal.SIGKILL
        assert store.reserve_effect("k", "b").action_id == "b"
    os.close(reading)
    os.close(writing)
