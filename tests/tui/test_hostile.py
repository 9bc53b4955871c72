"""Hostile text: whatever an agent, a remote, a policy or another operator wrote stays text.

Every string of the suite, in every place (hostile_agent.py), goes through every view, detail, page
and card. Nothing on the screen, in the clipboard or in the title is anything but visible characters,
and nothing ends the application. What the terminal gets is looked at byte by byte in
tests/e2e/test_console_hostile.py.
"""

from __future__ import annotations

import base64
import html
import re
import shutil
import subprocess
import sys
import unicodedata
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from ctrlrun.approval import ApprovalRecord
from ctrlrun.operator import InboxRow, read_policy
from ctrlrun.text import inert
from ctrlrun_tui.actions import HAPPENED, STATS
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.cards.facts_view import json_form
from ctrlrun_tui.glyphs import ASCII, UNICODE, Glyphs
from ctrlrun_tui.screens.view import ViewScreen
from ctrlrun_tui.screens.views import VIEWS
from ctrlrun_tui.snapshot import svg
from tests.tui.helpers import FrozenClock, settled, sitting
from tests.tui.hostile_agent import START, WORDS

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
LISTS = set(VIEWS) - {STATS}
"""Views of records; test_stats.py walks over the page of numbers."""

NAME = "st\x1b[2J[red]o\u202ere"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    command = [sys.executable, "-m", "tests.tui.hostile_agent", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A copy, in a folder whose name is hostile too."""
    return Path(shutil.copytree(written, tmp_path / NAME))


@asynccontextmanager
async def hostile(
    folder: Path, size: tuple[int, int] = (80, 24), glyphs: Glyphs = UNICODE
) -> AsyncIterator[tuple[ConsoleApp, Pilot[int]]]:
    """The whole console on the store."""
    clock = FrozenClock(START)
    clock.advance(seconds=40)
    made = sitting(folder / "state.db", clock, glyphs=glyphs)
    made.policy = read_policy(folder / "ctrlrun.yaml")
    app = ConsoleApp(made, VIEWS)
    async with app.run_test(size=size) as pilot:
        await settled(pilot)
        yield app, pilot
    made.close()


def frame(app: ConsoleApp) -> list[str]:
    """What is on the screen, line by line."""
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip) for strip in strips]


def is_visible(text: str) -> bool:
    """Only characters that show, and the space; marks stand on something, two at most."""
    marks = re.compile("[\u0300-\u036f\u0483-\u0489\u20d0-\u20f0]{3}")
    return (
        all(
            character == " " or (character.isprintable() and character != "\u3164")
            for character in text
        )
        and not any(
            unicodedata.category(character) in ("Cf", "Zs") for character in text.replace(" ", "")
        )
        and not marks.search(text)
    )


def check(app: ConsoleApp, where: str) -> None:
    for line in frame(app):
        assert is_visible(line), f"{where}: {line!a}"
    assert app.is_running
    assert app._exception is None


def rows(view: ViewScreen) -> Iterator[str]:
    """Each row in turn, under the cursor."""
    seen: set[str] = set()
    while view.current_row is not None and view.current_row.id not in seen:
        seen.add(view.current_row.id)
        yield view.current_row.id
        view.list.move(1)


@contextmanager
def copies(app: ConsoleApp, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is sent to the terminal besides frames."""
    sent: list[str] = []
    monkeypatch.setattr(app, "write_terminal", sent.append)
    yield sent
    for sequence in sent:
        copied = re.search(r"\x1b\]52;c;([A-Za-z0-9+/=]*)(?:\x07|\x1b\\)", sequence)
        if copied is not None:
            text = base64.b64decode(copied[1]).decode("utf-8")
            assert all(is_visible(line) for line in text.split("\n")), ascii(text)


def top_view(app: ConsoleApp) -> ViewScreen:
    top = app.top
    assert isinstance(top, ViewScreen)
    return top


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
@pytest.mark.parametrize("name", sorted(LISTS))
async def test_views_and_details(
    folder: Path, name: str, glyphs: Glyphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hostile(folder, glyphs=glyphs) as (app, pilot):
        with copies(app, monkeypatch) as sent:
            app.show_view(name)
            await settled(pilot)
            view = top_view(app)
            view.do_top()
            await settled(pilot)
            count = 0
            for _ in rows(view):
                count += 1
                every = 5 if name == "events" or glyphs is ASCII else 2  # they repeat the words
                if count % every:
                    continue
                await settled(pilot)
                check(app, f"{name}, row {count}")
                view.do_copy()
            assert count >= len(WORDS)
            assert any("52;c;" in sequence for sequence in sent)
            assert is_visible(svg_text(app))


@pytest.mark.parametrize("name", sorted(LISTS))
async def test_pages_over_a_view(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The detail whole, the history, and the record as JSON, of some rows of each kind."""
    pages = ("open", "inspect", "raw") if name in HAPPENED else ("open", "raw")
    async with hostile(folder, (120, 40)) as (app, pilot):
        with copies(app, monkeypatch):
            app.show_view(name)
            await settled(pilot)
            view = top_view(app)
            view.do_top()
            await settled(pilot)
            step = 31 if name == "events" else 4
            for number, row in enumerate(rows(view)):
                if number % step:
                    continue
                page = pages[number // step % len(pages)]
                await settled(pilot)
                if not view.perform(page):
                    continue
                await settled(pilot)
                if app.current_mode != name:  # a grant is shown where grants are
                    check(app, f"{name}, {page}, {row!a}")
                    app.show_view(name)
                    await settled(pilot)
                    continue
                check(app, f"{name}, {page}, {row!a}")
                for action in ("whole", "copy", "bottom"):
                    perform(app, action)
                    await settled(pilot)
                    check(app, f"{name}, {page}, {row!a}, {action}")
                perform(app, "back")
                await settled(pilot)
                assert app.top is view


def perform(app: ConsoleApp, action: str) -> None:
    top = app.top
    assert top is not None
    if app.keys.named(action).name in {each.name for each in app.keys.on(top.PLACE)}:
        top.perform(action)


async def test_cards_show_the_arguments_whole(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with hostile(folder, (80, 110)) as (app, pilot):
        with copies(app, monkeypatch):
            view = top_view(app)
            seen = 0
            for number, _ in enumerate(rows(view)):
                row = view.current_row
                assert row is not None
                for action in ("approve", "resolve"):
                    if action == "resolve" and number % 5:
                        continue
                    if view.reason(app.keys.named(action)) is not None:
                        continue
                    view.perform(action)
                    await settled(pilot)
                    perform(app, "card_whole")
                    await settled(pilot)
                    check(app, f"{action} {row.id!a}")
                    if action == "approve":
                        assert isinstance(row.record, InboxRow)
                        assert row.record.approval is not None
                        assert_whole(app, row.record.approval)
                    perform(app, "card_copy")
                    perform(app, "cancel")
                    await settled(pilot)
                    seen += 1
            assert seen > len(WORDS)


def assert_whole(app: ConsoleApp, record: ApprovalRecord) -> None:
    """Every argument stands on the card as in the canonical bytes, in their order."""
    inside = "".join(line.strip(" │╭╮╰╯─") for line in frame(app)).replace(" ", "")
    at = 0
    for name, value in record.request.action.canonical_arguments.items():
        for text in (inert(name), inert(json_form(value))):
            squeezed = text.replace(" ", "")
            found = inside.find(squeezed, at)
            assert found >= 0, f"{squeezed!a} is not on the card: {inside!a}"
            at = found


async def test_notices_and_the_filter(folder: Path) -> None:
    async with hostile(folder) as (app, pilot):
        view = top_view(app)
        for word in WORDS:
            view.do_filter()
            view.bar.field.post_message(events.Paste(word))
            await settled(pilot)
            check(app, f"filter {word!a}")
            view._apply_filter(view.bar.value)
            await settled(pilot)
            check(app, f"filtered by {word!a}")
            view._close_filter()
            view.set_filter("")
            await settled(pilot)
        for kind in sorted(VIEWS):
            app.show_view(kind)
            await settled(pilot)
            perform(app, "help")
            await settled(pilot)
            check(app, f"help over {kind}")
            app.screen.dismiss()


async def test_what_is_typed_and_pasted_into_a_card(folder: Path) -> None:
    async with hostile(folder) as (app, pilot):
        view = top_view(app)
        view.perform("approve")
        await settled(pilot)
        perform(app, "next_field")
        for word in WORDS:
            field: Any = app.focused
            assert field is not None
            field.post_message(events.Paste(word))
            await settled(pilot)
            check(app, f"a note of {word!a}")
            field.value = ""


async def test_the_hand_over(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with hostile(folder) as (app, pilot):
        perform(app, "handover")
        await settled(pilot)
        for _ in range(10):
            check(app, "hand-over")
            perform(app, "page_down")
            await settled(pilot)
        perform(app, "write_handover")
        await settled(pilot)
    lines = read_only_file(tmp_path).split("\n")
    assert all(is_visible(line) for line in lines)


def svg_text(app: ConsoleApp) -> str:
    """The texts of the picture of the screen; its own spaces are no-break ones."""
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg(app))
    return html.unescape("".join(texts)).replace("\xa0", " ").replace("\n", "")


def read_only_file(folder: Path) -> str:
    """The text of the one hand-over in a folder."""
    (file,) = folder.glob("handover-*.txt")
    return file.read_text("utf-8")
