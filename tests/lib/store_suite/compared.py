"""A store beside its model: each call is made on both, and what they say and hold is compared."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine, invariant

from ctrlrun.effect import EffectRecord, EffectState, Reservation
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalMismatch,
    DuplicateEffect,
    InvalidArgument,
    LeaseLost,
    NotExecuted,
    Suspended,
)
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import verify_chain
from ctrlrun.state import UnitStateStore
from ctrlrun.state.protocol import HeldContinuation
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.lib.store_suite.conftest import let_go, open_store
from tests.lib.store_suite.hands import SUSPENDED, Hands
from tests.lib.store_suite.helpers import LEASE, FakeClock, action, request
from tests.lib.store_suite.model import Held, Made, Model
from tests.pg.server import server_url

HASH = action().action_hash


class Difference(AssertionError):
    """A store and the model differ. `call` says where: a call's name, or `records`."""

    def __init__(self, call: str, found: object, expected: object) -> None:
        super().__init__(f"{call}: found {found!r}, expected {expected!r}")
        self.call = call


def said(call: Callable[[], Any]) -> tuple[str, Any]:
    """A verdict as a word, and what came back or was raised."""
    try:
        return "ok", call()
    except DuplicateEffect as error:
        return error.state, error
    except AmbiguousEffect as error:
        return "ambiguous", error
    except (ApprovalMismatch, ActionDenied, LeaseLost) as error:
        return error.reason, error
    except InvalidArgument as error:
        return "invalid", error
    except (
        Suspended,
        NotExecuted,
        TimeoutError,
    ) as error:  # what a call ends with when all is well
        return "ok", error


