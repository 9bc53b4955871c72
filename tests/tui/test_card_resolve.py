"""The card that resolves an AMBIGUOUS effect: evidence, three answers, and what each of them asks."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from ctrlrun.effect import EffectRecord, EffectState, Holder
from ctrlrun.errors import AmbiguousEffect
from ctrlrun.process import Life, this_process
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.cards.reading import Phase
from ctrlrun_tui.cards.resolve import Choice, ResolveCard
from ctrlrun_tui.data.models import Role
from tests.tui.card_scene import Hand, Scene, at_desk, noticed, scene, show, told

pytestmark = pytest.mark.anyio


@pytest.fixture
def made(tmp_path: Path) -> Scene:
    return scene(tmp_path)


def lost(made: Scene) -> EffectRecord:
    with closing(made.open()) as store:
        record = store.get_effect(made.ids["lost"])
    assert record is not None
    return record


async def chosen(hand: Hand, key: str) -> None:
    await hand.keys(key)


async def test_it_shows_the_evidence_and_what_each_answer_licenses(made: Scene) -> None:
    made.clock.advance(minutes=12)
    async with at_desk(made) as (app, pilot):
        await show(pilot, ResolveCard(made.ids["lost"]))
        shown = told(app)
    assert "AMBIGUOUS for 12:0" in shown
    assert "refund:txn_9   stripe.refund, attempt 1   EUR 500.00" in shown
    assert "TimeoutError: no response after 30s" in shown
    assert "1 refused, the last 03:00:4" in shown
    assert "it happened: a retry stays refused" in shown
    assert "if you are wrong it happens twice" in shown
    assert "what you note is kept" in shown
    assert "failed" not in shown  # a lost reply is no failure


async def test_no_answer_is_preset_and_none_has_a_code(made: Scene) -> None:
    before = made.content()
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        assert "Choose with 1, 2 or 3." in told(app)
        await hand.keys("enter")
    assert made.content() == before


async def test_committed_asks_for_a_source_and_writes_it(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, "1")
        assert "the code comes with source" in told(app)
        await hand.writes("source", "re_9f at the provider")
        await hand.types_code()
        assert "refund:txn_9 resolved COMMITTED" in noticed(app)
    record = lost(made)
    assert (record.state, record.resolved_by) == (EffectState.COMMITTED, "tui:alice")
    (event,) = made.events("EFFECT_RESOLVED")
    assert event.data == {
        "state": "committed",
        "resolver": "tui:alice",
        "resolved_by": "human",
        "source": "re_9f at the provider",
        "via": "tui",
    }


async def test_failed_asks_for_the_key_typed_whole_as_well(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, "2")
        await hand.writes("source", "dashboard")
        assert hand.card.why_no_code() is not None
        await hand.writes("effect", "refund:txn_")
        assert "is not the one above" in told(app)
        await hand.writes("effect", "9")
        await hand.writes("note", "asked dana")
        await hand.types_code()
    assert lost(made).state is EffectState.FAILED
    (event,) = made.events("EFFECT_RESOLVED")
    assert event.data["note"] == "asked dana"


async def test_still_unknown_writes_an_event_and_leaves_the_effect_blocked(made: Scene) -> None:
    before = lost(made)
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, "3")
        await hand.writes("note", "provider is down")
        await hand.types_code()
    assert lost(made) == before
    event = made.events("RECONCILIATION_RESOLVED")[-1]
    assert event.data == {
        "outcome": "unknown",
        "by": "tui:alice",
        "note": "provider is down",
        "via": "tui",
    }
    assert event.effect_key == made.ids["lost"]


@pytest.mark.parametrize(("key", "fields"), [("1", ["source", "note"]), ("3", ["note"])])
async def test_each_answer_has_its_own_fields(made: Scene, key: str, fields: list[str]) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, key)
        rows = [row for row in hand.card.query("FieldRow") if row.display]
    assert [row.id for row in rows] == [f"row-{name}" for name in fields]


async def test_another_choice_changes_the_code(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, "1")
        await hand.writes("source", "link")
        first = hand.card.keypad.code
        await chosen(hand, "3")
        second = hand.card.keypad.code
        assert first is not None and second is not None
        assert set(first.text) != set(second.text)


async def test_a_digit_switches_the_choice_in_sight_and_never_from_a_field(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        card = hand.card
        assert isinstance(card, ResolveCard)
        await chosen(hand, "2")
        assert noticed(app) == ""
        card.query_one("#source").focus()
        await hand.types("1 2 31")
        assert (card.choice, card.text_of("source")) == (Choice.FAILED, "1 2 31")
        await hand.keys("escape", "1", gap=0.5)
        assert card.choice is Choice.COMMITTED
        assert noticed(app) == "COMMITTED now, no longer FAILED"
        assert app.notice.text[0].role is Role.NEEDS
        await hand.keys("2")
        assert noticed(app) == "FAILED now, no longer COMMITTED"


async def test_a_source_that_is_hidden_is_not_written(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, "1")
        await hand.writes("source", "link")
        await chosen(hand, "3")
        await hand.types_code()
    assert "source" not in made.events("RECONCILIATION_RESOLVED")[-1].data


async def test_no_way_to_resolve_in_fewer_than_three_different_keys(made: Scene) -> None:
    """Any two keys, pressed in every order and pace, answer nothing."""
    before = made.content()
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        for pair in ("1c", "1f", "2m", "3z", "3c", "3f", "3m"):
            await hand.keys(*(pair * 6), gap=0.5, first=2.5)
    assert made.content() == before


async def test_resolved_elsewhere_the_card_says_by_whom(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, "1")
        await hand.writes("source", "link")
        with closing(made.open()) as store:
            store.resolve_effect(made.ids["lost"], EffectState.FAILED, "tui:bob")
        await hand.hears()
        assert hand.card.phase is Phase.OVER
        assert "by tui:bob" in told(app)
        assert hand.card.text_of("source") == "link"
    assert made.events("EFFECT_RESOLVED") == []


async def test_another_attempt_at_the_same_key_ends_the_card(made: Scene) -> None:
    key = made.ids["lost"]
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(key))
        await chosen(hand, "3")
        code = hand.card.keypad.code
        assert code is not None
        with closing(made.open()) as store:
            store.resolve_effect(key, EffectState.FAILED, "tui:bob")
            store.reserve_effect(key, "act_other")
            store.begin_execution(key, "act_other")
            store.mark_ambiguous(key, "act_other", "lost again")
        await hand.hears()
        assert hand.card.phase is Phase.OVER
        assert "changed while you read" in told(app)
        before = made.content()
        await hand.types(code.text)
        assert made.content() == before


async def test_the_write_is_bound_to_the_attempt_that_was_drawn(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = made.ids["lost"]
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard(key))
        await chosen(hand, "1")
        await hand.writes("source", "link")
        monkeypatch.setattr(ResolveCard, "on_store_changed", lambda card: None)
        with closing(made.open()) as store:
            store.resolve_effect(key, EffectState.FAILED, "tui:bob")
            store.reserve_effect(key, "act_other")
            store.begin_execution(key, "act_other")
            store.mark_ambiguous(key, "act_other", "lost again")
        await hand.types_code()
        assert "refused" in noticed(app)
        assert hand.card.text_of("source") == "link"
    assert (lost(made).state, lost(made).attempt) == (EffectState.AMBIGUOUS, 2)


async def test_a_key_that_is_shown_in_tokens_is_typed_as_it_is_shown(made: Scene) -> None:
    key = "refund:\u202etxn\x1b"
    with closing(made.open()) as store:
        store.reserve_effect(key, "act_h")
        store.begin_execution(key, "act_h")
        store.mark_ambiguous(key, "act_h", "lost")
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(key))
        await chosen(hand, "2")
        await hand.writes("source", "link")
        await hand.writes("effect", "refund:⟨U+202E⟩txn␛")
        await hand.types_code()
    with closing(made.open()) as store:
        record = store.get_effect(key)
    assert record is not None and record.state is EffectState.FAILED


async def test_after_enter_in_a_field_tab_goes_on_behind_it(made: Scene) -> None:
    """What is meant for the key would be written into the source, and kept for good."""
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ResolveCard(made.ids["lost"]))
        await chosen(hand, "2")
        await hand.writes("effect", made.ids["lost"])
        await hand.writes("source", "dashboard")
        assert hand.card.focused is hand.card.cancel
        await pilot.press("tab")
        assert hand.card.focused is not None
        assert hand.card.focused.id == "effect"


# --- while the holder lives ----------------------------------------------------------------------


SLOW = "refund:slow"


def slow(made: Scene, **changes: object) -> None:
    """An effect whose lease ran out under this very process; of the holder, anything may differ."""
    mine = this_process()
    with closing(made.open()) as store:
        store.reserve_effect(SLOW, "act_slow", timedelta(seconds=1))
        store.begin_execution(SLOW, "act_slow")
        held = Holder(
            SLOW,
            "act_slow",
            1,
            mine.host,
            mine.pid,
            mine.boot_id,
            "MainThread",
            mine.started_at,
            made.clock(),
        )
        store.put_holder(replace(held, **changes))  # type: ignore[arg-type]
        made.clock.advance(seconds=540)
        with pytest.raises(AmbiguousEffect):
            store.reserve_effect(SLOW, "act_rival")


async def test_failed_asks_why_while_the_holder_lives(made: Scene) -> None:
    slow(made)
    async with at_desk(made, size=(80, 40)) as (app, pilot):
        hand = await show(pilot, ResolveCard(SLOW))
        shown = told(app)
        assert f"pid {this_process().pid}, alive now" in shown
        assert "its holder lives and may still act" in shown
        await chosen(hand, "2")
        await hand.writes("source", "dashboard")
        await hand.writes("effect", SLOW)
        assert "source and effect and note" in " ".join(told(app).replace("│", " ").split())
        assert hand.card.why_no_code() is not None
        await hand.writes("note", "the pod is frozen and will be deleted")
        await hand.types_code()
        assert "resolved FAILED" in noticed(app)
    assert made.events("EFFECT_RESOLVED")[-1].data["note"].startswith("the pod is frozen")


async def test_the_note_is_asked_for_as_it_is_with_this_answer_and_this_holder(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow(made)
    async with at_desk(made, size=(80, 40)) as (app, pilot):
        hand = await show(pilot, ResolveCard(SLOW))
        for key, hint in (("3", "optional"), ("2", "needed: say why"), ("1", "optional")):
            await chosen(hand, key)
            assert note_row(app).endswith(f"_  {hint} │")
        await chosen(hand, "2")
        # It ends without a word to the store.
        monkeypatch.setattr("ctrlrun.operator.holding.look", lambda pid, started_at: Life.GONE)
        made.clock.advance(seconds=3)
        app.tick()
        await hand.rests()
        assert "same host, process is gone" in told(app)
        assert note_row(app).endswith("_  optional │")
        assert "code comes with source and effect." in told(app)
        monkeypatch.undo()
        made.clock.advance(seconds=3)
        app.tick()
        await hand.rests()
        assert note_row(app).endswith("_  needed: say why │")


def note_row(app: ConsoleApp) -> str:
    """The line of the note."""
    (row,) = (row.strip() for row in told(app).splitlines() if row.startswith("  │   note "))
    return row


async def test_the_other_answers_ask_for_no_reason(made: Scene) -> None:
    slow(made)
    async with at_desk(made, size=(80, 40)) as (_, pilot):
        hand = await show(pilot, ResolveCard(SLOW))
        await chosen(hand, "3")
        assert hand.card.why_no_code() is None
        await chosen(hand, "1")
        await hand.writes("source", "re_9f")
        await hand.types_code()
    assert made.events("EFFECT_RESOLVED")[-1].data["state"] == "committed"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"started_at": "0.01"}, "same host, process is gone"),
        ({"host": "web-3", "pid": 4121}, "web-3 pid 4121, other host, last seen 9 min ago"),
    ],
    ids=["gone", "elsewhere"],
)
async def test_a_holder_that_is_not_known_to_live_asks_for_nothing(
    made: Scene, changes: dict[str, object], said: str
) -> None:
    slow(made, **changes)
    async with at_desk(made, size=(100, 40)) as (app, pilot):
        hand = await show(pilot, ResolveCard(SLOW))
        shown = told(app)
        assert said in shown
        assert "may still act" not in shown
        await chosen(hand, "2")
        await hand.writes("source", "dashboard")
        await hand.writes("effect", SLOW)
        assert hand.card.why_no_code() is None


async def test_hostile_hosts_are_inert_on_the_card(made: Scene) -> None:
    slow(made, host="web\x1b[2J\n\u202e" + "x" * 300)
    async with at_desk(made, size=(80, 40)) as (app, pilot):
        await show(pilot, ResolveCard(SLOW))
        assert not {"\x1b", "\u202e"} & set(told(app))


async def test_the_evidence_of_an_attempt_that_ended_names_no_holder(made: Scene) -> None:
    """Its process lives on, and has nothing more to do with the effect."""
    async with at_desk(made, size=(80, 40)) as (app, pilot):
        await show(pilot, ResolveCard(made.ids["lost"]))
        assert "held by" not in told(app)


# --- an attempt that left no outcome -------------------------------------------------------------


def crashed(made: Scene, *, is_gone: bool) -> None:
    """An attempt at refund:txn_c whose lease has lapsed, or whose process is gone before that."""
    lease = timedelta(minutes=5 if is_gone else 1)
    with closing(made.open()) as store:
        store.reserve_effect("refund:txn_c", "act_c", lease)
        here = this_process()
        process = (here.host, 2**22 + 1, here.boot_id, "main", "0.01")
        store.put_holder(Holder("refund:txn_c", "act_c", 1, *process, made.clock()))
    made.clock.advance(minutes=2)


@pytest.mark.parametrize("is_gone", [False, True], ids=["lapsed", "gone"])
async def test_a_crashed_attempt_is_resolved(made: Scene, is_gone: bool) -> None:
    crashed(made, is_gone=is_gone)
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard("refund:txn_c"))
        shown = told(app)
        clock = "process gone, 3:00 of its lease left" if is_gone else "lease lapsed 1:00 ago"
        assert clock in shown
        await chosen(hand, "1")
        await hand.writes("source", "re_c at the provider")
        if is_gone:
            assert "the code comes with source and note" in told(app)
            await hand.writes("note", "the pod was evicted")
        await hand.types_code()
        assert "refund:txn_c resolved COMMITTED" in noticed(app)
    with closing(made.open()) as store:
        record = store.get_effect("refund:txn_c")
    assert record is not None
    assert (record.state, record.resolved_by) == (EffectState.COMMITTED, "tui:alice")
    assert made.events()[-2].data == {"reason": "ambiguous", "by": "tui:alice"}


async def test_a_lapsed_attempt_can_stay_unknown(made: Scene) -> None:
    crashed(made, is_gone=False)
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard("refund:txn_c"))
        await chosen(hand, "3")
        await hand.types_code()
        assert "refund:txn_c stays as it is" in noticed(app)
    assert made.events()[-1].data["outcome"] == "unknown"


async def test_a_lapsed_attempt_that_ends_while_it_is_read_is_not_resolved(made: Scene) -> None:
    crashed(made, is_gone=False)
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ResolveCard("refund:txn_c"))
        await chosen(hand, "1")
        await hand.writes("source", "re_c")
        with closing(made.open()) as store:
            store.begin_execution("refund:txn_c", "act_c")
            store.commit_effect("refund:txn_c", "act_c", None)
        before = made.content()
        await hand.types_code()
        assert "nothing was written" in told(app) or "nothing was written" in noticed(app)
    assert made.content() == before
