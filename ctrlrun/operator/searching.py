"""Reading a list through a filter: pages are read on until enough rows passed, or enough were read.

A filter that hardly anything passes must not read a million rows at one go: a search stops at its
budget and says where to go on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from ctrlrun.operator.pages import PAGE, ReadsPages
from ctrlrun.state import Damage, Page

T = TypeVar("T")

BUDGET = 5_000
"""Rows that one search reads at most, where nobody said otherwise."""


@dataclass(frozen=True, slots=True)
class Found(Generic[T]):
    """Rows that passed, oldest first, and where to read on.

    `before` and `after` are the cursors around everything that was read; `exhausted` says that the
    list ended in the direction that was read. `scanned` counts the rows that were looked at.
    """

    items: tuple[T, ...]
    before: str | None
    after: str | None
    scanned: int
    exhausted: bool
    damaged: tuple[Damage, ...] = ()


def search(
    read: ReadsPages[T],
    keep: Callable[[T], bool],
    *,
    before: str | None = None,
    after: str | None = None,
    at_least: int,
    budget: int = BUDGET,
    step: int = PAGE,
) -> Found[T]:
    """Read pages until `at_least` rows passed (a last page may bring more), or `budget` were read.

    `step` is how many rows are read at once.

    With `after` it reads forward, else backward from `before` or from the end of the list.
    """
    forward = after is not None
    cursor = after if forward else before
    passed: list[tuple[T, ...]] = []
    pages: list[Page[T]] = []  # what was read, without its rows
    scanned = found = 0
    exhausted = False
    while found < at_least and scanned < budget and not exhausted:
        page = read(after=cursor, limit=step) if forward else read(before=cursor, limit=step)
        size = len(page.items) + len(page.damaged)
        passed.append(tuple(row for row in page.items if keep(row)))
        found += len(passed[-1])
        scanned += size
        exhausted = size < step
        if page.before is not None:
            cursor = page.after if forward else page.before
            pages.append(replace(page, items=()))
    if not forward:
        passed.reverse()
        pages.reverse()
    return Found(
        items=tuple(row for kept in passed for row in kept),
        before=pages[0].before if pages else None,
        after=pages[-1].after if pages else None,
        scanned=scanned,
        exhausted=exhausted,
        damaged=tuple(damage for page in pages for damage in page.damaged),
    )
