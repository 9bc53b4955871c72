"""One window that is being counted: by one thread at a time, for as long as anybody looks at it.

A count goes on where it stopped, so coming back to a window costs what is new. It reads through
`ctrlrun.operator` and tells what it found; who is told decides what is shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from ctrlrun.clock import Clock
from ctrlrun.operator.stats import StatsCount
from ctrlrun.operator.stats_report import StatsReport, Window
from ctrlrun.policy import Mode
from ctrlrun.state import PagedReader

TELL_EVERY = 0.15
"""Seconds between two reports of a count that is under way."""


class Counting:
    """The count of one window in one mode."""

    def __init__(self, window: Window, mode: Mode) -> None:
        self.window = window
        self.mode = mode
        self.report: StatsReport | None = None  # the last one that was told
        self._count = StatsCount(window, mode=mode)
        self._lock = threading.Lock()

    def run(
        self,
        reader: PagedReader,
        clock: Clock,
        is_cancelled: Callable[[], bool],
        tell: Callable[[StatsReport, bool], None],
    ) -> None:
        """Count until all is counted or nobody wants it any more. Called in a worker.

        `tell` is given what is counted so far, and whether that is all, the window before included.
        """
        with self._lock:  # a worker that was cancelled may still be at its last step
            told_at: float | None = None
            done = False
            while not done and not is_cancelled():
                done = self._count.advance(reader, clock())
                at = monotonic()
                if not done and told_at is not None and at - told_at < TELL_EVERY:
                    continue
                told_at = at
                self.report = self._count.report()
                tell(self.report, done)
