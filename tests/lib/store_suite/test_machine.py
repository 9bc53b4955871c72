"""Random calls against a plain model: equal verdicts and equal records in every store.

Some rules make any call at any time. Others tell a story: chance alone seldom gets as far as an
answer about an attempt that was replaced, so they first bring about what they need.
`test_machine_finds.py` plants faults that the games have to find.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ctrlrun.effect import EffectRecord, EffectState, Reservation
from ctrlrun.errors import (
    ActionDenied,
    AmbiguousEffect,
    ApprovalMismatch,
    CTRLRunError,
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
from tests.lib.store_suite.conftest import BACKENDS, let_go, open_store
from tests.lib.store_suite.hands import SUSPENDED, Hands
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
from tests.lib.store_suite.model import HELD, Held, Made, Model
from tests.pg.server import server_url

KEYS = st.sampled_from(["k1", "k2"])
WHICH = st.integers(0, 2)
"""Of the keys, or attempts, that are as a rule wants them; taken round."""
ACTORS = st.sampled_from(["act_a", "act_b"])
APPROVALS = st.sampled_from(["apr_1", "apr_2"])
TOKENS = st.sampled_from(["t1", "t2", "t3"])
ENDINGS = st.sampled_from(["failed", "lost", "lapsed"])
"""How an attempt ends so that another may stand in its place."""

HASH = action().action_hash
HASHES = st.sampled_from([HASH, HASH, "sha256:" + "cd" * 32])


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
    except (Suspended, NotExecuted, TimeoutError) as error:  # what a call ends with when all is well
        return "ok", error


def open_again(store: UnitStateStore, clock: FakeClock) -> UnitStateStore:
    """Another opening of the same store."""
    if isinstance(store, PostgresStateStore):
        return PostgresStateStore(server_url(), clock=clock, schema=store.schema)
    assert isinstance(store, SQLiteStateStore)
    return SQLiteStateStore(store.path, clock=clock, durability="normal")


class Machine(RuleBasedStateMachine):
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
        chain = verify_chain(self.store)
        self.equal("records", (chain.ok, chain.verified), (True, self.model.receipts))

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
        self.same(f"{state} by {kind}", found, "ok" if state == "ambiguous" else heard)
        written = self.store.receipts_page(limit=1).items[0]
        result = state if verdict == "ok" else "ambiguous"
        self.equal(
            f"{state} by {kind}", (written.result.value, written.attempt), (result, made.attempt)
        )

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


class Calls(Machine):
    """Any call at any time."""

    @rule(by=st.sampled_from([TICK, SECOND, LEASE - TICK, LEASE, LEASE + TICK]))
    def wait(self, by: timedelta) -> None:
        self.clock.now += by

    @rule()
    def lapse(self) -> None:
        """Every lease and request that there is runs out; nothing moves by itself."""
        ends = [held.ends for held in self.model.effects.values() if held.ends is not None]
        ends += [asked.expires_at for asked in self.model.approvals.values()]
        self.clock.now = max([self.clock.now, *ends]) + TICK

    @rule(key=KEYS, actor=ACTORS)
    def reserve(self, key: str, actor: str) -> None:
        self.reserve_at(key, actor)

    @rule(key=KEYS, actor=ACTORS)
    def begin(self, key: str, actor: str) -> None:
        self.begin_at(key, actor)

    @rule(key=KEYS, actor=ACTORS)
    def commit(self, key: str, actor: str) -> None:
        self.commit_at(key, actor)

    @rule(key=KEYS, actor=ACTORS)
    def fail(self, key: str, actor: str) -> None:
        self.fail_at(key, actor)

    @rule(key=KEYS, actor=ACTORS)
    def lose(self, key: str, actor: str) -> None:
        self.lose_at(key, actor)

    @rule(key=KEYS, state=st.sampled_from(["committed", "failed"]), attempt=st.integers(0, 3))
    def resolve(self, key: str, state: str, attempt: int) -> None:
        self.resolve_at(key, state, attempt or None)

    @rule(key=KEYS, actor=ACTORS, by=st.sampled_from([SECOND, LEASE, 2 * LEASE]))
    def extend(self, key: str, actor: str, by: timedelta) -> None:
        self.extend_at(key, actor, by)

    @rule(key=KEYS, actor=ACTORS, token=TOKENS)
    def hold(self, key: str, actor: str, token: str) -> None:
        self.hold_at(key, actor, token)

    @rule(token=st.sampled_from(["t1", "t2", "t3", ""]))
    def take(self, token: str) -> None:
        self.take_it(token)

    @rule(approval_id=APPROVALS)
    def ask(self, approval_id: str) -> None:
        self.put(approval_id)

    @rule(approval_id=APPROVALS, is_granted=st.booleans())
    def answer(self, approval_id: str, is_granted: bool) -> None:
        self.answer_it(approval_id, is_granted=is_granted)

    @rule(approval_id=APPROVALS, action_hash=HASHES)
    def consume(self, approval_id: str, action_hash: str) -> None:
        self.consume_it(approval_id, action_hash)

    @rule(approval_id=APPROVALS, key=KEYS, actor=ACTORS, action_hash=HASHES)
    def consume_and_reserve(
        self, approval_id: str, key: str, actor: str, action_hash: str
    ) -> None:
        self.spend_at(key, actor, approval_id, action_hash)

    @precondition(lambda self: self.backend != "memory")
    @rule(is_crash=st.booleans())
    def reopen(self, is_crash: bool) -> None:
        """Another opening of the same store; after a crash the old one was never closed."""
        if is_crash:
            self.left_behind.append(self.store)
        else:
            self.store.close()
        self.store = open_again(self.store, self.clock)
        self.seen["crash" if is_crash else "reopen", "ok"] += 1

    @rule(key=KEYS, actor=ACTORS, approval_id=APPROVALS)
    def crash_in_a_unit(self, key: str, actor: str, approval_id: str) -> None:
        """What a process did in a unit that it never ended is undone."""

        def work() -> None:
            for call in (
                lambda: self.store.consume_approval(approval_id, HASH),
                lambda: self.store.reserve_effect(key, actor, LEASE),
                lambda: self.store.begin_execution(key, actor),
                lambda: self.store.hold_continuation(
                    action(actor), key, "t1", self.clock.now + SUSPENDED
                ),
                lambda: self.store.commit_effect(key, actor, 1),
                lambda: self.store.resolve_effect(key, EffectState.FAILED, "cli:ada"),
            ):
                said(call)
            self.store.append_event(event())
            raise SystemExit

        with pytest.raises(SystemExit):
            self.store.unit(work, durable=True)
        self.seen["crash in a unit", "ok"] += 1

    @rule(is_failing=st.booleans(), key=KEYS, actor=ACTORS)
    def record(self, is_failing: bool, key: str, actor: str) -> None:
        """A unit of evidence, and of a reservation that counts only if the unit stands."""
        number = self.model.receipts + 1

        def work() -> None:
            self.store.append_event(event())
            if is_failing:
                said(lambda: self.store.reserve_effect(key, actor, LEASE))
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


class Stories(Calls):
    """And calls that come when they matter."""

    # --- what a story begins with -----------------------------------------------------------------

    def a_key(self, which: int) -> str:
        """One that an attempt is under way at, else one that can get there, else a new one."""
        effects = self.model.effects
        keys = [key for key, held in effects.items() if held.state == "executing"]
        keys = keys or [key for key, held in effects.items() if held.state != "committed"]
        return keys[which % len(keys)] if keys else f"n{len(effects)}"

    def under_way(self, which: int, actor: str) -> str:
        """A key at which an attempt executes on a live lease."""
        key = self.a_key(which)
        self.get_under_way(key, actor)
        return key

    def get_under_way(self, key: str, actor: str) -> None:
        held = self.model.effects.get(key)
        if held is not None and held.state in HELD and not self.model.live(held):
            self.reserve_at(key, actor)
        if held is not None and held.state == "ambiguous":
            self.resolve_at(key, "failed")
        if held is None or held.state == "failed":
            self.reserve_at(key, actor)
        held = self.model.effects[key]
        if held.state == "reserved":
            self.begin_at(key, held.owner)

    def put_in_place(self, key: str, actor: str, ending: str) -> None:
        """End the attempt that is under way so that another may follow, and let it follow."""
        held = self.model.effects[key]
        if ending == "failed":
            self.fail_at(key, held.owner)
        elif ending == "lost":
            self.lose_at(key, held.owner)
        else:
            self.run_out(held)
        self.get_under_way(key, actor)

    def run_out(self, held: Held, by: timedelta = TICK) -> None:
        """Move on to the end of a lease, and past it by so much."""
        assert held.ends is not None
        self.clock.now = max(self.clock.now, held.ends + by)

    def replaced(self, which: int, actor: str, ending: str) -> Made:
        """An attempt that was replaced by the one that is under way now."""
        key = self.under_way(which, actor)
        if not self.model.earlier(key):
            self.put_in_place(key, actor, ending)
        earlier = self.model.earlier(key)
        return earlier[-1 - which % len(earlier)]

    # --- the stories -------------------------------------------------------------------------------

    @rule(which=WHICH, actor=ACTORS, ending=ENDINGS)
    def replace(self, which: int, actor: str, ending: str) -> None:
        """Another attempt, perhaps of the same action, stands where one was."""
        self.put_in_place(self.under_way(which, actor), actor, ending)

    @rule(which=WHICH, actor=ACTORS, state=st.sampled_from(["committed", "failed", "ambiguous"]))
    def end(self, which: int, actor: str, state: str) -> None:
        """An attempt ends, on a live lease or after it; then somebody asks again."""
        key = self.under_way(which, actor)
        self.outcome_of(self.model.standing(key), state)
        self.reserve_at(key, actor)

    @rule(
        which=WHICH,
        actor=ACTORS,
        ending=ENDINGS,
        state=st.sampled_from(["committed", "failed", "ambiguous"]),
    )
    def end_late(self, which: int, actor: str, ending: str, state: str) -> None:
        """The outcome of an attempt comes when another stands in its place."""
        self.outcome_of(self.replaced(which, actor, ending), state)

    @rule(
        which=WHICH,
        actor=ACTORS,
        ending=ENDINGS,
        verb=st.sampled_from(["begin", "commit", "fail", "lose", "extend", "hold"]),
    )
    def call_late(self, which: int, actor: str, ending: str, verb: str) -> None:
        """A program without the kernel calls the store for an attempt that was replaced."""
        made = self.replaced(which, actor, ending)
        key, owner = made.key, made.owner
        calls: dict[str, Callable[[], None]] = {
            "begin": lambda: self.begin_at(key, owner),
            "commit": lambda: self.commit_at(key, owner),
            "fail": lambda: self.fail_at(key, owner),
            "lose": lambda: self.lose_at(key, owner),
            "extend": lambda: self.extend_at(key, owner, 2 * LEASE),
            "hold": lambda: self.hold_at(key, owner, "t1"),
        }
        calls[verb]()

    @rule(
        which=WHICH,
        actor=ACTORS,
        ending=ENDINGS,
        meanwhile=st.sampled_from(
            ["nothing", "its end", "its end passed", "contended", "committed", "failed", "replaced"]
        ),
    )
    def fence(self, which: int, actor: str, ending: str, meanwhile: str) -> None:
        """An executor is slow, and looks before it sends."""
        if meanwhile == "replaced":
            self.fence_of(self.replaced(which, actor, ending))
            return
        key = self.under_way(which, actor)
        made, held = self.model.standing(key), self.model.effects[key]
        if meanwhile == "its end":
            self.run_out(held, 0 * TICK)
        elif meanwhile != "nothing":
            self.run_out(held)
        if meanwhile in ("contended", "committed", "failed"):
            self.reserve_at(key, actor)
        if meanwhile in ("committed", "failed"):
            self.resolve_at(key, meanwhile)
        self.fence_of(made)

    @rule(
        which=WHICH,
        actor=ACTORS,
        state=st.sampled_from(["committed", "failed"]),
        by=st.sampled_from(["person", "hook", "hook that knows nothing"]),
    )
    def find_out(self, which: int, actor: str, state: str, by: str) -> None:
        """A reply is lost, and somebody says what became of the attempt; then once more."""
        key = self.under_way(which, actor)
        made = self.model.standing(key)
        self.outcome_of(made, "ambiguous")
        for _ in range(2):
            self.give_answer(made, state, by, ", of the attempt that stands")

    def give_answer(self, made: Made, state: str, by: str, about: str) -> None:
        if by == "person":
            self.resolve_at(made.key, state, made.attempt, made.owner, about)
        elif by == "person, by the attempt alone":
            self.resolve_at(made.key, state, made.attempt, None, about)
        else:
            says = "not_executed" if state == "failed" else "committed"
            self.hook_says(made, says if by == "hook" else "unknown")

    @rule(
        which=WHICH,
        actor=ACTORS,
        ending=ENDINGS,
        state=st.sampled_from(["committed", "failed"]),
        by=st.sampled_from(["person", "person, by the attempt alone", "hook"]),
        is_lost=st.sampled_from([True, True, False]),
    )
    def find_out_late(
        self, which: int, actor: str, ending: str, state: str, by: str, is_lost: bool
    ) -> None:
        """An answer about an attempt that was replaced, by one that is perhaps unknown as well."""
        made = self.replaced(which, actor, ending)
        if is_lost:
            self.outcome_of(self.model.standing(made.key), "ambiguous")
        self.give_answer(made, state, by, ", of an earlier attempt")

    @rule(which=WHICH, actor=ACTORS, state=st.sampled_from(["committed", "failed"]), is_next=st.booleans())
    def find_out_another(self, which: int, actor: str, state: str, is_next: bool) -> None:
        """An answer about another action's attempt, or about one that is not there yet."""
        key = self.under_way(which, actor)
        held = self.model.effects[key]
        self.lose_at(key, held.owner)
        other = "act_b" if held.owner == "act_a" else "act_a"
        seen = (held.attempt + 1, held.owner) if is_next else (held.attempt, other)
        self.resolve_at(key, state, *seen, ", of no attempt" if is_next else ", of another action")

    @rule(
        which=WHICH,
        actor=ACTORS,
        token=TOKENS,
        meanwhile=st.sampled_from(
            ["nothing", "lapsed", "lost", "resolved", "committed", "replaced", "suspended again"]
        ),
    )
    def suspend(self, which: int, actor: str, token: str, meanwhile: str) -> None:
        """A call is suspended; its token is presented, and presented once more."""
        key = self.under_way(which, actor)
        made, held = self.model.standing(key), self.model.effects[key]
        if not self.suspend_it(made, token):
            return
        if meanwhile == "lapsed":
            self.run_out(held)
        elif meanwhile == "replaced":
            self.put_in_place(key, actor, "failed")
        elif meanwhile == "committed":
            self.commit_at(key, made.owner)
        elif meanwhile == "suspended again":
            self.suspend_it(made, f"{token}, again")
        elif meanwhile in ("lost", "resolved"):
            self.lose_at(key, made.owner)
        if meanwhile == "resolved":
            self.resolve_at(key, "failed")
        for _ in range(2):
            self.take_it(token, f", {meanwhile} meanwhile")

    @rule(which=WHICH, actor=ACTORS, ending=ENDINGS, token=TOKENS)
    def suspend_late(self, which: int, actor: str, ending: str, token: str) -> None:
        """An attempt is to be suspended when another stands in its place."""
        self.suspend_it(self.replaced(which, actor, ending), token)

    @rule(
        which=WHICH,
        actor=ACTORS,
        meanwhile=st.sampled_from(
            ["nothing", "its end", "its end passed", "denied", "busy", "another action"]
        ),
    )
    def spend(self, which: int, actor: str, meanwhile: str) -> None:
        """An approval is asked for, answered, and presented more than once."""
        name = f"apr_n{len(self.model.approvals)}"
        self.put(name)
        self.answer_it(name, is_granted=meanwhile != "denied")
        if meanwhile in ("its end", "its end passed"):
            late = TICK if meanwhile == "its end passed" else 0 * TICK
            self.clock.now = self.model.approvals[name].expires_at + late
        if meanwhile == "busy":
            self.spend_at(self.under_way(which, actor), actor, name)
        elif meanwhile == "another action":
            self.spend_at(f"n{len(self.model.effects)}", actor, name, "sha256:" + "cd" * 32)
        for _ in range(2):
            self.spend_at(f"n{len(self.model.effects)}", actor, name)
        self.consume_it(name)


def play(backend: str, examples: int, steps: int = 30, **options: Any) -> Counter[tuple[str, str]]:
    """Play that many games of so many steps on a store; how often each call had each verdict.

    A Difference says how to play one again. `options` are of Hypothesis' settings.
    """
    seen: Counter[tuple[str, str]] = Counter()
    machine = type(f"{backend}Stories", (Stories,), {"backend": backend, "seen": seen})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            **options,
        ),
    )
    return seen
