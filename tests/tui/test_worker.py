"""The data thread, and what the screen makes of it: live, STALE, replaced, and never an exception."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from textual.pilot import Pilot

from ctrlrun.operator import FeedBatch, FeedError, FeedEvent
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.data.models import Reach
from ctrlrun_tui.data.worker import EVENTS_KEPT, DataThread, Inflow
from tests.tui.helpers import START, FrozenClock, ask, console, new_store, settled, sitting


def _events(count: int, start: int = 1) -> tuple[FeedEvent, ...]:
    return tuple(
        FeedEvent(Event(EventType.ACTION_PROPOSED, None, START, event_id=number))
        for number in range(start, start + count)
    )


# --- the inflow ----------------------------------------------------------------------------------


def test_batches_that_wait_are_taken_as_one() -> None:
    inflow = Inflow()
    assert inflow.put(FeedBatch(events=_events(2), changed=True))
    assert inflow.put(FeedBatch(policy_changed=True, notices=("rotated",)))
    news = inflow.take()
    assert [fed.event.event_id for fed in news.events] == [1, 2]
    assert (news.changed, news.policy_changed, news.notices) == (True, True, ("rotated",))
    assert inflow.take() == type(news)()


def test_a_batch_that_says_nothing_wakes_nobody() -> None:
    inflow = Inflow()
    assert not inflow.put(FeedBatch())
    error = FeedError(START, 3, START, "gone")
    assert inflow.put(FeedBatch(error=error))
    inflow.take()
    assert not inflow.put(FeedBatch(error=error))
    assert inflow.put(FeedBatch())  # it is over


def test_what_waits_is_bounded_and_what_did_not_fit_is_counted() -> None:
    inflow = Inflow()
    for batch in range(12):
        inflow.put(FeedBatch(events=_events(1000, 1 + batch * 1000), changed=True))
    news = inflow.take()
    assert len(news.events) == EVENTS_KEPT
    assert news.events[-1].event.event_id == 12_000
    assert news.skipped == 12_000 - EVENTS_KEPT


# --- the thread ----------------------------------------------------------------------------------


class ScriptedFeed:
    """A feed that returns these batches, then nothing until it is stopped."""

    def __init__(self, batches: Iterator[FeedBatch]) -> None:
        self.batches = batches
        self.woken = threading.Semaphore(0)
        self.stopped = False
        self.closed_in: threading.Thread | None = None

    def poll(self) -> FeedBatch:
        return next(self.batches, FeedBatch())

    def wait(self, timeout: float) -> bool:
        self.woken.acquire(timeout=timeout)
        return not self.stopped

    def wake(self) -> None:
        self.woken.release()

    def stop(self) -> None:
        self.stopped = True
        self.woken.release()

    def close(self) -> None:
        self.closed_in = threading.current_thread()


def _thread(feed: ScriptedFeed, tell: Callable[[], object]) -> DataThread:
    return DataThread(lambda: feed, tell)  # type: ignore[arg-type, return-value]


def test_the_feed_is_made_run_and_closed_in_the_thread() -> None:
    told = threading.Semaphore(0)
    feed = ScriptedFeed(iter([FeedBatch(changed=True)]))
    thread = _thread(feed, told.release)
    thread.start()
    assert told.acquire(timeout=10)
    assert thread.inflow.take().changed
    thread.stop()
    assert not thread.is_alive()
    assert feed.closed_in is thread


def test_a_full_batch_is_followed_by_the_next_without_waiting() -> None:
    feed = ScriptedFeed(
        iter([FeedBatch(events=_events(5), more=True), FeedBatch(events=_events(5, 6))])
    )
    thread = _thread(feed, lambda: None)
    thread.start()
    while thread.rounds < 2:
        pass
    assert len(thread.inflow.take().events) == 10
    thread.stop()


def test_a_crash_of_the_feed_is_kept_for_the_loop() -> None:
    told = threading.Semaphore(0)

    def broken() -> ScriptedFeed:
        raise RuntimeError("no such driver")

    thread = DataThread(broken, told.release)  # type: ignore[arg-type]
    thread.start()
    assert told.acquire(timeout=10)
    assert str(thread.crash) == "no such driver"
    thread.stop()
    assert not thread.is_alive()


def test_a_thread_that_is_stopped_at_once_ends() -> None:
    thread = _thread(ScriptedFeed(iter([])), lambda: None)
    thread.start()
    thread.stop()
    assert not thread.is_alive()


# --- on the screen -------------------------------------------------------------------------------


async def _until(pilot: Pilot[int], holds: Callable[[], bool], what: str) -> None:
    for _ in range(1000):
        if holds():
            await pilot.pause()
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"never: {what}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_store(tmp_path, FrozenClock()) as store:
        for number in range(5):
            ask(store, number)
    return tmp_path / "state.db"


def _rows(app: ConsoleApp) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


def _notice(app: ConsoleApp) -> str:
    return "".join(span.text for span in app.notice.text)


def _move(folder: Path, to: Path) -> None:
    for file in folder.glob("state.db*"):
        file.rename(to / file.name)


def _replace(folder: Path, other: Path) -> None:
    for file in folder.glob("state.db*"):
        file.unlink()
    for file in other.glob("state.db*"):
        shutil.copy(file, folder / file.name)


@pytest.mark.anyio
async def test_a_commit_of_another_writer_is_on_the_screen(path: Path) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            ask(store, 50)
        await _until(pilot, lambda: app.waiting == 6, "the sixth request")
        await settled(pilot)
        assert any("refund:txn_50" in row for row in _rows(app))
        assert _notice(app) == "new  stripe.refund by refund-agent, 15:00 left"


@pytest.mark.anyio
async def test_a_store_that_is_gone_makes_the_screen_stale_and_it_recovers_alone(
    path: Path, tmp_path: Path
) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        before = _rows(app)[4:9]
        aside = tmp_path / "aside"
        aside.mkdir()
        _move(tmp_path, aside)
        app.data.wake()
        await _until(pilot, lambda: app.live.reach is Reach.STALE, "STALE")
        clock.advance(seconds=14)
        app.tick()
        await pilot.pause()
        assert _rows(app)[0].startswith(" STALE 14 s, next try")
        assert [row[19:] for row in _rows(app)[4:9]] == [row[19:] for row in before]
        assert app.top.list.dimmed  # type: ignore[union-attr]
        assert len(app.screen_stack) == 1  # no dialog over the data
        await pilot.press("a")
        assert app.notice.text[0].text == "approve: STALE, what is shown may be out of date"
        assert len(app.screen_stack) == 1
        await pilot.press("j")  # reading goes on
        assert app.top.current_row.id == f"apr_{1:032x}"  # type: ignore[union-attr]
        _move(aside, tmp_path)
        await _until(pilot, lambda: app.live.is_live, "live again")
        await settled(pilot)
        assert not app.top.list.dimmed  # type: ignore[union-attr]
        assert _rows(app)[0].startswith(" ● live")


@pytest.mark.anyio
async def test_a_store_that_was_replaced_is_said_and_read_anew(path: Path, tmp_path: Path) -> None:
    clock = FrozenClock()
    other = tmp_path / "other"
    other.mkdir()
    with new_store(other, clock) as store:
        ask(store, 70)
    async with console(sitting(path, clock)) as (app, pilot):
        said: list[str] = []
        remember = app.say

        def say(text: object, *given: object) -> None:
            said.append(str(text))
            remember(text, *given)  # type: ignore[arg-type]

        app.say = say  # type: ignore[assignment, method-assign]
        _replace(tmp_path, other)
        app.data.wake()
        await _until(pilot, lambda: app.waiting == 1, "the other store")
        await settled(pilot)
        assert any("replaced" in text for text in said)
        rows = _rows(app)
        assert any("refund:txn_70" in row for row in rows)
        assert not any("refund:txn_1" in row for row in rows)


@pytest.mark.anyio
async def test_what_another_screen_misses_it_catches_up_on(path: Path) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        await pilot.press("question_mark")
        await settled(pilot)
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            ask(store, 50)
        await _until(pilot, lambda: app.waiting == 6, "the sixth request")
        view = app.screen_stack[0]
        assert len(view.query_one("#list").window.rows) == 5  # type: ignore[attr-defined]
        await pilot.press("escape")
        await settled(pilot)
        assert any("refund:txn_50" in row for row in _rows(app))


@pytest.mark.anyio
async def test_a_clock_that_is_off_is_said(path: Path) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            store.append_event(
                Event(EventType.ACTION_PROPOSED, "act_1", START + timedelta(seconds=3.4))
            )
        await _until(pilot, lambda: "clock" in _notice(app), "the skew")
        assert _notice(app) == "an agent's clock is 3.4 s ahead of this one"


@pytest.mark.anyio
async def test_an_error_of_ours_in_the_thread_turns_answers_off_and_ends_nothing(
    path: Path,
) -> None:
    clock = FrozenClock()
    made = sitting(path, clock)
    feed = ScriptedFeed(iter(lambda: FeedBatch(), None))
    made.make_feed = lambda: feed  # type: ignore[assignment]
    async with console(made) as (app, pilot):

        def broken() -> FeedBatch:
            raise RuntimeError("a bug")

        feed.poll = broken  # type: ignore[method-assign]
        feed.wake()
        await _until(pilot, lambda: not app.live.is_live, "STALE")
        assert "RuntimeError: a bug" in _notice(app)
        await pilot.press("a")
        assert _notice(app) == "approve: STALE, what is shown may be out of date"
        assert any("refund:txn_1" in row for row in _rows(app))


@pytest.mark.anyio
async def test_the_title_says_how_much_waits_and_the_bell_rings_once_a_batch(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        written: list[str] = []
        monkeypatch.setattr(app, "write_terminal", written.append)
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            store.unit(lambda: [ask(store, number) for number in range(50, 53)], durable=True)
        await _until(pilot, lambda: app.waiting == 8, "the batch")
        assert written.count("\a") == 1
        assert written[-2:] == ["\x1b]2;ctrlrun: 8 waiting\x07", "\a"]
        await pilot.press("b")
        written.clear()
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            ask(store, 60)
        await _until(pilot, lambda: app.waiting == 9, "one more")
        assert written == ["\x1b]2;ctrlrun: 9 waiting\x07"]
