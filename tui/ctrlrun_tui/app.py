"""The application: it wires. State that all screens share, one clock, one data thread, the quits.

What is on the screen belongs to the screens; what was found belongs to the data thread; an action is
declared in `actions`, and done by the method `do_<name>` here when it is about the whole console.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any, ClassVar

from textual import events, work
from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.worker import get_current_worker

from ctrlrun.errors import CTRLRunError
from ctrlrun.operator import PolicyUnread, PolicyView, read_policy
from ctrlrun.receipt import Event
from ctrlrun_tui import terminal
from ctrlrun_tui.actions import INBOX
from ctrlrun_tui.arguments import Options
from ctrlrun_tui.cards.memory import CardMemory
from ctrlrun_tui.clipboard import copy_sequence
from ctrlrun_tui.data.arrivals import arrivals_line, count, skew_line
from ctrlrun_tui.data.messages import Counted, Fed, PolicyRead
from ctrlrun_tui.data.models import Line, Live, Notice, Reach, Role, Row, Span, Where
from ctrlrun_tui.data.worker import DataThread, News
from ctrlrun_tui.driver import lasting
from ctrlrun_tui.ending import HUNG_UP, INTERNAL, INTERRUPTED, UNUSABLE, failed, internal
from ctrlrun_tui.frames import thinning
from ctrlrun_tui.layout import HORIZONTAL_BREAKPOINTS, VERTICAL_BREAKPOINTS, Layout, layout_for
from ctrlrun_tui.screens.base import Framed
from ctrlrun_tui.screens.view import ViewScreen
from ctrlrun_tui.sitting import Sitting, check_terminal, open_sitting
from ctrlrun_tui.theme import OTHER_THEMES, THEMES, Palette, palette_for

FOCUS_GRACE = 0.5
"""Seconds after the window got the focus in which the mouse does nothing."""

ASK_AGAIN_WITHIN = timedelta(seconds=5)
"""How long the question whether a draft may be lost stands."""

NEWS_KEPT = 200
"""Events that wait to be put into words at most."""


class ConsoleApp(App[int], inherit_bindings=False):
    """The console. `views` are its base screens by name, in the order of their keys."""

    CSS_PATH = "styles.tcss"
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = HORIZONTAL_BREAKPOINTS
    VERTICAL_BREAKPOINTS = VERTICAL_BREAKPOINTS
    DEFAULT_MODE = INBOX
    # Before fields and modal screens: these four work wherever the focus is.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", show=False, priority=True),
        Binding("ctrl+q", "leave", show=False, priority=True),
        Binding("ctrl+z", "suspend", show=False, priority=True),
        Binding("ctrl+l", "redraw", show=False, priority=True),
    ]

    def __init__(self, sitting: Sitting, views: Mapping[str, Callable[[], ViewScreen]]) -> None:
        self.sitting = sitting
        self.clock = sitting.clock
        self.palette_now: Palette = palette_for(sitting.theme, no_color=sitting.no_color)
        super().__init__(ansi_color=True if sitting.no_color else None)
        for name, make in views.items():
            self.add_mode(name, make)
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = sitting.theme
        self.desk = sitting.desk
        self.who = sitting.who
        self.glyphs = sitting.glyphs
        self.keys = sitting.keys
        self.policy: PolicyView | PolicyUnread = sitting.policy
        self.where: Where = sitting.where(sitting.policy)
        self.started_at: datetime = self.clock()
        self.live = Live(next_try_at=None)
        self.waiting = 0
        self.notice = Notice()
        self.bell_on = True
        self.unparseable = 0
        self.is_counted = False
        self.card_memory = CardMemory()
        self.data = DataThread(sitting.feed, self._tell_fed)
        self._next_expiry: datetime | None = None
        self._focused_at = float("-inf")
        self._asked_to_leave_at: datetime | None = None
        self._titled: int | None = None
        self._news: list[Event] = []
        self._trouble: str | None = None
        self.crash: str | None = None

    # --- start and end ---------------------------------------------------------------------------

    def get_driver_class(self) -> type[Driver]:
        return lasting(thinning(super().get_driver_class()), self._terminal_gone)

    def _terminal_gone(self) -> None:
        """There is no terminal any more: the sitting ends as if it had been hung up on."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._end, HUNG_UP)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return dict(OTHER_THEMES)

    def on_mount(self) -> None:
        """The first frame stands; reading begins."""
        self.write_terminal(terminal.PUSH_TITLE)
        self._entitle()
        self.app_resume_signal.subscribe(self, self._resumed)
        self.data.start()
        self._count()
        self._start_ticking()
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                self._loop_of_app().add_signal_handler(number, self._end, 128 + number)

    def on_unmount(self) -> None:
        """Nothing reads any more when the terminal is given back."""
        self.data.stop()
        self.write_terminal(terminal.POP_TITLE)

    def _end(self, code: int) -> None:
        self.exit(code, return_code=code)

    def _print_error_renderables(self) -> None:
        """A crash is one line behind the last frame, and no page of our insides."""
        if self._exit_renderables and self.crash is None:
            error = self._exception
            self.crash = "the terminal cannot be used" if error is None else internal(error)
        self._exit_renderables.clear()

    def _loop_of_app(self) -> Any:
        assert self._loop is not None
        return self._loop

    @property
    def palette(self) -> Palette:
        """The styles of the theme in use."""
        return self.palette_now

    @property
    def layout(self) -> Layout:
        """How much of the console fits."""
        return layout_for(self.size)

    @property
    def top(self) -> Framed[Any] | None:
        """The screen on top, once there is one and its widgets stand."""
        screen = self.screen if self.screen_stack else None
        return screen if isinstance(screen, Framed) and screen.is_mounted else None

    # --- time ------------------------------------------------------------------------------------

    def _start_ticking(self) -> None:
        """Tick on the second, where every clock of the screen turns."""
        self.set_timer(
            1.0 - self.clock().microsecond / 1_000_000,
            lambda: self.set_interval(1.0, self.tick),
        )

    def tick(self) -> None:
        """A second has passed: the screen on top draws the clocks that read otherwise."""
        now = self.clock()
        top = self.top
        if top is not None:
            top.renew_clocks()
            top.on_tick(now)
        if self._next_expiry is not None and now > self._next_expiry:
            self._next_expiry = None
            self._count()
        self._tell_trouble()

    def _tell_trouble(self) -> None:
        """What went wrong with the demo's agent, once."""
        trouble = None if self.sitting.demo is None else self.sitting.demo.trouble()
        if trouble is not None and trouble != self._trouble:
            self.say(self.glyphs.said(trouble), Role.NEEDS)
        self._trouble = trouble

    # --- data ------------------------------------------------------------------------------------

    def _tell_fed(self) -> None:
        self.post_message(Fed())

    def on_fed(self) -> None:
        """Something waits in the inflow."""
        if self.data.crash is not None:
            raise self.data.crash
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
            for view in self._views():
                view.store_replaced()
        if news.changed or news.store_replaced:
            self._news.extend(fed.event for fed in news.events)
            self._count()
            self._store_changed()
        if news.skew is not None:
            self.say(skew_line(news.skew), Role.NEEDS)

    def _take_live(self, news: News) -> None:
        before = self.live
        error = news.error
        if error is None or not error.is_stale:
            self.live = Live(last_read_at=self.clock())
        else:
            ever = before.last_read_at is not None
            self.live = Live(
                Reach.STALE if ever else Reach.UNREACHABLE,
                error.since if ever else None,
                error.next_try,
                self.glyphs.said(error.message),
            )
        if self.live.reach is not before.reach:
            if self.live.is_live:
                self.say("the store can be read again")
                self._count()
            else:
                self.say(self.live.why, Role.NEEDS)
            for screen in self._framed():
                screen.on_live(self.live)
        self._renew_frame()

    def _store_changed(self) -> None:
        """The screen on top reads again what it shows; the others when they come back."""
        for screen in self._framed():
            screen.is_behind = True
        top = self.top
        if top is not None:
            top.catch_up()

    def wrote(self, text: str | Line) -> None:
        """An answer of this sitting was written."""
        self.say(text)
        self.data.wake()
        self._count()
        self._store_changed()

    def _count(self) -> None:
        """Count what waits, and find words for what came."""
        del self._news[:-NEWS_KEPT]
        self._count_in_thread(tuple(self._news))

    @work(thread=True, exclusive=True, group="count", exit_on_error=False)
    def _count_in_thread(self, news: tuple[Event, ...]) -> None:
        try:
            with closing(self.desk.reader()) as reader:
                counts, next_expiry = count(reader, self.clock())
                line = arrivals_line(reader, news, self.clock(), self.glyphs)
        except Exception:
            return  # the feed says what is wrong with a store; the number stays
        if not get_current_worker().is_cancelled:
            self.post_message(Counted(counts, next_expiry, line, len(news)))

    def on_counted(self, message: Counted) -> None:
        """The pinned line, the tabs and the title say the new number."""
        self.waiting = message.counts.needs_answer
        self.is_counted = True
        self._next_expiry = message.next_expiry
        del self._news[: message.seen]
        self._entitle()
        if message.arrivals:
            self.say(message.arrivals)
            if self.bell_on:
                self.write_terminal(terminal.BELL)
        self._renew_frame()

    @work(thread=True, exclusive=True, group="policy", exit_on_error=False)
    def _read_policy(self) -> None:
        self.post_message(PolicyRead(read_policy(self.sitting.policy_path)))

    def on_policy_read(self, message: PolicyRead) -> None:
        """The policy changed under the console: what waits was asked under the old one."""
        self.policy = policy = message.policy
        self.where = self.sitting.where(policy)
        if isinstance(policy, PolicyView):
            short = policy.policy_hash.rpartition(":")[2][:8]
            self.say(
                f"policy changed, now {short}; what waits was asked under the one before",
                Role.NEEDS,
            )
        else:
            self.say(f"policy not read: {self.glyphs.said(policy.reason)}", Role.NEEDS)
        self._renew_frame()
        self._store_changed()

    # --- what screens use ------------------------------------------------------------------------

    def say(self, text: str | Line, role: Role = Role.VALUE) -> None:
        """Put a sentence on the notice line; text of others has passed `glyphs.said`."""
        line = (Span(text, role),) if isinstance(text, str) else text
        self.notice = Notice(line, self.clock()) if any(span.text for span in line) else Notice()
        self._renew_frame()

    def copy(self, text: str, what: str = "") -> None:
        """Send text to the terminal's clipboard; line breaks in it are the caller's own."""
        safe = "\n".join(self.glyphs.said(each) for each in text.split("\n"))
        copied = copy_sequence(safe, what, self.sitting.environ)
        self.write_terminal(copied.sequence)
        self.say(copied.sentence)

    def copy_to_clipboard(self, text: str) -> None:
        self.copy(text)

    def open_card(self, name: str, rows: Sequence[Row]) -> None:
        """Open the card of an answering action on these records."""
        from ctrlrun_tui.cards import CARDS

        self.push_screen(CARDS[name](self, tuple(rows)))

    def show_view(self, name: str) -> None:
        """Go to a view itself, whatever was opened over it."""
        if name != self.current_mode:
            self.switch_mode(name)
        while len(self.screen_stack) > 1:
            self.pop_screen()

    # --- actions of the whole console ------------------------------------------------------------

    def do_inbox(self) -> None:
        self.show_view("inbox")

    def do_effects(self) -> None:
        self.show_view("effects")

    def do_receipts(self) -> None:
        self.show_view("receipts")

    def do_events(self) -> None:
        self.show_view("events")

    def do_handover(self) -> None:
        from ctrlrun_tui.screens.handover import HandoverScreen

        self.push_screen(HandoverScreen())

    def do_bell(self) -> None:
        self.bell_on = not self.bell_on
        self.say("the bell rings for new items" if self.bell_on else "the bell is off")

    def do_quit(self) -> None:
        self._leave(0)

    def do_suspend(self) -> None:
        self.action_suspend_process()

    def do_redraw(self) -> None:
        shown = getattr(self._driver, "shown", None)
        if shown is not None:
            shown.forget()
        self.refresh(layout=True)

    def action_interrupt(self) -> None:
        """ctrl+c: leaves as an interrupted program does."""
        self._leave(INTERRUPTED)

    def action_leave(self) -> None:
        """ctrl+q."""
        self._leave(0)

    def action_suspend(self) -> None:
        """ctrl+z."""
        self.do_suspend()

    def action_redraw(self) -> None:
        """ctrl+l."""
        self.do_redraw()

    def _leave(self, code: int) -> None:
        """End the sitting, unless a draft would be lost and that was not asked just before."""
        drafts = [draft for screen in self._framed() if (draft := screen.has_draft())]
        now = self.clock()
        asked = self._asked_to_leave_at
        if drafts and (asked is None or now - asked > ASK_AGAIN_WITHIN):
            self._asked_to_leave_at = now
            self.say(f"{drafts[0]} would be lost; the same key again leaves", Role.NEEDS)
            return
        self._end(code)

    def _resumed(self, _: object) -> None:
        """Back from ctrl+z: everything is read again and drawn again."""
        self.do_redraw()
        self.data.wake()
        self._count()
        self._store_changed()

    # --- events of the terminal ------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """The click that brought the window to the front does nothing else."""
        if isinstance(event, events.AppFocus):
            self._focused_at = event.time
        if isinstance(event, events.Resize):
            shown = getattr(self._driver, "shown", None)
            if shown is not None:
                shown.forget()
        grace = isinstance(event, events.MouseEvent) and not event.is_forwarded
        if grace and event.time - self._focused_at < FOCUS_GRACE:
            return
        await super().on_event(event)

    def on_cursor_position(self, event: events.CursorPosition) -> None:
        """The terminal has drawn all that was written before a card asked where its cursor is."""
        self.card_memory.terminal_answered(event.time)

    def _watch_theme(self, theme_name: str) -> None:
        super()._watch_theme(theme_name)
        self.palette_now = palette_for(theme_name, no_color=self.sitting.no_color)

    # --- inside ----------------------------------------------------------------------------------

    def _framed(self) -> list[Framed[Any]]:
        stacks = self._screen_stacks.values()
        screens = [screen for stack in stacks for screen in stack if isinstance(screen, Framed)]
        return [screen for screen in screens if screen.is_mounted]

    def _views(self) -> list[ViewScreen]:
        return [screen for screen in self._framed() if isinstance(screen, ViewScreen)]

    def _renew_frame(self) -> None:
        top = self.top
        if top is not None:
            top.renew_frame()

    def _entitle(self) -> None:
        if self._titled != self.waiting:
            self._titled = self.waiting
            self.write_terminal(terminal.title_sequence(self.waiting))

    def write_terminal(self, sequence: str) -> None:
        """Send a sequence to the terminal, behind the frames that are on their way."""
        if self._driver is not None and not self.is_headless:
            self._driver.write(sequence)
            self._driver.flush()


def run(options: Options) -> int:
    """Run a sitting; its exit code. What ends it early is said in one line on stderr."""
    sitting: Sitting | None = None
    try:
        check_terminal(options)
        sitting = open_sitting(options, os.environ)
        return _run(sitting, options)
    except CTRLRunError as error:
        return failed(str(error), UNUSABLE)
    except Exception as error:
        return failed(internal(error), INTERNAL)
    finally:
        if sitting is not None:
            sitting.close()


def _run(sitting: Sitting, options: Options) -> int:
    from ctrlrun_tui.screens.views import VIEWS

    app = ConsoleApp(sitting, VIEWS)
    if options.snapshot is not None:
        from ctrlrun_tui.snapshot import draw

        return draw(app, options)
    app.run(mouse=not options.no_mouse)
    if app.crash is not None:
        return failed(app.crash, INTERNAL)
    return app.return_code or 0
