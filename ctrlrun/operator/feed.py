"""The live feed: what is new in a store and its events file, each event once, in bounded batches.

A `Feed` belongs to the one thread that polls it, and owns that thread's reader. Watchers wake it
early where there are any; the poll decides whether something changed, at most eight times a second.
Trouble is a state that a batch reports, never an exception.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from ctrlrun.clock import Clock, utc_now
from ctrlrun.operator.desk import ReadingDesk
from ctrlrun.operator.feed_file import EventsFile, FileRead
from ctrlrun.operator.feed_store import StoreRead, StoreTail
from ctrlrun.operator.feed_watch import FileWatcher, WatchedFile
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import PagedReader
from ctrlrun.state.location import open_listener

BATCH = 500
"""The most events, and the most receipts, that one batch brings from the store."""

STALE_AFTER = 3
"""Reads that must be missed in a row before what is on the screen counts as stale."""

PERIOD_S = 0.125
"""Between two polls of the store, where nothing tells of its changes."""

# What stirs is looked at at once, and at most eight times a second: one poll each `_SPACE_S`, and
# one that was saved up meanwhile.
_SPACE_S = 1 / 6
_QUIET_PERIOD_S = 0.25  # with a watcher at work, while nothing stirs
_RETRIES_S = (0.25, 0.5, 1.0, 2.0, 3.0)
_GRACE_S = 2.0
_MOST_STRAYS = 10_000
_SKEW = timedelta(seconds=2)
_JUST_NOW_S = 1.0


class Origin(StrEnum):
    """Who told of an event; what the file alone has, the store may have lost."""

    STORE = "store"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One new event."""

    event: Event
    origin: Origin = Origin.STORE


