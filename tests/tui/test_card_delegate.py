"""The card that narrows a grant: its form, what it refuses, and what it writes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ctrlrun import Principal
from ctrlrun.authority import grant_from_json
from ctrlrun.errors import AuthorityEscalation
from ctrlrun_tui.cards.delegate import FIELD_NOTES, DelegateCard
from ctrlrun_tui.cards.field import Field
from ctrlrun_tui.glyphs import ASCII, UNICODE
from tests.lib.hostile import HOSTILE
from tests.tui.grants_scene import DANA, Office, Person, at_console, grant, grants

pytestmark = pytest.mark.anyio


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    made = Office(tmp_path)
    yield made
    made.close()


async def opened(person: Person, part: str) -> DelegateCard:
    """The card of a row."""
    await person.goes_to(part)
    await person.does("delegate")
    card = person.app.screen
    assert isinstance(card, DelegateCard), person.text
    person.hand.terminal_draws()
    return card


async def fills(person: Person, **texts: str) -> None:
    """Put texts into fields, as typing them would leave them."""
    for name, text in texts.items():
        person.app.screen.query_one(f"#{name}", Field).value = text
    await person.hand.rests()


def marks(person: Person) -> dict[str, str]:
    """The mark beside each field."""
    found = {}
    for line in person.lines:
        words = line.strip("│ ").split()
        if len(words) > 1 and words[-1] in ("fits", "wider", "wrong"):
            found[words[0]] = words[-1]
    return found


CASES = [
    # field, text, mark, what is said
    ("agent", "night-bot", "fits", ""),
    ("agent", "night-*", "wider", "agent: must name one agent, without *"),
    ("agent", "", "wider", "agent: must name one agent, without *"),
    ("user", DANA, "fits", ""),
    ("user", "", "wider", f"must name a user: the parent is for {DANA} alone"),
    ("user", "bob@example.com", "wider", "the user bob@example.com is not"),
    ("actions", "stripe.refund", "fits", ""),
    ("actions", "stripe.*", "wider", "stripe.* is not inside any of the parent's"),
    ("actions", "stripe.refund, crm.read", "wider", "crm.read is not inside"),
    ("actions", "", "wider", "actions: must be declared"),
    ("actions", "stripe..x", "wrong", "a segment is empty"),
    ("resources", "payment:EU-4*, payment:EU-5", "fits", ""),
    ("resources", '["payment:EU-a,b"]', "fits", ""),
    ("resources", "payment:*", "wider", "payment:* is not inside"),
    ("resources", "", "wider", "resources: must be declared"),
    ("resources", '["payment', "wrong", "begins like JSON"),
    ("constraints", "amount_gte 0, amount_lte 500", "fits", ""),
    ("constraints", "amount_lte: 500, amount_gte=1, tier_eq std", "fits", ""),
    ("constraints", '{"amount_gte": 5, "amount_lte": 6}', "fits", ""),
    ("constraints", "amount_gte 0, amount_lte 25001", "wider", "amount_lte is wider"),
    ("constraints", "amount_gte 0", "wider", "amount_lte must be declared"),
    ("constraints", "amount_gte 0, amount_lt 5", "wider", "amount_lte must be declared"),
    ("constraints", "", "wider", "amount_gte must be declared"),
    ("constraints", "amount_lte 1.5, amount_gte 0", "wrong", "int"),
    ("constraints", "amount_lte", "wrong", "amount_lte needs a value"),
    ("constraints", "amount_lte 5 amount_gte 0", "wrong", "a comma belongs between"),
    ("constraints", "amount_lte 5, amount_lte 6", "wrong", "amount_lte is given twice"),
    ("constraints", "amount 5", "wrong", "does not end in an operator"),
    ("constraints", "agent_eq x, amount_gte 0, amount_lte 1", "wrong", "reserved"),
    ("environments", "production", "fits", ""),
    ("environments", "production, staging", "wider", "staging is none of the parent's"),
    ("environments", "", "wider", "environments: must be declared"),
    ("expires_at", "2026-11-29T05:00:00Z", "fits", ""),
    ("expires_at", "2026-11-29T07:00:00+02:00", "fits", ""),
    ("expires_at", "2026-11-29T06:12:41.001Z", "wider", "is later than the parent's"),
    ("expires_at", "2026-11-29T06:12:43Z", "wider", "is later than the parent's"),
    ("expires_at", "", "wider", "expires_at: must be declared"),
    ("expires_at", "2026-11-29", "wrong", "needs an offset"),
    ("expires_at", "tomorrow", "wrong", "is no time"),
    ("expires_at", "2026-11-29T03:00:00Z", "wrong", "is over already"),
    ("delegable", "perhaps", "wrong", "is yes or no"),
]


async def test_each_dimension_fits_is_wider_or_cannot_be_read(office: Office) -> None:
    ids = office.usual()
    async with at_console(office, size=(120, 40)) as person:
        card = await opened(person, ids["finance"])
        start = {field.id or "": field.value for field in card.query(Field)}
        for field, text, mark, said in CASES:
            await fills(person, **(start | {"note": "x", "agent": "night-bot", field: text}))
            shown = marks(person)
            others = {name: each for name, each in shown.items() if name != field}
            assert set(others.values()) == {"fits"}, (field, text, shown)
            assert shown.get(field, "fits") == mark, (field, text, shown)
            lines = [line.strip("│ ") for line in person.lines]
            asks = (
                " ".join(lines[lines.index("note         x" + "_" * 47 + "  optional") :])
                if ("note         x" + "_" * 47 + "  optional" in lines)
                else " ".join(lines)
            )
            code = card.keypad.code
            assert code is not None
            assert code.offered is (mark == "fits"), (field, text)
            assert said in asks, (field, text, asks)


async def test_all_that_is_wider_is_named_and_nothing_typed_is_lost(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        await opened(person, ids["finance"])
        await fills(person, agent="", actions="**", environments="", expires_at="")
        assert "wider: agent, actions, environments, expires_at" in " ".join(
            person.text.replace("│", " ").split()
        )
        await person.hand.keys("escape")
        await opened(person, ids["finance"])
        assert "actions      **" in person.text
        assert marks(person)["environments"] == "wider"


async def test_the_code_hands_on_what_the_form_says(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        assert "from finance-agent, dana@example.com" in person.text
        assert "new at depth 2" in person.text
        assert "the code comes when a field differs" in " ".join(
            person.text.replace("│", " ").split()
        )
        await person.hand.keys("tab")
        await person.hand.keys(*["backspace"] * len("finance-agent"))
        await person.hand.types("night-bot")
        assert "leave the field with Enter" in person.text
        await person.hand.keys("enter")
        await fills(person, constraints="amount_gte 0, amount_lte 99", note="for the night")
        before = office.content()
        assert card.keypad.code is not None
        wrong = "cm" if card.keypad.code.text != "cm" else "fz"
        await person.hand.types(wrong)
        assert "locked 2 s: not the code" in person.text
        assert office.content() == before
        person.hand.at += 3
        await person.hand.types_code()
        await person.sees()
    made = {each.delegation_id: each for each in office.store.delegations(include_revoked=True)}
    (new,) = made.keys() - set(ids.values())
    record = made[new]
    given = grant_from_json(record.grant_json, delegation_id=new)
    assert (record.parent_id, record.depth, record.created_via) == (ids["finance"], 2, "cli")
    assert (record.created_by_agent, record.created_by_user) == ("finance-agent", DANA)
    assert given.subject.agent == "night-bot"
    assert {key: item.operand for key, item in given.constraints.items()} == {
        "amount_gte": 0,
        "amount_lte": 99,
    }
    assert not given.delegable
    event = office.events("DELEGATION_CREATED")[-1]
    assert event.data["by"] == "tui:alice"
    assert event.data["created_via"] == "cli"
    assert event.data["note"] == "for the night"
    assert f"made {new} for night-bot" in person.notice


async def test_the_new_one_is_in_the_tree_and_in_the_hand_over(office: Office) -> None:
    ids = office.usual()
    async with at_console(office, size=(120, 40)) as person:
        await opened(person, ids["finance"])
        await fills(person, agent="night-bot")
        await person.hand.types_code()
        await person.sees()
        assert "night-bot" in person.line("└ night-bot")
        await person.does("handover")
        assert "narrowed to night-bot" in person.text
        assert "now: in force" in person.text
        assert "ctrlrun delegate --parent" in "".join(
            line.strip() for line in person.lines
        ).replace(" | ", " ")
        assert "CTRLRUN_OPERATOR=alice" in person.text.replace("\n", "").replace(" ", "")


async def test_a_field_left_alone_means_the_parents_own_value(tmp_path: Path) -> None:
    section = grants()
    section[0] |= {
        "subject": {"agent": "head\u200b"},
        "actions": ["stripe.refund", "a, b.c"],
        "constraints": {"note_eq": "\u202eabc", "amount_lte": 5},
        "environments": ["prod\u00a0x"],
    }
    office = Office(tmp_path, section=section)
    async with at_console(office) as person:
        await opened(person, "grant:head")
        assert "⟨U+200B⟩" in person.text
        assert set(marks(person).values()) == {"fits"}
        await fills(person, agent="bot")
        await person.hand.types_code()
        await person.sees()
        record = next(iter(office.records().values()))
        document = json.loads(record.grant_json)
        assert document["constraints"] == {"note_eq": "\u202eabc", "amount_lte": 5}
        assert document["environments"] == ["prod\u00a0x"]
        assert document["actions"] == ["stripe.refund", "a, b.c"]
        assert record.created_by_agent == "head\u200b"
        await opened(person, "grant:head")
        await fills(person, agent="bot⟨U+200B⟩")
        assert marks(person)["agent"] == "wrong"
        assert "cannot be typed here" in person.text
    office.close()


async def test_a_pattern_as_parent_asks_in_whose_name(office: Office) -> None:
    async with at_console(office) as person:
        card = await opened(person, "grant:ops")
        assert "as_agent" in person.text
        await fills(person, agent="ops-night")
        assert "in whose name: an agent hands it on" in person.text
        await fills(person, as_agent="someone")
        assert "someone is not ops-*, whose grant it is" in " ".join(
            person.text.replace("│", " ").split()
        )
        assert card.keypad.code is not None and not card.keypad.code.offered
        await fills(person, as_agent="ops-day", as_user="eve")
        await person.hand.types_code()
        await person.sees()
        (record,) = office.records().values()
        assert (record.created_by_agent, record.created_by_user) == ("ops-day", "eve")


async def test_past_the_form_the_store_refuses_with_the_dimension(office: Office) -> None:
    ids = office.usual()
    before = office.records()
    with pytest.raises(AuthorityEscalation) as refused:
        office.desk().delegate(
            office.authority,
            ids["finance"],
            grant("bot", 25001),
            by=Principal("finance-agent", DANA),
        )
    assert refused.value.dimension == "constraints"
    assert "constraints" in str(refused.value)
    assert office.records() == before
    assert office.events("DELEGATION_REJECTED")[-1].data["dimension"] == "constraints"


async def test_a_refusal_of_the_store_stays_on_the_card_with_the_form(office: Office) -> None:
    """A document that became narrower after it was read: the store's verdict is the last word."""
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        await fills(person, agent="bot")
        desk = office.desk()

        def elsewhere() -> None:
            desk.revoke(ids["finance"])

        answer = card.answer()
        elsewhere()
        with pytest.raises(AuthorityEscalation, match="unknown_parent"):
            answer(person.app.desk)  # type: ignore[arg-type]
        assert len(office.records()) == 4


