"""A COMMIT whose answer is lost: each row of the table in docs/stores.md, by a real broken connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import ctrlrun
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, AmbiguousWrite, DuplicateEffect
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import EventType, verify_chain
from ctrlrun.state.postgres_session import PostgresSession
from tests.lib.store_suite.helpers import (
    START_TIME,
    FakeClock,
    action,
    effect,
    event,
    receipt,
    request,
)
from tests.pg.proxy import Cut, Proxy
from tests.pg.server import run, server_url

HASH = action().action_hash


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    made.close()


@pytest.fixture
def store(proxy: Proxy, schema: str, clock: FakeClock) -> Iterator[PostgresStateStore]:
    with closing(PostgresStateStore(server_url(), schema=schema, clock=clock)):
        pass
    with closing(PostgresStateStore(proxy.url, schema=schema, clock=clock)) as opened:
        yield opened


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def branches(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "ctrlrun.postgres")

    def found() -> list[str]:
        records = [record for record in caplog.records if record.name == "ctrlrun.postgres"]
        assert all(record.levelno == logging.WARNING for record in records)
        return [str(getattr(record, "branch", None)) for record in records]

    return found


Branches = Callable[[], list[str]]


@pytest.mark.parametrize(
    ("cut", "branch"), [(Cut.AFTER, "a1.row1.ours"), (Cut.BEFORE, "a1.row2.reinsert")]
)
def test_a_new_reservation(
    store: PostgresStateStore, proxy: Proxy, branches: Branches, cut: Cut, branch: str
) -> None:
    proxy.cuts = [cut]
    reservation = store.reserve_effect("k", "act_a")
    assert branches() == [branch]
    record = effect(store, "k")
    assert (record.state, record.action_id, record.attempt) == ("reserved", "act_a", 1)
    assert record.lease_expires_at == reservation.lease_expires_at


@pytest.mark.parametrize("cut", Cut)
def test_an_approval_goes_with_its_reservation(
    store: PostgresStateStore, proxy: Proxy, clock: FakeClock, branches: Branches, cut: Cut
) -> None:
    store.put_approval_request(request(clock))
    store.grant_approval("apr_1", "cli:ada")
    proxy.cuts = [cut]
    store.consume_approval_and_reserve("apr_1", HASH, "k", "act_a")
    approval = store.get_approval("apr_1")
    assert approval is not None and approval.status == "consumed"
    assert effect(store, "k").state == "reserved"
    assert len(branches()) == 1


def test_another_took_the_key_meanwhile(
    store: PostgresStateStore, proxy: Proxy, schema: str, clock: FakeClock, branches: Branches
) -> None:
    taken: list[bool] = []

    def take() -> None:
        if not taken:
            taken.append(True)
            with closing(PostgresStateStore(server_url(), schema=schema, clock=clock)) as other:
                other.reserve_effect("k", "act_b")

    _before_reading_again(store, take)
    proxy.cuts = [Cut.BEFORE]
    with pytest.raises(DuplicateEffect) as caught:
        store.reserve_effect("k", "act_a")
    assert caught.value.state == "in_progress"
    assert branches() == ["a1.row3.refuse"]
    assert effect(store, "k").action_id == "act_b"


def _before_reading_again(store: Any, do: Callable[[], None]) -> None:
    """Do something between the lost COMMIT and the look of the fresh connection."""
    made = store.connector

    def connector(url: str) -> Any:
        do()
        return made(url)

    store.connector = connector


MOVES: list[tuple[str, str, Callable[[PostgresStateStore], object]]] = [
    ("reserved", "executing", lambda store: store.begin_execution("k", "act_a")),
    ("executing", "committed", lambda store: store.commit_effect("k", "act_a", {"n": 1})),
    ("executing", "failed", lambda store: store.fail_effect("k", "act_a", "no")),
    ("executing", "ambiguous", lambda store: store.mark_ambiguous("k", "act_a", "lost")),
    ("ambiguous", "ambiguous", lambda store: store.mark_ambiguous("k", "act_a", "newer")),
    ("failed", "reserved", lambda store: store.reserve_effect("k", "act_a")),
]


def bring_to(store: PostgresStateStore, state: str) -> None:
    store.reserve_effect("k", "act_a")
    if state != "reserved":
        store.begin_execution("k", "act_a")
    if state == "failed":
        store.fail_effect("k", "act_a", "no")
    if state == "ambiguous":
        store.mark_ambiguous("k", "act_a", "older")


@pytest.mark.parametrize(
    ("cut", "branch"), [(Cut.AFTER, "a2.row1.landed"), (Cut.BEFORE, "a2.row2.reissue")]
)
@pytest.mark.parametrize(("start", "end", "call"), MOVES)
def test_a_transition(
    store: PostgresStateStore,
    proxy: Proxy,
    clock: FakeClock,
    branches: Branches,
    start: str,
    end: str,
    call: Callable[[PostgresStateStore], object],
    cut: Cut,
    branch: str,
) -> None:
    bring_to(store, start)
    clock.advance()
    proxy.cuts = [cut]
    call(store)
    record = effect(store, "k")
    assert (record.state, record.action_id, record.updated_at) == (end, "act_a", clock())
    assert record.attempt == (2 if start == "failed" else 1)
    assert branches() == [branch]


def test_a_transition_that_somebody_overtook(
    store: PostgresStateStore, proxy: Proxy, schema: str, branches: Branches
) -> None:
    bring_to(store, "executing")
    _before_reading_again(store, lambda: run(schema, "UPDATE {s}.effects SET state = 'ambiguous'"))
    proxy.cuts = [Cut.BEFORE]
    with pytest.raises(AmbiguousEffect):
        store.commit_effect("k", "act_a", None)
    assert branches() == ["a2.row3.refuse"]
    assert effect(store, "k").state is EffectState.AMBIGUOUS


@pytest.mark.parametrize("cut", Cut)
def test_a_lapsed_lease_is_kept_as_ambiguous(
    store: PostgresStateStore, proxy: Proxy, clock: FakeClock, cut: Cut
) -> None:
    bring_to(store, "executing")
    clock.advance(timedelta(hours=1))
    proxy.cuts = [cut]
    with pytest.raises(AmbiguousEffect):
        store.reserve_effect("k", "act_b")
    assert effect(store, "k").state is EffectState.AMBIGUOUS


def test_a_lapsed_lease_that_another_kept_is_told_apart(
    store: PostgresStateStore, proxy: Proxy, schema: str, clock: FakeClock, branches: Branches
) -> None:
    bring_to(store, "executing")
    clock.advance(timedelta(hours=1))
    kept = f"UPDATE {{s}}.effects SET state = 'ambiguous', updated_at = '{START_TIME.isoformat()}'"
    _before_reading_again(store, lambda: run(schema, kept))
    proxy.cuts = [Cut.BEFORE]
    with pytest.raises(AmbiguousEffect):
        store.unit(lambda: _refused_unit(store), durable=True)
    assert branches() == ["a2.row3.refuse"]
    assert store.events() == ()


def _refused_unit(store: PostgresStateStore) -> None:
    with pytest.raises(AmbiguousEffect):
        store.reserve_effect("k", "act_b")
    store.append_event(event())


def test_lost_again(store: PostgresStateStore, proxy: Proxy, branches: Branches) -> None:
    proxy.cuts = [Cut.BEFORE, Cut.BEFORE]
    with pytest.raises(AmbiguousWrite):
        store.reserve_effect("k", "act_a")
    assert branches() == ["a1.row2.reinsert"]
    assert store.get_effect("k") is None


OTHERS: list[Callable[[PostgresStateStore], object]] = [
    lambda store: store.append_event(event()),
    lambda store: store.put_receipt(receipt()),
    lambda store: store.put_approval_request(request(FakeClock(), "apr_9")),
    lambda store: store.grant_approval("apr_1", "cli:ada"),
    lambda store: store.resolve_effect("k", EffectState.COMMITTED, "cli:ada"),
]


@pytest.mark.parametrize("cut", Cut)
@pytest.mark.parametrize("call", OTHERS)
def test_any_other_write_is_not_guessed(
    store: PostgresStateStore,
    proxy: Proxy,
    clock: FakeClock,
    branches: Branches,
    call: Callable[[PostgresStateStore], object],
    cut: Cut,
) -> None:
    store.put_approval_request(request(clock))
    bring_to(store, "ambiguous")
    proxy.cuts = [cut]
    with pytest.raises(AmbiguousWrite):
        call(store)
    assert branches() == []
    store.append_event(event())  # the thread goes on, on a new connection


def test_the_server_is_gone_when_it_is_asked_again(
    store: PostgresStateStore, proxy: Proxy, branches: Branches
) -> None:
    def refuse() -> None:
        proxy.refuses = True

    _before_reading_again(store, refuse)
    proxy.cuts = [Cut.AFTER]
    with pytest.raises(psycopg.OperationalError):
        store.reserve_effect("k", "act_a")
    assert branches() == []
    proxy.refuses = False
    store.connector = PostgresStateStore.connector  # type: ignore[method-assign]


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
def test_a_commit_that_was_refused_is_raised_as_it_is(
    store: PostgresStateStore,
    monkeypatch: pytest.MonkeyPatch,
    branches: Branches,
    sqlstate: str,
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(PostgresSession, "commit", _refused_with(sqlstate))
        with pytest.raises(psycopg.Error) as caught:
            store.reserve_effect("k", "act_a")
    assert caught.value.sqlstate == sqlstate
    assert branches() == [] and store.get_effect("k") is None


def _refused_with(sqlstate: str) -> Callable[[PostgresSession], None]:
    """A commit whose statement the server answers with that state."""
    original = PostgresSession.commit

    def commit(session: PostgresSession) -> None:
        body = f"BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END"
        real = session.connection

        class Refusing:
            def __getattr__(self, name: str) -> Any:
                return getattr(real, name)

            def execute(self, sql: str, *rest: Any) -> Any:
                return real.execute(f"DO $$ {body} $$" if sql == "COMMIT" else sql, *rest)

        session._connection = Refusing()  # type: ignore[assignment]
        try:
            original(session)
        finally:
            session._connection = real

    return commit


# --- units ---------------------------------------------------------------------------------------


def first_unit(store: PostgresStateStore) -> Callable[[], list[int | None]]:
    def work() -> list[int | None]:
        ids = [store.append_event(event()).event_id]
        store.reserve_effect("k", "act_a")
        store.begin_execution("k", "act_a")
        ids.append(store.append_event(event(EventType.EXECUTION_STARTED)).event_id)
        return ids

    return work


def last_unit(store: PostgresStateStore) -> Callable[[], list[int | None]]:
    def work() -> list[int | None]:
        store.commit_effect("k", "act_a", None)
        ids = [store.append_event(event(EventType.EXECUTION_COMMITTED)).event_id]
        store.put_receipt(receipt())
        return ids

    return work


def telling_unit(store: PostgresStateStore) -> Callable[[], list[int | None]]:
    def work() -> list[int | None]:
        store.put_approval_request(request(FakeClock(), "apr_9"))
        return [store.append_event(event()).event_id]

    return work


UNITS = {
    "start": (first_unit, "a1.row1.ours", "a1.row2.reinsert"),
    "end": (last_unit, "a2.row1.landed", "a2.row2.reissue"),
    "no effect": (telling_unit, "a3.row1.landed", "a3.row2.reissue"),
}


@pytest.mark.parametrize("cut", Cut)
@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_judged_whole(
    store: PostgresStateStore, proxy: Proxy, branches: Branches, name: str, cut: Cut
) -> None:
    make, landed, again = UNITS[name]
    if name == "end":
        store.unit(first_unit(store), durable=True)
    before = store.events_count()
    proxy.cuts = [cut]
    ids = store.unit(make(store), durable=True)
    assert branches() == [landed if cut is Cut.AFTER else again]
    stored = [one.event_id for one in store.events()][before:]
    assert stored == ids
    assert verify_chain(store).ok


def test_a_unit_that_holds_nothing_to_judge_it_by(
    store: PostgresStateStore, proxy: Proxy, clock: FakeClock
) -> None:
    proxy.cuts = [Cut.AFTER]
    with pytest.raises(AmbiguousWrite):
        store.unit(lambda: store.put_approval_request(request(clock)), durable=True)


def test_an_error_before_the_commit_writes_nothing(
    store: PostgresStateStore, schema: str, branches: Branches
) -> None:
    def work() -> None:
        store.reserve_effect("k", "act_a")
        run(schema, f"SELECT pg_terminate_backend({store._sessions.current().backend})")
        store.append_event(event())

    with pytest.raises(psycopg.OperationalError):
        store.unit(work, durable=True)
    assert branches() == []
    assert store.get_effect("k") is None and store.events() == ()


# --- whole calls ---------------------------------------------------------------------------------

POLICY = """
schema: ctrlrun.policy/v2
actions:
  refund: {decision: approve, effect: "refund:{payment_id}"}
