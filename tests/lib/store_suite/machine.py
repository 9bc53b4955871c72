"""Random games against the plain model: equal verdicts and equal records in every store.

Some rules make any call at any time. Others tell a story: chance alone seldom gets as far as an
answer about an attempt that was replaced, so they first bring about what they need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from ctrlrun.effect import EffectState
from ctrlrun.errors import CTRLRunError
from tests.lib.store_suite.compared import HASH, Compared, said
from tests.lib.store_suite.hands import SUSPENDED
from tests.lib.store_suite.helpers import LEASE, SECOND, TICK, action, event, receipt
from tests.lib.store_suite.model import HELD, Held, Made

OTHER_HASH = "sha256:" + "cd" * 32
KEYS = st.sampled_from(["k1", "k2", "k3"])
WHICH = st.integers(0, 2)
"""Of the keys, or attempts, that are as a rule wants them; taken round."""
ACTORS = st.sampled_from(["act_a", "act_b"])
APPROVALS = st.sampled_from(["apr_1", "apr_2", "apr_3"])
TOKENS = st.sampled_from(["t1", "t2", "t3"])
OUTCOMES = st.sampled_from(["committed", "failed", "ambiguous"])
ENDINGS = st.sampled_from(["failed", "lost", "lapsed"])
"""How an attempt ends so that another may stand in its place."""

LATE = ("commit", "fail", "lose", "extend", "extend far", "hold")
"""What a holder calls, and may call too late."""

MEANWHILE = st.sampled_from(
    ["nothing", "its end", "its end passed", "contended", "committed", "failed"]
)
"""What becomes of an attempt while its executor is slow; the last two are answers about it."""

HASHES = st.sampled_from([HASH, HASH, OTHER_HASH])


def new(prefix: str, taken: Mapping[str, object]) -> str:
    """The first name with a number that is not taken."""
    return next(name for n in count(1) if (name := f"{prefix}{n}") not in taken)


class Calls(Compared):
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

    @rule(key=KEYS, actor=ACTORS, verb=st.sampled_from(["reserve", "begin", *LATE]), token=TOKENS)
    def call(self, key: str, actor: str, verb: str, token: str) -> None:
        self.call_at(verb, key, actor, token)

    @rule(key=KEYS, state=st.sampled_from(["committed", "failed"]), attempt=st.integers(0, 3))
    def resolve(self, key: str, state: str, attempt: int) -> None:
        self.resolve_at(key, state, attempt or None)

    @rule(token=st.sampled_from(["t1", "t2", "t3", ""]))
    def take(self, token: str) -> None:
        self.take_it(token)

    @rule(
        approval_id=APPROVALS,
        action_hash=HASHES,
        verb=st.sampled_from(["ask", "approve", "deny", "consume"]),
    )
    def approval(self, approval_id: str, action_hash: str, verb: str) -> None:
        if verb == "ask":
            self.put(approval_id)
        elif verb == "consume":
            self.consume_it(approval_id, action_hash)
        else:
            self.answer_it(approval_id, is_granted=verb == "approve")

    @rule(approval_id=APPROVALS, key=KEYS, actor=ACTORS, action_hash=HASHES)
    def consume_and_reserve(self, approval_id: str, key: str, actor: str, action_hash: str) -> None:
        self.spend_at(key, actor, approval_id, action_hash)

    @precondition(lambda self: self.backend != "memory")
    @rule(is_crash=st.booleans())
    def reopen(self, is_crash: bool) -> None:
        """Another opening of the same store; after a crash the old one was never closed."""
        if is_crash:
            self.left_behind.append(self.store)
        else:
            self.store.close()
        self.store = self.open_again()
        self.seen["open after a crash" if is_crash else "open again", "ok"] += 1

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
        return keys[which % len(keys)] if keys else new("k", effects)

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

    def happens_to(self, key: str, actor: str, meanwhile: str) -> None:
        """Let it happen to the attempt that is under way."""
        held = self.model.effects[key]
        if meanwhile == "its end":
            self.run_out(held, 0 * TICK)
        elif meanwhile != "nothing":
            self.run_out(held)
        if meanwhile in ("contended", "committed", "failed"):
            self.reserve_at(key, actor)
        if meanwhile in ("committed", "failed"):
            self.resolve_at(key, meanwhile)

    # --- the stories -------------------------------------------------------------------------------

    @rule(which=WHICH, actor=ACTORS, ending=ENDINGS)
    def replace(self, which: int, actor: str, ending: str) -> None:
        """Another attempt, perhaps of the same action, stands where one was."""
        self.put_in_place(self.under_way(which, actor), actor, ending)

    @rule(which=WHICH, actor=ACTORS, meanwhile=MEANWHILE, state=OUTCOMES)
    def end(self, which: int, actor: str, meanwhile: str, state: str) -> None:
        """An executor ends, in time or not; then somebody asks again."""
        made = self.model.standing(self.under_way(which, actor))
        self.happens_to(made.key, actor, meanwhile)
        self.outcome_of(made, state)
        self.reserve_at(made.key, actor)

    @rule(which=WHICH, actor=ACTORS, ending=ENDINGS, meanwhile=MEANWHILE, state=OUTCOMES)
    def end_late(self, which: int, actor: str, ending: str, meanwhile: str, state: str) -> None:
        """An executor ends when another attempt stands in its place."""
        made = self.replaced(which, actor, ending)
        self.happens_to(made.key, actor, meanwhile)
        self.outcome_of(made, state)

    @rule(which=WHICH, actor=ACTORS, ending=ENDINGS, verb=st.sampled_from(["begin", *LATE]))
    def call_late(self, which: int, actor: str, ending: str, verb: str) -> None:
        """A program without the kernel calls the store for an attempt that was replaced."""
        made = self.replaced(which, actor, ending)
        self.call_at(verb, made.key, made.owner, "t1")

    @rule(which=WHICH, actor=ACTORS, meanwhile=MEANWHILE)
    def fence(self, which: int, actor: str, meanwhile: str) -> None:
        """An executor looks before it sends, in time or not."""
        made = self.model.standing(self.under_way(which, actor))
        self.happens_to(made.key, actor, meanwhile)
        self.fence_of(made)

    @rule(which=WHICH, actor=ACTORS, ending=ENDINGS, meanwhile=MEANWHILE)
    def fence_late(self, which: int, actor: str, ending: str, meanwhile: str) -> None:
        """An executor looks when another attempt stands in its place."""
        made = self.replaced(which, actor, ending)
        self.happens_to(made.key, actor, meanwhile)
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

    @rule(
        which=WHICH,
        actor=ACTORS,
        state=st.sampled_from(["committed", "failed"]),
        is_next=st.booleans(),
    )
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
            ["nothing", "no key", "its end", "its end passed", "denied", "busy", "another action"]
        ),
    )
    def spend(self, which: int, actor: str, meanwhile: str) -> None:
        """An approval is asked for, answered, and presented more than once."""
        name = new("apr_", self.model.approvals)
        self.put(name)
        self.answer_it(name, is_granted=meanwhile != "denied")
        self.answer_it(name, is_granted=meanwhile == "denied")
        if meanwhile in ("its end", "its end passed"):
            late = TICK if meanwhile == "its end passed" else 0 * TICK
            self.clock.now = self.model.approvals[name].expires_at + late
        if meanwhile == "no key":
            self.consume_it(name)
        elif meanwhile == "busy":
            self.spend_at(self.under_way(which, actor), actor, name)
        elif meanwhile == "another action":
            self.spend_at(new("k", self.model.effects), actor, name, OTHER_HASH)
        for _ in range(2):
            self.spend_at(new("k", self.model.effects), actor, name)
        self.consume_it(name)


ROUND = 10
"""Games that are played in one run of Hypothesis: from the eleventh on they are mostly variants of
each other, and much is then met often or never."""


def play(
    backend: str, games: int, first_seed: int, steps: int = 30, **options: Any
) -> Counter[tuple[str, str]]:
    """Play that many games of so many steps on a store; how often each call had each verdict.

    The same seed plays the same games. A Difference carries the shortest game that shows it.
    `options` are of Hypothesis' settings.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for number, played in enumerate(range(0, games, ROUND)):
        machine = type(f"{backend}Stories", (Stories,), {"backend": backend, "seen": seen})
        run_state_machine_as_test(
            seed(first_seed + number)(machine),
            settings=settings(
                max_examples=min(ROUND, games - played),
                stateful_step_count=steps,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                **options,
            ),
        )
    return seen
