"""Units on SQLite: one transaction, what breaks it, and what is on disk after it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.effect import EffectRecord
from ctrlrun.errors import AmbiguousEffect, ApprovalMismatch, DamagedRow, InvalidArgument
from ctrlrun.state import SQLiteStateStore
from tests.lib import sqlite_helpers as old
from tests.lib.store_suite.helpers import FakeClock, action, receipt, request


class Traced(SQLiteStateStore):
    """A store whose statements can be read afterwards."""

    statements: list[str]

    @staticmethod
    def connector(uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri, uri=True, isolation_level=None, check_same_thread=False, timeout=0
        )
        connection.set_trace_callback(Traced.statements.append)
        return connection

    def traced(self, word: str) -> list[str]:
        """The statements so far that begin with a word."""
        return [text for text in self.statements if text.startswith(word)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[Traced]:
    Traced.statements = []
    with closing(Traced(tmp_path / "state.db", clock=clock)) as opened:
        Traced.statements.clear()
        yield opened


# --- one transaction -----------------------------------------------------------------------------


def protected_call(store: SQLiteStateStore, key: str, action_id: str) -> None:
    """What the kernel asks of a store for one call that is allowed."""

    def first() -> None:
        store.append_event(old.event(1))
        store.append_event(old.event(2))
        store.reserve_effect(key, action_id)
        store.append_event(old.event(3))
        store.begin_execution(key, action_id)
        store.append_event(old.event(4))

    def second() -> None:
        store.commit_effect(key, action_id, {"id": 1})
        store.append_event(old.event(5))
        store.put_receipt(receipt(int(action_id)))

    store.unit(first, durable=True)
    store.unit(second, durable=False)


def test_a_call_costs_two_transactions_and_a_statement_for_each_step(store: Traced) -> None:
    protected_call(store, "k1", "1")
    store.statements.clear()
    protected_call(store, "k2", "2")
    words = [text.split()[0] for text in store.statements]
    assert words == [
        *("PRAGMA", "BEGIN", "INSERT", "INSERT", "INSERT", "INSERT", "UPDATE", "INSERT", "COMMIT"),
        *("PRAGMA", "BEGIN", "UPDATE", "INSERT", "SELECT", "INSERT", "UPDATE", "COMMIT"),
    ]
    assert set(store.traced("BEGIN")) == {"BEGIN IMMEDIATE"}


def test_an_approved_call_builds_no_action_to_spend_its_grant(store: Traced, clock: Any) -> None:
    store.put_approval_request(request(clock))
    store.grant_approval("apr_1", "cli:local")
    store.statements.clear()
    approval, reservation = store.consume_approval_and_reserve(
        "apr_1", action().action_hash, "k", "a"
    )
    assert (approval.approver, reservation.attempt) == ("cli:local", 1)
    assert not any("action_json" in text for text in store.statements)


@pytest.mark.parametrize(
    ("durability", "expected"),
    [
        (None, ["FULL", "NORMAL", "FULL", "NORMAL"]),
        ("full", ["FULL", "FULL", "FULL", "FULL"]),
        ("normal", ["NORMAL", "NORMAL", "NORMAL", "NORMAL"]),
    ],
)
@pytest.mark.parametrize("by", ["argument", "variable"])
def test_what_is_synced_before_a_transaction_returns(
    durability: str | None,
    expected: list[str],
    by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Traced.statements = []
    if by == "variable" and durability is not None:
        monkeypatch.setenv("CTRLRUN_DURABILITY", durability)
        durability = None
    elif durability is not None:
        monkeypatch.setenv("CTRLRUN_DURABILITY", "full")  # the argument wins
    with closing(Traced(tmp_path / "state.db", durability=durability)) as store:
        store.get_effect("none")
        Traced.statements.clear()
        levels = []
        for write in (
            lambda: store.unit(lambda: store.reserve_effect("k", "a"), durable=True),
            lambda: store.unit(lambda: store.begin_execution("k", "a"), durable=False),
            lambda: store.commit_effect("k", "a", None),
            lambda: store.unit(lambda: store.append_event(old.event()), durable=False),
        ):
            write()
            levels.append(store._sessions.current().connection.execute("PRAGMA synchronous"))
        assert [{2: "FULL", 1: "NORMAL"}[cursor.fetchone()[0]] for cursor in levels] == expected


def test_the_clock_is_read_under_the_write_lock(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    looked: list[bool] = []

    def clock() -> datetime:
        with closing(sqlite3.connect(path, timeout=0)) as other:
            try:
                other.execute("BEGIN IMMEDIATE")
                looked.append(False)
            except sqlite3.OperationalError:
                looked.append(True)
        return datetime(2026, 9, 3, tzinfo=UTC)

    SQLiteStateStore(path).close()
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        looked.clear()
        store.reserve_effect("k", "a")
        store.begin_execution("k", "a")
        store.extend_lease("k", "a", datetime(2026, 9, 4, tzinfo=UTC))
        store.commit_effect("k", "a", None)
        assert looked == [True] * 4


def test_the_repr_of_a_result_is_not_asked_for_under_the_write_lock(store: Traced) -> None:
    store.reserve_effect("k", "a")
    store.begin_execution("k", "a")

    class Slow:
        def __repr__(self) -> str:
            with closing(sqlite3.connect(store.path, timeout=0)) as other:
                other.execute("BEGIN IMMEDIATE")
            return "slow"

    store.commit_effect("k", "a", Slow())
    record = store.get_effect("k")
    assert record is not None
    assert record.result == "slow"


# --- what breaks a unit --------------------------------------------------------------------------


def limit_pages(store: SQLiteStateStore, more: int) -> None:
    """Let the database grow by so many pages only: a disk that is nearly full."""
    connection = store._sessions.current().connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages + more}")


def big(number: int) -> Any:
    """An event that needs several pages."""
    from ctrlrun.receipt import Event, EventType

    return Event(EventType.ACTION_PROPOSED, "a", old.event(number).ts, {"x": "y" * 20_000})


def test_a_full_disk_leaves_nothing_of_a_unit_and_says_what_it_was(store: Traced) -> None:
    store.reserve_effect("k", "a")
    before = store.effects_count(), store.events()
    limit_pages(store, 2)

    def work() -> None:
        store.begin_execution("k", "a")
        store.append_event(big(1))

    with pytest.raises(sqlite3.OperationalError, match="full") as caught:
        store.unit(work, durable=True)
    assert caught.value.sqlite_errorname == "SQLITE_FULL"
    assert (store.effects_count(), store.events()) == before
    record = store.get_effect("k")
    assert record is not None
    assert record.state == "reserved"
    limit_pages(store, 100)
    store.unit(work, durable=True)
    assert store.events_count() == 1


def test_a_unit_that_hides_a_full_disk_fails_whole(store: Traced) -> None:
    """SQLite rolls back by itself then: what followed would be committed one by one."""
    limit_pages(store, 2)
    after: list[str] = []

    def work() -> str:
        store.reserve_effect("k", "a")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            store.append_event(big(1))
        with pytest.raises(sqlite3.OperationalError, match="full"):
            store.reserve_effect("j", "a")
        after.append("reached")
        return "done"

    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.unit(work, durable=True)
    assert after == ["reached"]
    assert store.list_effects() == ()
    store.reserve_effect("k", "a")


def test_a_call_that_failed_halfway_cannot_be_hidden(store: Traced) -> None:
    """Of a call with several writes, all stand or none."""
    old.execute(
        store.path,
        "CREATE TRIGGER no_head BEFORE UPDATE ON receipt_chain "
        "BEGIN SELECT RAISE(ABORT, 'no head today'); END",
    )

    def work() -> None:
        store.reserve_effect("k", "a")
        with pytest.raises(sqlite3.IntegrityError, match="no head"):
            store.put_receipt(receipt())

    with pytest.raises(sqlite3.IntegrityError, match="no head"):
        store.unit(work, durable=True)
    assert store.list_effects() == ()
    assert store.receipts() == ()


def test_a_half_call_inside_an_inner_unit_goes_back_with_it(store: Traced) -> None:
    old.execute(
        store.path,
        "CREATE TRIGGER no_head BEFORE UPDATE ON receipt_chain "
        "BEGIN SELECT RAISE(ABORT, 'no head today'); END",
    )

    def work() -> None:
        store.reserve_effect("k", "a")
        with pytest.raises(sqlite3.IntegrityError, match="no head"):
            store.unit(lambda: store.put_receipt(receipt()), durable=False)
        store.begin_execution("k", "a")

    store.unit(work, durable=True)
    record = store.get_effect("k")
    assert record is not None
    assert record.state == "executing"
    assert store.receipts() == ()


def test_a_used_receipt_id_can_be_caught_and_leaves_no_gap(store: Traced) -> None:
    store.put_receipt(receipt(1))
    head = store.chain_head()

    def work() -> None:
        with pytest.raises(InvalidArgument):
            store.put_receipt(receipt(1))
        store.append_event(old.event())

    store.unit(work, durable=False)
    assert store.chain_head() == head
    assert store.put_receipt(receipt(2)).seq == 2
    assert store.events_count() == 1


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, GeneratorExit, ValueError])
def test_whatever_leaves_a_unit_frees_the_lock(store: Traced, raised: type[BaseException]) -> None:
    def work() -> None:
        store.reserve_effect("k", "a")
        raise raised

    with pytest.raises(raised):
        store.unit(work, durable=True)
    old.fill(store.path, "events", ts=old.STAMP, type="X")  # nobody holds it
    assert store.get_effect("k") is None


def test_an_interrupt_between_begin_and_its_note_does_not_stop_the_thread(store: Traced) -> None:
    store._sessions.current().connection.execute("BEGIN IMMEDIATE")
    assert store.reserve_effect("k", "a").attempt == 1
    assert old.select(store.path, "SELECT COUNT(*) FROM effects") == [(1,)]


def test_kept_writes_are_committed_before_the_refusal(store: Traced, clock: FakeClock) -> None:
    store.put_approval_request(request(clock))
    store.reserve_effect("k", "a")
    clock.advance(timedelta(hours=1))
    with pytest.raises(ApprovalMismatch):
        store.grant_approval("apr_1", "cli:local")
    with pytest.raises(AmbiguousEffect):
        store.reserve_effect("k", "b")
    assert old.select(store.path, "SELECT status FROM approvals") == [("expired",)]
    assert old.select(store.path, "SELECT state FROM effects") == [("ambiguous",)]


def test_a_lapsed_lease_is_kept_with_a_unit_though_the_approval_stays(
    store: Traced, clock: FakeClock
) -> None:
    store.reserve_effect("k", "a")
    clock.advance(timedelta(hours=1))
    store.put_approval_request(request(clock))
    store.grant_approval("apr_1", "cli:local")

    def work() -> None:
        with pytest.raises(AmbiguousEffect):
            store.consume_approval_and_reserve("apr_1", action().action_hash, "k", "b")
        store.append_event(old.event())

    store.unit(work, durable=True)
    assert old.select(store.path, "SELECT state FROM effects") == [("ambiguous",)]
    assert old.select(store.path, "SELECT status FROM approvals") == [("granted",)]


def test_a_record_that_cannot_be_read_is_never_overwritten(store: Traced) -> None:
    store.reserve_effect("k", "a")
    old.execute(store.path, "UPDATE effects SET state = 'melted'")
    for call in (
        lambda: store.reserve_effect("k", "b"),
        lambda: store.begin_execution("k", "a"),
        lambda: store.commit_effect("k", "a", None),
        lambda: store.mark_ambiguous("k", "a", "lost"),
        lambda: store.resolve_effect("k", "failed", "cli:local"),  # type: ignore[arg-type]
    ):
        with pytest.raises(DamagedRow, match="effects k cannot be read"):
            call()
    assert old.select(store.path, "SELECT state FROM effects") == [("melted",)]


# --- who joins -----------------------------------------------------------------------------------


def test_calls_of_a_wrapper_and_a_subclass_join(tmp_path: Path) -> None:
    class Noting(SQLiteStateStore):
        def reserve_effect(self, *values: Any, **named: Any) -> Any:
            self.append_event(old.event())
            return super().reserve_effect(*values, **named)

    class Wrapper:
        def __init__(self, inner: SQLiteStateStore) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    with closing(Noting(tmp_path / "state.db")) as store:
        wrapper = Wrapper(store)

        def work() -> None:
            wrapper.reserve_effect("k", "a")
            raise LookupError

        with pytest.raises(LookupError):
            wrapper.unit(work, durable=False)
        assert store.events() == ()
        assert store.list_effects() == ()


def test_another_threads_call_does_not_join(store: Traced) -> None:
    seen: list[EffectRecord | None] = []

    def work() -> None:
        store.reserve_effect("k", "a")
        thread = threading.Thread(target=lambda: seen.append(store.get_effect("k")))
        thread.start()
        thread.join()

    store.unit(work, durable=False)
    assert seen == [None]
    assert store.get_effect("k") is not None


def test_text_that_is_no_text_is_refused_and_the_unit_goes_on(store: Traced) -> None:
    def work() -> None:
        for call in (
            lambda: store.reserve_effect("k\ud800", "a"),
            lambda: store.get_effect("k\ud800"),
            lambda: store.events_page(limit=1, after=str(2**70)),
        ):
            with pytest.raises(InvalidArgument):
                call()
        store.reserve_effect("k", "a")

    store.unit(work, durable=False)
    assert store.effects_count() == 1
