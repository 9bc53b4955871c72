"""Thinned frames: what the terminal shows is the same, and far fewer bytes say it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from ctrlrun_tui.app import ConsoleApp
from ctrlrun_tui.frames import Shown
from tests.tui.helpers import START, FrozenClock, ask, console, new_store, settled, sitting

STYLES = (
    "",
    "1",
    "2",
    "38;2;1;2;3;48;2;9;9;9",
    "38;2;4;5;6;48;2;9;9;9",
    "1;7;38;2;1;2;3;48;2;9;9;9",
    "39;49",
    "2;39;49",
    "94;49",
    "38;5;7;48;5;0",
)
WIDTH, HEIGHT = 12, 4


class Terminal:
    """As much of a terminal as frames use."""

    def __init__(self) -> None:
        self.cells: dict[tuple[int, int], tuple[str, frozenset[str], str, str]] = {}
        self.pen: tuple[frozenset[str], str, str] = (frozenset(), "39", "49")
        self.x = self.y = 0

    def write(self, data: str) -> None:
        data = re.sub(r"\x1b\][^\x07]*\x07|\x07", "", data)  # title, bell
        for token in re.finditer(r"\x1b\[([\d;?]*)([A-Za-z])|\n|([^\x00-\x1f])", data):
            if token[2] == "H":
                self.y, self.x = (int(part) - 1 for part in token[1].split(";"))
            elif token[2] == "m":
                self._style(token[1])
            elif token[3]:
                self._put(token[3])

    def _style(self, codes: str) -> None:
        attributes, colour, ground = self.pen
        left = codes.split(";") if codes else ["0"]
        while left:
            code = left.pop(0)
            if code == "0":
                attributes, colour, ground = frozenset(), "39", "49"
            elif code in ("38", "48"):
                count = 4 if left[0] == "2" else 2
                value = ";".join([code, *left[:count]])
                left = left[count:]
                colour, ground = (value, ground) if code == "38" else (colour, value)
            elif int(code) in (*range(30, 40), *range(90, 98)):
                colour = code
            elif int(code) in (*range(40, 50), *range(100, 108)):
                ground = code
            else:
                attributes |= {code}
        self.pen = (attributes, colour, ground)

    def _put(self, character: str) -> None:
        width = cell_len(character)
        if width == 0:
            blank = (" ", *self.pen)
            at = self.x - (2 if self.cells.get((self.y, self.x - 1), blank)[0] == "" else 1)
            text, *pen = self.cells.get((self.y, at), blank)
            self.cells[self.y, at] = (text + character, *pen)  # type: ignore[assignment]
            return
        self.cells[self.y, self.x] = (character, *self.pen)
        if width == 2:
            self.cells[self.y, self.x + 1] = ("", *self.pen)
        self.x += width


def _piece(text: str, style: str) -> str:
    return f"\x1b[{style}m{text}\x1b[0m" if style else text


_TEXT = st.text(st.sampled_from("ab 019─▸日本é\u0301"), min_size=1, max_size=4)
_STRETCH = st.tuples(
    st.integers(0, HEIGHT - 1),
    st.integers(0, WIDTH - 1),
    st.lists(st.tuples(_TEXT, st.sampled_from(STYLES)), min_size=1, max_size=3),
)


def _frame(stretches: list[tuple[int, int, list[tuple[str, str]]]]) -> str:
    drawn = [
        f"\x1b[{y + 1};{x + 1}H" + "".join(_piece(text, style) for text, style in pieces) + "\n"
        for y, x, pieces in stretches
    ]
    return "".join(drawn) + "\x1b[1;1H"


@example([[(3, 2, [("日", "")]), (3, 3, [("日0", "")])], [(3, 1, [("0000", "")])]])  # over a half
@given(st.lists(st.lists(_STRETCH, min_size=1, max_size=4), min_size=1, max_size=6))
def test_the_terminal_shows_the_same_whatever_was_drawn(
    frames: list[list[tuple[int, int, list[tuple[str, str]]]]],
) -> None:
    plain, thinned, shown = Terminal(), Terminal(), Shown()
    for stretches in frames:
        # A mark with nothing to stand on is drawn by no widget of ours.
        frame = _frame([s for s in stretches if not s[2][0][0].startswith("\u0301")])
        if frame == "\x1b[1;1H":
            continue
        plain.write(frame)
        thinned.write(shown.thin(frame))
    odd = {y for (y, _), cell in plain.cells.items() if len(cell[0]) != 1 or cell_len(cell[0]) != 1}
    for place, cell in plain.cells.items():
        if place[0] not in odd:
            assert thinned.cells[place] == cell
    assert (plain.x, plain.y, thinned.pen) == (thinned.x, thinned.y, (frozenset(), "39", "49"))


def _lines(*texts: str) -> str:
    style = "38;2;220;226;232;48;2;16;20;24"
    return _frame([(y, 0, [(text, style)]) for y, text in enumerate(texts)])


def test_a_countdown_costs_its_digits() -> None:
    shown = Shown()
    whole = shown.thin(_lines("  4:18  ◇ 10:42", "  3:58  ◇ 11:02"))
    ticked = shown.thin(_lines("  4:19  ◇ 10:41", "  3:59  ◇ 11:01"))
    assert "4:1" in whole
    assert re.sub(r"\x1b\[[\d;]*[Hm]", "", ticked) == "9191"
    assert len(ticked) < 100


def test_the_same_frame_again_costs_nothing() -> None:
    shown = Shown()
    shown.thin(_lines("one", "two"))
    assert shown.thin(_lines("one", "two")) == ""


def test_what_is_not_understood_is_passed_on_and_everything_is_forgotten() -> None:
    shown = Shown()
    frame = _lines("one", "two")
    shown.thin(frame)
    for sequence in ("\x1b[2J", "\x1b[?1049h", "\x1b[3;4r", "\x1bc"):
        assert shown.thin(sequence) == sequence
        assert "one" in shown.thin(frame)


def test_title_bell_and_questions_pass_and_nothing_is_forgotten() -> None:
    shown = Shown()
    frame = _lines("one", "two")
    shown.thin(frame)
    for sequence in ("\x1b]2;ctrlrun\x07", "\a", "\x1b[6n", "\x1b[?2026h"):
        assert shown.thin(sequence) == sequence
    assert shown.thin(frame) == ""


def test_after_forgetting_a_frame_is_sent_whole() -> None:
    shown = Shown()
    shown.thin(_lines("one", "two"))
    shown.forget()
    assert "one" in shown.thin(_lines("one", "two"))


def test_a_line_with_characters_of_doubtful_width_is_sent_as_it_came() -> None:
    shown = Shown()
    shown.thin(_lines("pay 日本 10:42"))
    again = shown.thin(_lines("pay 日本 10:41"))
    assert "pay 日本 10:41" in again


# --- past the compositor -------------------------------------------------------------------------


class Shadow:
    """The console's terminal: what was written to it, beside what it should show."""

    def __init__(self, app: ConsoleApp, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app = app
        self.terminal = Terminal()
        self.writes = 0
        driver = app._driver
        assert driver is not None
        shown = Shown()

        def write(data: str) -> None:
            self.writes += 1
            self.terminal.write(shown.thin(data))

        monkeypatch.setattr(driver, "shown", shown, raising=False)
        monkeypatch.setattr(driver, "write", write)
        monkeypatch.setattr(ConsoleApp, "is_headless", property(lambda app: False))

    def agrees(self) -> bool:
        """Whether every cell is as the compositor would draw it now."""
        for y, strip in enumerate(self.app.screen._compositor.render_strips()):
            x = 0
            for segment in strip:
                for character in segment.text:
                    if self.terminal.cells[y, x][0] != character:
                        return False
                    x += 1
        return True


@pytest.mark.anyio
@pytest.mark.usefixtures("drawn")
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_what_is_sent_past_the_compositor_is_what_it_would_send(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        for number in range(40):
            ask(store, number, at=START - timedelta(seconds=17 * number))
    async with console(sitting(tmp_path / "state.db", clock), size=size) as (app, pilot):
        shadow = Shadow(app, monkeypatch)
        app.do_redraw()
        await pilot.pause()
        assert shadow.agrees()
        for _ in range(70):
            clock.advance(seconds=1)
            shadow.writes = 0
            app.tick()
            assert not app.screen._dirty_widgets  # nothing is left for the compositor
            assert shadow.writes
            assert shadow.agrees()
        for key in ("j", "j", "G", "k", "space", "g"):
            await pilot.press(key)
            await settled(pilot)
            assert shadow.agrees()
        await pilot.press("question_mark")
        await settled(pilot)
        clock.advance(seconds=1)
        app.tick()
        await pilot.pause()
        assert shadow.agrees()


@pytest.mark.anyio
@pytest.mark.usefixtures("drawn")
async def test_while_something_else_is_about_to_be_drawn_the_compositor_draws_it_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        for number in range(40):
            ask(store, number, at=START)
    async with console(sitting(tmp_path / "state.db", clock), size=(120, 40)) as (app, pilot):
        shadow = Shadow(app, monkeypatch)
        app.do_redraw()
        await pilot.pause()
        view = app.top
        assert view is not None
        view.perform("open")  # another layout is due
        clock.advance(seconds=1)
        app.tick()
        await settled(pilot)
        assert shadow.agrees()
        view.perform("back")
        clock.advance(seconds=1)
        app.tick()
        await settled(pilot)
        assert shadow.agrees()
