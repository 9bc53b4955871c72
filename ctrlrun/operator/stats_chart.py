"""What is told over time: the bars of the chart, and the worst ten minutes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from ctrlrun.clock import iso_timestamp
from ctrlrun.operator.stats_report import Bucket, Figure, Series, Window, WorstTen
from ctrlrun.operator.stats_sums import MARKS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = (end.replace(tzinfo=UTC) for end in (datetime.min, datetime.max))
"""The ends of the calendar: any program may have written a receipt of such a time."""

_A_MINUTE = timedelta(minutes=1)
_AN_HOUR = timedelta(hours=1)
_A_MILLISECOND = timedelta(milliseconds=1)
_TEN_MINUTES = timedelta(minutes=10)
_ASKED = MARKS.index("asked")
_MOST_BARS = 60
_UNTIL = " until:"
_STEPS = [timedelta(hours=hours) for hours in (1, 3, 6, 12, 24, 7 * 24, 28 * 24, 52 * 7 * 24)]

Moments = Mapping[datetime, tuple[int, ...]]


def series_of(
    moments: Moments, since: datetime | None, until: datetime, window: Window | None
) -> Series:
    """The bars from the boundary (else from the first receipt) to now, at most about sixty.

    What finished later than now, by a clock that is ahead, stands in bars of its own at the end.
    """
    start = since if since is not None else min(moments, default=until)
    end = max(until, max(moments, default=until))
    step = _A_MINUTE
    if window not in (Window.QUARTER, Window.HOUR):
        fitting = (step for step in _STEPS if (end - start) / step <= _MOST_BARS)
        step = next(fitting, _STEPS[-1])
    sums: dict[datetime, list[int]] = {}
    for moment, numbers in moments.items():
        bar = sums.setdefault(_floor(moment, step), [0] * len(MARKS))
        for index, number in enumerate(numbers):
            bar[index] += number
    first, last = _floor(start, step), _floor(end, step)
    count = (last - first) // step + 1
    if count > 10 * _MOST_BARS:  # a time far off the others: no row of bars reaches there
        starts = sorted(sums)
    else:
        starts = [first + index * step for index in range(count)]
    return Series(step, tuple(_bucket(bar, step, since, sums.get(bar)) for bar in starts))


def worst_ten(moments: Moments, since: datetime | None, asked: str) -> WorstTen | None:
    """The ten minutes in which most was asked, the first of equal ones; None if nothing was."""
    minutes = sorted((moment, marks[_ASKED]) for moment, marks in moments.items() if marks[_ASKED])
    best: tuple[int, datetime] | None = None
    end = held = 0
    for index, (start, count) in enumerate(minutes):
        while end < len(minutes) and minutes[end][0] - start < _TEN_MINUTES:
            held += minutes[end][1]
            end += 1
        if best is None or held > best[0]:
            best = (held, start)
        held -= count
        assert end > index
    if best is None:
        return None
    text = f"{asked} {_within(best[1], _TEN_MINUTES, since)}"
    return WorstTen(best[1], Figure(best[0], None, text))


def _bucket(
    start: datetime, step: timedelta, since: datetime | None, numbers: list[int] | None
) -> Bucket:
    calls, asked, stopped, ambiguous = numbers or (0, 0, 0, 0)
    return Bucket(start, calls, asked, stopped, ambiguous, _within(start, step, since))


def between(first: Bucket, last: Bucket) -> str:
    """The filter of what several bars have, from the first of them to the last."""
    since, _, _ = first.filter.partition(_UNTIL)
    _, _, until = last.filter.partition(_UNTIL)
    return f"{since}{_UNTIL}{until}"


def _within(start: datetime, length: timedelta, since: datetime | None) -> str:
    """The filter of a span of time. `until` is inclusive, and documents have whole milliseconds."""
    begin = start if since is None else max(start, since)
    end = start + min(length - _A_MILLISECOND, _LAST - start)
    return f"since:{iso_timestamp(begin)}{_UNTIL}{iso_timestamp(end)}"


def _floor(moment: datetime, step: timedelta) -> datetime:
    return moment - min((moment - _EPOCH) % step, moment - _FIRST)
