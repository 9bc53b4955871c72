"""A field's text never chooses: keys that choose an answer count alone, and Enter goes on to what is
still needed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.effect import EffectState
from ctrlrun_tui.cards.approve import ApproveCard
from ctrlrun_tui.cards.base import Card
from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.cards.resolve import Choice, ResolveCard
from ctrlrun_tui.cards.review import ReviewCard
from tests.tui.card_scene import Hand, Scene, at_desk, noticed, scene, show, told
from tests.tui.grants_scene import Office, at_console

pytestmark = pytest.mark.anyio

KEY = "refund:txn_16"


@pytest.fixture
def made(tmp_path: Path) -> Scene:
    found = scene(tmp_path)
    with closing(found.open()) as store:
        store.reserve_effect(KEY, "act_16")
        store.begin_execution(KEY, "act_16")
        store.mark_ambiguous(KEY, "act_16", "no reply")
    return found


def focused(hand: Hand) -> str | None:
    """The name of the field that letters go to."""
    found = hand.card.focused
    return None if found is None else found.id


@pytest.mark.parametrize(
    ("gap", "chooses"), [(0.06, False), (0.17, False), (0.25, False), (0.4, True)]
)
async def test_an_answer_typed_by_heart_chooses_only_at_a_pace_at_which_one_reads(
    made: Scene, gap: float, chooses: bool
) -> None:
    before = made.content()
    async with at_desk(made) as (app, pilot):
        hand = Hand(pilot)
        await hand.keys("G")
        opened: list[ResolveCard] = []
        for index, keys in enumerate((["r"], ["2", "tab", *"refunded"], ["enter"], ["r"], KEY[1:])):
            await hand.keys(*keys, gap=gap, first=gap if index else 1)
            if isinstance(app.screen, ResolveCard) and app.screen not in opened:
                opened.append(app.screen)
        assert opened and opened[0].effect_key == KEY
        assert {card.choice for card in opened} == ({Choice.FAILED} if chooses else {None})
        if chooses:
            assert (hand.card.text_of("source"), hand.card.text_of("effect")) == ("refunded", KEY)
    assert made.content() == before


@pytest.mark.parametrize(
    ("typed", "gap"),
    [("txn_16", 0.17), ("1", 0.0), ("x 3", 0.29), ("w1", 1.9)],
    ids=["a key", "right behind the opener", "a digit behind a space", "while a wrong key locks"],
)
async def test_a_digit_within_a_text_chooses_nothing_and_says_why(
    made: Scene, typed: str, gap: float
) -> None:
    async with at_desk(made) as (app, pilot):
        hand = Hand(pilot)
        await hand.keys("G")
        await hand.keys("r")
        await hand.types(typed, gap=gap, first=gap or 0.1)
        card = hand.card
        assert isinstance(card, ResolveCard)
        assert card.choice is None
        assert "wait, then press it again" in noticed(app) or typed == "txn_16"
        hand.at += 2
        await hand.keys("1")
        assert card.choice is Choice.COMMITTED


async def test_a_digit_typed_behind_a_field_that_was_left_chooses_nothing(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(KEY))
        await hand.keys("2")
        hand.card.query_one("#note").focus()
        await hand.types("seen at 12", gap=0.1)
        await hand.keys("escape", "1", gap=0.1, first=0.1)
        card = hand.card
        assert isinstance(card, ResolveCard)
        assert (card.choice, focused(hand)) == (Choice.FAILED, "cancel")


async def test_enter_goes_to_the_next_field_that_is_needed_and_leaves_behind_the_last(
    made: Scene,
) -> None:
    before = made.content()
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(KEY))
        await hand.keys("2", "tab", gap=0.5)
        await hand.keys("enter")  # empty: what is needed next stands behind it
        assert focused(hand) == "effect"
        await hand.types(KEY)
        await hand.keys("enter")
        assert focused(hand) == "source"
        await hand.keys("enter", "enter", "enter")
        assert focused(hand) == "source"  # nothing else is needed: Enter never leaves it empty
        assert noticed(app) == "source is needed; Esc leaves the field"
        assert "Enter next needed field" not in told(app)
        await hand.types("dashboard")
        await hand.keys("enter")
        assert focused(hand) == "cancel"
        assert hand.card.why_no_code() is None
    assert made.content() == before


async def test_another_answer_empties_what_was_written_for_the_one_before(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(KEY))
        await hand.keys("1")
        await hand.writes("source", "re_9f at the provider")
        await hand.writes("note", "dana saw it")
        await hand.keys("2")
        assert noticed(app) == "FAILED now, no longer COMMITTED"
        for name in ("source", "effect", "note"):
            assert hand.card.text_of(name) == ""
        await hand.writes("note", "of the second")
        await hand.keys("escape")
        await show(pilot, ResolveCard(KEY))
        await hand.keys("2")
        assert hand.card.text_of("note") == "of the second"  # a draft is kept for its answer
        await hand.keys("escape")
        await show(pilot, ResolveCard(KEY))
        await hand.keys("3")
        assert hand.card.text_of("note") == ""
        await hand.types_code()
    assert "note" not in made.events("RECONCILIATION_RESOLVED")[-1].data
    with closing(made.open()) as store:
        record = store.get_effect(KEY)
    assert record is not None and record.state is EffectState.AMBIGUOUS


async def test_a_note_for_a_grant_is_not_written_with_a_refusal(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "dana says it is fine")
        await hand.keys("n")
        assert hand.card.text_of("note") == ""
        await hand.types_code()
    (denied,) = made.events("APPROVAL_DENIED")
    assert "note" not in denied.data


@pytest.mark.parametrize("key", ["n", "s"])
async def test_letters_of_prose_neither_skip_nor_turn_a_card_of_a_review(
    made: Scene, key: str
) -> None:
    records = [made.record(request_id) for request_id in made.ids["nine"][:2]]
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ReviewCard(records))
        await hand.keys("space", key, gap=0.2)
        assert "review 1 of 2 ─" in told(app)
        await hand.keys("q", key, gap=1.5, first=3)  # q is a wrong key of the code, which locks
        assert "review 1 of 2 ─" in told(app)
        await hand.keys(key, first=3)
        assert "review 1 of 2 ─" not in told(app)


async def test_enter_in_the_form_of_a_grant_goes_to_a_field_that_is_needed(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    ids = office.usual()
    async with at_console(office) as person:
        await person.goes_to(ids["finance"])
        await person.does("delegate")
        card = person.app.screen
        assert isinstance(card, Card)
        card.query_one("#actions", Field).value = ""
        card.query_one("#note", Field).focus()
        await person.hand.keys("enter")
        assert focused(person.hand) == "actions"
        await person.hand.types("stripe.refund")
        await person.hand.keys("enter")
        assert focused(person.hand) == "cancel"
    office.close()
