"""The live feed on real files and real processes: each event once, and trouble as a state."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.operator import Desk, Feed, FeedBatch, Origin, ReadingDesk, follow
from ctrlrun.operator.feed import BATCH, PERIOD_S
from ctrlrun.receipt import Event, EventType
from ctrlrun.sinks import JSONLEventSink
from ctrlrun.state.location import locate
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.lib.operator.helpers import Clock, Scene
from tests.lib.sqlite_helpers import new_store


class Ticks:
    """Monotonic seconds that move when they are told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def tick(self, seconds: float) -> None:
        self.now += seconds


class Stage:
    """A store on disk, its events file, and a feed of both."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "state.db"
        self.clock = Clock()
        self.ticks = Ticks()
        self.store = new_store(self.path, clock=self.clock)
        self.scene = Scene(self.store, self.clock)
        self.sink = JSONLEventSink(folder)
        self.desk = ReadingDesk(locate(f"sqlite://{self.path}", {}), clock=self.clock)
        self.feeds: list[Feed] = []

    def feed(self, **options: Any) -> Feed:
        chosen: dict[str, Any] = {
            "clock": self.clock,
            "monotonic": self.ticks,
            "watch": False,
            "events_path": self.desk.events_path,
        } | options
        feed = Feed(self.desk, **chosen)
        self.feeds.append(feed)
        return feed

    def write(self, *, store: bool = True, file: bool = True, **fields: Any) -> Event:
        event = Event(EventType.ACTION_PROPOSED, "act_1", self.clock(), fields)
        if store:
            event = self.store.append_event(event)
        if file:
            self.sink.on_event(event)
        return event

    def write_file(self, event_id: int, **fields: Any) -> Event:
        """A line that no store gave."""
        event = Event(EventType.ACTION_PROPOSED, "act_1", self.clock(), fields, event_id=event_id)
        self.sink.on_event(event)
        return event


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path)
    yield stage
    for feed in stage.feeds:
        feed.close()
    stage.store.close()


def ids(batch: FeedBatch) -> list[int | None]:
    return [item.event.event_id for item in batch.events]


def origins(batch: FeedBatch) -> list[str]:
    return [str(item.origin) for item in batch.events]


# --- each event once -----------------------------------------------------------------------------


def test_it_begins_behind_what_is_there(stage: Stage) -> None:
    stage.write()
    feed = stage.feed()
    first = feed.poll()
    assert (ids(first), first.changed, first.error) == ([], True, None)
    assert feed.poll() == FeedBatch()
    stage.write()
    stage.write()
    batch = feed.poll()
    assert (ids(batch), origins(batch), batch.changed) == ([2, 3], ["store"] * 2, True)
    assert feed.poll() == FeedBatch()


def test_it_begins_behind_an_id_when_it_is_told(stage: Stage) -> None:
    for _ in range(5):
        stage.write()
    assert ids(stage.feed(after_event_id=2).poll()) == [3, 4, 5]
    assert ids(stage.feed(after_event_id=0).poll()) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("in_file", [True, False])
def test_an_event_comes_once_whether_the_file_has_it_too_or_not(
    stage: Stage, in_file: bool
) -> None:
    feed = stage.feed()
    feed.poll()
    seen: list[int | None] = []
    for _ in range(4):
        stage.write(file=in_file)
        stage.ticks.tick(3)
        seen += ids(feed.poll())
    assert seen == [1, 2, 3, 4]


def test_a_line_that_the_store_does_not_know_comes_late_and_marked(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()
    lost = stage.write_file(3, n="lost")
    assert ids(feed.poll()) == []  # its transaction may yet be on its way
    stage.ticks.tick(1)
    stage.write()
    assert ids(feed.poll()) == [1]
    stage.ticks.tick(1.1)
    batch = feed.poll()
    assert (batch.events[0].event, origins(batch)) == (lost, [Origin.FILE])
    stage.ticks.tick(9)
    assert ids(feed.poll()) == []

    # The store gives the ids again, to other events: it is the truth.
    stage.write(file=False)
    other = stage.write(n="other")
    assert (other.event_id, ids(feed.poll())) == (3, [2, 3])
    stage.ticks.tick(9)
    assert ids(feed.poll()) == []


def test_a_line_that_the_store_brings_after_all_does_not_come_twice(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()
    stage.write_file(1, n="same")
    feed.poll()
    stage.ticks.tick(3)
    assert origins(feed.poll()) == ["file"]
    assert stage.write(file=False, n="same").event_id == 1
    batch = feed.poll()
    assert (ids(batch), batch.changed) == ([], True)


def test_a_change_without_events_is_a_change(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()
    stage.store.reserve_effect("k", "act_1")
    assert feed.poll() == FeedBatch(changed=True)
    assert feed.poll() == FeedBatch()


def test_new_receipts_come_when_they_are_asked_for(stage: Stage) -> None:
    feed = stage.feed(receipts=True)
    feed.poll()
    stage.scene.call(stage.scene.refund(100, "a"))
    stage.scene.call(stage.scene.refund(100, "b"))
    batch = feed.poll()
    assert [receipt.effect_key for receipt in batch.receipts] == ["refund:a", "refund:b"]
    stage.scene.call(stage.scene.refund(100, "c"))
    assert [receipt.effect_key for receipt in feed.poll().receipts] == ["refund:c"]
    assert feed.poll().receipts == ()
    later = stage.feed(receipts=True)
    assert later.poll().receipts == ()
    stage.scene.call(stage.scene.refund(100, "d"))
    assert [receipt.effect_key for receipt in later.poll().receipts] == ["refund:d"]


def test_a_burst_comes_in_bounded_batches(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()

    def burst() -> None:
        for _ in range(10_000):
            stage.write(file=False)

    stage.store.unit(burst, durable=False)
    with (stage.folder / "events.jsonl").open("w") as file:
        for event in stage.store.events():
            file.write(event.to_json() + "\n")
    seen: list[int | None] = []
    batches = 0
    while True:
        batch = feed.poll()
        assert len(batch.events) <= BATCH
        assert set(origins(batch)) <= {"store"}
        seen += ids(batch)
        batches += 1
        if not batch.more:
            break
        assert feed.wait(60)  # at once: there is more
    assert seen == list(range(1, 10_001))
    assert batches >= 20
    stage.ticks.tick(10)
    assert ids(feed.poll()) == []


def test_a_row_that_cannot_be_read_is_counted_and_passed_over(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()
    for _ in range(3):
        stage.write(file=False)
    with sqlite3.connect(stage.path) as raw:
        raw.execute("UPDATE events SET data_json = '{' WHERE event_id >= 2")
    raw.close()
    batch = feed.poll()
    assert (ids(batch), batch.damaged) == ([1], 2)
    stage.write(file=False)
    batch = feed.poll()
    assert (ids(batch), batch.damaged, batch.store_replaced) == ([4], 2, False)


def test_the_last_row_that_gets_damaged_later_is_no_other_store(stage: Stage) -> None:
    stage.write()
    feed = stage.feed()
    feed.poll()
    with sqlite3.connect(stage.path) as raw:
        raw.execute("UPDATE events SET data_json = '{' WHERE event_id = 1")
    raw.close()
    stage.write()
    batch = feed.poll()
    assert (ids(batch), batch.store_replaced) == ([2], False)


def test_lines_that_do_not_parse_are_counted_from_the_start(stage: Stage) -> None:
    stage.write()
    feed = stage.feed()
    feed.poll()
    events_file = stage.folder / "events.jsonl"
    for expected in (1, 2):
        with events_file.open("a") as file:
            file.write("{torn\n")
        assert feed.poll().unparseable == expected
    assert feed.poll() == FeedBatch(unparseable=2)


def test_notices_of_the_file_are_handed_on(stage: Stage) -> None:
    stage.write()
    feed = stage.feed()
    feed.poll()
    (stage.folder / "events.jsonl").rename(stage.folder / "events.jsonl.1")
    stage.write()
    batch = feed.poll()
    assert (ids(batch), batch.notices) == ([2], ("events file rotated",))


def test_a_clock_that_is_off_shows(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()
    stage.ticks.tick(0.2)
    stage.clock.tick(-5)
    stage.write()
    stage.clock.tick(5)
    assert feed.poll().skew == timedelta(seconds=-5)
    stage.ticks.tick(0.2)
    stage.write()
    assert feed.poll().skew is None
    stage.ticks.tick(60)  # nobody looked for a minute: old news is no skew
    stage.write()
    stage.clock.tick(60)
    assert feed.poll().skew is None


# --- trouble -------------------------------------------------------------------------------------


def test_a_store_out_of_reach_is_a_state_and_recovers(stage: Stage) -> None:
    stage.write()
    feed = stage.feed()
    feed.poll()
    good = stage.clock()
    hidden = stage.folder / "hidden"
    stage.path.rename(hidden)
    for misses, pause in enumerate((0.25, 0.5, 1.0, 2.0, 3.0, 3.0), start=1):
        stage.clock.tick(1)
        batch = feed.poll()
        assert batch.error is not None
        assert (batch.error.since, batch.error.misses) == (good, misses)
        assert batch.error.is_stale is (misses >= 3)
        assert batch.error.next_try == stage.clock() + timedelta(seconds=pause)
        assert str(stage.path) in batch.error.message or "place" in batch.error.message
        assert feed.poll().error == batch.error  # not before its time
        stage.ticks.tick(pause)

    told = stage.write_file(2, n="meanwhile")
    batch = feed.poll()
    assert (batch.events[0].event, origins(batch)) == (told, ["file"])

    hidden.rename(stage.path)
    assert stage.write(file=False, n="meanwhile").event_id == 2
    stage.write()
    stage.ticks.tick(3)
    batch = feed.poll()
    assert (batch.error, ids(batch), batch.store_replaced) == (None, [3], False)
    stage.ticks.tick(9)
    assert ids(feed.poll()) == []


def test_waking_it_tries_at_once(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()
    hidden = stage.folder / "hidden"
    stage.path.rename(hidden)
    feed.poll()
    hidden.rename(stage.path)
    assert feed.poll().error is not None
    feed.wake()
    assert feed.poll().error is None


def test_a_store_that_was_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    desk = ReadingDesk(locate(f"sqlite://{tmp_path / 'state.db'}", {}))
    ticks = Ticks()
    feed = Feed(desk, tmp_path / "events.jsonl", monotonic=ticks, watch=False)
    assert feed.poll().error is not None
    store = SQLiteStateStore(tmp_path / "state.db")
    ticks.tick(5)
    batch = feed.poll()
    assert (batch.error, batch.store_replaced) == (None, False)
    store.append_event(Event(EventType.ACTION_PROPOSED, "act_1", desk.clock()))
    assert ids(feed.poll()) == [1]
    feed.close()
    store.close()


def test_another_store_at_the_same_place_is_noticed(stage: Stage, tmp_path: Path) -> None:
    for _ in range(3):
        stage.write()
    feed = stage.feed(receipts=True)
    feed.poll()
    stage.store.close()
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    other = SQLiteStateStore(stage.path, clock=stage.clock)
    other.append_event(Event(EventType.ACTION_PROPOSED, "act_2", stage.clock()))
    batch = feed.poll()
    if batch.error is not None:  # caught between the two
        stage.ticks.tick(5)
        batch = feed.poll()
    assert (batch.store_replaced, ids(batch), batch.changed) == (True, [], True)
    other.append_event(Event(EventType.ACTION_PROPOSED, "act_3", stage.clock()))
    batch = feed.poll()
    assert (batch.store_replaced, ids(batch)) == (False, [2])
    other.close()


def test_another_store_that_could_not_be_read_at_first_is_noticed(
    stage: Stage, tmp_path: Path
) -> None:
    stage.write()
    feed = stage.feed()
    feed.poll()
    stage.store.close()
    SQLiteStateStore(tmp_path / "other.db", clock=stage.clock).close()
    whole = (tmp_path / "other.db").read_bytes()
    for name in ("state.db-wal", "state.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    (tmp_path / "coming").write_bytes(b"no database yet" * 1000)
    (tmp_path / "coming").replace(stage.path)
    batch = feed.poll()
    assert batch.error is not None and not batch.store_replaced
    stage.path.write_bytes(whole)  # the same file, which is a store by now
    stage.ticks.tick(5)
    batch = feed.poll()
    assert (batch.error, batch.store_replaced) == (None, True)
    assert not feed.poll().store_replaced


def test_a_store_that_went_back_in_its_file_is_noticed(stage: Stage) -> None:
    stage.write()
    with sqlite3.connect(stage.path) as source, sqlite3.connect(stage.folder / "old") as target:
        source.backup(target)
    source.close()
    target.close()
    stage.write(n="undone")
    feed = stage.feed()
    feed.poll()
    with sqlite3.connect(stage.folder / "old") as source, sqlite3.connect(stage.path) as target:
        source.backup(target)
    source.close()
    target.close()
    stage.write(n="second two")
    batch = feed.poll()
    assert (batch.store_replaced, ids(batch)) == (True, [])
    stage.write()
    assert ids(feed.poll()) == [3]


def test_whatever_a_reader_raises_never_leaves_poll(stage: Stage) -> None:
    def fails() -> Any:
        raise ZeroDivisionError

    feed = Feed(fails, clock=stage.clock, monotonic=stage.ticks, watch=False)
    batch = feed.poll()
    assert batch.error is not None
    assert batch.error.message == "ZeroDivisionError"
    feed.close()


# --- the policy ----------------------------------------------------------------------------------


def test_a_policy_that_became_another_is_told_once(stage: Stage) -> None:
    policy = stage.folder / "ctrlrun.yaml"
    policy.write_text("a: 1")
    feed = stage.feed(policy_path=policy)
    feed.poll()
    os.utime(policy, ns=(1, 1))
    assert not feed.poll().policy_changed  # touched, and the same
    policy.write_text("a: 2")
    assert feed.poll().policy_changed
    assert not feed.poll().policy_changed
    policy.unlink()
    assert feed.poll().policy_changed


# --- waiting -------------------------------------------------------------------------------------


def timed(call: Callable[[], bool]) -> tuple[bool, float]:
    started = time.monotonic()
    return call(), time.monotonic() - started


def test_what_stirs_is_looked_at_at_once(stage: Stage) -> None:
    now = 100.0
    feed = stage.feed(monotonic=lambda: now)
    feed.poll()
    now += 0.01
    feed._stir()
    assert feed.wait(10)  # or the clock that stands still would keep it waiting


@pytest.mark.parametrize("quiet_before", [0.0, 0.3, 60.0])
def test_polls_are_no_denser_than_eight_a_second(stage: Stage, quiet_before: float) -> None:
    """However much stirs, and however long nothing did before."""
    now = 100.0
    feed = stage.feed(monotonic=lambda: now)
    polls = []
    for number in range(40):
        feed._stir()
        now = max(now, feed._due())
        if number == 20:
            now += quiet_before
        feed.poll()
        polls.append(now)
    assert all(later - first >= 0.999 for first, later in zip(polls, polls[8:], strict=False))
    assert polls[1] == polls[0]


def test_it_is_woken_from_another_thread(stage: Stage) -> None:
    feed = stage.feed(monotonic=time.monotonic)
    feed.poll()
    feed._error = None
    threading.Timer(0.01, feed.wake).start()
    result, waited = timed(lambda: feed.wait(10))
    assert result
    assert waited < PERIOD_S


def test_a_stopped_feed_waits_no_more(stage: Stage) -> None:
    feed = stage.feed(monotonic=time.monotonic)
    feed.poll()
    stage.path.rename(stage.folder / "hidden")
    for _ in range(4):
        feed.wake()
        feed.poll()
    threading.Timer(0.01, feed.stop).start()
    result, waited = timed(lambda: feed.wait(60))
    assert not result
    assert waited < 3
    assert feed.stopped
    assert not feed.wait(60)


def test_a_watcher_wakes_it_for_what_another_process_does(stage: Stage) -> None:
    feed = stage.feed(monotonic=time.monotonic, watch=True)
    assert feed._watcher.is_alive
    feed.poll()
    deadline = time.monotonic() + 60
    while not feed._stirred:
        assert time.monotonic() < deadline
        answer_elsewhere(stage.path)
        feed.wait(0.5)
    assert [str(item.event.type) for item in feed.poll().events][:1] == ["ACTION_PROPOSED"]


def answer_elsewhere(path: Path) -> None:
    code = (
        "import sys; from datetime import UTC, datetime\n"
        "from ctrlrun.receipt import Event, EventType\n"
        "from ctrlrun.state.sqlite import SQLiteStateStore\n"
        "store = SQLiteStateStore(sys.argv[1])\n"
        "store.append_event(Event(EventType.ACTION_PROPOSED, 'act_9', datetime.now(UTC)))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_without_a_watcher_the_poll_finds_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    feed = stage.feed(monotonic=time.monotonic, watch=True)
    feed.poll()
    answer_elsewhere(stage.path)
    assert feed.wait(10)
    assert ids(feed.poll()) == [1]


def test_closing_ends_the_watcher_and_lets_go_of_every_file(stage: Stage) -> None:
    stage.write()
    feed = stage.feed(monotonic=time.monotonic, watch=True, policy_path=stage.folder / "p.yaml")
    feed.poll()
    watcher = feed._watcher
    feed.close()
    deadline = time.monotonic() + 30
    while watcher.is_alive:
        assert time.monotonic() < deadline
    feed.close()


# --- following -----------------------------------------------------------------------------------

AGENT = """
import sys
from pathlib import Path
from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.policy import Policy
from ctrlrun.sinks import JSONLEventSink
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.lib.operator.helpers import POLICY
folder = Path(sys.argv[1])
store = SQLiteStateStore(folder / "state.db")
sink = JSONLEventSink(folder, max_bytes=4000, keep=90)
control = Control(Policy.from_yaml(POLICY), store, sinks=[sink])
for number in range(int(sys.argv[2])):
    arguments = {"amount": 1, "payment_id": f"{sys.argv[3]}{number}"}
    action = Action("stripe.refund", arguments, Principal("bot"), environment="staging")
    control.execute(action, lambda: None, f"refund:{arguments['payment_id']}")
