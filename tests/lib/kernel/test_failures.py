"""Stores that refuse or fail at the worst moment: evidence stays, and nothing becomes known by it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.effect import EffectState
from ctrlrun.errors import (
    AmbiguousEffect,
    CTRLRunError,
    DuplicateEffect,
    InvalidArgument,
    NotExecuted,
    Suspended,
)
from ctrlrun.policy import Policy
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore
from ctrlrun.state.sqlite_connection import open_connection
from tests.cases import walk
from tests.lib.kernel.test_paths import raising
from tests.lib.kernel.world import POLICY, STORES, Clock, SingleCalls, World

Make = Callable[..., World]


class Disk(OSError):
    """The store's own failure: no verdict."""


class Failing:
    """A store whose named calls fail: the first `times` of them, or all."""

    def __init__(self, inner: Any, *calls: str, times: int = 1_000) -> None:
        self.inner = inner
        self.calls = calls
        self.left = times

    def __getattr__(self, name: str) -> Any:
        if name in self.calls and self.left:
            return self._fail
        return getattr(self.inner, name)

    def _fail(self, *args: Any, **kwargs: Any) -> Any:
        self.left -= 1
        raise Disk("full")


def failing(w: World, *calls: str, times: int = 1_000) -> Failing:
    store = Failing(w.store, *calls, times=times)
    w.control = Control(w.policy, store, clock=w.clock, sinks=[w.sink])  # type: ignore[arg-type]
    return store


def declared(w: World) -> None:
    w.store.mark_ambiguous("pay:p1", w.calls[-1], "declared by a contender")


def resolved(state: EffectState) -> Callable[[World], None]:
    def move(w: World) -> None:
        declared(w)
        w.store.resolve_effect("pay:p1", state, "cli:local")

    return move


def taken(w: World) -> None:
    resolved(EffectState.FAILED)(w)
    w.store.reserve_effect("pay:p1", "act_rival")
    w.store.begin_execution("pay:p1", "act_rival")


def taken_by_the_same_action(w: World) -> None:
    resolved(EffectState.FAILED)(w)
    w.store.reserve_effect("pay:p1", w.calls[-1])
    w.store.begin_execution("pay:p1", w.calls[-1])


MOVES = {
    "resolved committed": (resolved(EffectState.COMMITTED), DuplicateEffect),
    "resolved failed": (resolved(EffectState.FAILED), AmbiguousEffect),
    "taken by a rival": (taken, AmbiguousEffect),
    "taken by the same action id": (taken_by_the_same_action, AmbiguousEffect),
}


@walk("move", list(MOVES))
@walk("ends", ["returns", "not executed", "lost"])
def test_an_outcome_whose_record_moved_is_ambiguous_evidence(
    world: Make, move: str, ends: str, caplog: pytest.LogCaptureFixture
) -> None:
    w = world()
    mover, refusal = MOVES[move]
    lost = {"returns": None, "not executed": NotExecuted("no"), "lost": OSError("gone")}[ends]

    def executor() -> object:
        mover(w)
        if lost is not None:
            raise lost
        return None

    error = w.caught(executor=executor, reconcile=raising(OSError()), reconcile_eagerly=True)
    record = w.store.get_effect("pay:p1")
    assert w.codes() == "PROP EVAL RES START AMB"
    assert w.last.result == "ambiguous"
    if ends == "lost":
        assert error is lost
        assert w.last.error == "OSError: gone"
        assert "pay:p1" in caplog.text
    else:
        assert isinstance(error, refusal)
        assert w.last.error == f"{type(error).__name__}: {error}"
    assert record == w.store.get_effect("pay:p1")
    if move.startswith("taken"):
        assert (record.attempt, record.state) == (2, "executing")


def test_an_outcome_is_not_written_over_an_ambiguity(world: Make) -> None:
    w = world()
    assert isinstance(w.caught(executor=lambda: declared(w)), AmbiguousEffect)
    assert w.codes() == "PROP EVAL RES START AMB"
    assert w.state() == "ambiguous"
    assert w.store.get_effect("pay:p1").error == "declared by a contender"


def test_the_holder_may_say_again_that_it_is_ambiguous(world: Make) -> None:
    w = world()

    def executor() -> object:
        declared(w)
        raise OSError("gone")

    assert isinstance(w.caught(executor=executor), OSError)
    assert w.store.get_effect("pay:p1").error == "OSError: gone"


