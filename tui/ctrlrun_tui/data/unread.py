"""What stands where nothing was read so far: a blank there would read as *nothing waits*."""

from __future__ import annotations

from ctrlrun_tui.data.models import Live, Role, Span

READING = "reading ..."


def unread_span(live: Live, why: str = "") -> Span:
    """That it was not read, with the reason where there is one.

    `why` is what the reading itself failed by, safe to show; while the store is out of reach, that
    is the reason.
    """
    if not live.is_live:
        why = live.why or why or "the store cannot be read"
    return Span(f"not read yet: {why}", Role.NEEDS) if why else Span(READING, Role.QUIET)
