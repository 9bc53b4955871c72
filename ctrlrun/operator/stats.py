"""Counting receipts: the one count under `ctrlrun stats` and the console's Stats view.

The store groups and counts, a slice at a time, in the order of its chain; this keeps the sums. A
count that is done goes on from the chain's head: a receipt that commits late but ended earlier is
new there as well, so nothing is missed and nothing counted twice. Knows no SQL.
"""

from __future__ import annotations

from datetime import datetime

from ctrlrun.operator.stats_report import StatsReport, Window
from ctrlrun.state import PagedReader

SLICE = 20_000
"""Receipts that one step looks at: well under the time in which a person sees a stop."""


class StatsCount:
    """The count of one window, for one thread at a time (its reports may go anywhere).

        count = StatsCount(Window.DAY, mode="observe")
        while not count.advance(reader, clock()):
            show(count.report())
        show(count.report())

    Later calls of `advance` move the window to the new time and add what is new, at the cost of
    that. `window` may also be a fixed boundary (inclusive), or None for everything.
    """

    def __init__(self, window: Window | datetime | None, *, mode: str) -> None:
        self._window = window
        self._mode = mode

    def advance(self, reader: PagedReader, now: datetime, *, limit: int = SLICE) -> bool:
        """Look at no more than about `limit` receipts; True when all there were are counted.

        Starts over by itself when the store is another one, or was set back. Raises DamagedRow
        never: a receipt that cannot be read is named in the report.
        """
        raise NotImplementedError

    def report(self) -> StatsReport:
        """What is counted so far. InvalidArgument before the first `advance`."""
        raise NotImplementedError
