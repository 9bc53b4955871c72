"""Keys that were typed ahead of a screen that has gone by the time they are handled."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from textual import events

from ctrlrun_tui.actions import INBOX
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.cards.field import Field
from tests.tui.helpers import FrozenClock, SmallInbox, ask, console, new_store, settled, sitting

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_store(tmp_path, FrozenClock()) as store:
        ask(store, 1)
    return tmp_path / "state.db"


async def test_a_key_for_a_screen_that_left_does_nothing(path: Path) -> None:
    """Else the second one would take away the screen beneath, or the last one there is."""
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        for page, key in product(
            ("help", "palette", "handover", "approve"), ("escape", "backspace")
        ):
            assert app.top is not None
            app.top.perform(page)
            await settled(pilot)
            screen = app.screen
            assert len(app.screen_stack) == 2, page
            for _ in range(6):
                screen.post_message(events.Key(key, None))
            await settled(pilot)
            assert [type(each) for each in app.screen_stack] == [SmallInbox], (page, key)
            assert app.current_mode == INBOX
        assert isinstance(app, ConsoleApp)
        assert app.is_running


async def test_a_letter_behind_a_tab_is_the_next_fields(path: Path) -> None:
    """Also when it comes before the screen has moved the focus: one key after another."""
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        assert app.top is not None
        app.top.perform("approve")
        await settled(pilot)
        for key in ("tab", "d", "a", "s", "h"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        app.post_message(events.Paste("board"))
        await settled(pilot)
        assert app.screen.query_one("#note", Field).value == "dashboard"


async def test_what_was_typed_at_a_screen_that_left_is_dropped(path: Path) -> None:
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        assert app.top is not None
        app.top.perform("help")
        await settled(pilot)
        for key in ("escape", "q", "q"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await settled(pilot)
        assert [type(each) for each in app.screen_stack] == [SmallInbox]
        assert app.is_running
