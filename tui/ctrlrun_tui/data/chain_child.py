"""The program that walks over the chain of receipts beside the console.

    python -m ctrlrun_tui.data.chain_child STORE-URL

A process of its own, because hashing a million receipts would hold the console's interpreter. It
opens the store for reading alone. For each line on standard input it walks over what is new and
prints its progress as lines of JSON; when standard input closes, the console is gone, and it ends.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import closing

from ctrlrun.clock import utc_now
from ctrlrun.operator import ReadingDesk
from ctrlrun.receipt.chain import ChainBreak, ChainWalk
from ctrlrun.state import PagedReader
from ctrlrun.state.location import locate

BATCH = 1_000
SAID_EVERY_S = 0.25


def main(url: str) -> None:
    """Walk on for each line that comes."""
    desk = ReadingDesk(locate(url, {}), clock=utc_now)
    walk = ChainWalk()
    for _ in sys.stdin:
        try:
            with closing(desk.reader()) as reader:
                _walk_on(walk, reader)
        except Exception as error:  # a store that cannot be read now may be readable next time
            _say(walk, None, done=True, why=" ".join(str(error).split()))


def _walk_on(walk: ChainWalk, reader: PagedReader) -> None:
    said_at = time.monotonic()
    head = reader.chain_head()
    while walk.advance(reader, limit=BATCH):
        if time.monotonic() - said_at >= SAID_EVERY_S:
            said_at = time.monotonic()
            _say(walk, head[0] if head else None, done=False)
    report = walk.report(reader)
    first = report.breaks[0] if report.breaks else None
    _say(walk, report.head_seq, done=True, broken=first, unchained=report.unchained)


def _say(
    walk: ChainWalk,
    head: int | None,
    *,
    done: bool,
    broken: ChainBreak | None = None,
    unchained: int = 0,
    why: str = "",
) -> None:
    found = broken or (walk.breaks[0] if walk.breaks else None)
    progress = {
        "seq": walk.last_seq,
        "head": head,
        "done": done,
        "broken": None if found is None else found.to_dict(),
        "unchained": unchained,
        "why": why,
    }
    sys.stdout.write(json.dumps(progress) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
