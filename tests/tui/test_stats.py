"""View 5: what a window of time comes to, and the receipts behind each of its numbers."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.geometry import Region

from ctrlrun.operator import RowKind, parse
from ctrlrun.operator.stats import StatsCount
from ctrlrun.operator.stats_report import Figure, Window
from ctrlrun.policy import Mode
from ctrlrun.reporting import stats_document
from ctrlrun.state.location import open_reader
from ctrlrun_tui.data.models import Role
from ctrlrun_tui.glyphs import ASCII, UNICODE, Glyphs
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipts import ReceiptsView
from ctrlrun_tui.screens.requests import RequestsScreen
from ctrlrun_tui.screens.stats import StatsView
from ctrlrun_tui.screens.stats_lists import row_id
from tests.tui.evidence_scene import STORABLE, assert_inert
from tests.tui.helpers import START
from tests.tui.shift import POLICY, Shift
from tests.tui.stats_scene import (
    OBSERVE,
    Look,
    at,
    enforced,
    looking,
    named,
    observed,
    stopped_by,
    under,
)

pytestmark = pytest.mark.anyio

SCENES = {"observe": observed, "enforce": enforced}
WINDOWS = tuple(window.value for window in Window)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both scenes, written once."""
    folders = {}
    for name, write in SCENES.items():
        folders[name] = tmp_path_factory.mktemp(name)
        write(folders[name]).close()
    return folders


def copied(written: dict[str, Path], name: str, tmp_path: Path) -> Shift:
    """A copy of a scene, to go on with."""
    folder = Path(shutil.copytree(written[name], tmp_path / name))
    shift = Shift(folder, (written[name] / "ctrlrun.yaml").read_text())
    at(shift)
    return shift


@pytest.fixture
def rollout(written: dict[str, Path], tmp_path: Path) -> Iterator[Shift]:
    shift = copied(written, "observe", tmp_path)
    yield shift
    shift.close()


@pytest.fixture
def night(written: dict[str, Path], tmp_path: Path) -> Iterator[Shift]:
    shift = copied(written, "enforce", tmp_path)
    yield shift
    shift.close()


def sql(path: Path, condition: str, window: str) -> int:
    """Receipts of a window, counted by a query of the test's own."""
    length = Window(window).length
    since = "" if length is None else f"{START - length:%Y-%m-%dT%H:%M:%S.000Z}"
    with closing(sqlite3.connect(path)) as database:
        (count,) = database.execute(
            f"SELECT COUNT(*) FROM receipts WHERE json_extract(json, '$.finished_at') >= ? "
            f"AND ({condition})",
            (since,),
        ).fetchone()
    return int(count)


def would(field: str) -> str:
    return f"json_extract(json, '$.would_have.{field}')"


DENIED = f"{would('decision')} = 'deny'"
ASKED = f"{would('blocked_reason')} = 'approval_required'"
BLOCKED = (
    f"{would('blocked_reason')} IN ('approval_mismatch', 'duplicate', 'in_progress', 'ambiguous')"
)
OUTCOME = "json_extract(json, '$.execution') = 'ambiguous'"


def documented(shift: Shift, window: str, mode: Mode) -> dict[str, Any]:
    """What `ctrlrun stats --json` says of the window."""
    boundary = None if window == "all" else START - (Window(window).length or timedelta())
    location = shift.desk().location
    with closing(open_reader(location, clock=shift.clock)) as reader:
        receipts = list(reader.receipts_page(limit=1000).items)
    return stats_document(receipts, mode=mode, boundary=boundary)


# --- what stands on the page ---------------------------------------------------------------------


