"""How often a call waits for the server, and what becomes of a write that goes with the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from benchmarks.postgres import Bare, Ours
from ctrlrun.effect import Holder
from ctrlrun.errors import InvalidArgument
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import verify_chain
from ctrlrun.state.postgres_session import PostgresSession
from tests.lib.store_suite.helpers import START_TIME, event, receipt
from tests.pg.server import rows, run, server_url


@pytest.fixture
def store(schema: str) -> Iterator[PostgresStateStore]:
    with closing(PostgresStateStore(server_url(), schema=schema)) as opened:
        yield opened


@pytest.fixture
def held(store: PostgresStateStore, schema: str) -> PostgresStateStore:
    """A store that has seen that it may write holders, and takes none of attempts from 5 on."""
    store.put_holder(holder(1))
    run(schema, "ALTER TABLE {s}.holders ADD CHECK (attempt < 5)")
    return store


def holder(attempt: int) -> Holder:
    return Holder("k", "act_a", attempt, "web-3", 1, "boot", "main", None, START_TIME)


def attempts(schema: str) -> list[object]:
    found = rows(schema, "SELECT attempt FROM {s}.holders ORDER BY attempt")
    return [attempt for (attempt,) in found]


@pytest.mark.parametrize(
    ("kind", "most", "by_hand"), [("allowed", [5, 7], [6, 8]), ("denied", [5], [6])]
)
def test_a_call_waits_this_often(
    schema: str, kind: str, most: list[int], by_hand: list[int]
) -> None:
    ours = Ours(server_url(), schema)
    bare = Bare(server_url(), schema, "b")
    with closing(ours.store), closing(bare.db):
        ours.allowed()  # the look at what may be written is behind us
        assert ours.tap.trips(getattr(ours, kind)) == most
        assert bare.tap.trips(getattr(bare, kind)) == by_hand


# --- the holder's row, which waits for the next write -----------------------------------------------

Step = Callable[[PostgresStateStore], object]

NEXT: dict[str, Step] = {
    "a write": lambda store: store.reserve_effect("k", "act_b"),
    "an append": lambda store: store.append_event(event()),
    "a receipt": lambda store: store.put_receipt(receipt()),
    "another that waits": lambda store: store.put_holder(holder(2)),
    "a read": lambda store: store.get_effect("k"),
    "a unit": lambda store: store.unit(lambda: None, durable=True),
    "the end": lambda store: None,
}


@pytest.mark.parametrize("step", NEXT.values(), ids=NEXT)
def test_it_is_written_whatever_comes_next(
    store: PostgresStateStore, schema: str, step: Step
) -> None:
    def work() -> None:
        store.put_holder(holder(1))
        step(store)

    store.put_holder(holder(1))
    run(schema, "TRUNCATE {s}.holders")
    store.unit(work, durable=True)
    assert 1 in attempts(schema)
    assert verify_chain(store).ok


@pytest.mark.parametrize("step", NEXT.values(), ids=NEXT)
def test_where_it_fails_all_of_the_unit_is_gone_before_the_commit(
    held: PostgresStateStore, schema: str, step: Step
) -> None:
    def work() -> None:
        held.append_event(event())
        held.put_holder(holder(9))
        with suppress(psycopg.Error):  # as a caller that goes on regardless
            step(held)

    with pytest.raises(psycopg.errors.CheckViolation):
        held.unit(work, durable=True)
    session = held._sessions.current()
    assert session.lost is None and not session.active
    assert held.events() == () and held.get_effect("k") is None
    assert attempts(schema) == [1]
    held.unit(lambda: held.put_holder(holder(2)), durable=True)  # the thread goes on
    assert attempts(schema) == [1, 2]


def test_it_is_read_in_its_own_unit(store: PostgresStateStore) -> None:
    def work() -> list[Holder | None]:
        store.put_holder(holder(1))
        first = store.get_holder("k", 1)
        later = START_TIME + timedelta(seconds=9)
        store.see_holder("k", "act_a", 1, later)
        store.put_holder(holder(2))
        return [first, store.get_holder("k", 1), store.get_holder("k", 2)]

    later = START_TIME + timedelta(seconds=9)
    expected = [holder(1), replace(holder(1), seen_at=later), holder(2)]
    assert store.unit(work, durable=True) == expected


def test_a_unit_inside_that_is_left_takes_it_back(store: PostgresStateStore, schema: str) -> None:
    def inner() -> None:
        store.put_holder(holder(2))
        raise LookupError

    def work() -> None:
        store.put_holder(holder(1))
        with suppress(LookupError):
            store.unit(inner, durable=True)
        store.reserve_effect("k", "act_a")

    store.put_holder(holder(7))
    store.unit(work, durable=True)
    assert attempts(schema) == [1, 7] and store.get_effect("k") is not None


def test_a_unit_inside_ends_with_what_its_own_fails_with(
    held: PostgresStateStore, schema: str
) -> None:
    def work() -> None:
        held.put_holder(holder(2))
        with pytest.raises(psycopg.errors.CheckViolation):
            held.unit(lambda: held.put_holder(holder(9)), durable=True)
        held.append_event(event())

    held.unit(work, durable=True)
    assert attempts(schema) == [1, 2] and len(held.events()) == 1


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
def test_a_text_that_nothing_can_hold_is_refused_before_it_waits(
    store: PostgresStateStore, schema: str, bad: str
) -> None:
    def work() -> None:
        store.append_event(event())
        store.put_holder(holder(2))
        with pytest.raises(InvalidArgument, match="cannot be stored"):
            store.put_holder(replace(holder(3), host=bad))
        with pytest.raises(InvalidArgument):
            store.begin_execution("k", bad)
        store.append_event(event())

    store.put_holder(holder(1))
    store.unit(work, durable=True)
    assert attempts(schema) == [1, 2] and len(store.events()) == 2


def test_a_refusal_of_the_next_write_leaves_it(store: PostgresStateStore, schema: str) -> None:
    def work() -> None:
        store.put_holder(holder(2))
        with pytest.raises(InvalidArgument):
            store.begin_execution("k", "act_a")  # there is no such effect

    store.put_holder(holder(1))
    store.unit(work, durable=True)
    assert attempts(schema) == [1, 2]


def test_an_interrupt_of_a_write_takes_the_whole_unit_back_even_if_it_is_caught(
    store: PostgresStateStore, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_it = PostgresSession._run

    def interrupted(session: PostgresSession, *rest: object) -> object:
        monkeypatch.setattr(PostgresSession, "_run", run_it)
        raise KeyboardInterrupt

    def work() -> None:
        store.put_holder(holder(2))
        monkeypatch.setattr(PostgresSession, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.append_event(event())  # it may have been made, or not
        store.append_event(event())

    store.put_holder(holder(1))
    with pytest.raises(KeyboardInterrupt):
        store.unit(work, durable=True)
    assert attempts(schema) == [1] and store.events() == ()


def test_an_idle_connection_that_ended_is_made_again(
    store: PostgresStateStore, schema: str
) -> None:
    def work() -> None:
        store.put_holder(holder(2))
        store.append_event(event())

    store.put_holder(holder(1))
    ended = store._sessions.current().backend
    run(schema, f"SELECT pg_terminate_backend({ended}, 5000)")
    store.unit(work, durable=True)
    assert store._sessions.current().backend != ended
    assert attempts(schema) == [1, 2] and len(store.events()) == 1


def test_a_connection_that_ends_while_it_waits_takes_all(
    store: PostgresStateStore, schema: str
) -> None:
    def work() -> None:
        store.append_event(event())
        store.put_holder(holder(2))
        run(schema, f"SELECT pg_terminate_backend({store._sessions.current().backend}, 5000)")

    store.put_holder(holder(1))
    with pytest.raises(psycopg.OperationalError):
        store.unit(work, durable=True)
    assert attempts(schema) == [1] and store.events() == ()


# --- the head of the chain, which moves with the receipt ------------------------------------------


def test_the_head_moves_with_the_receipt_and_not_without(
    store: PostgresStateStore, schema: str
) -> None:
    first = store.put_receipt(receipt(1))
    with pytest.raises(InvalidArgument, match="already exists"):
        store.put_receipt(receipt(1))
    assert store.chain_head() == (1, first.hash)
    second = store.put_receipt(receipt(2))
    assert store.chain_head() == (2, second.hash) and second.prev_hash == first.hash
    run(schema, "ALTER TABLE {s}.receipts ADD CHECK (seq < 3)")
    with pytest.raises(psycopg.errors.CheckViolation):
        store.put_receipt(receipt(3))
    assert store.chain_head() == (2, second.hash) and verify_chain(store).ok
