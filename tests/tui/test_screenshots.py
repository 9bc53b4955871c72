"""The pictures in `screenshots/` are what the program draws now."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from ctrlrun_tui.demo import DemoHandle, start
from ctrlrun_tui.snapshot import NAMES
from tests.tui.test_snapshots import Look, draw

FOLDER = Path(__file__).parents[2] / "screenshots"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("screenshots_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


make = _load()


def test_there_is_one_of_each_view_and_card_and_no_other() -> None:
    assert {arguments[1] for arguments in make.PICTURES.values()} == set(NAMES)
    assert {file.stem for file in FOLDER.glob("*.svg")} == set(make.PICTURES)


def look(name: str) -> Look:
    """The picture as a frame of the demo in this process."""
    arguments = make.PICTURES[name]
    size = arguments[3] if len(arguments) > 2 else "80x24"
    width, _, height = size.partition("x")
    return Look(arguments[1], (int(width), int(height)), is_picture=True)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoHandle]:
    handle = start(tmp_path_factory.mktemp("demo"), fixed=True)
    yield handle
    handle.stop()


@pytest.mark.parametrize("name", sorted(make.PICTURES))
def test_it_is_current(demo: DemoHandle, name: str) -> None:
    """`python screenshots/make.py` makes them anew."""
    assert draw(demo, look(name)) == (FOLDER / f"{name}.svg").read_text("utf-8")


@pytest.mark.parametrize("name", ["approve", "stats-120x40"])
def test_the_command_draws_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is set on this machine."""
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
    assert made == (FOLDER / f"{name}.svg").read_text("utf-8")
