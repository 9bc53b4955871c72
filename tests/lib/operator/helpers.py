"""Scenes for the tests of the operator room: a store, a clock that stands still, agents that call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control, with_approval
from ctrlrun.effect import EffectState
from ctrlrun.errors import ApprovalRequired
from ctrlrun.policy import Policy
from ctrlrun.receipt import Event, EventType, Receipt, iso_timestamp
from ctrlrun.state import StateStore
from ctrlrun.state.memory import InMemoryStateStore
from tests.lib.sqlite_helpers import new_store

POLICY = """
schema: ctrlrun.policy/v4
environment: staging
controls:
  PAY-4EYES: {title: Two people see a large refund}
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 50000}
        decision: allow
      - when: {amount_gte: 0, amount_lte: 500000}
        decision: approve
        controls: [PAY-4EYES]
      - decision: deny
  email.send:
    decision: approve
"""

START_OF_SHIFT = datetime(2026, 11, 29, 3, 0, tzinfo=UTC)


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, now: datetime = START_OF_SHIFT) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def tick(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


class Hears:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def on_receipt(self, receipt: Receipt) -> None:
        raise AssertionError("an answer makes no receipt")


class Scene:
    """One store under one policy, with agents that call and a clock for all of them."""

    def __init__(
        self,
        store: StateStore,
        clock: Clock,
        policy: str = POLICY,
        environment: str | None = None,
    ) -> None:
        self.store: Any = store
        self.clock = clock
        self.policy = Policy.from_yaml(policy, source="ctrlrun.yaml")
        self.control = Control(self.policy, store, clock=clock, environment=environment)

    def action(
        self, name: str = "stripe.refund", agent: str = "refund-agent", **arguments: Any
    ) -> Action:
        return Action(name, arguments, Principal(agent), environment=self.control.environment)

    def refund(self, amount: int, payment: str = "txn_1", **more: Any) -> Action:
        return self.action(amount=amount, currency="EUR", payment_id=payment, **more)

    def call(
        self,
        action: Action,
        executor: Callable[..., Any] = lambda *_, **__: "done",
        *,
        approval: str | None = None,
        key: str | None = None,
    ) -> Receipt | Exception:
        """One protected call; what it raised instead of a receipt."""
        if key is None and action.name == "stripe.refund":
            key = f"refund:{action.arguments['payment_id']}"
        try:
            if approval is None:
                return self.control.execute(action, executor, key)
            with with_approval(approval):
                return self.control.execute(action, executor, key)
        except Exception as error:
            return error

    def ask(self, action: Action) -> str:
        """Propose what needs a person; the request's id."""
        refused = self.call(action)
        assert isinstance(refused, ApprovalRequired), refused
        return refused.request_id

    def lose_reply(self, action: Action, seconds: float = 30) -> None:
        """A call whose executor waits and hears nothing."""

        def executor(*_: Any, **__: Any) -> None:
            self.clock.tick(seconds)
            raise TimeoutError("no response")

        outcome = self.call(action, executor)
        assert isinstance(outcome, TimeoutError), outcome

    def die(self, action: Action, lease: timedelta = timedelta(minutes=5)) -> str:
        """What is left of a call whose process died after it began; the effect key."""
        key = f"refund:{action.arguments['payment_id']}"

        def happened(kind: EventType, **data: Any) -> None:
            self.store.append_event(Event(kind, action.action_id, self.clock(), data, key))

        happened(EventType.ACTION_PROPOSED, action_hash=action.action_hash)
        happened(EventType.POLICY_EVALUATED, decision="allow", reason="rule[0]")
        held = self.store.reserve_effect(key, action.action_id, lease)
        until = iso_timestamp(held.lease_expires_at)
        happened(EventType.EFFECT_RESERVED, attempt=held.attempt, lease_expires_at=until)
        self.store.begin_execution(key, action.action_id)
        happened(EventType.EXECUTION_STARTED)
        return key

    def types(self, **filters: Any) -> list[str]:
        """The types of the store's events, in order."""
        return [str(event.type) for event in self.store.events_page(limit=1000, **filters).items]


class SingleCalls:
    """A store of somebody else: the calls of the protocol, no units and no pages."""

    _OURS_ALONE = ("unit", "change_token", "receipt_rows")

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in self._OURS_ALONE or name.endswith(("_page", "_count")):
            raise AttributeError(name)
        return getattr(self._store, name)

    def resolve_effect(self, effect_key: str, state: EffectState, resolver: str) -> Any:
        return self._store.resolve_effect(effect_key, state, resolver)


def memory_store(clock: Clock, folder: Path) -> StateStore:
    return InMemoryStateStore(clock=clock)


def sqlite_store(clock: Clock, folder: Path) -> StateStore:
    return new_store(folder / "state.db", clock=clock)


STORES: dict[str, Callable[[Clock, Path], StateStore]] = {
    "memory": memory_store,
    "sqlite": sqlite_store,
}
