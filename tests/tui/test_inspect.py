"""Inspect: one action's whole history, and the same as JSON."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from textual.pilot import Pilot

from ctrlrun.action import Action
from ctrlrun.receipt import EventType, ReceiptResult
from ctrlrun_tui.actions import RECEIPTS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.data.models import Verbatim
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.widgets.detail import lay_verbatim
from tests.tui.evidence_scene import Evidence, lines_of, refund, screen_of, watching
from tests.tui.helpers import settled

pytestmark = pytest.mark.anyio

KEY = "refund:txn_9"


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    return Evidence(tmp_path)


@pytest.fixture
def lost(evidence: Evidence) -> Action:
    """An action whose reply was lost, and that was tried again in vain."""
    action = refund(100, "txn_9")
    evidence.event(EventType.ACTION_PROPOSED, action, {"action_hash": action.action_hash})
    evidence.event(EventType.EXECUTION_STARTED, action, {"attempt": 1}, effect_key=KEY)
    evidence.clock.advance(seconds=30)
    evidence.event(EventType.EXECUTION_AMBIGUOUS, action, {"error": "TimeoutError"}, effect_key=KEY)
    evidence.receipt(action, ReceiptResult.AMBIGUOUS, error="TimeoutError")
    evidence.clock.advance(seconds=8)
    evidence.event(
        EventType.EFFECT_RESERVATION_REFUSED, action, {"reason": "ambiguous"}, effect_key=KEY
    )
    evidence.receipt(action, ReceiptResult.BLOCKED)
    return action


async def opened(app: ConsoleApp, pilot: Pilot[int], action_id: str) -> InspectScreen:
    screen = InspectScreen(action_id)
    app.push_screen(screen)
    await settled(pilot)
    return screen


async def do(pilot: Pilot[int], action: str) -> None:
    pilot.app.screen.perform(action)  # type: ignore[attr-defined]
    await settled(pilot)


async def test_the_history_has_its_silences_and_every_receipt(
    evidence: Evidence, lost: Action
) -> None:
    async with watching(evidence, RECEIPTS, size=(80, 40)) as (app, pilot):
        await opened(app, pilot, lost.action_id)
        text = screen_of(app)
        told = [
            "amount      100",
            "30.0 s without a reply",
            "▲ 03:13:11Z   reply lost: TimeoutError",
            "8.0 s of silence",
            "■ 03:13:19Z   refused: AMBIGUOUS",
        ]
        places = [text.index(each) for each in told]
        assert places == sorted(places)
        assert text.count("receipt     allow/") == 2
        assert "failed" not in text.casefold().replace("resolve", "")


async def test_the_sheet_has_the_whole_width(evidence: Evidence, lost: Action) -> None:
    async with watching(evidence, RECEIPTS, size=(120, 40)) as (app, pilot):
        await opened(app, pilot, lost.action_id)
        rule = next(line for line in lines_of(app) if line.startswith("──"))
        assert len(rule) == 120


async def test_j_goes_to_the_document_and_back(evidence: Evidence, lost: Action) -> None:
    async with watching(evidence, RECEIPTS, size=(120, 40)) as (app, pilot):
        screen = await opened(app, pilot, lost.action_id)
        await do(pilot, "raw")
        assert lines_of(app)[3:6] == [
            " {",
            '   "schema": "ctrlrun.inspection/v2",',
            f'   "action_id": "{lost.action_id}",',
        ]
        assert '     "resource": "payment:txn_9",' in lines_of(app)
        shown = screen.pane.shown
        assert shown is not None
        assert json.loads(shown.copied or "")["action_id"] == lost.action_id
        await do(pilot, "raw")
        assert "without a reply" in screen_of(app)
        await do(pilot, "back")
        assert app.screen is not screen


async def test_what_is_copied_is_the_document_as_data(
    evidence: Evidence, lost: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    async with watching(evidence, RECEIPTS) as (app, pilot):
        monkeypatch.setattr(app, "write_terminal", written.append)
        await opened(app, pilot, lost.action_id)
        await do(pilot, "raw")
        await do(pilot, "copy")
        sent = next(each for each in written if each.startswith("\x1b]52;"))
        payload = sent.removeprefix("\x1b]52;c;").rstrip("\x07\x1b\\")
        assert json.loads(base64.b64decode(payload))["action_id"] == lost.action_id


async def test_an_action_that_nobody_knows_is_said_to_be_unknown(
    evidence: Evidence, lost: Action
) -> None:
    async with watching(evidence, RECEIPTS) as (app, pilot):
        await opened(app, pilot, "act_nobody")
        assert "Nothing is known of it" in screen_of(app)
        await do(pilot, "raw")
        assert "Nothing is known of it" in screen_of(app)
        await do(pilot, "back")
        assert app.top is not None
        assert app.top.PLACE == RECEIPTS


async def test_a_history_that_grows_is_read_again_once_a_second(
    evidence: Evidence, lost: Action, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with watching(evidence, RECEIPTS, size=(80, 50)) as (app, pilot):
        screen = await opened(app, pilot, lost.action_id)
        read = screen._number
        for _ in range(5):
            evidence.event(EventType.EXECUTION_STARTED, lost, effect_key=KEY)
            await settled(pilot)
        assert screen._number == read
        evidence.clock.advance(seconds=2)
        app.tick()
        await settled(pilot)
        assert screen._number == read + 1
        assert screen_of(app).count("started") == 6


def test_a_line_that_is_too_long_goes_on_further_in() -> None:
    lines = lay_verbatim(Verbatim('    "k": "' + "x" * 20 + '"'), 20)
    assert ["".join(span.text for span in line) for line in lines] == [
        '    "k": "xxxxxxxxxx',
        '      xxxxxxxxxx"',
    ]
