"""Migrations: what each database is taken for, what is applied, and what a crash leaves."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctrlrun._version import __version__
from ctrlrun.clock import utc_now
from ctrlrun.errors import InvalidArgument, SchemaMismatch, StoreNotFound
from ctrlrun.migrations import (
    HEAD,
    MIGRATIONS,
    Classification,
    applied_migrations,
    classify,
    ctrlrun_version,
)
from ctrlrun.state import ExistingSQLiteStore, SQLiteReader, SQLiteStateStore
from ctrlrun.state.sqlite_make import bring_to_head
from ctrlrun.state.sqlite_open import look
from ctrlrun.state.sqlite_schema import EXTENSIONS
from tests.cases import walk
from tests.lib import sqlite_helpers as old

quick_folder = pytest.fixture(old.quick_folder)

IDS = old.MIGRATION_IDS
EXTENSION_IDS = [step.id for step in EXTENSIONS]


def ledger(path: Path) -> list[tuple[Any, ...]]:
    return old.select(path, "SELECT migration_id, applied_at, ctrlrun_version FROM schema_version")


def schema_of(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every table's columns, and every index: what a database is, however it came to be."""
    found = {}
    for (name,) in old.select(
        path, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"
    ):
        found[name] = old.select(
            path,
            'SELECT name, type, "notnull", dflt_value, pk FROM pragma_table_info(?) ORDER BY cid',
            (name,),
        )
    indexes = "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
    found["indexes"] = sorted(
        (name, " ".join(sql.split())) for name, sql in old.select(path, indexes)
    )
    return found


# --- names ---------------------------------------------------------------------------------------


def test_the_ids_are_those_of_the_format() -> None:
    assert tuple(step.id for step in MIGRATIONS) == IDS
    assert IDS[-1] == HEAD
    assert ctrlrun_version() == __version__


@walk(
    ("ids", "expected"),
    [
        (IDS, "up_to_date"),
        (reversed(IDS), "up_to_date"),
        ((), "forward"),
        (IDS[:1], "forward"),
        (IDS[:3], "forward"),
        (IDS[1:], "gapped"),
        ((IDS[0], IDS[3]), "gapped"),
        ((*IDS, "0005_later"), "backward"),
        ((*IDS, "0005_later", "0006_more"), "backward"),
        ((*IDS[:3], "0005_later"), "divergent"),
        (("0005_later",), "divergent"),
        ((IDS[0], IDS[3], "0009_x"), "divergent"),
    ],
)
def test_classification_of_recorded_ids(ids: Any, expected: str) -> None:
    assert classify(ids) is Classification(expected)


# --- opening what is found -----------------------------------------------------------------------


@walk("steps", range(5))
@walk("wal", [True, False])
def test_every_earlier_prefix_is_brought_to_head(steps: int, wal: bool, tmp_path: Path) -> None:
    path, fresh = tmp_path / "old.db", tmp_path / "fresh.db"
    old.make_format(path, steps, wal=wal)
    SQLiteStateStore(fresh).close()
    SQLiteStateStore(path).close()
    assert schema_of(path) == schema_of(fresh)
    assert applied_migrations(path) == IDS
    # What was recorded before stays as it was recorded.
    assert ledger(path)[:steps] == [(name, old.STAMP, "0.6.1") for name in IDS[:steps]]
    assert {version for _, _, version in ledger(path)[steps:]} <= {__version__}
    assert old.journal_mode(path) == "wal"


def test_a_fresh_store_has_the_format_to_the_letter(tmp_path: Path) -> None:
    path, expected = tmp_path / "state.db", tmp_path / "expected.db"
    old.make_format(expected)
    SQLiteStateStore(path).close()
    ours, theirs = schema_of(path), schema_of(expected)
    indexes = ours.pop("indexes")
    ours.pop("schema_extensions")
    ours.pop("x_delegation_changes")
    ours.pop("holders")
    assert [item for item in indexes if item in theirs["indexes"]] == theirs.pop("indexes")
    assert ours == theirs
    assert old.select(path, "SELECT * FROM receipt_chain") == [(1, 0, old.GENESIS)]


