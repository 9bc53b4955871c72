"""Counting receipts: the one count under `ctrlrun stats` and the console's Stats view.

The store groups and counts, a slice at a time, in the order of its chain; this keeps the sums. A
count that is done goes on from the chain's head: a receipt that commits late but ended earlier is
new there as well, so nothing is missed and nothing counted twice. Knows no SQL. Rules: docs/stats.md.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING

from ctrlrun.errors import DamagedRow, InvalidArgument
from ctrlrun.operator.pages import paged
from ctrlrun.operator.stats_panels import Counted, report_of
from ctrlrun.operator.stats_reading import tallying
from ctrlrun.operator.stats_report import Progress, StatsReport, Window
from ctrlrun.operator.stats_sums import Sums
from ctrlrun.state import Damage, PagedReader, TallyReader
from ctrlrun.state.page import START
from ctrlrun.state.tally import AnswerTally, Stretch, TallyPage, Timed

if TYPE_CHECKING:
    from ctrlrun.policy import Mode

SLICE = 20_000
"""Receipts that one step looks at: well under the time in which a person sees a stop."""

_READ = 5_000
"""Receipts that are read at once: the database sorts so many in its cache."""

_SLIDES = 900
"""A window follows the clock in so many steps of its length: each costs what passed its boundary."""

_STARTS_OVER = 10
"""One that was left for more than such a part of its length is counted anew instead."""

_LONGEST_NAMED = 100


class _Phase(Enum):
    """What is counted: the window, then the one before it, then what comes."""

    CURRENT = 1
    BEFORE = 2
    LIVE = 3


class StatsCount:
    """The count of one window, for one thread at a time (its reports may go anywhere).

        count = StatsCount(Window.DAY, mode="observe")
        while not count.advance(reader, clock()):
            show(count.report())
        show(count.report())

    Later calls of `advance` move the window to the new time and add what is new, at the cost of
    that. `window` may also be a fixed boundary (inclusive), or None for everything.
    """

    def __init__(
        self, window: Window | datetime | None, *, mode: Mode, panels: bool = True
    ) -> None:
        """`panels=False`: only the document is asked for; nothing over time, no answers."""
        if isinstance(window, datetime) and window.utcoffset() is None:
            raise InvalidArgument(f"{window.isoformat()} has no offset from UTC")
        self._window = window if isinstance(window, Window) else None
        self._fixed = window if isinstance(window, datetime) else None
        self._mode = mode
        self._panels = panels
        self._now: datetime | None = None
        self._sums = Sums(mode)
        self._phase = _Phase.CURRENT
        # The boundary, and that of the window before (the same where there is none of that).
        self._since: datetime | None = None
        self._earliest: datetime | None = None
        # Cursors: where the window's receipts begin, up to where they are counted, and what is read.
        self._start = self._live_after = self._after = START
        self._through: str | None = None
        self._head: tuple[int, str] | None = None  # the chain's, when all of it was counted
        self._looked_at = self._left = 0
        self._first: datetime | None = None
        self._last: datetime | None = None
        self._has_ends = True
        self._damaged: list[Damage] = []
        self._answers: tuple[AnswerTally, AnswerTally | None] | None = None

    def advance(self, reader: PagedReader, now: datetime, *, limit: int = SLICE) -> bool:
        """Look at no more than about `limit` receipts; True when all there were are counted.

        Starts over by itself when the store is another one, or was set back. A receipt that cannot
        be read raises nothing: the report names it. Raises DamagedRow for one whose place in the
        chain is no number.
        """
        tallies = tallying(reader)
        if self._now is None or self._is_another(paged(reader)):
            self._begin(tallies, now)
        self._now = now
        if self._phase is _Phase.LIVE:
            self._slide(tallies, now)
        room = limit
        while room > 0:
            head = _head_of(reader)
            page = tallies.receipts_tally(
                self._stretch, after=self._after, through=self._through, limit=min(room, _READ)
            )
            if page.after is not None:
                self._take(page)
                self._after = page.after
                room -= page.looked_at
            elif self._phase is _Phase.LIVE:
                # The head was read after the last page and before this empty one: it is that page's.
                self._head = head
                self._live_after = self._after
                self._ask(tallies)
                if not self._has_ends:
                    ends = tallies.receipts_ends(self._since, through=self._after)
                    self._first, self._last = ends
                    self._has_ends = True
                return True
            else:
                self._next_phase(tallies)
        return False

    def report(self) -> StatsReport:
        """What is counted so far. InvalidArgument before the first `advance`."""
        if self._now is None:
            raise InvalidArgument("nothing is counted yet; call advance first")
        done = self._phase is not _Phase.CURRENT
        counted = Counted(
            mode=self._mode,
            window=self._window,
            boundary=self._since if self._fixed is None else self._fixed,
            since=self._since,
            until=self._now,
            ends=(self._first, self._last),
            current=dict(self._sums.current),
            before=dict(self._sums.before) if self._has_before else None,
            moments={moment: tuple(marks) for moment, marks in self._sums.moments.items()},
            answers=self._answers,
            requests=self._sums.requests(self._since),
        )
        progress = Progress(self._looked_at, self._looked_at + self._left, done, self._has_before)
        return report_of(counted, progress, tuple(self._damaged))

    # --- where the count stands ------------------------------------------------------------------

    @property
    def _has_before(self) -> bool:
        return self._phase is _Phase.LIVE and self._earliest != self._since

    @property
    def _length(self) -> timedelta | None:
        return None if self._window is None else self._window.length

    @property
    def _timed(self) -> Timed:
        if not self._panels:
            return ""
        return "minute" if self._window in (Window.QUARTER, Window.HOUR) else "hour"

    @property
    def _stretch(self) -> Stretch:
        return Stretch(
            since=self._earliest,
            split=self._since if self._earliest != self._since else None,
            timed=self._timed,
        )

    def _begin(self, tallies: TallyReader, now: datetime) -> None:
        self._sums = Sums(self._mode)
        self._phase = _Phase.CURRENT
        self._since, self._earliest = self._bounds(now)
        self._start = START if self._since is None else tallies.receipts_place(self._since)
        self._after = self._live_after = self._start
        self._through = self._head = None
        self._looked_at = self._left = 0
        self._first = self._last = None
        self._has_ends = True
        self._damaged = []
        self._answers = None

    def _bounds(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Where the window begins, and the one before it (there too where there is none)."""
        length = self._length
        if length is None:
            since = None if self._fixed is None else _up(self._fixed)
            return since, since
        since = _up(now - length)
        return since, since - length

    def _is_another(self, reader: PagedReader) -> bool:
        """Whether what was counted is not the beginning of this chain."""
        if self._sums.is_broken:
            return True
        known, head = self._head, _head_of(reader)
        if known is None or head == known:
            return False
        if head is None or head[0] <= known[0]:
            return True
        following = reader.receipt_rows(after=self._live_after, limit=1)
        return not following or following[0].prev_hash != known[1]

    def _take(self, page: TallyPage) -> None:
        self._sums.add(page.tallies)
        self._sums.name(page.requests)
        self._looked_at += page.looked_at
        self._left = page.left
        self._damaged += page.damaged[: _LONGEST_NAMED - len(self._damaged)]
        self._has_ends = self._has_ends and page.has_ends
        self._first = min(filter(None, (self._first, page.first)), default=None)
        self._last = max(filter(None, (self._last, page.last)), default=None)

    def _next_phase(self, tallies: TallyReader) -> None:
        if self._phase is _Phase.CURRENT:
            self._live_after = self._after
            self._ask(tallies)
            if self._earliest is not None and self._earliest != self._since:
                self._phase = _Phase.BEFORE
                self._after, self._through = tallies.receipts_place(self._earliest), self._start
                return
        self._phase = _Phase.LIVE
        self._after, self._through = self._live_after, None

    def _slide(self, tallies: TallyReader, now: datetime) -> None:
        """Let the boundary follow the clock: what it passed goes over, what is too old goes out."""
        length, since = self._length, self._since
        if length is None or since is None:
            return
        to, earliest = self._bounds(now)
        assert to is not None
        if to - since < length / _SLIDES:
            return
        if to - since > length / _STARTS_OVER:
            self._begin(tallies, now)
            return
        through = self._live_after
        passed = Stretch(since=since, until=to, timed=self._timed)
        self._sums.move(tallies.receipts_finished(passed, through=through).tallies)
        gone = Stretch(since=self._earliest, until=earliest)
        self._sums.drop(tallies.receipts_finished(gone, through=through).tallies)
        self._since, self._earliest = to, earliest
        self._has_ends = False

    def _ask(self, tallies: TallyReader) -> None:
        """How requests were answered, in this window and in the one before."""
        assert self._now is not None
        if not self._panels:
            return
        before = None
        if self._earliest != self._since:
            before = tallies.answers_tally(self._now, since=self._earliest, until=self._since)
        self._answers = (tallies.answers_tally(self._now, since=self._since), before)


def _up(moment: datetime) -> datetime:
    """The next whole millisecond: documents have no finer times, so both count the same receipts."""
    rest = moment.microsecond % 1000
    return moment.astimezone(UTC) + timedelta(microseconds=(1000 - rest) % 1000)


def _head_of(reader: PagedReader) -> tuple[int, str] | None:
    try:
        return paged(reader).chain_head()
    except DamagedRow:
        return None