async def test_the_page_says_what_enforcing_would_have_done(rollout: Shift) -> None:
    async with looking(rollout) as look:
        report = look.view.report
        assert report is not None
        assert report.rollout is not None
        assert report.rollout.worst is not None
        assert look.lines[1].startswith(" Stats  15m  1h [24h] 7d  all ")
        assert look.lines[1].endswith("counted to 03:12:41Z")
        assert re.search(r"policy [0-9a-f]{8}   counted", look.lines[1])
        assert look.lines[3:10] == [
            " Enforcing the last 24 h would have asked you 8 times, 3 of them in ten minutes",
            f" at {report.rollout.worst.start:%H:%M}, and stopped 5 of 20 calls.",
            "",
            " if this policy were enforced                                     24 h   change",
            "   would have been denied                                            3       +2",
            "   would have needed approval  0.3 an hour                           8       +8",
            "   would have been blocked                                           2       +2",
        ]
        assert look.line("stopped by").split() == ["stopped", "by", "denied", "asked", "blocked"]
        assert look.line("duplicate").split()[:4] == [
            "duplicate",
            "stripe.refund",
            "refund-agent",
            "2",
        ]
        assert look.line("by policy").count("asked") == 2
        assert "OBSERVE nothing is enforced" in look.lines[0]


async def test_observed_numbers_are_those_of_the_document_and_of_a_query(rollout: Shift) -> None:
    async with looking(rollout) as look:
        for window in WINDOWS:
            await look.window(window)
            report = look.view.report
            assert report is not None
            assert report.rollout is not None
            assert report.window == window
            expected = documented(rollout, window, "observe")
            assert dict(report.document) == expected | {"since": report.document["since"]}
            for name, key, condition in (
                ("denied", "would_have_been_denied", DENIED),
                ("asked", "would_have_needed_approval", ASKED),
                ("blocked", "would_have_been_blocked", BLOCKED),
                ("ambiguous", "ambiguous_outcomes", OUTCOME),
            ):
                count = getattr(report.rollout, name).count
                assert count == expected[key] == sql(rollout.path, condition, window), name
                assert shown_total(look, name) == count
            assert report.calls.count == expected["actions"] == sql(rollout.path, "1", window)


TOTALS = {
    "denied": "would have been denied",
    "asked": "would have needed approval",
    "blocked": "would have been blocked",
    "ambiguous": "ambiguous outcomes",
}


def shown_total(look: Look, name: str) -> int:
    """The number of a total as it is on the screen."""
    line = look.line(TOTALS[name]).removeprefix("▸").strip()
    numbers = re.findall(r"(?<![\w.+-])\d[\d,]*(?![\w.])", line.replace("an hour", ""))
    return int(numbers[0].replace(",", ""))


async def test_enforced_numbers_are_those_of_the_document_and_of_a_query(night: Shift) -> None:
    async with looking(night, size=(80, 60)) as look:
        for window in WINDOWS:
            await look.window(window)
            report = look.view.report
            assert report is not None
            assert report.rollout is None
            expected = documented(night, window, "enforce")
            assert dict(report.document) == expected | {"since": report.document["since"]}
            assert {row.name: row.figure.count for row in report.results if row.figure.count} == {
                result: count
                for result in ("committed", "failed", "ambiguous", "denied", "blocked")
                if (count := sql(night.path, f"result = '{result}'", window))
            }
            for row in report.results:
                if row.figure.count:
                    word = "AMBIGUOUS" if row.name == "ambiguous" else row.name
                    assert re.search(rf"\b{word}\s+{row.figure.count}\b", look.text), row


async def test_enforcing_tells_how_people_answered(night: Shift) -> None:
    async with looking(night) as look:
        assert look.prose.split("counted to 03:12:41Z ")[1].startswith(
            "In the last 24 h 10 calls: 2 needed approval (2 requests), 1 was denied, 2 were blocked, "
            "1 ended AMBIGUOUS. by decision 24 h change by outcome 24 h change "
        )
        assert look.prose.split("answers ")[1].split(" by action")[0] == (
            "5 requests: 2 granted, 1 denied, 1 expired (20%), 1 waiting; "
            "answered in 0:30 (median), p95 1:30"
        )


async def test_a_store_without_receipts_says_so(tmp_path: Path) -> None:
    shift = Shift(tmp_path)
    async with looking(shift) as look:
        assert look.line("No call was counted").strip() == "No call was counted in the last 24 h."
        await look.does("its_receipts", "down", "page_down", "bottom", "sort", "next_number")
        await look.window("all")
        assert "No call was counted." in look.text
    shift.close()


