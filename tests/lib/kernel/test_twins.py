"""An awaited call leaves what a synchronous one leaves, to the byte: every path, ids counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import ctrlrun
from ctrlrun.action import Principal
from ctrlrun.clock import counted_ids
from ctrlrun.control import Control, context, protect
from ctrlrun.errors import NotExecuted, Suspended
from ctrlrun.state import InMemoryStateStore
from tests.cases import walk
from tests.lib.kernel.grants import authority, grant
from tests.lib.kernel.test_paths import raising
from tests.lib.kernel.world import START, AwaitedControl, Clock, World

Path = Callable[[World], object]
REFUSED = NotExecuted("card declined")
LOST = TimeoutError("no reply")


def approval_denied(w: World) -> object:
    request = w.control.approvals.request(w.action(1000), timedelta(minutes=15))
    w.store.deny_approval(request.request_id, "cli:local")
    return w.caught(1000, presented=request.request_id)


def approval_expired(w: World) -> object:
    presented = w.granted()
    w.clock.pass_(minutes=16)
    return w.caught(1000, presented=presented)


def again(w: World) -> object:
    return w.run() and w.caught()


def lapsed(w: World) -> object:
    w.store.reserve_effect("pay:p1", "act_dead", timedelta(seconds=1))
    w.store.begin_execution("pay:p1", "act_dead")
    w.clock.pass_(seconds=2)
    return w.caught()


def asked(answer: str, **options: Any) -> Path:
    def path(w: World) -> object:
        w.caught(executor=raising(LOST), reconcile=lambda key: answer, **options)
        return w.caught(reconcile=lambda key: answer)

    return path


def suspended(rest: Callable[[], object]) -> Path:
    def path(w: World) -> object:
        w.caught(1000, presented=w.granted(), executor=raising(Suspended("token")))
        w.clock.pass_(minutes=1)
        return w.control.resume("token", rest)

    return path


def unkeyed(w: World) -> object:
    protected = protect("pay", effect="{nothing}", control=w.control)(lambda amount: None)
    with context(agent="a"):
        return protected(5)


def lease_lost(w: World) -> object:
    def executor() -> None:
        w.clock.pass_(minutes=6)
        ctrlrun.fence()

    return w.caught(executor=executor)


def resolved_meanwhile(w: World) -> object:
    def executor() -> None:
        w.clock.pass_(minutes=6)
        w.store.mark_ambiguous("pay:p1", w.calls[0], "lease expired")
        w.store.resolve_effect("pay:p1", ctrlrun.EffectState.FAILED, "cli:local")

    return w.caught(executor=executor)


PATHS: list[Path] = [
    lambda w: w.run(),
    lambda w: w.run(key=None),
    lambda w: w.run(1000, presented=w.granted()),
    lambda w: w.run(100, presented=w.granted(100)),
    lambda w: w.run(100, presented="apr_nope"),
    lambda w: w.caught(1000),
    lambda w: w.caught(9000),
    lambda w: w.caught(9000, presented=w.granted(9000)),
    lambda w: w.caught(action=w.action(principal=Principal("a", expires_at=START - timedelta(1)))),
    lambda w: w.caught(1000, presented=w.granted(2000)),
    lambda w: w.caught(executor=raising(REFUSED)),
    lambda w: w.caught(executor=raising(LOST)) and w.caught(),
    lambda w: w.caught(executor=raising(KeyboardInterrupt())),
    lambda w: w.caught(executor=lambda: w.caught(7, key="pay:inner", executor=raising(REFUSED))),
    lambda w: w.caught(executor=lambda: w.run(7, key="pay:inner", executor=raising(REFUSED))),
    lambda w: w.caught(executor=lambda: (line for line in "")),
    lambda w: w.caught(key=None, executor=raising(Suspended("token"))),
    lambda w: w.caught(key=""),
    lambda w: w.caught(lease=timedelta(0)),
    approval_denied,
    approval_expired,
    again,
    lapsed,
    asked("committed"),
    asked("not_executed"),
    asked("unknown"),
    asked("maybe"),
    asked("not_executed", reconcile_eagerly=True),
    suspended(lambda: {"id": "re_1"}),
    suspended(raising(REFUSED)),
    suspended(raising(Suspended("another"))),
    unkeyed,
    lease_lost,
    resolved_meanwhile,
]


def left_by(path: Path, kind: type[Control], mode: str, **options: Any) -> dict[str, Any]:
    """What one path leaves: how it ended, everything written, and what the sinks heard."""
    clock = Clock()
    with counted_ids():
        w = World(InMemoryStateStore(clock=clock), clock, mode, kind, **options)
        try:
            end = path(w)
        except ctrlrun.CTRLRunError as error:
            end = error
    events, receipts = w.store.events(), w.store.receipts()
    approvals = {event.approval_id for event in events} - {None}
    return {
        "end": f"{type(end).__name__}: {end}" if isinstance(end, BaseException) else end,
        "events": [event.to_dict() for event in events],
        "receipts": [receipt.to_dict() for receipt in receipts],
        "approvals": [w.store.get_approval(each) for each in sorted(approvals)],
        "effects": [w.store.get_effect(key) for key in ("pay:p1", "pay:inner")],
        "heard": [entry.to_dict() for entry in w.sink.heard],
        "ran": w.calls,
    }


@walk("path", PATHS)
@walk("mode", ["enforce", "observe"])
@walk("grants", [{}, {"authority": authority()}, {"authority": authority(grant("root", "b"))}])
def test_an_awaited_call_leaves_what_a_synchronous_one_leaves(
    path: Path, mode: str, grants: dict[str, Any]
) -> None:
    synchronous = left_by(path, Control, mode, **grants)
    assert left_by(path, AwaitedControl, mode, **grants) == synchronous


def test_a_wait_leaves_the_same() -> None:
    def wait(kind: type[Control]) -> list[dict[str, Any]]:
        clock = Clock()
        with counted_ids(), context(agent="a"):
            store = InMemoryStateStore(clock=clock)
            script = ctrlrun.ScriptedApprovalProvider(store, ["pending", "grant"], clock=clock)
            w = World(store, clock, kind=kind, approvals=script)

            def pay(payment_id: str, amount: int) -> str:
                return payment_id

            async def apay(payment_id: str, amount: int) -> str:
                return payment_id

            if kind is Control:
                protect("pay", effect="pay:{payment_id}", wait=True, control=w.control)(pay)(
                    "p", 900
                )
            else:
                waiting = protect("pay", effect="pay:{payment_id}", wait=True, control=w.control)
                asyncio.run(waiting(apay)("p", 900))
        return [entry.to_dict() for entry in w.sink.heard]

    assert wait(AwaitedControl) == wait(Control)
