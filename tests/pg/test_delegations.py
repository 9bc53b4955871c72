"""What changed among the delegations: nothing is missed, and nothing unchanged is read again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state import DelegationRecord
from ctrlrun.state.postgres import PostgresReader
from tests.pg.server import run, server_url


@pytest.fixture
def store(schema: str) -> Iterator[PostgresStateStore]:
    with closing(PostgresStateStore(server_url(), schema=schema)) as opened:
        for number in range(3):
            opened.put_delegation(_record(number))
        yield opened


def _record(number: int) -> DelegationRecord:
    return DelegationRecord(f"dlg_{number}", "head", 1, "{}", "a", None, "api", utc_now())


CHANGES = [
    "UPDATE {s}.delegations SET revoked_at = 'x' WHERE delegation_id = 'dlg_0'",
    "UPDATE {s}.delegations SET grant_json = '[]' WHERE delegation_id = 'dlg_2'",
    "UPDATE {s}.delegations SET grant_json = grant_json WHERE delegation_id = 'dlg_1'",
    "DELETE FROM {s}.delegations WHERE delegation_id = 'dlg_1'",
    "DELETE FROM {s}.delegations",
    "TRUNCATE {s}.delegations",
    "INSERT INTO {s}.delegations SELECT 'dlg_9', parent_id, depth, grant_json, created_by_agent, "
    "created_by_user, created_via, created_at FROM {s}.delegations LIMIT 1",
    "WITH gone AS (DELETE FROM {s}.delegations WHERE delegation_id = 'dlg_0' RETURNING *) "
    "INSERT INTO {s}.delegations SELECT 'dlg_9', parent_id, depth, grant_json, created_by_agent, "
    "created_by_user, created_via, created_at FROM gone",
]


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_is_noticed_once(store: PostgresStateStore, schema: str, change: str) -> None:
    with closing(PostgresReader(server_url(), schema=schema)) as reader:
        first = reader.delegation_changes(None)
        assert first.is_whole and len(first.rows) == 3
        again = reader.delegation_changes(first.mark)
        assert not again.is_whole and again.rows == ()
        run(schema, change)
        found = reader.delegation_changes(again.mark)
        assert found.is_whole
        assert len(found.rows) == reader.delegations_count(include_revoked=True)
        after = reader.delegation_changes(found.mark)
        assert not after.is_whole and after.rows == ()


def test_what_a_unit_takes_back_leaves_no_mark(store: PostgresStateStore) -> None:
    mark = store.delegation_changes(None).mark
    inside: list[object] = []

    def work() -> None:
        store.revoke_delegation("dlg_0", by=None, at=utc_now())
        inside.append(store.delegation_changes(mark).mark)
        raise KeyError

    with pytest.raises(KeyError):
        store.unit(work, durable=True)
    assert inside == [None]
    assert not store.delegation_changes(mark).is_whole
