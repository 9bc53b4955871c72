"""Stats: what a window of time comes to, and in observe mode what enforcing it would have done.

Everything is counted by `ctrlrun.operator`, in a worker, a step at a time: the page fills in as it
goes and says how far it is. Nothing is counted while another screen is on top.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual import work
from textual.app import ComposeResult
from textual.message import Message
from textual.worker import get_current_worker

from ctrlrun.operator import PolicyView, RowKind
from ctrlrun.operator.stats_filter import StatsFilter, parse_stats
from ctrlrun.operator.stats_mode import carried_mode
from ctrlrun.operator.stats_report import Figure, StatsReport, Window
from ctrlrun.operator.wording import clock_text
from ctrlrun.policy import Mode
from ctrlrun_tui.actions import RECEIPTS, STATS, Action
from ctrlrun_tui.data.counting import Counting
from ctrlrun_tui.data.models import Line, Live, Role, Span
from ctrlrun_tui.screens.filtering import FilterScreen
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipts import ReceiptsView
from ctrlrun_tui.screens.stats_lists import UNFOLD, Lists, Sort, arranged, policy_word
from ctrlrun_tui.screens.stats_page import StatsPage
from ctrlrun_tui.screens.view import reason_of
from ctrlrun_tui.widgets.figures import FiguresPage
from ctrlrun_tui.widgets.filter_bar import FilterBar
from ctrlrun_tui.widgets.footer import Hint
from ctrlrun_tui.widgets.strips import MARGIN, width_of
from ctrlrun_tui.widgets.tabs import Tabs
from ctrlrun_tui.widgets.viewline import ViewLine

LOOK_AGAIN = timedelta(seconds=5)
"""How often it is counted again although nothing was written: a window moves with the clock."""

SHARE = 10
"""The rest after a count, as a multiple of what it took."""

FOOTER = ("its_receipts", "next_window", "sort", "filter", "copy", "raw")
"""What the footer has first, in this order."""

COPIED_WIDTH = 100
"""Cells of a line of the page as it is copied."""


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


class StatsView(FilterScreen, inherit_bindings=False):
    """View 5."""

    PLACE = STATS
    AUTO_FOCUS = "#page"

    def __init__(self) -> None:
        super().__init__()
        self.window = Window.DAY
        self.sort = Sort.MOST
        self.unfolded: set[str] = set()
        self.report: StatsReport | None = None
        self.lists = Lists()
        self._counts: dict[Window, Counting] = {}
        self._number = 0
        self._is_counting = False
        self._due = False
        self._began_at: datetime | None = None
        self._again_at: datetime | None = None
        self._counted_at: datetime | None = None

    def compose_body(self) -> ComposeResult:
        yield Tabs(self.PLACE)
        yield ViewLine()
        yield FilterBar("/", id="filter")
        yield FiguresPage(id="page")

    @property
    def page(self) -> FiguresPage:
        """The page itself."""
        return self.query_one("#page", FiguresPage)

    @property
    def main(self) -> FiguresPage:
        return self.page

    @property
    def mode(self) -> Mode | None:
        """The mode of the policy that is read; None when none is, and receipts say it."""
        policy = self.console_app.policy
        return policy.mode if isinstance(policy, PolicyView) else None

    def on_resize(self) -> None:
        """What fits on the view line is another thing now."""
        self.show_view_line()
        self.renew_frame()

    # --- counting --------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """The first count begins."""
        self.show_view_line()
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
        self._dim()
        if live.is_live:
            self.is_behind = True
            if self.is_current:
                self.catch_up()

    def store_replaced(self) -> None:
        self._stop()
        self._counts.clear()
        self.report, self.lists = None, Lists()
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
            self._ended()
        self.show_report()

    def on_stats_failed(self, message: StatsFailed) -> None:
        """The page stays; it is tried again at the next second."""
        if message.number != self._number:
            return
        self._ended()
        self._due = True
        if self.console_app.live.is_live:
            self.console_app.say(self.console_app.glyphs.said(message.why), Role.NEEDS)

    def _ended(self) -> None:
        now = self.console_app.clock()
        self._is_counting = False
        if self._began_at is not None:
            self._again_at = now + SHARE * (now - self._began_at)
        if self._due:
            self._count_when_due()

    # --- what is shown ---------------------------------------------------------------------------

    def show_report(self) -> None:
        """Lay out what was counted."""
        if self.report is not None:
            page = self._page_of(self.report)
            self.page.show(page, starts_at=page.starts_at)
        self._dim()
        self.show_view_line()
        self.renew_frame()

    def _dim(self) -> None:
        """Numbers that are out of date, or of another window than is asked for, are quiet."""
        other = self.report is not None and self.report.window is not self.window
        self.page.dim(dimmed=other or not self.console_app.live.is_live)

    def _page_of(self, report: StatsReport) -> StatsPage:
        return StatsPage(report, self.lists, frozenset(self.unfolded), self.console_app.glyphs)

    def show_view_line(self) -> None:
        """Name, windows, what the lists are narrowed to; under which policy, counted how far."""
        said = self.console_app.glyphs.said
        left: list[Span] = [Span("Stats "), *_windows(self.window)]
        if self.sort is not Sort.MOST:
            left.append(Span(f"  {self.sort}", Role.YOURS))
        right = self._how_far()
        if self.filter_text:
            left += [Span("  /"), Span(said(self.filter_text), Role.YOURS)]
            right = (Span(f"hides {self.lists.hidden:,}  ", Role.NEEDS), *right)
        else:
            longer = (*self._under(), Span("   "), *right)
            room = self.console_app.size.width - 2 * MARGIN - width_of(tuple(left)) - 1
            right = longer if width_of(longer) <= room else right
        self.query_one(ViewLine).show(tuple(left), right)

    def _under(self) -> Line:
        """The policy that is read, or that none is: then receipts say in which mode they were."""
        policy = self.console_app.policy
        if isinstance(policy, PolicyView):
            word = policy_word(policy.policy_hash, self.console_app.glyphs)
            return (Span(f"policy {word}", Role.QUIET),)
        mode = "" if self.report is None else f", {self.report.mode}"
        return (Span(f"policy not read{mode}", Role.NEEDS),)

    def _how_far(self) -> Line:
        report = self.report
        if report is None or report.window is not self.window:
            return (Span("counting", Role.NEEDS),)
        if not report.progress.done:
            return (Span(f"counting {int(report.progress.share * 100)} %", Role.NEEDS),)
        return (Span(f"counted to {clock_text(report.until)}", Role.QUIET),)

    def hints(self) -> tuple[Sequence[Hint], int]:
        """The keys of this page first, as one reads them: windows go both ways."""
        shown, count = super().hints()
        keys = self.console_app.keys
        first = {keys.named(name).word: place for place, name in enumerate(FOOTER)}
        both = f"{keys.shown('previous_window')} {keys.shown('next_window')}"
        window = keys.named("next_window").word
        ordered = sorted(shown, key=lambda hint: first.get(hint.word, len(first)))
        return [Hint(both, hint.word) if hint.word == window else hint for hint in ordered], count

    # --- the filter and the order ----------------------------------------------------------------

    def check_filter(self, text: str, now: datetime) -> None:
        parse_stats(text)

    def filter_changed(self) -> None:
        self._count_now()
        self.show_view_line()

    def _wanted(self) -> Wanted:
        text = self.filter_text
        return Wanted(parse_stats(text) if text else None, self.sort)

    def do_sort(self) -> None:
        """Another order of the lists."""
        self.sort = self.sort.next
        self.console_app.say(f"lists {self.sort}")
        self._count_now()
        self.show_view_line()

    # --- windows ---------------------------------------------------------------------------------

    def do_next_window(self) -> None:
        self._turn_window(1)

    def do_previous_window(self) -> None:
        self._turn_window(-1)

    def _turn_window(self, step: int) -> None:
        windows = list(Window)
        here = windows.index(self.window) + step
        if not 0 <= here < len(windows):
            self.console_app.say(
                "there is no longer one" if step > 0 else "there is no shorter one"
            )
            return
        self.window = windows[here]
        self._count_now()
        self._dim()
        self.show_view_line()

    # --- moving, and what stands under the cursor ------------------------------------------------

    def do_down(self) -> None:
        self.page.move(1)

    def do_up(self) -> None:
        self.page.move(-1)

    def do_page_down(self) -> None:
        self.page.turn_page(1)

    def do_page_up(self) -> None:
        self.page.turn_page(-1)

    def do_top(self) -> None:
        self.page.go_end(bottom=False)

    def do_bottom(self) -> None:
        self.page.go_end(bottom=True)

    def do_next_number(self) -> None:
        self.page.turn_number(1)

    def do_previous_number(self) -> None:
        self.page.turn_number(-1)

    def do_its_receipts(self) -> None:
        """What is behind the number under the cursor, or the rest of a list."""
        spot, number = self.page.spot, self.page.current
        if spot is not None and spot.acts is not None:
            self._fold(spot.part, unfold=spot.acts == UNFOLD)
        elif number is not None and isinstance(number.stands_for, Figure):
            self._open_figure(number.stands_for)
        else:
            self.console_app.say("nothing is behind it: there is none")

    def _fold(self, part: str, *, unfold: bool) -> None:
        """Show all rows of a list, or as many as there is room for."""
        before = self.page.row
        (self.unfolded.add if unfold else self.unfolded.discard)(part)
        if unfold:
            self.page.stay_at_place()
        self.show_report()
        if not unfold:
            self.page.go_to(before)

    def _open_figure(self, figure: Figure) -> None:
        app = self.console_app
        count = f"{figure.count:,}"
        if figure.kind is RowKind.APPROVALS:
            from ctrlrun_tui.screens.requests import RequestsScreen

            app.push_screen(RequestsScreen(figure.filter))
            app.say(f"{count} behind the number; {app.keys.shown('back')} goes back")
            return
        app.show_view(RECEIPTS)
        receipts = app.screen
        if isinstance(receipts, ReceiptsView):
            receipts.show_behind(figure.filter, back_to=STATS)
            noun = "receipt" if figure.count == 1 else "receipts"
            app.say(f"{count} {noun} behind the number; {app.keys.shown('back')} goes back")

    def off(self, action: Action) -> str | None:
        if action.name in ("copy", "raw") and self.report is None:
            return "nothing is counted yet"
        return super().off(action)

    def do_back(self) -> None:
        """The filter goes; never out of the console."""
        if not self.take_filter_off():
            keys = self.console_app.keys
            self.console_app.say(f"nothing to go back to; {keys.shown('quit')} leaves")

    def do_copy(self) -> None:
        """The page as text, in one column."""
        report = self.report
        assert report is not None  # `off` says so otherwise
        until = clock_text(report.until)
        head = f"ctrlrun stats, window {self.window}, {report.mode} mode, counted to {until}"
        (column,) = self._page_of(report)(COPIED_WIDTH, self.page.size.height)
        lines = ("".join(span.text for span in line.text).rstrip() for line in column.lines)
        self.console_app.copy("\n".join((head, *lines)), "the figures")

    def do_raw(self) -> None:
        """What `ctrlrun stats --json` prints for this window."""
        report = self.report
        assert report is not None
        text = json.dumps(dict(report.document), ensure_ascii=False, indent=2)
        self.app.push_screen(JsonPaper(f"stats {self.window}", text))


def _windows(current: Window) -> list[Span]:
    """`15m  1h [24h] 7d  all`: the one that is shown in brackets."""
    spans: list[Span] = []
    for window in Window:
        if window is current:
            spans += [Span("["), Span(window.value, Role.YOURS), Span("]")]
        else:
            spans.append(Span(f" {window.value} ", Role.QUIET))
    return spans
