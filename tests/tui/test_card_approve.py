"""The cards that grant or deny one request: what they show, and what they write."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.operator import read_policy
from ctrlrun_tui.cards.approve import ApproveCard
from ctrlrun_tui.cards.base import Card
from ctrlrun_tui.cards.deny import DenyCard
from ctrlrun_tui.cards.reading import Phase
from ctrlrun_tui.glyphs import ENCODING_ASCII
from tests.tui.card_scene import Hand, Scene, at_desk, noticed, scene, show, told

pytestmark = pytest.mark.anyio


@pytest.fixture
def made(tmp_path: Path) -> Scene:
    return scene(tmp_path)


# --- what it shows -------------------------------------------------------------------------------


async def test_a_card_shows_every_argument_in_json_form_and_who_asks(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        await show(pilot, ApproveCard(made.ids["low"]))
        lines = [line.strip(" │") for line in told(app).splitlines()]
    assert "count       1" in lines
    assert 'text        "1"' in lines
    assert 'to          "cfo@example.com"' in lines
    assert lines.index("count       1") < lines.index('message_id  "1"')  # canonical order
    assert "principal   mail-agent" in lines
    digits = made.record("low").action_hash.rpartition(":")[2]
    assert (
        f"hash        sha256:{digits[:8]}…{digits[-8:]}       ✓ matches the stored action" in lines
    )


async def test_money_stands_beside_the_amount_and_the_rule_beside_the_reason(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        await show(pilot, ApproveCard(made.ids["high"]))
        shown = told(app)
    assert "amount      200000                                        EUR 2,000.00" in shown
    assert "principal   refund-agent (user: dana@example.com)" in shown
    assert "rule[1]: amount 0 to 500000, PAY-4EYES" in shown
    assert "policy unchanged" in shown
    assert "refund:txn_8, no receipt yet" in shown


async def test_the_same_effect_asked_with_another_amount_is_told(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["high"]))
        await hand.keys("end")
        assert "≠ same effect asked again" in told(app)
        assert "with amount 240000, waiting" in told(app)


async def test_production_does_not_look_like_anything_else(tmp_path: Path) -> None:
    made = scene(tmp_path)
    from tests.tui.helpers import ask

    with closing(made.open()) as store:
        request_id = ask(store, 7, at=made.clock.now)
    async with at_desk(made) as (app, pilot):
        await show(pilot, ApproveCard(request_id))
        assert "stripe.refund" in told(app).splitlines()[2]
        assert told(app).splitlines()[2].rstrip("│ ").endswith("PRODUCTION")


async def test_words_that_mix_scripts_are_flagged_and_json_escapes_are_not(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["mixed"]))
        await hand.keys("end")
        flagged = [line for line in told(app).splitlines() if "several scripts" in line]
    assert len(flagged) == 1
    assert "in argument subject: раypal" in flagged[0]


async def test_hostile_text_is_shown_as_tokens_and_interprets_nothing(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        await show(pilot, ApproveCard(made.ids["hostile"]))
        shown = told(app)
    joined = "".join(line.strip(" │") for line in shown.splitlines())
    assert r'"a[green]1[/green]0\u001b[2J⟨U+202E⟩⟨U+200B⟩⟨U+009B⟩31m [/x"' in joined
    assert "sub[b]ject" in shown
    assert all(character.isprintable() for line in shown.splitlines() for character in line)


# --- which code, and when ------------------------------------------------------------------------


async def test_a_low_grant_ends_with_letters(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        assert "To grant as tui:alice, type  " in told(app)
        await hand.types_code()
        assert "granted email.send" in noticed(app)
        assert not isinstance(app.screen, Card)
    assert made.status("low") is ApprovalStatus.GRANTED


async def test_a_high_grant_ends_with_the_last_four_characters_of_the_hash(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["high"]))
        assert "type the hash's last four characters" in told(app)
        await hand.types(made.record("high").action_hash[-4:])
    assert made.status("high") is ApprovalStatus.GRANTED
    (granted,) = made.events("APPROVAL_GRANTED")
    assert granted.data == {
        "approver": "tui:alice",
        "action_hash": made.record("high").action_hash,
        "via": "tui",
    }
    assert granted.approval_id == made.ids["high"]


async def test_without_the_policy_that_asked_every_grant_is_high(made: Scene) -> None:
    async with at_desk(made, policy=False) as (app, pilot):
        await show(pilot, ApproveCard(made.ids["low"]))
        assert "policy not read" in told(app)
        assert "hash's last four characters" in told(app)


async def test_the_code_comes_when_every_argument_was_on_the_screen(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["many"]))
        assert "PgDn shows the rest" in told(app)
        await hand.keys("end")  # the end was seen, what lies between was not
        assert hand.card.why_no_code() is not None
        await hand.keys("home")
        for _ in range(8):
            await hand.keys("pagedown")
        assert hand.card.why_no_code() is None
        await hand.types_code()
    assert made.status("many") is ApprovalStatus.GRANTED


async def test_a_folded_value_has_to_be_opened_and_scrolled_through(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["long"]))
        assert "5,002 characters, v whole" in told(app)
        assert "v unfolds them" in told(app)
        await hand.keys("end", "home")
        assert hand.card.why_no_code() is not None
        await hand.keys("v")
        assert "PgDn shows the rest" in told(app)
        for _ in range(20):
            await hand.keys("pagedown")
        assert hand.card.why_no_code() is None
        await hand.keys("v")  # folded again: it has been on the screen
        assert hand.card.why_no_code() is None


async def test_a_policy_that_changes_under_the_card_makes_its_grant_high(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        code = hand.card.keypad.code
        assert code is not None
        changed = made.folder / "other.yaml"  # not the watched one: the news comes from here
        text = (made.folder / "ctrlrun.yaml").read_text("utf-8")
        changed.write_text(text.replace("500000", "400000"), "utf-8")
        app.policy = read_policy(changed)
        hand.card.on_store_changed()
        await hand.rests()
        assert "policy CHANGED since" in told(app)
        assert "hash's last four characters" in told(app)
        await hand.types(code.text)
        assert made.status("low") is ApprovalStatus.PENDING


async def test_two_cards_never_show_the_same_letters(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        codes = []
        for name in ("low", "mixed"):
            hand = await show(pilot, ApproveCard(made.ids[name]))
            assert hand.card.keypad.code is not None
            codes.append(set(hand.card.keypad.code.text))
            await hand.does("cancel")
    assert codes[0] != codes[1]


# --- keys ----------------------------------------------------------------------------------------


async def test_enter_and_escape_leave_without_a_write(made: Scene) -> None:
    before = made.content()
    async with at_desk(made) as (app, pilot):
        for key in ("enter", "escape", "backspace"):
            hand = await show(pilot, ApproveCard(made.ids["low"]))
            await hand.keys(key)
            assert not isinstance(app.screen, Card), key
            assert made.content() == before, key


async def test_no_other_key_answers(made: Scene) -> None:
    before = made.content()
    async with at_desk(made) as (_, pilot):
        for key in ("a", "q", "b", "space", "y", "left", "ctrl+m", "alt+m", "up"):
            hand = await show(pilot, ApproveCard(made.ids["low"]))
            await hand.keys(key, key)
            assert made.content() == before, key
            await hand.keys("escape")


async def test_a_wrong_letter_says_that_the_code_is_locked(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.keys("x")
        assert "locked 2 s: not the code" in told(app)
        code = hand.card.keypad.code
        assert code is not None
        await hand.types(code.text, first=1.0)  # within the two seconds
        assert made.status("low") is ApprovalStatus.PENDING


async def test_the_code_before_the_terminal_has_drawn_it_answers_nothing(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        code = hand.card.keypad.code
        assert code is not None
        await hand.types(code.text, first=0.25)
        assert made.status("low") is ApprovalStatus.PENDING


async def test_keys_are_judged_by_the_time_at_which_they_were_read(made: Scene) -> None:
    """Typed too early and handled late, behind a loop that was busy."""
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        code = hand.card.keypad.code
        assert code is not None
        hand.at -= 5
        await hand.types(code.text, first=0)
        assert made.status("low") is ApprovalStatus.PENDING


async def test_without_an_answer_of_the_terminal_the_write_counts_after_a_second(
    made: Scene,
) -> None:
    async with at_desk(made) as (app, pilot):
        app.push_screen(card := ApproveCard(made.ids["low"]))
        while card.keypad.code is None or card.keypad.code.drawn_at is None:
            await pilot.pause(0.05)
        assert app.card_memory._asked  # the terminal still owes its answer


async def test_a_paste_outside_a_field_locks_the_code(made: Scene) -> None:
    from textual import events

    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        assert hand.card.keypad.code is not None
        app.post_message(events.Paste(hand.card.keypad.code.text))
        await pilot.pause()
        assert "locked" in told(app)
    assert made.status("low") is ApprovalStatus.PENDING


# --- the note ------------------------------------------------------------------------------------


async def test_letters_in_the_note_are_the_notes_and_the_note_is_written(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        hand.card.query_one("#note").focus()
        await hand.pilot.pause()
        await hand.types("call from marc, confirm zoom", gap=0.06)
        assert "then the code comes" in told(app)
        await hand.keys("enter")
        await hand.types_code()
    (granted,) = made.events("APPROVAL_GRANTED")
    assert granted.data["note"] == "call from marc, confirm zoom"


async def test_a_draft_survives_leaving_the_card(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "asked dana")
        assert hand.card.has_draft() == "a note"
        await hand.does("cancel")
        hand = await show(pilot, DenyCard(made.ids["low"]))  # the same request, another answer
        assert hand.card.text_of("note") == ""
        await hand.does("cancel")
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        assert hand.card.text_of("note") == "asked dana"
        await hand.types_code()
    (granted,) = made.events("APPROVAL_GRANTED")
    assert granted.data["note"] == "asked dana"


async def test_a_hostile_paste_into_the_note_becomes_visible_text(made: Scene) -> None:
    from textual import events

    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        hand.card.query_one("#note").focus()
        await pilot.pause()
        app.post_message(events.Paste("one\r\ntwo\x1b[2J\u202e"))
        await pilot.pause()
        assert hand.card.text_of("note") == "one⏎two␛[2J⟨U+202E⟩"


async def test_marks_that_letters_need_may_be_typed_one_by_one(made: Scene) -> None:
    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "नमस्ते e\u0301")
        assert hand.card.text_of("note") == "नमस्ते \u00e9"


# --- the record moves ----------------------------------------------------------------------------


async def test_answered_elsewhere_the_card_says_who_and_when_and_offers_no_code(
    made: Scene,
) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        code = hand.card.keypad.code
        assert code is not None
        made.clock.advance(seconds=9)
        with closing(made.open()) as store:
            store.deny_approval(made.ids["low"], "tui:bob")
        await hand.hears()
        assert hand.card.phase is Phase.OVER
        assert "denied by tui:bob" in told(app)
        before = made.content()
        await hand.types(code.text)
        assert made.content() == before


async def test_an_answer_between_drawing_and_key_is_refused_and_the_draft_kept(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "mine")
        monkeypatch.setattr(Card, "on_store_changed", lambda card: None)  # the news is late
        with closing(made.open()) as store:
            store.grant_approval(made.ids["low"], "tui:bob")
        await hand.types_code()
        assert "refused" in noticed(app)
        assert "granted by tui:bob" in told(app)
        assert hand.card.text_of("note") == "mine"
    assert made.record("low").approver == "tui:bob"
    assert made.events("APPROVAL_GRANTED") == []  # bob's call left none, and ours wrote none


async def test_an_altered_row_cannot_be_granted_and_can_be_denied(made: Scene) -> None:
    import sqlite3

    with closing(sqlite3.connect(made.path)) as connection, connection:
        connection.execute(
            "update approvals set action_json = replace(action_json, 'cfo@', 'ceo@')"
            " where approval_id = ?",
            (made.ids["low"],),
        )
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        assert "ALTERED" in told(app)
        assert "nothing can be granted" in told(app)
        await hand.keys("n")
        await hand.types_code()
    assert made.status("low") is ApprovalStatus.DENIED


async def test_a_row_that_is_altered_under_the_card_ends_it(made: Scene) -> None:
    import sqlite3

    async with at_desk(made) as (_, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        with closing(sqlite3.connect(made.path)) as connection, connection:
            connection.execute(
                "update approvals set action_json = replace(action_json, 'cfo@', 'ceo@')"
            )
        await hand.hears()
        assert hand.card.phase is Phase.OVER


async def test_the_clock_runs_out_over_an_open_card(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        code = hand.card.keypad.code
        assert code is not None
        before = made.content()
        expires_at = made.record("low").expires_at
        made.clock.now = expires_at
        app.tick()
        assert hand.card.phase is Phase.OPEN  # at its very end it can still be answered
        made.clock.advance(seconds=1)
        app.tick()
        assert f"expired {expires_at:%H:%M:%S}Z, nothing granted" in told(app)
        for held in ("abcdefghijklopqrstuvwxyz0123456789", code.text):
            await hand.keys(*held, gap=0.4, first=2.5)
        assert made.content() == before


async def test_a_code_typed_after_the_end_and_before_the_tick_writes_nothing(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        code = hand.card.keypad.code
        assert code is not None
        before = made.content()
        made.clock.now = made.record("low").expires_at
        made.clock.advance(seconds=0.001)
        await hand.types(code.text)
        assert "nothing granted" in told(app)
        assert made.content() == before


async def test_n_turns_the_card_into_a_refusal_with_another_code(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["high"]))
        await hand.keys("n")
        assert "To deny as tui:alice, type  " in told(app)
        await hand.types(made.record("high").action_hash[-4:])
        assert made.status("high") is ApprovalStatus.PENDING
        hand.at += 3
        await hand.types_code()
    assert made.status("high") is ApprovalStatus.DENIED


# --- answers off ---------------------------------------------------------------------------------


async def test_read_only_offers_no_code(made: Scene) -> None:
    async with at_desk(made, read_only=True) as (app, pilot):
        await show(pilot, ApproveCard(made.ids["low"]))
        assert "no answer now: READ-ONLY" in told(app)


async def test_stale_takes_the_code_away_and_gives_another_one_back_drawn_anew(
    made: Scene,
) -> None:
    from ctrlrun_tui.data.models import Live, Reach

    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        live = app.live
        app.live = Live(Reach.STALE, made.clock.now)
        hand.card.on_live(app.live)
        await pilot.pause()
        assert "no answer now: STALE" in told(app)
        app.live = live
        hand.card.on_live(live)
        await pilot.pause()
        code = hand.card.keypad.code
        assert code is not None and code.offered and code.drawn_at is None


async def test_a_card_waits_while_the_terminal_is_too_small(made: Scene) -> None:
    before = made.content()
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        hand.card.query_one("#note").focus()
        await pilot.pause()
        await hand.types("half a no")
        await pilot.resize_terminal(70, 20)
        await pilot.pause()
        assert "needs 80x24, has 70x20" in told(app)
        await hand.keys("m", "f", "enter", "escape")
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        await hand.types("te")
        assert hand.card.text_of("note") == "half a note"
    assert made.content() == before


async def test_a_card_under_another_screen_takes_no_code(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        card = hand.card
        await hand.does("help")
        code = card.keypad.code
        assert code is not None and not code.offered
        app.pop_screen()
        await pilot.pause()
        assert card.keypad.code is not None and card.keypad.code.offered


async def test_a_card_in_ascii_is_ascii(made: Scene) -> None:
    async with at_desk(made, glyphs=ENCODING_ASCII) as (app, pilot):
        for name in ("low", "high", "hostile", "mixed", "many"):
            hand = await show(pilot, ApproveCard(made.ids[name]))
            assert told(app).isascii(), told(app)
            await hand.does("cancel")


async def test_under_no_color_a_card_says_everything_in_words(made: Scene) -> None:
    async with at_desk(made, no_color=True) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["high"]))
        assert "To grant as tui:alice, type the hash's last four characters  _ _ _ _" in told(app)
        await hand.types(made.record("high").action_hash[-4:-2])
        typed = " ".join(made.record("high").action_hash[-4:-2])
        assert f"last four characters  {typed} _ _" in told(app)


async def test_a_store_that_cannot_be_read_is_said_and_tried_again(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("disk\x1b gone")

    async with at_desk(made) as (app, pilot):
        monkeypatch.setattr(app.desk, "reader", broken)
        app.push_screen(ApproveCard(made.ids["low"]))
        await pilot.pause()
        hand = Hand(pilot)
        await hand.rests()
        assert "cannot be read: disk␛ gone" in told(app)
        monkeypatch.undo()
        app.tick()
        await hand.rests()
        assert hand.card.phase is Phase.OPEN


async def test_a_store_that_cannot_be_written_keeps_card_and_draft(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sqlite3

    def locked(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database is locked")

    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "mine")
        first = hand.card.keypad.code
        assert first is not None
        monkeypatch.setattr(app.desk, "_writer", locked)
        await hand.types_code()
        assert "not confirmed: database is locked" in told(app)
        assert hand.card.text_of("note") == "mine"
        second = hand.card.keypad.code
        assert second is not None and second.offered and second.text != first.text
        monkeypatch.undo()
        await hand.types_code()
    assert made.status("low") is ApprovalStatus.GRANTED


async def test_while_an_answer_is_written_the_card_stands_still(
    made: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    from threading import Event as Gate

    gate = Gate()
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        approve = app.desk.approve  # type: ignore[attr-defined]

        def slowly(*given: object, **named: object) -> object:
            gate.wait(20)
            return approve(*given, **named)

        monkeypatch.setattr(app.desk, "approve", slowly)
        code = hand.card.keypad.code
        assert code is not None
        for key in (*code.text, "n", "escape"):
            hand.at += 0.5
            hand.post(key)
        await pilot.pause()
        assert hand.card.phase is Phase.WRITING
        assert hand.card.title_line()[0].text == "approve"
        gate.set()
        await hand.rests()
        assert not isinstance(app.screen, Card)
    assert made.status("low") is ApprovalStatus.GRANTED
    assert made.events("APPROVAL_DENIED") == []


async def test_copying_sends_what_the_card_says(made: Scene) -> None:
    sent: list[str] = []
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        app.copy = lambda text, what="": sent.append(text)  # type: ignore[method-assign]
        await hand.keys("y")
    assert 'to          "cfo@example.com"' in sent[0]
    assert made.status("low") is ApprovalStatus.PENDING
