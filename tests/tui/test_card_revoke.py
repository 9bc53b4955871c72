"""The card that revokes: what falls, the number that is typed, and what it is bound to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlrun.errors import InvalidArgument
from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.cards.revoke import RevokeCard
from ctrlrun_tui.data.models import Live, Reach
from ctrlrun_tui.glyphs import ASCII, UNICODE
from tests.lib.hostile import HOSTILE
from tests.tui.grants_scene import Office, Person, at_console, grant

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


async def opened(person: Person, part: str) -> RevokeCard:
    """The card of a row."""
    await person.goes_to(part)
    await person.does("revoke")
    card = person.app.screen
    assert isinstance(card, RevokeCard), person.text
    person.hand.terminal_draws()
    return card


async def fills(person: Person, **texts: str) -> None:
    """Put texts into fields, as typing them would leave them."""
    for name, text in texts.items():
        person.app.screen.query_one(f"#{name}", Field).value = text
    await person.hand.rests()


def offers(card: RevokeCard) -> bool:
    """Whether the code is on the screen."""
    return card.keypad.code is not None and card.keypad.code.offered


async def test_it_shows_what_falls_and_asks_for_the_number(office: Office) -> None:
    ids = office.usual()
    request = office.asks("support-agent", "EU-1")
    office.asks("head-of-support", "EU-9")  # not beneath
    office.runs("night-agent")
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        for said in (
            "finance-agent, dana@example.com",
            "support-agent, dana@example.com",
            "night-agent, dana@example.com",
            "falls        3 live grants: this one and 2 beneath",
            "waiting      1 request               refused, unless covered otherwise",
            "running      1 effect                                      not stopped",
            "Takes it back for good.",
        ):
            assert said in person.text, said
        assert "temp-agent" not in person.text
        before = office.content()
        for number in ("", "2", "4", "3x", "three"):
            await fills(person, grants=number)
            assert not offers(card), number
        assert "that is not the number above" in " ".join(person.text.replace("│", " ").split())
        await fills(person, grants="3", note="left the company")
        assert offers(card)
        wrong = "cm" if card.keypad.code and card.keypad.code.text != "cm" else "fz"
        await person.hand.types(wrong)
        assert "locked 2 s" in person.text
        assert office.content() == before
        person.hand.at += 3
        await person.hand.types_code()
        await person.sees()
        assert "3 grants fell" in person.notice
        assert "✗ revoked" in person.line("finance-agent")
        assert "✗ cut off" in person.line("support-agent")
    record = office.records()[ids["finance"]]
    assert record.revoked_by == "tui:alice"
    assert not office.records()[ids["support"]].is_revoked
    event = office.events("DELEGATION_REVOKED")[-1]
    assert event.data["via"] == "tui"
    assert event.data["note"] == "left the company"
    found = office.store.get_approval(request)
    assert found is not None and found.status == "pending"


async def test_it_is_told_in_the_hand_over_with_its_command(office: Office) -> None:
    ids = office.usual()
    async with at_console(office, size=(200, 50)) as person:
        await opened(person, ids["night"])
        await fills(person, grants="1")
        await person.hand.types_code()
        await person.sees()
        await person.does("handover")
        assert "revoked night-agent" in person.text
        assert "now: revoked" in person.text
        assert f"ctrlrun revoke --by cli:alice --store-url sqlite://{office.path}" in person.text
        assert person.text.count(ids["night"]) == 1


async def test_it_needs_neither_policy_nor_document(office: Office) -> None:
    ids = office.usual()
    office.write_policy(None)
    async with at_console(office, policy=False) as person:
        await opened(person, ids["finance"])
        await fills(person, grants="3")
        await person.hand.types_code()
        await person.sees()
    assert office.records()[ids["finance"]].is_revoked


@pytest.mark.parametrize("damage", ["grant_json = '{broken'", "created_at = 'never'"])
async def test_a_row_that_nobody_can_read_is_revoked(office: Office, damage: str) -> None:
    made = office.hands_on("head", grant("bot"), "head-of-support")
    office.sql(f"UPDATE delegations SET {damage} WHERE delegation_id = ?", made)
    async with at_console(office) as person:
        assert "EVERY ACTION IS DENIED" in person.text
        card = await opened(person, made)
        assert "✗ unreadable" in person.text
        assert "every action of everyone is denied" in person.text
        assert "no live grant: this one covers nothing" in person.text
        await fills(person, grants="0")
        assert offers(card)
        await person.hand.types_code()
        await person.sees()
        assert "EVERY ACTION IS DENIED" not in person.text
        assert "no live grant fell" in person.notice
    assert office.events("DELEGATION_REVOKED")[-1].data["delegation_id"] == made


async def test_another_delegation_beneath_ends_the_card(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        await fills(person, grants="3")
        office.hands_on(ids["finance"], grant("late"), "finance-agent")
        await person.sees()
        assert "it changed while you read; nothing was written" in person.text
        assert not offers(card)
        before = office.content()
        assert card.keypad.code is not None
        await person.hand.types(card.keypad.code.text)
        assert office.content() == before


async def test_a_tree_that_moved_under_the_code_is_refused_in_the_unit(office: Office) -> None:
    """Nothing told the card in time: the write itself compares."""
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        answer = card.answer()
        late = office.hands_on(ids["finance"], grant("late"), "finance-agent")
        with pytest.raises(InvalidArgument, match="1 came and 0 went since; nothing was written"):
            answer(person.app.desk)  # type: ignore[arg-type]
        assert not office.records()[ids["finance"]].is_revoked
        office.desk().revoke(late)
        office.desk().revoke(ids["night"])
        with pytest.raises(InvalidArgument, match="0 came and 1 went"):
            answer(person.app.desk)  # type: ignore[arg-type]
        assert len(office.events("DELEGATION_REVOKED")) == 3


async def test_revoked_elsewhere_over_an_open_card(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["night"])
        await fills(person, grants="1", note="mine")
        answer = card.answer()
        office.desk().revoke(ids["night"])
        with pytest.raises(InvalidArgument, match="revoked before by tui:bob"):
            answer(person.app.desk)  # type: ignore[arg-type]
        await person.sees()
        assert "revoked by tui:bob at 03:12:45Z; nothing was written here" in person.text
        assert not offers(card)
    assert office.records()[ids["night"]].revoked_by == "tui:bob"
    assert len(office.events("DELEGATION_REVOKED")) == 2


async def test_a_grant_that_ends_beneath_changes_the_number(office: Office) -> None:
    ids = office.usual()
    office.hands_on(ids["finance"], grant("brief", hours=0.1), "finance-agent")
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        await fills(person, grants="4")
        assert offers(card)
        await person.waits(minutes=10)
        assert "3 live grants: this one and 2 beneath" in person.text
        assert not offers(card)
        await fills(person, grants="3")
        assert offers(card)


async def test_while_the_store_is_stale_there_is_no_code(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["night"])
        await fills(person, grants="1")
        assert offers(card)
        live = person.app.live
        person.app._set_live(Live(Reach.STALE, office.clock(), None, "disk on fire"))
        await person.hand.rests()
        assert "no answer now: STALE" in person.text
        assert not offers(card)
        person.app._set_live(live)


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_grants_are_shown_inert_on_the_card(office: Office, ascii_only: bool) -> None:
    given = json.dumps(
        {
            "actions": ["stripe.refund"],
            "constraints": {"amount_gte": 0, "amount_lte": 5, "note_in": list(HOSTILE[:10])},
            "subject": {"agent": "bot\u202e\x1b(0", "user": "\x07\x9b31m"},
        }
    )
    made = office.put(1, "head", given)
    office.put(2, made, grant("pаypal"))  # a Cyrillic letter among Latin ones
    glyphs = ASCII if ascii_only else UNICODE
    async with at_console(office, glyphs=glyphs, no_color=ascii_only) as person:
        await opened(person, made)
        for size in ((80, 24), (120, 40), (200, 50)):
            await person.resizes(size)
            for key in ("pagedown",) * 8 + ("home",):
                assert all(line.isprintable() for line in person.lines)
                await person.hand.keys(key)
            assert "Cancel" in person.text
        await person.hand.keys("y")
        assert all(line.isprintable() for line in person.lines)


async def test_many_grants_are_named_up_to_a_number(office: Office) -> None:
    top = office.hands_on("head", grant("top", delegable=True), "head-of-support")
    for number in range(230):
        office.put(number, top, grant(f"bot-{number}", 10))
    async with at_console(office, size=(120, 40)) as person:
        card = await opened(person, top)
        assert "231 live grants: this one and 230 beneath" in person.text
        assert card.drawn is not None
        laid = ["".join(span.text for span in each.line) for each in card.drawn.laid]
        assert "  and 30 more" in laid
        await fills(person, grants="231")
        assert offers(card)