# --- behind each number --------------------------------------------------------------------------


def matching(shift: Shift, figure: Figure) -> int:
    """How many records pass a figure's filter, by the filter language alone."""
    wanted = parse(figure.filter, figure.kind, now=shift.clock())
    with closing(open_reader(shift.desk().location, clock=shift.clock)) as reader:
        if figure.kind is RowKind.APPROVALS:
            return sum(map(wanted.matches, reader.approvals_page(limit=1000).items))
        return sum(map(wanted.matches, reader.receipts_page(limit=1000).items))


@pytest.mark.parametrize("scene", sorted(SCENES))
async def test_behind_every_number_are_as_many_records(
    written: dict[str, Path], tmp_path: Path, scene: str
) -> None:
    shift = copied(written, scene, tmp_path)
    async with looking(shift, size=(120, 40)) as look:
        look.view.unfolded |= {"reasons", "actions", "policies", "principals"}
        for window in WINDOWS:
            await look.window(window)
            look.view.show_report()
            numbers = look.numbers
            assert len(numbers) > 1
            for row, number in numbers:
                figure = number.stands_for
                assert isinstance(figure, Figure)
                assert figure.count == matching(shift, figure), (window, row, number)
    shift.close()


@pytest.mark.parametrize("scene", sorted(SCENES))
async def test_enter_shows_them_and_escape_comes_back(
    written: dict[str, Path], tmp_path: Path, scene: str
) -> None:
    shift = copied(written, scene, tmp_path)
    async with looking(shift, size=(120, 40)) as look:
        for row, number in look.numbers[::7]:  # each was counted above; here it is opened
            page = look.view.page
            page.go_to(row)
            page.number = number.name
            shown = page.current
            assert shown is not None
            figure = shown.stands_for
            assert isinstance(figure, Figure)
            await look.does("its_receipts")
            screen = look.app.screen
            assert isinstance(screen, ReceiptsView | RequestsScreen)
            assert len(screen.list.window.rows) == figure.count, (row, number.name)
            assert look.notice.startswith(f"{figure.count} ")
            await look.does("back")
            assert look.view.page.row == row
            assert look.view.page.number == number.name
            assert look.notice == ""
    shift.close()


async def test_keys_alone_go_to_a_number_and_behind_it(rollout: Shift) -> None:
    async with looking(rollout) as look:
        await look.pilot.press("g", "enter")
        await look.rests()
        assert isinstance(look.app.screen, ReceiptsView)
        assert len(look.app.screen.list.window.rows) == 8
        await look.pilot.press("escape")
        await look.rests()
        await look.pilot.press("tab", "enter")
        await look.rests()
        assert len(look.app.screen.list.window.rows) == 3
        await look.pilot.press("5")
        await look.rests()
        await look.pilot.press("]", "left", "right")
        await look.rests()
        assert look.view.window is Window.WEEK


async def test_another_way_out_of_the_receipts_is_not_the_way_back(rollout: Shift) -> None:
    async with looking(rollout) as look:
        await look.does("its_receipts", "inbox", "receipts", "back")
        assert isinstance(look.app.screen, ReceiptsView)
        assert look.app.screen.filter_text == ""
        await look.does("back")
        assert "nothing to go back to" in look.notice


async def test_the_requests_behind_a_number_open_over_it(night: Shift) -> None:
    async with looking(night) as look:
        await look.stands_on("answers", "requests")
        await look.does("its_receipts")
        screen = look.app.screen
        assert isinstance(screen, RequestsScreen)
        states = re.findall(r"[◇○●✗▽] (\w+) +[ks]", "\n".join(look.lines[3:8]))
        assert sorted(states) == ["EXPIRED", "EXPIRED", "denied", "spent", "waiting"]
        await look.does("inspect", "back", "raw", "back", "open", "back", "copy", "back")
        assert isinstance(look.app.screen, StatsView)


