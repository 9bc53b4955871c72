"""The parts of the Stats page that are pure: bars, running text with numbers, folded lists."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from ctrlrun.errors import FilterError
from ctrlrun.operator.stats_filter import parse_stats
from ctrlrun.operator.stats_report import ActionRow, Figure, PrincipalRow, ReasonRow
from ctrlrun_tui.data.figures import PageLine, Told, beside, flow
from ctrlrun_tui.glyphs import ASCII, UNICODE
from ctrlrun_tui.screens.stats_lists import (
    FOLD,
    MOST_ROWS,
    UNFOLD,
    Table,
    actions_table,
    folded_lines,
    reasons_table,
    table_lines,
)
from ctrlrun_tui.widgets.chart import bars, step_words
from ctrlrun_tui.widgets.strips import width_of

NONE = Figure(0, 0, "")
HOUR = timedelta(hours=1)
FIRST = datetime(2026, 11, 28, 4, tzinfo=UTC)


def shown(line: PageLine) -> str:
    return "".join(span.text for span in line.text).rstrip()


def reason(name: str, *, denied: int = 0, asked: int = 0, agent: str = "bot") -> ReasonRow:
    return ReasonRow(
        name, "stripe.refund", agent, Figure(denied, 0, "d"), Figure(asked, 0, "a"), NONE
    )


def action(name: str, calls: int = 1) -> ActionRow:
    return ActionRow(name, Figure(calls, 0, "c"), NONE, NONE, NONE, NONE, NONE, NONE, NONE)


# --- the chart -----------------------------------------------------------------------------------


def hours(count: int) -> list[datetime]:
    return [FIRST + HOUR * number for number in range(count)]


def test_nothing_is_the_lowest_bar_and_one_is_higher() -> None:
    drawn = bars([0, 1, 500, 1000], hours(4), HOUR, 4, UNICODE)
    assert drawn.bars == "▁▂▅█"
    assert (drawn.peak, list(drawn.highest), drawn.joined) == (1000, [3], 1)
    assert bars([0, 1, 500, 1000], hours(4), HOUR, 4, ASCII).bars == ".:-#"


def test_a_day_of_hours_stands_over_its_axis() -> None:
    drawn = bars([0] * 23 + [12], hours(24), HOUR, 48, UNICODE)
    assert drawn.bars == "▁" * 46 + "██"
    assert drawn.axis == "04          10          16          22        03"


def test_bars_that_do_not_fit_are_joined_and_none_is_lost() -> None:
    counts = list(range(100))
    drawn = bars(counts, hours(100), HOUR, 48, UNICODE)
    assert drawn.joined == 3
    assert len(drawn.bars) <= 48
    assert drawn.peak == sum(drawn.highest) == 95 + 96 + 97  # 99 and 98 begin a bar of their own
    assert bars([1] * 100, hours(100), HOUR, 48, UNICODE).peak == 3


def test_joined_bars_begin_where_a_clock_has_such_spans() -> None:
    starts = [datetime(2026, 11, 23, tzinfo=UTC) + 3 * HOUR * number for number in range(57)]
    drawn = bars([0] * 57, starts, 3 * HOUR, 53, UNICODE)
    assert (drawn.joined, len(drawn.bars)) == (2, 29)
    assert drawn.axis.startswith("11-23       11-26")
    assert drawn.axis.endswith("11-30")


@pytest.mark.parametrize("width", [1, 2, 7, 48, 200])
@pytest.mark.parametrize("count", [0, 1, 2, 15, 24, 60, 168, 1000])
def test_bars_and_axis_stay_in_their_width(count: int, width: int) -> None:
    drawn = bars([3] * count, hours(count), HOUR, width, UNICODE)
    assert len(drawn.bars) <= width
    assert len(drawn.axis) <= max(width, len("11-28"))


def test_the_axis_names_days_where_hours_would_repeat() -> None:
    assert bars([1] * 168, hours(168), HOUR, 48, UNICODE).axis.startswith("11-28")
    minutes = [FIRST + timedelta(minutes=number) for number in range(15)]
    assert bars([1] * 15, minutes, timedelta(minutes=1), 45, UNICODE).axis.startswith("04:00")


@pytest.mark.parametrize(
    ("minutes", "words"),
    [(1, "minute"), (5, "5 min"), (60, "hour"), (180, "3 h"), (1440, "day"), (2880, "2 days")],
)
def test_how_long_a_bar_is(minutes: int, words: str) -> None:
    assert step_words(timedelta(minutes=minutes)) == words


# --- running text --------------------------------------------------------------------------------


def test_numbers_in_text_are_found_where_they_stand_on_whatever_line() -> None:
    words = ("asked you", Told("41", "asked", 1), " times,", Told("9", "worst", 2), " of them,")
    lines = flow("s", "s", words, 20)
    assert [shown(line) for line in lines] == [" asked you 41 times,", " 9 of them,"]
    for line in lines:
        for number in line.spots[0].numbers:
            text = shown(line)
            assert text[number.x : number.x + number.width] in ("41", "9")
            assert text[number.x - 1] == " "


def test_two_lines_side_by_side_keep_their_numbers() -> None:
    left, right = (flow(name, name, (name, Told("7", "n", name)), 20)[0] for name in "ab")
    line = beside(left, right, 30)
    assert [
        shown(line)[number.x : number.x + number.width] + str(number.stands_for)
        for spot in line.spots
        for number in spot.numbers
    ] == ["7a", "7b"]


# --- lists ---------------------------------------------------------------------------------------


def test_a_list_folds_to_its_room_and_says_how_much_more_there_is() -> None:
    rows = [reason(f"rule[{number}]", denied=1) for number in range(9)]
    make = partial(reasons_table, glyphs=UNICODE, width=80)
    folded = folded_lines(make, rows, 80, UNICODE, room=5, unfolded=False)
    assert [shown(line).split()[0] for line in folded[1:4]] == ["rule[0]", "rule[1]", "rule[2]"]
    assert shown(folded[-1]) == "   … 6 more"
    assert folded[-1].spots[0].acts == UNFOLD
    assert len(folded) == 5
    whole = folded_lines(make, rows, 80, UNICODE, room=5, unfolded=True)
    assert len(whole) == 1 + 9 + 1
    assert whole[-1].spots[0].acts == FOLD
    fitting = folded_lines(make, rows, 80, UNICODE, room=10, unfolded=False)
    assert len(fitting) == 10
    assert all(line.spots[0].acts is None for line in fitting[1:])


def test_a_list_of_very_many_rows_stays_bounded_and_says_so() -> None:
    rows = [reason(f"r{number}", denied=1) for number in range(MOST_ROWS + 7)]
    make = partial(reasons_table, glyphs=UNICODE, width=80)
    lines = folded_lines(make, rows, 80, UNICODE, room=5, unfolded=True)
    assert len(lines) == MOST_ROWS + 2
    assert shown(lines[-1]) == "   fewer; 7 more rows, which a filter finds"


def test_of_very_many_rows_only_those_that_are_shown_are_made() -> None:
    rows = [reason(f"r{number}", denied=1) for number in range(5_000)]
    made: list[int] = []

    def make(some: Sequence[ReasonRow]) -> Table:
        made.append(len(some))
        return reasons_table(some, UNICODE, 80)

    for unfolded in (False, True):
        folded_lines(make, rows, 80, UNICODE, room=5, unfolded=unfolded)
    assert made == [0, 3, 0, MOST_ROWS]


def test_an_agent_that_no_column_has_room_for_stands_beneath_its_action() -> None:
    """Rows of one reason and one action would read alike."""
    rows = [
        reason(f"rule[{number}]", denied=number + 1, agent=agent)
        for number, agent in enumerate(("refund-agent", "ops-bot", "night-agent-" * 5))
    ]
    make = partial(reasons_table, glyphs=UNICODE, width=51)
    lines = folded_lines(make, rows, 51, UNICODE, room=9, unfolded=False)
    texts = [shown(line) for line in lines]
    assert len(texts) == 7
    assert [text.split() for text in texts[1:4]] == [
        ["rule[0]", "stripe.refund", "1"],
        ["refund-agent"],
        ["rule[1]", "stripe.refund", "2"],
    ]
    assert texts[2].index("refund-agent") == texts[1].index("stripe.refund")
    assert all(width_of(line.text) <= 51 for line in lines)
    assert [line.spots[0].id for line in lines[1:3]] == [lines[1].spots[0].id] * 2
    folded = folded_lines(make, rows, 51, UNICODE, room=6, unfolded=False)
    assert len(folded) == 4
    assert shown(folded[-1]) == "   … 2 more"
    roomy = table_lines(reasons_table(rows, UNICODE, 80), 80, UNICODE)
    assert len(roomy) == 4


@pytest.mark.parametrize("observe", [True, False])
@pytest.mark.parametrize("width", [60, 66, 80, 98, 130])
def test_every_line_of_a_table_fits_and_its_numbers_stand_under_their_names(
    width: int, observe: bool
) -> None:
    big = Figure(1_234_567, 1, "x")
    rows = [
        ActionRow("k8s.rollout_restart" * 3, big, big, big, big, big, big, big, big),
        action("a"),
    ]
    lines = table_lines(actions_table(rows, UNICODE, width, observe=observe), width, UNICODE)
    assert all(width_of(line.text) <= width for line in lines)
    head = shown(lines[0])
    for number in lines[1].spots[0].numbers:
        text = "".join(span.text for span in lines[1].text)
        assert text[number.x : number.x + number.width] == "1,234,567"
        title = head[: number.x + number.width].split()[-1]
        assert number.name.startswith(title), (number, head)


def test_zeros_are_blank_and_nothing_opens_them() -> None:
    lines = table_lines(reasons_table([reason("rule[2]", denied=71)], UNICODE, 80), 80, UNICODE)
    assert shown(lines[1]).split() == ["rule[2]", "stripe.refund", "bot", "71"]
    assert [number.name for number in lines[1].spots[0].numbers] == ["denied"]


# --- the filter of rows --------------------------------------------------------------------------


def passing(text: str, *rows: ReasonRow | ActionRow | PrincipalRow) -> list[bool]:
    wanted = parse_stats(text)
    return [wanted.matches(row) for row in rows]


def test_a_filter_names_fields_and_looks_for_words() -> None:
    one, other = reason("rule[2]", agent="refund-agent"), reason("duplicate", agent="ops-bot")
    assert passing("reason:rule*", one, other) == [True, False]
    assert passing("-reason:rule*", one, other) == [False, True]
    assert passing("reason:duplicate reason:rule[2]", one, other) == [True, True]
    assert passing("DUPL", one, other) == [False, True]
    assert passing("agent:ops-bot stripe", one, other) == [False, True]
    assert passing("agent:ops", one, other) == [False, False]


def test_a_list_without_the_field_stays_as_it_is() -> None:
    assert passing("agent:ops-bot", action("stripe.refund")) == [True]
    assert passing("-agent:ops-bot", action("stripe.refund")) == [True]
    principal = PrincipalRow("bot", NONE, NONE, NONE, NONE)
    assert passing("action:stripe.*", principal) == [True]


@pytest.mark.parametrize("text", ["since:2h", "state:denied", '"open', "agent:"])
def test_a_filter_that_cannot_be_read_is_named(text: str) -> None:
    with pytest.raises(FilterError, match=r"\S"):
        parse_stats(text)
