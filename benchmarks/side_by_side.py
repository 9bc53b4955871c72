"""Two programs timed against each other in one process, block by block; no program itself."""

from __future__ import annotations

import time
from collections.abc import Callable

BLOCK = 50


def timed(call: Callable[[], None], count: int) -> list[float]:
    """Seconds of each of `count` calls."""
    times: list[float] = []
    for _ in range(count):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return times


def paired(
    ours: Callable[[], None], bare: Callable[[], None], calls: int
) -> tuple[list[float], list[float]]:
    """Both, in alternating blocks, after a block each that is not counted."""
    timed(ours, BLOCK)
    timed(bare, BLOCK)
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(max(1, calls // BLOCK)):
        theirs += timed(bare, BLOCK)
        mine += timed(ours, BLOCK)
    return mine, theirs