class Compared(RuleBasedStateMachine):
    """A store and its model; each call is made on both, and the verdicts are compared."""

    backend: ClassVar[str] = ""
    seen: ClassVar[Counter[tuple[str, str]]] = Counter()
    """How often each call had each verdict, in all games."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.folder = tempfile.TemporaryDirectory()
        self.store = open_store(self.backend, Path(self.folder.name), self.clock)
        self.left_behind: list[UnitStateStore] = []
        self.model = Model(self.clock)
        self.verified = 0
        """How long the chain was when it was looked through."""

    def open_again(self) -> UnitStateStore:
        """Another opening of the same store."""
        if isinstance(self.store, PostgresStateStore):
            schema = self.store.schema
            return PostgresStateStore(server_url(), clock=self.clock, schema=schema)
        assert isinstance(self.store, SQLiteStateStore)
        return SQLiteStateStore(self.store.path, clock=self.clock, durability="normal")

    def teardown(self) -> None:
        for store in self.left_behind:
            store.close()
        let_go(self.store)
        self.folder.cleanup()

    def same(self, call: str, found: str, expected: str) -> None:
        """Both say it, and it is counted."""
        if found != expected:
            raise Difference(call, found, expected)
        self.seen[call, expected] += 1

    def equal(self, what: str, found: object, expected: object) -> None:
        """Both hold it."""
        if found != expected:
            raise Difference(what, found, expected)

    @invariant()
    def equal_records(self) -> None:
        effects = {key: _record(key, held) for key, held in self.model.effects.items()}
        found = {record.effect_key: record for record in self.store.list_effects()}
        self.equal("records", found, effects)
        for key, held in self.model.effects.items():
            self.equal("records", self.store.continuation_rounds(key), held.rounds)
        approvals = {
            record.approval_id: (
                record.action_hash,
                record.expires_at,
                record.status.value,
                record.approver,
                record.granted_at,
                record.consumed_at,
            )
            for record in self.store.approvals_for(HASH)
        }
        asked = {
            name: (a.action_hash, a.expires_at, a.status, a.approver, a.granted_at, a.consumed_at)
            for name, a in self.model.approvals.items()
        }
        self.equal("records", approvals, asked)
        self.equal("records", self.store.events_count(), self.model.events)
        head = self.store.chain_head()
        self.equal("records", head and head[0], self.model.receipts)
        if self.verified != self.model.receipts:
            chain = verify_chain(self.store)
            self.equal("records", (chain.ok, chain.verified), (True, self.model.receipts))
            self.verified = chain.verified

    # --- calls, whose verdicts are compared ------------------------------------------------------

    def reserve_at(self, key: str, actor: str) -> None:
        expected = self.model.reserve(key, actor)
        found, reservation = said(lambda: self.store.reserve_effect(key, actor, LEASE))
        self.same("reserve", found, expected)
        if found == "ok":
            self.equal("reserve", reservation, self.reservation(key))

    def reservation(self, key: str) -> Reservation:
        held = self.model.effects[key]
        assert held.ends is not None
        return Reservation(key, held.owner, held.attempt, held.ends)

    def begin_at(self, key: str, actor: str) -> None:
        expected = self.model.begin(key, actor)
        self.same("begin", said(lambda: self.store.begin_execution(key, actor))[0], expected)

    def commit_at(self, key: str, actor: str) -> None:
        expected = self.model.commit(key, actor, 1)
        self.same("commit", said(lambda: self.store.commit_effect(key, actor, 1))[0], expected)

    def fail_at(self, key: str, actor: str) -> None:
        expected = self.model.fail(key, actor, "no")
        self.same("fail", said(lambda: self.store.fail_effect(key, actor, "no"))[0], expected)

    def lose_at(self, key: str, actor: str) -> None:
        expected = self.model.lose(key, actor, "?")
        self.same("lose", said(lambda: self.store.mark_ambiguous(key, actor, "?"))[0], expected)

    def extend_at(self, key: str, actor: str, by: timedelta) -> None:
        until = self.clock.now + by
        expected = self.model.extend(key, actor, until)
        self.same("extend", said(lambda: self.store.extend_lease(key, actor, until))[0], expected)

    def hold_at(self, key: str, actor: str, token: str) -> None:
        until = self.clock.now + SUSPENDED
        expected = self.model.hold(key, actor, token, until)
        held = action(actor)
        call = lambda: self.store.hold_continuation(held, key, token, until)  # noqa: E731
        self.same("hold", said(call)[0], expected)

    def call_at(self, verb: str, key: str, actor: str, token: str) -> None:
        """Any of these calls, by its name."""
        calls: dict[str, Callable[[], None]] = {
            "reserve": lambda: self.reserve_at(key, actor),
            "begin": lambda: self.begin_at(key, actor),
            "commit": lambda: self.commit_at(key, actor),
            "fail": lambda: self.fail_at(key, actor),
            "lose": lambda: self.lose_at(key, actor),
            "extend": lambda: self.extend_at(key, actor, LEASE),
            "extend far": lambda: self.extend_at(key, actor, 2 * LEASE),
            "hold": lambda: self.hold_at(key, actor, token),
        }
        calls[verb]()

    def resolve_at(
        self,
        key: str,
        state: str,
        attempt: int | None = None,
        action_id: str | None = None,
        about: str = "",
    ) -> None:
        """A person's answer about the attempt that was seen, as far as that is said."""
        expected = self.model.resolve(key, state, "cli:ada", attempt, action_id)
        target = EffectState(state)
        found, record = said(
            lambda: self.store.resolve_effect(
                key, target, "cli:ada", attempt=attempt, action_id=action_id
            )
        )
        self.same(f"resolve{about}", found, expected)
        if found == "ok":
            self.equal("resolve", record, _record(key, self.model.effects[key]))

    def take_it(self, token: str, story: str = "") -> None:
        expected, goes_on = self.model.take(token)
        found, taken = said(lambda: self.store.take_continuation(token))
        self.same(f"take{story}", found, expected)
        if goes_on is not None:
            held = self.model.effects[goes_on.key]
            record = _record(goes_on.key, held)
            self.equal("take", _without_action(taken), (goes_on.key, record, held.rounds))
            self.equal("take", taken.action.action_id, goes_on.owner)

    def put(self, approval_id: str) -> None:
        expected = self.model.ask(approval_id, HASH, LEASE)
        asked = request(self.clock, approval_id)
        self.same("ask", said(lambda: self.store.put_approval_request(asked))[0], expected)

    def answer_it(self, approval_id: str, *, is_granted: bool) -> None:
        expected = self.model.answer(approval_id, "cli:ada", is_granted=is_granted)
        verb = self.store.grant_approval if is_granted else self.store.deny_approval
        self.same(
            "approve" if is_granted else "deny",
            said(lambda: verb(approval_id, "cli:ada"))[0],
            expected,
        )

    def consume_it(self, approval_id: str, action_hash: str = HASH) -> None:
        expected = self.model.consume(approval_id, action_hash)
        found = said(lambda: self.store.consume_approval(approval_id, action_hash))[0]
        self.same("consume", found, expected)

    def spend_at(self, key: str, actor: str, approval_id: str, action_hash: str = HASH) -> None:
        expected = self.model.consume_and_reserve(approval_id, action_hash, key, actor)
        found, got = said(
            lambda: self.store.consume_approval_and_reserve(
                approval_id, action_hash, key, actor, LEASE
            )
        )
        self.same("consume_and_reserve", found, expected)
        if found == "ok":
            self.equal("consume_and_reserve", got[1], self.reservation(key))

    # --- what the kernel does for an attempt ------------------------------------------------------

    def hands(self, made: Made) -> Hands:
        return Hands(self.store, self.clock, made)

    def kind(self, made: Made) -> str:
        """How a call of this attempt is counted: the same action may have made the later one."""
        if self.model.stands(made):
            return "the attempt that stands"
        held = self.model.effects.get(made.key)
        if held is not None and held.owner == made.owner:
            return "an earlier attempt of the same action"
        return "an earlier attempt"

    def fence_of(self, made: Made) -> None:
        kind, expected = self.kind(made), self.model.fence(made)
        found = said(self.hands(made).fence)[0]
        self.same(f"fence of {kind}", "passes" if found == "ok" else found, expected)

    def outcome_of(self, made: Made, state: str) -> None:
        """An outcome with its evidence; after a lost reply the caller hears of that alone."""
        kind, word = self.kind(made), {"failed": "no"}.get(state, "?")
        verdict = self.model.outcome(made, state, word)
        self.model.events += 1
        self.model.receipts += 1
        heard = "ambiguous" if verdict in ("taken", "invalid") else verdict
        found = said(lambda: self.hands(made).end(state))[0]
        self.equal(f"{state} by {kind}", found, "ok" if state == "ambiguous" else heard)
        written = self.store.receipts_page(limit=1).items[0]
        result = state if verdict == "ok" else "ambiguous"
        evidence = (written.result.value, written.attempt)
        self.equal(f"{state} by {kind}", evidence, (result, made.attempt))
        stands = _record(made.key, self.model.effects[made.key])
        self.equal(f"{state} by {kind}", self.store.get_effect(made.key), stands)
        self.seen[f"{state} by {kind}", verdict] += 1

    def hook_says(self, made: Made, outcome: str) -> None:
        """A hook's answer about the attempt that was asked about."""
        kind, target = self.kind(made), {"committed": "committed", "not_executed": "failed"}
        verdict = "unknown"
        if outcome in target:
            verdict = self.model.resolve(
                made.key, target[outcome], "reconcile:pay", made.attempt, made.owner
            )
        self.model.events += 2 if verdict == "ok" else 1
        moved = self.hands(made).answer(outcome)
        self.equal(f"reconcile about {kind}", moved, verdict == "ok")
        self.seen[f"reconcile about {kind}", verdict] += 1

    def suspend_it(self, made: Made, token: str) -> bool:
        """Hold the attempt, or leave its effect ambiguous where that is refused; whether held."""
        kind, held = self.kind(made), self.model.effects.get(made.key)
        expected = "ambiguous"
        if held is not None and held.attempt == made.attempt:
            until = max(self.clock.now + SUSPENDED, held.ends or self.clock.now)
            expected = self.model.hold(made.key, made.owner, token, until)
        self.model.events += 1
        found, error = said(lambda: self.hands(made).suspend(token))
        self.same(f"suspend {kind}", found, expected)
        if expected != "ok":
            self.model.receipts += 1
            if self.model.stands(made):
                self.model.lose(made.key, made.owner, f"{type(error).__name__}: {error}")
        return expected == "ok"


def _record(key: str, held: Held) -> EffectRecord:
    return EffectRecord(
        key,
        EffectState(held.state),
        held.owner,
        held.attempt,
        held.created,
        held.updated,
        held.ends,
        held.result,
        held.error,
        held.resolver,
    )


def _without_action(taken: HeldContinuation) -> tuple[str, EffectRecord, int]:
    return taken.effect_key, taken.record, taken.rounds
