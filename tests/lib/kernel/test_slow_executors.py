"""Slow executors: fence, remaining, keep_alive, the two keys, and what is written down of a holder."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import ctrlrun
from ctrlrun import clock
from ctrlrun.clock import utc_now
from ctrlrun.control import executing
from ctrlrun.effect import EffectState
from ctrlrun.errors import (
    AmbiguousEffect,
    DuplicateEffect,
    InvalidArgument,
    LeaseLost,
    NotExecuted,
    Suspended,
)
from ctrlrun.provider_keys import attempt_key_for, idempotency_key_for
from ctrlrun.state import InMemoryStateStore
from tests.cases import walk
from tests.lib.kernel.test_paths import raising
from tests.lib.kernel.world import World

Make = Callable[..., World]

KEY = "pay:p1"
PATIENCE = 30.0
ALLOWED = "schema: ctrlrun.policy/v2\nactions:\n  pay:\n    decision: allow\n"


def lapse(w: World) -> None:
    w.clock.pass_(minutes=6)


def contend(w: World) -> None:
    """Somebody else tries the same effect, and is refused."""
    with pytest.raises(AmbiguousEffect):
        w.control.execute(w.action(), lambda: None, KEY)


def answer(w: World, state: EffectState) -> None:
    w.store.resolve_effect(KEY, state, "cli:local")


# --- fence ---------------------------------------------------------------------------------------


def nothing(w: World) -> None:
    pass


def lapses(w: World) -> None:
    lapse(w)


def is_contended(w: World) -> None:
    lapse(w)
    contend(w)


def is_resolved(state: EffectState) -> Callable[[World], None]:
    def happens(w: World) -> None:
        is_contended(w)
        answer(w, state)

    return happens


def is_taken(w: World) -> None:
    is_resolved(EffectState.FAILED)(w)
    w.store.reserve_effect(KEY, "act_rival")


def is_replaced(w: World) -> None:
    is_resolved(EffectState.FAILED)(w)
    w.control.execute(w.action(), lambda: None, KEY)


@walk(
    ("happens", "reason", "own", "state"),
    [
        (nothing, None, True, "committed"),
        (lapses, "lapsed", True, "failed"),
        (is_contended, "lapsed", False, "ambiguous"),
        (is_resolved(EffectState.COMMITTED), "resolved", False, "committed"),
        (is_resolved(EffectState.FAILED), "resolved", False, "failed"),
        (is_taken, "taken", False, "reserved"),
        (is_replaced, "taken", False, "committed"),
    ],
)
def test_the_fence(
    world: Make, happens: Callable[[World], None], reason: str | None, own: bool, state: str
) -> None:
    w = world()
    acts: list[str] = []
    found: list[Any] = []

    def executor() -> None:
        happens(w)
        found.append(w.store.get_effect(KEY))
        ctrlrun.fence()
        acts.append("acted")

    error = w.caught(executor=executor)
    assert w.state() == state
    if reason is None:
        assert (error, acts) == (None, ["acted"])
        return
    assert isinstance(error, LeaseLost)
    assert (error.effect_key, error.attempt, error.reason) == (KEY, 1, reason)
    assert acts == []
    assert isinstance(error, NotExecuted)
    last = w.store.events()[-1]
    assert (last.type, last.effect_key) == ("EXECUTION_FAILED", KEY)
    receipt = w.last
    text = str(error) if own else f"LeaseLost: {error}"
    assert last.data == {"error": text}
    assert (receipt.result, receipt.error, receipt.attempt) == ("failed", text, 1)
    if not own:
        assert w.store.get_effect(KEY) == found[0]  # to the letter


class Time:
    """Time that passes on the clock and since boot alike."""

    def __init__(self, w: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._clock = w.clock
        self._booted = timedelta(days=2)
        monkeypatch.setattr(clock, "since_boot", lambda: self._booted)

    def passes(self, minutes: int) -> None:
        self._clock.pass_(minutes=minutes)
        self._booted += timedelta(minutes=minutes)


def test_a_clock_that_is_set_back_makes_no_lease_longer(
    world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock goes on for four minutes, is set back by an hour, and goes on for two."""
    w = world()
    time = Time(w, monkeypatch)

    def executor() -> None:
        time.passes(4)
        assert ctrlrun.remaining(timedelta(0)) == timedelta(minutes=1)
        w.clock.pass_(hours=-1)
        assert ctrlrun.remaining(timedelta(0)) == timedelta(minutes=1)
        time.passes(2)
        assert ctrlrun.remaining(timedelta(0)) == timedelta(0)
        ctrlrun.fence()

    error = w.caught(executor=executor)
    assert isinstance(error, LeaseLost) and error.reason == "lapsed"


