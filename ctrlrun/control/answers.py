"""Looking at the answer to a request without presenting it."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from typing import Literal

from ctrlrun.control.control import Control
from ctrlrun.control.protection import process_control
from ctrlrun.errors import InvalidArgument
from ctrlrun.providers.local import DEFAULT_POLL_INTERVAL, known_record

Answer = Literal["pending", "granted", "denied", "expired", "consumed"]


def answer_of(
    request_id: str, *, timeout: timedelta | None = None, control: Control | None = None
) -> Answer:
    """The status of a request: `pending`, `granted`, `denied`, `expired` or `consumed`.

    Without `timeout` it looks once. With one, it waits that long for another status than
    `pending`, and returns `pending` when there is none. Writes nothing and presents nothing.
    Without `control`, the process's own is asked. Raises ApprovalMismatch(reason="unknown") for an
    id that was never asked, and InvalidArgument for a timeout that is not a positive timedelta
    (docs/approvals.md).
    """
    _check_timeout(timeout)
    control = control or process_control()
    started = control.clock()
    while True:
        status = _look(control, request_id)
        pause = _pause(status, started_ago=control.clock() - started, timeout=timeout)
        if pause is None:
            return status
        time.sleep(pause)


async def aanswer_of(
    request_id: str,
    *,
    timeout: timedelta | None = None,  # noqa: ASYNC109 - the same convention as `answer_of`
    control: Control | None = None,
) -> Answer:
    """`answer_of` for asyncio: the store is read on a worker thread, and waits can be cancelled."""
    import asyncio  # only for those who use it

    from ctrlrun.control.workers import on_worker

    _check_timeout(timeout)
    asked: Control = control if control else await on_worker(process_control)
    started = asked.clock()
    while True:
        status = await on_worker(partial(_look, asked, request_id))
        pause = _pause(status, started_ago=asked.clock() - started, timeout=timeout)
        if pause is None:
            return status
        await asyncio.sleep(pause)


def _look(control: Control, request_id: str) -> Answer:
    if not isinstance(request_id, str) or not request_id:
        raise InvalidArgument(f"a request's id is a non-empty str, not {request_id!r}")
    record = known_record(control.store, request_id)
    return record.status_at(control.clock()).value


def _pause(status: Answer, *, started_ago: timedelta, timeout: timedelta | None) -> float | None:
    """The seconds until the next look, or None when this one was the last."""
    if timeout is None or status != "pending" or started_ago >= timeout:
        return None
    return min(DEFAULT_POLL_INTERVAL, timeout - started_ago).total_seconds()


def _check_timeout(timeout: object) -> None:
    if timeout is not None and not (isinstance(timeout, timedelta) and timeout > timedelta(0)):
        raise InvalidArgument(f"timeout must be a positive timedelta, or None, not {timeout!r}")
