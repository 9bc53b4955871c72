"""Colours: four themes, and how each role of a text looks in them.

Two hues: orange needs you, blue is yours; everything else is bright, quiet or faint. On the
terminal's own sixteen colours, and under NO_COLOR, roles differ by dim, bold and reverse as well.
Every pair but faint has a contrast of 4.5:1 at least, on the cursor's row too; a test measures it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.color import Color as RichColor
from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

from ctrlrun_tui.data.models import Role


@dataclass(frozen=True, slots=True)
class Colours:
    """The colours of one theme, as `#rrggbb`."""

    background: str
    foreground: str
    quiet: str
    faint: str
    cursor: str
    blue: str
    orange: str


DARK = Colours(
    background="#101418",
    foreground="#dce2e8",
    quiet="#93a0ac",
    faint="#4c5762",
    cursor="#1d3246",
    blue="#6db7ff",
    orange="#ffa657",
)
LIGHT = Colours(
    background="#fbfbf9",
    foreground="#1c2126",
    quiet="#545e68",
    faint="#b4bac0",
    cursor="#d3e4f6",
    blue="#0a4f9e",
    orange="#8f3d00",
)


def _theme(name: str, colours: Colours, *, dark: bool) -> Theme:
    return Theme(
        name=name,
        primary=colours.blue,
        secondary=colours.blue,
        success=colours.blue,
        warning=colours.orange,
        error=colours.orange,
        accent=colours.orange,
        foreground=colours.foreground,
        background=colours.background,
        surface=colours.background,
        panel=colours.background,
        boost=colours.background,
        dark=dark,
        variables={
            "quiet": colours.quiet,
            "faint": colours.faint,
            "cursor": colours.cursor,
            "text-primary": colours.blue,
            "text-warning": colours.orange,
            "input-cursor-background": colours.foreground,
            "input-cursor-foreground": colours.background,
            "input-cursor-text-style": "none",
            "input-selection-background": colours.cursor,
            "input-selection-foreground": colours.foreground,
        },
    )


def _ansi_theme(name: str, blue: str, orange: str, *, dark: bool) -> Theme:
    return Theme(
        name=name,
        ansi=True,
        primary=blue,
        secondary=blue,
        success=blue,
        warning=orange,
        error=orange,
        accent=orange,
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        boost="ansi_default",
        dark=dark,
        luminosity_spread=0.0,
        text_alpha=1.0,
        variables={
            **BUILTIN_THEMES[name].variables,
            "quiet": "ansi_default",
            "faint": "ansi_default",
            "cursor": "ansi_default",
            "text-primary": blue,
            "text-warning": orange,
            "input-cursor-background": "ansi_default",
            "input-cursor-foreground": "ansi_default",
            "input-cursor-text-style": "reverse",
            "input-selection-background": "ansi_default",
            "input-selection-foreground": "ansi_default",
        },
    )


THEMES: Mapping[str, Theme] = {
    theme.name: theme
    for theme in (
        _theme("ctrlrun-dark", DARK, dark=True),
        _theme("ctrlrun-light", LIGHT, dark=False),
        _ansi_theme("ansi-dark", "ansi_bright_blue", "ansi_yellow", dark=True),
        _ansi_theme("ansi-light", "ansi_blue", "ansi_red", dark=False),
    )
}
MONOCHROME = "ansi-dark"
"""The theme under NO_COLOR: it has no colours of its own to take away."""

_COLOURS = {"ctrlrun-dark": DARK, "ctrlrun-light": LIGHT}
_ANSI = {"ansi-dark": ("bright_blue", "yellow"), "ansi-light": ("blue", "red")}

OTHER_THEMES = {"quiet": DARK.quiet, "faint": DARK.faint, "cursor": DARK.cursor}
"""Our own variables, for the stock themes that do not know them."""


@dataclass(frozen=True, slots=True)
class Palette:
    """How each role looks: plain, and on the row of the cursor."""

    plain: Mapping[Role, Style]
    on_cursor: Mapping[Role, Style]

    def style(self, role: Role, *, cursor: bool = False) -> Style:
        """The style of a role."""
        return (self.on_cursor if cursor else self.plain)[role]


def palette_for(theme: str, *, no_color: bool) -> Palette:
    """The styles of a theme's roles; under NO_COLOR those that need no colour."""
    if no_color:
        return _ansi_palette("default", "default")
    if theme in _ANSI:
        return _ansi_palette(*_ANSI[theme])
    return _true_palette(_COLOURS.get(theme, DARK))


def _true_palette(colours: Colours) -> Palette:
    def on(ground: str) -> dict[Role, Style]:
        return {
            Role.VALUE: _pair(colours.foreground, ground),
            Role.QUIET: _pair(colours.quiet, ground),
            Role.FAINT: _pair(colours.faint, ground),
            Role.YOURS: _pair(colours.blue, ground),
            Role.NEEDS: _pair(colours.orange, ground),
            Role.ALARM: _pair(colours.background, colours.orange),
            Role.REHEARSAL: _pair(colours.background, colours.blue),
        }

    return Palette(on(colours.background), on(colours.cursor))


def _pair(colour: str, ground: str) -> Style:
    return Style.from_color(RichColor.parse(colour), RichColor.parse(ground))


def _ansi_palette(blue: str, orange: str) -> Palette:
    default = RichColor.parse("default")
    ground = Style.from_color(default, default)
    blue_style = Style.from_color(RichColor.parse(blue), default)
    orange_style = Style.from_color(RichColor.parse(orange), default)
    plain = {
        Role.VALUE: ground,
        Role.QUIET: ground + Style(dim=True),
        Role.FAINT: ground + Style(dim=True),
        Role.YOURS: blue_style,
        Role.NEEDS: orange_style + Style(bold=True),
        Role.ALARM: orange_style + Style(bold=True, reverse=True),
        Role.REHEARSAL: blue_style + Style(reverse=True),
    }
    bar = ground + Style(reverse=True)
    # A dim or coloured text on a reversed row is unreadable on many terminals; weight is left.
    on_cursor = dict.fromkeys(Role, bar)
    for role in (Role.NEEDS, Role.ALARM):
        on_cursor[role] = bar + Style(bold=True)
    return Palette(plain, on_cursor)
