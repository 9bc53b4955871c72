"""The window of a list: constant size, cursor and marks by id, the eye kept, what left shown."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlrun.state import PagedReader
from ctrlrun_tui.data.models import Column, Lane, Line, Row, Span
from ctrlrun_tui.data.sources import (
    BOTTOM,
    END_OF_LANE,
    TOP,
    Edge,
    LanedPages,
    Place,
    RowPage,
    answer,
    one_page,
)
from ctrlrun_tui.widgets.pages import Pages
from ctrlrun_tui.widgets.rows import Placed, place_columns
from ctrlrun_tui.widgets.window import LEAST_PAGE, MOST_PAGES, Taken, Window

NOW = datetime(2026, 11, 29, tzinfo=UTC)
READER = cast("PagedReader", None)


class Numbers:
    """A list of numbered records that can come, leave and change; newest last."""

    def __init__(self, numbers: list[int], *, immutable: bool = False) -> None:
        self.numbers = numbers
        self.immutable = immutable
        self.reads = 0

    def row(self, number: int) -> Row:
        return Row(str(number), {"n": (Span(str(number)),)})

    def fetch(self, reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        self.reads += 1
        cursor = int(place.cursor) if place.cursor is not None else 0
        match place.edge:
            case Edge.TOP:
                found = self.numbers[:limit]
            case Edge.BOTTOM:
                found = self.numbers[-limit:]
            case Edge.BELOW:
                found = [number for number in self.numbers if number > cursor][:limit]
            case _:
                found = [number for number in self.numbers if number < cursor][-limit:]
        rows = tuple(self.row(number) for number in found)
        first, last = (str(found[0]), str(found[-1])) if found else (None, None)
        return RowPage(rows, first, last, ends=len(found) < limit)

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        if int(row.id) in self.numbers:
            return row
        return replace(row, left="granted")


def load(window: Window, source: Numbers) -> tuple[Row, ...]:
    """Carry out what the window asks for until it asks for nothing; the marks it dropped."""
    dropped: tuple[Row, ...] = ()
    for _ in range(50):
        request = window.next_request()
        if request is None:
            return dropped
        taken = window.take(answer(source, READER, request, NOW))
        assert taken is not None
        dropped += taken.dropped
    raise AssertionError("the window never has enough")


def opened(source: Numbers, *, height: int = 10) -> Window:
    window = Window(height=height, pages=Pages(source.immutable))
    load(window, source)
    return window


def screen(window: Window) -> list[str]:
    return [line.id if isinstance(line, Row) else "" for line in window.visible]


def test_a_million_rows_cost_no_more_than_a_page() -> None:
    source = Numbers([])
    million = range(1_000_000)
    source.fetch = _lazily(million)  # type: ignore[method-assign]
    window = opened(source, height=40)
    for _ in range(200):
        window.turn_page(1)
        load(window, source)
        assert len(window.rows) <= (MOST_PAGES + 1) * window.page
    assert window.cursor == str(200 * 39)
    window.go(BOTTOM)
    load(window, source)
    assert window.cursor == "999999"
    for _ in range(20):
        window.turn_page(-1)
        load(window, source)
    assert window.cursor == str(999_999 - 20 * 39)
    window.go(TOP)
    load(window, source)
    assert (window.cursor, window.top) == ("0", 0)


def _lazily(numbers: range) -> Callable[..., RowPage]:
    def fetch(reader: PagedReader, place: Place, limit: int, now: datetime) -> RowPage:
        cursor = int(place.cursor or 0)
        start = {
            Edge.TOP: 0,
            Edge.BOTTOM: len(numbers) - limit,
            Edge.BELOW: cursor + 1,
            Edge.ABOVE: max(0, cursor - limit),
        }[place.edge]
        end = cursor if place.edge is Edge.ABOVE else start + limit
        found = numbers[start:end]
        rows = tuple(Row(str(number), {}) for number in found)
        if not rows:
            return RowPage(ends=True)
        return RowPage(rows, rows[0].id, rows[-1].id, ends=len(rows) < limit)

    return fetch


def test_rows_that_come_above_move_neither_the_cursor_nor_the_screen() -> None:
    source = Numbers(list(range(100, 200)))
    window = opened(source)
    window.move(3)
    before = screen(window)
    source.numbers[:0] = range(95, 100)
    window.changed()
    load(window, source)
    assert (window.cursor, screen(window)) == ("103", before)
    assert window.unseen_above == 5
    window.go(TOP)
    load(window, source)
    assert (window.cursor, window.unseen_above) == ("95", 5)


def test_a_burst_of_ten_thousand_above_keeps_the_eye_and_the_size() -> None:
    source = Numbers(list(range(100_000, 100_100)))
    window = opened(source)
    window.move(4)
    before = screen(window)
    source.numbers[:0] = range(90_000, 100_000)
    window.changed()
    load(window, source)
    assert (window.cursor, screen(window)) == ("100004", before)
    assert len(window.rows) <= (MOST_PAGES + 1) * window.page
    window.go(TOP)
    load(window, source)
    assert window.cursor == "90000"


@pytest.mark.parametrize("immutable", [False, True])
def test_what_comes_at_the_ends_is_found_whatever_the_source(immutable: bool) -> None:
    source = Numbers(list(range(100, 105)), immutable=immutable)
    window = opened(source, height=20)
    source.numbers = list(range(90, 110))
    window.changed()
    load(window, source)
    assert [row.id for row in window.rows] == [str(number) for number in range(90, 110)]
    assert window.cursor == "100"


def test_an_immutable_list_reads_its_ends_alone() -> None:
    source = Numbers(list(range(500)), immutable=True)
    window = opened(source)
    window.move(200)
    load(window, source)
    source.reads = 0
    window.changed()
    request = window.next_request()
    assert request is None or not request.body


def test_the_row_under_the_cursor_stays_with_the_word_until_the_cursor_moves() -> None:
    source = Numbers(list(range(20)))
    window = opened(source)
    window.move(5)
    before = screen(window)
    source.numbers.remove(5)
    for _ in range(3):  # it stays through any number of later changes
        window.changed()
        load(window, source)
        assert screen(window) == before
        assert window.current is not None
        assert (window.current.id, window.current.left) == ("5", "granted")
    window.move(1)
    assert window.cursor == "6"
    assert "5" not in screen(window)


def test_a_row_that_comes_back_is_a_row_again() -> None:
    source = Numbers(list(range(20)))
    window = opened(source)
    window.move(5)
    source.numbers.remove(5)
    window.changed()
    load(window, source)
    source.numbers.insert(5, 5)
    window.changed()
    load(window, source)
    assert window.current is not None
    assert window.current.left is None
    assert [row.id for row in window.rows].count("5") == 1


def test_the_last_row_of_a_list_leaves_and_stays_until_others_come() -> None:
    source = Numbers([7])
    window = opened(source)
    source.numbers.clear()
    window.changed()
    load(window, source)
    assert [row.left for row in window.rows] == ["granted"]
    source.numbers.append(8)
    window.changed()
    load(window, source)
    assert window.cursor == "7"
    window.move(1)
    assert [row.id for row in window.rows] == ["8"]


def test_marks_of_rows_that_left_are_dropped_and_told() -> None:
    source = Numbers(list(range(300)))
    window = opened(source)
    for _ in range(3):
        window.toggle_mark()
        window.move(1)
    window.move(5)
    source.numbers.remove(1)
    window.changed()
    dropped = load(window, source)
    assert [(row.id, row.left) for row in dropped] == [("1", "granted")]
    assert list(window.marks) == ["0", "2"]


def test_marks_off_the_screen_are_looked_after_as_well() -> None:
    source = Numbers(list(range(2000)))
    window = opened(source)
    window.toggle_mark()
    window.go(BOTTOM)
    load(window, source)
    source.numbers.remove(0)
    window.changed()
    assert [row.id for row in load(window, source)] == ["0"]


def test_an_answer_to_an_older_question_is_void() -> None:
    source = Numbers(list(range(1000)))
    window = opened(source)
    window.changed()
    late = window.next_request()
    assert late is not None
    window.go(BOTTOM)
    newer = window.next_request()
    assert newer is not None
    assert window.take(answer(source, READER, late, NOW)) is None
    assert window.take(answer(source, READER, newer, NOW)) == Taken()
    assert window.cursor == "999"


def test_a_read_that_failed_keeps_the_rows_and_is_asked_again() -> None:
    source = Numbers(list(range(1000)))
    window = opened(source)
    before = screen(window)
    window.go(BOTTOM)
    request = window.next_request()
    assert request is not None
    window.failed(request.number)
    assert screen(window) == before
    again = window.next_request()
    assert again is not None
    assert again.place == BOTTOM


@pytest.mark.parametrize("immutable", [False, True])
@pytest.mark.parametrize("held", [0, 3])
def test_what_could_not_be_read_again_is_asked_again(held: int, immutable: bool) -> None:
    """Nothing else would ask: a list that holds nothing would call itself empty for good."""
    source = Numbers(list(range(held)), immutable=immutable)
    window = opened(source)
    source.numbers.append(held)
    window.changed()
    request = window.next_request()
    assert request is not None
    window.failed(request.number)
    load(window, source)
    assert [row.id for row in window.rows] == [str(number) for number in range(held + 1)]


def test_a_list_that_is_asked_anew_is_not_loaded_before_the_answer() -> None:
    """Whoever filters an empty list is not told at once that nothing matches."""
    source = Numbers([])
    window = opened(source)
    assert window.is_loaded
    window.start_over()
    assert not window.is_loaded
    load(window, source)
    assert window.is_loaded


def test_following_keeps_the_last_row_under_the_cursor_until_it_moves() -> None:
    source = Numbers(list(range(100)), immutable=True)
    window = opened(source)
    window.follow = True
    window.go(BOTTOM)
    load(window, source)
    source.numbers += range(100, 120)
    window.changed()
    load(window, source)
    assert window.cursor == "119"
    source.numbers += range(120, 5000)  # more than a page: the tail is read, not all between
    window.changed()
    load(window, source)
    assert window.cursor == "4999"
    window.move(-1)
    source.numbers.append(5000)
    window.changed()
    load(window, source)
    assert window.cursor == "4998"


def test_scrolling_takes_the_cursor_along_at_the_edge() -> None:
    source = Numbers(list(range(100)))
    window = opened(source)
    window.scroll(3)
    assert (window.top, window.cursor) == (3, "3")
    window.move(5)
    window.scroll(2)
    assert (window.top, window.cursor) == (5, "8")


_STEP = st.tuples(
    st.sampled_from(["come", "leave", "move", "page", "top", "bottom", "scroll"]),
    st.integers(-30, 30),
    st.randoms(use_true_random=False),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(_STEP, max_size=25), st.integers(3, 12), st.sampled_from([6, LEAST_PAGE]))
def test_whatever_happens_the_screen_shows_the_list(
    steps: list[tuple[str, int, random.Random]], height: int, page: int
) -> None:
    """Arrivals and departures never move the cursor; what is shown is contiguous and in order."""
    with patch("ctrlrun_tui.widgets.window.LEAST_PAGE", page):
        _walk(steps, height)


def _walk(steps: list[tuple[str, int, random.Random]], height: int) -> None:
    source = Numbers([number * 100 for number in range(400)])
    window = opened(source, height=height)
    for kind, amount, chance in steps:
        cursor = window.cursor
        match kind:
            case "come":
                new = {chance.randrange(40_000) for _ in range(abs(amount))}
                source.numbers = sorted({*source.numbers, *new})
                window.changed()
            case "leave":
                for _ in range(min(abs(amount), len(source.numbers))):
                    source.numbers.pop(chance.randrange(len(source.numbers)))
                window.changed()
            case "move":
                window.move(amount)
            case "page":
                window.turn_page(1 if amount > 0 else -1)
            case "top" | "bottom":
                window.go(TOP if kind == "top" else BOTTOM)
            case "scroll":
                window.scroll(amount)
        load(window, source)
        if kind in ("come", "leave"):
            assert window.cursor == cursor
        shown = [line for line in window.visible if isinstance(line, Row)]
        assert window.cursor in {row.id for row in shown}
        numbers = [int(row.id) for row in shown if row.left is None]
        here = source.numbers.index(numbers[0]) if numbers else 0
        assert numbers == source.numbers[here : here + len(numbers)]
        assert len(shown) == min(height, len(window.rows))


# --- lanes ---------------------------------------------------------------------------------------

LANES = (Lane("a", "first"), Lane("b", "second"), Lane("c", "third"))


class Laned(LanedPages):
    immutable = False

    def __init__(self, lanes: dict[str, list[int]]) -> None:
        super().__init__([(key, self._lane(key, numbers)) for key, numbers in lanes.items()])

    def _lane(self, key: str, numbers: list[int]):  # type: ignore[no-untyped-def]
        def fetch(
            reader: PagedReader, before: str | None, after: str | None, limit: int, now: datetime
        ) -> RowPage:
            if before is not None:
                end = len(numbers) if before == END_OF_LANE else int(before)
                found = [n for n in numbers if n < end or before == END_OF_LANE][-limit:]
            else:
                found = [n for n in numbers if after is None or n > int(after)][:limit]
            rows = tuple(Row(f"{key}{n}", {}, lane=key) for n in found)
            if not rows:
                return RowPage(ends=True)
            return RowPage(rows, str(found[0]), str(found[-1]), ends=len(found) < limit)

        return fetch

    def fate(self, reader: PagedReader, row: Row, now: datetime) -> Row | None:
        return None


def _laned(lanes: dict[str, list[int]], *, height: int = 8) -> tuple[Window, Laned]:
    window = Window(lanes=LANES, height=height)
    source = Laned(lanes)
    load(window, cast("Numbers", source))
    return window, source


def test_lanes_have_headings_and_empty_ones_have_none() -> None:
    window, _ = _laned({"a": [1, 2], "b": [], "c": [3]})
    shown = [line.id if isinstance(line, Row) else line.title for line in window.visible if line]
    assert shown == ["first", "a1", "a2", "third", "c3"]
    window.space_lanes(spaced=True)
    assert window.lines[0] is None


def test_lanes_are_read_through_in_both_directions() -> None:
    lanes = {"a": list(range(100)), "b": list(range(150)), "c": list(range(90))}
    window, source = _laned(lanes)
    whole = [f"{key}{n}" for key, numbers in lanes.items() for n in numbers]
    seen = [window.cursor]
    while window.cursor != whole[-1]:
        window.move(1)
        load(window, cast("Numbers", source))
        seen.append(window.cursor)
    assert seen == whole
    seen = [window.cursor]
    while window.cursor != whole[0]:
        window.move(-1)
        load(window, cast("Numbers", source))
        seen.append(window.cursor)
    assert seen == whole[::-1]


def test_the_cursor_goes_from_lane_to_lane() -> None:
    window, source = _laned({"a": list(range(500)), "b": [], "c": list(range(5))})
    window.go_lane(1)
    load(window, cast("Numbers", source))
    assert window.cursor == "c0"
    window.move(2)
    window.go_lane(-1)
    assert window.cursor == "c0"
    window.go_lane(-1)
    load(window, cast("Numbers", source))
    assert window.cursor == "a0"


def test_a_lane_in_one_page_has_its_row_ids_as_cursors() -> None:
    rows = [Row(str(number), {}) for number in range(5)]
    fetch = one_page(lambda reader, limit, now: rows)
    assert [row.id for row in fetch(READER, None, "1", 2, NOW).rows] == ["2", "3"]
    assert [row.id for row in fetch(READER, "3", None, 2, NOW).rows] == ["1", "2"]
    assert [row.id for row in fetch(READER, END_OF_LANE, None, 2, NOW).rows] == ["3", "4"]
    assert fetch(READER, None, "4", 2, NOW) == RowPage(ends=True)


# --- columns -------------------------------------------------------------------------------------


def _no_clock(row: Row, now: datetime) -> Line:
    return ()


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (60, [("a", 3, 5), ("b", 9, 24), ("c", 34, 10), ("d", 45, 15)]),
        (36, [("a", 3, 5), ("b", 9, 16), ("c", 26, 10)]),
        (26, [("a", 3, 5), ("b", 9, 17)]),
    ],
)
def test_columns_give_way_in_their_order(width: int, expected: list[tuple[str, int, int]]) -> None:
    columns = (
        Column("a", "a", 5, clock=_no_clock),
        Column("b", "b", 10, flexible=True),
        Column("c", "c", 10, drop=2),
        Column("d", "d", 15, drop=1),
    )
    placed = place_columns(columns, 3, width)
    assert [(each.column.name, each.x, each.width) for each in placed] == expected
    assert all(isinstance(each, Placed) for each in placed)
