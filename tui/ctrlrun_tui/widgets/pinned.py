"""The pinned line: where one is, as whom, how fresh it is, and how much waits. Never covered.

When it is tight the clock goes first, then store and name are cut in the middle, and where that is
not enough OBSERVE stands without the words that explain it; nothing else is cut.
"""

from __future__ import annotations

from datetime import datetime

from ctrlrun.operator.wording import clock_text
from ctrlrun_tui.data.models import Line, Live, Reach, Role, Span, Where
from ctrlrun_tui.glyphs import Glyphs
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import OneLine, spread, width_of

_GAP = Span("  ")
_LEAST_STORE = 8
_LEAST_WHO = 8


class PinnedLine(OneLine):
    """Row 1 of every screen."""

    has_clock = True

    def line(self, width: int) -> Line:
        app = services(self)
        now = app.clock()
        waiting = app.waiting if app.is_counted else None
        return pinned_line(app.where, app.live, waiting, now, app.glyphs, width)


def pinned_line(
    where: Where, live: Live, waiting: int | None, now: datetime, glyphs: Glyphs, width: int
) -> Line:
    """The line's text in that width; None waits while nothing was counted so far."""
    state = live_line(live, now, glyphs)
    mode = _mode(where)
    waits = (Span("? waiting", Role.NEEDS),)
    if waiting is not None:
        waits = (Span(f"{waiting} waiting", Role.NEEDS if waiting else Role.QUIET),)
    clock = (Span(clock_text(now), Role.QUIET),)

    def joined(store: str, who: str) -> Line:
        parts: list[Line] = [state, (Span(store),), *mode, (Span(who),)]
        if where.read_only:
            parts.append((Span("READ-ONLY", Role.REHEARSAL),))
        return _join(parts)

    left = joined(where.store, where.who)
    excess = width_of(left) + 2 + width_of(waits) + 2 + width_of(clock) - width
    if excess <= 0:
        return spread(left, (*waits, _GAP, *clock), width, glyphs)
    excess -= 2 + width_of(clock) + 1  # one cell before the count is enough
    store, who = where.store, where.who
    if excess > 0:
        store = glyphs.cut(store, max(_LEAST_STORE, len(store) - excess))
        excess -= len(where.store) - len(store)
    if excess > 0:
        who = glyphs.cut(who, max(_LEAST_WHO, len(who) - excess))
        excess -= len(where.who) - len(who)
    if excess > 0:
        mode = _mode(where, short=True)
    return spread(joined(store, who), waits, width, glyphs)


def live_line(live: Live, now: datetime, glyphs: Glyphs) -> Line:
    """`● live`, `STALE 14 s, next try 3 s`, or `✗ unreachable, next try 3 s`."""
    if live.reach is Reach.LIVE:
        return (Span(f"{glyphs.live} live", Role.YOURS),)
    tries = "" if live.next_try_at is None else f", next try {_seconds(live.next_try_at, now)} s"
    if live.reach is Reach.UNREACHABLE or live.last_read_at is None:
        return (Span(f"{glyphs.unreachable} unreachable{tries}", Role.ALARM),)
    return (Span(f"STALE {_seconds(now, live.last_read_at)} s{tries}", Role.ALARM),)


def _seconds(later: datetime, earlier: datetime) -> int:
    return max(0, round((later - earlier).total_seconds()))


def _mode(where: Where, *, short: bool = False) -> list[Line]:
    """Environment and mode; below 80 columns the word OBSERVE alone, but that whole."""
    parts: list[Line] = []
    if where.demo:
        parts.append((Span("demo", Role.REHEARSAL),))
    if where.mode is None:
        return [*parts, (Span("policy not read", Role.NEEDS),)]
    if where.environment is not None:
        role = Role.ALARM if where.production else Role.VALUE
        shown = where.environment.upper() if where.production else where.environment
        parts.append((Span(shown, role),))
    if where.mode == "observe":
        text = "OBSERVE" if short else "OBSERVE nothing is enforced"
        parts.append((Span(text, Role.REHEARSAL),))
    else:
        parts.append((Span(where.mode),))
    return parts


def _join(parts: list[Line]) -> Line:
    line: Line = ()
    for part in parts:
        line = (*line, _GAP, *part) if line else part
    return line
