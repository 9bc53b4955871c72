"""The history check finds each broken promise, and nothing in a history that is sound."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import ctrlrun
from ctrlrun.action import Action, Principal
from ctrlrun.control import Control
from ctrlrun.operator import verbs
from ctrlrun.receipt import EventType
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.e2e.history import Act, broken_promises, read_acts
from tests.proof.remote import Remote
from tests.proof.roles import POLICY


class World:
    """A store, a remote, and calls between them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.db"
        self.log = folder / "acts"
        self.store = SQLiteStateStore(self.path)
        self.remote = Remote(self.log)
        self.control = Control(POLICY, self.store)

    def call(self, key: str, end: Exception | None = None, *, acts: int = 1) -> None:
        """A call whose executor acts so often, and then returns or raises."""

        def executor() -> None:
            for _ in range(acts):
                self.remote.act(key, ctrlrun.attempt_key())
            if end is not None:
                raise end

        action = Action("pay", {"key": key, "amount": 100}, Principal("a"))
        with suppress(ctrlrun.NotExecuted, ConnectionError):
            self.control.execute(action, executor, key)

    def found(self, *, truthful: bool = True, receipts_may_lack: bool = False) -> list[str]:
        return broken_promises(
            self.store,
            read_acts(self.log),
            truthful=truthful,
            receipts_may_lack=receipts_may_lack,
        )

    def alter(self, statement: str) -> None:
        """Change the rows behind the store's back."""
        with closing(sqlite3.connect(self.path)) as file, file:
            assert file.execute(statement).rowcount > 0, statement

    def call_after(self, statement: str, key: str) -> None:
        """Change the rows, and call."""
        self.alter(statement)
        self.call(key)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.call("ok")
    made.call("retried", ctrlrun.NotExecuted("no"), acts=0)
    made.call("retried")
    made.call("unknown", ConnectionError("lost"))
    made.call("answered", ConnectionError("lost"), acts=0)
    verbs.resolve(made.store, "answered", "failed", "cli:test")
    made.call("answered")
    made.call("known", ConnectionError("lost"))
    verbs.resolve(made.store, "known", "committed", "cli:test")
    return made


def test_a_sound_history(world: World) -> None:
    assert world.found() == []


def append(world: World, key: str, **changes: object) -> None:
    """Append an event that nothing happened for, after the last one of a key."""
    last = world.store.events_page(limit=1, effect_key=key).items[0]
    world.store.append_event(replace(last, event_id=None, **changes))  # type: ignore[arg-type]


BREAKS: dict[str, tuple[Callable[[World], object], str]] = {
    "acts twice in one attempt": (
        lambda w: w.call("k", acts=2),
        "k happened 2 times in attempt 1",
    ),
    "acts past the gate": (
        lambda w: w.remote.act("ok", "no attempt's"),
        "ok happened 1 times without a reservation",
    ),
    "acts without any record": (
        lambda w: w.remote.act("k", "no attempt's"),
        "k happened 1 times without a reservation",
    ),
    "says that it did nothing": (
        lambda w: w.call("k", ctrlrun.NotExecuted("no")),
        "k happened and is free again by 'no'",
    ),
    "a person says so": (
        lambda w: verbs.resolve(w.store, "unknown", "failed", "cli:test"),
        "unknown happened and is free again by 'cli:test'",
    ),
    "a reservation is forgotten": (
        lambda w: w.call_after("DELETE FROM effects WHERE effect_key = 'ok'", "ok"),
        "ok has attempt 1 after 1",
    ),
    "a record is forgotten": (
        lambda w: w.alter("DELETE FROM effects WHERE effect_key = 'ok'"),
        "ok has no record",
    ),
    "an ambiguous one is freed": (
        lambda w: w.call_after(
            "UPDATE effects SET state = 'failed' WHERE effect_key = 'unknown'", "unknown"
        ),
        "unknown happened again after attempt 1",
    ),
    "a record says something else": (
        lambda w: w.alter("UPDATE effects SET state = 'failed' WHERE effect_key = 'ok'"),
        "ok is failed, by its events committed",
    ),
    "committed, and never happened": (
        lambda w: w.call("k", acts=0),
        "k is committed and never happened",
    ),
    "events are lost": (
        lambda w: w.alter("DELETE FROM events WHERE effect_key = 'ok'"),
        "ok has a record without events",
    ),
    "the start is lost": (
        lambda w: w.alter(
            "DELETE FROM events WHERE effect_key = 'ok' AND type = 'EXECUTION_STARTED'"
        ),
        "ok happened before EXECUTION_STARTED",
    ),
    "an outcome has two ends": (
        lambda w: append(w, "ok", type=EventType.EXECUTION_AMBIGUOUS),
        "ok ended ['committed', 'ambiguous'] in attempt 1",
    ),
    "an outcome of nobody": (
        lambda w: append(w, "ok", action_id="act_other"),
        "ok has EXECUTION_COMMITTED without a reservation",
    ),
    "an answer for what was over": (
        lambda w: append(
            w,
            "ok",
            type=EventType.EFFECT_RESOLVED,
            data={"state": "failed", "resolver": "cli:test", "resolved_by": "human"},
        ),
        "ok was answered for attempt 1, which was over",
    ),
    "a receipt is lost": (
        lambda w: w.alter("DELETE FROM receipts WHERE effect_key = 'ok'"),
        "ok is committed in attempt 1 without one receipt",
    ),
    "a receipt too many": (
        lambda w: w.alter(
            "DELETE FROM events WHERE effect_key = 'ok' AND type = 'EXECUTION_COMMITTED'"
        ),
        "ok has a receipt of attempt 1: committed",
    ),
    "the chain is broken": (
        lambda w: w.alter("UPDATE receipts SET prev_hash = 'x', hash = 'y' WHERE seq = 2"),
        "chain: ",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_each_break_is_found(world: World, name: str) -> None:
    plant, expected = BREAKS[name]
    plant(world)
    found = world.found()
    assert any(said.startswith(expected) for said in found), found
    allowed = (expected.split()[0], "chain:")
    assert [said for said in found if said.split()[0] not in allowed] == []


def test_a_person_may_be_wrong_without_a_fault_of_the_store(world: World) -> None:
    verbs.resolve(world.store, "unknown", "failed", "cli:test")
    world.call("unknown")
    assert world.found(truthful=False) == []
    assert world.found() == ["unknown happened and is free again by 'cli:test'"]


def test_an_act_that_needs_an_approval(world: World) -> None:
    acts = [replace(act, approved=act.key == "ok") for act in read_acts(world.log)]
    assert broken_promises(world.store, acts) == ["ok happened without the approval that it needs"]


def test_an_act_before_its_start(world: World) -> None:
    def earlier(act: Act) -> Act:
        assert act.at is not None
        return replace(act, at=act.at - timedelta(minutes=1)) if act.key == "ok" else act

    acts = map(earlier, read_acts(world.log))
    assert broken_promises(world.store, acts) == ["ok happened before EXECUTION_STARTED"]


def test_an_approval_that_is_spent_twice(world: World) -> None:
    for _ in range(2):
        append(world, "ok", type=EventType.APPROVAL_CONSUMED, approval_id="apr_1")
    assert world.found() == ["apr_1 was spent 2 times"]
