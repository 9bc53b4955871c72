"""What the Stats view counts, and when: a window at a time, in a worker, while somebody looks.

A count that was made goes on where it stopped, when the store changes and as its window moves with
the clock. Nothing is counted while another screen is on top. What is shown is the view's.
"""

from __future__ import annotations

from abc import abstractmethod
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from ctrlrun.operator import PolicyView
from ctrlrun.operator.stats_filter import StatsFilter, parse_stats
from ctrlrun.operator.stats_mode import carried_mode
from ctrlrun.operator.stats_report import StatsReport, Window
from ctrlrun.policy import Mode
from ctrlrun_tui.data.counting import Counting
from ctrlrun_tui.data.models import Live, Role
from ctrlrun_tui.ending import reason_of
from ctrlrun_tui.screens.filtering import FilterScreen
from ctrlrun_tui.screens.stats_lists import Lists, Sort, arranged

LOOK_AGAIN = timedelta(seconds=5)
"""How often it is counted again although nothing was written: a window moves with the clock."""

SHARE = 10
"""The rest after a count, as a multiple of what it took."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a report's lists are asked for."""

    filter: StatsFilter | None
    sort: Sort


class StatsCounted(Message, bubble=False):
    """A window is counted, so far or whole; `number` tells the newest question from void ones."""

    def __init__(
        self, number: int, counting: Counting, report: StatsReport, lists: Lists, *, ended: bool
    ) -> None:
        super().__init__()
        self.number = number
        self.counting = counting
        self.report = report
        self.lists = lists
        self.ended = ended


class StatsFailed(Message, bubble=False):
    """A count could not go on; what is shown stays."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__()
        self.number = number
        self.why = why


class CountingScreen(FilterScreen, inherit_bindings=False):
    """A screen that shows a count of `window`, with its lists under a filter and in an order."""

    def __init__(self) -> None:
        super().__init__()
        self.window = Window.DAY
        self.sort = Sort.MOST
        self.report: StatsReport | None = None
        self.lists = Lists()
        self.failed: str | None = None  # why the last count could not go on
        self._counts: dict[Window, Counting] = {}
        self._number = 0
        self._is_counting = False
        self._due = False
        self._began_at: datetime | None = None
        self._again_at: datetime | None = None
        self._counted_at: datetime | None = None

    @abstractmethod
    def show_report(self) -> None:
        """Show what was counted."""
        raise NotImplementedError

    @abstractmethod
    def show_view_line(self) -> None:
        """Say which window it is, and how far it is counted."""
        raise NotImplementedError

    @abstractmethod
    def dim(self) -> None:
        """Show numbers that are out of date as such."""
        raise NotImplementedError

    @property
    def mode(self) -> Mode | None:
        """The mode of the policy that is read; None when none is, and receipts say it."""
        policy = self.console_app.policy
        return policy.mode if isinstance(policy, PolicyView) else None

    # --- counting --------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """The first count begins."""
        self.show_report()
        self._count_now()

    def on_screen_suspend(self) -> None:
        """Another screen is on top: nothing is counted for nobody."""
        self._stop()
        self.is_behind = True

    def on_store_changed(self) -> None:
        self._due = True
        self._count_when_due()

    def on_tick(self, now: datetime) -> None:
        counted_at = self._counted_at
        if counted_at is None or not timedelta(0) <= now - counted_at < LOOK_AGAIN:
            self._due = True
        self._count_when_due()

    def on_live(self, live: Live) -> None:
        self.show_report()
        if live.is_live:
            self.is_behind = True
            if self.is_current:
                self.catch_up()

    def store_replaced(self) -> None:
        self._stop()
        self._counts.clear()
        self.report, self.lists, self.failed = None, Lists(), None
        self.show_report()
        self.is_behind = True

    def _stop(self) -> None:
        """What is being counted is not wanted any more."""
        self._number += 1
        self._is_counting = False
        self.workers.cancel_group(self, "stats")

    def _count_when_due(self) -> None:
        """Count, unless that is under way, or took so long that it rests."""
        if not self._due or self._is_counting or not self.is_current:
            return
        now, again_at = self.console_app.clock(), self._again_at
        if again_at is not None and now < again_at <= now + SHARE * LOOK_AGAIN:
            self.set_timer((again_at - now).total_seconds(), self._count_when_due)
            return
        self._count_now()

    def _count_now(self) -> None:
        """Count the window that is set, from where its count stands."""
        self._stop()
        self._due = False
        now = self.console_app.clock()
        self._is_counting, self._began_at, self._counted_at = True, now, now
        self._count(self._number, self._counts.get(self.window), self.window, self.mode)

    @work(thread=True, exclusive=True, group="stats", exit_on_error=False, description="stats")
    def _count(
        self, number: int, counting: Counting | None, window: Window, mode: Mode | None
    ) -> None:
        app, worker = self.console_app, get_current_worker()
        wanted = self._wanted()
        try:
            with closing(app.desk.reader()) as reader:
                mode = mode or carried_mode(reader)
                if counting is None or counting.mode != mode:
                    counting = Counting(window, mode)
                counted = counting
                counted.run(
                    reader,
                    app.clock,
                    lambda: worker.is_cancelled,
                    lambda report, ended: self._tell(number, counted, report, wanted, ended=ended),
                )
        except Exception as error:  # whatever it is, the page stays and the notice says it
            if counting is not None and counting.report is not None:
                self._tell(number, counting, counting.report, wanted, ended=False)
            self.post_message(StatsFailed(number, reason_of(error)))

    def _tell(
        self, number: int, counting: Counting, report: StatsReport, wanted: Wanted, *, ended: bool
    ) -> None:
        lists = arranged(report, wanted.filter, wanted.sort)
        self.post_message(StatsCounted(number, counting, report, lists, ended=ended))

    def on_stats_counted(self, message: StatsCounted) -> None:
        """Numbers are here; those of an older question are void."""
        if message.number != self._number:
            return
        self._counts[message.counting.window] = message.counting
        self.report, self.lists = message.report, message.lists
        if message.ended:
            self.failed = None
            self._ended()
        self.show_report()

    def on_stats_failed(self, message: StatsFailed) -> None:
        """The page stays; it is tried again at the next second."""
        if message.number != self._number:
            return
        self._ended()
        self._due = True
        is_news, self.failed = self.failed != message.why, message.why
        if is_news and self.console_app.live.is_live:
            self.console_app.say(self.console_app.glyphs.said(message.why), Role.NEEDS)
        self.show_report()

    def _ended(self) -> None:
        now = self.console_app.clock()
        self._is_counting = False
        if self._began_at is not None:
            self._again_at = now + SHARE * (now - self._began_at)
        if self._due:
            self._count_when_due()

    # --- what is asked for -----------------------------------------------------------------------

    def check_filter(self, text: str, now: datetime) -> None:
        parse_stats(text)

    def filter_changed(self) -> None:
        self._count_now()
        self.show_view_line()

    def _wanted(self) -> Wanted:
        text = self.filter_text
        return Wanted(parse_stats(text) if text else None, self.sort)
