"""The data thread: one per sitting. It runs the feed and leaves what it finds for the event loop.

It is the only thing that decides that something changed. What it found waits in the `Inflow`, whose
size is bounded however long the loop is busy; the message says only that there is something.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from ctrlrun.operator import Feed, FeedBatch, FeedError, FeedEvent
from ctrlrun_tui.data.asking import Asking

EVENTS_KEPT = 2_000
"""Events that wait for the loop at most; of more, the oldest are only counted."""

NOTICES_KEPT = 5

WAIT = 10.0
"""Seconds that the feed sleeps at most; it knows better when the next look is due."""


@dataclass(frozen=True, slots=True)
class News:
    """What came since the loop looked last. `skipped` events did not fit and are in the store."""

    events: tuple[FeedEvent, ...] = ()
    skipped: int = 0
    changed: bool = False
    policy_changed: bool = False
    store_replaced: bool = False
    notices: tuple[str, ...] = ()
    unparseable: int = 0
    skew: timedelta | None = None
    error: FeedError | None = None


class Inflow:
    """Batches on their way from the data thread to the loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[FeedEvent] = deque(maxlen=EVENTS_KEPT)
        self._notices: deque[str] = deque(maxlen=NOTICES_KEPT)
        self._news = News()

    def put(self, batch: FeedBatch) -> bool:
        """Add a batch; whether it says anything that the loop has not heard."""
        with self._lock:
            before = self._news
            surplus = max(0, len(self._events) + len(batch.events) - EVENTS_KEPT)
            self._events.extend(batch.events)
            self._notices.extend(batch.notices)
            self._news = News(
                skipped=before.skipped + surplus,
                changed=before.changed or batch.changed or bool(batch.events),
                policy_changed=before.policy_changed or batch.policy_changed,
                store_replaced=before.store_replaced or batch.store_replaced,
                unparseable=batch.unparseable,
                skew=batch.skew or before.skew,
                error=batch.error,
            )
            return self._news != before or bool(batch.events or batch.notices)

    def take(self) -> News:
        """All that waits; what is a state (an error, a count) stays."""
        with self._lock:
            news = News(
                events=tuple(self._events),
                skipped=self._news.skipped,
                changed=self._news.changed,
                policy_changed=self._news.policy_changed,
                store_replaced=self._news.store_replaced,
                notices=tuple(self._notices),
                unparseable=self._news.unparseable,
                skew=self._news.skew,
                error=self._news.error,
            )
            self._events.clear()
            self._notices.clear()
            self._news = News(unparseable=news.unparseable, error=news.error)
            return news


class DataThread(threading.Thread):
    """Runs a feed until it is stopped. `tell` is called in this thread when something waits."""

    def __init__(self, make_feed: Callable[[], Feed], tell: Callable[[], object]) -> None:
        super().__init__(name="ctrlrun-feed", daemon=True)
        self.inflow = Inflow()
        self.asking = Asking()
        self.rounds = 0
        self.crash: BaseException | None = None
        self._make_feed = make_feed
        self._tell = tell
        self._feed: Feed | None = None
        self._stopped = threading.Event()
        self._ready = threading.Event()

    def run(self) -> None:
        """The feed lives and dies in this thread; a crash of it is kept for the loop to raise."""
        try:
            feed = self._feed = self._make_feed()
            self._ready.set()
            try:
                self._follow(feed)
            finally:
                feed.close()
        except Exception as error:
            self.crash = error
            if not self._stopped.is_set():
                self._tell()
        finally:
            self._ready.set()

    def _follow(self, feed: Feed) -> None:
        while not self._stopped.is_set():
            self.asking.begin()
            answered = False
            try:
                batch = feed.poll()
                answered = batch.error is None
            finally:
                self.asking.end(answered=answered)
            if self.inflow.put(batch):
                self._tell()
            self.rounds += 1
            if not batch.more and not feed.wait(WAIT):
                return

    def wake(self) -> None:
        """Look at once."""
        if self._feed is not None:
            self._feed.wake()

    def stop(self) -> None:
        """End the thread and wait for it, so that no connection outlives the sitting."""
        self._stopped.set()
        self._ready.wait(timeout=5)
        if self._feed is not None:
            self._feed.stop()
        if self.is_alive() and self is not threading.current_thread():
            self.join(timeout=2)  # a database may hang
