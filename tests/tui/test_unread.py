"""What was not read does not look empty: it says so, why, and comes by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from ctrlrun_tui.actions import VIEWS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.data.models import Live, Reach, Role
from ctrlrun_tui.data.unread import READING, unread_span
from ctrlrun_tui.screens import views
from ctrlrun_tui.screens.inbox import InboxView
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.requests import RequestsScreen
from tests.tui.card_scene import told
from tests.tui.helpers import (
    START,
    FrozenClock,
    SmallInbox,
    ask,
    console,
    new_store,
    settled,
    sitting,
)

pytestmark = pytest.mark.anyio


def test_the_reason_is_that_of_the_store_while_it_is_away() -> None:
    stale = Live(Reach.STALE, START, None, "no database at state.db")
    assert unread_span(Live()).text == READING
    assert unread_span(Live(), "it is locked").text == "not read yet: it is locked"
    said = unread_span(stale, "it is locked")
    assert (said.text, said.role) == ("not read yet: no database at state.db", Role.NEEDS)
    assert unread_span(Live(Reach.STALE, START)).text == "not read yet: the store cannot be read"


async def comes(pilot: Pilot[int], holds: Callable[[], bool]) -> None:
    """Ticks, as each second has one, until something holds."""
    for _ in range(600):
        if holds():
            return
        pilot.app.tick()  # type: ignore[attr-defined]
        await asyncio.sleep(0.02)
    raise AssertionError(told(pilot.app))  # type: ignore[arg-type]


def titled(app: ConsoleApp, name: str) -> bool:
    """Whether the view line says which view it is."""
    return told(app).splitlines()[1].startswith(f" {app.keys.named(name).word}")


def aside(folder: Path, *, back: bool = False) -> None:
    """Take the store away, or put it back where it was."""
    away = folder / "away"
    away.mkdir(exist_ok=True)
    source, target = (away, folder) if back else (folder, away)
    for file in source.glob("state.db*"):
        file.rename(target / file.name)


async def test_no_view_looks_empty_that_was_not_read(tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
    aside(tmp_path)
    app = ConsoleApp(sitting(tmp_path / "state.db", clock), views.VIEWS)
    async with app.run_test(size=(100, 24)) as pilot:
        await comes(pilot, lambda: app.live.reach is Reach.UNREACHABLE)
        for name in VIEWS:
            if name in views.VIEWS:
                app.show_view(name)
                await comes(pilot, lambda: "not read yet: no database at" in told(app))
                assert "? waiting" in told(app)
                await comes(pilot, lambda name=name: titled(app, name))  # type: ignore[misc]
        app.show_view(VIEWS[0])
        for screen in (InspectScreen("act_1"), RequestsScreen("state:pending")):
            app.push_screen(screen)
            await comes(pilot, lambda: "not read yet: no database at" in told(app))
            app.pop_screen()
        app.do_handover()
        await comes(pilot, lambda: "not read yet: no database at" in told(app))
        aside(tmp_path, back=True)
        await comes(pilot, lambda: app.live.is_live and "waiting for an answer: 1" in told(app))
        app.pop_screen()
        await settled(pilot)
        assert "txn_1" in told(app)
        assert "1 waiting" in told(app)
        assert "not read yet" not in told(app)
        # Read as empty, and then out of reach: it is said of which time that was.
        view = app.screen
        assert isinstance(view, InboxView)
        view.set_filter("agent:nobody")
        await settled(pilot)
        assert "  nothing matches\n" in told(app)
        aside(tmp_path)
        await comes(pilot, lambda: app.live.reach is Reach.STALE)
        await comes(pilot, lambda: "  nothing matches, as it was read last" in told(app))
        view.set_filter("agent:refund-agent")
        await comes(pilot, lambda: "  not read yet: no database at" in told(app))
        aside(tmp_path, back=True)
        await comes(pilot, lambda: "txn_1" in told(app))


async def test_what_a_view_could_not_read_is_read_as_soon_as_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each read misses once while the feed misses none: nobody else tells the view to look."""
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
            view = app.screen
            assert isinstance(view, SmallInbox)
            assert "  nothing waits\n" in told(app)
            missed = [
                miss_once(monkeypatch, view, "source"),
                miss_once(monkeypatch, view, "view_line"),
                miss_once(monkeypatch, view, "detail"),
            ]
            ask(store, 1)
            app.data.wake()
            await comes(pilot, lambda: app.waiting == 1)
            await comes(pilot, lambda: " Inbox  waiting 1" in told(app) and "txn_1" in told(app))
            clock.advance(seconds=1)
            await comes(pilot, lambda: "payment_id  'txn_1'" in told(app))
            assert missed == [[1], [1], [1]]


def miss_once(monkeypatch: pytest.MonkeyPatch, view: SmallInbox, name: str) -> list[int]:
    """Let a reading of the view fail the first time; how often it failed."""
    whole, missed = getattr(view, name), []

    def read(*given: Any) -> Any:
        if name == "source":
            source = whole()
            fetch = source.fetch
            source.fetch = lambda *wanted: fail_first(fetch, *wanted)
            return source
        return fail_first(whole, *given)

    def fail_first(then: Callable[..., Any], *given: Any) -> Any:
        if not missed:
            missed.append(1)
            raise OSError("disk I/O error")
        return then(*given)

    monkeypatch.setattr(view, name, read)
    return missed
