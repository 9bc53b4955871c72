"""Looking at an answer without presenting it, bounded waits, and the same question once."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.control import Control, aanswer_of, answer_of, context, protect, with_approval
from ctrlrun.errors import (
    ApprovalMismatch,
    ApprovalRequired,
    ApprovalTimeout,
    InvalidArgument,
)
from ctrlrun.operator import verbs
from ctrlrun.state import InMemoryStateStore
from tests.lib.kernel.world import Clock, World


@pytest.fixture
def there(clock: Clock) -> World:
    return World(InMemoryStateStore(clock=clock), clock)


def control_of(there: World, **options: Any) -> Control:
    return Control(there.policy, there.store, clock=there.clock, **options)


def pay_of(control: Control, **options: Any) -> Callable[[int], int]:
    @protect("pay", control=control, **options)
    def pay(amount: int) -> int:
        return amount

    return pay


def ask(pay: Callable[[int], int], amount: int = 600) -> str:
    with context("bot"), pytest.raises(ApprovalRequired) as required:
        pay(amount)
    return required.value.request_id


def look(request_id: str, way: str, **options: Any) -> str:
    if way == "sync":
        return answer_of(request_id, **options)
    return asyncio.run(aanswer_of(request_id, **options))


@pytest.mark.parametrize("way", ["sync", "async"])
def test_each_answer_is_read_and_nothing_is_written(there: World, way: str) -> None:
    control = control_of(there)
    pay = pay_of(control)
    ids = [ask(pay) for _ in range(5)]
    for granted in ids[1:3]:
        verbs.approve(there.store, granted, "ana", clock=there.clock)
    verbs.deny(there.store, ids[3], "ana", clock=there.clock)
    with context("bot"), with_approval(ids[2]):
        pay(600)
    before = (len(there.store.events()), len(there.store.receipts()))
    read = [look(each, way, control=control) for each in ids]
    assert read == ["pending", "granted", "consumed", "denied", "pending"]
    there.clock.pass_(hours=1)
    read = [look(each, way, control=control) for each in ids]
    assert read == ["expired", "expired", "consumed", "denied", "expired"]
    assert (len(there.store.events()), len(there.store.receipts())) == before
    assert there.store.get_approval(ids[0]).status == "pending"


@pytest.mark.parametrize("way", ["sync", "async"])
def test_unknown_request_and_bad_timeout_are_refused(there: World, way: str) -> None:
    control = control_of(there)
    with pytest.raises(ApprovalMismatch) as refused:
        look("apr_none", way, control=control)
    assert refused.value.reason == "unknown"
    for timeout in (timedelta(0), 5):
        with pytest.raises(InvalidArgument, match="positive timedelta"):
            look("apr_none", way, control=control, timeout=timeout)


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(("answered_after", "expected"), [(None, "pending"), (2, "granted")])
def test_waiting_ends_with_the_answer_or_the_timeout(
    there: World,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    answered_after: int | None,
    expected: str,
) -> None:
    control = control_of(there)
    request_id = ask(pay_of(control))
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        there.clock.pass_(seconds=seconds)
        if len(slept) == answered_after:
            verbs.approve(there.store, request_id, "ana", clock=there.clock)

    async def asleep(seconds: float) -> None:
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(asyncio, "sleep", asleep)
    timeout = timedelta(seconds=1.2)
    assert look(request_id, way, control=control, timeout=timeout) == expected
    assert slept == ([0.5, 0.5, 0.2] if answered_after is None else [0.5, 0.5])


@pytest.mark.parametrize("during", ["a look", "a pause"])
def test_a_cancelled_aanswer_of_leaves_the_request_pending_and_no_evidence(
    there: World, monkeypatch: pytest.MonkeyPatch, during: str
) -> None:
    control = control_of(there)
    request_id = ask(pay_of(control))
    before = (there.store.events(), there.store.receipts())
    may_read = threading.Event()
    read = there.store.get_approval

    async def main(patch: pytest.MonkeyPatch) -> None:
        reached = asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow_read(approval_id: str) -> Any:
            loop.call_soon_threadsafe(reached.set)
            may_read.wait()
            return read(approval_id)

        async def pause(seconds: float) -> None:
            reached.set()
            await loop.create_future()

        if during == "a look":
            patch.setattr(there.store, "get_approval", slow_read)
        patch.setattr(asyncio, "sleep", pause)
        timeout = timedelta(hours=1)
        waiting = asyncio.create_task(aanswer_of(request_id, timeout=timeout, control=control))
        try:
            await reached.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        finally:
            may_read.set()

    with monkeypatch.context() as patch:
        asyncio.run(main(patch))
    assert (there.store.events(), there.store.receipts()) == before
    assert read(request_id).status == "pending"
    assert answer_of(request_id, control=control) == "pending"


def test_wait_ends_after_its_timedelta(there: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: there.clock.pass_(seconds=seconds))
    pay = pay_of(control_of(there), wait=timedelta(seconds=1))
    with context("bot"), pytest.raises(ApprovalTimeout, match="within 1 s"):
        pay(600)


@pytest.mark.parametrize(
    ("on_control", "on_protect", "variable", "once"),
    [
        (None, None, "", False),
        (None, None, "0", False),
        (None, None, "1", True),
        (False, None, "1", False),
        (True, None, "", True),
        (None, True, "", True),
        (True, False, "1", False),
    ],
)
def test_same_question_is_asked_once_where_it_is_set(
    there: World,
    monkeypatch: pytest.MonkeyPatch,
    on_control: bool | None,
    on_protect: bool | None,
    variable: str,
    once: bool,
) -> None:
    monkeypatch.setenv("CTRLRUN_REUSE_REQUESTS", variable)
    control = control_of(there, reuse_requests=on_control)
    pay = pay_of(control, reuse_requests=on_protect)
    assert (ask(pay) == ask(pay)) is once


@pytest.mark.parametrize(
    ("given", "variable", "once"),
    [(None, "", False), (None, "1", True), (True, "", True), (False, "1", False)],
)
def test_a_control_from_a_file_asks_once_where_it_is_set(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: bool | None,
    variable: str,
    once: bool,
) -> None:
    monkeypatch.delenv("CTRLRUN_STATE", raising=False)
    monkeypatch.setenv("CTRLRUN_REUSE_REQUESTS", variable)
    (tmp_path / "p.yaml").write_text(
        "schema: ctrlrun.policy/v1\nactions: {pay: {decision: approve}}"
    )
    control = Control.from_file(tmp_path / "p.yaml", reuse_requests=given)
    pay = pay_of(control)
    assert (ask(pay) == ask(pay)) is once
    control.store.close()  # type: ignore[attr-defined]


def test_other_value_of_the_variable_is_refused(
    there: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTRLRUN_REUSE_REQUESTS", "yes")
    with pytest.raises(InvalidArgument, match="CTRLRUN_REUSE_REQUESTS must be 0 or 1, not 'yes'"):
        control_of(there)
