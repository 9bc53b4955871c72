"""Cells that the clock changes: ages and times left, as lines of spans."""

from __future__ import annotations

from datetime import datetime, timedelta

from ctrlrun.operator.wording import SOON, left_text, span_text
from ctrlrun_tui.data.models import Line, Role, Span

_HOUR = timedelta(hours=1)
_HOURS_ALONE = timedelta(hours=10)
_DAYS_FROM = timedelta(days=2)


def age_line(since: datetime, now: datetime) -> Line:
    """How long ago, in five cells: `4:18`, from an hour on `2h10m`, `26 h`, `33 d`."""
    return (Span(_age_text(now - since), Role.QUIET),)


def _age_text(age: timedelta) -> str:
    if age < _HOUR or age >= _DAYS_FROM:
        return span_text(age)
    hours, rest = divmod(age, _HOUR)
    return f"{hours} h" if age >= _HOURS_ALONE else f"{hours}h{rest // timedelta(minutes=1):02d}m"


def left_line(until: datetime | None, now: datetime) -> Line:
    """The time left: `10:42`, `soon 0:41`, `EXPIRED`; nothing for what never ends."""
    if until is None:
        return ()
    text = left_text(until, now)
    needs_you = now <= until < now + SOON
    return (Span(text, Role.NEEDS if needs_you else Role.VALUE),)
