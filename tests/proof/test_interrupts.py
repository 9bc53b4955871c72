"""Calls that are interrupted by an exception from outside: Ctrl-C, a signal handler, a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from ctrlrun.control import context, with_approval
from ctrlrun.control.ambient import ambient_principal, presented_approval
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore
from ctrlrun.state.session import Session
from ctrlrun.state.sqlite_session import SQLiteSession
from tests.lib import sqlite_helpers as old
from tests.proof.interrupts import KINDS, PLACES, Findings, Tracer, interrupted, struck

# What an interrupt drops between its opening and its block is closed as it goes, with this warning.
# An interrupt that comes inside a `__del__` of the driver is reported by Python, and not raised.
pytestmark = pytest.mark.filterwarnings(
    "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

EVERY = {"memory": 31, "sqlite": 31, "postgres": 97}
"""A few places of a call: `benchmarks/interrupts.py` tries each."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("place", PLACES)
def test_an_interrupted_call_leaves_nothing_held_and_one_outcome(
    place: str, tmp_path: Path
) -> None:
    with PLACES[place](tmp_path) as scene:
        found = interrupted(scene, EVERY[place], seed=5)
    assert found.wrong == []
    _is_spread(found)


@pytest.mark.parametrize("place", PLACES)
def test_a_call_interrupted_by_a_timer_leaves_nothing_held_and_one_outcome(
    place: str, tmp_path: Path
) -> None:
    with PLACES[place](tmp_path) as scene:
        found = struck(scene, 10, seed=5)
    assert found.wrong == []
    assert found.tried == 10


def _is_spread(found: Findings) -> None:
    """It was interrupted before, at and behind the executor."""
    assert found.tried > 25
    assert {"none, not run", "failed, not run", "committed, ran"} <= found.ends.keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_nested_unit_that_is_interrupted_is_taken_back(
    tmp_path: Path, kind: type[BaseException]
) -> None:
    """Its writes go, or the whole transaction does; never a half that stays."""
    store = SQLiteStateStore(tmp_path / "state.db")
    number = 0

    def inner() -> None:
        store.reserve_effect(f"one:{number}", "act_1")
        store.reserve_effect(f"two:{number}", "act_1")

    def outer() -> None:
        store.append_event(old.event())
        with suppress(kind):
            store.unit(inner, durable=False)

    def whole() -> None:
        store.unit(outer, durable=False)

    tracer = Tracer(0, kind)
    tracer.run(whole)
    for number in range(1, tracer.places + 1, 3):
        raised = Tracer(number, kind).run(whole)
        assert raised is None or type(raised) is kind
        assert not store.in_unit
        kept = [store.get_effect(f"{name}:{number}") is not None for name in ("one", "two")]
        assert len(set(kept)) == 1, f"half of the unit stays, interrupted at place {number}"
    store.close()


BLOCKS: tuple[Callable[[], AbstractContextManager[None]], ...] = (
    lambda: context("agent"),
    lambda: with_approval("apr_1"),
)


@pytest.mark.parametrize("block", BLOCKS)
def test_a_block_that_is_interrupted_sets_nothing(
    block: Callable[[], AbstractContextManager[None]],
) -> None:
    """But in the one moment in which Python begins its `__exit__`."""

    def work() -> None:
        with block():
            len("")

    tracer = Tracer(0, KeyboardInterrupt)
    tracer.run(work)
    for at in range(1, tracer.places + 1):
        tried = Tracer(at, KeyboardInterrupt)
        raised = tried.run(work)
        del raised
        if "__exit__" not in tried.where:
            assert (ambient_principal(), presented_approval()) == (None, None), tried.where


def test_a_unit_in_memory_that_is_interrupted_ends() -> None:
    store = InMemoryStateStore()
    tracer = Tracer(0, KeyboardInterrupt)
    tracer.run(lambda: store.unit(lambda: store.reserve_effect("k", "a"), durable=False))
    for at in range(1, tracer.places + 1):
        key = f"k:{at}"
        Tracer(at, KeyboardInterrupt).run(
            lambda key=key: store.unit(lambda: store.reserve_effect(key, "a"), durable=False)  # type: ignore[misc]
        )
        assert not store.in_unit
        assert (store.get_effect(key) is not None) == store.unit_committed


def test_a_transaction_that_stays_open_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: a session that does not clean up is caught."""
    with PLACES["sqlite"](tmp_path) as scene:
        places = scene.places()
        monkeypatch.setattr(Session, "leave", lambda self: None)
        monkeypatch.setattr(SQLiteSession, "rollback", lambda self: None)
        scene.interrupt(places // 4, KeyboardInterrupt)
        monkeypatch.undo()
    assert "a unit is open" in str(scene.findings.wrong)
