"""Sizes: which layout a terminal gets, and what it lacks for more."""

from __future__ import annotations

from enum import StrEnum

from textual.geometry import Size

LIST_SIZE = Size(60, 15)
"""Below it nothing is drawn but a sentence."""

FULL_SIZE = Size(80, 24)
"""Below it there is the pinned line and the list, and nothing can be answered."""

WIDE = 120
"""Columns from which list and detail stand side by side."""

TALL = 30
"""Rows from which the views are named in a row of tabs."""


class Layout(StrEnum):
    """How much of the console fits."""

    TINY = "tiny"  # a sentence
    SMALL = "small"  # pinned line and list
    NARROW = "narrow"  # the detail beneath the list
    WIDE = "wide"  # the detail beside the list


HORIZONTAL_BREAKPOINTS = [(0, "-w-tiny"), (60, "-w-small"), (80, "-w-narrow"), (WIDE, "-w-wide")]
VERTICAL_BREAKPOINTS = [(0, "-h-tiny"), (15, "-h-small"), (24, "-h-full"), (TALL, "-h-tall")]


def layout_for(size: Size) -> Layout:
    """The layout of a terminal of that size."""
    if not _fits(size, LIST_SIZE):
        return Layout.TINY
    if not _fits(size, FULL_SIZE):
        return Layout.SMALL
    return Layout.WIDE if size.width >= WIDE else Layout.NARROW


def size_refusal(size: Size) -> str | None:
    """`needs 80x24, has 70x20` when nothing can be answered at that size, else None."""
    if _fits(size, FULL_SIZE):
        return None
    return f"needs {FULL_SIZE.width}x{FULL_SIZE.height}, has {size.width}x{size.height}"


def _fits(size: Size, needed: Size) -> bool:
    return size.width >= needed.width and size.height >= needed.height
