"""Several requests: the review that goes through them, and the refusal of all under one note."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun_tui.cards.base import Card
from ctrlrun_tui.cards.outcome import Outcome
from ctrlrun_tui.cards.reading import Phase
from ctrlrun_tui.cards.review import DenyMarkedCard, ReviewCard
from tests.tui.card_scene import Scene, at_desk, noticed, scene, show, told

pytestmark = pytest.mark.anyio


@pytest.fixture
def made(tmp_path: Path) -> Scene:
    return scene(tmp_path)


def nine(made: Scene) -> list[ApprovalRecord]:
    return [made.record(request_id) for request_id in made.ids["nine"]]


def statuses(made: Scene) -> list[str]:
    return [made.status(request_id).value for request_id in made.ids["nine"]]


async def test_nine_marked_one_answered_elsewhere_and_one_expired_in_mid_review(
    made: Scene,
) -> None:
    """Exactly the table, exactly the writes."""
    records = nine(made)
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ReviewCard(records))
        assert "review 1 of 9" in told(app)
        await hand.types_code()  # 1 granted
        await hand.keys("n")
        await hand.types_code()  # 2 denied
        await hand.keys("s")  # 3 skipped
        await hand.types_code()  # 4 granted
        with closing(made.open()) as store:
            store.grant_approval(records[4].approval_id, "tui:bob")  # 5, while it is read
            store.deny_approval(records[7].approval_id, "tui:bob")  # 8, before its turn
        await hand.hears()
        assert "granted by tui:bob" in told(app)
        assert hand.card.phase is Phase.OVER
        await hand.keys("s")
        await hand.types_code()  # 6 granted
        made.clock.now = records[6].expires_at
        made.clock.advance(milliseconds=1)
        app.tick()  # 7 expires while it is read
        assert "expired" in told(app)
        await hand.keys("s")  # 8 is passed over, 9 is shown
        assert "review 9 of 9" in told(app)
        await hand.types_code()
        shown = told(app)
        card = hand.card
    assert isinstance(card, ReviewCard)
    assert [each.outcome for each in card.ended] == [
        Outcome.GRANTED,
        Outcome.DENIED,
        Outcome.SKIPPED,
        Outcome.GRANTED,
        Outcome.OTHERS,
        Outcome.GRANTED,
        Outcome.EXPIRED,
        Outcome.OTHERS,
        Outcome.GRANTED,
    ]
    joined = " ".join(line.strip(" │") for line in shown.splitlines())
    assert (
        "4 granted, 1 denied, 1 expired while you read, 2 answered by others, 1 skipped" in joined
    )
    assert shown.count("granted by tui:bob") == 1
    assert "denied by tui:bob" in shown
    assert statuses(made) == [
        "granted",
        "denied",
        "pending",
        "granted",
        "granted",
        "granted",
        "pending",
        "denied",
        "granted",
    ]
    ours = [event.approval_id for event in made.events("APPROVAL_GRANTED", "APPROVAL_DENIED")]
    assert ours == [records[index].approval_id for index in (0, 1, 3, 5, 8)]
    assert made.events("APPROVAL_EXPIRED") == []


async def test_each_card_of_a_review_has_its_own_code_and_its_own_note(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ReviewCard(nine(made)[:2]))
        first = hand.card.keypad.code
        await hand.writes("note", "only the first")
        await hand.types_code()
        second = hand.card.keypad.code
        assert first is not None and second is not None
        assert set(first.text) != set(second.text)
        assert hand.card.text_of("note") == ""
        await hand.types_code()
    notes = [event.data.get("note") for event in made.events("APPROVAL_GRANTED")]
    assert notes == ["only the first", None]


async def test_the_code_typed_on_into_the_next_card_answers_nothing(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ReviewCard(nine(made)[:2]))
        code = hand.card.keypad.code
        assert code is not None
        await hand.types(code.text * 10, gap=0.06)
    assert statuses(made)[:2] == ["granted", "pending"]


async def test_what_arrives_never_joins(made: Scene) -> None:
    from tests.tui.helpers import ask

    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ReviewCard(nine(made)[:2]))
        with closing(made.open()) as store:
            for number in range(10):
                ask(store, number, at=made.clock.now)
        await hand.hears()
        assert "review 1 of 2" in told(app)
        await hand.keys("s", "s", gap=0.5)
        assert "2 skipped" in told(app)


@pytest.mark.parametrize("key", ["escape", "enter"])
async def test_stopping_skips_the_rest_and_shows_the_table(made: Scene, key: str) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ReviewCard(nine(made)))
        await hand.types_code()
        await hand.keys(key)
        assert "1 granted, 8 skipped" in told(app)
        assert "review: 1 granted, 8 skipped" in noticed(app)
        await hand.keys("n", "s", "m", gap=0.5)  # over: no key does anything
        await hand.keys(key)
        assert not isinstance(app.screen, Card)
    assert statuses(made) == ["granted"] + ["pending"] * 8


async def test_a_review_of_what_was_all_answered_shows_the_table_at_once(made: Scene) -> None:
    records = nine(made)[:2]
    with closing(made.open()) as store:
        for record in records:
            store.grant_approval(record.approval_id, "tui:bob")
    async with at_desk(made) as (app, pilot):
        await show(pilot, ReviewCard(records))
        assert "2 answered by others" in told(app)


# --- deny the marked -----------------------------------------------------------------------------


async def test_the_marked_are_denied_under_one_note_with_one_write_each(made: Scene) -> None:
    records = nine(made)[:3]
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, DenyMarkedCard(records))
        assert "deny 3 marked" in told(app)
        for _ in range(3):
            await hand.keys("pagedown")
        await hand.writes("note", "wrong campaign")
        await hand.types_code()
        assert "3 denied" in told(app)
    denied = made.events("APPROVAL_DENIED")
    assert [event.approval_id for event in denied] == [record.approval_id for record in records]
    assert {event.data["note"] for event in denied} == {"wrong campaign"}
    assert statuses(made) == ["denied"] * 3 + ["pending"] * 6


async def test_marked_requests_that_moved_are_told_and_not_written(made: Scene) -> None:
    records = nine(made)[:4]
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, DenyMarkedCard(records))
        for _ in range(4):
            await hand.keys("pagedown")
        made.clock.now = records[0].expires_at
        made.clock.advance(milliseconds=1)  # the first one is expired
        with closing(made.open()) as store:
            store.grant_approval(records[1].approval_id, "tui:bob")
        await hand.hears()
        await hand.types_code()
        assert "2 denied, 1 expired while you read, 1 answered by others" in told(app)
    assert statuses(made)[:4] == ["pending", "granted", "denied", "denied"]
    assert made.events("APPROVAL_EXPIRED") == []


async def test_the_note_of_the_marked_is_kept_when_the_card_is_left(made: Scene) -> None:
    records = nine(made)[:2]
    before = made.content()
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, DenyMarkedCard(records))
        await hand.writes("note", "wrong campaign")
        await hand.does("cancel")
        hand = await show(pilot, DenyMarkedCard(records))
        assert hand.card.text_of("note") == "wrong campaign"
    assert made.content() == before


async def test_an_altered_request_among_the_marked_is_not_answered_as_what_was_marked(
    made: Scene,
) -> None:
    import sqlite3

    records = nine(made)[:2]
    with closing(sqlite3.connect(made.path)) as connection, connection:
        connection.execute(
            "update approvals set action_hash = 'sha256:other' where approval_id = ?",
            (records[0].approval_id,),
        )
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, DenyMarkedCard(records))
        for _ in range(3):
            await hand.keys("pagedown")
        await hand.types_code()
        assert "1 denied, 1 not confirmed" in told(app)
    assert made.status(records[0].approval_id) is ApprovalStatus.PENDING
