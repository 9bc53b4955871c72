"""Tallies in every store: whatever the page size, the window and the index, a plain count agrees."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ctrlrun.action import Principal
from ctrlrun.conditions import Decision
from ctrlrun.receipt import EventType, Receipt, ReceiptResult
from ctrlrun.state import SQLiteReader, SQLiteStateStore, UnitStateStore
from ctrlrun.state.page import START
from ctrlrun.state.sqlite_tally import TALLY_INDEX
from ctrlrun.state.tally import (
    AnswerTally,
    ReceiptFacts,
    Stretch,
    TallyPage,
    facts_of,
    tally_receipts,
)
from tests.cases import walk
from tests.lib.store_suite.conftest import clear, let_go, open_store
from tests.lib.store_suite.helpers import SECOND, START_TIME, FakeClock, event, receipt, request

STORES = ("memory", "sqlite", "sqlite without its index", "postgres")
HOUR = timedelta(hours=1)
TIMES = [
    START_TIME.replace(microsecond=0),
    START_TIME.replace(microsecond=0) + timedelta(milliseconds=1),
    START_TIME + 3 * SECOND,
    START_TIME + timedelta(minutes=1),
    START_TIME + HOUR,
    START_TIME - HOUR,
    START_TIME - timedelta(days=400),
]
WORDS = st.sampled_from(["rule[0]", "rule[2]", "duplicate", "approval_required", 'q"@<é\n', ""])
RECEIPTS = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["stripe.refund", "Stripe.Refund", "e@mail\x00", '["approve"']),
        "principal": st.sampled_from([Principal("bot"), Principal("Bot"), Principal("ops 1@<")]),
        "decision": st.sampled_from(Decision),
        "decision_reason": WORDS,
        "result": st.sampled_from(ReceiptResult),
        "execution": st.none() | st.sampled_from(ReceiptResult),
        "would_have": st.none()
        | st.fixed_dictionaries(
            {
                "decision": st.sampled_from([word.value for word in Decision]),
                "reason": WORDS,
                "blocked_reason": st.none() | WORDS,
            }
        ),
        "approval_id": st.sampled_from([None, "apr_1", "apr_2", "apr_3"]),
        "policy_hash": st.sampled_from([None, "sha256:" + "a1" * 32, "sha256:" + "b2" * 32, "x@"]),
        "finished_at": st.sampled_from(TIMES),
    }
)
BOUNDS = st.none() | st.sampled_from(TIMES)


@pytest.fixture(params=STORES)
def backend(request: pytest.FixtureRequest) -> str:
    """Overrides the suite's own: one more way to count."""
    name: str = request.param
    return name


@pytest.fixture
def make(
    backend: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], UnitStateStore]]:
    """Gives an empty store at each call: one for all of them, for one example at a time."""
    folder = tmp_path_factory.mktemp("store")
    store = open_store(backend.partition(" ")[0], folder, FakeClock())
    if backend == "sqlite without its index":
        with closing(sqlite3.connect(folder / "state.db")) as db:
            db.execute(f"DROP INDEX {TALLY_INDEX}")

    def new() -> UnitStateStore:
        clear(store)
        return store

    yield new
    let_go(store)


def pages(
    store: Any, stretch: Stretch, limit: int, after: str = START, through: str | None = None
) -> list[TallyPage]:
    """All pages of a stretch."""
    found: list[TallyPage] = []
    while True:
        page = store.receipts_tally(stretch, after=after, through=through, limit=limit)
        if page.after is None:
            return found
        found.append(page)
        after = page.after


def sums(found: Iterable[TallyPage]) -> tuple[Counter[ReceiptFacts], Counter[ReceiptFacts]]:
    """What they come to, on either side of the split."""
    now: Counter[ReceiptFacts] = Counter()
    before: Counter[ReceiptFacts] = Counter()
    for page in found:
        for tally in page.tallies:
            (before if tally.before else now)[tally.facts] += tally.receipts
    return now, before


def counted(receipts: Iterable[Receipt], stretch: Stretch) -> Any:
    """The same by one plain loop."""
    now: Counter[ReceiptFacts] = Counter()
    before: Counter[ReceiptFacts] = Counter()
    for each in receipts:
        finished = each.finished_at
        if stretch.since is not None and finished < stretch.since:
            continue
        if stretch.until is not None and finished >= stretch.until:
            continue
        is_before = stretch.split is not None and finished < stretch.split
        (before if is_before else now)[facts_of(each)] += 1
    return now, before


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    said=st.lists(RECEIPTS, max_size=12),
    limit=st.integers(1, 7),
    since=BOUNDS,
    until=BOUNDS,
    split=BOUNDS,
    timed=st.sampled_from(["", "hour", "minute"]),
)
@example(said=[{}], limit=7, since=TIMES[2], until=None, split=TIMES[0], timed="hour")
def test_any_tally_is_a_plain_count(
    make: Callable[[], UnitStateStore],
    said: list[dict[str, Any]],
    limit: int,
    since: datetime | None,
    until: datetime | None,
    split: datetime | None,
    timed: Any,
) -> None:
    store = make()
    receipts = [store.put_receipt(receipt(n, **each)) for n, each in enumerate(said, 1)]
    stretch = Stretch(since, until, split, timed)
    found = pages(store, stretch, limit)
    assert sums(found) == counted(receipts, stretch)
    assert named(found) == named([tally_receipts(receipts, stretch)])
    assert sum(page.looked_at for page in found) == len(receipts)
    assert [page.left for page in found][-1:] == [0] * bool(receipts)
    assert all(page.damaged == () for page in found)
    if timed:
        check_moments(found, receipts, stretch)
    store.close()


