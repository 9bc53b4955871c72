"""Cells that the clock changes: ages and times left, as lines of spans."""

from __future__ import annotations

from datetime import datetime

from ctrlrun.operator.wording import SOON, left_text, span_text
from ctrlrun_tui.data.models import Line, Role, Span


def age_line(since: datetime, now: datetime) -> Line:
    """How long ago: `4:18`."""
    return (Span(span_text(now - since), Role.QUIET),)


def left_line(until: datetime | None, now: datetime) -> Line:
    """The time left: `10:42`, `soon 0:41`, `EXPIRED`; nothing for what never ends."""
    if until is None:
        return ()
    text = left_text(until, now)
    needs_you = now <= until < now + SOON
    return (Span(text, Role.NEEDS if needs_you else Role.VALUE),)
