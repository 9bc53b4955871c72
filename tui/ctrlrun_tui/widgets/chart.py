"""A row of bars over time, its axis, and its peak: pure text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from ctrlrun_tui.glyphs import Glyphs

TICK = 12
"""Cells between two times of the axis at least."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Bars:
    """What is drawn: bars and axis in as many cells, and which counts make the highest bar.

    Up to `joined` of the counts make one bar, `cells` are how wide a bar is.
    """

    bars: str
    axis: str
    joined: int
    cells: int
    peak: int
    highest: Sequence[int]


def bars(
    counts: Sequence[int], starts: Sequence[datetime], step: timedelta, width: int, glyphs: Glyphs
) -> Bars:
    """Counts as bars in at most `width` cells; where there are too many, neighbours are joined.

    Nothing is the lowest bar and anything at all is higher, so that one in an hour is seen.
    """
    if not counts:
        return Bars("", "", 1, 1, 0, ())
    joined, groups = 1, _groups(starts, step, 1)
    while len(groups) > max(1, width):
        joined += 1
        groups = _groups(starts, step, joined)
    sums = [sum(counts[index] for index in group) for group in groups]
    cells = max(1, width // len(sums))
    peak = max(sums)
    drawn = "".join(_bar(each, peak, glyphs) * cells for each in sums)
    times = [starts[group[0]] for group in groups]
    highest = groups[len(sums) - 1 - sums[::-1].index(peak)]
    return Bars(drawn, _axis(times, step * joined, cells), joined, cells, peak, highest)


def _groups(starts: Sequence[datetime], step: timedelta, joined: int) -> list[range]:
    """Which counts make one bar: bars begin where such spans of time do, as a clock has them."""
    spans = [(start - _EPOCH) // (step * joined) for start in starts]
    cuts = [index for index in range(len(spans)) if not index or spans[index] != spans[index - 1]]
    return [range(a, b) for a, b in zip(cuts, [*cuts[1:], len(spans)], strict=True)]


def _bar(count: int, peak: int, glyphs: Glyphs) -> str:
    levels = glyphs.bars
    if not count:
        return levels[0]
    steps = len(levels) - 1
    return levels[max(1, -(-count * steps // peak))]


def _axis(times: Sequence[datetime], step: timedelta, cells: int) -> str:
    """Times under their bars, the newest at the end, with room between them."""
    form = "%m-%d" if step >= _DAY or times[-1] - times[0] >= 3 * _DAY else "%H:%M"
    if form == "%H:%M" and step >= timedelta(hours=1):
        form = "%H"
    size = len(times[0].strftime(form))
    end = len(times) * cells
    last_at = max(0, end - max(cells, size))
    axis = [" "] * max(end, last_at + size)
    every = max(1, -(-TICK // cells))
    for index in range(0, len(times), every):
        x = index * cells
        if x + size < last_at:
            axis[x : x + size] = times[index].strftime(form)
    axis[last_at : last_at + size] = times[-1].strftime(form)
    return "".join(axis).rstrip()


def step_words(step: timedelta) -> str:
    """`hour`, `minute`, `10 min`, `6 h`, `day`: how long one bar is."""
    minutes = round(step.total_seconds() / 60)
    for unit, one, many in ((1440, "day", "days"), (60, "hour", "h"), (1, "minute", "min")):
        if minutes % unit == 0 and minutes >= unit:
            number = minutes // unit
            return one if number == 1 else f"{number} {many}"
    return f"{round(step.total_seconds())} s"
