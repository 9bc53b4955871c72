"""What the tests of the cards share: a store that an agent wrote, a console on it, and a hand.

The agent is a program of its own (card_agent.py) and runs once; each test works on a copy. The hand
types keys at times of its own, so that no test waits for a clock.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.operator import read_policy
from ctrlrun.receipt import Event
from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.actions import INBOX
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.cards.base import Card
from ctrlrun_tui.data.models import Column
from ctrlrun_tui.glyphs import UNICODE, Glyphs
from ctrlrun_tui.snapshot import comes_to_rest
from tests.tui.helpers import FrozenClock, SmallInbox, settled, sitting

ROOT = Path(__file__).parents[2]

_NAMES = {" ": "space", "?": "question_mark", "/": "slash", ".": "full_stop", ":": "colon"}


@cache
def _written() -> tuple[Path, str]:
    """The agent's folder, and what it printed."""
    folder = Path(tempfile.mkdtemp(prefix="ctrlrun-cards-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    done = subprocess.run(
        [sys.executable, "-m", "tests.tui.card_agent", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return folder, done.stdout


@dataclass
class Scene:
    """A copy of the agent's store. `ids` are what it asked and lost, by the tests' names."""

    folder: Path
    ids: dict[str, Any]
    clock: FrozenClock

    @property
    def path(self) -> Path:
        return self.folder / "state.db"

    def open(self) -> SQLiteStateStore:
        """Another connection: another console, or an agent."""
        return SQLiteStateStore(self.path, clock=self.clock)

    def record(self, name: str) -> ApprovalRecord:
        """The request of that name, as it stands."""
        with closing(self.open()) as store:
            record = store.get_approval(self.ids.get(name, name))
        assert record is not None
        return record

    def status(self, name: str) -> ApprovalStatus:
        """The stored status of a request."""
        return self.record(name).status

    def events(self, *types: str) -> list[Event]:
        """The events of these types, oldest first."""
        with closing(self.open()) as store:
            return [event for event in store.events() if not types or event.type in types]

    def content(self) -> dict[str, list[Any]]:
        """Everything in the store, row by row."""
        import sqlite3

        with closing(sqlite3.connect(self.path)) as connection:
            tables = connection.execute("select name from sqlite_master where type = 'table'")
            return {
                name: connection.execute(f'select * from "{name}"').fetchall()
                for (name,) in tables.fetchall()
            }


def scene(folder: Path) -> Scene:
    """A fresh copy in `folder`."""
    source, said = _written()
    for file in ("ctrlrun.yaml", "state.db"):
        shutil.copy(source / file, folder / file)
    ids = json.loads(said)
    return Scene(folder, ids, FrozenClock(datetime.fromisoformat(ids["now"])))


class Beneath(SmallInbox):
    """What lies under the cards."""

    COLUMNS = (Column("action", "action", 20, flexible=True),)


@asynccontextmanager
async def at_desk(
    made: Scene,
    *,
    who: str = "alice",
    size: tuple[int, int] = (80, 24),
    read_only: bool = False,
    policy: bool = True,
    glyphs: Glyphs = UNICODE,
    no_color: bool = False,
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int]]]:
    """A console on the scene, come to rest."""
    sat = sitting(made.path, made.clock, read_only=read_only, glyphs=glyphs, no_color=no_color)
    sat.who = f"tui:{who}"
    if not read_only:
        sat.desk.who = sat.who  # type: ignore[attr-defined]
    if policy:
        sat.policy = read_policy(made.folder / "ctrlrun.yaml")
    app = ConsoleApp(sat, {INBOX: Beneath})
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app, pilot
    sat.close()


async def show(pilot: Pilot[int], card: Card) -> Hand:
    """Open a card, let it come to rest, and have the terminal say that it was drawn."""
    pilot.app.push_screen(card)
    hand = Hand(pilot)
    await hand.rests()
    return hand


class Hand:
    """A hand on the keyboard, and the terminal it sits at. `at` is the time of the last key."""

    def __init__(self, pilot: Pilot[int]) -> None:
        self.pilot = pilot
        self.app: ConsoleApp = pilot.app  # type: ignore[assignment]
        self.at = time.monotonic()

    @property
    def card(self) -> Card:
        """The card on top."""
        assert isinstance(self.app.screen, Card), self.app.screen
        return self.app.screen

    async def hears(self) -> None:
        """The console has looked at the store and shows what it found."""
        await settled(self.pilot)
        self.terminal_draws()

    async def rests(self) -> None:
        """All that was pressed is done, all that was read is shown, the terminal has drawn it."""
        while not await comes_to_rest(self.pilot):  # noqa: ASYNC110  # several queues, none of them ours
            await asyncio.sleep(0.005)
        self.terminal_draws()

    def terminal_draws(self) -> None:
        """The terminal says that it has drawn all that was written so far."""
        for _ in range(len(self.app.card_memory._asked)):
            self.app.card_memory.terminal_answered(self.at)

    async def keys(self, *names: str, gap: float = 0.1, first: float = 0.5) -> None:
        """Press keys, the first after a pause."""
        for index, name in enumerate(names):
            self.at += gap if index else first
            self.post(name)
        await self.rests()

    def post(self, name: str) -> None:
        """Press one key, now."""
        event = events.Key(_NAMES.get(name, name), name if len(name) == 1 else None)
        event.time = self.at
        self.app.post_message(event)

    async def types(self, text: str, *, gap: float = 0.1, first: float = 0.5) -> None:
        """Type a text."""
        await self.keys(*text, gap=gap, first=first)

    async def types_code(self) -> None:
        """Type the code that the card asks for."""
        code = self.card.keypad.code
        assert code is not None and code.offered, told(self.app)
        await self.types(code.text)

    async def writes(self, field: str, text: str) -> None:
        """Go to a field, type into it, and leave it."""
        self.card.query_one(f"#{field}").focus()
        await self.pilot.pause()
        await self.types(text)
        await self.keys("enter")

    async def does(self, action: str) -> None:
        """Run an action of the card as its key does."""
        self.card.perform(action)
        await self.rests()


def told(app: ConsoleApp) -> str:
    """The screen's text, line by line."""
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)


def noticed(app: ConsoleApp) -> str:
    """The text of the notice."""
    return "".join(span.text for span in app.notice.text)
