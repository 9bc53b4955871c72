"""Following a list: what comes after what was listed, as it comes, until somebody interrupts."""

from __future__ import annotations

from contextlib import closing
from typing import TypeVar

from ctrlrun.cli.listing import Listing, print_rows, print_stored
from ctrlrun.cli.output import Output, note
from ctrlrun.operator.desk import ReadingDesk
from ctrlrun.operator.feed import Feed, FeedBatch, follow
from ctrlrun.text import inert

T = TypeVar("T")


def follow_list(listing: Listing[T], desk: ReadingDesk, last: int | None, *, as_json: bool) -> None:
    """Print the last rows, if any are asked for, then each new one; never returns.

    Raises what opening the store raises. Trouble afterwards is said on standard error, and it goes
    on when that is over.
    """
    assert listing.fresh is not None
    out = Output()
    newest: T | None = None
    with closing(desk.reader()) as reader:
        feed = Feed(desk, desk.events_path, receipts=True)
        feed.poll()  # from here on nothing is missed; what came before is listed
        if last is not None:
            listed = print_stored(listing, reader, last, as_json=as_json)
            newest = listed.newest
            if listed.damage is not None:
                note(inert(str(listed.damage)))
    out.flush()
    trouble = _Trouble()
    for batch in follow(feed):
        if batch.store_replaced:
            newest = None  # its numbers say nothing about those of another store
        rows = [row for row in listing.fresh(batch) if _is_new(listing, row, newest)]
        print_rows(listing, out, rows, as_json=as_json)
        out.flush()
        trouble.say(batch)


def _is_new(listing: Listing[T], row: T, newest: T | None) -> bool:
    """Whether a row passes the filter and was not listed already."""
    if listing.keep is not None and not listing.keep(row):
        return False
    if newest is None or listing.position is None:
        return True
    listed, position = listing.position(newest), listing.position(row)
    return listed is None or position is None or position > listed


class _Trouble:
    """What a follower is told beside the rows, each thing once."""

    def __init__(self) -> None:
        self._before = FeedBatch()

    def say(self, batch: FeedBatch) -> None:
        """Say on standard error what is new."""
        before, self._before = self._before, batch
        for sentence in batch.notices:
            note(inert(sentence))
        if batch.unparseable > before.unparseable:
            note(f"lines of the events file that cannot be read: {batch.unparseable}")
        if batch.damaged > before.damaged:
            note(f"rows of the store that cannot be read: {batch.damaged}")
        if batch.store_replaced:
            note("the store was replaced: what follows is from another one")
        if batch.error is not None and before.error is None:
            note("the store cannot be read, trying again: " + inert(batch.error.message))
        if batch.error is None and before.error is not None:
            note("the store can be read again")
