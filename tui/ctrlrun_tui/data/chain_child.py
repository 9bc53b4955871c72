"""The program that walks over the chain of receipts beside the console.

    CTRLRUN_STORE_URL=URL python -m ctrlrun_tui.data.chain_child

A process of its own, because hashing a million receipts would hold the console's interpreter. It
opens the store for reading alone. For each line on standard input it walks over what is new and
prints its progress as lines of JSON, the last of a walk with `done`. When standard input closes,
the console is gone, and it ends: at once when idle, at its next word when it is walking.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from contextlib import closing

from ctrlrun.clock import utc_now
from ctrlrun.operator import ReadingDesk
from ctrlrun.receipt.chain import ChainBreak, ChainReport, ChainWalk
from ctrlrun.state import PagedReader
from ctrlrun.state.location import STORE_URL_VARIABLE, locate

BATCH = 1_000
SAID_EVERY_S = 0.25

NICER = 10
"""Keys and agents come first: this has time."""


def main(url: str) -> None:
    """Walk on for each line that comes."""
    with contextlib.suppress(OSError):
        os.nice(NICER)
    desk = ReadingDesk(locate(url, {}), clock=utc_now)
    walk = ChainWalk()
    with contextlib.suppress(BrokenPipeError):  # nobody listens any more
        for _ in sys.stdin:
            try:
                with closing(desk.reader()) as reader:
                    _walk_on(walk, reader)
            except BrokenPipeError:
                raise
            except Exception as error:  # what cannot be read now may be readable next time
                _say(walk.last_seq, None, done=True, why=" ".join(str(error).split()))


def _walk_on(walk: ChainWalk, reader: PagedReader) -> None:
    head = reader.chain_head()
    seq = None if head is None else head[0]
    said_at = time.monotonic()
    while walk.advance(reader, limit=BATCH):
        if time.monotonic() - said_at >= SAID_EVERY_S:
            said_at = time.monotonic()
            _say(walk.last_seq, seq, done=False, breaks=walk.breaks)
    report = walk.report(reader)
    _say(
        walk.last_seq, report.head_seq, done=True, breaks=_breaks(report), outside=report.unchained
    )


def _breaks(report: ChainReport) -> tuple[ChainBreak, ...]:
    """What is wrong with the chain itself; receipts outside it are counted apart."""
    return tuple(found for found in report.breaks if found.name != "unchained")


def _say(
    seq: int,
    head: int | None,
    *,
    done: bool,
    breaks: tuple[ChainBreak, ...] = (),
    outside: int = 0,
    why: str = "",
) -> None:
    progress = {
        "seq": seq,
        "head": head,
        "done": done,
        "broken": breaks[0].name if breaks else None,
        "broken_at": breaks[0].seq if breaks else None,
        "breaks": len(breaks),
        "outside": outside,
        "why": why,
    }
    sys.stdout.write(json.dumps(progress) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(os.environ[STORE_URL_VARIABLE])
