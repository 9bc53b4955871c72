"""A small world for kernel tests: one policy, one store of each kind, a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control, with_approval
from ctrlrun.policy import Policy
from ctrlrun.receipt import Event, EventType, Receipt
from ctrlrun.state import InMemoryStateStore, StateStore
from tests.lib.sqlite_helpers import new_store

START = datetime(2026, 9, 3, 10, 12, 1, tzinfo=UTC)

POLICY = """
schema: ctrlrun.policy/v3
mode: {mode}
actions:
  pay:
    rules:
      - when: {{amount_lte: 500}}
        decision: allow
      - when: {{amount_lte: 5000}}
        decision: approve
      - decision: deny
"""

CODES = {
    EventType.ACTION_PROPOSED: "PROP",
    EventType.AUTHORITY_RESOLVED: "AUTH+",
    EventType.AUTHORITY_DENIED: "AUTH-",
    EventType.POLICY_EVALUATED: "EVAL",
    EventType.APPROVAL_REQUESTED: "REQ",
    EventType.APPROVAL_CONSUMED: "CONS",
    EventType.APPROVAL_EXPIRED: "EXP",
    EventType.APPROVAL_INVALIDATED: "INV",
    EventType.APPROVAL_DENIED: "ADEN",
    EventType.ACTION_DENIED: "DENY",
    EventType.EFFECT_RESERVED: "RES",
    EventType.EFFECT_RESERVATION_REFUSED: "REF",
    EventType.EXECUTION_STARTED: "START",
    EventType.EXECUTION_COMMITTED: "COM",
    EventType.EXECUTION_FAILED: "FAIL",
    EventType.EXECUTION_AMBIGUOUS: "AMB",
    EventType.EXECUTION_SUSPENDED: "SUS",
    EventType.EXECUTION_RESUMED: "RSM",
    EventType.RECONCILIATION_STARTED: "RST",
    EventType.RECONCILIATION_RESOLVED: "RRS",
    EventType.EFFECT_RESOLVED: "ERES",
    EventType.DELEGATION_CREATED: "DCRE",
    EventType.DELEGATION_REVOKED: "DREV",
    EventType.DELEGATION_REJECTED: "DREJ",
}


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **duration: float) -> None:
        self.now += timedelta(**duration)


class SingleCalls:
    """A third party's store: the calls of StateStore over another store, and nothing more."""

    def __init__(self, store: StateStore) -> None:
        self.inner = store

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(StateStore, name):
            raise AttributeError(name)
        return getattr(self.inner, name)


class Wrapped:
    """A user's wrapper around one of our stores: everything passes through."""

    def __init__(self, store: StateStore) -> None:
        self.inner = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def _postgres(clock: Clock) -> Any:
    from ctrlrun.postgres import PostgresStateStore
    from tests.pg.server import borrow, server_url

    return PostgresStateStore(server_url(), clock=clock, schema=borrow())


StoreFactory = Callable[[Clock, Path], Any]
AWAITED = "awaited calls"
STORES: dict[str, StoreFactory] = {
    "memory": lambda clock, folder: InMemoryStateStore(clock=clock),
    "sqlite": lambda clock, folder: new_store(folder / "state.db", clock=clock),
    "postgres": lambda clock, folder: _postgres(clock),
    "single calls": lambda clock, folder: SingleCalls(InMemoryStateStore(clock=clock)),
    AWAITED: lambda clock, folder: InMemoryStateStore(clock=clock),
    "wrapped": lambda clock, folder: Wrapped(InMemoryStateStore(clock=clock)),
}


@dataclass
class Sink:
    """Hears everything, in order."""

    heard: list[Event | Receipt] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        self.heard.append(event)

    def on_receipt(self, receipt: Receipt) -> None:
        self.heard.append(receipt)


@cache
def _policy(mode: str) -> Policy:
    return Policy.from_yaml(POLICY.format(mode=mode))


class AwaitedControl(Control):
    """A Control whose calls are awaited; those inside an executor, where a loop runs, are not."""

    def execute(
        self, action: Action, executor: Callable[[], object], *args: Any, **options: Any
    ) -> Receipt:
        if in_a_loop():
            return super().execute(action, executor, *args, **options)
        return asyncio.run(self.aexecute(action, awaited(executor), *args, **options))

    def resume(self, continuation: str | bytes, executor: Callable[[], object]) -> Receipt:
        if in_a_loop():
            return super().resume(continuation, executor)
        return asyncio.run(self.aresume(continuation, awaited(executor)))


def in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def awaited(executor: Any) -> Any:
    """A coroutine function that does what `executor` does; what is none is handed on."""
    if not callable(executor):
        return executor

    async def call() -> object:
        await asyncio.sleep(0)
        return executor()

    return call


class World:
    """One Control on one store, and short words for what tests do with it."""

    def __init__(
        self,
        store: Any,
        clock: Clock,
        mode: str = "enforce",
        kind: type[Control] = Control,
        **options: Any,
    ) -> None:
        self.clock = clock
        self.store = store
        self.sink = Sink()
        self.calls: list[str] = []
        self.policy = _policy(mode)
        self.control = kind(self.policy, store, clock=clock, sinks=[self.sink], **options)

    def action(self, amount: int = 100, **changes: Any) -> Action:
        facts: dict[str, Any] = {"principal": Principal("a"), **changes}
        return Action("pay", {"payment_id": "p1", "amount": amount}, **facts)

    def granted(self, amount: int = 1000, approver: str = "cli:local") -> str:
        """The id of a granted approval of such an action."""
        request = self.control.approvals.request(self.action(amount), timedelta(minutes=15))
        self.store.grant_approval(request.request_id, approver)
        return request.request_id

    def run(
        self,
        amount: int = 100,
        *,
        key: str | None = "pay:p1",
        executor: Callable[[], object] | None = None,
        presented: str | None = None,
        action: Action | None = None,
        **options: Any,
    ) -> Receipt:
        action = action or self.action(amount)

        def ran() -> object:
            self.calls.append(action.action_id)
            return executor() if executor is not None else {"id": "re_1"}

        if presented is None:
            return self.control.execute(action, ran, key, **options)
        with with_approval(presented):
            return self.control.execute(action, ran, key, **options)

    def caught(self, *args: Any, **kwargs: Any) -> BaseException | None:
        """What `run` raises, or None."""
        try:
            self.run(*args, **kwargs)
        except BaseException as error:
            return error
        return None

    def codes(self, since: int = 0) -> str:
        """The events as the short codes of docs/pipeline.md; `*` marks an approval's id."""
        return " ".join(
            CODES[EventType(event.type)] + ("*" if event.approval_id else "")
            for event in self.store.events()[since:]
        )

    @property
    def last(self) -> Receipt:
        """The newest receipt."""
        receipt: Receipt = self.store.receipts()[-1]
        return receipt

    def state(self, key: str = "pay:p1") -> str | None:
        record = self.store.get_effect(key)
        return None if record is None else record.state.value