def named(found: Iterable[TallyPage]) -> dict[tuple[str, bool], datetime]:
    """The requests that receipts name, with the end of the last of them."""
    ends: dict[tuple[str, bool], datetime] = {}
    for page in found:
        for each in page.requests:
            key = each.approval_id, each.observed
            ends[key] = max(each.last, ends.get(key, each.last))
    return ends


def check_moments(found: list[TallyPage], receipts: list[Receipt], stretch: Stretch) -> None:
    """Each tally is told in the right minute, or hour."""
    told: Counter[datetime | None] = Counter()
    for page in found:
        for tally in page.tallies:
            if not tally.before:
                told[tally.moment] += tally.receipts
    wanted: Counter[datetime | None] = Counter()
    for each in receipts:
        if not sum(counted([each], stretch)[0].values()):
            continue
        minute = each.finished_at.replace(second=0, microsecond=0)
        fine = stretch.timed == "minute" or each.decision is Decision.APPROVE
        wanted[minute if fine else minute.replace(minute=0)] += 1
    assert told == wanted


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(said=st.lists(RECEIPTS, min_size=1, max_size=10), since=st.sampled_from(TIMES))
def test_from_its_place_on_nothing_of_a_window_is_missing(
    make: Callable[[], UnitStateStore], said: list[dict[str, Any]], since: datetime
) -> None:
    store: Any = make()
    receipts = [store.put_receipt(receipt(n, **each)) for n, each in enumerate(said, 1)]
    stretch = Stretch(since=since)
    place = store.receipts_place(since)
    found = pages(store, stretch, 3, after=place)
    assert sums(found) == counted(receipts, stretch)
    head = pages(store, stretch, 100)[-1].after
    assert sums(pages(store, stretch, 3, through=place))[0].total() == 0
    ends = [r.finished_at for r in receipts if r.finished_at >= since]
    expected = (min(ends), max(ends)) if ends else (None, None)
    assert store.receipts_ends(since, through=head) == expected
    store.close()


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    said=st.lists(RECEIPTS, min_size=2, max_size=10),
    since=st.sampled_from(TIMES),
    until=st.sampled_from(TIMES),
    cut=st.integers(1, 9),
)
def test_what_finished_in_between_is_counted_up_to_a_cursor_only(
    make: Callable[[], UnitStateStore],
    said: list[dict[str, Any]],
    since: datetime,
    until: datetime,
    cut: int,
) -> None:
    store: Any = make()
    receipts = [store.put_receipt(receipt(n, **each)) for n, each in enumerate(said, 1)]
    cut = min(cut, len(receipts))
    through = store.receipts_tally(Stretch(), limit=cut).after
    stretch = Stretch(since, until)
    page = store.receipts_finished(stretch, through=through)
    assert sums([page]) == counted(receipts[:cut], stretch)
    assert sums(pages(store, stretch, 2, through=through)) == counted(receipts[:cut], stretch)
    store.close()


def test_an_index_is_read_and_not_the_documents(tmp_path: Path) -> None:
    """The statement takes no column from the table, and parses nothing."""
    path = tmp_path / "state.db"
    store = SQLiteStateStore(path)
    for number in range(1, 30):
        store.put_receipt(
            receipt(number, decision=Decision.APPROVE if number % 3 else Decision.DENY)
        )
    expected = [sums(pages(store, Stretch(timed=timed), 7)) for timed in ("", "hour", "minute")]
    store.close()
    reader: Any = SQLiteReader(path)
    with reader._sessions.current() as session:
        reads = table_reads(session.connection, reader)
    assert reads == set(), "the table of receipts was read"
    assert [sums(pages(reader, Stretch(timed=timed), 7)) for timed in ("", "hour", "minute")] == (
        expected
    )
    reader.close()


def table_reads(connection: sqlite3.Connection, reader: Any) -> set[str]:
    """Instructions of the counting statement that take a column from the table itself."""
    dialect = reader._dialect
    sql = (
        f"SELECT f, COUNT(*) FROM (SELECT {dialect.tally_facts} AS f, ts FROM "
        f"{dialect.tally_source} WHERE seq >= ? AND seq <= ?{dialect.whole}) AS s GROUP BY f"
    )
    program = connection.execute(f"EXPLAIN {sql}", (1, 9)).fetchall()
    opened = [row[2] for row in program if row[1] == "OpenRead"]
    table = opened[0]  # the table is opened first, then its index
    return {row[1] for row in program if row[1] == "Column" and row[2] == table} | {
        row[1] for row in program if row[1] in ("Function", "PureFunc")
    }


