"""A row that cannot be read stops everybody, until it is revoked."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.authority import DelegationReader, DelegationRecord
from ctrlrun.errors import DamagedRow
from ctrlrun.state import SQLiteReader, SQLiteStateStore
from tests.cases import walk
from tests.lib.authority.helpers import (
    NOW,
    PlainStore,
    action,
    authority,
    dlg,
    facts,
    grant,
    memory,
    parent_grant,
    record,
    sqlite,
    text,
    verdict,
)
from tests.lib.authority.test_grant_json import NOT_GRANTS, UNREADABLE

DOCUMENT = authority(grant("a"), parent_grant())


@walk("kind", [memory, PlainStore])
@walk("stored", [*(text(**changes) for changes in UNREADABLE), *NOT_GRANTS])
def test_one_grant_that_cannot_be_read_denies_everything(kind: Any, stored: str) -> None:
    store = kind(record(2), record(1, grant_json=stored))
    for asked in (action(), action("crm.read", agent="somebody else")):
        result = verdict(DOCUMENT, asked, store)
        assert (result.passed, result.reason) == (False, "authority_unreadable")
        assert facts(result) == {"delegation_id": dlg(1)}


@walk(
    "fields",
    [
        {"delegation_id": "dlg_1"},
        {"delegation_id": "dlg_" + "A" * 32},
        {"delegation_id": dlg(1) + "\n"},
        {"delegation_id": "x" + dlg(1)},
        {"created_via": "console"},
        {"created_via": "API"},
        {"created_by_agent": ""},
        {"created_by_agent": " "},
    ],
)
@walk("kind", [memory, PlainStore])
def test_columns_that_nobody_writes_like_that(kind: Any, fields: dict[str, Any]) -> None:
    item = record(1, **fields)
    result = verdict(DOCUMENT, action(), kind(item))
    assert result.reason == "authority_unreadable"
    assert facts(result) == {"delegation_id": item.delegation_id}


@walk("kind", [memory, PlainStore])
def test_the_lowest_id_is_named_and_a_revoked_row_is_ignored(kind: Any) -> None:
    rows = [record(number, grant_json="{}") for number in (3, 2)]
    gone = record(1, grant_json="{}", revoked_at=NOW, revoked_by="cli:local")
    assert verdict(DOCUMENT, action(), kind(*rows, gone)).delegation_id == dlg(2)
    assert verdict(DOCUMENT, action(), kind(gone)).grant_id == "a"


def test_one_command_restores_the_service() -> None:
    store = memory(record(1, grant_json="{}"))
    assert not verdict(DOCUMENT, action(), store).passed
    assert store.revoke_delegation(dlg(1), by="cli:local", at=NOW)
    assert verdict(DOCUMENT, action(), store).passed


def test_beneath_a_revoked_row_that_nobody_can_read_everything_is_revoked() -> None:
    gone = record(1, grant_json="{}", revoked_at=NOW, revoked_by="x")
    store = memory(gone, record(2, dlg(1)))
    assert verdict(authority(parent_grant()), action(), store).reason == "authority_revoked"


# --- SQLite: what the typed reads refuse ---------------------------------------------------------


def change(path: Path, sql: str, *values: Any) -> None:
    """What another program does, with SQL alone."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as connection:
        assert connection.execute(sql, values).rowcount == 1


DAMAGE = [
    ("created_at", "yesterday"),
    ("created_at", "2026-09-03T10:00:00"),
    ("created_at", b"\xff"),
    ("depth", "deep"),
    ("depth", 1.5),
    ("grant_json", b"\xff{}"),
    ("grant_json", b"{}"),
    ("parent_id", b"root"),
    ("created_by_agent", b"head"),
    ("created_by_user", b"x"),
    ("created_by_user", ""),
    ("created_via", b"api"),
    ("revoked_by", b"x"),
    ("delegation_id", b"dlg"),
    ("delegation_id", None),
]