# --- windows, order, filter ----------------------------------------------------------------------


async def test_a_window_has_two_ends(rollout: Shift) -> None:
    async with looking(rollout) as look:
        await look.window("all")
        await look.does("next_window")
        assert look.view.window is Window.ALL
        assert look.notice == "this is the longest window"
        await look.window("15m")
        await look.does("previous_window")
        assert look.notice == "this is the shortest window"
        assert "would have asked you 3 times" in look.text


async def test_change_is_against_the_window_before(rollout: Shift) -> None:
    async with looking(rollout) as look:
        assert look.line("would have been denied").split()[-2:] == ["3", "+2"]
        await look.window("all")
        assert look.line("would have been denied").split()[-1] == "4"


async def test_the_lists_are_sorted_by_what_is_asked_for(rollout: Shift) -> None:
    async with looking(rollout, size=(80, 50)) as look:

        def reasons() -> list[str]:
            return [row_id.split("\0")[1] for row_id, _ in look.numbers if "reasons" in row_id]

        most = reasons()
        assert most[0] == "rule[1]"
        await look.does("sort")
        assert look.notice == "lists most changed first"
        await look.does("sort")
        assert reasons() == sorted(most)
        assert "by name" in look.lines[2]
        await look.does("sort")
        assert reasons() == most


async def test_a_filter_narrows_the_lists_and_no_number(rollout: Shift) -> None:
    async with looking(rollout, size=(80, 40)) as look:
        before = shown_total(look, "denied")
        await look.filters("agent:ops-bot")
        assert "/agent:ops-bot" in look.lines[2]
        assert "hides " in look.lines[2]
        rows = {row_id for row_id, _ in look.numbers if "reasons" in row_id}
        assert {row_id.split("\0")[3] for row_id in rows} == {"ops-bot"}
        assert shown_total(look, "denied") == before
        await look.filters("none-has-this")
        assert "nothing matches" in look.text
        await look.does("back")
        assert look.view.filter_text == ""
        assert "hides" not in look.text


async def test_a_filter_that_cannot_be_read_is_named_while_it_is_typed(rollout: Shift) -> None:
    async with looking(rollout) as look:
        await look.pilot.press("slash", *"nope:x")
        await look.rests()
        assert "nope: at 1 is no field of figures" in look.notice
        await look.pilot.press("enter")
        assert look.view.filter_text == ""
        await look.pilot.press("escape")


async def test_a_long_list_folds_and_unfolds_under_the_cursor(rollout: Shift) -> None:
    for number in range(30):
        named(rollout, f"act_{number:02}", "ops-bot")
    async with looking(rollout) as look:
        await look.stands_on("reasons", "asked")
        page = look.view.page
        shown = {row for row, _ in look.numbers if row.startswith("reasons")}
        hidden = look.view.lists.reasons[len(shown)]
        while page.spot is not None and page.spot.acts is None:
            page.move(1)
        assert "more" in look.line("▸")
        await look.does("its_receipts")
        assert page.row == row_id("reasons", hidden)
        assert "reasons" in look.view.unfolded
        await look.does("page_down", "up")
        page.go_to("reasons\0fold")
        await look.does("its_receipts")
        assert "reasons" not in look.view.unfolded


# --- live ----------------------------------------------------------------------------------------


async def test_calls_of_another_process_arrive(night: Shift) -> None:
    async with looking(night) as look:
        before = look.view.report
        assert before is not None
        number = look.view.page.number
        row = look.view.page.row
        night.child("act")
        await look.rests()
        after = look.view.report
        assert after is not None
        assert after.calls.count == before.calls.count + 1
        assert f"In the last 24 h {after.calls.count} calls" in look.prose
        assert (look.view.page.row, look.view.page.number) == (row, number)