@dataclass(frozen=True, slots=True)
class FeedError:
    """The store cannot be read: since when (the last good read), how often, why, and what next.

    `message` may hold text of others: it passes `inert` before a screen.
    """

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
    """What one poll found, events in the order of their ids.

    `changed` says that something in the store did, with or without events; `more` that the batch is
    full and the next is ready; `store_replaced` that everything read before is of a store that is
    no longer there. `unparseable` counts the lines of the events file that were no events, and
    `damaged` the rows of the store that could not be read, both since the start. `skew` is how far
    the newest event's clock is off ours (positive: ahead), None within two seconds. `error` is set
    while the store is out of reach; events of the file go on coming meanwhile.
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
    skew: timedelta | None = None
    error: FeedError | None = None


class Feed:
    """The live feed of one store.

    `source` is a desk, or what opens a reader (in the feed's thread); `events_path` is the events
    file to follow, None for none; `policy_path`, and `authority_path` where the grants are a
    document of their own, are watched for changes. With `receipts` batches hold new receipts too. It starts behind what the store holds at the first poll, or behind
    `after_event_id`.
    """

    def __init__(
        self,
        source: ReadingDesk | Callable[[], PagedReader],
        events_path: Path | None = None,
        *,
        policy_path: Path | None = None,
        authority_path: Path | None = None,
        after_event_id: int | None = None,
        receipts: bool = False,
        batch: int = BATCH,
        watch: bool = True,
        clock: Clock = utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        store_path = source.location.path if isinstance(source, ReadingDesk) else None
        self._tail = StoreTail(
            source.reader if isinstance(source, ReadingDesk) else source,
            path=store_path,
            after_event_id=after_event_id,
            receipts=receipts,
            batch=batch,
        )
        self._file = None if events_path is None else EventsFile(events_path)
        documents = [path for path in (policy_path, authority_path) if path is not None]
        self._documents = [WatchedFile(path) for path in documents]
        self._clock = clock
        self._monotonic = monotonic
        self._strays = _Strays()
        self._unparseable = self._damaged = 0
        self._error: FeedError | None = None
        self._next_try = 0.0
        self._good_at = clock()
        self._good_monotonic: float | None = None
        self._polled = -1.0
        self._crowded = 0.0  # when a poll would be one of an even row, `_SPACE_S` apart
        self._more = False
        self._wakened = threading.Condition()
        self._woken = self._stirred = self._stopped = False
        files = [path for path in (store_path, events_path, *documents) if path is not None]
        self._watcher = FileWatcher(files if watch else (), self._stir)
        self._watcher.start()
        self._listener = None
        if watch and isinstance(source, ReadingDesk):
            self._listener = open_listener(source.location, self._stir)
        if self._listener is not None:
            self._listener.start()

    # --- from any thread -------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    def wake(self) -> None:
        """Make a poll due at once: after an answer of one's own."""
        with self._wakened:
            self._woken = True
            self._wakened.notify_all()

    def stop(self) -> None:
        """Make `wait` return at once, and for good."""
        with self._wakened:
            self._stopped = True
            self._wakened.notify_all()

    def _stir(self) -> None:
        with self._wakened:
            self._stirred = True
            self._wakened.notify_all()

    # --- in the feed's thread --------------------------------------------------------------------

    def wait(self, timeout: float) -> bool:
        """Sleep until the next poll is due, at most `timeout` seconds; False when stopped."""
        deadline = self._monotonic() + timeout
        with self._wakened:
            while not self._stopped:
                pause = min(self._due(), deadline) - self._monotonic()
                if pause <= 0:
                    return True
                self._wakened.wait(pause)
        return False

    def poll(self) -> FeedBatch:
        """Look once and return what is new; never raises for a store or file that fails."""
        with self._wakened:
            woken, self._woken, self._stirred = self._woken, False, False
        self._polled = self._monotonic()
        self._crowded = min(max(self._crowded, self._polled), self._polled + _SPACE_S) + _SPACE_S
        # The file first: whoever writes it has committed before, so the store, read afterwards,
        # knows all that the file says.
        told = FileRead() if self._file is None else self._file.read()
        self._unparseable += told.unparseable
        for event in told.events:
            self._strays.hear(event, self._tail.last_id, self._polled)
        changed = [document.has_changed() for document in self._documents]
        was_good = self._good_monotonic
        found = self._read_store(woken=woken)
        self._more = told.more or (found is not None and found.more)
        return FeedBatch(
            events=self._events(found),
            receipts=() if found is None else found.receipts,
            changed=found is not None and found.changed,
            more=self._more,
            policy_changed=any(changed),
            store_replaced=found is not None and found.replaced,
            notices=told.notices,
            unparseable=self._unparseable,
            damaged=self._damaged,
            skew=self._skew(found, was_good),
            error=self._error,
        )

    def close(self) -> None:
        """Close the reader and the file, and end what wakes it."""
        self.stop()
        if self._listener is not None:
            self._listener.close()
        self._watcher.close()
        self._tail.close()
        if self._file is not None:
            self._file.close()

    def _due(self) -> float:
        """When the next poll is, in monotonic seconds."""
        if self._woken or self._more or self._polled < 0:
            return 0.0
        if self._error is not None and not self._stirred:
            return self._next_try
        # Files tell nothing of a store that is elsewhere.
        watches = self._watcher if self._listener is None else self._listener
        if self._stirred:
            return self._crowded - _SPACE_S
        return self._polled + (_QUIET_PERIOD_S if watches.is_alive else PERIOD_S)

    def _read_store(self, *, woken: bool) -> StoreRead | None:
        """What the store has, None while it is out of reach."""
        if self._error is not None and self._polled < self._next_try and not woken:
            return None
        try:
            found = self._tail.read()
        except Exception as error:  # whatever a store or its driver raises is the same to a screen
            self._missed(error)
            return None
        self._error = None
        self._good_at = self._clock()
        self._good_monotonic = self._polled
        self._damaged += found.damaged
        if found.replaced:
            self._strays = _Strays()
        return found

    def _missed(self, error: Exception) -> None:
        misses = 1 if self._error is None else self._error.misses + 1
        pause = _RETRIES_S[min(misses, len(_RETRIES_S)) - 1]
        self._next_try = self._monotonic() + pause
        next_try = self._clock() + timedelta(seconds=pause)
        message = str(error) or type(error).__name__
        self._error = FeedError(self._good_at, misses, next_try, message)

    def _events(self, found: StoreRead | None) -> tuple[FeedEvent, ...]:
        stored = () if found is None else self._strays.unheard(found.events)
        strays = self._strays.ripe(
            self._tail.last_id,
            self._polled,
            waits=found is not None,
            blocked=found is not None and found.more,
        )
        events = [*map(FeedEvent, stored), *(FeedEvent(event, Origin.FILE) for event in strays)]
        events.sort(key=lambda item: item.event.event_id or 0)
        return tuple(events)

    def _skew(self, found: StoreRead | None, was_good: float | None) -> timedelta | None:
        """How far off the newest event's time is, if it just came: old news has old times."""
        if found is None or not found.events or found.more or was_good is None:
            return None
        if self._polled - was_good > _JUST_NOW_S:
            return None
        skew = found.events[-1].ts - self._clock()
        return skew if abs(skew) > _SKEW else None


class _Strays:
    """Events of the file that the store has not shown: most are on their way, some it lost."""

    def __init__(self) -> None:
        self._heard: dict[int, tuple[Event, float]] = {}
        self._told: dict[int, Event] = {}

    def hear(self, event: Event, last_id: int, now: float) -> None:
        """Keep an event of the file that is not on the screen yet."""
        event_id = event.event_id or 0
        if event_id > last_id and event_id not in self._told and len(self._heard) < _MOST_STRAYS:
            self._heard.setdefault(event_id, (event, now))

    def ripe(self, last_id: int, now: float, *, waits: bool, blocked: bool) -> list[Event]:
        """What is to be told without the store: at once while it is out of reach, else after a time
        in which it would have come (`waits`), and never while it has more to give (`blocked`)."""
        self._heard = {number: item for number, item in self._heard.items() if number > last_id}
        if blocked:
            return []
        ripe = [
            event for event, heard in self._heard.values() if not waits or now - heard >= _GRACE_S
        ]
        for event in ripe:
            number = event.event_id or 0
            del self._heard[number]
            self._told[number] = event
        while len(self._told) > _MOST_STRAYS:
            del self._told[next(iter(self._told))]
        return ripe

    def unheard(self, events: tuple[Event, ...]) -> list[Event]:
        """The store's events without those that the file has told already.

        The store is the truth: another event under the same id is told all the same.
        """
        new = []
        for event in events:
            told = self._told.pop(event.event_id or 0, None)
            if told is None or told.to_dict() != event.to_dict():
                new.append(event)
        return new


def follow(feed: Feed) -> Iterator[FeedBatch]:
    """Poll and wait until the feed is stopped, yielding each batch that says something.

    Closes the feed at the end, however it ends. While the store is out of reach a batch comes for
    each try that missed.
    """
    try:
        last = FeedBatch()
        while not feed.stopped:
            batch = feed.poll()
            if batch != last:
                yield batch
            last = FeedBatch(
                unparseable=batch.unparseable, damaged=batch.damaged, error=batch.error
            )
            feed.wait(_RETRIES_S[-1])
    finally:
        feed.close()
