"""View H: what was answered in this sitting, what is still open, and the file it is written to."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control, with_approval
from ctrlrun.effect import EffectState
from ctrlrun.errors import ActionDenied
from ctrlrun.operator import Desk
from ctrlrun.policy import Policy
from ctrlrun.state.location import locate
from ctrlrun_tui.cards.approve import ApproveCard
from ctrlrun_tui.cards.deny import DenyCard
from ctrlrun_tui.data.handover import Handover, handover_text, read_handover
from ctrlrun_tui.glyphs import UNICODE
from ctrlrun_tui.screens.handover import HandoverScreen
from ctrlrun_tui.widgets.handover_page import handover_lines
from tests.tui.card_scene import Hand, Scene, at_desk, noticed, scene, show, told
from tests.tui.helpers import settled


@pytest.fixture
def made(tmp_path: Path) -> Scene:
    return scene(tmp_path)


def desk(made: Scene, who: str = "tui:alice") -> Desk:
    return Desk(locate(f"sqlite://{made.path}", {}), who, clock=made.clock, extend=False)


def handover(made: Scene, since: datetime, who: str = "tui:alice") -> Handover:
    with closing(desk(made).reader()) as reader:
        return read_handover(
            reader,
            who=who,
            since=since,
            now=made.clock(),
            store="pay/state.db",
            store_url=f"sqlite://{made.path}",
        )


def answer_some(made: Scene) -> datetime:
    """Answers of two people, and of the one before the sitting; returns when that began."""
    alice, bob = desk(made), desk(made, "tui:bob")
    nine = made.ids["nine"]
    alice.deny(nine[0], note="before this sitting")
    made.clock.advance(seconds=10)
    began = made.clock()
    alice.approve(made.ids["high"], note="seen the invoice, it's fine", via="tui")
    made.clock.advance(seconds=10)
    bob.approve(nine[1])
    alice.deny(nine[2])
    made.clock.advance(seconds=10)
    alice.keep_unknown(made.ids["lost"], note="provider is down")
    made.clock.advance(seconds=10)
    alice.resolve(made.ids["lost"], "failed", source="dashboard: no refund")
    return began


def test_a_denied_request_that_is_presented_is_no_answer(made: Scene) -> None:
    """With an effect key, with none, and in observe mode: the event's approver is not its author."""
    began = made.clock()
    policy = "schema: ctrlrun.policy/v4\nactions: {email.send: {decision: approve}}\n"
    for mode in ("enforce", "observe"):
        for key in ("mail:1", None):
            with closing(made.open()) as store:
                control = Control(
                    Policy.from_yaml(f"{policy}mode: {mode}\n", source="p"),
                    store,
                    clock=made.clock,
                )
                action = Action("email.send", {"to": f"{mode} {key}"}, Principal("a"))
                request_id = control.approvals.request(action, timedelta(minutes=5)).request_id
                desk(made).deny(request_id, note="not ours")
                for _ in range(2):
                    with contextlib.suppress(ActionDenied), with_approval(request_id):
                        control.execute(action, lambda: None, key)
    assert len(made.events("APPROVAL_DENIED")) == 12
    given = handover(made, began).given
    assert [each.verb for each in given] == ["denied"] * 4
    assert len({each.item for each in given}) == 4


def test_the_answers_of_this_sitting_by_this_person_are_read_back(made: Scene) -> None:
    began = answer_some(made)
    read = handover(made, began)
    assert [(given.verb, given.item) for given in read.given] == [
        ("granted", made.ids["high"]),
        ("denied", made.ids["nine"][2]),
        ("kept AMBIGUOUS", made.ids["lost"]),
        ("resolved FAILED", made.ids["lost"]),
    ]
    assert [given.note for given in read.given] == [
        "seen the invoice, it's fine",
        None,
        "provider is down",
        None,
    ]
    assert read.given[3].source == "dashboard: no refund"
    assert [given.verb for given in handover(made, began, "tui:bob").given] == ["granted"]


def test_commands_are_quoted_and_bound_to_the_attempt_and_the_store(made: Scene) -> None:
    began = answer_some(made)
    commands = [given.command for given in handover(made, began).given]
    url = f"sqlite://{made.path}"
    assert [None if each is None else shlex.split(each) for each in commands] == [
        [
            *("ctrlrun", "approve", "--as", "alice", "--note", "seen the invoice, it's fine"),
            *("--store-url", url, made.ids["high"]),
        ],
        ["ctrlrun", "deny", "--as", "alice", "--store-url", url, made.ids["nine"][2]],
        None,
        [
            *("ctrlrun", "resolve", "--failed", "--attempt", "1", "--as", "alice"),
            *("--note", "dashboard: no refund"),
            *("--store-url", url, made.ids["lost"]),
        ],
    ]


def test_a_source_that_no_command_takes_is_said_to_be_left_out(made: Scene) -> None:
    began = made.clock()
    desk(made).resolve(made.ids["lost"], "failed", source="dashboard: no refund", note="checked")
    read = handover(made, began)
    assert [given.is_told_in_part for given in read.given] == [True]
    lines = handover_text(read, made.clock()).splitlines()
    (place,) = (index for index, text in enumerate(lines) if "ctrlrun resolve" in text)
    assert lines[place - 1].strip() == "source: dashboard: no refund"
    said = "the command carries no source: put it into its note if it is to be kept"
    assert [text.strip() for text in lines].count(said) == 1
    assert lines[place + 1].strip() == said
    shown = handover_lines(read, made.clock(), UNICODE, 78)
    drawn = ["".join(span.text for span in row) for row, _ in shown]
    assert sum("the command carries no source" in row for row in drawn) == 1