def test_a_database_from_before_the_ledger_is_the_baseline(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old.make_format(path, 1, ledger=False)
    old.fill(
        path,
        "effects",
        effect_key="k",
        state="committed",
        action_id="a",
        attempt=3,
        created_at=old.STAMP,
        updated_at=old.STAMP,
    )
    assert applied_migrations(path) == ()
    with closing(SQLiteStateStore(path)) as store:
        record = store.get_effect("k")
        assert record is not None
        assert (record.attempt, record.resolved_by) == (3, None)
    assert applied_migrations(path) == IDS


def test_a_baseline_may_lack_tables_but_not_columns_of_effects(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(old.plain(path)) as db:
        db.execute("CREATE TABLE effects (effect_key TEXT PRIMARY KEY, state TEXT)")
    before = old.contents(tmp_path)
    with pytest.raises(SchemaMismatch, match=r"effects.*action_id, attempt"):
        SQLiteStateStore(path)
    assert old.contents(tmp_path) == before


def test_a_store_at_head_is_opened_without_a_write(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SQLiteStateStore(path).close()
    before = old.contents(tmp_path)
    SQLiteStateStore(path).close()
    assert old.contents(tmp_path) == before


REFUSED = {
    "gapped": ((IDS[0], IDS[2], IDS[3]), ["0002_receipt_chain"]),
    "backward": ((*IDS, "0005_later"), ["0005_later", "9.9.9", __version__]),
    "divergent": ((*IDS[:3], "0005_later"), ["0005_later", "0004_policy_provenance"]),
}


@walk("kind", REFUSED)
@walk(
    "opener",
    [
        SQLiteStateStore,
        SQLiteReader,
        lambda path: ExistingSQLiteStore(path, extend=True),
        lambda path: ExistingSQLiteStore(path, extend=False),
    ],
)
def test_a_store_of_another_line_is_refused_and_stays(
    kind: str, opener: Callable[[Path], Any], tmp_path: Path
) -> None:
    ids, named = REFUSED[kind]
    path = tmp_path / "state.db"
    old.make_format(path)
    old.execute(path, "DELETE FROM schema_version")
    for name in ids:
        version = "0.6.1" if name in IDS else "9.9.9"
        old.fill(
            path, "schema_version", migration_id=name, applied_at=old.STAMP, ctrlrun_version=version
        )
    before = old.contents(tmp_path)
    with pytest.raises(SchemaMismatch) as caught:
        opener(path)
    error = caught.value
    assert all(fact in str(error) for fact in [*named, str(path)])
    assert (error.applied, error.known, error.running) == (tuple(sorted(ids)), IDS, __version__)
    assert "\n" not in str(error)
    assert old.contents(tmp_path) == before


def test_another_applications_ledger_of_the_same_name_is_foreign(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old.execute(path, "CREATE TABLE schema_version (version INTEGER)", "CREATE TABLE effects (x)")
    with pytest.raises(SchemaMismatch, match="effects, schema_version"):
        SQLiteStateStore(path)


def test_applied_migrations_only_looks(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with pytest.raises(StoreNotFound):
        applied_migrations(path)
    path.touch()
    assert applied_migrations(path) == ()
    assert old.contents(tmp_path)["state.db"] == b""
    path.write_text("no database " * 50)
    with pytest.raises(InvalidArgument):
        applied_migrations(path)
    path.unlink()
    old.make_format(path, 2)
    assert applied_migrations(str(path)) == IDS[:2]


# --- failures ------------------------------------------------------------------------------------


@walk(
    ("steps", "column", "failing"),
    [
        (1, "receipts ADD COLUMN hash TEXT", "0002_receipt_chain"),
        (2, "effects ADD COLUMN resolved_by TEXT", "0003_resolved_by"),
        (1, "approvals ADD COLUMN policy_hash_at_approval TEXT", "0004_policy_provenance"),
    ],
)
def test_a_migration_that_fails_leaves_the_prefix_before_it(
    steps: int, column: str, failing: str, tmp_path: Path
) -> None:
    path = tmp_path / "state.db"
    old.make_format(path, steps)
    old.execute(path, f"ALTER TABLE {column}")
    with pytest.raises(SchemaMismatch, match=rf"{failing}.*unchanged") as caught:
        SQLiteStateStore(path)
    done = IDS[: IDS.index(failing)]
    assert caught.value.applied == done
    assert applied_migrations(path) == done
    columns = {row[0] for row in schema_of(path)["receipts"]}
    assert ("prev_hash" in columns) is ("0002_receipt_chain" in done)
    assert old.select(path, "SELECT name FROM sqlite_master WHERE name = 'schema_extensions'") == []


def test_an_extension_that_fails_is_named_and_the_format_stands(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old.make_format(path, 3)
    old.execute(path, "CREATE TABLE x_receipts_by_action (taken INTEGER)")
    with pytest.raises(SchemaMismatch, match=r"x04_receipts_by_action.*unchanged"):
        SQLiteStateStore(path)
    assert applied_migrations(path) == IDS


def test_eight_processes_bring_one_store_to_head(tmp_path: Path) -> None:
    for steps in (0, 1, 3):
        path = tmp_path / f"{steps}.db"
        old.make_format(path, steps, wal=steps > 1)

        def work(number: int, path: Path = path) -> None:
            with closing(SQLiteStateStore(path, durability="normal")) as store:
                store.reserve_effect(f"k{number}", "a")

        assert old.at_once(8, work) == [0] * 8
        assert applied_migrations(path) == IDS
        assert old.select(path, "SELECT COUNT(*), COUNT(DISTINCT effect_key) FROM effects") == [
            (8, 8)
        ]


def test_eight_processes_fill_one_zero_byte_file(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.touch()

    def work(number: int) -> None:
        with closing(SQLiteStateStore(path, durability="normal")) as store:
            store.append_event(old.event(number))

    assert old.at_once(8, work) == [0] * 8
    assert [row[0] for row in old.select(path, "SELECT event_id FROM events ORDER BY 1")] == [
        *range(1, 9)
    ]


@pytest.mark.parametrize("steps", [0, 1])
def test_a_kill_at_any_statement_leaves_a_prefix_that_the_next_open_continues(
    steps: int, quick_folder: Path
) -> None:
    seen = set()
    number, status = 0, -1
    while status != 0:
        path = quick_folder / f"{number}.db"
        old.make_format(path, steps)
        status = old.in_child(partial(dying_open, number, path))
        recorded = applied_migrations(path)
        seen.add(recorded)
        assert recorded == IDS[: len(recorded)]
        columns = {row[0] for row in schema_of(path).get("effects", [])}
        assert ("resolved_by" in columns) is (IDS[2] in recorded)
        with closing(SQLiteStateStore(path)) as store:
            store.reserve_effect("k", "a")
        assert applied_migrations(path) == IDS
        # From the second beginning the same statements come again; of the many extensions some.
        number += 1 + steps if recorded != IDS else 7
    assert seen == {IDS[:done] for done in range(steps, 5)}


def dying_open(number: int, path: Path) -> None:
    """Bring a store to head, and be killed before the n-th statement that is not a read."""
    left = iter(range(number))

    class Dying(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if not sql.startswith("SELECT") and next(left, None) is None:
                old.kill_self()
            return super().execute(sql, *values)

    connection = sqlite3.connect(path, isolation_level=None, factory=Dying)
    bring_to_head(connection, path, utc_now)


# --- extensions ----------------------------------------------------------------------------------


def test_extensions_are_recorded_apart_from_the_format(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old.make_format(path)
    SQLiteStateStore(path).close()
    assert [row[0] for row in ledger(path)] == [*IDS]
    recorded = old.select(path, "SELECT * FROM schema_extensions ORDER BY extension_id")
    assert [row[0] for row in recorded] == EXTENSION_IDS
    assert {row[2] for row in recorded} == {__version__}


def test_a_reader_and_the_console_extend_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    old.make_format(path)
    before = old.contents(tmp_path)
    for opened in (SQLiteReader(path), ExistingSQLiteStore(path, extend=False)):
        with closing(opened):
            assert opened.events_count() == 0
            assert opened.receipts_page(limit=5).items == ()
    assert old.contents(tmp_path)["state.db"] == before["state.db"]
    with closing(ExistingSQLiteStore(path, extend=True)):
        assert len(old.select(path, "SELECT * FROM schema_extensions")) == len(EXTENSIONS)


def test_extensions_of_a_newer_build_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SQLiteStateStore(path).close()
    old.fill(
        path,
        "schema_extensions",
        extension_id="x99_future",
        applied_at=old.STAMP,
        ctrlrun_version="9.9.9",
    )
    with closing(SQLiteStateStore(path)) as store, closing(SQLiteReader(path)) as reader:
        store.reserve_effect("k", "a")
        assert reader.get_effect("k") is not None


def test_a_missing_extension_is_applied_by_the_next_writer(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    SQLiteStateStore(path).close()
    old.execute(
        path,
        "DROP INDEX x_events_by_action",
        "DELETE FROM schema_extensions WHERE extension_id = 'x01_events_by_action'",
    )
    SQLiteStateStore(path).close()
    fresh = tmp_path / "fresh.db"
    SQLiteStateStore(fresh).close()
    assert schema_of(path) == schema_of(fresh)


def test_tables_and_ledger_are_looked_at_in_one_moment(tmp_path: Path) -> None:
    """Another process that migrates in between must not make a table look gone."""
    path = tmp_path / "state.db"
    SQLiteStateStore(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for table in ("receipts", "receipt_chain", "events", "schema_extensions"):
            db.execute(f"DROP TABLE {table}")
        db.execute("DELETE FROM schema_version")

    class Overtaken(sqlite3.Connection):
        overtaken = False

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "FROM schema_version" in sql and not self.overtaken:
                self.overtaken = True
                with closing(sqlite3.connect(path, isolation_level=None)) as other:
                    for migration in MIGRATIONS:
                        other.execute(
                            "INSERT INTO schema_version VALUES (?, '', '')", (migration.id,)
                        )
            return super().execute(sql, *values)

    with closing(sqlite3.connect(path, factory=Overtaken, isolation_level=None)) as db:
        found = look(db)
        assert db.overtaken
    assert found.recorded == {}
    assert "receipts" not in found.columns
