"""The count of a window: equal to a plain count at any time, and each number lists its receipts."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle, pairwise, product
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.approval import ApprovalStatus
from ctrlrun.conditions import Decision
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator.filter import RowKind, parse
from ctrlrun.operator.pages import oldest_first, paged
from ctrlrun.operator.stats import StatsCount
from ctrlrun.operator.stats_report import Figure, StatsReport, Window
from ctrlrun.receipt import EventType, Receipt, ReceiptResult, WouldHave
from ctrlrun.reporting import stats_document
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore, StateStore
from ctrlrun.state.sqlite_tally import TALLY_INDEX
from tests.cases import walk
from tests.lib.operator.helpers import Clock
from tests.lib.sqlite_helpers import new_store
from tests.lib.store_suite.helpers import event, receipt, request

NOW = datetime(2026, 11, 29, 3, 12, 40, 123456, tzinfo=UTC)
STORES = ("memory", "sqlite", "sqlite without its index", "single calls")


class SingleCalls:
    """Only what a `StateStore` of others has: no pages, no counts."""

    def __init__(self, store: StateStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name.endswith(("_page", "_count", "_tally", "_place", "_ends", "_finished", "_rows")):
            raise AttributeError(name)
        return getattr(self._store, name)


@pytest.fixture(params=STORES)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """A store of each kind; of one without counts, many pages."""
    monkeypatch.setattr("ctrlrun.operator.stats_reading.PAGE", 4)
    if request.param in ("memory", "single calls"):
        made: Any = InMemoryStateStore(clock=Clock(NOW))
        yield made if request.param == "memory" else SingleCalls(made)
        return
    made = new_store(tmp_path / "state.db", clock=Clock(NOW), durability="normal")
    if request.param != "sqlite":
        with closing(sqlite3.connect(tmp_path / "state.db")) as db:
            db.execute(f"DROP INDEX {TALLY_INDEX}")
    yield made
    made.close()


WOULD = [
    ("allow", "rule[0]", None),
    ("approve", "rule[1]", None),
    ("approve", "rule[1]", "approval_required"),
    ("approve", "rule[1]", "approval_mismatch"),
    ("approve", "rule[1]", "approval_denied"),
    ("allow", "rule[0]", "duplicate"),
    ("allow", "rule[0]", "in_progress"),
    ("allow", "rule[0]", "ambiguous"),
    ("deny", "rule[2]", "rule[2]"),
    ("deny", "no_authority", "no_authority"),
    ("deny", "Rule[2]", None),
]
NAMES = ["refund-agent", "Refund-Agent", 'ops "bot" *', "münze", "-x:y"]
ACTIONS = ["stripe.refund", "email.send", "Email.Send", "a b"]
REASONS = ["rule[0]", "rule[1]", "Rule[1]", "no_authority"]


def made(chance: random.Random, number: int, finished: datetime) -> Receipt:
    """Any receipt of either mode."""
    said: dict[str, Any] = {
        "action": chance.choice(ACTIONS),
        "principal": Principal(chance.choice(NAMES), chance.choice([None, "dana@example.com"])),
        "policy_hash": chance.choice([None, "sha256:" + "a4" * 32, "sha256:" + "e9" * 32]),
        "finished_at": finished,
        "started_at": finished,
    }
    if chance.random() < 0.5:
        decision, reason, blocked = chance.choice(WOULD)
        said |= {
            "result": ReceiptResult.OBSERVED,
            "execution": chance.choice(["committed", "failed", "ambiguous"]),
            "would_have": {"decision": decision, "reason": reason, "blocked_reason": blocked},
        }
        said["execution"] = ReceiptResult(said["execution"])
    else:
        decision, reason = chance.choice(list(Decision)).value, chance.choice(REASONS)
        results = [result for result in ReceiptResult if result is not ReceiptResult.OBSERVED]
        said["result"] = chance.choice(results)
    return receipt(number, decision=Decision(decision), decision_reason=reason, **said)


def fill(store: Any, count: int, seed: int = 7, longest: float = 40 * 3600.0) -> None:
    """So many receipts before `NOW`, not in the order of time, some at one time, some just now."""
    chance = random.Random(seed)
    start = store.chain_head()[0]
    for number in range(count):
        ago = chance.choice([chance.uniform(0, longest), chance.uniform(0, 1200.0), 600.0, 0.0])
        store.put_receipt(made(chance, start + number + 1, NOW - timedelta(seconds=ago)))


def counted(store: Any, window: Any, mode: Any, now: datetime = NOW, limit: int = 7) -> StatsReport:
    """The report when all is counted."""
    count = StatsCount(window, mode=mode)
    return finish(count, store, now, limit)


def finish(count: StatsCount, store: Any, now: datetime, limit: int = 7) -> StatsReport:
    """Advance to the end."""
    for _ in range(10_000):
        if count.advance(store, now, limit=limit):
            return count.report()
    raise AssertionError("it does not end")


def listed(store: Any, *asked: Figure) -> list[int]:
    """How many rows the filter of each figure lists."""
    receipts = store.receipts()
    requests = list(oldest_first(paged(store).approvals_page))
    found = []
    for figure in asked:
        wanted = parse(figure.filter, figure.kind, now=NOW)
        rows = requests if figure.kind is RowKind.APPROVALS else receipts
        found.append(sum(map(wanted.matches, rows)))
    return found


def figures(value: Any, path: str = "") -> Iterator[tuple[str, Figure]]:
    """Every figure of a report, with where it stands."""
    if isinstance(value, Figure):
        yield path, value
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from figures(each, f"{path}[{index}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from figures(getattr(value, field.name), f"{path}.{field.name}")


MODES = ("observe", "enforce")
WINDOWS = [*Window, None, NOW - timedelta(hours=7), NOW - timedelta(minutes=10), NOW]


def test_the_document_is_that_of_the_receipts(store: Any) -> None:
    fill(store, 60)
    receipts = store.receipts()
    for window, mode in zip(WINDOWS, cycle(MODES), strict=False):
        _check_document(store, receipts, window, mode)


def _check_document(store: Any, receipts: Any, window: Any, mode: Any) -> None:
    report = counted(store, window, mode)
    boundary = NOW - window.length if isinstance(window, Window) and window.length else window
    if isinstance(boundary, Window):
        boundary = None
    expected = stats_document(receipts, mode=mode, boundary=boundary)
    if isinstance(window, Window) and report.since is not None:
        assert report.since - boundary < timedelta(milliseconds=1)
        expected["since"] = report.document["since"]
    assert json.dumps(report.document) == json.dumps(expected), (window, mode)
    plain = StatsCount(window, mode=mode, panels=False)
    assert finish(plain, store, NOW).document == report.document


def test_every_number_lists_as_many_receipts(store: Any) -> None:
    fill(store, 80)
    for window, mode in [*product([Window.DAY], MODES), (Window.HOUR, "enforce")]:
        report = counted(store, window, mode)
        found = list(figures(report))
        assert len(found) > 60
        there = listed(store, *(figure for _, figure in found))
        wrong = [(*each, n) for each, n in zip(found, there, strict=True) if each[1].count != n]
        assert wrong == [], (window, mode)


def test_every_bar_lists_as_many_receipts_and_all_are_in_one(store: Any) -> None:
    fill(store, 80)
    windows = (Window.QUARTER, Window.HOUR, Window.DAY, Window.WEEK, Window.ALL)
    for window, mode in zip(windows, cycle(MODES), strict=False):
        report = counted(store, window, mode)
        buckets = report.series.buckets
        assert len(buckets) <= 62
        calls = report.calls.filter
        behind = listed(store, *(Figure(0, None, f"{calls} {each.filter}") for each in buckets))
        assert behind == [bucket.calls for bucket in buckets]
        assert sum(bucket.calls for bucket in buckets) == report.calls.count
        assert sum(bucket.asked for bucket in buckets) == report.asked.count
        assert sum(bucket.ambiguous for bucket in buckets) == report.ambiguous.count
        steps = {b.start - a.start for a, b in pairwise(buckets)}
        assert steps <= {report.series.step}


@pytest.mark.parametrize("mode", MODES)
def test_the_window_before_is_what_the_window_was(store: Any, mode: Any) -> None:
    fill(store, 80)
    report = counted(store, Window.DAY, mode)
    earlier = [r for r in store.receipts() if r.finished_at < report.since]
    past = InMemoryStateStore()
    for number, each in enumerate(earlier, 1):
        past.put_receipt(replace(each, receipt_id=f"ctr_{number}"))
    was = counted(past, report.since - timedelta(hours=24), mode)
    for name in ("calls", "denied", "asked", "blocked", "ambiguous", "other_mode"):
        figure = getattr(report, name)
        assert figure.before == getattr(was, name).count
        assert figure.change == figure.count - figure.before
    then = {row.action: row for row in was.actions}
    for row in report.actions:
        assert row.denied.before == (then[row.action].denied.count if row.action in then else 0)
    assert counted(store, Window.ALL, mode).calls.before is None


@pytest.mark.parametrize(
    ("window", "mode"),
    [
        (Window.QUARTER, "observe"),
        (Window.HOUR, "enforce"),
        (Window.ALL, "observe"),
    ],
)
def test_a_count_that_goes_on_equals_a_new_one(store: Any, window: Window, mode: Any) -> None:
    """Late commits, equal times, a clock that runs, and stops: always the same as counting anew."""
    chance = random.Random(3)
    fill(store, 30, longest=3 * 3600.0)
    count = StatsCount(window, mode=mode)
    now = NOW
    for step in range(16):
        now += timedelta(seconds=chance.choice([0, 1, 3, 40, 70, 700]))
        for _ in range(chance.randrange(3)):
            ago = chance.choice([0, 0, 5, 500, 3500, 9000])
            number = store.chain_head()[0] + 1
            store.put_receipt(made(chance, number, now - timedelta(seconds=ago)))
        report = finish(count, store, now)
        anew = finish(StatsCount(report.since, mode=mode), store, now)
        assert report.document == anew.document, step
        assert report.calls.count == anew.calls.count
        assert report.reasons == _without_before(report.reasons, anew)
        assert report.progress.done and report.progress.before_done == (window is not Window.ALL)
        if window is not Window.ALL:
            assert report.since is not None and window.length is not None
            assert now - report.since - window.length <= window.length / 900
            _check_before(report, store, mode, window)


def _without_before(rows: Any, anew: StatsReport) -> Any:
    """The rows of the new count, with what the other says of the window before."""
    before = {(row.reason, row.action, row.agent): row for row in rows}
    return tuple(
        replace(
            row,
            **{
                name: replace(
                    getattr(row, name),
                    before=getattr(before[row.reason, row.action, row.agent], name).before,
                    filter=getattr(before[row.reason, row.action, row.agent], name).filter,
                )
                for name in ("denied", "asked", "blocked")
            },
        )
        for row in anew.reasons
    )


def _check_before(report: StatsReport, store: Any, mode: Any, window: Window) -> None:
    assert report.since is not None and window.length is not None
    start = report.since - window.length
    earlier = [r for r in store.receipts() if start <= r.finished_at < report.since]
    document = stats_document(earlier, mode=mode, boundary=None)
    assert (report.calls.before or 0) + (report.other_mode.before or 0) == document["actions"]
    assert report.ambiguous.before == document["ambiguous_outcomes"]


def test_a_count_fills_in_and_says_how_far(store: Any) -> None:
    fill(store, 60)
    count = StatsCount(Window.DAY, mode="observe")
    with pytest.raises(InvalidArgument, match="advance"):
        count.report()
    shares: list[float] = []
    calls: list[int] = []
    while not count.advance(store, NOW, limit=5):
        report = count.report()
        shares.append(report.progress.share)
        calls.append(report.calls.count)
        assert report.calls.before is None and not report.progress.before_done
    assert calls == sorted(calls) and len(set(calls)) > 3
    assert all(0 <= share <= 1 for share in shares)
    done = count.report()
    assert done.progress.share == 1.0 and done.calls.count == calls[-1]


@pytest.mark.parametrize("seed", range(4))
def test_what_commits_while_it_is_counted_is_counted_once(store: Any, seed: int) -> None:
    """New and late ones come between any two steps, of the window and of the one before."""
    chance = random.Random(seed)
    fill(store, 40, seed)
    count = StatsCount(Window.DAY, mode="observe")
    steps = 0
    while not count.advance(store, NOW, limit=3):
        steps += 1
        if steps < 25:
            ago = chance.choice([0.0, 600.0, 80_000.0, 100_000.0, 200_000.0])
            number = store.chain_head()[0] + 1
            store.put_receipt(made(chance, number, NOW - timedelta(seconds=ago)))
    assert steps > 15
    report = count.report()
    assert report.document == finish(StatsCount(report.since, mode="observe"), store, NOW).document
    _check_before(report, store, "observe", Window.DAY)


def test_a_store_that_was_set_back_is_counted_anew(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store: Any = SQLiteStateStore(path)
    fill(store, 20)
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(tmp_path / "copy")) as copy:
        db.backup(copy)
    fill(store, 5, seed=9)
    count = StatsCount(Window.ALL, mode="enforce")
    assert finish(count, store, NOW).document["actions"] == 25
    with closing(sqlite3.connect(tmp_path / "copy")) as copy, closing(sqlite3.connect(path)) as db:
        copy.backup(db)
    fill(store, 7, seed=11)
    assert finish(count, store, NOW).document["actions"] == 27
    expected = stats_document(store.receipts(), mode="enforce", boundary=None)
    assert count.report().document == expected
    store.close()


@walk("ago", [1, 30, 100])
def test_receipts_from_before_the_chain_are_counted_once(tmp_path: Path, ago: int) -> None:
    path = tmp_path / "state.db"
    store: Any = SQLiteStateStore(path)
    old = NOW - timedelta(hours=ago)
    for number in range(1, 5):
        store.put_receipt(receipt(number, finished_at=old - timedelta(seconds=number)))
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE receipts SET seq = NULL")
        db.commit()
    count = StatsCount(Window.DAY, mode="enforce")
    report = finish(count, store, NOW, limit=3)
    assert report.calls.count == (4 if ago < 24 else 0)
    assert report.calls.before == (4 if 24 < ago < 48 else 0)
    store.put_receipt(receipt(9, finished_at=NOW))
    later = finish(count, store, NOW + timedelta(minutes=90))
    anew = finish(StatsCount(later.since, mode="enforce"), store, NOW)
    assert later.document == anew.document and later.calls.count == report.calls.count + 1
    store.close()


def test_receipts_that_cannot_be_read_are_named_and_in_no_number(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store: Any = SQLiteStateStore(path)
    fill(store, 12)
    with closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE receipts SET json = '{' WHERE seq IN (3, 4)")
        db.commit()
    report = counted(store, Window.ALL, "enforce", limit=3)
    assert report.calls.count + report.other_mode.count == report.document["actions"] == 10
    assert [d.row_id for d in report.damaged] == [f"ctr_{n:032x}" for n in (3, 4)]
    store.close()


# --- panels --------------------------------------------------------------------------------------


def observed(
    number: int, minute: float, decision: str, blocked: str | None, **more: Any
) -> Receipt:
    """One observed call so many minutes before `NOW`."""
    reason = {"allow": "rule[0]", "approve": "rule[1]", "deny": "rule[2]"}[decision]
    finished = NOW.replace(second=0, microsecond=0) - timedelta(minutes=minute)
    return receipt(
        number,
        decision=Decision(decision),
        decision_reason=reason,
        result=ReceiptResult.OBSERVED,
        execution=more.pop("execution", ReceiptResult.COMMITTED),
        would_have=WouldHave({"decision": decision, "reason": reason, "blocked_reason": blocked}),
        finished_at=finished,
        started_at=finished,
        **more,
    )


def test_the_rollout_says_what_enforcing_would_have_done(store: Any) -> None:
    calls = [
        *[
            ("approve", "approval_required", minute)
            for minute in (500, 60, 58, 55, 51, 50.5, 20, 5)
        ],
        ("deny", "rule[2]", 30),
        ("allow", "duplicate", 29),
        ("approve", "approval_denied", 28),
        ("allow", None, 27),
    ]
    for number, (decision, blocked, minute) in enumerate(calls, 1):
        store.put_receipt(observed(number, minute, decision, blocked))
    lost = observed(99, 26, "allow", None, execution=ReceiptResult.AMBIGUOUS)
    store.put_receipt(lost)
    store.put_receipt(receipt(100, finished_at=NOW))
    rollout = counted(store, Window.DAY, "observe").rollout
    assert rollout is not None
    assert rollout.calls.count == 13
    assert (rollout.asked.count, rollout.denied.count, rollout.blocked.count) == (8, 1, 2)
    assert rollout.stopped.count == 3 and rollout.ambiguous.count == 1
    assert rollout.asked_per_hour == pytest.approx(8 / 24)
    assert rollout.worst is not None
    start = NOW.replace(second=0, microsecond=0) - timedelta(minutes=60)
    assert (rollout.worst.start, rollout.worst.asked.count) == (start, 5)
    assert listed(store, rollout.worst.asked) == [5]
    assert counted(store, Window.DAY, "enforce").rollout is None


def test_rows_say_who_was_stopped_by_what(store: Any) -> None:
    store.put_receipt(observed(1, 5, "deny", "no_authority", action="email.send"))
    store.put_receipt(observed(2, 5, "deny", "rule[2]"))
    store.put_receipt(observed(3, 5, "deny", "rule[2]"))
    store.put_receipt(observed(4, 5, "approve", "approval_required"))
    store.put_receipt(observed(5, 5, "allow", "duplicate", policy_hash="sha256:" + "e9" * 32))
    report = counted(store, Window.HOUR, "observe")
    rows = [
        (row.reason, row.action, row.denied.count, row.asked.count, row.blocked.count)
        for row in report.reasons
    ]
    assert rows == [
        ("rule[2]", "stripe.refund", 2, 0, 0),
        ("duplicate", "stripe.refund", 0, 0, 1),
        ("no_authority", "email.send", 1, 0, 0),
        ("rule[1]", "stripe.refund", 0, 1, 0),
    ]
    refunds = report.actions[0]
    assert refunds.action == "stripe.refund" and refunds.calls.count == 4
    assert refunds.duplicates is not None and refunds.duplicates.count == 1
    asked = [(row.policy_hash, row.asked.count, row.calls.count) for row in report.policies]
    assert asked == [("sha256:" + "cd" * 8, 1, 4), ("sha256:" + "e9" * 8, 0, 1)]
    assert [(row.agent, row.calls.count) for row in report.principals] == [("refund-agent", 5)]


def test_an_enforced_window_counts_results(store: Any) -> None:
    for number, (decision, result) in enumerate(
        [
            ("allow", "committed"),
            ("approve", "committed"),
            ("approve", "blocked"),
            ("approve", "denied"),
            ("deny", "denied"),
            ("allow", "ambiguous"),
            ("allow", "failed"),
        ],
        1,
    ):
        said = {"decision": Decision(decision), "result": ReceiptResult(result)}
        store.put_receipt(receipt(number, finished_at=NOW, **said))
    store.put_receipt(observed(8, 1, "approve", "approval_required"))
    report = counted(store, Window.HOUR, "enforce")
    (row,) = report.actions
    names = ("calls", "allowed", "asked", "denied", "blocked", "ambiguous", "failed")
    assert [getattr(row, name).count for name in names] == [7, 3, 3, 2, 1, 1, 1]
    assert row.duplicates is None
    assert report.other_mode.count == 1
    assert "observed" not in {r.name for r in report.results}
    assert {r.name: r.figure.count for r in report.decisions} == {
        "allow": 3,
        "approve": 3,
        "deny": 1,
    }


def test_answers_are_those_of_requests_made_in_the_window() -> None:
    clock = Clock(NOW - timedelta(hours=30))
    store = InMemoryStateStore(clock=clock)

    def ask(name: str, ttl: timedelta = timedelta(hours=1)) -> None:
        store.put_approval_request(request(clock, name, ttl=ttl))  # type: ignore[arg-type]

    ask("apr_old")
    clock.now = NOW - timedelta(hours=2)
    ask("apr_granted")
    ask("apr_denied")
    ask("apr_lapsed", timedelta(minutes=1))
    clock.tick(30)
    store.grant_approval("apr_granted", "cli:ada")
    clock.tick(60)
    store.deny_approval("apr_denied", "cli:ada")
    store.append_event(event(EventType.APPROVAL_DENIED, ts=clock.now, approval_id="apr_denied"))
    clock.now = NOW
    ask("apr_waits")
    answers = counted(store, Window.DAY, "enforce").answers
    assert answers is not None
    names = ("requests", "granted", "denied", "expired", "waiting")
    assert [getattr(answers, name).count for name in names] == [4, 1, 1, 1, 1]
    assert [getattr(answers, name).before for name in names] == [1, 0, 0, 1, 0]
    assert (answers.median, answers.p95) == (timedelta(seconds=30), timedelta(seconds=90))
    assert answers.expired_share == 0.25
    for name in names:
        figure = getattr(answers, name)
        assert figure.kind is RowKind.APPROVALS and listed(store, figure) == [figure.count]
    record = store.get_approval("apr_granted")
    assert record is not None and record.status_at(NOW) is ApprovalStatus.EXPIRED  # unspent
    empty = counted(InMemoryStateStore(), Window.DAY, "enforce").answers
    assert empty is not None and empty.expired_share is None and empty.median is None


@walk("mode", MODES)
@walk("window", WINDOWS)
@walk("far", [datetime.min, datetime.max, datetime(7000, 1, 1)])
def test_a_time_at_the_end_of_the_calendar_is_a_bar_like_any_other(
    mode: Any, window: Any, far: datetime
) -> None:
    """One such receipt neither ends the count nor makes bars without number on the way to it."""
    store = InMemoryStateStore()
    store.put_receipt(made(random.Random(1), 1, NOW))
    store.put_receipt(observed(2, 1, "approve", "approval_required"))
    at = far.replace(tzinfo=UTC)
    store.put_receipt(
        replace(
            observed(3, 1, "approve", "approval_required"),
            receipt_id="ctr_far",
            started_at=at,
            finished_at=at,
        )
    )
    report = counted(store, window, mode)
    buckets = report.series.buckets
    assert len(buckets) <= 600
    assert sum(bucket.calls for bucket in buckets) == report.calls.count
    shown = [
        Figure(bucket.calls, None, f"{report.calls.filter} {bucket.filter}") for bucket in buckets
    ]
    assert listed(store, *shown) == [figure.count for figure in shown]
    for path, figure in figures(report):
        assert listed(store, figure) == [figure.count], path


EMPTY: list[Callable[[], Any]] = [InMemoryStateStore, lambda: SingleCalls(InMemoryStateStore())]


@walk("make", EMPTY)
@walk("window", WINDOWS)
def test_nothing_is_counted_of_nothing(make: Callable[[], Any], window: Any) -> None:
    report = counted(make(), window, "observe")
    assert report.calls.count == 0 and report.reasons == () and report.rollout is not None
    assert report.rollout.worst is None and report.first is None and report.document["to"] is None
