"""Every screen at three sizes, in Unicode and ASCII, as text; the inbox in every set of colours.

The frames in `frames/` are of the fixed demo, whose clock and ids stand still. A frame proves no rule;
it shows what a change moves. `PYTHONPATH=.:tui python -m tests.tui.test_snapshots` writes them anew;
look at the difference before you commit it. The pictures in `screenshots/` are held to what the
program draws on the way; `python screenshots/make.py` makes them anew.

What differs in its size alone is drawn by one console whose window changes.
"""

from __future__ import annotations

import asyncio
import importlib.util
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import ModuleType

import pytest

from ctrlrun.clock import counted_ids
from ctrlrun.operator import Desk, read_policy
from ctrlrun.state.location import locate
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.arguments import Options
from ctrlrun_tui.demo import DemoHandle, start
from ctrlrun_tui.glyphs import ASCII, UNICODE
from ctrlrun_tui.keymap import Keys
from ctrlrun_tui.screens.views import VIEWS
from ctrlrun_tui.sitting import FIXED_STORE, Sitting
from ctrlrun_tui.snapshot import NAMES, settled, show, svg
from ctrlrun_tui.theme import MONOCHROME

FRAMES = Path(__file__).parent / "frames"
SCREENSHOTS = Path(__file__).parents[2] / "screenshots"
SIZES = ((80, 24), (120, 40), (200, 50))
DARK = "ctrlrun-dark"
SMALL = ((79, 24), (60, 15), (59, 15))
"""Too narrow for answers, the least with a list, and less than that."""


@dataclass(frozen=True)
class Look:
    """How a frame is drawn."""

    name: str
    size: tuple[int, int] = (80, 24)
    ascii: bool = False
    theme: str = DARK
    is_picture: bool = False
    no_color: bool = False
    screenshot: str = ""

    @property
    def file(self) -> Path:
        if self.screenshot:
            return SCREENSHOTS / f"{self.screenshot}.svg"
        words = [self.name, f"{self.size[0]}x{self.size[1]}"]
        words += ["ascii"] if self.ascii else []
        words += ["no-color" if self.no_color else self.theme] if self.is_picture else []
        return FRAMES / ("-".join(words) + (".svg" if self.is_picture else ".txt"))


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("screenshots_make", SCREENSHOTS / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = _load()


def screenshot(name: str) -> Look:
    """A picture of `screenshots/` as a look at the demo in this process."""
    _, view, *sized = make.PICTURES[name]
    width, _, height = (sized[1] if sized else "80x24").partition("x")
    return Look(view, (int(width), int(height)), is_picture=True, screenshot=name)


LOOKS = (
    *(Look(name, size) for name in NAMES for size in SIZES),
    *(Look(name, ascii=True) for name in NAMES),
    *(Look("inbox", size) for size in SMALL),
    *(
        Look(name, theme=theme, is_picture=True)
        for name in ("inbox", "approve")
        for theme in ("ctrlrun-light", "ansi-dark", "ansi-light")
    ),
    *(
        Look(name, theme=MONOCHROME, is_picture=True, no_color=True)
        for name in ("inbox", "approve")
    ),
)


def _walk_of(look: Look) -> str:
    """The name of the walk in which a look is taken: all but its size decides it."""
    colours = "no-color" if look.no_color else "" if look.theme == DARK else look.theme
    return "-".join(filter(None, [look.name, "ascii" if look.ascii else "", colours]))


WALKS = {
    name: list(looks)
    for name, looks in groupby(
        sorted([*LOOKS, *map(screenshot, make.PICTURES)], key=_walk_of), _walk_of
    )
}


def sitting(demo: DemoHandle, look: Look) -> Sitting:
    """The sitting of a picture of the demo."""
    now = demo.now
    assert now is not None
    location = replace(locate(demo.store_url, {}), shown=FIXED_STORE)
    desk = Desk(location, "tui:alice", clock=lambda: now, extend=False)
    return Sitting(
        options=Options(demo=True),
        desk=desk,
        who="tui:alice",
        policy=read_policy(demo.config_path),
        glyphs=ASCII if look.ascii else UNICODE,
        keys=Keys(),
        theme=look.theme,
        environ={},
        clock=lambda: now,
        no_color=look.no_color,
    )


async def drawn(demo: DemoHandle, looks: Sequence[Look]) -> dict[Look, str]:
    """What the files of these looks have, which are of one walk."""
    first = looks[0]
    frames = {}
    app = ConsoleApp(sitting(demo, first), VIEWS)
    async with app.run_test(size=first.size) as pilot:
        await settled(pilot)
        assert await show(pilot, first.name)
        await settled(pilot)
        for look in looks:
            if app.size != look.size:
                await pilot.resize_terminal(*look.size)
                await settled(pilot)
            frames[look] = svg(app) if look.is_picture else text(app)
    return frames


def text(app: ConsoleApp) -> str:
    """The characters of the screen."""
    strips = app.screen._compositor.render_strips()
    lines = ("".join(segment.text for segment in strip).rstrip() for strip in strips)
    return "\n".join(lines) + "\n"


def draw(demo: DemoHandle, looks: Sequence[Look]) -> dict[Look, str]:
    with counted_ids():
        return asyncio.run(drawn(demo, looks))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoHandle]:
    handle = start(tmp_path_factory.mktemp("demo"), fixed=True)
    yield handle
    handle.stop()


@pytest.mark.parametrize("walk", WALKS)
def test_the_frames_are_as_they_were(demo: DemoHandle, walk: str) -> None:
    for look, frame in draw(demo, WALKS[walk]).items():
        assert frame == look.file.read_text("utf-8"), look.file.name


def test_there_are_no_frames_of_what_is_gone() -> None:
    assert {look.file for look in LOOKS} == set(FRAMES.iterdir())
    assert {look.name for look in map(screenshot, make.PICTURES)} == set(NAMES)
    assert {file.stem for file in SCREENSHOTS.glob("*.svg")} == set(make.PICTURES)


def test_ascii_frames_are_ascii() -> None:
    for look in LOOKS:
        assert not look.ascii or look.file.read_text("utf-8").isascii(), look.file.name


@pytest.mark.parametrize("name", ["inbox", "approve"])
def test_without_colour_there_are_the_terminals_own_two(name: str) -> None:
    """What is drawn from the theme; the picture's own frame around it has greys."""
    picture = Look(name, theme=MONOCHROME, is_picture=True, no_color=True).file.read_text("utf-8")
    colours = set(re.findall(r"-r\d+ \{[^}]*fill: (#[0-9a-f]{6})", picture))
    assert len(colours) <= 3, colours  # foreground, background, and the dimmed foreground


def test_the_command_draws_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is set on this machine."""
    name = "stats-120x40"
    for setting, value in (
        ("CTRLRUN_OPERATOR", "somebody"),
        ("NO_COLOR", "1"),
        ("TERM", "linux"),
        ("LANG", "C"),
        ("COLUMNS", "40"),
        ("TZ", "Asia/Tokyo"),
    ):
        monkeypatch.setenv(setting, value)
    made = make.make(name, tmp_path).read_text("utf-8")
    assert made == (SCREENSHOTS / f"{name}.svg").read_text("utf-8")


def write() -> None:
    """Write all frames anew."""
    for old in FRAMES.glob("*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        handle = start(Path(folder), fixed=True)
        try:
            for walk in WALKS.values():
                for look, frame in draw(handle, walk).items():
                    if not look.screenshot:
                        look.file.write_text(frame, "utf-8")
        finally:
            handle.stop()


if __name__ == "__main__":
    write()