async def test_the_parent_revoked_elsewhere_ends_the_card(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        await fills(person, agent="bot")
        office.desk().revoke(ids["finance"])
        await person.sees()
        assert "revoked by tui:bob; nothing was written" in person.text
        assert card.keypad.code is not None and not card.keypad.code.offered
        before = office.content()
        await person.hand.types(card.keypad.code.text)
        assert office.content() == before


async def test_the_parent_expires_over_an_open_card(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        await fills(person, agent="bot")
        await person.waits(hours=3)
        assert "the parent expired 06:12:41Z, nothing was handed on" in person.text
        before = office.content()
        assert card.keypad.code is not None
        await person.hand.types(card.keypad.code.text)
        assert office.content() == before


async def test_a_changed_document_ends_the_card(office: Office) -> None:
    office.usual()
    async with at_console(office) as person:
        await opened(person, "grant:head")
        await fills(person, agent="bot")
        section = grants()
        section[0]["constraints"]["amount_lte"] = 1
        office.write_policy(section)
        await person.sees()
        assert "it changed while you read; nothing was written" in person.text


async def test_an_end_that_passes_while_the_card_is_open_takes_the_code(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        card = await opened(person, ids["finance"])
        await fills(person, agent="bot", expires_at="2026-11-29T03:15:00Z")
        assert card.keypad.code is not None and card.keypad.code.offered
        await person.waits(minutes=5)
        assert "expires_at: is over already" in person.text
        assert not card.keypad.code.offered


async def test_what_a_field_cannot_show_has_to_be_seen_above(office: Office) -> None:
    section = grants()
    section[0]["actions"] = [f"stripe.refund{number:03d}" for number in range(40)]
    office.write_policy(section)
    async with at_console(office) as person:
        card = await opened(person, "grant:head")
        await fills(person, agent="bot")
        assert card.keypad.code is not None and not card.keypad.code.offered
        assert "when every argument was shown" in person.text
        for _ in range(12):
            await person.hand.keys("pagedown")
        person.hand.terminal_draws()
        assert card.keypad.code.offered


async def test_nothing_is_typed_before_the_parents_values_are_there(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        await person.goes_to(ids["finance"])
        person.app.top.perform("delegate")  # type: ignore[union-attr]
        await person.pilot.pause()
        card = person.app.screen
        assert isinstance(card, DelegateCard)
        fields = list(card.query(Field))
        if card.drawn is None:  # else it was read already
            assert not any(field.can_focus for field in fields)
            for name in ("tab", "x"):
                person.hand.post(name)
        await person.hand.rests()
        assert card.query_one("#agent", Field).value == "finance-agent"
        assert all(field.can_focus for field in fields)
        await person.hand.keys("tab")
        assert card.in_field


async def test_leaving_asks_about_a_form(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        await opened(person, ids["finance"])
        await person.hand.keys("escape")
        assert person.app.card_memory.kept is None
        await opened(person, ids["finance"])
        await fills(person, agent="bot")
        await person.hand.keys("escape")
        assert person.app.card_memory.kept == "a form"


@pytest.mark.parametrize("ascii_only", [False, True])
async def test_hostile_parents_are_shown_inert_and_cancel_stays_on_the_screen(
    tmp_path: Path, ascii_only: bool
) -> None:
    section = grants()
    section[0] |= {
        "subject": {
            "agent": HOSTILE[0].replace("[", "(").replace("]", ")"),
            "user": HOSTILE[1][:1],
        },
        "constraints": {"note_eq": HOSTILE[4], "memo_in": list(HOSTILE[:6])},
        "environments": list(HOSTILE[:8]),
    }
    office = Office(tmp_path, section=section)
    glyphs = ASCII if ascii_only else UNICODE
    async with at_console(office, glyphs=glyphs, no_color=ascii_only) as person:
        await opened(person, "grant:head")
        await fills(
            person,
            agent="*",
            actions="",
            constraints="x",
            expires_at="y",
            note=glyphs.said(HOSTILE[2]),
        )
        for size in ((80, 24), (120, 40), (200, 50)):
            await person.resizes(size)
            assert all(line.isprintable() for line in person.lines)
            if ascii_only:
                assert person.text.isascii()
            assert "Cancel" in person.text
    office.close()


async def test_the_field_that_has_the_focus_is_explained_before_the_first_wrong_one(
    office: Office,
) -> None:
    ids = office.usual()
    async with at_console(office, size=(120, 40)) as person:
        card = await opened(person, ids["finance"])
        await fills(person, actions="**", constraints="amount_lte", expires_at="tomorrow")

        def asks() -> str:
            return " ".join(person.text.replace("│", " ").split())

        explained = {
            "constraints": "constraints: amount_lte needs a value",
            "expires_at": "is no time",
            "actions": "actions: ** is not inside",
        }
        for focused, said in (
            ("expires_at", "expires_at"),
            ("actions", "actions"),
            ("constraints", "constraints"),
            ("resources", "constraints"),  # nothing is wrong there: the first that cannot be read
        ):
            card.query_one(f"#{focused}", Field).focus()
            await person.hand.rests()
            for name, why in explained.items():
                assert (why in asks()) is (name == said), (focused, name, asks())
        await person.hand.keys("enter")
        assert explained["constraints"] in asks()


async def test_the_key_page_is_named_as_the_card_and_says_what_fields_take(office: Office) -> None:
    ids = office.usual()
    async with at_console(office) as person:
        await opened(person, ids["finance"])
        await person.hand.keys("?")
        assert person.line("Keys").strip() == "Keys  narrow"
        for note in FIELD_NOTES:
            assert note.sentence in person.line(f"  {note.keys} ")
        assert "Enter Esc" in person.text
