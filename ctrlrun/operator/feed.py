"""The live feed: what is new in a store and its events file, each event once, in bounded batches.

A `Feed` belongs to the one thread that polls it, and owns that thread's reader. Watchers wake it
early where there are any; the poll decides whether something changed, at most eight times a second.
Trouble is a state that a batch reports, never an exception.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from ctrlrun.clock import Clock, utc_now
from ctrlrun.operator.desk import ReadingDesk
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import PagedReader

BATCH = 1_000
"""The most events, and the most receipts, that one batch holds."""

STALE_AFTER = 3
"""Reads that must be missed in a row before what is on the screen counts as stale."""


class Origin(StrEnum):
    """Who told of an event; one that the file alone has may be lost to the store."""

    STORE = "store"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One new event."""

    event: Event
    origin: Origin = Origin.STORE


@dataclass(frozen=True, slots=True)
class FeedError:
    """The store cannot be read: since when (the last good read), how often, why, and what next."""

    since: datetime
    misses: int
    next_try: datetime
    message: str

    @property
    def is_stale(self) -> bool:
        """Whether so many reads were missed that answers are off."""
        return self.misses >= STALE_AFTER


@dataclass(frozen=True, slots=True)
class FeedBatch:
    """What one poll found. `changed` says that something in the store did, with or without events.

    `more` says that the batch is full and the next is ready; `store_replaced` that everything on
    screen is from a store that is no longer there; `unparseable` counts lines of the events file
    since the start; `notices` are sentences for a person. `error` is set while the store is out of
    reach. `newest_ts` is the time that the newest event of the batch carries.
    """

    events: tuple[FeedEvent, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    changed: bool = False
    more: bool = False
    policy_changed: bool = False
    store_replaced: bool = False
    notices: tuple[str, ...] = ()
    unparseable: int = 0
    damaged: int = 0
    error: FeedError | None = None
    live: bool = True


class Feed:
    """The live feed of one store.

    `open_reader` opens a reader in the feed's thread (a `ReadingDesk` may be given instead);
    `events_path` is the events file, None for none; `policy_path` is watched for changes;
    `receipts` asks for new receipts too. It starts behind what the store holds at the first poll,
    or behind `after_event_id`.
    """

    def __init__(
        self,
        source: ReadingDesk | Callable[[], PagedReader],
        events_path: Path | None = None,
        *,
        policy_path: Path | None = None,
        store_path: Path | None = None,
        after_event_id: int | None = None,
        receipts: bool = False,
        batch: int = BATCH,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
        watch: bool = True,
    ) -> None:
        raise NotImplementedError

    def poll(self) -> FeedBatch:
        """Look once and return what is new; never raises for a store or file that fails."""
        raise NotImplementedError

    def wait(self, timeout: float) -> bool:
        """Sleep until the next poll is due, at most `timeout` seconds; False when stopped."""
        raise NotImplementedError

    def wake(self) -> None:
        """From any thread: poll at once, after an answer of one's own."""
        raise NotImplementedError

    def stop(self) -> None:
        """From any thread: make `wait` return False at once, and for good."""
        raise NotImplementedError

    def close(self) -> None:
        """In the feed's thread: close the reader, the file and the watcher."""
        raise NotImplementedError


def follow(feed: Feed) -> Iterator[FeedBatch]:
    """Poll and wait until the feed is stopped, yielding each batch that says something; closes it."""
    raise NotImplementedError