def test_a_commit_that_fails_leaves_the_effect_ambiguous(world: Make) -> None:
    w = world()
    failing(w, "commit_effect")
    error = w.caught()
    assert isinstance(error, Disk)
    assert w.state() == "ambiguous"
    assert w.codes() == "PROP EVAL RES START AMB"
    assert (w.last.result, w.last.error) == ("ambiguous", "Disk: full")


def test_a_store_failure_never_masks_the_executor(
    world: Make, caplog: pytest.LogCaptureFixture
) -> None:
    w = world()
    failing(w, "mark_ambiguous")
    lost = TimeoutError("lost")
    with caplog.at_level(logging.ERROR, "ctrlrun"):
        assert w.caught(executor=raising(lost)) is lost
    assert w.state() == "executing"
    assert "pay:p1" in caplog.text


def test_a_fail_that_fails_is_no_licence_to_retry(world: Make) -> None:
    w = world()
    failing(w, "fail_effect")
    error = w.caught(executor=raising(NotExecuted("no")))
    assert isinstance(error, Disk)
    assert w.state() == "ambiguous"
    assert w.codes() == "PROP EVAL RES START AMB"
    assert (w.last.result, w.last.error) == ("ambiguous", "Disk: full")
    assert isinstance(w.caught(), AmbiguousEffect)


def test_a_failed_call_whose_receipt_is_lost_says_so(world: Make) -> None:
    w = world()
    failing(w, "put_receipt")
    assert isinstance(w.caught(executor=raising(NotExecuted("no"))), Disk)
    assert w.state() == "failed"
    assert w.codes() == "PROP EVAL RES START FAIL"


def test_a_lost_reply_whose_receipt_is_lost_stays_a_lost_reply(world: Make) -> None:
    w = world()
    failing(w, "put_receipt")
    lost = TimeoutError("lost")
    assert w.caught(executor=raising(lost)) is lost
    assert w.state() == "ambiguous"


def test_the_outcome_never_hangs_on_its_receipt(world: Make) -> None:
    w = world()
    failing(w, "put_receipt")
    assert isinstance(w.caught(), Disk)
    assert w.state() == "committed"
    assert w.codes() == "PROP EVAL RES START COM"
    assert w.store.receipts() == ()
    heard = [entry.type for entry in w.sink.heard if not isinstance(entry, Receipt)]
    assert heard == [event.type for event in w.store.events()]


def test_a_refusals_events_never_hang_on_its_receipt(world: Make) -> None:
    w = world()
    failing(w, "put_receipt")
    assert isinstance(w.caught(9000), Disk)
    assert w.codes() == "PROP EVAL DENY"


def test_a_first_unit_that_fails_leaves_nothing(world: Make) -> None:
    w = world()
    failing(w, "begin_execution")
    presented = w.granted(1000)
    assert isinstance(w.caught(1000, presented=presented), Disk)
    assert w.calls == []
    if isinstance(w.store, SingleCalls):  # each call of such a store commits alone
        assert w.codes() == "PROP EVAL CONS* RES*"
        assert w.state() == "reserved"
        return
    assert w.store.events() == ()
    assert w.state() is None
    assert w.store.get_approval(presented).status == "granted"
    assert w.sink.heard == []


def test_a_reservation_lost_before_it_began(world: Make) -> None:
    w = world()

    class Stolen(Failing):
        def _fail(self, *args: Any, **kwargs: Any) -> Any:
            raise InvalidArgument("reserved by nobody")

    store = Stolen(w.store, "begin_execution")
    w.control = Control(w.policy, store, clock=w.clock)  # type: ignore[arg-type]
    presented = w.granted(1000)
    error = w.caught(1000, presented=presented)
    assert isinstance(error, AmbiguousEffect)
    assert w.codes() == "PROP EVAL CONS* RES* REF*"
    assert (w.last.result, w.last.attempt, w.last.approval_id) == ("blocked", 1, presented)
    assert w.calls == []
    assert w.store.get_approval(presented).status == "consumed"


