"""The protected call of a coroutine function: the kernel's steps around an executor that is awaited.

Steps 1 to 4 are one piece of work on a worker thread, and so is step 6. The executor is awaited on
the caller's loop, in the caller's context. A caller that is cancelled hears of it after the evidence
is written (docs/protect.md).
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from datetime import timedelta

from ctrlrun.action import Action
from ctrlrun.approval import Approval, ApprovalProvider
from ctrlrun.control import resumption
from ctrlrun.control.call import Call, Hook, Outcome, Settings, Start
from ctrlrun.control.executing import Running, executing
from ctrlrun.control.kernel import (
    approve,
    check_executor,
    decide,
    normalize,
    outcome_of_return,
    record,
    reserve,
)
from ctrlrun.control.nesting import marked
from ctrlrun.control.workers import (
    BEGINNING,
    RECORDING,
    at_once,
    completed,
    ended,
    in_own_thread,
    on_worker,
    running_loop,
)
from ctrlrun.effect import EffectState
from ctrlrun.logs import get_logger
from ctrlrun.providers.local import LocalApprovalProvider, answer_in
from ctrlrun.receipt import Receipt

log = get_logger("ctrlrun.control")

AsyncExecutor = Callable[[], Awaitable[object]]

CANCELLED = "cancelled before execution"


async def protected_call(
    settings: Settings,
    action: Action,
    executor: AsyncExecutor,
    effect_key: str | None,
    lease: timedelta | None,
    hook: Hook | None,
) -> Receipt:
    """`kernel.protected_call` for an executor that is awaited."""
    check_executor(settings, executor)

    def begin() -> tuple[Call, Start]:
        call = normalize(settings, action, effect_key, lease, hook)
        with marked(call.action.name):
            evaluation = decide(settings, call)
            approval_id = approve(settings, call, evaluation)
            return call, reserve(settings, call, evaluation, approval_id)

    return await _run(settings, begin, executor)


async def resume(settings: Settings, continuation: str | bytes, executor: AsyncExecutor) -> Receipt:
    """`resumption.resume` for an executor that is awaited."""
    check_executor(settings, executor)
    return await _run(settings, lambda: resumption.take(settings, continuation), executor)


async def _run(
    settings: Settings, begin: Callable[[], tuple[Call, Start]], executor: AsyncExecutor
) -> Receipt:
    call, start = await _begun(settings, begin)  # on disk when this returns
    with marked(call.action.name):
        outcome = await _execute(settings, call, start, executor)
        return await _recorded(settings, call, start, outcome)


async def _begun(settings: Settings, begin: Callable[[], tuple[Call, Start]]) -> tuple[Call, Start]:
    """Steps 1 to 4. A caller that is cancelled meanwhile never gets to its executor."""
    running_loop()
    work = BEGINNING.submit(begin)
    give_up = functools.partial(_give_up, settings, work)
    try:
        cancelled = await ended(work, droppable=True)
    except BaseException:
        at_once(give_up)
        raise
    if cancelled is None:
        return work.result()
    await ended(RECORDING.submit(give_up))
    raise cancelled


def _give_up(settings: Settings, work: Future[tuple[Call, Start]]) -> None:
    """Step 6 of a call that was cancelled before its executor was called, if it had begun at all.

    What a resumed call sent before its suspension is not unsent: nobody knows about that one.
    """
    if work.cancelled() or work.exception() is not None:
        return
    call, start = work.result()
    state = EffectState.AMBIGUOUS if start.resumed else EffectState.FAILED
    try:
        record(settings, call, start, Outcome(state, error=CANCELLED))
    except Exception as failure:  # the cancellation is what the caller hears of
        log.warning("%s was %s; its outcome: %s", call.action.name, CANCELLED, failure)


async def _execute(
    settings: Settings, call: Call, start: Start, executor: AsyncExecutor
) -> Outcome:
    """Step 5. A cancellation is an exception like any other here: nobody knows what it cut off."""
    running = Running(settings, call, start)
    try:
        inside = executing(running)
        try:
            with inside:
                returned: object = executor()
                if inspect.isawaitable(returned):
                    returned = await returned
        finally:
            inside.leave()
    except GeneratorExit as closed:
        # The loop has closed: nothing can be awaited any more, nor handed back to who awaits this.
        at_once(functools.partial(record, settings, call, start, running.outcome_of(closed)))
        raise
    except BaseException as error:
        return running.outcome_of(error)
    return outcome_of_return(settings, call, returned)


async def _recorded(settings: Settings, call: Call, start: Start, outcome: Outcome) -> Receipt:
    """Step 6, to its end: the caller is cancelled after the outcome is written."""
    write = functools.partial(record, settings, call, start, outcome)
    asks = outcome.state is EffectState.AMBIGUOUS and call.hook is not None and call.hook.eager
    work = in_own_thread(write, daemon=False) if asks else RECORDING.submit(write)
    return await completed(work)


async def answer(
    provider: ApprovalProvider, request_id: str, patience: timedelta | None
) -> Approval | None:
    """`provider.wait`, holding no worker meanwhile; cancelled at any time, it leaves no trace.

    The local provider's record is looked at by a worker, each time anew. Any other provider blocks,
    so it waits in a thread of its own, which a cancellation leaves to the provider's own end.
    """
    if type(provider) is not LocalApprovalProvider:
        blocking = functools.partial(provider.wait, request_id, patience)
        return await asyncio.wrap_future(in_own_thread(blocking, daemon=True))
    look = provider.looking(request_id, patience)
    while True:
        record = await on_worker(look)
        if record is not None:
            return answer_in(record)
        await asyncio.sleep(provider.poll_seconds)
