"""Every screen at three sizes, in Unicode and ASCII, as text; the inbox in every set of colours.

The frames in `frames/` are of the fixed demo, whose clock and ids stand still. A frame proves no rule;
it shows what a change moves. `PYTHONPATH=.:tui python -m tests.tui.test_snapshots` writes them anew;
look at the difference before you commit it.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

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
SIZES = ((80, 24), (120, 40), (200, 50))
SMALL = ((79, 24), (60, 15), (59, 15))
"""Too narrow for answers, the least with a list, and less than that."""


@dataclass(frozen=True)
class Look:
    """How a frame is drawn."""

    name: str
    size: tuple[int, int] = (80, 24)
    ascii: bool = False
    theme: str = "ctrlrun-dark"
    is_picture: bool = False
    no_color: bool = False

    @property
    def file(self) -> Path:
        words = [self.name, f"{self.size[0]}x{self.size[1]}"]
        words += ["ascii"] if self.ascii else []
        words += ["no-color" if self.no_color else self.theme] if self.is_picture else []
        return FRAMES / ("-".join(words) + (".svg" if self.is_picture else ".txt"))


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


async def drawn(demo: DemoHandle, look: Look) -> str:
    """The frame, as the file has it."""
    app = ConsoleApp(sitting(demo, look), VIEWS)
    async with app.run_test(size=look.size) as pilot:
        await settled(pilot)
        assert await show(pilot, look.name)
        await settled(pilot)
        if look.is_picture:
            return svg(app)
        strips = app.screen._compositor.render_strips()
        lines = ("".join(segment.text for segment in strip).rstrip() for strip in strips)
        return "\n".join(lines) + "\n"


def draw(demo: DemoHandle, look: Look) -> str:
    with counted_ids():
        return asyncio.run(drawn(demo, look))


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoHandle]:
    handle = start(tmp_path_factory.mktemp("demo"), fixed=True)
    yield handle
    handle.stop()


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.file.stem)
def test_the_frame_is_as_it_was(demo: DemoHandle, look: Look) -> None:
    assert draw(demo, look) == look.file.read_text("utf-8")


def test_there_are_no_frames_of_what_is_gone() -> None:
    assert {look.file for look in LOOKS} == set(FRAMES.iterdir())


@pytest.mark.parametrize("look", [each for each in LOOKS if each.ascii], ids=lambda each: each.name)
def test_ascii_frames_are_ascii(look: Look) -> None:
    assert look.file.read_text("utf-8").isascii()


@pytest.mark.parametrize("name", ["inbox", "approve"])
def test_without_colour_there_are_the_terminals_own_two(name: str) -> None:
    """What is drawn from the theme; the picture's own frame around it has greys."""
    picture = Look(name, theme=MONOCHROME, is_picture=True, no_color=True).file.read_text("utf-8")
    colours = set(re.findall(r"-r\d+ \{[^}]*fill: (#[0-9a-f]{6})", picture))
    assert len(colours) <= 3, colours  # foreground, background, and the dimmed foreground


def write() -> None:
    """Write all frames anew."""
    for old in FRAMES.glob("*"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        handle = start(Path(folder), fixed=True)
        try:
            for look in LOOKS:
                look.file.write_text(draw(handle, look), "utf-8")
        finally:
            handle.stop()


if __name__ == "__main__":
    write()