def test_a_receipt_that_fails_on_a_refusal_never_starts_the_executor(clock: Clock) -> None:
    """The second writing of a refusal finds the key free: that path must not stand."""

    class Freed(Failing):
        def _fail(self, *args: Any, **kwargs: Any) -> Any:
            self.freed = True
            raise Disk("full")

        def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
            if getattr(self, "freed", False):
                self.inner.resolve_effect("pay:p1", EffectState.FAILED, "cli:local")
            return self.inner.unit(work, durable=durable)

    inner = InMemoryStateStore(clock=clock)
    w = World(inner, clock)
    w.caught(executor=raising(TimeoutError()))
    events = inner.events()
    w.control = Control(w.policy, Freed(inner, "put_receipt"), clock=clock)  # type: ignore[arg-type]
    assert isinstance(w.caught(), Disk)
    assert len(w.calls) == 1
    assert inner.events() == events
    record = inner.get_effect("pay:p1")
    assert record is not None
    assert record.state == "failed"


class Counting:
    """Counts the transactions of a store, and says which must be on disk."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.units: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
        self.units.append(durable)
        return self.inner.unit(work, durable=durable)


def present_grant(w: World) -> dict[str, Any]:
    return {"amount": 1000, "presented": w.granted(1000)}


@pytest.mark.parametrize(
    ("prepare", "units"),
    [
        (lambda w: {}, [True, False]),
        (lambda w: {"key": None}, [False, False]),
        (present_grant, [True, False]),
        (lambda w: {**present_grant(w), "key": None}, [True, False]),
        (lambda w: {"amount": 9000}, [False]),
        (lambda w: {"amount": 1000}, [False, False]),
        (lambda w: {"executor": raising(OSError())}, [True, False]),
        (lambda w: {"amount": 1000, "presented": "apr_no"}, [True]),
    ],
    ids=["A1", "A2", "A3", "A3 no key", "D4", "N1", "O2", "B1"],
)
def test_what_commits_together(
    clock: Clock, prepare: Callable[[World], dict[str, Any]], units: list[bool]
) -> None:
    store = Counting(InMemoryStateStore(clock=clock))
    w = World(store, clock)
    options = prepare(w)
    store.units.clear()
    w.caught(**options)
    assert store.units == units


def test_work_that_runs_twice_writes_once(clock: Clock) -> None:
    """A store may have to repeat a transaction; nothing of the first run may stay."""

    class Again(Exception):
        pass

    class Repeating(Counting):
        def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
            def lost() -> Any:
                work()
                raise Again

            with pytest.raises(Again):
                self.inner.unit(lost, durable=durable)
            return self.inner.unit(work, durable=durable)

    w = World(Repeating(InMemoryStateStore(clock=clock)), clock)
    receipt = w.run()
    assert w.codes() == "PROP EVAL RES START COM"
    assert [entry.event_id for entry in w.sink.heard if not isinstance(entry, Receipt)] == [
        event.event_id for event in w.store.events()
    ]
    assert len(w.store.receipts()) == 1
    assert receipt == w.store.receipts()[0]
    assert len(w.calls) == 1


def test_a_denial_reuses_and_a_request_is_found_again(world: Make) -> None:
    w = world(reuse_requests=True)
    first = w.caught(1000)
    again = w.caught(1000)
    assert first.request_id == again.request_id  # type: ignore[union-attr]
    assert w.codes() == "PROP EVAL REQ* PROP EVAL REQ*"
    assert w.store.events()[-1].data["reused"] is True
    w.store.deny_approval(first.request_id, "cli:local")  # type: ignore[union-attr]
    denied = w.caught(1000)
    assert isinstance(denied, CTRLRunError)
    assert w.codes().endswith("PROP EVAL ADEN* DENY")
    assert w.last.result == "denied"
    w.clock.pass_(minutes=16)
    later = w.caught(1000)
    assert later.request_id != first.request_id  # type: ignore[union-attr]


@walk(
    ("options", "word"),
    [
        ({"key": ""}, "effect_key"),
        ({"key": 5}, "effect_key"),
        ({"lease": timedelta(0)}, "lease"),
        ({"lease": 5}, "lease"),
    ],
)
def test_wiring_that_cannot_be_right_leaves_no_trace(
    world: Make, options: dict[str, Any], word: str
) -> None:
    w = world()
    error = w.caught(**options)
    assert isinstance(error, InvalidArgument)
    assert word in str(error)
    assert w.store.events() == ()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "wrapped"])
@pytest.mark.parametrize("resumed", [False, True])
def test_no_executor_runs_where_a_rollback_would_forget_it(
    kind: str, resumed: bool, clock: Clock, tmp_path: Path
) -> None:
    w = World(STORES[kind](clock, tmp_path), clock)
    if resumed:
        w.caught(executor=raising(Suspended("tok")))
    before = w.store.events(), list(w.calls)

    def work() -> None:
        w.control.resume("tok", lambda: w.calls.append("resumed")) if resumed else w.run()

    with pytest.raises(InvalidArgument, match="inside a unit"):
        w.store.unit(work, durable=True)
    assert (w.store.events(), w.calls) == before
    work()
    assert w.state() == "committed"


def test_what_cannot_be_called_takes_no_key_and_no_token(world: Make) -> None:
    w = world()
    w.caught(executor=raising(Suspended("tok")))
    events = w.store.events()
    nothing: Any = None
    with pytest.raises(InvalidArgument, match="executor"):
        w.control.execute(w.action(), nothing, "pay:p2")
    with pytest.raises(InvalidArgument, match="executor"):
        w.control.resume("tok", nothing)
    with pytest.raises(InvalidArgument, match="Action"):
        w.control.execute(nothing, lambda: None, "pay:p2")
    assert w.store.events() == events
    assert w.control.resume("tok", lambda: None).result == "committed"


@walk("option", ["approval_ttl", "lease", "suspend_timeout"])
def test_a_time_whose_end_is_no_date_is_refused_up_front(world: Make, option: str) -> None:
    with pytest.raises(InvalidArgument, match="longer than"):
        world(**{option: timedelta.max})


def test_a_foreign_environment_is_refused(world: Make) -> None:
    w = world()
    error = w.caught(action=w.action(environment="staging"))
    assert isinstance(error, InvalidArgument)
    assert "staging" in str(error)
    assert "production" in str(error)
    with pytest.raises(InvalidArgument):
        w.control.evaluate(w.action(environment="staging"))
    assert w.store.events() == ()


# --- who sees the events -------------------------------------------------------------------------


@walk("how", ["subclass", "wrapper", "patched instance"])
def test_whoever_takes_the_place_of_append_event_sees_each(tmp_path: Path, how: str) -> None:
    seen: list[str] = []

    class Sub(SQLiteStateStore):
        def append_event(self, event: Event) -> Event:
            seen.append(str(event.type))
            return super().append_event(event)

    class Wrapper:
        def __init__(self, inner: SQLiteStateStore) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

        def append_event(self, event: Event) -> Event:
            seen.append(str(event.type))
            return self._inner.append_event(event)

    kind = Sub if how == "subclass" else SQLiteStateStore
    with closing(kind(tmp_path / "state.db")) as inner:
        store: Any = inner
        if how == "wrapper":
            store = Wrapper(inner)
        elif how == "patched instance":
            whole = inner.append_event

            def patched(event: Event) -> Event:
                seen.append(str(event.type))
                return whole(event)

            store.append_event = patched
        policy = Policy.from_yaml(POLICY.format(mode="enforce"))
        action = Action("pay", {"amount": 5}, Principal("agent"))
        Control(policy, store).execute(action, lambda: None, "pay:1")
        assert seen == [str(event.type) for event in inner.events()]
        assert len(seen) == 5


# --- results and errors beyond measure -----------------------------------------------------------


class Limited(SQLiteStateStore):
    """A store that takes rows of 20,000 bytes, as SQLite takes 1,000,000,000."""

    @staticmethod
    def connector(uri: str) -> sqlite3.Connection:
        connection = open_connection(uri)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 20_000)
        return connection


@walk(
    ("result", "size"),
    [
        ("x" * 20_000, 20_002),
        ("é" * 9_000, 18_002),
        ({"rows": [["a", 1]] * 3_000}, 24_010),
        ("x" * 17_000, None),
    ],
)
def test_a_result_that_the_store_cannot_take_is_committed_with_a_marker(
    tmp_path: Path, result: Any, size: int | None
) -> None:
    with closing(Limited(tmp_path / "state.db")) as store:
        w = World(store, Clock())
        assert w.run(executor=lambda: result).result == "committed"
        assert w.codes() == "PROP EVAL RES START COM"
        assert isinstance(w.caught(), DuplicateEffect)
        record = store.get_effect("pay:p1")
        assert record is not None
        marker = {"not_stored": {"bytes": size, "limit": 18_000}}
        assert record.result == (result if size is None else marker)


def test_an_error_beyond_measure_is_cut(world: Make) -> None:
    w = world()
    assert isinstance(w.caught(executor=raising(NotExecuted("x" * 1_500_000))), NotExecuted)
    assert w.state() == "failed"
    assert w.last.error is not None
    assert len(w.last.error) == 1_000_001
    assert w.store.get_effect("pay:p1").error == w.last.error
