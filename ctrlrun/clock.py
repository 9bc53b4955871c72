"""The seam through which time, ids and randomness come in; formats of times.

Everything that reads the clock takes a `Clock`; everything that needs an id calls `new_id`. A test,
and the reproducible demo, hold both still.
"""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

from ctrlrun.forks import Forked, watch_forks

Clock = Callable[[], datetime]

LONGEST = timedelta(days=365_000)
"""What may be waited for: its end is still a date."""

_SINCE_BOOT: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)

_tokens: ContextVar[Iterator[str] | None] = ContextVar("ctrlrun_id_tokens", default=None)


def utc_now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)


def since_boot() -> timedelta:
    """Time that nobody sets: since boot, sleep included where the system counts it."""
    passed = time.monotonic_ns() if _SINCE_BOOT is None else time.clock_gettime_ns(_SINCE_BOOT)
    return timedelta(microseconds=passed // 1_000)


class SteadyClock(Forked):
    """A clock that is never set back: what counts a lease that is held.

    It shows what `clock` shows, and where that was set back, what was shown and the time since boot
    that passed. Of `utc_now` it is known how much should have passed; of another clock that it was
    set back shows only while it is behind. Any threads may read it.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._is_system = clock is utc_now
        self._lock = threading.Lock()
        self._boot = since_boot()
        self._shown = clock()
        watch_forks(self)

    def after_fork_in_child(self) -> None:
        """A thread that is not here may have been reading."""
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        """The time."""
        with self._lock:
            # Read in here: a reading that another thread overtook would look like a step back.
            now = self._clock()
            before, self._boot = self._boot, since_boot()
            if self._is_system or now < self._shown:
                now = max(now, self._shown + (self._boot - before))
            self._shown = now
            return now


def new_id(prefix: str) -> str:
    """`prefix` and 32 random lowercase hex digits."""
    tokens = _tokens.get()
    return prefix + (secrets.token_hex(16) if tokens is None else next(tokens))


@contextmanager
def counted_ids(start: int = 1) -> Iterator[None]:
    """Inside, ids count up instead of being random: for tests and reproducible pictures."""
    token = _tokens.set(f"{number:032x}" for number in itertools.count(start))
    try:
        yield
    finally:
        _tokens.reset(token)


def in_utc(moment: datetime) -> datetime:
    """An aware time in UTC.

    Some hours at either end of the calendar have no date there: they are its first or last moment.
    """
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _LAST if moment.year > 1 else _FIRST


def iso_timestamp(moment: datetime) -> str:
    """`YYYY-MM-DDTHH:MM:SS.mmmZ`, UTC, truncated to milliseconds: the form in JSON documents."""
    return in_utc(moment).isoformat(timespec="milliseconds")[:-6] + "Z"


def column_timestamp(moment: datetime) -> str:
    """`YYYY-MM-DDTHH:MM:SS[.ffffff]+00:00`: the form in the columns of a store."""
    return in_utc(moment).isoformat()


def parse_timestamp(text: str) -> datetime:
    """An aware datetime from either form; `ValueError` when it has no offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no offset from UTC")
    return moment
