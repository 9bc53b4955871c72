"""Pictures: one frame, the same each time, that fetches nothing."""

from __future__ import annotations

import asyncio
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from textual.widget import Widget

from ctrlrun_tui.actions import INBOX
from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.arguments import Options
from ctrlrun_tui.snapshot import draw
from tests.tui.helpers import FrozenClock, SmallInbox, ask, console, new_store, settled, sitting

ROWS = 12
"""Rows at which a layout comes to rest: later than the store was looked at."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_store(tmp_path, FrozenClock()) as store:
        for number in range(5):
            ask(store, number)
    return tmp_path / "state.db"


def _draw(
    path: Path, file: Path, *, view: str | None = None, size: tuple[int, int] = (80, 24)
) -> int:
    app = ConsoleApp(sitting(path, FrozenClock()), {INBOX: SmallInbox})
    return draw(app, Options(snapshot=file, size=size, view=view))


def _text(file: Path) -> str:
    return "".join(ET.fromstring(file.read_text("utf-8")).itertext()).replace("\xa0", " ")


def test_a_picture_shows_the_rows_after_the_first_load(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "inbox.svg"
    assert _draw(path, file) == 0
    text = _text(file)
    assert "5 waiting" in text
    assert "refund:txn_4" in text
    assert "amount      1000" in text


def test_a_picture_is_the_same_each_time_and_fetches_nothing(path: Path, tmp_path: Path) -> None:
    pictures = []
    for name in ("one.svg", "two.svg"):
        assert _draw(path, tmp_path / name, size=(120, 40)) == 0
        pictures.append((tmp_path / name).read_text("utf-8"))
    assert pictures[0] == pictures[1]
    for fetched in ("@font-face", "url(http", "href=", "<image", "cdnjs"):
        assert fetched not in pictures[0]


def test_a_page_can_be_named(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "help.svg"
    assert _draw(path, file, view="help") == 0
    assert "Open the card that refuses this request." in _text(file)


def test_a_name_that_is_none_is_refused_in_one_line(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _draw(path, tmp_path / "x.svg", view="nonsense") == 2
    assert capsys.readouterr().err.startswith(
        "Error: there is no view 'nonsense'; there are: inbox"
    )
    assert not (tmp_path / "x.svg").exists()


def test_a_card_that_nothing_takes_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with new_store(tmp_path, FrozenClock()):
        pass
    assert _draw(tmp_path / "state.db", tmp_path / "x.svg", view="approve") == 1
    assert capsys.readouterr().err == "Error: nothing in the inbox takes approve\n"


async def at_once(*_: object) -> None:
    """The guess that the process is idle, on a machine where others have the processor."""
    await asyncio.sleep(0)


class Growing(Widget):
    """A line that needs one more each time it is drawn."""

    DEFAULT_CSS = "Growing { height: 1; }"

    def on_mount(self) -> None:
        self.call_after_refresh(self.grow, 2)

    def grow(self, rows: int) -> None:
        self.styles.height = rows
        if rows < ROWS:
            self.call_after_refresh(self.grow, rows + 1)


@pytest.mark.anyio
async def test_a_layout_that_comes_to_rest_late_is_waited_for_however_idle_the_process_seems(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("textual.pilot.wait_for_idle", at_once)
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        await app.screen.query_one("#body").mount(growing := Growing())
        await settled(pilot)
        assert growing.size.height == ROWS


def test_a_file_that_cannot_be_written_is_said(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _draw(path, tmp_path / "no" / "x.svg") == 2
    assert "No such file" in capsys.readouterr().err