"""


@pytest.mark.parametrize("at_start", [True, False])
@pytest.mark.parametrize("cut", Cut)
def test_a_call_acts_once_and_leaves_whole_evidence(
    store: PostgresStateStore, proxy: Proxy, branches: Branches, cut: Cut, at_start: bool
) -> None:
    acted: list[str] = []
    control = ctrlrun.Control(ctrlrun.Policy.from_yaml(POLICY), store, clock=store._clock)

    @ctrlrun.protect("refund", control=control)
    def refund(payment_id: str) -> str:
        acted.append(payment_id)
        if not at_start:
            proxy.cuts = [cut]
        return "done"

    with ctrlrun.context(agent="a"):
        with pytest.raises(ctrlrun.ApprovalRequired) as asked:
            refund(payment_id="txn_1")
        store.grant_approval(asked.value.request_id, "cli:ada")
        if at_start:
            proxy.cuts = [cut]
        with ctrlrun.with_approval(asked.value.request_id):
            assert refund(payment_id="txn_1") == "done"
    assert acted == ["txn_1"] and len(branches()) == 1
    assert effect(store, "refund:txn_1").state is EffectState.COMMITTED
    said = [str(one.type) for one in store.events()][3:]
    assert said == [
        "ACTION_PROPOSED",
        "POLICY_EVALUATED",
        "APPROVAL_CONSUMED",
        "EFFECT_RESERVED",
        "EXECUTION_STARTED",
        "EXECUTION_COMMITTED",
    ]
    assert [one.result for one in store.receipts()] == ["committed"]
    assert verify_chain(store).ok
