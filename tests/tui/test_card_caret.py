"""The caret of a card's fields: where it goes, what is put and taken there, and what is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.cells import cell_len

from ctrlrun_tui.cards.approve import ApproveCard
from ctrlrun_tui.cards.base import Card
from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.cards.resolve import ResolveCard
from ctrlrun_tui.glyphs import ASCII, UNICODE, Glyphs
from tests.tui.card_scene import Hand, Scene, at_desk, noticed, scene, show, told

pytestmark = pytest.mark.anyio


@pytest.fixture
def made(tmp_path: Path) -> Scene:
    return scene(tmp_path)


def line_of(shown: str, part: str) -> str:
    return next(line for line in shown.splitlines() if part in line)


CASES = [
    # the value, the keys, the value then
    ("abc", ["left", "X"], "abXc"),
    ("abc", ["home", "X"], "Xabc"),
    ("abc", ["home", "right", "X"], "aXbc"),
    ("abc", ["home", "end", "X"], "abcX"),
    ("abc", ["home", "delete"], "bc"),
    ("abc", ["left", "backspace"], "ac"),
    ("abc", ["home", "left", "backspace"], "abc"),
    ("abc", ["end", "right", "delete"], "abc"),
    ("\u9000\u6b3ex", ["left", "left", "delete"], "\u9000x"),
    ("aq\u0301x", ["left", "left", "X"], "aXq\u0301x"),
    ("aq\u0301x", ["left", "backspace"], "ax"),
    ("aq\u0301x", ["home", "right", "delete"], "ax"),
    ("aq\u0301x", ["home", "right", "right", "X"], "aq\u0301Xx"),
    ("q\u0301", ["backspace", "backspace", "X"], "X"),
]


async def test_keys_edit_around_the_caret_sign_by_sign(made: Scene) -> None:
    before = made.content()
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.keys("tab")
        field = app.screen.query_one("#note", Field)
        for text, keys, expected in CASES:
            field.value = text
            field.action_end()
            await hand.keys(*keys)
            assert field.value == expected, (text, keys)
    assert made.content() == before


async def test_the_view_of_a_long_value_follows_the_caret(made: Scene) -> None:
    text = "".join(f"[{number:03}]" for number in range(30))
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.keys("tab")
        field = app.screen.query_one("#note", Field)
        field.value = text
        await hand.keys("end")
        assert "[029]" in line_of(told(app), "note")
        assert "[000]" not in line_of(told(app), "note")
        await hand.keys("home")
        assert "note        [000][001]" in told(app)
        steps = cell_len("[000]") * 12
        await hand.keys(*["right"] * steps, gap=0.03)
        assert field.cursor_position == steps
        assert "[011]" in line_of(told(app), "note")
        assert "[000]" not in line_of(told(app), "note")


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
async def test_the_marker_stands_before_the_field_that_letters_go_to(
    made: Scene, glyphs: Glyphs
) -> None:
    sign = glyphs.cursor
    async with at_desk(made, glyphs=glyphs) as (app, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await hand.keys("1")
        column = line_of(told(app), "source").index("source")
        await hand.keys("tab")
        shown = told(app)
        assert f"{sign} source" in shown
        assert f"{sign} note" not in shown
        assert f"{sign} Cancel" not in shown
        assert line_of(shown, "source").index("source") == column
        await hand.keys("tab")
        assert f"{sign} note" in told(app)
        assert f"{sign} source" not in told(app)
        await hand.keys("escape")
        assert f"{sign} note" not in told(app)
        assert f"{sign} Cancel" in told(app)


async def test_a_value_longer_than_its_field_shows_its_caret_when_the_field_gets_the_focus(
    made: Scene,
) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        app.screen.query_one("#note", Field).value = "x" * 80 + "[the end]"
        await hand.rests()
        assert "[the end]" not in told(app)
        await hand.keys("tab")
        assert "[the end]" in told(app)


# --- what the footer and the key page say --------------------------------------------------------


async def test_the_footer_says_what_keys_do_in_a_field_and_nothing_else(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        outside = told(app).splitlines()[-1]
        assert "Esc cancel" in outside
        await hand.keys("tab")
        assert told(app).splitlines()[-1].strip() == (
            "Enter leave field  Tab next field  Esc leave field"
        )
        await hand.keys("?")
        assert app.screen.query_one("#note", Field).value == "?"
        await hand.keys("escape")
        assert told(app).splitlines()[-1] == outside


async def test_the_key_page_of_a_card_says_what_keys_do_in_a_field(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.keys("?")
        assert "Enter Esc      leave field" in told(app)
        assert "Left Right     move" in told(app)
        await hand.keys("end", "enter")
        assert noticed(app) == "this line explains, and runs nothing"
        assert app.screen.query("#menu")


# --- after a field -------------------------------------------------------------------------------


async def test_backspace_on_cancel_keeps_a_card_that_holds_a_draft(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "asked dana")
        await hand.keys("backspace", "backspace")
        assert hand.card.focused is hand.card.cancel
        assert hand.card.text_of("note") == "asked dana"
        assert noticed(app) == "nothing to delete here; Esc cancels"
        await hand.keys("escape")
        assert not isinstance(app.screen, ApproveCard)
        assert noticed(app) == ""


async def test_backspace_is_no_key_of_the_code(made: Scene) -> None:
    """What was typed of the code before it is gone, as with every other key."""
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "asked dana")
        code = hand.card.keypad.code
        assert code is not None
        await hand.keys(code.text[0], "backspace", code.text[1])
        assert made.events("APPROVAL_GRANTED") == []


async def test_tab_after_the_last_field_goes_to_the_first_one(made: Scene) -> None:
    """Cancel, which has the marker, stands behind the last field."""
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await hand.keys("1")
        await hand.writes("source", "dana")
        await hand.writes("note", "called them")
        await hand.keys("tab")
        assert hand.card.focused is not None
        assert hand.card.focused.id == "source"
        await hand.keys("enter", "shift+tab")
        assert hand.card.focused.id == "note"


# --- notices about keys --------------------------------------------------------------------------


async def test_a_card_clears_what_was_said_about_a_key_and_keeps_news(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = Hand(pilot)
        for news in (False, True):
            await hand.keys("escape")
            assert "nothing to go back to" in noticed(app)
            if news:
                app.say("new  stripe.refund by refund-agent")
            await hand.keys("?")
            assert noticed(app) == ("new  stripe.refund by refund-agent" if news else "")
            await hand.keys("escape")


async def test_a_key_that_works_clears_why_it_was_off(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = Hand(pilot)
        await hand.keys("A")
        assert noticed(app) == "review marked: nothing is marked"
        await hand.keys("space", "A")
        assert isinstance(app.screen, Card)
        assert noticed(app) == ""
