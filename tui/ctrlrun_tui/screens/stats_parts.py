"""The parts of the Stats page above its lists: the sentence, the numbers, the chart, the answers.

Pure: every number stands for a `Figure` of the report, which names what is behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from ctrlrun.operator.stats_chart import between
from ctrlrun.operator.stats_report import (
    AnswerTimes,
    Figure,
    Rollout,
    StatsReport,
    TotalRow,
    Window,
)
from ctrlrun.operator.wording import span_text
from ctrlrun_tui.data.figures import Number, PageLine, Spot, Told, beside, flow
from ctrlrun_tui.data.models import Column, Role, Span
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.screens.stats_lists import (
    Table,
    TableRow,
    change_line,
    number,
    policy_word,
    table_lines,
)
from ctrlrun_tui.widgets.chart import Bars, bars, step_words
from ctrlrun_tui.widgets.strips import MARGIN, width_of

LABEL = 17
"""Cells before the bars, and before what is told on lines with a label."""

PEAK = len("  peak ")
"""Cells before the number of the peak, behind the bars."""

NAMED = 3
"""Receipts that cannot be read are named up to this number; the others are counted."""

_SPANS = {
    Window.QUARTER: "15 minutes",
    Window.HOUR: "hour",
    Window.DAY: "24 h",
    Window.WEEK: "7 days",
}
_WORDS = {"ambiguous": "AMBIGUOUS"}


def span_words(report: StatsReport) -> str:
    """`the last 24 h`, or since when all is counted."""
    if report.window is not None and report.window is not Window.ALL:
        return f"the last {_SPANS[report.window]}"
    since = report.since or report.first
    return "everything" if since is None else f"everything since {since:%Y-%m-%d %H:%M}"


def _many(figure: Figure, one: str, many: str) -> str:
    return one if figure.count == 1 else many


def _told(figure: Figure, name: str, text: str | None = None) -> Told:
    shown = f"{figure.count:,}" if text is None else text
    return Told(shown, name, figure if figure.count else None)


# --- the sentence --------------------------------------------------------------------------------


def sentence(report: StatsReport, width: int) -> tuple[PageLine, ...]:
    """What it comes to, before the numbers that it is made of."""
    words: tuple[str | Told, ...]
    calls = report.calls if report.rollout is None else report.rollout.calls
    if not calls.count and report.progress.done:
        words = (_no_calls(report),)
    elif report.rollout is not None:
        words = _rollout_words(report, report.rollout)
    else:
        words = _enforced_words(report)
    if not report.progress.done:
        words = ("Counted so far:", *_lower(words))
    return flow("sentence", "sentence", words, width - MARGIN)


def _lower(words: tuple[str | Told, ...]) -> tuple[str | Told, ...]:
    first, *others = words
    return (first[0].lower() + first[1:] if isinstance(first, str) else first, *others)


def _no_calls(report: StatsReport) -> str:
    span = span_words(report)
    where = "" if span.startswith("everything") else f" in {span}"
    return f"No call was counted{where}."


def _rollout_words(report: StatsReport, rollout: Rollout) -> tuple[str | Told, ...]:
    start = f"Enforcing {span_words(report)} would have"
    calls = (_told(rollout.calls, "calls"), f" {_many(rollout.calls, 'call', 'calls')}.")
    stopped = _told(rollout.stopped, "stopped", None if rollout.stopped.count else "none")
    if not rollout.asked.count:
        return (f"{start} asked you nothing, and stopped", stopped, " of", *calls)
    often = (
        (_told(rollout.asked, "asked", "once"), ",")
        if rollout.asked.count == 1
        else (_told(rollout.asked, "asked"), " times,")
    )
    return (f"{start} asked you", *often, *_worst(rollout), "and stopped", stopped, " of", *calls)


def _worst(rollout: Rollout) -> tuple[str | Told, ...]:
    """The worst ten minutes, where they say more than the whole does."""
    worst = rollout.worst
    if worst is None or worst.asked.count < 2:
        return ()
    of_them = "all" if worst.asked.count == rollout.asked.count else None
    at = _moment(worst.start)
    return (_told(worst.asked, "worst", of_them), f" of them in ten minutes at {at},")


def _moment(moment: datetime) -> str:
    """The time of day; the date is on the axis of the chart."""
    return f"{moment.astimezone(UTC):%H:%M}"


def _enforced_words(report: StatsReport) -> tuple[str | Told, ...]:
    span = span_words(report)
    start = f"Of {span}" if span.startswith("everything") else f"In {span}"
    calls = (_told(report.calls, "calls"), f" {_many(report.calls, 'call', 'calls')}:")
    # One request can be presented many times: the calls alone look like as many questions.
    requests = "1 request" if report.requests == 1 else f"{report.requests:,} requests"
    asked = f"needed approval ({requests})"
    named = (
        (report.asked, "asked", asked),
        (report.denied, "denied", f"{_many(report.denied, 'was', 'were')} denied"),
        (report.blocked, "blocked", f"{_many(report.blocked, 'was', 'were')} blocked"),
        (report.ambiguous, "ambiguous", "ended AMBIGUOUS"),
    )
    some = [each for each in named if each[0].count]
    if not some:
        return (start, *calls, " none was stopped, and none needed approval.")
    words: list[str | Told] = [start, *calls]
    for index, (figure, name, said) in enumerate(some):
        ends = "." if index == len(some) - 1 else ","
        words += [_told(figure, name), f" {said}{ends}"]
    return tuple(words)


# --- the numbers ---------------------------------------------------------------------------------


def totals(report: StatsReport, width: int, glyphs: Glyphs) -> tuple[PageLine, ...]:
    """The numbers by what became of calls, and their change against the window before."""
    if report.rollout is not None:
        return _rollout_totals(report, report.rollout, width, glyphs)
    half = width // 2
    title = _count_title(report)
    left = _totals("by decision", "decisions", report.decisions, title, half, glyphs)
    right = _totals("by outcome", "results", report.results, title, width - half, glyphs)
    height = max(len(left), len(right))
    left += [PageLine()] * (height - len(left))
    right += [PageLine()] * (height - len(right))
    return tuple(beside(one, other, half) for one, other in zip(left, right, strict=True))


def _count_title(report: StatsReport) -> str:
    return (
        "so far"
        if report.window is None
        else {"15m": "15 min"}.get(
            report.window.value, report.window.value.replace("h", " h").replace("d", " d")
        )
    )


def _totals(
    heading: str,
    part: str,
    rows: Sequence[TotalRow],
    title: str,
    width: int,
    glyphs: Glyphs,
) -> list[PageLine]:
    """One of the two lists of totals; what did not happen is left out."""
    columns = (
        Column("name", heading, 11, flexible=True),
        number("count", title, 7),
        number("change", "change", 7),
    )
    made = tuple(
        TableRow(
            f"{part}\0{row.name}",
            {"name": _name(row)},
            {"count": row.figure},
            {"change": change_line(row.figure)},
            zeros=True,
            needs=row.name == "ambiguous",
        )
        for row in rows
        if row.figure.count or row.figure.change
    )
    return table_lines(Table(part, columns, made, "none"), width, glyphs)


def _name(row: TotalRow) -> tuple[Span, ...]:
    needs = row.name == "ambiguous" and row.figure.count
    return (Span(_WORDS.get(row.name, row.name), Role.NEEDS if needs else Role.VALUE),)


def _rollout_totals(
    report: StatsReport, rollout: Rollout, width: int, glyphs: Glyphs
) -> tuple[PageLine, ...]:
    columns = (
        Column("name", "if this policy were enforced", 27),
        Column("remark", "", 13, flexible=True, drop=1),
        number("count", _count_title(report), 8),
        number("change", "change", 8),
    )
    hourly = rollout.asked_per_hour
    rate = f"{hourly:.1f} an hour" if rollout.asked.count and hourly >= 0.05 else ""
    named = (
        ("denied", "would have been denied", rollout.denied, ""),
        ("asked", "would have needed approval", rollout.asked, rate),
        ("blocked", "would have been blocked", rollout.blocked, ""),
        ("ambiguous", "ambiguous outcomes", rollout.ambiguous, ""),
    )
    rows = tuple(
        TableRow(
            f"totals\0{name}",
            {"name": (Span(words),), "remark": (Span(remark, Role.QUIET),)},
            {"count": figure},
            {"change": change_line(figure)},
            zeros=True,
            needs=name == "ambiguous",
        )
        for name, words, figure, remark in named
    )
    return tuple(table_lines(Table("totals", columns, rows), width, glyphs))


# --- the chart -----------------------------------------------------------------------------------


def chart(report: StatsReport, width: int, glyphs: Glyphs) -> tuple[PageLine, ...]:
    """What would have been asked, or what was called, over time."""
    buckets = report.series.buckets
    if not buckets or not report.calls.count:
        return ()
    observe = report.rollout is not None
    counts = [bucket.asked if observe else bucket.calls for bucket in buckets]
    highest = len(f"{2 * max(counts):,}")  # two bars that are joined at most make this much
    starts = [bucket.start for bucket in buckets]
    room = width - PEAK - highest - MARGIN
    at = LABEL
    drawn = bars(counts, starts, report.series.step, max(8, room - at), glyphs)
    label = _chart_label(report, drawn)
    if len(label) >= at:  # a blank stands between it and the bars
        at = len(label) + 1
        drawn = bars(counts, starts, report.series.step, max(8, room - at), glyphs)
        label = _chart_label(report, drawn)
    line = (
        Span(label.ljust(at), Role.QUIET),
        Span(drawn.bars, Role.YOURS),
    )
    axis = PageLine((Span(" " * at), Span(drawn.axis, Role.QUIET)))
    return (_with_peak(report, drawn, line, width), axis)


def _chart_label(report: StatsReport, drawn: Bars) -> str:
    what = "calls" if report.rollout is None else "asked"
    return f" {what}, by {step_words(report.series.step * drawn.joined)}"


def _with_peak(report: StatsReport, drawn: Bars, line: tuple[Span, ...], width: int) -> PageLine:
    """The bars, and the highest of them by its number; that opens what made it."""
    if not drawn.peak:
        return PageLine((*line, Span("  none", Role.QUIET)))
    text = f"{drawn.peak:,}"
    at = width_of(line)
    x = width - MARGIN - len(text)
    gap = Span("peak ".rjust(x - at), Role.QUIET)
    number = Number("peak", x, len(text), _peak_figure(report, drawn))
    spot = Spot("chart", "chart", 0, width, (number,), bar=False)
    return PageLine((*line, gap, Span(text)), (spot,))


def _peak_figure(report: StatsReport, drawn: Bars) -> Figure:
    """The receipts of the highest bar."""
    buckets = report.series.buckets
    when = between(buckets[drawn.highest[0]], buckets[drawn.highest[-1]])
    figure = report.calls if report.rollout is None else report.rollout.asked
    return replace(figure, count=drawn.peak, before=None, filter=f"{figure.filter} {when}")


# --- people's answers, policies in a row, notes --------------------------------------------------


def answers(report: StatsReport, width: int) -> tuple[PageLine, ...]:
    """How many requests people had, and how long they took."""
    times = report.answers
    if times is None or not times.requests.count:
        return ()
    words: list[str | Told] = [
        _told(times.requests, "requests"),
        f" {_many(times.requests, 'request', 'requests')}:",
    ]
    named = (
        (times.granted, "granted"),
        (times.denied, "denied"),
        (times.expired, "expired"),
        (times.waiting, "waiting"),
    )
    some = [(figure, name) for figure, name in named if figure.count]
    for index, (figure, name) in enumerate(some):
        ends = ";" if index == len(some) - 1 else ","
        words += [_told(figure, name), f" {name}{_share(times, name)}{ends}"]
    return flow(
        "answers",
        "answers",
        (*words, _how_long(times)),
        width - MARGIN,
        first=LABEL,
        hangs=LABEL,
        label="answers",
    )


def _share(times: AnswerTimes, name: str) -> str:
    share = times.expired_share
    return f" ({share:.0%})" if name == "expired" and share is not None else ""


def _how_long(times: AnswerTimes) -> str:
    if times.median is None:
        return "none was answered"
    p95 = "" if times.p95 is None else f", p95 {_span(times.p95)}"
    return f"answered in {_span(times.median)} (median){p95}"


def _span(span: timedelta) -> str:
    return span_text(span + timedelta(milliseconds=500))


def policies_in_a_row(
    width: int, glyphs: Glyphs, rows: Sequence[tuple[str, Figure, Figure]]
) -> tuple[PageLine, ...]:
    """Policies side by side on one line: how many each asked about, of how many calls.

    Nothing where they do not fit.
    """
    half = (width - LABEL) // 2
    line = PageLine((Span(" by policy", Role.QUIET),))
    for index, (policy_hash, asked, calls) in enumerate(rows):
        words = (
            f"{policy_word(policy_hash or None, glyphs)} asked",
            _told(asked, "asked"),
            " of",
            _told(calls, "calls"),
        )
        made = flow(f"policies\0{policy_hash}", "policies", words, half)
        if len(made) > 1:
            return ()
        line = beside(line, made[0], LABEL - 1 + index * half)
    return (line,)


def notes(report: StatsReport, width: int, glyphs: Glyphs) -> tuple[PageLine, ...]:
    """What no number of the page has in it."""
    lines: list[PageLine] = []
    if report.other_mode.count:
        other = "enforced" if report.mode == "observe" else "only observed"
        were = _many(report.other_mode, "call was", "calls were")
        words = (_told(report.other_mode, "other_mode"), f" {were} {other}, and not counted here")
        lines += flow("other", "other", words, width - MARGIN, hangs=3, role=Role.QUIET)
    damaged = report.damaged
    if damaged:
        cannot = "1 receipt" if len(damaged) == 1 else f"{len(damaged):,} receipts"
        named = ", ".join(glyphs.cut(glyphs.said(each.row_id), 40) for each in damaged[:NAMED])
        more = " and others" if len(damaged) > NAMED else ""
        text = f"{glyphs.denied} {cannot} cannot be read, and no number has them: {named}{more}"
        lines += flow("damaged", "damaged", (text,), width - MARGIN, hangs=3, role=Role.NEEDS)
    return tuple(lines)
