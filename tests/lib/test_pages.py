"""Pages of a SQLite store: they cost the page, walk every row once, and name what is damaged."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.clock import column_timestamp
from ctrlrun.effect import EffectState
from ctrlrun.errors import DamagedRow, InvalidArgument
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state import ExistingSQLiteStore, Page, SQLiteReader, SQLiteStateStore
from ctrlrun.state.page import START
from tests.lib import sqlite_helpers as old
from tests.lib.store_suite.helpers import SECOND, START_TIME, FakeClock, receipt, request

Read = Callable[..., Page[Any]]


def walk(read: Read, *, forward: bool, limit: int = 3, **filters: Any) -> list[Page[Any]]:
    """Every page of a list, from one end to the other."""
    pages = [read(after=START, limit=limit, **filters) if forward else read(limit=limit, **filters)]
    while pages[-1].after is not None:
        last = pages[-1]
        where = {"after": last.after} if forward else {"before": last.before}
        pages.append(read(limit=limit, **where, **filters))
    return pages[:-1]


def everything(read: Read, **options: Any) -> list[Any]:
    """Every item of a list as a walk forward finds them; a walk backward has to find the same."""
    onward = [item for page in walk(read, forward=True, **options) for item in page.items]
    pages = walk(read, forward=False, **options)
    assert [item for page in reversed(pages) for item in page.items] == onward
    return onward


# --- a large store -------------------------------------------------------------------------------

MANY = 1500


def fill_many(path: Path) -> None:
    """Receipts, events, effects and approvals, most of them over and done with."""
    document = json.dumps(old.receipt_document(1), ensure_ascii=False)
    moments = [column_timestamp(START_TIME + n * SECOND) for n in range(MANY)]
    with closing(old.plain(path)) as db:
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO receipts VALUES (?, ?, ?, 'committed', ?, ?, ?, 'p', 'h')",
            [
                (f"ctr_{n}", f"act_{n}", f"k{n % 100}", document, moments[n], n + 1)
                for n in range(MANY)
            ],
        )
        db.executemany(
            "INSERT INTO events (ts, type, action_id, effect_key, approval_id, data_json) "
            "VALUES (?, 'ACTION_PROPOSED', ?, ?, ?, '{}')",
            [
                (moments[n], f"act_{n // 5}", f"k{n % 100}", f"apr_{n}" if n % 50 == 0 else None)
                for n in range(MANY)
            ],
        )
        db.executemany(
            "INSERT INTO effects (effect_key, state, action_id, created_at, updated_at, "
            "lease_expires_at) VALUES (?, ?, 'a', ?, ?, ?)",
            [
                (f"k{n}", _state(n), moments[n], moments[-n], moments[n] if n % 250 == 2 else None)
                for n in range(MANY)
            ],
        )
        db.executemany(
            "INSERT INTO approvals (approval_id, action_hash, status, action_json, created_at, "
            "expires_at) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    f"apr_{n}",
                    f"sha256:{n % 70}",
                    "pending" if n % 10 == 0 else "consumed",
                    old.ACTION_JSON,
                    moments[0],
                    moments[n * 7 % (MANY - 1) + 1],
                )
                for n in range(MANY)
            ],
        )
        db.execute("COMMIT")


def _state(number: int) -> str:
    return {1: "ambiguous", 2: "executing", 3: "failed"}.get(number % 250, "committed")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "state.db"
    SQLiteStateStore(path, durability="normal").close()
    fill_many(path)
    return path


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without our indexes: the store of a program of the format."""
    path = tmp_path_factory.mktemp("bare") / "state.db"
    old.make_format(path)
    fill_many(path)
    return path


class Metered(SQLiteReader):
    """A reader that counts the steps of SQLite's machine: what a read costs, on any machine."""

    steps = 0
    tick = 50

    @staticmethod
    def connector(uri: str) -> sqlite3.Connection:
        connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

        def count() -> int:
            Metered.steps += Metered.tick
            return 0

        connection.set_progress_handler(count, Metered.tick)
        return connection


def steps_of(reader: Metered, call: Callable[[], Any]) -> int:
    call()
    Metered.steps = 0
    call()
    return Metered.steps


PAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "receipts": ("receipts_page", {}),
    "receipts of an action": ("receipts_page", {"action_id": "act_77"}),
    "receipts of a key": ("receipts_page", {"effect_key": "k42"}),
    "receipts since": ("receipts_page", {"since": START_TIME + (MANY - 9) * SECOND}),
    "events": ("events_page", {}),
    "events of an action": ("events_page", {"action_id": "act_77"}),
    "events of a key": ("events_page", {"effect_key": "k42"}),
    "events of an approval": ("events_page", {"approval_id": "apr_50"}),
    "effects": ("effects_page", {}),
    "ambiguous effects": ("effects_page", {"state": EffectState.AMBIGUOUS, "order": "updated"}),
    "failed effects": ("effects_page", {"state": EffectState.FAILED}),
    "committed effects": ("effects_page", {"state": EffectState.COMMITTED}),
    "lapsed effects": ("effects_page", {"lapsed_at": START_TIME + MANY * SECOND}),
    "approvals": ("approvals_page", {}),
    "pending approvals": ("approvals_page", {"status": ApprovalStatus.PENDING, "order": "expiry"}),
    "live approvals": (
        "approvals_page",
        {
            "status": ApprovalStatus.PENDING,
            "order": "expiry",
            "live_at": START_TIME + (MANY // 2) * SECOND,
        },
    ),
    "consumed approvals": ("approvals_page", {"status": ApprovalStatus.CONSUMED}),
    "approvals of a hash": ("approvals_page", {"action_hash": "sha256:7"}),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_costs_the_page_wherever_it_is(name: str, large: Path) -> None:
    method, filters = PAGES[name]
    with closing(Metered(large)) as reader:
        read = getattr(reader, method)
        newest = read(limit=10, **filters)
        reads: list[dict[str, Any]] = [{}, {"after": START}, {"before": newest.before}]
        pages = walk(read, forward=True, limit=40, **filters)
        reads += [{"after": page.after} for page in pages[:: max(1, len(pages) // 5)]]
        costs = [steps_of(reader, partial(read, limit=10, **where, **filters)) for where in reads]
        # A row takes some 30 steps, and a full walk over the table 5,000 and more.
        assert max(costs) < 2500, costs


@pytest.mark.parametrize("name", PAGES)
def test_pages_counts_and_plain_lists_agree_with_and_without_our_indexes(
    name: str, large: Path, bare: Path
) -> None:
    method, filters = PAGES[name]
    found = []
    for path in (large, bare):
        with closing(SQLiteReader(path)) as reader:
            items = everything(getattr(reader, method), limit=997, **filters)
            counted = {key: value for key, value in filters.items() if key != "order"}
            assert getattr(reader, method.replace("page", "count"))(**counted) == len(items)
            found.append(items)
    assert found[0] == found[1]
    assert found[0]


def test_the_newest_receipts_cost_the_same_without_our_indexes(bare: Path) -> None:
    with closing(Metered(bare)) as reader:
        assert steps_of(reader, lambda: reader.receipts_page(limit=20)) < 2500
        assert steps_of(reader, lambda: reader.events_page(limit=20)) < 2500


# --- orders --------------------------------------------------------------------------------------


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[SQLiteStateStore]:
    path = tmp_path / "state.db"
    with closing(SQLiteStateStore(path, clock=clock, durability="normal")) as opened:
        yield opened


def test_receipts_from_before_the_chain_come_first_in_any_page(store: SQLiteStateStore) -> None:
    for number in range(1, 6):
        store.put_receipt(receipt(number))
    for number in range(11, 16):
        document = json.dumps(old.receipt_document(number))
        old.fill(store.path, "receipts", receipt_id=f"ctr_{number}", json=document, ts=old.STAMP)
    expected = [f"ctr_{n}" for n in range(11, 16)] + [f"ctr_{n:032x}" for n in range(1, 6)]
    assert [item.receipt_id for item in store.receipts()] == expected
    for limit in range(1, 12):
        found = everything(store.receipts_page, limit=limit)
        assert [item.receipt_id for item in found] == expected
    rows = [row for page in iter_rows(store, 3) for row in page]
    assert [row.receipt_id for row in rows] == expected
    assert [row.seq for row in rows] == [None] * 5 + [1, 2, 3, 4, 5]


def test_equal_times_are_told_apart_and_a_moving_row_hides_no_other(
    store: SQLiteStateStore, clock: FakeClock
) -> None:
    for number in range(12):
        store.reserve_effect(f"k{number}", "a")
        store.begin_execution(f"k{number}", "a")
        store.mark_ambiguous(f"k{number}", "a", "lost")
    read = store.effects_page
    first = read(after=START, limit=4, order="updated")
    assert [item.effect_key for item in first.items] == ["k0", "k1", "k2", "k3"]
    clock.advance()
    store.mark_ambiguous("k3", "a", "looked again")  # the row of the cursor moves to the end
    second = read(after=first.after, limit=100, order="updated")
    assert [item.effect_key for item in second.items] == [f"k{n}" for n in range(4, 12)] + ["k3"]
    assert [item.effect_key for item in everything(read, limit=5)] == [f"k{n}" for n in range(12)]


def test_control_and_since_filter_receipts(store: SQLiteStateStore) -> None:
    ids = ["SOX-1", 'quo"te', "ISO 27001: é", "SOX-11"]
    for number in range(1, 9):
        named = tuple(ids[: number % 5])
        arguments = {"controls": ["SOX-1"], "text": "SOX-11"}
        store.put_receipt(receipt(number, controls=named, arguments=arguments))
    for index, control in enumerate(ids):
        expected = [n for n in range(1, 9) if n % 5 > index]
        found = everything(store.receipts_page, control=control, limit=2)
        assert [item.seq for item in found] == expected
        assert store.receipts_count(control=control) == len(expected)
    since = START_TIME + 4 * SECOND
    found = everything(store.receipts_page, since=since, limit=2)
    assert [item.seq for item in found] == [4, 5, 6, 7, 8]
    assert store.receipts_count(since=since, control="SOX-1") == 4
    assert store.receipts_count(since=since + 100 * SECOND) == 0


# --- damage --------------------------------------------------------------------------------------


@pytest.fixture
def filled(store: SQLiteStateStore, clock: FakeClock) -> SQLiteStateStore:
    for number in range(1, 6):
        store.put_receipt(receipt(number))
        store.append_event(old.event(number))
        store.reserve_effect(f"k{number}", "a")
        store.put_approval_request(request(clock, f"apr_{number}"))
        clock.advance()
    return store


DAMAGE = [
    ("receipts", "receipt_id = 'ctr_{:032x}'", "json = '{\"schema\":'"),
    ("receipts", "receipt_id = 'ctr_{:032x}'", "json = '[]'"),
    ("receipts", "receipt_id = 'ctr_{:032x}'", "json = NULL"),
    (
        "receipts",
        "receipt_id = 'ctr_{:032x}'",
        "json = replace(json, '\"committed\"', '\"melted\"')",
    ),
    ("receipts", "receipt_id = 'ctr_{:032x}'", "json = CAST(X'7B22FF' AS TEXT)"),
    ("receipts", "receipt_id = 'ctr_{:032x}'", "hash = X'00'"),
    ("events", "event_id = {}", "data_json = '{'"),
    ("events", "event_id = {}", "data_json = '[1]'"),
    ("events", "event_id = {}", "ts = 'yesterday'"),
    ("events", "event_id = {}", "ts = '2026-01-01T00:00:00'"),
    ("events", "event_id = {}", "type = NULL"),
    ("effects", "effect_key = 'k{}'", "state = 'melted'"),
    ("effects", "effect_key = 'k{}'", "state = 'new'"),
    ("effects", "effect_key = 'k{}'", "attempt = 'two'"),
    ("effects", "effect_key = 'k{}'", "created_at = NULL"),
    ("effects", "effect_key = 'k{}'", "created_at = X'FF'"),
    ("effects", "effect_key = 'k{}'", "result_json = '{'"),
    ("effects", "effect_key = 'k{}'", "error = CAST(X'C328' AS TEXT)"),
    ("approvals", "approval_id = 'apr_{}'", "status = 'maybe'"),
    ("approvals", "approval_id = 'apr_{}'", "action_json = '{}'"),
    ("approvals", "approval_id = 'apr_{}'", "action_json = replace(action_json, '50000', '1.5')"),
    ("approvals", "approval_id = 'apr_{}'", "expires_at = created_at"),
    ("approvals", "approval_id = 'apr_{}'", "expires_at = NULL"),
]


# Each at one place: the first, one between, the last.
@pytest.mark.parametrize(
    ("table", "row", "change", "number"),
    [(*damage, place) for damage, place in zip(DAMAGE, cycle((1, 3, 5)), strict=False)],
)
def test_a_damaged_row_is_named_and_hides_no_other(
    table: str, row: str, change: str, number: int, filled: SQLiteStateStore
) -> None:
    old.execute(filled.path, f"UPDATE {table} SET {change} WHERE {row.format(number)}")
    read: Read = getattr(filled, f"{table}_page")
    for forward in (True, False):
        for limit in (1, 2, 9):
            pages = walk(read, forward=forward, limit=limit)
            assert sum(len(page.items) for page in pages) == 4
            (damage,) = [damage for page in pages for damage in page.damaged]
            names = {
                "receipts": f"ctr_{number:032x}",
                "events": str(number),
                "effects": f"k{number}",
                "approvals": f"apr_{number}",
            }
            assert (damage.table, damage.row_id) == (table, names[table])
            assert damage.detail
            assert "\n" not in damage.detail
    whole: dict[str, Callable[[], object]] = {
        "receipts": filled.receipts,
        "events": filled.events,
        "effects": filled.list_effects,
        "approvals": lambda: filled.get_approval(f"apr_{number}"),
    }
    with pytest.raises(DamagedRow, match=f"{table} {names[table]} cannot be read") as caught:
        whole[table]()
    assert (caught.value.table, caught.value.row_id) == (table, names[table])


def test_damage_shows_through_a_filter_by_control(filled: SQLiteStateStore) -> None:
    """Nobody can say that such a receipt does not name the control."""
    old.execute(filled.path, "UPDATE receipts SET json = '{' WHERE seq = 2")
    page = filled.receipts_page(limit=10, control="SOX-1")
    assert page.items == ()
    assert [damage.row_id for damage in page.damaged] == [f"ctr_{2:032x}"]
    assert filled.receipts_count(control="SOX-1") == 1


def test_a_chain_with_damaged_rows_is_walked_to_its_end(filled: SQLiteStateStore) -> None:
    for change in (
        "json = '{' WHERE seq = 2",
        "json = CAST(X'7B22FF' AS TEXT) WHERE seq = 3",
        "seq = 'four' WHERE seq = 4",
    ):
        old.execute(filled.path, f"UPDATE receipts SET {change}")
    report = verify_chain(filled)
    assert not report.ok
    assert {item.seq for item in report.breaks if item.name == "content_altered"} >= {2, 3}
    rows = [row for page in iter_rows(filled, 1) for row in page]
    assert len(rows) == 5


def iter_rows(store: SQLiteStateStore, limit: int) -> Iterator[tuple[Any, ...]]:
    after = None
    while page := store.receipt_rows(after=after, limit=limit):
        yield page
        after = page[-1].cursor


@pytest.mark.parametrize(
    ("column", "call"),
    [
        ("rounds", lambda store: store.continuation_rounds("k1")),
        ("action_json", lambda store: store.take_continuation("tok")),
    ],
)
def test_a_damaged_continuation_is_named(
    column: str, call: Callable[[SQLiteStateStore], object], filled: SQLiteStateStore
) -> None:
    filled.begin_execution("k1", "a")
    values = {"action_id": "a", "action_json": old.ACTION_JSON, "continuation": "tok", "rounds": 1}
    old.fill(filled.path, "continuations", effect_key="k1", **(values | {column: "broken"}))
    with pytest.raises(DamagedRow, match="continuations k1"):
        call(filled)
    assert old.select(filled.path, "SELECT continuation FROM continuations") == [("tok",)]


def test_a_continuation_of_no_key_is_damaged(filled: SQLiteStateStore) -> None:
    values = {"action_id": "a", "action_json": old.ACTION_JSON, "continuation": "tok", "rounds": 1}
    old.fill(filled.path, "continuations", effect_key=None, **values)
    with pytest.raises(DamagedRow, match="continuations None"):
        filled.take_continuation("tok")


@pytest.mark.parametrize("change", ["seq = 'x'", "hash = X'00'"])
def test_a_damaged_head_stops_the_chain_and_nothing_else(
    change: str, filled: SQLiteStateStore
) -> None:
    old.execute(filled.path, f"UPDATE receipt_chain SET {change}")
    for call in (filled.chain_head, lambda: filled.put_receipt(receipt(9))):
        with pytest.raises(DamagedRow, match="receipt_chain 1"):
            call()
    filled.append_event(old.event())
    old.execute(filled.path, "DELETE FROM receipt_chain")
    assert filled.chain_head() is None
    with pytest.raises(InvalidArgument, match="head"):
        filled.put_receipt(receipt(9))
    assert filled.receipts_count() == 5


def test_a_page_is_read_whole(filled: SQLiteStateStore) -> None:
    """No cursor stays open: a reader never holds up the log's recycling."""
    with closing(ExistingSQLiteStore(filled.path, extend=False)) as other:
        other.receipts_page(limit=2)
        other.receipt_rows(limit=2)
        filled.close()
        (busy, _, _) = old.select(filled.path, "PRAGMA wal_checkpoint(TRUNCATE)")[0]
        assert busy == 0
