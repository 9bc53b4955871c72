"""The frame: pinned line, view line, notice, footer, and how much of it fits which terminal."""

from __future__ import annotations

import base64
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size

from ctrlrun.approval import ApprovalStatus
from ctrlrun.state import SQLiteStateStore
from ctrlrun_tui.app import FOCUS_GRACE, ConsoleApp
from ctrlrun_tui.clipboard import MOST_BYTES, copy_sequence
from ctrlrun_tui.data.models import Live, Reach, Where
from ctrlrun_tui.glyphs import UNICODE
from ctrlrun_tui.layout import Layout, layout_for, size_refusal
from ctrlrun_tui.widgets.footer import Hint, footer_line
from ctrlrun_tui.widgets.pinned import pinned_line
from ctrlrun_tui.widgets.strips import width_of
from tests.tui.helpers import START, FrozenClock, ask, console, new_store, settled, sitting

WHERE = Where("/srv/pay/production/.ctrlrun/state.db", "production", True, "enforce", "tui:alice")
LIVE = Live(last_read_at=START)


def _pinned(where: Where, live: Live, width: int, waiting: int = 5) -> str:
    line = pinned_line(where, live, waiting, START, UNICODE, width)
    assert width_of(line) <= width
    return "".join(span.text for span in line)


# --- the pinned line -----------------------------------------------------------------------------


def test_the_pinned_line_says_where_one_is_and_how_much_waits() -> None:
    assert _pinned(WHERE, LIVE, 118) == (
        "● live  /srv/pay/production/.ctrlrun/state.db  PRODUCTION  enforce  tui:alice"
        + " " * 21
        + "5 waiting  03:12:41Z"
    )


@pytest.mark.parametrize("width", range(60, 119))
def test_when_it_is_tight_the_clock_goes_then_store_and_name_are_cut_and_nothing_else(
    width: int,
) -> None:
    line = _pinned(replace(WHERE, read_only=True, who="tui:alexandra.hamilton"), LIVE, width)
    for word in ("● live", "PRODUCTION", "enforce", "READ-ONLY", "5 waiting"):
        assert word in line or width < 70
    assert line.endswith(("5 waiting", "03:12:41Z"))
    if "03:12:41Z" in line:
        assert "/srv/pay/production/.ctrlrun/state.db" in line
    if "alexandra.hamilton" not in line:
        assert "03:12:41Z" not in line


def test_at_eighty_columns_store_and_production_and_who_are_there() -> None:
    line = _pinned(WHERE, LIVE, 78)
    assert "state.db  PRODUCTION  enforce  tui:alice" in line
    assert line.endswith("5 waiting")


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (LIVE, "● live"),
        (
            Live(Reach.STALE, START - timedelta(seconds=14), START + timedelta(seconds=3)),
            "STALE 14 s, next try 3 s",
        ),
        (
            Live(Reach.UNREACHABLE, None, START + timedelta(seconds=3)),
            "✗ unreachable, next try 3 s",
        ),
    ],
)
def test_the_live_state_is_said_in_words(live: Live, expected: str) -> None:
    assert _pinned(WHERE, live, 118).startswith(expected)


def test_observe_and_demo_and_an_unread_policy_cannot_be_overlooked() -> None:
    assert "OBSERVE nothing is enforced" in _pinned(replace(WHERE, mode="observe"), LIVE, 118)
    assert "demo" in _pinned(replace(WHERE, demo=True), LIVE, 118)
    unread = _pinned(replace(WHERE, mode=None, environment=None, production=False), LIVE, 118)
    assert "policy not read" in unread


# --- the footer ----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [30, 40, 78, 200])
def test_the_footer_never_drops_a_key_without_counting_it(width: int) -> None:
    hints = [Hint("a", "approve"), Hint("d", "deny"), Hint("v", "whole"), Hint("i", "inspect")]
    line = footer_line(hints, 12, width, "?")
    text = "".join(span.text for span in line)
    shown = sum(hint.word in text for hint in hints)
    assert text.endswith(f"? {12 - shown} more")
    assert width_of(line) <= width


# --- sizes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "layout"),
    [
        ((80, 24), Layout.NARROW),
        ((119, 60), Layout.NARROW),
        ((120, 24), Layout.WIDE),
        ((79, 24), Layout.SMALL),
        ((200, 23), Layout.SMALL),
        ((60, 15), Layout.SMALL),
        ((59, 40), Layout.TINY),
        ((200, 14), Layout.TINY),
    ],
)
def test_the_layout_follows_the_size(size: tuple[int, int], layout: Layout) -> None:
    assert layout_for(Size(*size)) is layout
    assert (size_refusal(Size(*size)) is None) == (layout in (Layout.NARROW, Layout.WIDE))


