"""Holders in every store: who makes an attempt, beside the effect and never in its way."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.effect import Holder
from ctrlrun.errors import DamagedRow, InvalidArgument
from ctrlrun.state import ExistingSQLiteStore, SQLiteReader, SQLiteStateStore
from tests.lib import sqlite_helpers
from tests.lib.store_suite.helpers import KEY, OTHER, FakeClock


def holder(clock: FakeClock, **changes: object) -> Holder:
    made = Holder(
        effect_key=KEY,
        action_id="act_1",
        attempt=1,
        host="web-3",
        pid=4121,
        boot_id="3f1c/4026531836",
        thread="MainThread",
        started_at="48211.37",
        seen_at=clock(),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def test_what_is_put_is_got(store: Any, clock: FakeClock) -> None:
    first = holder(clock)
    second = holder(clock, attempt=2, action_id="act_2", started_at=None, boot_id="", thread="")
    assert store.get_holder(KEY, 1) is None
    store.put_holder(first)
    store.put_holder(second)
    assert (store.get_holder(KEY, 1), store.get_holder(KEY, 2)) == (first, second)
    assert store.get_holder(KEY, 3) is None
    assert store.get_holder(OTHER, 1) is None
    store.put_holder(replace(first, pid=5))  # the process that resumes it
    found = store.get_holder(KEY, 1)
    assert found is not None and found.pid == 5


@pytest.mark.parametrize("text", ["\x1b[2J\x07", "a\nb\tc", "مرحبا\u202e", "x" * 10_000, "'; --"])
def test_hostile_hosts_are_text(store: Any, clock: FakeClock, text: str) -> None:
    store.put_holder(holder(clock, host=text, thread=text, boot_id=text))
    found = store.get_holder(KEY, 1)
    assert found is not None
    assert (found.host, found.thread, found.boot_id) == (text, text, text)


def test_what_no_column_can_hold_is_refused(store: Any, clock: FakeClock) -> None:
    with pytest.raises(InvalidArgument):
        store.put_holder(holder(clock, host="\ud800"))
    with pytest.raises(InvalidArgument):
        store.put_holder(holder(clock, seen_at=clock().replace(tzinfo=None)))
    assert store.get_holder(KEY, 1) is None


def test_seen_again(store: Any, clock: FakeClock) -> None:
    store.put_holder(holder(clock))
    later = clock() + timedelta(seconds=9)
    store.see_holder(KEY, "act_1", 1, later)
    found = store.get_holder(KEY, 1)
    assert found == holder(clock, seen_at=later)
    for key, action_id, attempt in ((OTHER, "act_1", 1), (KEY, "act_2", 1), (KEY, "act_1", 2)):
        store.see_holder(key, action_id, attempt, later + timedelta(days=1))
    assert store.get_holder(KEY, 1) == found
    assert store.get_holder(KEY, 2) is None


def test_a_holder_goes_with_its_unit(store: Any, clock: FakeClock) -> None:
    def both() -> None:
        store.reserve_effect(KEY, "act_1")
        store.put_holder(holder(clock))
        raise RuntimeError

    with pytest.raises(RuntimeError):
        store.unit(both, durable=True)
    assert (store.get_effect(KEY), store.get_holder(KEY, 1)) == (None, None)


def test_reads_change_nothing(store: Any, clock: FakeClock) -> None:
    store.put_holder(holder(clock))
    token = store.change_token()
    store.get_holder(KEY, 1)
    store.get_holder(OTHER, 1)
    assert store.change_token() == token


# --- the side table of a file --------------------------------------------------------------------


def without_table(path: Path) -> None:
    """The store as a program without holders left it."""
    sqlite_helpers.execute(path, "DROP TABLE holders")
    sqlite_helpers.execute(path, "DELETE FROM schema_extensions WHERE extension_id = 'x30_holders'")


def test_a_store_without_the_table_tells_of_nobody(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "state.db"
    SQLiteStateStore(path, clock=clock).close()
    without_table(path)
    for reader in (SQLiteReader(path), ExistingSQLiteStore(path, extend=False)):
        assert reader.get_holder(KEY, 1) is None
        reader.close()
    store = SQLiteStateStore(path, clock=clock)
    store.put_holder(holder(clock))
    assert store.get_holder(KEY, 1) == holder(clock)
    store.close()


def test_the_transaction_goes_on_without_the_table(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "state.db"
    store = SQLiteStateStore(path, clock=clock)
    sqlite_helpers.execute(path, "DROP TABLE holders")

    def work() -> None:
        store.reserve_effect(KEY, "act_1")
        with pytest.raises(Exception, match="no such table"):
            store.put_holder(holder(clock))
        store.begin_execution(KEY, "act_1")

    store.unit(work, durable=True)
    record = store.get_effect(KEY)
    assert record is not None and record.state.value == "executing"
    store.close()


@pytest.mark.parametrize(
    ("column", "value"), [("seen_at", "'yesterday'"), ("host", "x'ff'"), ("pid", "'many'")]
)
def test_a_damaged_row_is_named(tmp_path: Path, clock: FakeClock, column: str, value: str) -> None:
    path = tmp_path / "state.db"
    store = SQLiteStateStore(path, clock=clock)
    store.put_holder(holder(clock))
    sqlite_helpers.execute(path, f"UPDATE holders SET {column} = {value}")
    with pytest.raises(DamagedRow, match=f"holders {KEY}"):
        store.get_holder(KEY, 1)
    store.close()
