"""Rows that no program of ours writes: what they cost an evaluation, and that each can be taken back."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ctrlrun.authority import Authority, AuthorityResult
from ctrlrun.authority.chain import Link
from ctrlrun.authority.standing import Standing
from ctrlrun.clock import column_timestamp, iso_timestamp
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import revoke
from ctrlrun.state import SQLiteStateStore
from tests.cases import walk
from tests.lib.authority.helpers import NOW, action, authority, dlg, parent_grant, text

MANY = 400
_COLUMNS = "?, 1, ?, 'head', NULL, 'api', '2026-01-01T00:00:00+00:00', NULL, NULL"


def execute(path: Path, sql: str, *values: str) -> None:
    """A statement of another program."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql, values)


def put_chain(path: Path, parents: Sequence[str]) -> None:
    """Rows beneath these, written past all checks."""
    rows = [(dlg(number), parent_id, text()) for number, parent_id in enumerate(parents)]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany(f"INSERT INTO delegations VALUES (?, {_COLUMNS})", rows)


class Counted:
    """How many rows an evaluation passes on the ways up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = 0
        find, above = Standing.find, Standing._above

        def counted_find(standing: Standing, delegation_id: str) -> Link | None:
            self.passed += 1
            return find(standing, delegation_id)

        def counted_above(standing: Standing, delegation_id: str) -> str | None:
            self.passed += 1
            return above(standing, delegation_id)

        monkeypatch.setattr(Standing, "find", counted_find)
        monkeypatch.setattr(Standing, "_above", counted_above)


@pytest.mark.parametrize(
    ("top", "revoked", "reason"),
    [
        ("root", False, "authority_grant"),
        ("gone", False, "authority_escalation"),
        (dlg(MANY - 1), False, "authority_unreadable"),
        (dlg(MANY - 1), True, "authority_escalation"),
    ],
)
def test_a_long_chain_costs_its_rows_and_not_their_square(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, top: str, revoked: bool, reason: str
) -> None:
    path = tmp_path / "state.db"
    store = SQLiteStateStore(path)
    put_chain(path, [top, *map(dlg, range(MANY - 1))])
    if revoked:
        store.revoke_delegation(dlg(MANY // 2), by=None, at=NOW)
    counted = Counted(monkeypatch)
    result = authority(parent_grant(agent="head")).evaluate(action(), now=NOW, store=store)
    assert result.reason == reason
    assert counted.passed <= 8 * MANY
    store.close()


def test_a_circle_far_above_counts_when_it_is_closed_and_opened(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SQLiteStateStore(path)
    judge = authority(parent_grant(agent="head"), depth=1)
    put_chain(path, ["gone", *map(dlg, range(8))])

    def reason(judging: Authority = judge) -> tuple[str, str | None]:
        result = judging.evaluate(action(), now=NOW, store=store)
        return result.reason, result.cycle_at

    assert reason()[0] == "authority_escalation"
    execute(path, "UPDATE delegations SET parent_id = ? WHERE delegation_id = ?", dlg(3), dlg(0))
    assert reason() == ("authority_unreadable", dlg(0))
    execute(path, "UPDATE delegations SET parent_id = 'gone' WHERE delegation_id = ?", dlg(0))
    assert reason() == reason(authority(parent_grant(agent="head"), depth=1))
    assert reason()[0] == "authority_escalation"
    store.close()


STRANGE = [
    ("x'646c675f00'", "dlg_\0"),
    ("x'ff61'", "\\xffa"),
    ("CAST(x'ff61' AS TEXT)", "\\xffa"),
    ("NULL", ""),
    ("''", ""),
    ("'dlg_X'", "dlg_X"),
]


@walk(("id_sql", "shown"), STRANGE)
def test_a_row_whose_id_is_no_id_is_taken_back_by_what_the_refusal_calls_it(
    tmp_path: Path, id_sql: str, shown: str
) -> None:
    path = tmp_path / "state.db"
    store = SQLiteStateStore(path)
    judge = authority(parent_grant(agent="bot"))
    assert judge.evaluate(action(), now=NOW, store=store).passed
    execute(path, f"INSERT INTO delegations VALUES ({id_sql}, {_COLUMNS})", "root", text())
    refused = judge.evaluate(action(), now=NOW, store=store)
    assert (refused.reason, refused.delegation_id) == ("authority_unreadable", shown)
    assert not revoke(store, shown, by="cli:alice").repeated
    assert judge.evaluate(action(), now=NOW, store=store).passed
    assert revoke(store, shown, by="cli:bob").repeated
    assert [event.type for event in store.events()] == ["DELEGATION_REVOKED"]
    store.close()


def test_a_refusal_quotes_an_id_that_is_empty() -> None:
    refused = AuthorityResult(False, "authority_unreadable", delegation_id="")
    assert "delegation '' cannot be read" in refused.describe()


def test_an_empty_id_that_no_row_has_is_unknown(tmp_path: Path) -> None:
    store = SQLiteStateStore(tmp_path / "state.db")
    with pytest.raises(InvalidArgument, match="no delegation ''"):
        revoke(store, "", by=None)
    assert store.events() == ()
    store.close()


@walk(
    ("moment", "shown"),
    [
        ("9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00.000Z"),
        ("2026-01-01T00:00:00+23:59", "2025-12-31T00:01:00.000Z"),
    ],
)
def test_a_time_at_the_end_of_the_calendar_has_a_text_in_utc(moment: str, shown: str) -> None:
    at = datetime.fromisoformat(moment)
    assert iso_timestamp(at) == shown
    assert datetime.fromisoformat(column_timestamp(at)).tzinfo == UTC