@walk(("column", "value"), DAMAGE)
def test_damage_by_another_program_counts_at_the_next_call(
    column: str, value: Any, tmp_path: Path
) -> None:
    with closing(sqlite(tmp_path, record(1), record(2))) as store:
        assert verdict(DOCUMENT, action(), store).passed
        change(
            store.path,
            f"UPDATE delegations SET {column} = ? WHERE delegation_id = ?",
            value,
            dlg(1),
        )
        for _ in range(2):
            result = verdict(DOCUMENT, action(), store)
            assert result.reason == "authority_unreadable"
            named = {b"dlg": "dlg", None: ""}.get(value, dlg(1))  # type: ignore[call-overload]
            assert facts(result) == {"delegation_id": named}
        change(store.path, "UPDATE delegations SET revoked_at = 'now' WHERE rowid = 1")
        assert verdict(DOCUMENT, action(), store).passed


def test_revoking_damage_by_its_id_restores_the_service(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path, record(1))) as store:
        change(store.path, "UPDATE delegations SET created_at = 'x', grant_json = '{'")
        assert not verdict(DOCUMENT, action(), store).passed
        assert store.revoke_delegation(dlg(1), by="cli:local", at=NOW)
        assert verdict(DOCUMENT, action(), store).grant_id == "a"


class Damaged(PlainStore):
    """A store of somebody else's that names a damaged row and gives none of them."""

    def __init__(self, *records: DelegationRecord, revoked: bool) -> None:
        super().__init__(*records)
        self.revoked = revoked

    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]:
        if include_revoked or not self.revoked:
            raise DamagedRow(table="delegations", row_id=dlg(7))
        return super().delegations(include_revoked=False)


def test_a_store_that_cannot_give_damaged_rows_denies_until_it_is_revoked() -> None:
    result = verdict(DOCUMENT, action(), Damaged(record(1), revoked=False))
    assert (result.reason, result.delegation_id) == ("authority_unreadable", dlg(7))
    assert verdict(DOCUMENT, action(), Damaged(record(1), revoked=True)).grant_id == "a"


def test_a_store_that_fails_fails_the_call() -> None:
    class Broken(PlainStore):
        def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]:
            raise sqlite3.OperationalError("disk I/O error")

    with pytest.raises(sqlite3.OperationalError):
        verdict(DOCUMENT, action(), Broken())


def test_a_reader_that_cannot_write_judges_too(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path, record(1))) as store, closing(SQLiteReader(store.path)) as reader:
        grants = authority(parent_grant())
        found: list[DelegationReader] = [store, reader]
        assert [verdict(grants, action(), each).grant_id for each in found] == [dlg(1)] * 2
        store.revoke_delegation(dlg(1), by="x", at=NOW)
        assert [verdict(grants, action(), each).reason for each in found] == [
            "authority_revoked"
        ] * 2


def test_a_file_that_is_not_extended_is_read_whole(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path, record(1))) as store:
        for trigger in ("insert", "update", "delete"):
            with closing(sqlite3.connect(store.path)) as connection:
                connection.execute(f"DROP TRIGGER x_delegations_{trigger}")
        grants = authority(parent_grant())
        assert verdict(grants, action(), store).passed
        assert store.delegation_changes(None).mark is None
        change(store.path, "UPDATE delegations SET revoked_at = ?", NOW.isoformat())
        assert verdict(grants, action(), store).reason == "authority_revoked"


def test_triggers_that_are_taken_away_or_changed_are_noticed(tmp_path: Path) -> None:
    with closing(sqlite(tmp_path, record(1))) as store:
        grants = authority(parent_grant())
        assert verdict(grants, action(), store).passed
        with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER x_delegations_update")
            connection.execute(
                "CREATE TRIGGER x_delegations_update AFTER UPDATE ON delegations BEGIN SELECT 1; END"
            )
            connection.execute("UPDATE delegations SET grant_json = '{}'")
        assert verdict(grants, action(), store).reason == "authority_unreadable"
        change(store.path, "UPDATE delegations SET revoked_at = ?", NOW.isoformat())
        assert verdict(grants, action(), store).reason == "no_authority"


def test_a_store_opened_again_is_known_anew(tmp_path: Path) -> None:
    grants = authority(parent_grant())
    for expected in (True, False):
        with closing(SQLiteStateStore(tmp_path / "state.db", durability="normal")) as store:
            if expected:
                store.put_delegation(record(1))
            assert verdict(grants, action(), store).passed is expected
            if expected:
                store.revoke_delegation(dlg(1), by="x", at=NOW)