def test_a_lease_is_kept_alive_over_a_clock_that_is_set_back(
    world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world()
    time = Time(w, monkeypatch)
    beats = Beats(monkeypatch)
    began = w.clock()

    def executor() -> None:
        time.passes(4)
        with ctrlrun.keep_alive(OFTEN):
            w.clock.pass_(hours=-1)
            beats.next_two()
            time.passes(4)
            beats.next_two()
            record = w.store.get_effect(KEY)
            assert record.lease_expires_at == began + timedelta(minutes=4 + 4 + 5)
            ctrlrun.fence()

    assert w.caught(executor=executor) is None


@pytest.mark.parametrize("jitter", [timedelta(milliseconds=2), timedelta(seconds=30)])
def test_a_clock_that_goes_to_and_fro_is_no_faster(
    jitter: timedelta, monkeypatch: pytest.MonkeyPatch
) -> None:
    booted = timedelta(days=2)
    monkeypatch.setattr(clock, "since_boot", lambda: booted)
    wall = utc_now()
    steady = clock.SteadyClock(lambda: wall)
    began = shown = steady()
    for step in range(200):
        booted += timedelta(milliseconds=10)
        wall = began + timedelta(milliseconds=10 * (step + 1)) + (jitter if step % 2 else -jitter)
        before, shown = shown, steady()
        assert before <= shown <= began + timedelta(milliseconds=10 * (step + 1)) + jitter


def test_threads_that_read_a_clock_at_once_make_it_no_faster() -> None:
    began = utc_now()
    steady = clock.SteadyClock(lambda: datetime.now(UTC))  # any clock but the system's own
    with ThreadPoolExecutor(8) as pool:
        shown = max(pool.map(lambda _: max(steady() for _ in range(2_000)), range(8)))
    assert began <= shown <= utc_now()


def test_the_system_s_clock_is_held_to_the_time_since_boot(monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryStateStore()
    control = ctrlrun.Control(ctrlrun.Policy.from_yaml(ALLOWED), store)
    since_boot = clock.since_boot
    left: list[timedelta] = []

    def executor() -> None:
        ctrlrun.fence()
        for minutes in (4, 6):  # that passed, while the system's clock was set back as often
            passed = timedelta(minutes=minutes)
            monkeypatch.setattr(clock, "since_boot", lambda: since_boot() + passed)  # noqa: B023
            left.append(ctrlrun.remaining(timedelta(0)))
        record = store.get_effect(KEY)
        assert record is not None and record.lease_is_live(clock.utc_now())
        ctrlrun.fence()

    with pytest.raises(LeaseLost):
        control.execute(ctrlrun.Action("pay", {}, ctrlrun.Principal("a")), executor, KEY)
    assert timedelta(0) < left[0] <= timedelta(minutes=1)
    assert left[1] == timedelta(0)


def test_exactly_at_its_end_the_lease_still_holds(world: Make) -> None:
    w = world()

    def executor() -> None:
        w.clock.pass_(minutes=5)
        ctrlrun.fence()

    assert w.caught(executor=executor) is None


def test_a_fence_that_failed_stays_failed_and_frees_the_effect(world: Make) -> None:
    w = world()

    def executor() -> None:
        lapse(w)
        for _ in range(2):
            with pytest.raises(LeaseLost):
                ctrlrun.fence()
        ctrlrun.fence()

    assert isinstance(w.caught(executor=executor), LeaseLost)
    assert w.run().attempt == 2


def test_observed_the_evidence_is_the_same(world: Make) -> None:
    w = world("observe")

    # A contender that is observed runs as well, so the key is contended for by hand.
    def contended() -> None:
        lapse(w)
        with pytest.raises(AmbiguousEffect):
            w.store.reserve_effect(KEY, "act_rival")
        answer(w, EffectState.FAILED)
        ctrlrun.fence()

    error = w.caught(executor=contended)
    assert isinstance(error, LeaseLost)
    assert (w.last.result, w.last.execution) == ("observed", "failed")
    assert (w.last.error or "").startswith("LeaseLost: ")


def test_a_fence_reads_once_and_writes_nothing(clock: Any) -> None:
    store = InMemoryStateStore(clock=clock)
    w = World(store, clock)

    def executor() -> None:
        token, before = store.change_token(), store.events()
        ctrlrun.fence()
        assert (store.change_token(), store.events()) == (token, before)

    assert w.caught(executor=executor) is None


def test_a_fence_that_cannot_read_is_a_lost_outcome(clock: Any) -> None:
    store = InMemoryStateStore(clock=clock)
    w = World(store, clock)

    def broken(effect_key: str) -> None:
        raise OSError("disk gone")

    def executor() -> None:
        patch.setattr(store, "get_effect", broken)
        try:
            ctrlrun.fence()
        finally:
            patch.undo()

    patch = pytest.MonkeyPatch()
    assert isinstance(w.caught(executor=executor), OSError)
    assert w.state() == "ambiguous"


@walk("before", ["a fence that passed", "a suspension"])
def test_what_may_have_gone_out_before_is_not_unsent(world: Make, before: str) -> None:
    """A retry loop that fences before each try has perhaps sent the first."""
    w = world()

    def rest() -> None:
        lapse(w)
        ctrlrun.fence()

    def executor() -> None:
        ctrlrun.fence()
        if before == "a suspension":
            raise Suspended("tok")
        rest()

    error = w.caught(executor=executor)
    if before == "a suspension":
        assert isinstance(error, Suspended)
        with pytest.raises(LeaseLost):
            w.control.resume("tok", rest)
    else:
        assert isinstance(error, LeaseLost)
    assert w.state() == "ambiguous"
    assert w.last.result == "ambiguous"
    with pytest.raises(AmbiguousEffect):
        w.run()


def test_the_fence_of_a_call_inside_says_nothing_about_the_call_around(world: Make) -> None:
    w = world()

    def inner() -> None:
        lapse(w)
        ctrlrun.fence()

    def outer() -> None:
        w.control.execute(w.action(7), inner, "pay:inner")

    error = w.caught(executor=outer)
    assert isinstance(error, LeaseLost)
    assert error.effect_key == "pay:inner"
    assert w.state("pay:inner") == "failed"
    assert w.state() == "ambiguous"


def test_the_fence_of_another_store_is_no_word_about_this_effect(world: Make) -> None:
    """Key and attempt are the same in both: what was sent here was sent all the same."""
    w = world()
    elsewhere = InMemoryStateStore(clock=w.clock)
    other = ctrlrun.Control(w.control.policy, elsewhere, clock=w.clock)
    sent: list[str] = []

    def inner() -> None:
        lapse(w)
        ctrlrun.fence()

    def outer() -> None:
        sent.append("sent")
        other.execute(w.action(), inner, KEY)

    error = w.caught(executor=outer)
    assert isinstance(error, LeaseLost)
    assert (error.effect_key, error.attempt) == (KEY, 1)
    inside = elsewhere.get_effect(KEY)
    assert inside is not None
    assert (inside.state, w.state()) == (EffectState.FAILED, "ambiguous")
    with pytest.raises(AmbiguousEffect):
        w.run()
    assert sent == ["sent"]


@walk("answered", [None, EffectState.FAILED, EffectState.COMMITTED])
def test_a_return_that_comes_too_late_is_told_in_the_evidence(
    world: Make, answered: EffectState | None
) -> None:
    w = world()

    def executor() -> dict[str, str]:
        lapse(w)
        contend(w)
        if answered is not None:
            answer(w, answered)
        return {"id": "re_1"}

    error = w.caught(executor=executor)
    said = 'the executor has returned {"id":"re_1"} all the same'
    assert isinstance(error, AmbiguousEffect | DuplicateEffect)
    assert said in str(error)
    assert w.last.result == "ambiguous"
    assert w.last.error == f"{type(error).__name__}: {error}"
    if answered is EffectState.FAILED:
        assert "failed, as cli:local answered" in str(error)
    assert w.state() == ("ambiguous" if answered is None else answered)


def test_a_late_outcome_never_lands_on_a_later_attempt_of_the_same_action(world: Make) -> None:
    """One Action executed again keeps its id: the attempt tells the two apart."""
    w = world()
    action = w.action()

    def replaced() -> None:
        lapse(w)
        contend(w)
        answer(w, EffectState.FAILED)
        w.store.reserve_effect(KEY, action.action_id)
        w.store.begin_execution(KEY, action.action_id)

    for ending, result in ((lambda: "done", "ambiguous"), (ctrlrun.fence, "failed")):

        def executor(ending: Callable[[], object] = ending) -> object:
            replaced()
            return ending()

        error = w.caught(action=action, executor=executor)
        assert isinstance(error, (AmbiguousEffect, LeaseLost))
        record = w.store.get_effect(KEY)
        assert record.state is EffectState.EXECUTING
        assert record.attempt == w.last.attempt + 1
        assert w.last.result == result
        w.store.fail_effect(KEY, action.action_id, "freed")


# --- where it is valid ---------------------------------------------------------------------------


def keeping() -> None:
    with ctrlrun.keep_alive():
        pass


ASKED: list[Callable[[], object]] = [
    ctrlrun.fence,
    ctrlrun.remaining,
    keeping,
    ctrlrun.idempotency_key,
    ctrlrun.attempt_key,
]


@walk("asked", ASKED)
def test_outside_of_executors_they_are_wiring_errors(
    world: Make, asked: Callable[[], object]
) -> None:
    w = world()
    with pytest.raises(InvalidArgument, match="no protected call runs here"):
        asked()
    seen: list[BaseException] = []

    def hook(effect_key: str) -> str:
        with pytest.raises(InvalidArgument) as caught:
            asked()
        seen.append(caught.value)
        return "unknown"

    def lost() -> None:
        asked()
        raise TimeoutError

    def around() -> None:
        """A hook of a call inside an executor is in no executor either."""
        with pytest.raises(TimeoutError):
            w.control.execute(w.action(7), lost, "pay:i", reconcile=hook, reconcile_eagerly=True)
        asked()

    assert w.caught(executor=around) is None
    assert len(seen) == 1
    with pytest.raises(InvalidArgument):
        asked()


def in_thread(work: Callable[[], object]) -> object:
    """What the work returns or raises in a thread of its own."""
    ended: list[object] = []

    def run() -> None:
        try:
            ended.append(work())
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    return ended[0]


def test_a_thread_finds_the_call_in_a_copied_context_until_it_is_over(world: Make) -> None:
    w = world()
    copied: list[Any] = []

    def executor() -> None:
        assert isinstance(in_thread(ctrlrun.fence), InvalidArgument)
        copied.append(copy_context())
        assert in_thread(lambda: copied[0].run(ctrlrun.fence)) is None

    assert w.caught(executor=executor) is None
    assert isinstance(in_thread(lambda: copied[0].run(ctrlrun.fence)), InvalidArgument)


def test_a_decorated_function_is_an_executor(clock: Any) -> None:
    w = World(InMemoryStateStore(clock=clock), clock)

    @ctrlrun.protect("pay", effect="pay:{payment_id}", control=w.control)
    def pay(payment_id: str, amount: int) -> str:
        ctrlrun.fence()
        return ctrlrun.idempotency_key()

    with ctrlrun.context(agent="a"):
        assert pay("p1", 100) == idempotency_key_for("production", "pay:p1")


# --- calls without a hold ------------------------------------------------------------------------


def test_without_an_effect_key_there_is_nothing_to_lose(world: Make) -> None:
    w = world()

    def executor() -> None:
        assert ctrlrun.remaining() == timedelta(minutes=4, seconds=55)
        lapse(w)
        ctrlrun.fence()
        assert ctrlrun.remaining() == timedelta(0)
        with ctrlrun.keep_alive():
            assert not beating()
        for key in (ctrlrun.idempotency_key, ctrlrun.attempt_key):
            with pytest.raises(InvalidArgument, match="pay has none"):
                key()

    assert w.caught(key=None, executor=executor) is None


def test_an_observed_call_that_lost_the_key_runs_without_a_hold(world: Make) -> None:
    w = world("observe")
    w.run()

    def executor() -> None:
        lapse(w)
        ctrlrun.fence()
        with ctrlrun.keep_alive():
            assert not beating()
        assert ctrlrun.idempotency_key() == idempotency_key_for("production", KEY)

    assert w.caught(executor=executor) is None
    assert (w.last.would_have or {})["blocked_reason"] == "duplicate"


# --- remaining -----------------------------------------------------------------------------------


def test_remaining_is_the_lease_less_a_margin(world: Make) -> None:
    w = world()

    def executor() -> None:
        assert ctrlrun.remaining() == timedelta(seconds=55)
        assert ctrlrun.remaining(timedelta(0)) == timedelta(minutes=1)
        w.clock.pass_(seconds=40)
        assert ctrlrun.remaining(margin=timedelta(seconds=15)) == timedelta(seconds=5)
        assert ctrlrun.remaining(timedelta(days=1)) == timedelta(0)
        w.clock.pass_(hours=1)
        assert ctrlrun.remaining() == timedelta(0)

    assert w.caught(executor=executor, lease=timedelta(minutes=1)) is None


@walk("margin", [5, None, True, timedelta(seconds=-1)])
def test_a_margin_is_a_length_of_time(world: Make, margin: Any) -> None:
    w = world()

    def executor() -> None:
        with pytest.raises(InvalidArgument, match="margin"):
            ctrlrun.remaining(margin)

    assert w.caught(executor=executor) is None


# --- keep_alive ----------------------------------------------------------------------------------


def beating() -> bool:
    return any(thread.name == "ctrlrun-keep-alive" for thread in threading.enumerate())


class Beats:
    """Counts the extensions that are asked for, so that a test can wait for the next."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._changed = threading.Condition()
        extend = executing.Running.extend

        def counted(running: executing.Running) -> None:
            extend(running)
            with self._changed:
                self.count += 1
                self._changed.notify_all()

        patch.setattr(executing.Running, "extend", counted)

    def next_two(self) -> None:
        """Wait until one extension has begun and ended from here on."""
        with self._changed:
            seen = self.count
            assert self._changed.wait_for(lambda: self.count >= seen + 2, PATIENCE)


OFTEN = timedelta(milliseconds=5)


def test_a_lease_that_is_kept_alive_does_not_lapse(
    world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world()
    beats = Beats(monkeypatch)

    def executor() -> None:
        with ctrlrun.keep_alive(OFTEN):
            for _ in range(3):
                w.clock.pass_(minutes=4)
                beats.next_two()
                assert w.store.get_effect(KEY).lease_expires_at == w.clock() + timedelta(minutes=5)
                assert ctrlrun.remaining(timedelta(0)) == timedelta(minutes=5)
                ctrlrun.fence()
        assert not beating()

    assert w.caught(executor=executor) is None
    assert w.codes() == "PROP EVAL RES START COM"  # an extension leaves no event


def test_entering_extends_at_once_and_never_shortens(world: Make) -> None:
    w = world()

    def executor() -> None:
        far = w.clock() + timedelta(hours=1)
        w.clock.pass_(minutes=4)
        with ctrlrun.keep_alive():
            assert w.store.get_effect(KEY).lease_expires_at == w.clock() + timedelta(minutes=5)
        w.store.extend_lease(KEY, w.calls[-1], far)
        with ctrlrun.keep_alive():
            assert w.store.get_effect(KEY).lease_expires_at == far

    assert w.caught(executor=executor) is None


@pytest.mark.parametrize(
    ("happens", "reason"),
    [(lapses, "lapsed"), (is_contended, "lapsed"), (is_taken, "taken")],
    ids=["lapsed", "contended", "taken"],
)
def test_an_extension_that_is_refused_is_raised_by_the_next_fence(
    world: Make,
    monkeypatch: pytest.MonkeyPatch,
    happens: Callable[[World], None],
    reason: str,
) -> None:
    w = world()
    beats = Beats(monkeypatch)

    def executor() -> None:
        with ctrlrun.keep_alive(OFTEN):
            happens(w)
            before = w.store.get_effect(KEY)
            beats.next_two()
            assert w.store.get_effect(KEY) == before
            assert ctrlrun.remaining(timedelta(0)) == timedelta(0)
            ctrlrun.fence()

    error = w.caught(executor=executor)
    assert isinstance(error, LeaseLost)
    assert error.reason == reason


def test_a_lease_that_was_lost_is_lost_whatever_the_record_says_later(
    world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that is set back makes the record look live again; a contender may have seen it."""
    w = world()
    beats = Beats(monkeypatch)

    def executor() -> None:
        with ctrlrun.keep_alive(OFTEN):
            w.clock.pass_(minutes=20)
            beats.next_two()
            w.clock.pass_(minutes=-20)
            ctrlrun.fence()

    error = w.caught(executor=executor)
    assert isinstance(error, LeaseLost)
    assert error.reason == "lapsed"


def test_a_store_that_fails_does_not_lose_the_lease(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = InMemoryStateStore(clock=clock)
    w = World(store, clock)
    beats = Beats(monkeypatch)
    extend = store.extend_lease
    broken = threading.Event()

    def extended(effect_key: str, action_id: str, until: datetime) -> None:
        if broken.is_set():
            raise OSError("disk gone")
        extend(effect_key, action_id, until)

    monkeypatch.setattr(store, "extend_lease", extended)

    def executor() -> None:
        with ctrlrun.keep_alive(OFTEN):
            broken.set()
            w.clock.pass_(minutes=4)
            beats.next_two()
            ctrlrun.fence()
            broken.clear()
            beats.next_two()
            w.clock.pass_(minutes=4)
            ctrlrun.fence()

    assert w.caught(executor=executor) is None


@walk("every", [1, True, timedelta(0), timedelta(-1), timedelta(minutes=5)])
def test_an_interval_is_positive_and_shorter_than_the_lease(world: Make, every: Any) -> None:
    w = world()

    def executor() -> None:
        with pytest.raises(InvalidArgument, match="every"), ctrlrun.keep_alive(every):
            pass
        assert not beating()

    assert w.caught(executor=executor) is None


@walk("leaves", [ValueError("x"), KeyboardInterrupt(), Suspended("tok")])
def test_however_the_block_is_left_the_thread_ends(world: Make, leaves: BaseException) -> None:
    w = world()

    def executor() -> None:
        with ctrlrun.keep_alive(OFTEN):
            assert beating()
            raise leaves

    assert w.caught(executor=executor) is leaves
    assert not beating()


# --- keys ----------------------------------------------------------------------------------------


def test_one_key_for_the_effect_and_one_for_each_attempt(world: Make) -> None:
    w = world()
    seen: list[tuple[str, str]] = []

    def executor() -> None:
        seen.append((ctrlrun.idempotency_key(), ctrlrun.attempt_key()))

    def refused() -> None:
        executor()
        raise NotExecuted("declined")

    def held() -> None:
        executor()
        raise Suspended("tok")

    w.caught(executor=refused)
    w.caught(executor=held)
    w.control.resume("tok", executor)
    effect = idempotency_key_for("production", KEY)
    second = attempt_key_for("production", KEY, 2)
    assert seen == [
        (effect, attempt_key_for("production", KEY, 1)),
        (effect, second),
        (effect, second),
    ]
    receipt = w.last
    assert attempt_key_for(receipt.environment, receipt.effect_key or "", receipt.attempt) == second


def test_a_call_inside_has_its_own_keys_and_gives_back_the_outer_ones(world: Make) -> None:
    w = world()
    inside: list[str] = []

    def outer() -> None:
        mine = ctrlrun.idempotency_key()
        w.control.execute(
            w.action(7), lambda: inside.append(ctrlrun.idempotency_key()), "pay:inner"
        )
        assert ctrlrun.idempotency_key() == mine == idempotency_key_for("production", KEY)

    assert w.caught(executor=outer) is None
    assert inside == [idempotency_key_for("production", "pay:inner")]


# --- what is written down of a holder ------------------------------------------------------------


def holders(w: World, attempt: int = 1) -> Any:
    inner = getattr(w.store, "inner", w.store)
    return inner.get_holder(KEY, attempt)


def keeps(w: World) -> bool:
    return hasattr(w.store, "put_holder")


def test_each_attempt_has_its_holder(world: Make) -> None:
    w = world()
    w.caught(executor=raising(NotExecuted("no")))
    w.clock.pass_(seconds=1)
    w.run()
    if not keeps(w):
        assert holders(w) is None
        return
    first, second = holders(w), holders(w, 2)
    assert (first.action_id, second.action_id) == tuple(w.calls)
    assert second.seen_at == w.clock()
    assert first.seen_at == w.clock() - timedelta(seconds=1)
    assert first.thread == threading.current_thread().name


@walk("refused", ["duplicate", "approval"])
def test_who_holds_nothing_is_not_written_down(world: Make, refused: str) -> None:
    w = world()
    if refused == "duplicate":
        w.run()
        assert isinstance(w.caught(), DuplicateEffect)
        assert holders(w, 2) is None
    else:
        assert w.caught(1000, presented="apr_unknown") is not None
        assert holders(w) is None


def test_who_resumes_holds(world: Make) -> None:
    w = world()
    w.caught(executor=raising(Suspended("tok")))
    w.clock.pass_(minutes=1)
    thread = threading.Thread(
        target=lambda: w.control.resume("tok", lambda: None), name="another one"
    )
    thread.start()
    thread.join(PATIENCE)
    assert w.state() == "committed"
    if keeps(w):
        assert (holders(w).thread, holders(w).seen_at) == ("another one", w.clock())


def test_keep_alive_says_that_the_holder_lives_also_after_its_lease(
    world: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    w = world()
    beats = Beats(monkeypatch)

    def executor() -> None:
        with ctrlrun.keep_alive(OFTEN):
            is_contended(w)
            beats.next_two()
            if keeps(w):
                assert holders(w).seen_at == w.clock()

    w.caught(executor=executor)


@pytest.mark.parametrize("name", ["put_holder", "see_holder"])
def test_a_holder_that_cannot_be_written_down_is_in_nobodys_way(
    clock: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = InMemoryStateStore(clock=clock)
    w = World(store, clock)

    def broken(*args: object) -> None:
        raise OSError("no such table: holders")

    monkeypatch.setattr(store, name, broken)

    def executor() -> None:
        with ctrlrun.keep_alive():
            ctrlrun.fence()

    assert w.caught(executor=executor) is None
    assert w.state() == "committed"


@walk("name", ["\x1b[2Jroot", "a\nb", "\ud800", "x" * 1000, "مرحبا", ""])
def test_hostile_names_of_threads_are_kept_as_text(world: Make, name: str) -> None:
    w = world()
    thread = threading.Thread(target=w.run, name=name)
    thread.start()
    thread.join(PATIENCE)
    assert w.state() == "committed"
    if keeps(w):
        assert holders(w).thread.encode("utf-8")
        assert len(holders(w).thread) <= 255


def test_a_unit_that_fails_takes_the_holder_back(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = InMemoryStateStore(clock=clock)
    w = World(store, clock)

    def broken(*args: object) -> None:
        raise OSError("disk gone")

    monkeypatch.setattr(store, "begin_execution", broken)
    assert isinstance(w.caught(), OSError)
    assert (store.get_effect(KEY), store.get_holder(KEY, 1)) == (None, None)


def test_an_extension_that_was_not_committed_is_not_counted_on(
    clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = InMemoryStateStore(clock=clock)
    w = World(store, clock)
    beats = Beats(monkeypatch)
    unit = store.unit
    broken = threading.Event()

    def uncommitted(work: Callable[[], Any], *, durable: bool) -> Any:
        def both() -> Any:
            value = work()
            if broken.is_set():
                raise OSError("disk full at the commit")
            return value

        return unit(both, durable=durable)

    monkeypatch.setattr(store, "unit", uncommitted)

    def executor() -> None:
        with ctrlrun.keep_alive(OFTEN):
            broken.set()
            w.clock.pass_(minutes=4)
            beats.next_two()
            assert ctrlrun.remaining(timedelta(0)) == timedelta(minutes=1)
            w.clock.pass_(minutes=2)
            with pytest.raises(LeaseLost):
                ctrlrun.fence()
        broken.clear()

    assert w.caught(executor=executor) is None
