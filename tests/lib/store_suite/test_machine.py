"""Random calls against a plain model: equal verdicts and equal records in every store."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ctrlrun.control.executing import _why_lost
from ctrlrun.effect import EffectState, Reservation
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalMismatch,
    CTRLRunError,
    DuplicateEffect,
    InvalidArgument,
)
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import verify_chain
from ctrlrun.state import UnitStateStore
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.lib.store_suite.conftest import BACKENDS, let_go, open_store
from tests.lib.store_suite.helpers import (
    LEASE,
    SECOND,
    TICK,
    FakeClock,
    action,
    event,
    receipt,
    request,
)
from tests.pg.server import server_url

KEYS = st.sampled_from(["k1", "k2"])
ACTORS = st.sampled_from(["act_a", "act_b"])
APPROVALS = st.sampled_from(["apr_1", "apr_2"])
HASH = action().action_hash


@dataclass
class Held:
    """The model of one effect."""

    state: str
    owner: str
    attempt: int
    ends: datetime | None
    token: str = ""
    rounds: int = 0
    result: int | None = None
    error: bool = False
    resolver: str | None = None


@dataclass
class Model:
    """What a store should know, in the plainest words."""

    effects: dict[str, Held] = field(default_factory=dict)
    approvals: dict[str, tuple[str, datetime]] = field(default_factory=dict)
    events: int = 0
    receipts: int = 0


def outcome_of(call: Callable[[], object]) -> str:
    """A verdict as a word."""
    try:
        call()
    except DuplicateEffect as error:
        return error.state
    except AmbiguousEffect:
        return "ambiguous"
    except ApprovalMismatch as error:
        return error.reason
    except ActionDenied as error:
        return error.reason
    except InvalidArgument:
        return "invalid"
    return "ok"


def open_again(store: UnitStateStore, clock: FakeClock) -> UnitStateStore:
    """Another opening of the same store."""
    if isinstance(store, PostgresStateStore):
        return PostgresStateStore(server_url(), clock=clock, schema=store.schema)
    assert isinstance(store, SQLiteStateStore)
    return SQLiteStateStore(store.path, clock=clock, durability="normal")


class Calls(RuleBasedStateMachine):
    """Every rule makes a call on both and compares the verdicts; the invariant compares the rest."""

    backend = ""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.folder = tempfile.TemporaryDirectory()
        self.store = open_store(self.backend, Path(self.folder.name), self.clock)
        self.left_behind: list[UnitStateStore] = []
        self.model = Model()

    def teardown(self) -> None:
        for store in self.left_behind:
            store.close()
        let_go(self.store)
        self.folder.cleanup()

    # --- the model's verdicts ----------------------------------------------------------------

    def live(self, held: Held) -> bool:
        return held.ends is not None and self.clock.now <= held.ends

    def reserve_verdict(self, key: str, actor: str) -> str:
        held = self.model.effects.get(key)
        if held is None or held.state == "failed":
            attempt = 1 if held is None else held.attempt + 1
            self.model.effects[key] = Held("reserved", actor, attempt, self.clock.now + LEASE)
            return "ok"
        if held.state == "committed":
            return "committed"
        if held.state in ("reserved", "executing") and self.live(held):
            return "in_progress"
        held.state, held.ends, held.error = "ambiguous", None, True
        return "ambiguous"

    def move_verdict(self, key: str, actor: str, allowed: set[str], target: str) -> str:
        held = self.model.effects.get(key)
        if held is None:
            return "invalid"
        if held.owner == actor and held.state in allowed:
            held.state = target
            held.ends = held.ends if target == "executing" else None
            if target != "executing":
                held.result = 1 if target == "committed" else held.result
                held.error = target != "committed"
            return "ok"
        if held.state in ("ambiguous", "committed"):
            return held.state
        if held.owner != actor and held.state != "failed" and self.live(held):
            return "in_progress"
        return "invalid"

    def extend_verdict(self, key: str, actor: str, until: datetime) -> str:
        held = self.model.effects.get(key)
        if held is not None and held.state == "committed":
            return "committed"
        if held is None or held.ends is None or not self.live(held):
            return "ambiguous"
        if held.state != "executing" or held.owner != actor:
            return "in_progress"
        if until < held.ends:
            return "invalid"
        held.ends = until
        return "ok"

    def consume_verdict(self, approval_id: str) -> str:
        if approval_id not in self.model.approvals:
            return "unknown"
        status, expires_at = self.model.approvals[approval_id]
        if status == "denied":
            return "approval_denied"
        if status != "granted":
            return status
        return self.expired(approval_id, expires_at) or "ok"

    def expired(self, approval_id: str, expires_at: datetime) -> str:
        if self.clock.now <= expires_at:
            return ""
        self.model.approvals[approval_id] = ("expired", expires_at)
        return "expired"

    # --- the calls ---------------------------------------------------------------------------

    @rule(by=st.sampled_from([TICK, SECOND, LEASE - TICK, LEASE, LEASE + TICK]))
    def wait(self, by: object) -> None:
        self.clock.now += by  # type: ignore[operator]

    @rule(key=KEYS, actor=ACTORS)
    def reserve(self, key: str, actor: str) -> None:
        expected = self.reserve_verdict(key, actor)
        assert outcome_of(lambda: self.store.reserve_effect(key, actor, LEASE)) == expected

    @rule(key=KEYS, actor=ACTORS)
    def begin(self, key: str, actor: str) -> None:
        expected = self.move_verdict(key, actor, {"reserved"}, "executing")
        assert outcome_of(lambda: self.store.begin_execution(key, actor)) == expected

    @rule(key=KEYS, actor=ACTORS)
    def commit(self, key: str, actor: str) -> None:
        expected = self.move_verdict(key, actor, {"executing"}, "committed")
        assert outcome_of(lambda: self.store.commit_effect(key, actor, 1)) == expected

    @rule(key=KEYS, actor=ACTORS)
    def fail(self, key: str, actor: str) -> None:
        expected = self.move_verdict(key, actor, {"executing"}, "failed")
        assert outcome_of(lambda: self.store.fail_effect(key, actor, "no")) == expected

    @rule(key=KEYS, actor=ACTORS)
    def lose(self, key: str, actor: str) -> None:
        allowed = {"reserved", "executing", "ambiguous"}
        expected = self.move_verdict(key, actor, allowed, "ambiguous")
        assert outcome_of(lambda: self.store.mark_ambiguous(key, actor, "?")) == expected

    @rule(key=KEYS, state=st.sampled_from(["committed", "failed"]), attempt=st.integers(0, 3))
    def resolve(self, key: str, state: str, attempt: int) -> None:
        held = self.model.effects.get(key)
        expected = "invalid"
        if held is not None and held.state == "ambiguous" and attempt in (0, held.attempt):
            held.state, expected = state, "ok"
            held.resolver, held.error = "cli:ada", True
        outcome = outcome_of(
            lambda: self.store.resolve_effect(
                key, EffectState(state), "cli:ada", attempt=attempt or None
            )
        )
        assert outcome == expected

    @rule(key=KEYS, answer=st.sampled_from(["committed", "failed", "unknown"]))
    def reconcile(self, key: str, answer: str) -> None:
        """A hook's answer, bound to the attempt that was asked about; `unknown` writes nothing."""
        held = self.model.effects.get(key)
        if held is None or answer == "unknown":
            return
        asked = (held.attempt, held.owner)
        expected = "ok" if held.state == "ambiguous" else "invalid"
        if expected == "ok":
            held.state, held.resolver, held.error = answer, "reconcile:pay", True
        outcome = outcome_of(
            lambda: self.store.resolve_effect(
                key, EffectState(answer), "reconcile:pay", attempt=asked[0], action_id=asked[1]
            )
        )
        assert outcome == expected

    @rule(key=KEYS, actor=ACTORS)
    def go_on(self, key: str, actor: str) -> None:
        """What a holder does next: chance alone seldom gets as far as an executing attempt."""
        held = self.model.effects.get(key)
        if held is None or held.state == "failed":
            self.reserve(key, actor)
        self.begin(key, self.model.effects[key].owner)

    @rule(key=KEYS, other=st.sampled_from([None, "act_a"]), off=st.sampled_from([0, 0, 0, 1]))
    def fence(self, key: str, other: str | None, off: int) -> None:
        """The fence's look: it passes exactly while this attempt executes on a live lease."""
        held = self.model.effects.get(key)
        actor = other or ("act_a" if held is None else held.owner)
        attempt = off + (1 if held is None else held.attempt)
        mine = held is not None and (held.owner, held.attempt) == (actor, attempt)
        expected = None
        if held is None or not mine or held.state == "reserved":
            expected = "taken"
        elif held.state in ("committed", "failed"):
            expected = "resolved"
        elif held.state == "ambiguous" or not self.live(held):
            expected = "lapsed"
        mine_is = Reservation(key, actor, attempt, self.clock.now)
        assert _why_lost(self.store.get_effect(key), mine_is, self.clock.now) == expected

    @rule()
    def lapse(self) -> None:
        """Every lease and request that there is runs out; nothing moves by itself."""
        ends = [held.ends for held in self.model.effects.values() if held.ends is not None]
        ends += [expires_at for _, expires_at in self.model.approvals.values()]
        self.clock.now = max([self.clock.now, *ends]) + TICK

    @rule(is_crash=st.booleans())
    def reopen(self, is_crash: bool) -> None:
        """Another opening of the same store; after a crash the old one was never closed."""
        if self.backend == "memory":
            return
        if is_crash:
            self.left_behind.append(self.store)
        else:
            self.store.close()
        self.store = open_again(self.store, self.clock)

    @rule(key=KEYS, actor=ACTORS)
    def crash_in_a_unit(self, key: str, actor: str) -> None:
        """What a process did in a unit that it never ended is undone."""

        def work() -> None:
            outcome_of(lambda: self.store.reserve_effect(key, actor, LEASE))
            outcome_of(lambda: self.store.begin_execution(key, actor))
            outcome_of(lambda: self.store.commit_effect(key, actor, 1))
            self.store.append_event(event())
            raise SystemExit

        with pytest.raises(SystemExit):
            self.store.unit(work, durable=True)

    @rule(key=KEYS, actor=ACTORS, by=st.sampled_from([SECOND, LEASE, 2 * LEASE]))
    def extend(self, key: str, actor: str, by: object) -> None:
        until: datetime = self.clock.now + by  # type: ignore[operator]
        expected = self.extend_verdict(key, actor, until)
        assert outcome_of(lambda: self.store.extend_lease(key, actor, until)) == expected

    @rule(key=KEYS, actor=ACTORS, token=st.sampled_from(["t1", "t2"]))
    def hold(self, key: str, actor: str, token: str) -> None:
        until = self.clock.now + 2 * LEASE
        before = self.model.effects.get(key)
        ends = None if before is None else before.ends
        expected = self.extend_verdict(key, actor, until)
        if expected == "ok" and before is not None:
            others = [held.token for other, held in self.model.effects.items() if other != key]
            if token in others:
                before.ends, expected = ends, "invalid"
            else:
                before.token, before.rounds = token, before.rounds + 1
        call = lambda: self.store.hold_continuation(action(actor), key, token, until)  # noqa: E731
        assert outcome_of(call) == expected

    @rule(token=st.sampled_from(["t1", "t2", ""]))
    def take(self, token: str) -> None:
        holders = [held for held in self.model.effects.values() if token and held.token == token]
        expected = "invalid"
        if holders:
            able = holders[0].state == "executing" and self.live(holders[0])
            expected = "ok" if able else "ambiguous"
            if able:
                holders[0].token = ""
        assert outcome_of(lambda: self.store.take_continuation(token)) == expected

    @rule(approval_id=APPROVALS)
    def ask(self, approval_id: str) -> None:
        asked = request(self.clock, approval_id)
        expected = "invalid" if approval_id in self.model.approvals else "ok"
        if expected == "ok":
            self.model.approvals[approval_id] = ("pending", asked.expires_at)
        assert outcome_of(lambda: self.store.put_approval_request(asked)) == expected

    @rule(approval_id=APPROVALS, is_granted=st.booleans())
    def answer(self, approval_id: str, is_granted: bool) -> None:
        status, expires_at = self.model.approvals.get(approval_id, ("unknown", self.clock.now))
        expected = status
        if status == "pending":
            expected = self.expired(approval_id, expires_at) or "ok"
        if expected == "ok":
            self.model.approvals[approval_id] = ("granted" if is_granted else "denied", expires_at)
        verb = self.store.grant_approval if is_granted else self.store.deny_approval
        assert outcome_of(lambda: verb(approval_id, "cli:ada")) == expected

    @rule(approval_id=APPROVALS, key=KEYS, actor=ACTORS)
    def consume_and_reserve(self, approval_id: str, key: str, actor: str) -> None:
        expected = self.consume_verdict(approval_id)
        if expected == "ok":
            expected = self.reserve_verdict(key, actor)
        if expected == "ok":
            expires_at = self.model.approvals[approval_id][1]
            self.model.approvals[approval_id] = ("consumed", expires_at)
        call = lambda: self.store.consume_approval_and_reserve(  # noqa: E731
            approval_id, HASH, key, actor, LEASE
        )
        assert outcome_of(call) == expected

    @rule(is_failing=st.booleans(), key=KEYS, actor=ACTORS)
    def record(self, is_failing: bool, key: str, actor: str) -> None:
        """A unit of evidence, and of a reservation that counts only if the unit stands."""
        number = self.model.receipts + 1

        def work() -> None:
            self.store.append_event(event())
            if is_failing:
                outcome_of(lambda: self.store.reserve_effect(key, actor, LEASE))
            self.store.put_receipt(receipt(number))
            if is_failing:
                raise CTRLRunError("no")

        if is_failing:
            with pytest.raises(CTRLRunError):
                self.store.unit(work, durable=True)
            return
        self.store.unit(work, durable=True)
        self.model.events += 1
        self.model.receipts += 1

    @invariant()
    def equal(self) -> None:
        found = {record.effect_key: record for record in self.store.list_effects()}
        assert set(found) == set(self.model.effects)
        for key, held in self.model.effects.items():
            record = found[key]
            assert (record.state, record.action_id, record.attempt, record.lease_expires_at) == (
                held.state,
                held.owner,
                held.attempt,
                held.ends,
            )
            assert self.store.continuation_rounds(key) == held.rounds
            assert (record.result, record.error is not None, record.resolved_by) == (
                held.result,
                held.error,
                held.resolver,
            )
            assert record.created_at <= record.updated_at <= self.clock.now
        statuses = {r.approval_id: r.status for r in self.store.approvals_for(HASH)}
        assert statuses == {key: status for key, (status, _) in self.model.approvals.items()}
        assert self.store.events_count() == self.model.events
        assert verify_chain(self.store).verified == self.model.receipts


SHORT = {"memory": 60, "sqlite": 15, "postgres": 6}


def play(backend: str, examples: int, steps: int = 40) -> None:
    """Play that many games of so many calls on a store; an AssertionError says how to play one again."""
    machine = type(f"{backend}Calls", (Calls,), {"backend": backend})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_calls(backend: str) -> None:
    play(backend, SHORT[backend])
