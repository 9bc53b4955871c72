"""Stats: what a window of time comes to, and in observe mode what enforcing it would have done.

What is shown and what its keys do; it is counted in `stats_counting`, laid out in `stats_page`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from textual.app import ComposeResult

from ctrlrun.operator import PolicyView, RowKind
from ctrlrun.operator.stats_report import Figure, StatsReport, Window
from ctrlrun.operator.wording import clock_text
from ctrlrun_tui.actions import RECEIPTS, STATS, Action
from ctrlrun_tui.data.figures import BLANK_LINE, PageColumn, PageLine
from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.data.unread import unread_span
from ctrlrun_tui.screens.paper import JsonPaper
from ctrlrun_tui.screens.receipts import ReceiptsView
from ctrlrun_tui.screens.stats_counting import CountingScreen
from ctrlrun_tui.screens.stats_lists import UNFOLD, Sort, policy_word
from ctrlrun_tui.screens.stats_page import StatsPage
from ctrlrun_tui.widgets.figures import FiguresPage
from ctrlrun_tui.widgets.filter_bar import FilterBar
from ctrlrun_tui.widgets.footer import Hint
from ctrlrun_tui.widgets.strips import MARGIN, fit, width_of
from ctrlrun_tui.widgets.tabs import Tabs
from ctrlrun_tui.widgets.viewline import ViewLine

FOOTER = ("its_receipts", "next_window", "sort", "filter", "copy", "raw")
"""What the footer has first, in this order."""

COPIED_WIDTH = 100
"""Cells of a line of the page as it is copied."""


class StatsView(CountingScreen, inherit_bindings=False):
    """View 5."""

    PLACE = STATS
    AUTO_FOCUS = "#page"

    def __init__(self) -> None:
        super().__init__()
        self.unfolded: set[str] = set()

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

    def on_resize(self) -> None:
        """What fits on the view line is another thing now."""
        self.show_view_line()
        self.renew_frame()

    # --- what is shown ---------------------------------------------------------------------------

    def show_report(self) -> None:
        """Lay out what was counted."""
        if self.report is not None:
            page = self._page_of(self.report)
            self.page.show(page, starts_at=page.starts_at)
        else:
            self.page.show(self._page_unread)
        self.dim()
        self.show_view_line()
        self.renew_frame()

    def dim(self) -> None:
        """Numbers that are out of date, or of another window than is asked for, are quiet."""
        other = self.report is not None and self.report.window is not self.window
        self.page.dim(dimmed=other or not self.console_app.live.is_live)

    def _page_of(self, report: StatsReport) -> StatsPage:
        return StatsPage(report, self.lists, frozenset(self.unfolded), self.console_app.glyphs)

    def _page_unread(self, width: int, _height: int) -> tuple[PageColumn, ...]:
        """What stands there before anything is counted."""
        app = self.console_app
        why = "" if self.failed is None else app.glyphs.said(self.failed)
        said = fit((Span(" " * MARGIN), unread_span(app.live, why)), width, app.glyphs)
        return (PageColumn(0, width, (BLANK_LINE, PageLine(said))),)

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
        if self.failed is not None and self.console_app.live.is_live:
            why = self.console_app.glyphs.said(self.failed)
            return (Span(f"cannot be counted: {why}", Role.NEEDS),)
        if report is None or report.window is not self.window:
            is_live = self.console_app.live.is_live
            return (Span("counting" if is_live else "not counted yet", Role.NEEDS),)
        if not report.progress.done:
            return (Span(f"counting {int(report.progress.share * 100)} %", Role.NEEDS),)
        return (Span(f"counted to {clock_text(report.until)}", Role.QUIET),)

    def hints(self) -> tuple[Sequence[Hint], int | None]:
        """The keys of this page first, as one reads them: windows go both ways."""
        shown, count = super().hints()
        keys = self.console_app.keys
        first = {keys.named(name).word: place for place, name in enumerate(FOOTER)}
        both = f"{keys.shown('previous_window')} {keys.shown('next_window')}"
        window = keys.named("next_window").word
        ordered = sorted(shown, key=lambda hint: first.get(hint.word, len(first)))
        return [Hint(both, hint.word) if hint.word == window else hint for hint in ordered], count

    # --- the order -------------------------------------------------------------------------------

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
            end = "longest" if step > 0 else "shortest"
            self.console_app.say_of_key(f"this is the {end} window")
            return
        self.window, self.failed = windows[here], None
        self._count_now()
        self.dim()
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
            self.console_app.say_of_key("nothing is behind it: there is none")

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
            self.console_app.say_of_key(f"nothing to go back to; {keys.shown('quit')} leaves")

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
