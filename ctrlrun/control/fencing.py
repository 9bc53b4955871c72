"""What an executor calls: fence, afence, remaining, keep_alive, idempotency_key, attempt_key.

Each is about the innermost protected call whose executor runs here, and InvalidArgument anywhere
else. The rules, and what stays open with them, are in docs/slow-executors.md.
"""

from __future__ import annotations

import threading
from datetime import timedelta

from ctrlrun.control.executing import Running, running_call
from ctrlrun.errors import InvalidArgument
from ctrlrun.provider_keys import attempt_key_for, idempotency_key_for

MARGIN = timedelta(seconds=5)
"""What `remaining` keeps back, for the reply's way through this program."""

_BEATS_A_LEASE = 3
_SHORTEST_BEAT = timedelta(milliseconds=1)


def fence() -> None:
    """Stop here unless this attempt still holds its effect: call it right before the first byte.

    Reads the record once and writes nothing. Raises LeaseLost when the lease ran out, somebody
    answered for the effect, or another attempt stands there; let it through, and the call ends as
    one that did nothing. Without an effect key, and in observe mode without the hold, it passes.
    """
    running_call("fence()").check()


def remaining(margin: timedelta = MARGIN) -> timedelta:
    """How long the lease still lives, less `margin`: the timeout to give a client.

    Never negative; zero means that there is no time to send anything. Reads nothing but the clock.
    Raises InvalidArgument for a margin that is no timedelta, or a negative one.
    """
    running = running_call("remaining()")
    if not isinstance(margin, timedelta) or margin < timedelta(0):
        raise InvalidArgument(f"margin must be a timedelta from 0, not {margin!r}")
    return max(running.left() - margin, timedelta(0))


async def afence() -> None:
    """`fence` for a coroutine: the record is read by a worker thread, and the loop goes on."""
    from ctrlrun.control import workers  # asyncio is for those who use it

    await workers.on_worker(running_call("afence()").check, workers.RECORDING)


def keep_alive(every: timedelta | None = None) -> KeepAlive:
    """Inside, a thread extends the lease to its full length, at once and then every so often.

    For `with` and, in a coroutine, `async with`. `every` is shorter than the lease; absent, a third
    of it. An extension that is refused is raised by the next `fence`, not here. Without a hold it
    does nothing. Raises InvalidArgument at entry for an interval that is not positive, or as long
    as the lease.
    """
    return KeepAlive(every)


class KeepAlive:
    """What `keep_alive` returns: one block."""

    def __init__(self, every: timedelta | None) -> None:
        self._every = every
        self._done = threading.Event()
        self._beats: threading.Thread | None = None

    def __enter__(self) -> None:
        running, interval = self._started()
        if running.start.reservation is not None:
            running.extend()
            self._beat(running, interval)

    def __exit__(self, *_: object) -> None:
        self._stop()

    async def __aenter__(self) -> None:
        from ctrlrun.control import workers

        running, interval = self._started()
        if running.start.reservation is not None:
            await workers.on_worker(running.extend, workers.RECORDING)
            self._beat(running, interval)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: object
    ) -> None:
        from ctrlrun.control import workers

        self._done.set()
        # When the loop has closed, nothing can be awaited: at most one more beat finds the end.
        if self._beats is not None and not isinstance(error, GeneratorExit):
            await workers.completed(workers.RECORDING.submit(self._stop))

    def _started(self) -> tuple[Running, timedelta]:
        running = running_call("keep_alive()")
        return running, _interval(self._every, running.call.lease)

    def _beat(self, running: Running, interval: timedelta) -> None:
        self._beats = threading.Thread(
            target=_beat,
            args=(running, interval, self._done),
            name="ctrlrun-keep-alive",
            daemon=True,
        )
        self._beats.start()

    def _stop(self) -> None:
        self._done.set()
        if self._beats is not None:
            self._beats.join()  # nothing is extended once the block is left


def idempotency_key() -> str:
    """A UUID that is the same for every attempt at this effect: a provider that dedupes acts once.

    Raises InvalidArgument for a call without an effect key.
    """
    asked = "idempotency_key()"
    running = running_call(asked)
    return idempotency_key_for(running.call.action.environment, _effect_key(running, asked))


def attempt_key() -> str:
    """A UUID that is new with each attempt and stays over suspension: what to ask a provider about.

    Raises InvalidArgument for a call without an effect key.
    """
    asked = "attempt_key()"
    running = running_call(asked)
    environment, key = running.call.action.environment, _effect_key(running, asked)
    return attempt_key_for(environment, key, running.start.attempt)


def _effect_key(running: Running, asked: str) -> str:
    key = running.call.effect_key
    if key is None:
        name = running.call.action.name
        raise InvalidArgument(f"{asked} needs an effect key, and this call of {name} has none")
    return key


def _interval(every: object, lease: timedelta) -> timedelta:
    if every is None:
        return max(lease / _BEATS_A_LEASE, _SHORTEST_BEAT)
    if not isinstance(every, timedelta) or not timedelta(0) < every < lease:
        raise InvalidArgument(
            f"every must be a positive timedelta, shorter than the lease of {lease}, not {every!r}"
        )
    return every


def _beat(running: Running, interval: timedelta, done: threading.Event) -> None:
    seconds = min(interval.total_seconds(), threading.TIMEOUT_MAX)
    # An interrupt can keep the block from being left; the executor ends all the same.
    while not done.wait(seconds) and not running.is_over:
        running.extend()
