"""Colours: readable on every theme, and no meaning that hangs on a hue alone."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from rich.style import Style
from textual.color import Color

from ctrlrun_tui.arguments import THEME_NAMES
from ctrlrun_tui.data.models import Role
from ctrlrun_tui.glyphs import ASCII, UNICODE, Glyphs, choose_glyphs
from ctrlrun_tui.theme import THEMES, palette_for
from tests.tui.helpers import FrozenClock, ask, console, new_store, sitting

TRUE = ("ctrlrun-dark", "ctrlrun-light")
LEAST = 4.5


def _contrast(style: Style) -> float:
    assert style.color is not None
    assert style.bgcolor is not None
    one = Color.from_rich_color(style.color)
    other = Color.from_rich_color(style.bgcolor)

    def luminance(colour: Color) -> float:
        def channel(value: int) -> float:
            share = value / 255
            return share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4

        return 0.2126 * channel(colour.r) + 0.7152 * channel(colour.g) + 0.0722 * channel(colour.b)

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("theme", "role", "cursor"),
    list(product(TRUE, [role for role in Role if role is not Role.FAINT], (False, True))),
)
def test_every_pair_but_faint_is_readable(theme: str, role: Role, cursor: bool) -> None:
    assert _contrast(palette_for(theme, no_color=False).style(role, cursor=cursor)) >= LEAST


@pytest.mark.parametrize("theme", TRUE)
def test_faint_can_still_be_seen(theme: str) -> None:
    assert 1.5 <= _contrast(palette_for(theme, no_color=False).style(Role.FAINT)) < LEAST


@pytest.mark.parametrize("theme", THEME_NAMES)
def test_every_theme_knows_our_variables_and_is_registered(theme: str) -> None:
    assert {"quiet", "faint", "cursor"} <= set(THEMES[theme].variables)


@pytest.mark.parametrize("no_color", [False, True])
@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light"])
def test_on_sixteen_colours_weight_and_reversal_tell_roles_apart(
    theme: str, no_color: bool
) -> None:
    palette = palette_for(theme, no_color=no_color)
    weights = {
        role: (style.bold, style.dim, style.reverse)
        for role in Role
        for style in [palette.style(role)]
    }
    assert len({weights[Role.VALUE], weights[Role.QUIET], weights[Role.NEEDS]}) == 3
    assert weights[Role.ALARM] != weights[Role.REHEARSAL]
    assert palette.style(Role.VALUE, cursor=True).reverse
    for role in Role:
        style = palette.style(role)
        assert style.bgcolor is None or style.bgcolor.is_default
        if no_color:
            assert style.color is None or style.color.is_default


@pytest.mark.anyio
@pytest.mark.parametrize("theme", THEME_NAMES)
async def test_every_theme_draws_the_console(theme: str, tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
    async with console(sitting(tmp_path / "state.db", clock, theme=theme)) as (app, _):
        assert app.theme == theme
        assert "refund" in _text(app)


@pytest.mark.anyio
async def test_under_no_color_nothing_but_the_terminals_own_two_colours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
    async with console(sitting(tmp_path / "state.db", clock, no_color=True)) as (app, pilot):
        await pilot.press("question_mark")
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                style = segment.style
                for colour in (style.color, style.bgcolor) if style else ():
                    assert colour is None or colour.is_default, segment


@pytest.mark.anyio
async def test_with_ascii_signs_no_other_character_is_drawn(tmp_path: Path) -> None:
    clock = FrozenClock()
    with new_store(tmp_path, clock) as store:
        ask(store, 1)
        ask(store, 2, agent="a\u0301gent\u202e\x1b[31m")
    async with console(sitting(tmp_path / "state.db", clock, glyphs=ASCII)) as (app, pilot):
        assert _text(app).isascii()
        await pilot.press("enter")
        assert _text(app).isascii()


def _text(app: object) -> str:
    strips = app.screen._compositor.render_strips()  # type: ignore[attr-defined]
    return "\n".join("".join(segment.text for segment in strip) for strip in strips)


@pytest.mark.parametrize(
    ("environ", "encoding", "asked", "expected"),
    [
        ({}, "utf-8", False, "unicode"),
        ({}, "UTF8", False, "unicode"),
        ({}, "utf-8", True, "ascii"),
        ({"TERM": "linux"}, "utf-8", False, "ascii"),
        ({}, "latin-1", False, "ascii only"),
        ({}, "ascii", True, "ascii only"),
        ({}, None, False, "ascii only"),
        ({}, "no-such-encoding", False, "ascii only"),
    ],
)
def test_signs_are_those_that_the_terminal_can_draw(
    environ: dict[str, str], encoding: str | None, asked: bool, expected: str
) -> None:
    glyphs = choose_glyphs(environ, encoding, ascii=asked)
    kind = "ascii only" if glyphs.ascii_only else "ascii" if glyphs.ascii else "unicode"
    assert kind == expected


def _signs(glyphs: Glyphs) -> dict[str, str]:
    signs = {name: getattr(glyphs, name) for name in Glyphs.__slots__}
    return {name: sign for name, sign in signs.items() if isinstance(sign, str)}


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_every_sign_is_one_cell_wide_and_has_no_emoji_form(glyphs: Glyphs) -> None:
    from rich.cells import cell_len

    for name, sign in _signs(glyphs).items():
        for character in sign:
            assert cell_len(character) == 1, name
            assert ord(character) < 0x2700 or character in "✓✗", name
            assert not glyphs.ascii or character.isascii()


def test_where_only_ascii_can_be_written_letters_of_data_become_tokens() -> None:
    said = choose_glyphs({}, "ascii", ascii=False).said
    assert said("café") == "caf<U+00E9>"
    assert ASCII.said("café") == "café"
