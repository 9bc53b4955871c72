"""The application: it wires. State that all screens share, one clock, one data thread, the quits.

What is on the screen belongs to the screens; what was found belongs to the data thread; an action is
declared in `actions`, and done by the method `do_<name>` here when it is about the whole console.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, ClassVar

from textual import events, work
from textual.binding import Binding, BindingType
from textual.driver import Driver

from ctrlrun.errors import CTRLRunError
from ctrlrun.operator import PolicyUnread
from ctrlrun_tui import terminal
from ctrlrun_tui.actions import AUTHORITY, INBOX
from ctrlrun_tui.arguments import Options
from ctrlrun_tui.cards.memory import CardMemory
from ctrlrun_tui.clipboard import copy_sequence
from ctrlrun_tui.data.models import Role, Row
from ctrlrun_tui.driver import lasting
from ctrlrun_tui.ending import (
    HUNG_UP,
    INTERNAL,
    INTERRUPTED,
    UNUSABLE,
    WORKERS,
    failed,
    internal,
    leave,
)
from ctrlrun_tui.following import FollowingApp
from ctrlrun_tui.frames import thinning
from ctrlrun_tui.layout import HORIZONTAL_BREAKPOINTS, VERTICAL_BREAKPOINTS, Layout, layout_for
from ctrlrun_tui.loading import load_the_rest
from ctrlrun_tui.screens.base import Framed
from ctrlrun_tui.screens.filtering import FilterScreen
from ctrlrun_tui.sitting import Sitting, check_terminal, open_sitting
from ctrlrun_tui.stylesheet import KeptStylesheet
from ctrlrun_tui.theme import OTHER_THEMES, THEMES, Palette, palette_for

FOCUS_GRACE = 0.5
"""Seconds after the window got the focus in which the mouse does nothing."""

NAME_AT_MOST = 44
"""Cells that the name of what was copied takes in the notice, so that the sentence is whole."""

ASK_AGAIN_WITHIN = timedelta(seconds=5)
"""How long the question whether a draft may be lost stands."""


MOST_WORKERS = 32
"""Threads that read and write at most."""


class ConsoleApp(FollowingApp, inherit_bindings=False):
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

    def __init__(self, sitting: Sitting, views: Mapping[str, Callable[[], Framed[None]]]) -> None:
        self.palette_now: Palette = palette_for(sitting.theme, no_color=sitting.no_color)
        self._styled_for: set[str] = set()
        super().__init__(sitting, ansi_color=True if sitting.no_color else None)
        self.stylesheet = KeptStylesheet(variables=self.get_css_variables())
        for name, make in views.items():
            self.add_mode(name, make)
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = sitting.theme
        self.who = sitting.who
        self.keys = sitting.keys
        self.started_at: datetime = self.clock()
        self.card_memory = CardMemory()
        self.crash: str | None = None
        self._focused_at = float("-inf")
        self._asked_to_leave_at: datetime | None = None
        self._trouble: str | None = None

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
        self.app_resume_signal.subscribe(self, self._resumed)
        self.start_following()
        self._start_ticking()
        if isinstance(self.policy, PolicyUnread) and self.policy.source:
            self.say(f"policy not read: {self.glyphs.said(self.policy.reason)}", Role.NEEDS)
        self._load_the_rest()
        if not self.is_headless:
            for number in (signal.SIGTERM, signal.SIGHUP):
                self._loop_of_app().add_signal_handler(number, self._end, 128 + number)

    @work(thread=True, group="load", exit_on_error=False)
    def _load_the_rest(self) -> None:
        load_the_rest()

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
        self.count_expired(now)
        self.count_again()
        self.judge_live()
        self._tell_trouble()

    def _tell_trouble(self) -> None:
        """What went wrong with the demo's agent, once."""
        trouble = None if self.sitting.demo is None else self.sitting.demo.trouble()
        if trouble is not None and trouble != self._trouble:
            self.say(self.glyphs.said(trouble), Role.NEEDS)
        self._trouble = trouble

    # --- what screens use ------------------------------------------------------------------------

    def copy(self, text: str, what: str = "") -> None:
        """Send text to the terminal's clipboard; line breaks in it are the caller's own."""
        safe = "\n".join(self.glyphs.said(each) for each in text.split("\n"))
        named = self.glyphs.cut(self.glyphs.said(what), NAME_AT_MOST)
        copied = copy_sequence(safe, named, self.sitting.environ)
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

    def show_grant(self, grant_id: str) -> None:
        """Go to a grant in the Authority view."""
        self.show_view(AUTHORITY)
        view = self.screen
        quoted = grant_id.replace("\\", "\\\\").replace('"', '\\"')
        wanted = f'id:"{quoted}"'
        if isinstance(view, FilterScreen) and view.is_mounted:
            view.set_filter(wanted)
        elif isinstance(view, FilterScreen):  # looked at for the first time: it reads under it
            view.filter_text = wanted

    # --- actions of the whole console ------------------------------------------------------------

    def do_inbox(self) -> None:
        self.show_view("inbox")

    def do_effects(self) -> None:
        self.show_view("effects")

    def do_receipts(self) -> None:
        self.show_view("receipts")

    def do_events(self) -> None:
        self.show_view("events")

    def do_stats(self) -> None:
        self.show_view("stats")

    def do_authority(self) -> None:
        self.show_view(AUTHORITY)

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
        drafts = [draft for screen in self.framed if (draft := screen.has_draft())]
        if self.card_memory.kept is not None:
            drafts.append(self.card_memory.kept)
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
        self.count()
        self.store_changed()

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

    def refresh_css(self, animate: bool = True) -> None:
        """Style everything anew, where that can change anything.

        Textual asks for it, twice, when a view is gone to for the first time; its widgets were
        styled as they came.
        """
        if self._styled_for != {self.theme}:
            super().refresh_css(animate)
            self._styled_for.add(self.theme)

    def _watch_theme(self, theme_name: str) -> None:
        super()._watch_theme(theme_name)
        self.palette_now = palette_for(theme_name, no_color=self.sitting.no_color)


def run(options: Options) -> int:
    """Run a sitting; its exit code. What ends it early is said in one line on stderr."""
    try:
        code = _sit(options)
    except KeyboardInterrupt:  # in a hurry: while it started, or while it ended
        code = INTERRUPTED
    return leave(code)


def _sit(options: Options) -> int:
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
    for name in ("COLUMNS", "LINES"):  # exported, they would hide every later size of the window
        os.environ.pop(name, None)
    _run_on_its_loop(app, mouse=not options.no_mouse)
    if app.crash is not None:
        return failed(app.crash, INTERNAL)
    return app.return_code or 0


def _run_on_its_loop(app: ConsoleApp, *, mouse: bool) -> None:
    """As `asyncio.run`, which would wait for the threads that read as long as a database hangs."""
    loop = asyncio.new_event_loop()
    # Threads enough that some are left while others wait for a table that is locked.
    pool = ThreadPoolExecutor(MOST_WORKERS, thread_name_prefix=WORKERS)
    loop.set_default_executor(pool)
    try:
        app.run(mouse=mouse, loop=loop)
    finally:
        pool.shutdown(wait=False)
        loop.run_until_complete(_end_tasks())
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def _end_tasks() -> None:
    """Cancel what is left on the loop, and let it end."""
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
