"""Threads for the blocking work of event loops: a store, a hook or a provider never blocks a loop.

Work runs in a copy of the caller's context. Beginnings and outcomes have threads of their own, so
that whatever a beginning waits for, an outcome is written. Only what asyncio needs is here; the
kernel's steps know nothing of it (docs/protect.md, for coroutine functions).
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from contextvars import Context, copy_context
from typing import TypeVar

from ctrlrun.errors import InvalidArgument
from ctrlrun.process import asking_thread, working_for

T = TypeVar("T")


class Workers:
    """At most `limit` threads, each made when no other is free, and made anew in a forked child."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Have `work` run, in a copy of this context."""
        if working_for.get() is not None:  # a hook that awaits a call: its worker must not wait
            return in_own_thread(work, daemon=False)
        if self._pool is None or self._pid != os.getpid():  # threads do not survive a fork
            self._pool = ThreadPoolExecutor(self._limit, thread_name_prefix=self._name)
            self._pid = os.getpid()
        return self._pool.submit(_context().run, work)


CLOSING_PATIENCE_S = 10.0
"""Longer than a call waits for the lock of SQLite."""


def _context() -> Context:
    """The caller's context, which says for whom the thread works."""
    context = copy_context()
    context.run(working_for.set, asking_thread())
    return context


# SQLite lets one thread write at a time, and twice as many halve what fifty calls get done; a store
# across a network takes them all at once.
BEGINNING = Workers("ctrlrun-begin", 8)
RECORDING = Workers("ctrlrun-record", 4)


def in_own_thread(work: Callable[[], T], *, daemon: bool) -> Future[T]:
    """Have `work` run in a thread of its own: it waits for a person, or for a remote.

    A daemon does not keep the program from ending.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    future.set_running_or_notify_cancel()
    threading.Thread(target=_context().run, args=(run,), name="ctrlrun-wait", daemon=daemon).start()
    return future


def running_loop() -> asyncio.AbstractEventLoop:
    """The asyncio loop that runs here; InvalidArgument where none does."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise InvalidArgument(
            "a protected coroutine is awaited on an asyncio loop, and none runs here; call it in "
            "asyncio.run(...), or protect a synchronous function"
        ) from None


async def on_worker(work: Callable[[], T], workers: Workers = BEGINNING) -> T:
    """What `work` returns or raises. A cancelled caller does not wait for it: it decides nothing."""
    running_loop()
    return await asyncio.wrap_future(workers.submit(work))


async def completed(work: Future[T]) -> T:
    """What `work` returned or raised; the caller is cancelled after it is over, and not before."""
    cancelled = await ended(work)
    if cancelled is not None:
        raise cancelled
    return work.result()


async def ended(work: Future[T], *, droppable: bool = False) -> asyncio.CancelledError | None:
    """Wait until `work` is over, however often the caller is cancelled: its last cancellation.

    What is droppable is dropped then, unless it has begun.
    """
    loop = running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def tell(_: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop has closed, and nobody waits there
            loop.call_soon_threadsafe(over.set_result, None)

    work.add_done_callback(tell)
    cancelled = None
    try:
        while not over.done():
            try:
                await asyncio.wait([over])
            except asyncio.CancelledError as error:
                cancelled = error
                if droppable:
                    work.cancel()
    except BaseException:  # nobody awaits any more, as when the loop has closed
        if not (droppable and work.cancel()):
            wait([work], CLOSING_PATIENCE_S)
        raise
    return cancelled


def at_once(work: Callable[[], object]) -> None:
    """Have `work` done before this returns, where nothing can be awaited: a coroutine is closed.

    A worker does it: whoever closes the coroutine may be a thread that collects garbage in the
    middle of a transaction, whose end the worker then waits for, and this does not.
    """
    try:
        future = RECORDING.submit(work)
    except RuntimeError:  # the interpreter ends, and takes no work any more
        work()
    else:
        wait([future], CLOSING_PATIENCE_S)