def _rows(app: ConsoleApp) -> list[str]:
    strips = app.screen._compositor.render_strips()
    return ["".join(segment.text for segment in strip).rstrip() for strip in strips]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with new_store(tmp_path, FrozenClock()) as store:
        for number in range(30):
            ask(store, number)
    return tmp_path / "state.db"


@pytest.mark.anyio
async def test_at_eighty_columns_the_detail_stands_beneath_the_list(path: Path) -> None:
    async with console(sitting(path, FrozenClock())) as (app, _):
        rows = _rows(app)
    assert rows[0].startswith(" ● live")
    assert rows[1].startswith(" Inbox")
    assert rows[4].startswith("▸")
    assert rows[12].startswith("── stripe.refund ──")
    assert rows[23].endswith(" more")


@pytest.mark.anyio
async def test_at_a_hundred_and_twenty_the_detail_stands_beside_it(path: Path) -> None:
    async with console(sitting(path, FrozenClock()), size=(120, 40)) as (app, _):
        rows = _rows(app)
    assert rows[1].startswith(" 1 Inbox 30   2 Effects")
    assert [row[67] for row in rows[3:38]] == ["│"] * 35
    assert "amount      1000" in rows[4][68:]


@pytest.mark.anyio
async def test_a_small_terminal_has_the_list_and_no_answers(path: Path) -> None:
    async with console(sitting(path, FrozenClock()), size=(70, 20)) as (app, pilot):
        rows = _rows(app)
        assert rows[0].startswith(" ● live")
        assert rows[4].startswith("▸")
        assert rows[-1] == " needs 80x24, has 70x20"
        await pilot.press("a")
        assert len(app.screen_stack) == 1
        assert app.notice.text[0].text == "approve: needs 80x24, has 70x20"


@pytest.mark.anyio
async def test_a_tiny_terminal_has_one_sentence_and_takes_no_key(path: Path) -> None:
    async with console(sitting(path, FrozenClock()), size=(50, 10)) as (app, pilot):
        assert [row for row in _rows(app) if row] == [" needs 80x24, has 50x10"]
        cursor = app.top.current_row  # type: ignore[union-attr]
        await pilot.press("j", "a", "question_mark")
        assert app.top.current_row is cursor  # type: ignore[union-attr]
        assert len(app.screen_stack) == 1


@pytest.mark.anyio
async def test_a_page_over_the_view_waits_while_the_terminal_is_small(path: Path) -> None:
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        await pilot.press("question_mark")
        await settled(pilot)
        whole = _rows(app)
        await pilot.resize_terminal(70, 20)
        await settled(pilot)
        rows = _rows(app)
        assert rows[0].startswith(" ● live")
        assert " needs 80x24, has 70x20" in rows
        assert not any("approve" in row for row in rows)
        await pilot.press("escape")
        assert len(app.screen_stack) == 2
        await pilot.resize_terminal(80, 24)
        await settled(pilot)
        assert _rows(app)[1:20] == whole[1:20]


# --- the view ------------------------------------------------------------------------------------


def _cursor(app: ConsoleApp) -> str | None:
    row = app.top.current_row  # type: ignore[union-attr]
    return None if row is None else row.id


@pytest.mark.anyio
async def test_the_detail_follows_the_cursor_and_opens_whole(path: Path) -> None:
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        await pilot.press("j", "j")
        await settled(pilot)
        assert any("amount      1002" in row for row in _rows(app))
        await pilot.press("enter")
        await settled(pilot)
        assert _rows(app)[2].startswith("── stripe.refund ──")
        await pilot.press("escape")
        await settled(pilot)
        assert _rows(app)[4].startswith(" ") and _rows(app)[6].startswith("▸")
        await pilot.press("escape", "escape")
        assert app.is_running
        assert "nothing to go back to" in app.notice.text[0].text


@pytest.mark.anyio
async def test_arrivals_move_neither_cursor_nor_focus_nor_a_filter_being_typed(path: Path) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        await pilot.press("j", "space", "slash", "x", "y")
        focused = app.focused
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            for number in range(100, 110):
                ask(store, number, at=START - timedelta(minutes=5))
        await settled(pilot)
        assert app.focused is focused
        assert app.top.bar.value == "xy"  # type: ignore[union-attr]
        await pilot.press("escape")
        assert [row.id[-1] for row in app.top.marked_rows] == ["1"]  # type: ignore[union-attr]
        assert _cursor(app) == f"apr_{2:032x}"
        assert app.waiting == 40
        assert app.notice.text[0].text == "new  "


