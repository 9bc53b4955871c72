"""View 4: the live tail, held, followed and left behind; and what an event says."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from textual.pilot import Pilot

from ctrlrun.action import Action, Principal
from ctrlrun.receipt import EventType
from ctrlrun_tui.actions import EVENTS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.data.models import Span
from ctrlrun_tui.glyphs import UNICODE
from ctrlrun_tui.screens.events import EventsView, cut_data, event_row
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.screens.paper import JsonPaper
from tests.tui.evidence_scene import (
    STORABLE,
    Evidence,
    assert_inert,
    drawn,
    lines_of,
    refund,
    screen_of,
    watching,
)
from tests.tui.helpers import settled

pytestmark = pytest.mark.anyio


@pytest.fixture
def evidence(tmp_path: Path) -> Evidence:
    made = Evidence(tmp_path)
    for number in range(20):
        made.event(EventType.EXECUTION_STARTED, None, {"n": number})
    return made


def view_of(app: ConsoleApp) -> EventsView:
    assert isinstance(app.top, EventsView)
    return app.top


def at(app: ConsoleApp) -> str | None:
    """The event under the cursor."""
    row = view_of(app).current_row
    return None if row is None else row.id


async def do(pilot: Pilot[int], action: str) -> None:
    pilot.app.screen.perform(action)  # type: ignore[attr-defined]
    await settled(pilot)


async def come(evidence: Evidence, pilot: Pilot[int], number: int) -> None:
    for _ in range(number):
        evidence.event(EventType.EXECUTION_COMMITTED)
    evidence.clock.advance(seconds=1)
    await settled(pilot)


async def test_the_cursor_stands_on_the_newest_and_follows_what_comes(evidence: Evidence) -> None:
    async with watching(evidence, EVENTS) as (app, pilot):
        assert at(app) == "20"
        assert lines_of(app)[1].endswith("follows")
        await come(evidence, pilot, 3)
        assert at(app) == "23"
        await do(pilot, "up")
        await come(evidence, pilot, 3)
        assert at(app) == "22", "whoever looks at something is left alone"
        assert not lines_of(app)[1].endswith("  follows")
        await do(pilot, "bottom")
        assert at(app) == "26"
        await come(evidence, pilot, 1)
        assert at(app) == "27"


async def test_many_more_than_a_page_are_followed_to_their_end(evidence: Evidence) -> None:
    async with watching(evidence, EVENTS) as (app, pilot):
        with closing(sqlite3.connect(evidence.path)) as connection, connection:
            connection.execute(
                "insert into events (type, action_id, ts, data_json) with recursive n(i) as "
                "(select 1 union all select i + 1 from n where i < 700) "
                "select e.type, e.action_id, e.ts, e.data_json from n, events e where e.event_id = 1"
            )
        await settled(pilot)
        assert at(app) == "720"
        await do(pilot, "page_up")
        assert at(app) != "720"


async def test_a_held_tail_stands_still_and_counts_what_comes(evidence: Evidence) -> None:
    async with watching(evidence, EVENTS) as (app, pilot):
        await do(pilot, "pause")
        assert lines_of(app)[1].endswith("PAUSED, 0 came since")
        before = [row.id for row in view_of(app).list.window.rows]
        await come(evidence, pilot, 150)
        assert [row.id for row in view_of(app).list.window.rows] == before
        assert lines_of(app)[1].endswith("PAUSED, 150 came since")
        await do(pilot, "top")
        await do(pilot, "bottom")
        assert at(app) == "20", "the tail ends where it is held"
        view_of(app).set_filter("type:EXECUTION_STARTED")
        await settled(pilot)
        assert at(app) == "20"
        view_of(app).set_filter("type:EXECUTION_COMMITTED")
        await settled(pilot)
        assert at(app) is None
        view_of(app).set_filter("")
        await settled(pilot)
        await do(pilot, "pause")
        assert at(app) == "170"
        assert lines_of(app)[1].endswith("follows")


async def test_the_rate_is_of_the_last_seconds_and_runs_out(evidence: Evidence) -> None:
    async with watching(evidence, EVENTS) as (app, pilot):
        assert "Events  0 a second" in lines_of(app)[1]
        for _ in range(4):
            await come(evidence, pilot, 5)
        assert "Events  5 a second" in lines_of(app)[1]
        for _ in range(14):
            evidence.clock.advance(seconds=1)
            app.tick()
        assert "Events  0 a second" in lines_of(app)[1]


async def test_a_filter_starts_at_the_end_and_says_what_it_hides(evidence: Evidence) -> None:
    wanted = [evidence.event(EventType.ACTION_DENIED, refund(1)) for _ in range(3)]
    for _ in range(5):
        evidence.event(EventType.EXECUTION_STARTED)
    async with watching(evidence, EVENTS) as (app, pilot):
        view = view_of(app)
        view.set_filter("type:ACTION_DENIED")
        await settled(pilot)
        assert [row.id for row in view.list.window.rows] == [str(each.event_id) for each in wanted]
        assert at(app) == str(wanted[-1].event_id)
        assert "hides 25  follows" in lines_of(app)[1]
        view.perform("filter")
        view.bar.field.value = "type:NONSENSE"
        await settled(pilot)
        assert "NONSENSE" in lines_of(app)[-2]
        await pilot.press("escape")
        await do(pilot, "back")
        assert at(app) == "28"


async def test_an_event_of_a_newer_build_and_one_that_cannot_be_read_are_told(
    evidence: Evidence,
) -> None:
    evidence.event("MOON_LANDED", None, {"where": [1, 2], "who": None})
    with closing(sqlite3.connect(evidence.path)) as connection, connection:
        connection.execute("update events set data_json = '{' where event_id = 19")
    async with watching(evidence, EVENTS) as (app, _):
        text = screen_of(app)
        assert "21 03:12:41 MOON_LANDED                where=[1, 2] who=null" in text
        assert "✗ 1 row cannot be read: 19" in lines_of(app)[1]
        assert [row.id for row in view_of(app).list.window.rows][-3:] == ["18", "20", "21"]


async def test_lines_of_the_file_that_cannot_be_read_are_counted(evidence: Evidence) -> None:
    async with watching(evidence, EVENTS) as (app, pilot):
        (evidence.folder / "events.jsonl").write_text("{broken\n")
        await settled(pilot)
        await settled(pilot)
        app.tick()
        await settled(pilot)
        view_of(app).show_view_line()
        await settled(pilot)
        assert "1 line of the file cannot be read" in lines_of(app)[1]


async def test_the_data_has_the_room_beside_the_detail(evidence: Evidence) -> None:
    evidence.event(EventType.EFFECT_RESERVATION_REFUSED, None, {"reason": "duplicate", "n": 123456})
    async with watching(evidence, EVENTS, size=(120, 40)) as (app, _):
        head = lines_of(app)[3].partition("│")[0].split()
        assert head == ["time", "UTC", "type", "what"]
        assert "EFFECT_RESERVATION_REFUSED reason=duplicate n=123456 " in screen_of(app)


def test_data_is_cut_between_its_values() -> None:
    cell = (Span("reason=duplicate"), Span("state=committed"), Span("attempt=3"))
    texts = {
        width: "".join(span.text for span in cut_data(cell, width, UNICODE))
        for width in (50, 42, 34, 20, 8)
    }
    assert texts == {
        50: "reason=duplicate state=committed attempt=3",
        42: "reason=duplicate state=committed attempt=3",
        34: "reason=duplicate state=committed …",
        20: "reason=duplicate …",
        8: "reas…ate",
    }


def test_a_hash_is_as_short_as_it_is_known_by(evidence: Evidence) -> None:
    digest = "sha256:" + "ab" * 32
    row = event_row(
        evidence.event(EventType.ACTION_PROPOSED, None, {"action_hash": digest}),
        UNICODE,
        evidence.clock(),
    )
    assert row.cells["data"] == (Span("action_hash=abababab…abababab"),)


async def test_the_detail_tells_a_text_from_what_it_could_be_taken_for(evidence: Evidence) -> None:
    evidence.event(EventType.ACTION_DENIED, None, {"a": "1", "b": 1, "c": "plain", "d": None})
    async with watching(evidence, EVENTS) as (app, _):
        told = lines_of(app)
        for key, value in (("a", '"1"'), ("b", "1"), ("c", "plain"), ("d", "null")):
            assert f"   {key:12}{value}" in told


async def test_j_and_i_show_the_record_and_its_action(evidence: Evidence) -> None:
    action = refund(1)
    async with watching(evidence, EVENTS) as (app, pilot):
        await do(pilot, "inspect")
        assert "inspect: this event belongs to no action" in screen_of(app)
        evidence.event(EventType.ACTION_PROPOSED, action)
        await settled(pilot)
        await do(pilot, "raw")
        assert isinstance(app.screen, JsonPaper)
        assert f'   "action_id": "{action.action_id}",' in lines_of(app)
        await do(pilot, "back")
        await do(pilot, "inspect")
        assert isinstance(app.screen, InspectScreen)


async def test_no_field_of_an_event_reaches_the_screen_raw(evidence: Evidence) -> None:
    for text in STORABLE:
        action = Action("a", {}, Principal("p"), action_id=text if text.strip() else f"x{text}")
        data = {text: text, "list": [text], "map": {text: text}}
        evidence.event(f"T{text}", action, data, effect_key=text, approval_id=text)
    async with watching(evidence, EVENTS, size=(200, 50)) as (app, pilot):
        view = view_of(app)
        for _ in range(3):
            assert_inert(screen_of(app))
            await do(pilot, "page_up")
        with closing(app.desk.reader()) as reader:
            for row in view.list.window.rows:
                view.pane.show(view.detail(reader, row, app.clock()))
                assert_inert(drawn(view.pane))
        for action_name in ("raw", "back", "inspect", "raw"):
            await do(pilot, action_name)
            assert_inert(screen_of(app))
