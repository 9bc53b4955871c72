"""Holders in Postgres: a side table that no call depends on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.clock import utc_now
from ctrlrun.control import Control
from ctrlrun.effect import EffectState, Holder
from ctrlrun.operator import resolve
from ctrlrun.policy import Policy
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.process import this_process
from ctrlrun.state.postgres import ExistingPostgresStore
from tests.pg.server import rows, run, server_url

POLICY = Policy.from_yaml(
    'schema: ctrlrun.policy/v2\nactions:\n  pay:\n    effect: "pay:{id}"\n    decision: allow\n'
)


def pay(store: PostgresStateStore, number: str = "1") -> None:
    """One protected call."""
    action = Action("pay", {"id": number}, Principal("agent"))
    Control(POLICY, store).execute(action, lambda: {"id": "re_1"}, f"pay:{number}")


@contextlib.contextmanager
def a_role(schema: str) -> Iterator[tuple[str, str]]:
    """A role that may use all tables and owns none, and the URL by which it comes."""
    role = f"r_{schema}"
    run(
        schema,
        f"CREATE ROLE {role}",
        f"GRANT USAGE ON SCHEMA {{s}} TO {role}",
        f"GRANT ALL ON ALL TABLES IN SCHEMA {{s}} TO {role}",
        f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {{s}} TO {role}",
    )
    url = server_url()
    try:
        yield role, f"{url}{'&' if '?' in url else '?'}options=-c%20role%3D{role}"
    finally:
        run(schema, f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_a_call_writes_down_who_makes_it(schema: str) -> None:
    store = PostgresStateStore(server_url(), schema=schema)
    pay(store)
    record = store.get_effect("pay:1")
    holder = store.get_holder("pay:1", 1)
    store.close()
    assert record is not None and holder is not None
    assert holder.action_id == record.action_id


def test_without_the_table_calls_go_on_and_nobody_is_named(schema: str) -> None:
    PostgresStateStore(server_url(), schema=schema).close()
    run(
        schema,
        "DROP TABLE {s}.holders",
        "DELETE FROM {s}.schema_extensions WHERE extension_id = 'x30_holders'",
    )
    store = ExistingPostgresStore(server_url(), schema=schema, extend=False)
    pay(store)
    now = datetime(2026, 1, 1, tzinfo=UTC)
    store.put_holder(Holder("k", "a", 1, "host", 1, "", "t", None, now))
    store.see_holder("k", "a", 1, now)
    record = store.get_effect("pay:1")
    assert record is not None and record.state is EffectState.COMMITTED
    assert store.get_holder("pay:1", 1) is None
    store.close()
    assert rows(schema, "SELECT to_regclass('{s}.holders')") == [(None,)]


TAKEN_AWAY = {
    "dropped": ("DROP TABLE {s}.holders",),
    "revoked": ("REVOKE INSERT ON {s}.holders FROM {role}",),
    "renamed": ("ALTER TABLE {s}.holders RENAME TO held",),
}


@pytest.mark.parametrize("change", TAKEN_AWAY)
def test_a_table_that_is_taken_away_under_an_agent_stops_one_call(schema: str, change: str) -> None:
    PostgresStateStore(server_url(), schema=schema).close()
    with a_role(schema) as (role, url):
        store = PostgresStateStore(url, schema=schema)
        pay(store, "1")
        run(schema, *(statement.replace("{role}", role) for statement in TAKEN_AWAY[change]))
        with pytest.raises(psycopg.Error):
            pay(store, "2")
        assert store.get_effect("pay:2") is None
        pay(store, "2")
        record = store.get_effect("pay:2")
        store.close()
    assert record is not None and (record.state, record.attempt) == (EffectState.COMMITTED, 1)


@pytest.mark.parametrize("granted", ["", "SELECT"])
def test_a_role_that_may_not_write_the_table_acts_all_the_same(schema: str, granted: str) -> None:
    PostgresStateStore(server_url(), schema=schema).close()
    with a_role(schema) as (role, url):
        run(
            schema,
            f"REVOKE ALL ON {{s}}.holders FROM {role}",
            *([f"GRANT {granted} ON {{s}}.holders TO {role}"] if granted else []),
        )
        store = PostgresStateStore(url, schema=schema)
        pay(store)
        assert store.get_holder("pay:1", 1) is None
        record = store.get_effect("pay:1")
        store.close()
    assert record is not None and record.state is EffectState.COMMITTED


def test_a_crashed_attempt_is_resolved(schema: str) -> None:
    """Its lease has lapsed, or its process is gone while the lease lives."""
    store = PostgresStateStore(server_url(), schema=schema)
    here = this_process()
    for key, lease in (("lapsed", timedelta(microseconds=1)), ("gone", timedelta(hours=1))):
        store.reserve_effect(key, "act_1", lease)
        process = (here.host, 2**22 + 1, here.boot_id, "main", "0.01")
        store.put_holder(Holder(key, "act_1", 1, *process, utc_now()))
        record = resolve(store, key, "failed", "cli:me", note="the pod was evicted")
        assert (record.state, record.resolved_by) == (EffectState.FAILED, "cli:me")
    types = [event.type for event in store.events()]
    store.close()
    assert types == ["EFFECT_RESERVATION_REFUSED", "EFFECT_RESOLVED"] * 2