@pytest.mark.anyio
async def test_an_item_that_was_answered_elsewhere_stays_with_the_word(path: Path) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        await pilot.press("j")
        answered = _cursor(app)
        assert answered is not None
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            store.deny_approval(answered, "cli:bob")
            assert store.get_approval(answered).status is ApprovalStatus.DENIED  # type: ignore[union-attr]
        await settled(pilot)
        assert _cursor(app) == answered
        assert any("denied" in row and row.startswith("▸") for row in _rows(app))
        await pilot.press("a")
        assert (len(app.screen_stack), app.notice.text[0].text) == (1, "approve: denied")
        await pilot.press("j")
        await settled(pilot)
        assert not any("denied" in row for row in _rows(app)[:12])


@pytest.mark.anyio
async def test_a_clock_that_ticks_counts_what_expired(path: Path) -> None:
    clock = FrozenClock()
    async with console(sitting(path, clock)) as (app, pilot):
        assert app.waiting == 30
        clock.advance(minutes=16)
        app.tick()
        await settled(pilot)
        assert app.waiting == 0
        assert any("EXPIRED" in row for row in _rows(app))


# --- leaving -------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize(("key", "code"), [("q", 0), ("ctrl+q", 0), ("ctrl+c", 130)])
async def test_the_quits_leave_with_their_codes(path: Path, key: str, code: int) -> None:
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        await pilot.press(key)
        await pilot.pause()
    assert app.return_code == code
    assert not app.data.is_alive()


@pytest.mark.anyio
async def test_a_draft_is_asked_about_once_and_the_same_key_again_leaves(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        monkeypatch.setattr(app.top, "has_draft", lambda: "a note")
        await pilot.press("ctrl+c")
        assert app.is_running
        assert "a note would be lost" in app.notice.text[0].text
        await pilot.press("ctrl+c")
        await pilot.pause()
    assert app.return_code == 130


# --- the pointer ---------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_click_puts_the_cursor_and_answers_nothing(path: Path) -> None:
    async with console(sitting(path, FrozenClock())) as (app, pilot):
        await pilot.click("#list", offset=(20, 6))
        await settled(pilot)
        assert _cursor(app) == f"apr_{4:032x}"
        for offset in [(3, 0), (10, 0), (20, 0), (30, 0)]:
            await pilot.click("FooterLine", offset=offset)
        assert len(app.screen_stack) == 1


@pytest.mark.anyio
async def test_the_click_that_brought_the_window_to_the_front_does_nothing_else(
    path: Path,
) -> None:
    def press(kind: type[events.MouseDown] | type[events.MouseUp]) -> None:
        app.post_message(
            kind(
                widget=None,
                x=20,
                y=8,
                delta_x=0,
                delta_y=0,
                button=1,
                shift=False,
                meta=False,
                ctrl=False,
            )
        )

    async with console(sitting(path, FrozenClock())) as (app, pilot):
        before = _cursor(app)
        app.post_message(events.AppFocus())
        press(events.MouseDown)
        press(events.MouseUp)
        await settled(pilot)
        assert _cursor(app) == before
        app._focused_at -= FOCUS_GRACE
        press(events.MouseDown)
        press(events.MouseUp)
        await settled(pilot)
        assert _cursor(app) == f"apr_{4:032x}"


@pytest.mark.anyio
async def test_copying_says_sent_and_never_copied(path: Path) -> None:
    async with console(sitting(path, FrozenClock(), environ={"TMUX": "/tmp/x"})) as (app, pilot):
        await pilot.press("y")
        said = app.notice.text[0].text
    assert "was sent to the terminal" in said
    assert said.endswith("in tmux it needs set-clipboard on")


def _copied(sequence: str) -> bytes:
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\x07")
    return base64.b64decode(sequence[7:-1], validate=True)


def test_what_is_copied_is_capped_and_the_notice_says_how_much_was_sent() -> None:
    whole = copy_sequence("apr_1", "apr_1", {})
    assert (_copied(whole.sequence), whole.sentence) == (
        b"apr_1",
        "apr_1 was sent to the terminal",
    )
    long = copy_sequence("é" * 100_000, "the page", {})
    assert len(long.sequence) <= MOST_BYTES + 8
    assert _copied(long.sequence).decode("utf-8") == "é" * (len(_copied(long.sequence)) // 2)
    assert long.sentence == "the first 56 kB of the page were sent to the terminal"


@pytest.mark.anyio
async def test_what_is_copied_of_data_is_made_visible_first(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with console(sitting(path, FrozenClock())) as (app, _):
        written: list[str] = []
        monkeypatch.setattr(app, "write_terminal", written.append)
        app.copy("one\x1b]52;c;AAAA\x07\u202etwo\nthree")
    assert _copied(written[0]).decode("utf-8") == "one␛]52;c;AAAA␇⟨U+202E⟩two\nthree"