async def test_rows_that_arrive_leave_the_cursor_where_it_is(rollout: Shift) -> None:
    async with looking(rollout) as look:
        row = look.view.page.row
        assert row is not None
        assert row.startswith("reasons\0rule[1]")
        for number in range(9):  # more than the first row has
            named(rollout, "crm.delete", "new-bot", str(number))
        await look.rests()
        heading = look.lines.index(look.line("stopped by"))
        assert "new-bot" in look.lines[heading + 1]
        assert look.view.page.row == row
        assert look.lines[heading + 2].startswith("▸  rule[1]")


async def test_a_window_moves_with_the_clock(rollout: Shift) -> None:
    async with looking(rollout) as look:
        await look.window("15m")
        assert "would have asked you 3 times" in look.text
        rollout.passes(minutes=30)
        look.app.tick()
        await look.rests()
        assert "No call was counted in the last 15 minutes." in look.text


async def test_nothing_is_counted_while_another_screen_is_on_top(
    night: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looking(night) as look:
        steps: list[str] = []
        advance = StatsCount.advance

        def counted_step(self: StatsCount, *args: Any, **more: Any) -> bool:
            steps.append("step")
            return advance(self, *args, **more)

        monkeypatch.setattr(
            StatsCount,
            "advance",
            counted_step,
        )
        view = look.view
        shown = view.page._shown
        await look.does("help")
        steps.clear()
        night.child("act")
        night.passes(minutes=1)
        look.app.tick()
        await look.rests()
        assert steps == []
        assert view.page._shown is shown
        look.app.screen.dismiss()
        await look.rests()
        assert steps
        assert "In the last 24 h 11 calls" in look.prose


async def test_the_window_that_was_asked_for_last_is_the_one_that_is_shown(
    rollout: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A count that is still under way when another window is asked for is void."""
    async with looking(rollout) as look:
        held, reached = threading.Event(), threading.Event()
        advance = StatsCount.advance

        def slow(self: StatsCount, *args: Any, **more: Any) -> bool:
            if self._window is Window.WEEK:
                reached.set()
                held.wait(10)
            return advance(self, *args, **more)

        monkeypatch.setattr(StatsCount, "advance", slow)
        look.app.top.perform("next_window")  # type: ignore[union-attr]
        await asyncio.to_thread(reached.wait, 10)
        assert "counting" in look.lines[1]
        assert look.view.page.dimmed
        look.app.top.perform("previous_window")  # type: ignore[union-attr]
        look.app.top.perform("previous_window")  # type: ignore[union-attr]
        held.set()
        await look.rests()
        assert look.view.window is Window.HOUR
        assert look.view.report is not None
        assert look.view.report.window is Window.HOUR
        assert not look.view.page.dimmed
        assert "counted to" in look.lines[1]


async def test_a_count_under_way_says_how_far_and_the_sentence_that_it_is_not_all(
    rollout: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, reached = threading.Event(), threading.Event()
    advance = StatsCount.advance
    calls: list[int] = []

    def stepwise(self: StatsCount, *args: Any, **more: Any) -> bool:
        calls.append(1)
        if len(calls) == 2:
            reached.set()
            held.wait(10)
        return advance(self, *args, limit=8)

    monkeypatch.setattr(StatsCount, "advance", stepwise)
    async with looking(rollout, at_once=True) as look:
        await asyncio.to_thread(reached.wait, 10)
        await look.pilot.pause()
        assert re.search(r"counting \d+ %", look.lines[1])
        assert "Counted so far: enforcing" in look.text
        held.set()
        await look.rests()
        assert "counted to" in look.lines[1]
        assert "Counted so far" not in look.text


# --- what is not as it should be -----------------------------------------------------------------


async def test_without_a_policy_the_receipts_say_the_mode(rollout: Shift, night: Shift) -> None:
    async with looking(rollout, policy=False) as look:
        assert "policy not read, observe" in look.lines[1]
        assert "Enforcing the last 24 h would have asked you 8 times" in look.text
    async with looking(night, policy=False) as look:
        assert "policy not read, enforce" in look.lines[1]
        assert "by outcome" in look.text


async def test_a_policy_that_begins_to_count_is_another_question(rollout: Shift) -> None:
    async with looking(rollout) as look:
        under(rollout, OBSERVE.replace("mode: observe\n", ""))
        look.app._read_policy()
        await look.rests()
        assert "if this policy were enforced" not in look.text
        assert "only observed, and not counted here" in look.prose
        assert "No call was counted in the last 24 h." in look.prose


@pytest.mark.parametrize("mode", ["observe", "enforce"])
async def test_calls_of_the_other_mode_are_in_no_number_but_their_own(
    night: Shift, mode: str
) -> None:
    """Ten calls were enforced, then two are only observed: neither count has any of the others."""
    under(night, OBSERVE)
    for number in range(2):
        night.call(night.refund(900_000, f"observed_{number}"))
    if mode == "enforce":
        under(night, POLICY)
    async with looking(night, size=(120, 60)) as look:
        report = look.view.report
        assert report is not None
        own, other = (2, 10) if mode == "observe" else (10, 2)
        assert report.calls.count == own
        assert report.other_mode.count == other
        assert report.document["actions"] == own + other
        for rows in (report.actions, report.policies, report.principals):
            assert sum(row.calls.count for row in rows) == own
        for totals in (report.decisions, report.results):
            assert sum(row.figure.count for row in totals) == own
        assert sum(bucket.calls for bucket in report.series.buckets) == own
        said = (
            "stopped 2 of 2 calls" if mode == "observe" else "In the last 24 h 10 calls: 2 needed"
        )
        assert said in look.prose


async def test_receipts_that_cannot_be_read_are_named(rollout: Shift) -> None:
    with closing(sqlite3.connect(rollout.path)) as database, database:
        (receipt_id,) = database.execute(
            "SELECT receipt_id FROM receipts ORDER BY ts DESC LIMIT 1"
        ).fetchone()
        database.execute(
            "UPDATE receipts SET json = '{\"broken' WHERE receipt_id = ?", (receipt_id,)
        )
    async with looking(rollout) as look:
        assert "1 receipt cannot be read, and no number has them" in look.prose
        assert receipt_id[:12] in look.text


async def test_what_cannot_be_counted_is_said_as_long_as_it_is_so(rollout: Shift) -> None:
    """The page is empty, so the reason stands beside it, and other notices are not covered by it."""

    def places(statement: str) -> None:
        with closing(sqlite3.connect(rollout.path)) as database, database:
            database.execute(statement)

    places("UPDATE receipts SET seq = 'x' WHERE seq = 2")
    async with looking(rollout, size=(120, 40)) as look:
        assert "cannot be counted: receipts ctr_" in look.lines[2]
        assert "seq is not an integer" in look.notice
        await look.does("previous_window", "previous_window", "previous_window")
        assert look.notice == "this is the shortest window"
        await look.window("24h")
        await look.does("sort")
        for _ in range(2):
            rollout.passes(seconds=1)
            look.app.tick()
            await look.rests()
        assert "cannot be counted: receipts ctr_" in look.lines[2]
        assert look.notice.startswith("lists ")
        places("UPDATE receipts SET seq = 2 WHERE seq = 'x'")
        rollout.passes(seconds=6)
        look.app.tick()
        await look.rests()
        assert "cannot be counted" not in look.text
        assert "8 times" in look.text


async def test_a_blank_stands_before_the_bars(night: Shift) -> None:
    night.call(night.refund(1000, "just_now"))
    async with looking(night) as look:
        for window in WINDOWS:
            await look.window(window)
            for size in ((60, 15), (80, 24), (120, 40)):
                await look.resizes(size)
                assert re.search(r"calls, by [a-z0-9 ]+ [▁▂▃▄▅▆▇█…]", look.text), (window, size)


async def test_a_store_that_cannot_be_read_leaves_the_numbers_quiet(
    rollout: Shift, tmp_path: Path
) -> None:
    async with looking(rollout) as look:
        text = look.lines[3:20]
        away = tmp_path / "away.db"
        rollout.path.rename(away)
        for _ in range(4):
            rollout.passes(seconds=2)
            await look.rests()
        assert look.app.live.reach.value != "live"
        assert look.view.page.dimmed
        assert look.lines[3:20] == text
        await look.filters("agent:ops-bot")
        assert "refund-agent" not in "\n".join(look.lines[14:18])
        away.rename(rollout.path)
        for _ in range(3):
            rollout.passes(seconds=5)
            await look.rests()
        assert look.app.live.is_live
        assert not look.view.page.dimmed


async def test_another_store_at_the_place_is_counted_from_its_beginning(
    rollout: Shift, night: Shift
) -> None:
    async with looking(rollout) as look:
        assert "8 times" in look.text
        rollout.close()
        for suffix in ("-wal", "-shm"):
            rollout.path.with_name(rollout.path.name + suffix).unlink(missing_ok=True)
        night.close()
        shutil.copy(night.path, tmp := rollout.path.with_suffix(".new"))
        tmp.replace(rollout.path)
        rollout.passes(seconds=1)
        await look.rests()
        assert look.view.report is not None
        assert look.view.report.other_mode.count == 10
        assert "10 calls were enforced" in look.prose


# --- hostile names -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "glyphs", "half"),
    [((80, 24), UNICODE, 0), ((120, 40), ASCII, 1)],
    ids=["unicode", "ascii"],
)
async def test_hostile_names_stay_text_and_can_be_opened(
    tmp_path: Path, size: tuple[int, int], glyphs: Glyphs, half: int
) -> None:
    shift = Shift(tmp_path, OBSERVE)
    names = [text for text in STORABLE if text.strip()][half::2]
    for text in names:
        named(shift, f"crm.{text}", text, text)
        stopped_by(shift, text)
    async with looking(shift, size=size, glyphs=glyphs) as look:
        view = look.view
        view.unfolded |= {"reasons", "actions", "principals"}
        view.show_report()
        page = view.page
        seen = 0
        for _ in range(len(page._order)):
            if seen % 8 == 0:
                assert_inert(look.text)
            seen += 1
            page.move(1)
        assert seen > 2 * len(names)
        for row, number in look.numbers[::61]:
            figure = number.stands_for
            assert isinstance(figure, Figure)
            assert figure.count == matching(shift, figure), row
            page.go_to(row)
            await look.does("its_receipts")
            assert_inert(look.text)
            screen = look.app.screen
            assert isinstance(screen, ReceiptsView)
            assert screen.list.window.rows, (row, screen.filter_text)
            await look.does("filter")
            assert_inert(look.text)
            await look.pilot.press("enter")  # not touched: the same filter
            await look.rests()
            assert screen.list.window.rows, (row, screen.filter_text)
            await look.does("back")
    shift.close()


# --- sizes, signs, colours -----------------------------------------------------------------------


@pytest.mark.parametrize("scene", sorted(SCENES))
async def test_every_size_shows_what_decides_and_reaches_every_row(
    written: dict[str, Path], tmp_path: Path, scene: str
) -> None:
    shift = copied(written, scene, tmp_path)
    async with looking(shift, size=(60, 15)) as look:
        assert "24 h" in look.lines[3]  # before any key
        for size in ((60, 15), (79, 24), (80, 24), (120, 40), (200, 50), (240, 20)):
            await look.resizes(size)
            assert all(len(line) <= size[0] for line in look.lines)
            await reaches_every_row(look, scene)
    shift.close()


async def reaches_every_row(look: Look, scene: str) -> None:
    """Line by line and page by page, down and up."""
    first = "Enforcing the last 24 h" if scene == "observe" else "In the last 24 h 10 calls"
    await look.does("top")
    assert first in look.prose
    page = look.view.page
    rows = list(page._order)
    for row in rows:
        assert page.row == row
        assert look.app.glyphs.cursor in look.text, row
        page.move(1)
    await look.does("top")
    for _ in rows:
        page.turn_page(1)
    assert page.row == rows[-1]
    for _ in rows:
        page.turn_page(-1)
    assert page.row == rows[0]
    assert first in look.prose


async def test_wide_the_lists_stand_beside_the_numbers(rollout: Shift) -> None:
    async with looking(rollout, size=(120, 40)) as look:
        assert "5 Stats" in look.lines[1]
        left = [line.partition("│")[0].rstrip() for line in look.lines[3:-2]]
        right = [line.partition("│")[2].rstrip() for line in look.lines[3:-2]]
        assert any("by action" in line for line in left)
        heads = [
            line.strip().split("  ")[0] for line in right if re.match(r" +(stopped|by) ", line)
        ]
        assert heads == ["stopped by", "by policy", "by principal"]


@pytest.mark.parametrize("scene", sorted(SCENES))
async def test_ascii_signs_are_enough(written: dict[str, Path], tmp_path: Path, scene: str) -> None:
    shift = copied(written, scene, tmp_path)
    async with looking(shift, size=(120, 40), glyphs=ASCII, no_color=True) as look:
        assert look.text.isascii()
        assert set(look.line(", by ").split()[3]) <= set(".:-=#")
        palette = look.app.palette
        assert look.view.page.row is not None
        cursor = [line for line in look.lines if ">" in line]
        assert cursor
        assert palette.style(Role.VALUE, cursor=True).reverse
    shift.close()


async def test_a_cursor_move_draws_the_lines_that_changed(
    rollout: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looking(rollout) as look:
        page = look.view.page
        drawn: list[int] = []
        redraw = page.redraw

        def noted(*regions: Region) -> None:
            drawn.extend(region.y for region in regions)
            redraw(*regions)

        monkeypatch.setattr(page, "redraw", noted)
        await look.does("down")
        assert len(drawn) == 2
        drawn.clear()
        look.app.tick()
        await look.rests()
        assert drawn == []


async def test_the_mouse_moves_and_scrolls_and_opens_nothing(rollout: Shift) -> None:
    async with looking(rollout) as look:
        y = look.lines.index(look.line("would have been blocked"))
        await look.pilot.click(offset=(10, y))
        await look.rests()
        assert look.view.page.row == "totals\0blocked"
        await look.pilot.click(offset=(10, y), times=2)
        await look.rests()
        assert isinstance(look.app.screen, StatsView)
        for step in (5, 5, -20):
            look.view.page.scroll_lines(step)
            assert look.app.glyphs.cursor in look.text
        assert "Enforcing the last 24 h" in look.text


# --- what leaves the console ---------------------------------------------------------------------


async def test_the_figures_are_copied_as_text(
    rollout: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with looking(rollout, size=(120, 40)) as look:
        sent: list[str] = []
        monkeypatch.setattr(look.app, "write_terminal", sent.append)
        await look.does("copy")
        found = re.search(r"\x1b\]52;c;([A-Za-z0-9+/=]*)", "".join(sent))
        assert found is not None
        text = base64.b64decode(found[1]).decode()
        assert text.startswith("ctrlrun stats, window 24h, observe mode, counted to 03:12:41Z\n")
        assert "would have asked you 8 times" in " ".join(text.split())
        assert "rule[1]" in text
        assert "by principal" in text
        assert "the figures" in look.notice


async def test_the_document_is_what_the_command_prints(rollout: Shift) -> None:
    async with looking(rollout, size=(80, 50)) as look:
        await look.window("all")
        await look.does("raw")
        assert isinstance(look.app.screen, JsonPaper)
        shown = json.loads(look.text[look.text.index("{") : look.text.rindex("}") + 1])
        assert shown == documented(rollout, "all", "observe")
        await look.does("back")
        assert isinstance(look.app.screen, StatsView)


async def test_keys_that_mean_nothing_here_say_so(rollout: Shift) -> None:
    async with looking(rollout) as look:
        for key in ("i", "a", "space", "v"):
            await look.pilot.press(key)
            assert "does nothing here" in look.notice
        hints, _ = look.view.hints()
        assert [f"{hint.key} {hint.word}" for hint in hints][:5] == [
            "Enter its receipts",
            "[ ] window",
            "s sort",
            "/ filter",
            "y copy",
        ]
