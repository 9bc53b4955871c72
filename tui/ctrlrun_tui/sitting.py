"""One sitting: everything that is settled before the first frame, or refused in one line.

Opens nothing for good: it tries the store once, for reading, and gives it back. What it returns is
what the application is made of; ending a demo's agent and folder is in `Sitting.close`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from ctrlrun.clock import Clock, utc_now
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import Desk, Feed, PolicyUnread, PolicyView, ReadingDesk, read_policy
from ctrlrun.state.location import StoreLocation, locate
from ctrlrun_tui.arguments import Options, operator_name
from ctrlrun_tui.data.models import Where
from ctrlrun_tui.glyphs import Glyphs, choose_glyphs
from ctrlrun_tui.keymap import Keys, keymap_path, load_keys
from ctrlrun_tui.theme import MONOCHROME

if TYPE_CHECKING:
    from ctrlrun_tui.demo import DemoHandle

PRODUCTION = frozenset({"production", "prod"})
"""Environments that look different, whatever their letters' case."""

FIXED_NAME = "alice"
FIXED_STORE = "demo/.ctrlrun/state.db"
"""Whom and which store a picture of the demo names."""


@dataclass
class Sitting:
    """What one sitting is made of."""

    options: Options
    desk: ReadingDesk
    who: str
    policy: PolicyView | PolicyUnread
    glyphs: Glyphs
    keys: Keys
    theme: str
    environ: Mapping[str, str]
    clock: Clock = utc_now
    no_color: bool = False
    make_feed: Callable[[], Feed] | None = None
    demo: DemoHandle | None = None
    closing: ExitStack = field(default_factory=ExitStack)

    @property
    def policy_path(self) -> Path | None:
        """The policy that is watched for changes, read or not."""
        return self.options.config or (Path(self.policy.source) if self.policy.source else None)

    @property
    def authority_path(self) -> Path | None:
        """The document of the grants, where they are not the policy's own."""
        return self.options.authority

    def where(self, policy: PolicyView | PolicyUnread) -> Where:
        """What the pinned line says, under the policy as it was read last."""
        said = self.glyphs.said
        view = policy if isinstance(policy, PolicyView) else None
        environment = None if view is None else view.environment
        return Where(
            store=said(self.desk.location.shown),
            environment=None if environment is None else said(environment),
            production=(environment or "").casefold() in PRODUCTION,
            mode=None if view is None else str(view.mode),
            who=said(self.who),
            read_only=not isinstance(self.desk, Desk),
            demo=self.options.demo,
        )

    def feed(self) -> Feed:
        """The feed of the store and its events file, for the data thread to own."""
        if self.make_feed is not None:
            return self.make_feed()
        return Feed(
            self.desk,
            self.options.events or self.desk.events_path,
            policy_path=self.policy_path,
            authority_path=self.authority_path,
            clock=self.clock,
        )

    def close(self) -> None:
        """End what was started for this sitting."""
        self.closing.close()


def open_sitting(options: Options, environ: Mapping[str, str]) -> Sitting:
    """Settle everything, or raise a `CTRLRunError` whose message is the one line to print.

    Raises StoreNotFound, SchemaMismatch or InvalidArgument; nothing is created but a demo's folder,
    and that is removed again.
    """
    with ExitStack() as started:
        demo = _start_demo(started, fixed=_is_fixed(options)) if options.demo else None
        clock = utc_now if demo is None else _clock_of(demo)
        who, keys, location = _settled(options, demo, environ)
        desk = (
            ReadingDesk(location, clock=clock)
            if options.read_only
            else Desk(location, who, clock=clock, extend=False)
        )
        started.enter_context(closing(desk.keep_connections()))
        desk.reader().close()  # refuses what cannot be read, before the screen is taken over
        no_color = bool(environ.get("NO_COLOR"))
        return Sitting(
            options=options,
            desk=desk,
            who=who,
            policy=read_policy(options.config if demo is None else demo.config_path),
            glyphs=_glyphs(options, environ),
            keys=keys,
            theme=MONOCHROME if no_color else options.theme,
            environ=environ,
            clock=clock,
            no_color=no_color,
            demo=demo,
            closing=started.pop_all(),
        )


def _is_fixed(options: Options) -> bool:
    """Whether it is a picture of the demo, which is the same each time and on every machine."""
    return options.demo and options.snapshot is not None


def _settled(
    options: Options, demo: DemoHandle | None, environ: Mapping[str, str]
) -> tuple[str, Keys, StoreLocation]:
    """Who answers, with which keys, on which store. A picture of the demo has nothing of ours."""
    store_url = options.store_url if demo is None else demo.store_url
    location = locate(store_url, environ)
    if _is_fixed(options):
        who = operator_name(options.as_name or FIXED_NAME, environ)
        return who, Keys(), replace(location, shown=FIXED_STORE)
    return operator_name(options.as_name, environ), load_keys(keymap_path(environ)), location


def _glyphs(options: Options, environ: Mapping[str, str]) -> Glyphs:
    """The signs that the terminal can show; a picture can show all."""
    if options.snapshot is not None:
        return choose_glyphs({}, "utf-8", ascii=options.ascii)
    encoding = getattr(sys.__stderr__, "encoding", None)
    return choose_glyphs(environ, encoding, ascii=options.ascii)


def _start_demo(started: ExitStack, *, fixed: bool) -> DemoHandle:
    """The example agent in a child process, and its scratch folder, both ended by `started`."""
    from ctrlrun_tui.demo import DemoFailed, start

    folder = started.enter_context(
        TemporaryDirectory(prefix="ctrlrun-demo-", ignore_cleanup_errors=True)
    )
    try:
        demo = start(Path(folder), fixed=fixed)
    except (DemoFailed, OSError) as error:
        raise InvalidArgument(f"the demo did not start: {error}") from None
    started.callback(demo.stop)
    return demo


def _clock_of(demo: DemoHandle) -> Clock:
    """The clock of a demo: it stands still where the demo does."""
    now = demo.now
    return utc_now if now is None else lambda: now


def check_terminal(options: Options) -> None:
    """InvalidArgument unless there is a terminal to draw on, or a file to draw into."""
    if options.snapshot is not None:
        return
    streams = (sys.__stdin__, sys.__stderr__)
    if not all(stream is not None and stream.isatty() for stream in streams):
        raise InvalidArgument("the console needs a terminal; pictures: --snapshot FILE.svg")
    if os.environ.get("TERM") == "dumb":
        raise InvalidArgument(
            "the console needs a terminal that can move its cursor, not TERM=dumb"
        )
