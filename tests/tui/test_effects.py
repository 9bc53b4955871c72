"""The effects: all of them, their clocks, their filter, and which of them can be resolved."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from ctrlrun import NotExecuted
from ctrlrun.effect import Holder
from ctrlrun.process import this_process
from ctrlrun.state import PagedReader, SQLiteStateStore
from ctrlrun_tui.actions import EFFECTS
from ctrlrun_tui.data.models import Row
from ctrlrun_tui.data.sources import BOTTOM, TOP, Edge, Place, RowPage, answer
from ctrlrun_tui.glyphs import UNICODE
from ctrlrun_tui.screens.effects import EffectRows, EffectsView, effect_of
from ctrlrun_tui.screens.inspect import InspectScreen
from ctrlrun_tui.widgets.window import Window
from tests.tui.helpers import START
from tests.tui.shift import Night, Shift, on_call

pytestmark = pytest.mark.anyio


@pytest.fixture
def shift(tmp_path: Path) -> Any:
    made = Shift(tmp_path)
    yield made
    made.close()


def declines(*_: Any, **__: Any) -> None:
    """A remote that says no before it does anything."""
    raise NotExecuted("declined")


def every_state(shift: Shift) -> None:
    """One effect in each state that an operator can meet, five seconds apart."""
    shift.call(shift.refund(10000, "txn_1"))
    shift.passes(seconds=5)
    shift.call(shift.refund(10000, "txn_2"), declines)
    shift.call(shift.refund(10000, "txn_2"), declines)
    shift.passes(seconds=5)
    shift.lose(shift.refund(10000, "txn_3"), seconds=5)
    shift.desk().resolve(shift.lose(shift.refund(10000, "txn_4"), seconds=5), "committed")
    shift.hang(shift.refund(10000, "txn_5"), timedelta(seconds=5))
    shift.passes(seconds=6)
    shift.hang(shift.refund(10000, "txn_6"), timedelta(minutes=2))
    shift.passes(seconds=5)


def keys(night: Night) -> list[str]:
    """The payments of the rows, from above."""
    return [row_id.removeprefix("refund:") for row_id in night.ids]


# --- the list ------------------------------------------------------------------------------------


async def test_every_state_has_its_sign_its_word_and_its_clock(shift: Shift) -> None:
    every_state(shift)
    async with on_call(shift, view=EFFECTS) as night:
        assert night.lines[1:9] == [
            " Effects  newest first  in progress 1  AMBIGUOUS 1  lapsed 1",
            "    age   state     lease, by   try effect                  action",
            "▸  0:05 ▷ executing 1:55          1 refund:txn_6",
            "   0:11 △ lapsed                  1 refund:txn_5",
            "   0:11 ✓ committed tui:bob       1 refund:txn_4            stripe.refund",
            "   0:16 ▲ AMBIGUOUS               1 refund:txn_3            stripe.refund",
            "   0:26 ⊘ failed                  2 refund:txn_2            stripe.refund",
            "   0:31 ✓ committed               1 refund:txn_1            stripe.refund",
        ]


async def test_a_lease_counts_down_and_lapses_by_the_clock_alone(shift: Shift) -> None:
    shift.hang(shift.refund(10000, "txn_6"), timedelta(minutes=2))
    async with on_call(shift, view=EFFECTS) as night:
        assert "▷ executing 2:00" in night.line("▸")
        assert "process is gone" in night.text  # so it can be answered before that
        assert night.view.reason(night.app.keys.named("resolve")) is None
        assert "lease       2:00 left, until 03:14:41Z" in night.text
        await night.waits(seconds=61)
        assert "▷ executing soon 0:59" in night.line("▸")
        await night.waits(seconds=60)
        assert "△ lapsed" in night.line("▸")
        assert "lease       ran out 0:01 ago" in night.text
        await night.waits(seconds=5)
        assert "in progress 0" in night.lines[1]
        assert night.view.reason(night.app.keys.named("resolve")) is None


async def test_the_order_can_be_turned(shift: Shift) -> None:
    every_state(shift)
    async with on_call(shift, view=EFFECTS) as night:
        await night.does("down")
        assert keys(night) == [f"txn_{number}" for number in (6, 5, 4, 3, 2, 1)]
        await night.does("sort")
        assert keys(night) == [f"txn_{number}" for number in (1, 2, 3, 4, 5, 6)]
        assert "oldest first" in night.lines[1]
        assert effect_of(night.view.list.current).effect_key == "refund:txn_5"  # type: ignore[arg-type]


async def test_a_change_shows_in_its_place(shift: Shift) -> None:
    every_state(shift)
    async with on_call(shift, view=EFFECTS) as night:
        await night.goes_to("txn_3")
        shift.desk().resolve("refund:txn_3", "failed", source="dashboard")
        await night.rests()
        assert "⊘ failed    tui:bob" in night.line("▸")
        assert keys(night) == [f"txn_{number}" for number in (6, 5, 4, 3, 2, 1)]
        assert "resolver    tui:bob" in night.text
        assert "runs, as attempt 2" in night.text


async def test_new_effects_come_above_and_move_nothing(shift: Shift) -> None:
    for number in range(30):
        shift.call(shift.refund(10000, f"txn_{number}"))
        shift.passes(seconds=1)
    async with on_call(shift, view=EFFECTS) as night:
        await night.goes_to("txn_15")
        line = night.line("▸")
        place = night.lines.index(line)
        shift.call(shift.refund(10000, "txn_new"))
        await night.rests()
        assert night.lines[place] == line
        assert night.ids[0] == "refund:txn_new"
        assert "↑ 1 newer" in night.lines[1]


async def test_columns_drop_from_the_right(shift: Shift) -> None:
    shift.call(shift.refund(10000, "txn_1"))
    async with on_call(shift, view=EFFECTS) as night:
        for size, shown in (
            ((60, 15), []),
            ((80, 24), ["action"]),
            ((120, 40), []),
            ((200, 50), ["action", "principal", "arguments"]),
        ):
            await night.resizes(size)
            head = night.line("lease, by").split("│")[0].split()
            assert head == ["age", "state", "lease,", "by", "try", "effect", *shown], size
            assert "refund:txn_1" in night.line("▸"), size


# --- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payment", "why"),
    [
        ("txn_1", "it is committed; only an effect without an outcome is resolved"),
        ("txn_2", "it is failed; only an effect without an outcome is resolved"),
        ("txn_7", "it is in progress, 5:00 of its lease left"),
    ],
)
async def test_only_an_effect_without_an_outcome_is_resolved(
    shift: Shift, payment: str, why: str
) -> None:
    every_state(shift)
    with closing(SQLiteStateStore(shift.path, clock=shift.clock)) as store:
        store.reserve_effect("refund:txn_7", "act_7")  # nobody knows whose process that is
    async with on_call(shift, view=EFFECTS) as night:
        await night.goes_to(payment)
        assert night.refused("resolve") == f"resolve: {why}"


async def test_an_ambiguous_effect_opens_its_card(shift: Shift) -> None:
    every_state(shift)
    async with on_call(shift, view=EFFECTS) as night:
        await night.goes_to("txn_3")
        await night.does("resolve")
        assert night.app.top is not None
        assert night.app.top.PLACE == "resolve"
        assert night.app.top.effect_key == "refund:txn_3"  # type: ignore[attr-defined]


async def test_inspect_shows_the_action_that_holds_the_key(shift: Shift) -> None:
    every_state(shift)
    async with on_call(shift, view=EFFECTS) as night:
        await night.goes_to("txn_3")
        assert night.view.copied(night.view.list.current) == ("refund:txn_3", "refund:txn_3")  # type: ignore[arg-type]
        await night.does("raw")
        assert '"state": "ambiguous"' in night.text
        await night.does("back", "inspect")
        assert isinstance(night.app.screen, InspectScreen)
        assert "reply lost" in night.text


# --- the detail ----------------------------------------------------------------------------------


async def test_the_detail_is_the_record_and_its_history(shift: Shift) -> None:
    shift.call(shift.refund(10000, "txn_2"), declines)
    shift.passes(minutes=1)
    shift.call(shift.refund(10000, "txn_2"))
    async with on_call(shift, size=(120, 40), view=EFFECTS) as night:
        beside = [line[68:].strip() for line in night.lines[3:]]
        for told in (
            "attempt 2 committed since 03:13:41Z",
            'result      {"id": "re_1"}',
            "a retry now is refused: it happened",
            "⊘ 03:12:41Z   rule[0] allows, attempt 1, started,",
            "60.0 s of silence",
            "✓ 03:13:41Z   rule[0] allows, attempt 2, started,",
        ):
            assert told in beside, told


async def test_the_detail_says_which_process_is_at_it(shift: Shift) -> None:
    key = shift.hang(shift.refund(10000, "txn_1"))
    mine = this_process()
    held = Holder(
        key, "", 1, mine.host, mine.pid, mine.boot_id, "t", mine.started_at, shift.clock()
    )
    record = shift.store.get_effect(key)
    assert record is not None
    shift.store.put_holder(replace(held, action_id=record.action_id))
    async with on_call(shift, size=(120, 40), view=EFFECTS) as night:
        said = " ".join(line[68:].strip() for line in night.lines[3:])
        assert f"held by     {mine.host} pid {mine.pid}, alive now" in said


async def test_a_history_of_another_day_says_which(shift: Shift) -> None:
    shift.lose(shift.refund(10000, "txn_3"))
    shift.passes(hours=30)
    shift.call(shift.refund(10000, "txn_3"))
    async with on_call(shift, view=EFFECTS) as night:
        assert "30 h" in night.line("▸")
        await night.does("open")
        await night.does("bottom")
        text = night.text
        assert text.index("30.0 h of silence") < text.index("2026-11-30") < text.index("refused")


# --- the filter ----------------------------------------------------------------------------------


FOUND = (
    ("state:ambiguous", [3]),
    ("state:lapsed", [5]),
    ("state:executing", [6, 5]),
    ("state:committed", [4, 1]),
    ("-state:committed", [6, 5, 3, 2]),
    ("key:refund:txn_4", [4]),
    ("key:refund:txn_9", []),
    ("key:*_2", [2]),
    ("attempt:2", [2]),
    ("approver:tui:*", [4]),
    ("action:stripe.*", [4, 3, 2, 1]),
    ("since:15s", [6, 5, 4]),
    ("state:ambiguous action:k8s.*", []),
)


async def test_effects_are_filtered_by_state_action_key_and_age(shift: Shift) -> None:
    every_state(shift)
    async with on_call(shift, view=EFFECTS) as night:
        for text, found in FOUND:
            await night.filters(text)
            assert keys(night) == [f"txn_{number}" for number in found], text
            assert night.lines[1].endswith(f"hides {6 - len(found)}"), text
            assert ("nothing matches" in night.text) is not bool(found), text


async def test_what_stops_matching_stays_under_the_cursor_and_says_so(shift: Shift) -> None:
    every_state(shift)
    async with on_call(shift, view=EFFECTS) as night:
        await night.filters("state:ambiguous")
        shift.desk().resolve("refund:txn_3", "committed")
        await night.rests()
        assert night.view.current_row is not None
        assert night.view.current_row.left == "the filter hides it now"
        assert "✓ committed tui:bob" in night.line("▸")
        shift.lose(shift.refund(10000, "txn_7"))
        await night.rests()
        assert "txn_7" in night.text


def fill(shift: Shift, number: int, needle: int) -> None:
    """So many effects at once, one of which stands out."""

    def work() -> None:
        for each in range(number):
            name = "needle" if each == needle else "hay"
            shift.store.reserve_effect(f"{name}:{each:06d}", f"act_{each:032x}")

    shift.store.unit(work, durable=False)


async def test_a_needle_is_found_beyond_what_one_step_looks_at(shift: Shift) -> None:
    fill(shift, 12_000, needle=100)
    async with on_call(shift, view=EFFECTS) as night:
        await night.filters("key:needle:*")
        assert night.ids == ["needle:000100"]
        assert night.view.list.window.at_bottom
        assert night.lines[1].endswith("hides 1,000+")
        shift.call(shift.refund(10000, "txn_1"))
        await night.rests()
        assert night.ids == ["needle:000100"]  # nothing flickers


async def test_a_search_that_took_long_is_not_made_again_at_once(
    shift: Shift, monkeypatch: pytest.MonkeyPatch
) -> None:
    shift.lose(shift.refund(10000, "txn_1"))
    reads: list[Place] = []
    fetch = EffectRows.fetch

    def slow(
        rows: EffectRows, reader: PagedReader, place: Place, limit: int, now: datetime
    ) -> RowPage:
        reads.append(place)
        shift.passes(seconds=1)
        return fetch(rows, reader, place, limit, now)

    async with on_call(shift, view=EFFECTS) as night:
        await night.filters("key:refund:*")
        monkeypatch.setattr(EffectRows, "fetch", slow)
        shift.lose(shift.refund(10000, "txn_2"))
        await night.rests()
        made = len(reads)
        assert made
        for number in range(3, 6):
            shift.call(shift.refund(10000, f"txn_{number}"))
            await night.rests()
        assert len(reads) == made
        await night.waits(minutes=5)
        assert len(reads) > made
        assert "refund:txn_5" in night.ids


# --- pages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("newest_first", [True, False])
def test_the_whole_list_can_be_walked_from_both_ends(shift: Shift, *, newest_first: bool) -> None:
    fill(shift, 300, needle=1)
    source = EffectRows(UNICODE, None, lambda damaged: None, newest_first=newest_first)
    down: list[str] = []
    page = source.fetch(shift.store, TOP, 64, START)
    while True:
        down += [row.id for row in page.rows]
        if page.ends:
            break
        page = source.fetch(shift.store, Place(Edge.BELOW, page.last), 64, START)
    up: list[str] = []
    page = source.fetch(shift.store, BOTTOM, 64, START)
    while True:
        up = [row.id for row in page.rows] + up
        if page.ends:
            break
        page = source.fetch(shift.store, Place(Edge.ABOVE, page.first), 64, START)
    assert down == up
    assert len(set(down)) == 300
    assert down[0].endswith("000299" if newest_first else "000000")


async def test_a_row_that_cannot_be_read_hides_no_other(shift: Shift) -> None:
    every_state(shift)
    with closing(sqlite3.connect(shift.path)) as table, table:
        table.execute("update effects set updated_at = 'never' where effect_key = 'refund:txn_2'")
    async with on_call(shift, size=(120, 40), view=EFFECTS) as night:
        assert keys(night) == [f"txn_{number}" for number in (6, 5, 4, 3, 1)]
        assert "1 row cannot be read: refund:txn_2" in night.lines[2]


# --- lists that are searched ---------------------------------------------------------------------


class Sparse:
    """A long list of numbers, few of which are wanted; a step looks at so many."""

    immutable = False

    def __init__(self, length: int, wanted: Callable[[int], bool], step: int) -> None:
        self.length = length
        self.wanted = wanted
        self.step = step

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        cursor = int(place.cursor) if place.cursor is not None else 0
        ways = {
            Edge.TOP: range(self.length),
            Edge.BELOW: range(cursor + 1, self.length),
            Edge.ABOVE: range(cursor - 1, -1, -1),
            Edge.BOTTOM: range(self.length - 1, -1, -1),
        }
        looked: list[int] = []
        found: list[int] = []
        for number in ways[place.edge]:
            looked.append(number)
            found += [number] if self.wanted(number) else []
            if len(looked) == self.step or len(found) == limit:
                break
        ends = looked[-1:] == list(ways[place.edge][-1:])
        if not looked:
            return RowPage(ends=True)
        rows = tuple(Row(str(number), {}) for number in sorted(found))
        return RowPage(rows, str(min(looked)), str(max(looked)), ends)

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        return row if self.wanted(int(row.id)) else replace(row, left="hidden")


def run(window: Window, source: Sparse) -> int:
    """Carry out what the window asks until it asks for nothing; how often it asked."""
    asked = 0
    while (request := window.next_request()) is not None:
        window.take(answer(source, cast("PagedReader", None), request, START))
        asked += 1
        assert asked < 1_000, "it never comes to rest"
    return asked


def test_a_search_goes_on_over_pages_without_a_row() -> None:
    source = Sparse(50_000, lambda number: number % 20_000 == 19_999, step=1_000)
    window = Window(height=10)
    run(window, source)
    assert [row.id for row in window.rows] == ["19999", "39999"]
    assert window.at_bottom
    window.changed()
    run(window, source)
    assert [row.id for row in window.rows] == ["19999", "39999"]


def test_a_search_finds_what_comes_anywhere_and_keeps_what_left_under_the_cursor() -> None:
    source = Sparse(50_000, lambda number: number % 20_000 == 19_999, step=1_000)
    window = Window(height=10)
    run(window, source)
    source.wanted = lambda number: number in (5, 25_000, 39_999)
    window.changed()
    run(window, source)
    assert [row.id for row in window.rows] == ["5", "25000", "19999", "39999"]
    assert window.current is not None
    assert window.current.left == "hidden"
    window.move(1)
    assert [row.id for row in window.rows] == ["5", "25000", "39999"]


def test_a_search_that_finds_nothing_ends_and_begins_again_when_something_changes() -> None:
    source = Sparse(50_000, lambda number: False, step=1_000)
    window = Window(height=10)
    run(window, source)
    assert (window.rows, window.at_bottom) == ([], True)
    source.wanted = lambda number: number == 30_000
    window.changed()
    run(window, source)
    assert [row.id for row in window.rows] == ["30000"]
    window.go(BOTTOM)
    assert window.cursor == "30000"


def test_the_view_says_what_it_is() -> None:
    """The registry knows the view by the name of its module."""
    assert EffectsView.PLACE == EFFECTS
