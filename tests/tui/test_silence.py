"""A store that hangs, or that refuses in part: what is on the screen is STALE, and recovers by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, SchemaMismatch
from ctrlrun.operator import Feed, FeedBatch, FeedError
from ctrlrun.receipt import Event, EventType
from ctrlrun_tui.data import asking
from ctrlrun_tui.data.models import Reach
from tests.tui.helpers import FrozenClock, ask, console, new_store, sitting

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


async def until(pilot: Any, holds: Callable[[], bool]) -> None:
    """Ticks, as each second has one, until something holds; the test's own limit ends it."""
    while not holds():
        pilot.app.tick()
        await pilot.pause(0.02)


async def test_a_feed_that_gets_no_answer_is_stale_and_recovers(
    tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(tmp_path, clock) as store:
        made = sitting(tmp_path / "state.db", clock)
        hangs, goes_on = threading.Event(), threading.Event()
        goes_on.set()

        class Hanging(Feed):
            def poll(self) -> FeedBatch:
                if not goes_on.is_set():
                    hangs.set()
                    goes_on.wait()
                return super().poll()

        made.make_feed = lambda: Hanging(made.desk, clock=clock)
        async with console(made) as (app, pilot):
            await until(pilot, lambda: app.is_counted and app.live.last_read_at is not None)
            goes_on.clear()
            try:
                await until(pilot, hangs.is_set)
                app.tick()
                assert app.live.is_live  # it may think for a while
                monkeypatch.setattr(asking, "PATIENCE_S", 0.0)
                await until(pilot, lambda: app.live.reach is Reach.STALE)
                assert app.live.why == "the store does not answer"
                since = app.live.last_read_at
                clock.advance(seconds=9)
                app.tick()
                assert app.live.last_read_at == since
                monkeypatch.undo()
                ask(store, 1)
            finally:
                goes_on.set()
            await until(pilot, lambda: app.live.is_live and app.waiting == 1)


async def test_a_store_whose_rows_were_read_is_stale_and_never_unreachable(
    tmp_path: Path, clock: FrozenClock
) -> None:
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
        made = sitting(tmp_path / "state.db", clock)
        broken = FeedError(clock(), 99, clock() + timedelta(seconds=3), "the events cannot be read")

        class Refused(Feed):
            def poll(self) -> FeedBatch:
                return FeedBatch(error=broken)

        made.make_feed = lambda: Refused(made.desk, clock=clock)
        async with console(made) as (app, pilot):
            await until(pilot, lambda: app.is_counted and app.waiting == 1)
            await until(pilot, lambda: app.live.reach is Reach.STALE)
            assert app.live.last_read_at is not None


async def test_a_count_that_is_refused_is_stale_and_tried_again(
    tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(tmp_path, clock) as store:
        async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
            await until(pilot, lambda: app.is_counted and app.live.last_read_at is not None)

            def refused() -> None:
                raise SchemaMismatch("state.db has a newer format")

            monkeypatch.setattr(app.desk, "reader", refused)
            ask(store, 1)
            await until(pilot, lambda: app.live.reach is Reach.STALE)
            assert app.live.why == "state.db has a newer format"
            assert app.waiting == 0
            monkeypatch.undo()
            await until(pilot, lambda: app.live.is_live and app.waiting == 1)


async def test_a_count_that_hangs_is_stale_and_none_is_begun_beside_it(
    tmp_path: Path, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_store(tmp_path, clock) as store:
        async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
            await until(pilot, lambda: app.is_counted and app.live.last_read_at is not None)
            goes_on, begun = threading.Event(), []
            whole = app.desk.reader

            def slow() -> Any:
                if threading.current_thread() is not threading.main_thread():
                    begun.append(1)
                    goes_on.wait()
                return whole()

            monkeypatch.setattr(app.desk, "reader", slow)
            monkeypatch.setattr(asking, "PATIENCE_S", 0.0)
            app.count()
            ask(store, 1)
            try:
                await until(pilot, lambda: app.live.reach is Reach.STALE)
                before = len(begun)
                said = app.notice.text[0].text
                assert said == "the store does not answer"
                for _ in range(5):
                    app.count()
                await pilot.pause(0.05)
                assert len(begun) <= before + 1  # the list's own read may come, no second count
            finally:
                monkeypatch.setattr(asking, "PATIENCE_S", 60.0)
                goes_on.set()
            await until(pilot, lambda: app.live.is_live and app.waiting == 1)


def test_a_store_that_answers_slowly_is_called_stale_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(asking.time, "monotonic", lambda: now)
    question = asking.Asking()

    def takes(seconds: float, *, answered: bool = True) -> bool:
        """Ask, and be answered so much later; whether that was overdue just before."""
        nonlocal now
        question.begin()
        now += seconds
        overdue = question.is_overdue
        question.end(answered=answered)
        assert not question.is_overdue
        return overdue

    assert [takes(2), takes(8), takes(8), takes(15)] == [False, True, False, False]
    assert question.slow == 15
    assert takes(31)  # however slow it was: nothing is live that is older than this
    assert takes(29, answered=False) is False
    assert question.slow == 31  # a refusal says nothing of it
    assert [takes(0.1), takes(6)] == [False, True]
    assert question.slow == 6


@pytest.mark.parametrize("answered", [EffectState.FAILED, EffectState.COMMITTED])
async def test_an_attempt_that_ends_behind_its_answer_is_news(
    tmp_path: Path, clock: FrozenClock, answered: EffectState
) -> None:
    with new_store(tmp_path, clock) as store:
        reserved = store.reserve_effect("refund:txn_1", "act_1", timedelta(seconds=1))
        store.begin_execution("refund:txn_1", "act_1")
        clock.advance(seconds=2)
        with pytest.raises(AmbiguousEffect):
            store.reserve_effect("refund:txn_1", "act_2")
        store.resolve_effect("refund:txn_1", answered, "cli:local", attempt=reserved.attempt)
        async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
            await until(pilot, lambda: app.is_counted and app.live.last_read_at is not None)
            clock.advance(seconds=1)
            facts = {"error": "AmbiguousEffect: it left this attempt; the executor has returned"}
            kind = EventType.EXECUTION_AMBIGUOUS
            store.append_event(Event(kind, "act_1", clock.now, facts, "refund:txn_1"))
            await until(pilot, lambda: bool(app.notice.text))
            said = "".join(span.text for span in app.notice.text)
            state = answered.value.upper()
            assert said == (
                f"new  refund:txn_1 is {state}, and an attempt at it ended only now: see its timeline"
            )
