"""`--snapshot`: one frame as an SVG file, drawn without a terminal, for tickets and documentation.

The file fetches nothing. Waiting is for what is known to be under way, never for a time.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from textual.pilot import Pilot

from ctrlrun.clock import counted_ids
from ctrlrun.files import open_to_write
from ctrlrun_tui.actions import AUTHORITY, CARDS, DELEGATE, REVOKE, VIEWS
from ctrlrun_tui.arguments import Options
from ctrlrun_tui.ending import REFUSED, UNUSABLE, failed
from ctrlrun_tui.frames import is_drawn
from ctrlrun_tui.screens.view import ViewScreen
from ctrlrun_tui.widgets.virtual_list import VirtualList

if TYPE_CHECKING:
    from ctrlrun_tui.app import ConsoleApp

ROUNDS = 400
"""Looks at what is under way before giving up: several seconds."""

WALK_ROUNDS = 6_000
"""Looks while nothing but the chain is still being walked over: a minute or more. Then the frame
says how far it came."""

WALK = "chain"
"""The workers' group in which that is waited for."""

_FONT_FACE = re.compile(r"@font-face\s*\{.*?\}", re.DOTALL)
_FONTS = "Fira Code"
_LOCAL_FONTS = 'ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace'

NAMES = (*VIEWS, *CARDS, "inspect", "help", "palette", "handover")
"""What can be drawn: views, cards, and pages over a view."""


def draw(app: ConsoleApp, options: Options) -> int:
    """Draw the frame that the options name into their file; the exit code."""
    name = options.view
    if name is not None and name not in NAMES:
        return failed(f"there is no view {name!r}; there are: {', '.join(NAMES)}", UNUSABLE)
    assert options.snapshot is not None
    # Of a demo the codes on the cards, too, are the same each time; no hand will type them.
    with counted_ids() if options.demo else nullcontext():
        picture = asyncio.run(_draw(app, options.size, name))
    if picture is None:
        return failed(f"nothing in the inbox takes {name}", REFUSED)
    return _write(options.snapshot, picture)


async def _draw(app: ConsoleApp, size: tuple[int, int], name: str | None) -> str | None:
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        found = await show(pilot, name)
        await settled(pilot)
        return svg(app) if found else None


def _write(file: Path, picture: str) -> int:
    try:
        with open(open_to_write(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as out:
            out.write(picture.encode())
    except OSError as error:
        return failed(f"{file}: {error.strerror or error}", UNUSABLE)
    return 0


async def show(pilot: Pilot[int], name: str | None) -> bool:
    """Go to a view, or open a card or page on the first item that takes it; whether one does."""
    app: ConsoleApp = pilot.app  # type: ignore[assignment]
    if name is None:
        return True
    if name in VIEWS:
        app.show_view(name)
        return True
    if name in (DELEGATE, REVOKE):
        app.show_view(AUTHORITY)
        await settled(pilot)
    view = app.top
    if not isinstance(view, ViewScreen):
        return False
    action = name.replace("-", "_")
    if action in ("review", "deny_marked"):
        for _ in range(2):
            await _first_that_takes(pilot, view, "mark")
    return await _first_that_takes(pilot, view, action)


async def _first_that_takes(pilot: Pilot[int], view: ViewScreen, action: str) -> bool:
    """Perform an action on the first row, from the cursor down, on which it is not off."""
    keys = view.console_app.keys
    while view.reason(keys.named(action)) is not None:
        before = view.current_row
        view.list.move(1)
        await settled(pilot)
        if view.current_row is before:
            return False
    return view.perform(action)


def svg(app: ConsoleApp) -> str:
    """The screen as an SVG that names no resource elsewhere."""
    picture = app.export_screenshot(title="ctrlrun console")
    picture = _FONT_FACE.sub("", picture).replace(f'"{_FONTS}"', _LOCAL_FONTS)
    picture = picture.replace(_FONTS, _LOCAL_FONTS)
    # Viewers that trim the texts of an SVG take its no-break spaces for what is to be trimmed.
    return picture.replace("<svg ", '<svg xml:space="preserve" ', 1)


async def settled(pilot: Pilot[int]) -> None:
    """Wait until the feed has looked, every read is done, and what was read is on the screen."""
    app: ConsoleApp = pilot.app  # type: ignore[assignment]
    rounds = app.data.rounds
    app.data.wake()
    walked = restless = 0
    while restless < ROUNDS:
        await asyncio.sleep(0.01)
        if app.data.crash is not None:
            raise app.data.crash
        looked = app.data.rounds > rounds
        if looked and await comes_to_rest(pilot):
            return
        if looked and is_quiet(app, but_for=WALK):
            walked += 1
            if walked >= WALK_ROUNDS:
                return
        else:
            restless += 1
    raise TimeoutError("the console did not come to rest")


async def comes_to_rest(pilot: Pilot[int]) -> bool:
    """Whether nothing is under way, and still nothing after all widgets did what they were told.

    How busy the processor is says nothing: on a loaded machine it is busy for others. Several looks,
    because a message that a widget has taken from its queue and not handled yet is in none of them.
    """
    app: ConsoleApp = pilot.app  # type: ignore[assignment]
    for _ in range(4):
        if not is_quiet(app):
            return False
        await pilot.pause(0)
    return is_quiet(app)


def is_quiet(app: ConsoleApp, *, but_for: str | None = None) -> bool:
    """Whether nothing is being read, and all that was read is laid out and drawn.

    Workers of the group `but_for` may go on.
    """
    if app.is_taking_keys:
        return False
    working = (worker for worker in app.workers if worker.group != but_for)
    if any(not worker.is_finished for worker in working) or not app.is_counted:
        return False
    pumps = [app, *app.screen_stack]
    if any(not pump._message_queue.empty() for pump in pumps) or not is_drawn(app.screen):
        return False
    top = app.top
    # A query would match each node against a selector, at every look.
    lists = top.walk_children(VirtualList) if top is not None else []
    is_noted = top is None or top.is_at_rest
    return is_noted and all(each.is_at_rest for each in lists)
