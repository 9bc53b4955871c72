"""The signs of the screen, in Unicode and in ASCII, and which set this terminal gets.

It knows no state of the library beyond the names of the signs; words stand beside them elsewhere.
The table is in docs/console.md.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass

from ctrlrun.text import cut_middle, inert


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of signs, each one cell wide, and the ways of showing text that go with it.

    `ascii_only` is for terminals whose encoding has nothing else: there even the letters of data
    become tokens, because an unencodable letter would arrive as six.
    """

    waiting: str = "◇"
    granted: str = "○"
    spent: str = "●"
    denied: str = "✗"
    expired: str = "▽"
    reserved: str = "▹"
    executing: str = "▷"
    committed: str = "✓"
    failed: str = "⊘"
    ambiguous: str = "▲"
    lapsed: str = "△"
    blocked: str = "■"
    observed: str = "◎"
    skipped: str = "·"
    differs: str = "≠"
    cursor: str = "▸"
    mark: str = "*"
    live: str = "●"
    unreachable: str = "✗"
    middle: str = "…"
    rule: str = "─"
    side: str = "│"
    corners: str = "╭╮╰╯"
    up: str = "↑"
    down: str = "↓"
    bars: str = "▁▂▃▄▅▆▇█"  # of a chart, lowest first; the one sign that is more than one cell
    ascii: bool = False
    ascii_only: bool = False

    def said(self, text: str) -> str:
        """Text that somebody else wrote, made safe for this terminal (docs/hostile-text.md)."""
        shown = inert(text, ascii_tokens=self.ascii)
        if self.ascii_only and not shown.isascii():
            shown = "".join(c if c.isascii() else f"<U+{ord(c):04X}>" for c in shown)
        return shown

    def cut(self, text: str, width: int) -> str:
        """A safe text in at most `width` cells, cut in the middle."""
        return cut_middle(text, width, ellipsis=self.middle)


UNICODE = Glyphs()
ASCII = Glyphs(
    waiting="?",
    granted="o",
    spent="*",
    denied="x",
    expired="-",
    reserved=":",
    executing=">",
    committed="+",
    failed="0",
    ambiguous="!",
    lapsed="^",
    blocked="#",
    observed="@",
    skipped=".",
    differs="=",
    cursor=">",
    live="*",
    unreachable="x",
    middle="~",
    rule="-",
    side="|",
    corners="++++",
    up="^",
    down="v",
    bars=".:-=#",
    ascii=True,
)
ENCODING_ASCII = Glyphs(
    **{name: getattr(ASCII, name) for name in Glyphs.__slots__ if name != "ascii_only"},
    ascii_only=True,
)


def choose_glyphs(environ: Mapping[str, str], encoding: str | None, *, ascii: bool) -> Glyphs:
    """The set for a terminal: ASCII when asked for, on the Linux console, or without UTF-8."""
    if not _is_utf8(encoding):
        return ENCODING_ASCII
    return ASCII if ascii or environ.get("TERM") == "linux" else UNICODE


def _is_utf8(encoding: str | None) -> bool:
    try:
        return codecs.lookup(encoding or "ascii").name == "utf-8"
    except LookupError:
        return False