"""


def test_two_agents_at_work_are_followed_to_the_last_event(stage: Stage) -> None:
    feed = Feed(stage.desk, stage.desk.events_path, receipts=True)
    feed.poll()
    agents = [
        subprocess.Popen([sys.executable, "-c", AGENT, str(stage.folder), "30", name])
        for name in "ab"
    ]
    events: list[int | None] = []
    receipts: list[int | None] = []
    for batch in follow(feed):
        assert batch.error is None
        assert set(origins(batch)) <= {"store"}
        events += ids(batch)
        receipts += [receipt.seq for receipt in batch.receipts]
        if len(receipts) == 60:
            feed.stop()
    assert [agent.wait() for agent in agents] == [0, 0]
    assert receipts == list(range(1, 61))
    assert events == [event.event_id for event in stage.store.events()][: len(events)]
    assert len(events) == 60 * 5


def test_following_says_each_try_that_missed_and_ends_when_it_is_stopped(stage: Stage) -> None:
    feed = stage.feed(monotonic=time.monotonic)
    batches = follow(feed)
    next(batches)
    stage.path.rename(stage.folder / "hidden")
    misses = []
    for batch in batches:
        if batch.error is not None:
            misses.append(batch.error.misses)
        if len(misses) == 2 and not stage.path.exists():
            (stage.folder / "hidden").rename(stage.path)
        if misses and batch.error is None:
            feed.stop()
    assert misses[:2] == [1, 2]
    assert misses == list(range(1, len(misses) + 1))


# --- the desk ------------------------------------------------------------------------------------


def test_what_a_desk_answers_reaches_the_store_the_file_and_the_screen(stage: Stage) -> None:
    feed = stage.feed()
    feed.poll()
    request_id = stage.scene.ask(stage.scene.refund(200000))
    asked = stage.scene.store.get_approval(request_id)
    feed.poll()
    desk = Desk(stage.desk.location, "tui:alice", clock=stage.clock, extend=False)
    desk.approve(request_id, action_hash=asked.action_hash, note="fine")
    batch = feed.poll()
    (told,) = batch.events
    assert (told.event.type, dict(told.event.data)["approver"]) == (
        "APPROVAL_GRANTED",
        "tui:alice",
    )
    (text,) = (stage.folder / "events.jsonl").read_text().splitlines()
    assert json.loads(text) == told.event.to_dict()
    stage.ticks.tick(9)
    assert feed.poll().events == ()