DAMAGE = [
    ("no json", "{"),
    ("no object", "[1]"),
    ("nothing", None),
    ("no action", '{"result":"committed","decision":"allow"}'),
    ("an unknown result", "result"),
    ("an unknown decision", "decision"),
    ("an action that is no text", "action"),
    ("bytes", b"\xff{"),
]


@walk("indexed", [True, False])
@walk(("name", "document"), DAMAGE)
def test_a_receipt_that_cannot_be_read_is_named_and_the_others_counted(
    tmp_path: Path, name: str, document: str | bytes | None, indexed: bool
) -> None:
    path = tmp_path / "state.db"
    store: Any = SQLiteStateStore(path)
    made = [store.put_receipt(receipt(number)) for number in range(1, 6)]
    if document in ("result", "decision", "action"):
        spoiled = made[2].to_dict() | {document: 7 if document == "action" else "perhaps"}
        document = json.dumps(spoiled)
    with closing(sqlite3.connect(path)) as db:
        db.execute(
            "UPDATE receipts SET json = ? WHERE receipt_id = ?", (document, made[2].receipt_id)
        )
        if not indexed:
            db.execute(f"DROP INDEX {TALLY_INDEX}")
        db.commit()
    for timed in ("", "hour", "minute"):
        found = pages(store, Stretch(timed=timed), 2)
        assert [(d.table, d.row_id) for page in found for d in page.damaged] == [
            ("receipts", made[2].receipt_id)
        ]
        assert sums(found)[0].total() == 4
    store.close()


def test_receipts_from_before_the_chain_are_counted_first(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store: Any = SQLiteStateStore(path)
    made = [store.put_receipt(receipt(number)) for number in range(1, 8)]
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE receipts SET seq = NULL WHERE seq <= 3")
        db.commit()
    assert store.receipts_place(made[1].finished_at) == START
    for limit in (1, 2, 100):
        found = pages(store, Stretch(since=made[1].finished_at, timed="hour"), limit)
        assert sums(found)[0].total() == 6
        assert sum(page.looked_at for page in found) == 7
        unchained = store.receipts_tally(Stretch(), limit=2).after
        assert sums(pages(store, Stretch(), limit, through=unchained))[0].total() == 2
        assert pages(store, Stretch(), limit, through=START) == []
    store.close()


def test_an_insert_never_fails_for_what_it_holds(tmp_path: Path) -> None:
    """Programs of another build write what they like: it is counted, or named, and stored."""
    path = tmp_path / "state.db"
    store: Any = SQLiteStateStore(path)
    strange = [None, "", "{", "[]", "7", b"\x00", '{"action":{"a":[]}}', "[" * 3000, 1.5]
    with closing(sqlite3.connect(path)) as db:
        for number, document in enumerate(strange):
            db.execute(
                "INSERT INTO receipts (receipt_id, json, ts, seq) VALUES (?, ?, ?, ?)",
                (f"ctr_{number}", document, None if number % 2 else "2026", number + 1),
            )
        db.commit()
    found = pages(store, Stretch(timed="hour"), 4)
    assert len([d for page in found for d in page.damaged]) == len(strange)
    store.close()


# --- answers -------------------------------------------------------------------------------------


def test_answers_are_counted_with_their_times(make: Callable[[], UnitStateStore]) -> None:
    store: Any = make()
    clock = FakeClock()
    store._clock = clock
    took = [10, 20, 30, 40, 500]
    for number, seconds in enumerate(took):
        store.put_approval_request(request(clock, f"apr_{number}", ttl=timedelta(hours=2)))
        later = clock.now + timedelta(seconds=seconds)
        if number % 2:
            clock.now = later
            store.deny_approval(f"apr_{number}", "cli:ada")
            denied = event(EventType.APPROVAL_DENIED, ts=later, approval_id=f"apr_{number}")
            store.append_event(denied)
            store.append_event(
                event(EventType.APPROVAL_DENIED, ts=later + HOUR, approval_id=denied.approval_id)
            )
        else:
            clock.now = later
            store.grant_approval(f"apr_{number}", "cli:ada")
    store.put_approval_request(request(clock, "apr_lapsed", ttl=SECOND))
    clock.advance(timedelta(minutes=1))
    store.put_approval_request(request(clock, "apr_waits"))
    tally = store.answers_tally(clock.now)
    assert tally == AnswerTally(
        requests=7,
        granted=3,
        denied=2,
        expired=1,
        waiting=1,
        median=timedelta(seconds=30),
        p95=timedelta(seconds=500),
    )
    since = START_TIME + timedelta(seconds=20)
    assert store.answers_tally(clock.now, since=since).requests == 5
    assert store.answers_tally(clock.now, until=since).requests == 2
    assert store.answers_tally(clock.now, until=START_TIME) == AnswerTally()
    store.close()
