"""The registry: one table of actions, whole, without clashes, done by a method each."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest

from ctrlrun_tui.actions import ACTIONS, CARDS, CODE_KEYS, MOVEMENT, READING, VIEWS, Action, Effect
from ctrlrun_tui.keymap import Keys, _bare
from ctrlrun_tui.screens.base import Framed
from tests.tui.helpers import FrozenClock, SmallInbox, ask, console, new_store, settled, sitting

# The keymap as it was decided, for lists and views and for cards. A change here is a decision.
EXACT = {
    "down": "down j",
    "up": "up k",
    "page_down": "pagedown",
    "page_up": "pageup",
    "top": "home g",
    "bottom": "end G",
    "other_pane": "tab shift+tab",
    "open": "enter",
    "back": "escape backspace",
    "inbox": "1",
    "effects": "2",
    "receipts": "3",
    "events": "4",
    "stats": "5",
    "authority": "6",
    "its_receipts": "enter",
    "next_window": "] right",
    "previous_window": "[ left",
    "next_number": "tab",
    "previous_number": "shift+tab",
    "next_lane": "] right",
    "previous_lane": "[ left",
    "filter": "/",
    "sort": "s",
    "inspect": "i",
    "raw": "J",
    "whole": "v",
    "copy": "y",
    "mark": "space",
    "review": "A",
    "deny_marked": "D",
    "approve": "a",
    "deny": "d",
    "resolve": "r",
    "delegate": "n",
    "revoke": "x",
    "handover": "H",
    "write_handover": "w",
    "pause": "p",
    "bell": "b",
    "help": "?",
    "palette": ": ctrl+p",
    "quit": "q",
    "suspend": "ctrl+z",
    "redraw": "ctrl+l",
    "cancel": "escape backspace",
    "deny_instead": "n",
    "no": "n",
    "skip": "s",
    "choose_committed": "1",
    "choose_failed": "2",
    "choose_unknown": "3",
    "card_whole": "v",
    "card_copy": "y",
    "next_field": "tab",
    "previous_field": "shift+tab",
}
SWALLOWED = {f"ctrl+{letter}" for letter in "abhijmsduf"}


def test_the_keymap_is_the_one_that_was_decided() -> None:
    have = {action.name: " ".join(action.keys) for action in ACTIONS if action.name in EXACT}
    assert have == EXACT
    others = {action.name for action in ACTIONS} - set(EXACT)
    assert all(name.startswith("card_") for name in others)


def test_no_key_means_two_things_in_one_place() -> None:
    for one, other in combinations(ACTIONS, 2):
        shared = set(one.keys) & set(other.keys)
        if shared:
            assert not set(one.on) & set(other.on), (one.name, other.name, shared)


def test_no_action_takes_a_letter_of_the_codes_or_a_key_that_terminals_swallow() -> None:
    for action in ACTIONS:
        for key in action.keys:
            assert key not in CODE_KEYS
            assert key not in SWALLOWED
            assert not key.startswith(("alt+", "f1", "f2"))


def test_no_answer_lies_on_a_movement_key_or_beside_it() -> None:
    moves = {_bare(key) for action in ACTIONS if action.name in MOVEMENT for key in action.keys}
    for action in ACTIONS:
        if action.effect is not Effect.READS:
            assert not {_bare(key) for key in action.keys} & moves


def test_every_sentence_fits_the_help_of_a_small_terminal_and_ends_as_one() -> None:
    for action in ACTIONS:
        assert action.sentence[0].isupper()
        assert action.sentence.endswith("."), action.name
        assert len(action.sentence) <= 48, action.name
        assert len(action.word) <= 13, action.name


def _has(cls: type[object], action: Action) -> bool:
    from ctrlrun_tui.app import ConsoleApp

    return hasattr(cls, f"do_{action.name}") or hasattr(ConsoleApp, f"do_{action.name}")


@pytest.mark.parametrize("place", VIEWS)
def test_every_action_of_a_view_is_done_by_a_method(place: str) -> None:
    from ctrlrun_tui.screens.views import VIEWS as BUILT

    cls = BUILT[place]
    assert isinstance(cls, type)
    assert issubclass(cls, Framed)
    assert [action.name for action in Keys().on(place) if not _has(cls, action)] == []


def test_every_place_of_an_action_is_a_known_one() -> None:
    places = {place for action in ACTIONS for place in action.on}
    assert places == {*READING, *CARDS, "help", "palette"}


# --- what is off says why, by key, palette and call ----------------------------------------------


@pytest.mark.anyio
async def test_a_key_that_is_off_says_why_and_does_nothing(tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
    made = sitting(tmp_path / "state.db", clock, read_only=True)
    async with console(made) as (app, pilot):
        for key in ("a", "d", "r", "A", "D"):
            await pilot.press(key)
            assert "READ-ONLY" in app.notice.text[0].text
            assert len(app.screen_stack) == 1
        footer, _ = app.top.hints()  # type: ignore[union-attr]
        assert not {"a", "d", "r"} & {hint.key for hint in footer}


@pytest.mark.anyio
async def test_an_unknown_key_says_so_and_names_the_key_that_helps(tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock):
        pass
    async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
        await pilot.press("z")
        assert app.notice.text[0].text == "z does nothing here; ? shows the keys"


@pytest.mark.anyio
async def test_answers_are_off_where_nothing_is_under_the_cursor(tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock):
        pass
    async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
        await pilot.press("a")
        assert app.notice.text[0].text == "approve: nothing under the cursor"


@pytest.mark.anyio
async def test_help_lists_every_action_and_says_why_one_is_off(tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
    async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
        await pilot.press("question_mark")
        await settled(pilot)
        menu = app.screen.query_one("#menu")
        entries = menu.entries  # type: ignore[attr-defined]
        assert [entry.name for entry in entries] == [
            action.name for action in Keys().on(SmallInbox.PLACE)
        ]
        off = {entry.name: entry.off for entry in entries if entry.off}
        assert off["review"] == "nothing is marked"
        await pilot.press("escape")
        assert len(app.screen_stack) == 1


@pytest.mark.anyio
async def test_the_palette_finds_an_action_by_its_words_and_runs_it(tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
    async with console(sitting(tmp_path / "state.db", clock)) as (app, pilot):
        before = app.bell_on
        await pilot.press("colon", *"bell", "enter")
        await settled(pilot)
        assert len(app.screen_stack) == 1
        assert app.bell_on is not before