def test_a_command_gives_the_answer_that_it_stands_for(made: Scene, tmp_path: Path) -> None:
    """Run on a store where the answer was not given yet."""
    began = made.clock()
    desk(made).deny(made.ids["low"], note="it's $(not) ours")
    (given,) = handover(made, began).given
    (other := tmp_path / "other").mkdir()
    fresh = scene(other)
    assert given.command is not None
    words = shlex.split(given.command.replace(str(made.path), str(fresh.path)))
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, check=False
    )
    # The clock of the scene is long past: the command reaches the request, and finds it expired.
    assert made.ids["low"] in done.stdout + done.stderr, done


@pytest.mark.parametrize("key", ["refund:\u202etxn", "refund:txn\x1b[2J", "refund:\ntxn"])
def test_a_key_that_cannot_be_typed_has_no_command(made: Scene, key: str) -> None:
    with closing(made.open()) as store:
        store.reserve_effect(key, "act_h")
        store.begin_execution(key, "act_h")
        store.mark_ambiguous(key, "act_h", "lost")
    began = made.clock()
    desk(made).resolve(key, "committed")
    (given,) = handover(made, began).given
    assert given.command is None


def test_a_key_that_looks_like_an_option_is_none_to_the_shell(made: Scene) -> None:
    key = "--committed"
    with closing(made.open()) as store:
        store.reserve_effect(key, "act_h")
        store.begin_execution(key, "act_h")
        store.mark_ambiguous(key, "act_h", "lost")
    began = made.clock()
    desk(made).resolve(key, "failed")
    (given,) = handover(made, began).given
    assert given.command is not None
    assert shlex.split(given.command)[-2:] == ["--", "--committed"]


def test_what_became_of_an_answer_is_told(made: Scene) -> None:
    began = answer_some(made)
    with closing(made.open()) as store:
        record = made.record("high")
        store.consume_approval(record.approval_id, record.action_hash)
        store.reserve_effect(made.ids["lost"], "act_retry")
    text = handover_text(handover(made, began), made.clock())
    high = next(line for line in text.splitlines() if made.ids["high"] in line)
    assert high.endswith("now: spent, running")
    lost = [line for line in text.splitlines() if "resolved FAILED" in line]
    assert lost[0].endswith("now: reserved")


def test_what_is_open_and_what_expires_next_are_told(made: Scene) -> None:
    read = handover(made, made.clock())
    assert [(lane.title, lane.count) for lane in read.lanes] == [
        ("waiting for an answer", 16),
        ("AMBIGUOUS", 1),
    ]
    assert read.expires_next is not None
    assert read.expires_next.item_id == made.ids["low"]  # asked first
    made.clock.advance(minutes=2)
    text = handover_text(read, made.clock())
    assert f"refund-agent, {made.ids['lost']}  2:0" in text
    assert f"expires next: email.send by mail-agent, {made.ids['low']}  at " in text


def test_the_file_is_the_same_for_the_same_store_and_clock(made: Scene) -> None:
    began = answer_some(made)
    first = handover_text(handover(made, began), made.clock())
    assert handover_text(handover(made, began), made.clock()) == first


def test_nothing_in_the_file_comes_raw_from_others(made: Scene) -> None:
    began = made.clock()
    desk(made).approve(made.ids["hostile"], note="a\u202eb")
    text = handover_text(handover(made, began), made.clock())
    assert all(character.isprintable() for line in text.split("\n") for character in line)
    assert "a⟨U+202E⟩b" in text


# --- on the screen -------------------------------------------------------------------------------


async def _open(hand: Hand) -> HandoverScreen:
    page = HandoverScreen()
    hand.app.push_screen(page)
    await settled(hand.pilot)
    return page


def _files(folder: Path) -> list[Path]:
    return list(folder.glob("handover-*.txt"))


@pytest.mark.anyio
async def test_the_page_shows_the_sitting_and_copies_a_command(made: Scene) -> None:
    sent: list[str] = []
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.writes("note", "as agreed")
        await hand.types_code()
        hand = await show(pilot, DenyCard(made.ids["mixed"]))
        await hand.types_code()
        page = await _open(hand)
        assert "2 answered" in told(app)
        assert "granted email.send" in told(app)
        assert "now: not yet spent" in told(app)
        assert "note        as agreed" in told(app)
        app.copy = lambda text, what="": sent.append(text)  # type: ignore[method-assign]
        page.perform("down")
        page.perform("copy")
        assert shlex.split(sent[0])[:2] == ["ctrlrun", "deny"]
        page.perform("up")
        page.perform("copy")
        assert shlex.split(sent[1])[:2] == ["ctrlrun", "approve"]


@pytest.mark.anyio
async def test_w_writes_the_file_once(
    made: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with at_desk(made) as (app, pilot):
        hand = await show(pilot, ApproveCard(made.ids["low"]))
        await hand.types_code()
        page = await _open(hand)
        before = os.umask(0)
        page.perform("write_handover")
        await settled(pilot)
        os.umask(before)
        assert "written to " in noticed(app)
        (file,) = _files(tmp_path)
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.name == f"handover-{made.clock():%Y%m%dT%H%M%SZ}.txt"
        text = file.read_text("utf-8")
        assert "answers of this sitting: 1\n" in text
        page.perform("write_handover")  # the same second: nothing is overwritten
        await settled(pilot)
        assert "was not written" in noticed(app)
        assert file.read_text("utf-8") == text


@pytest.mark.anyio
async def test_the_page_follows_the_store(made: Scene) -> None:
    async with at_desk(made) as (app, pilot):
        hand = Hand(pilot)
        await _open(hand)
        assert "nothing yet" in told(app)
        with closing(made.open()) as store:
            store.resolve_effect(made.ids["lost"], EffectState.COMMITTED, "tui:bob")
        await settled(pilot)
        assert "AMBIGUOUS: 1" not in told(app)
