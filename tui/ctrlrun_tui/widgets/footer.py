"""The footer: the keys that matter here and now, and how many more `?` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from ctrlrun_tui.data.models import Line, Role, Span
from ctrlrun_tui.services import services
from ctrlrun_tui.widgets.strips import OneLine, width_of

_GAP = 2


@dataclass(frozen=True, slots=True)
class Hint:
    """A key and the word for what it does."""

    key: str
    word: str


class HasHints(Protocol):
    """A screen that says which keys matter on it now: the most telling first."""

    def hints(self) -> tuple[Sequence[Hint], int | None]:
        """The keys for the footer, and how many actions the screen has in all, help left out.

        None for the number says that the key for help means something else now.
        """
        ...


class FooterLine(OneLine):
    """The last line of every screen."""

    has_clock = True

    def line(self, width: int) -> Line:
        hints, total = cast("HasHints", self.screen).hints()
        return footer_line(hints, total, width, services(self).keys.shown("help"))


def footer_line(hints: Sequence[Hint], total: int | None, width: int, help_key: str) -> Line:
    """As many hints as fit, then `? N more` at the right edge, where that key helps."""
    widths = [len(hint.key) + 1 + len(hint.word) for hint in hints]
    count = len(hints)
    while (
        count and sum(widths[:count]) + _GAP * count + _help_cells(help_key, total, count) > width
    ):
        count -= 1
    left: Line = ()
    for hint in hints[:count]:
        gap = (Span(" " * _GAP),) if left else ()
        left = (*left, *gap, Span(hint.key, Role.YOURS), Span(f" {hint.word}", Role.QUIET))
    if total is None:
        return left
    more = total - count
    right: Line = (
        Span(help_key, Role.YOURS),
        Span(f" {more} more" if more else " keys", Role.QUIET),
    )
    return (*left, Span(" " * max(0, width - width_of(left) - width_of(right))), *right)


def _help_cells(help_key: str, total: int | None, count: int) -> int:
    if total is None:
        return 0
    more = total - count
    return len(f"{help_key} {more} more" if more else f"{help_key} keys")
