"""Following the store: what the data thread found becomes state, and screens are told.

The half of the application that knows how fresh things are: the live state, the number that waits,
the policy as it was read last, and what is said about arrivals. It decides what is read again, and
draws nothing itself.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from textual import work

from ctrlrun.authority import Authority
from ctrlrun.operator import (
    AuthorityShelf,
    AuthorityUnread,
    PolicyUnread,
    PolicyView,
    has_same_grants,
    read_authority,
    read_policy,
)
from ctrlrun.receipt import Event
from ctrlrun_tui import terminal
from ctrlrun_tui.data.arrivals import arrivals_line, count, skew_line, skew_remark
from ctrlrun_tui.data.asking import Asking
from ctrlrun_tui.data.messages import Counted, CountFailed, Fed, PolicyRead
from ctrlrun_tui.data.models import Line, Live, Notice, Reach, Role, Span, Where
from ctrlrun_tui.data.worker import DataThread, News
from ctrlrun_tui.ending import internal, reason_of
from ctrlrun_tui.screens.base import Framed
from ctrlrun_tui.sitting import Sitting
from ctrlrun_tui.turns import KeysInTurn

NEWS_KEPT = 200
"""Events that wait to be put into words at most."""


def stands(screen: Framed[Any]) -> bool:
    """Whether a screen has its widgets: one that is being taken down has lost some already."""
    return screen.is_mounted and not screen._pruning


class FollowingApp(KeysInTurn, inherit_bindings=False):
    """An application on a sitting's store, up to date."""

    def __init__(self, sitting: Sitting, *, ansi_color: bool | None = None) -> None:
        self.sitting = sitting
        self.clock = sitting.clock
        self.desk = sitting.desk
        self.glyphs = sitting.glyphs
        super().__init__(ansi_color=ansi_color)
        self.policy: PolicyView | PolicyUnread = sitting.policy
        self.authority = read_authority(sitting.policy, sitting.authority_path)
        self.shelf = AuthorityShelf()
        self.where: Where = sitting.where(sitting.policy)
        self.live = Live()
        self._fed = Live()
        self._read_at: datetime | None = None
        self._counting = Asking()
        self._count_is_due = False
        self._not_counted = ""
        self._doubted_at: datetime | None = None
        self.waiting = 0
        self.is_counted = False
        self.notice = Notice()
        self.bell_on = True
        self.unparseable = 0
        self.data = DataThread(sitting.feed, self._tell_fed)
        self._next_expiry: datetime | None = None
        self._skew: timedelta | None = None
        self._news: list[Event] = []
        self._titled: int | None = None

    def start_following(self) -> None:
        """Read from now on."""
        self.entitle()
        self.data.start()
        self.count()

    # --- the screens -----------------------------------------------------------------------------

    @property
    def top(self) -> Framed[Any] | None:
        """The screen on top, once there is one and its widgets stand."""
        screen = self.screen if self.screen_stack else None
        return screen if isinstance(screen, Framed) and stands(screen) else None

    @property
    def framed(self) -> list[Framed[Any]]:
        """All screens that stand, those beneath others too."""
        stacks = self._screen_stacks.values()
        screens = [screen for stack in stacks for screen in stack if isinstance(screen, Framed)]
        return [screen for screen in screens if stands(screen)]

    def renew_frame(self) -> None:
        """Draw the frame of the screen on top where it says something else now."""
        top = self.top
        if top is not None:
            top.renew_frame()

    def say(self, text: str | Line, role: Role = Role.VALUE) -> None:
        """Put a sentence on the notice line; text of others has passed `glyphs.said`."""
        line = (Span(text, role),) if isinstance(text, str) else text
        self.notice = Notice(line, self.clock()) if any(span.text for span in line) else Notice()
        self.renew_frame()

    def say_of_key(self, text: str) -> None:
        """Say why a key did nothing: it stands until a key does something, or there is news."""
        self.say(text)
        self.notice = replace(self.notice, of_key=True)

    def unsay_of_key(self) -> None:
        """A key works: what was said about one before is no longer so. News stays."""
        if self.notice.of_key:
            self.say("")

    def write_terminal(self, sequence: str) -> None:
        """Send a sequence to the terminal, behind the frames that are on their way."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)
            self._driver.flush()

    def entitle(self) -> None:
        """The terminal's title says how much waits."""
        if self._titled != self.waiting:
            self._titled = self.waiting
            self.write_terminal(terminal.title_sequence(self.waiting))

    # --- what the data thread found --------------------------------------------------------------

    def _tell_fed(self) -> None:
        self.post_message(Fed())

    def on_fed(self) -> None:
        """Something waits in the inflow."""
        if self.data.crash is not None:
            self._lost_the_feed(self.data.crash)
            return
        news = self.data.inflow.take()
        self._take_live(news)
        if news.unparseable > self.unparseable:
            self.say(f"{news.unparseable} lines of the events file cannot be read", Role.NEEDS)
        self.unparseable = news.unparseable
        for sentence in news.notices:
            self.say(self.glyphs.said(sentence), Role.NEEDS)
        if news.policy_changed:
            self._read_policy()
        if news.store_replaced:
            self.say("the store was replaced by another one; everything is read again", Role.NEEDS)
            self.shelf.forget()
            for screen in self.framed:
                screen.store_replaced()
        if news.changed or news.store_replaced:
            self._news.extend(fed.event for fed in news.events)
            self.count()
            self.store_changed()
        if news.skew is not None:
            self._skew = news.skew
            self.say(skew_line(news.skew), Role.NEEDS)

    def _lost_the_feed(self, crash: BaseException) -> None:
        """An error of ours ended the data thread: what is shown may be read, and not answered."""
        why = f"{internal(crash)}; leave and start again"
        last_read_at = self.live.last_read_at or self._read_at
        self._fed = Live(Reach.STALE, last_read_at, None, self.glyphs.said(why))
        self.judge_live()

    def _take_live(self, news: News) -> None:
        error = news.error
        ever = self._read_at is not None
        if error is None:
            self._read_at = self.clock()
            self._fed = Live(last_read_at=self.clock())
        elif not error.is_stale:
            self._fed = Live(last_read_at=error.since if ever else None)
        else:
            self._fed = Live(
                Reach.STALE if ever else Reach.UNREACHABLE,
                error.since if ever else None,
                error.next_try,
                self.glyphs.said(error.message),
            )
        self.judge_live()

    def was_read(self) -> None:
        """The store gave what was asked of it, whoever asked: it cannot be called unreachable."""
        self._read_at = self.clock()
        if self._fed.reach is Reach.UNREACHABLE:  # the feed failed before anything was read
            self._fed = replace(self._fed, reach=Reach.STALE, last_read_at=self._read_at)
            self.judge_live()

    def judge_live(self) -> None:
        """Live is what the feed reads and what can be counted, each of it in time.

        A store that hangs raises nothing, and one table can be out of reach where others are not.
        """
        why = self._doubt() if self._fed.is_live else ""
        if not why:
            self._doubted_at = None
            self._set_live(self._fed)
            return
        if self._doubted_at is None:
            self._doubted_at = self.clock()
        ever = self._read_at is not None
        reach = Reach.STALE if ever else Reach.UNREACHABLE
        self._set_live(Live(reach, self._doubted_at if ever else None, None, why))

    def _doubt(self) -> str:
        """Why what the feed said last need not hold any more."""
        if self.data.asking.is_overdue or self._counting.is_overdue:
            return "the store does not answer"
        return self._not_counted

    def count_again(self) -> None:
        """Try each second what could not be counted."""
        if self._not_counted:
            self.count()

    def _set_live(self, live: Live) -> None:
        before, self.live = self.live, live
        if self.live.reach is not before.reach:
            if self.live.is_live:
                self.say("the store can be read again")
                self.count()
            else:
                self.say(self.live.why, Role.NEEDS)
            for screen in self.framed:
                screen.on_live(self.live)
            self.renew_frame()

    def store_changed(self) -> None:
        """The screen on top reads again what it shows; the others when they come back."""
        for screen in self.framed:
            screen.is_behind = True
        top = self.top
        if top is not None:
            top.catch_up()

    def wrote(self, text: str | Line) -> None:
        """An answer of this sitting was written."""
        self.say(text)
        self.data.wake()
        self.count()
        self.store_changed()

    def count(self) -> None:
        """Count what waits, and find words for what came."""
        del self._news[:-NEWS_KEPT]
        self._count_is_due = self._counting.is_under_way
        if not self._count_is_due:
            self._counting.begin()
            self._count_in_thread(tuple(self._news))

    def _count_ended(self, not_counted: str = "") -> None:
        was_slow = self._counting.slow is not None
        self._counting.end(answered=not not_counted)
        self._not_counted = not_counted
        self.judge_live()
        slow = self._counting.slow
        if slow is not None and not was_slow:
            self.say(f"slow: it took {slow:.0f} s to count what waits", Role.NEEDS)
        if self._count_is_due:
            self.count()

    def count_expired(self, now: datetime) -> None:
        """Count again when the clock alone has changed the number."""
        if self._next_expiry is not None and now > self._next_expiry:
            self._next_expiry = None
            self.count()

    @work(thread=True, group="count", exit_on_error=False, description="count")
    def _count_in_thread(self, news: tuple[Event, ...]) -> None:
        try:
            with closing(self.desk.reader()) as reader:
                counts, next_expiry = count(reader, self.clock())
                line = arrivals_line(reader, news, self.clock(), self.glyphs)
        except Exception as error:
            self.post_message(CountFailed(reason_of(error)))
            return
        self.post_message(Counted(counts, next_expiry, line, len(news)))

    def on_count_failed(self, message: CountFailed) -> None:
        """The number stays, and is not to be trusted."""
        self._count_ended(self.glyphs.said(message.why))

    def on_counted(self, message: Counted) -> None:
        """The pinned line, the tabs and the title say the new number."""
        before = self.waiting if self.is_counted else None
        self.waiting, self.is_counted = message.counts.needs_answer, True
        self._next_expiry = message.next_expiry
        self.was_read()
        del self._news[: message.seen]
        self._count_ended()
        self.entitle()
        if message.arrivals:
            self.say((*message.arrivals, *skew_remark(self._skew)))
            self._skew = None
            if self.bell_on:
                self.write_terminal(terminal.BELL)
        elif self.waiting != before:
            self.renew_frame()

    @work(thread=True, exclusive=True, group="policy", exit_on_error=False, description="policy")
    def _read_policy(self) -> None:
        policy = read_policy(self.sitting.policy_path)
        authority = read_authority(policy, self.sitting.authority_path)
        self.post_message(PolicyRead(policy, authority))

    def on_policy_read(self, message: PolicyRead) -> None:
        """The policy changed under the console: what waits was asked under the old one."""
        before, self.policy = self.policy, message.policy
        grants_before, self.authority = self.authority, message.authority
        policy = self.policy
        self.where = self.sitting.where(policy)
        if _is_same(before, policy):
            if line := self._grants_line(grants_before):
                self.say(line, Role.NEEDS)
        elif isinstance(policy, PolicyView):
            short = policy.policy_hash.rpartition(":")[2][:8]
            self.say(
                f"policy changed, now {short}; what waits was asked under the one before",
                Role.NEEDS,
            )
        else:
            self.say(f"policy not read: {self.glyphs.said(policy.reason)}", Role.NEEDS)
        self.renew_frame()
        self.store_changed()

    def _grants_line(self, before: Authority | AuthorityUnread) -> str | None:
        """What is said of the grants when the policy says what it did; None for nothing new.

        A comment in a file changes nothing, and where no grants are there are none to be read.
        """
        authority = self.authority
        if isinstance(authority, AuthorityUnread):
            if authority.is_absent:
                return None
            return f"grants not read: {self.glyphs.said(authority.reason)}"
        if isinstance(before, Authority) and has_same_grants(before, authority):
            return None
        number = len(authority.grants)
        return f"the grants changed: {number} now in {self.glyphs.said(authority.source)}"


def _is_same(before: PolicyView | PolicyUnread, policy: PolicyView | PolicyUnread) -> bool:
    """Whether two readings of the policy came to the same."""
    if isinstance(before, PolicyView) and isinstance(policy, PolicyView):
        return before.policy_hash == policy.policy_hash
    return before == policy
