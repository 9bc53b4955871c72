"""The processes of a run: agents that make protected calls, and a person who answers.

They end when the file `stop` is in the run's folder, or are killed. How each call ended is a line
in `ends`; what nobody expects to be raised leaves its traceback in `surprises`.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import ctrlrun
from ctrlrun import process
from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalStatus
from ctrlrun.clock import new_id, utc_now
from ctrlrun.control import Control, with_approval
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousWrite, ApprovalRequired, CTRLRunError, NotExecuted, Suspended
from ctrlrun.operator import verbs
from ctrlrun.policy import Policy
from ctrlrun.state.location import locate
from ctrlrun.state.page import START
from ctrlrun.state.protocol import UnitStateStore
from ctrlrun.state.sqlite import SQLiteStateStore
from tests.proof import faults
from tests.proof.remote import Remote

POLICY = Policy.from_yaml(
    """
schema: ctrlrun.policy/v1
actions:
  pay:
    rules:
      - when: {amount_lte: 500}
        decision: allow
      - decision: approve
"""
)
APPROVED_EACH = 4
_REFUSED_EACH = 8
_WAYS = {
    "acts": 80.0,
    "reply is lost": 6.0,
    "request is lost": 5.0,
    "refused": 5.0,
    "suspended": 3.0,
    "slow": 0.5,
    "kept": 0.5,
}


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is to do."""

    role: str
    store: str
    folder: str
    seed: int
    began: float
    """Seconds of the epoch: the keys of a moment are the same to all."""
    lease: float = 4.0
    keys_a_second: float = 40.0
    window: int = 60
    """So many keys are worked on at a time."""
    pace: float = 0.02
    """The longest time of the remote, in seconds, before an act and after it."""
    host: str = ""
    planted: str = ""
    """A fault of `tests.proof.faults` that this process has."""

    @property
    def margin(self) -> timedelta:
        """No act begins with less than this of the lease: for a machine that stands still."""
        return timedelta(seconds=self.lease / 2)


def open_store(url: str) -> UnitStateStore:
    """The store of a URL as agents open it, made where it is not there."""
    location = locate(url)
    if location.path is not None:
        return SQLiteStateStore(location.path)
    from ctrlrun.postgres import PostgresStateStore

    PostgresStateStore.create_schema(location.url, location.schema)
    return PostgresStateStore(location.url, schema=location.schema)


def broken_stores() -> tuple[type[Exception], ...]:
    """What a store raises that cannot be reached, or is busy for too long."""
    errors: tuple[type[Exception], ...] = (sqlite3.OperationalError, AmbiguousWrite)
    with suppress(ImportError):
        import psycopg

        errors = (*errors, psycopg.OperationalError, psycopg.InterfaceError)
    return errors


BROKEN = broken_stores()


class Agent:
    """Makes protected calls over the keys of the moment, in every way that a call can go."""

    def __init__(self, task: Task, store: UnitStateStore) -> None:
        self.task = task
        self.folder = Path(task.folder)
        self.remote = Remote(self.folder / "acts")
        self.random = random.Random(task.seed)
        self.store = store
        lease = timedelta(seconds=task.lease)
        self.control = Control(
            POLICY, self.store, lease=lease, suspend_timeout=lease, reuse_requests=True
        )

    def step(self) -> str:
        """One call; how it ended."""
        elapsed = time.time() - self.task.began
        number = int(elapsed * self.task.keys_a_second) + self.random.randrange(self.task.window)
        key = f"k{number}"
        faults.before_a_call(self.task, self.random, self.store, key)
        return self.call(key, *self.random.choices([*_WAYS], [*_WAYS.values()]))

    def call(self, key: str, way: str) -> str:
        """A call for a key, presenting the grant that somebody got for it."""
        needs_approval = int(key[1:]) % APPROVED_EACH == 0
        amount = 1000 if needs_approval else 100
        action = Action("pay", {"key": key, "amount": amount}, Principal("a"))
        granted = self.store.find_granted_approval(action.action_hash) if needs_approval else None
        hook = self._looks if self.random.random() < 0.3 else None
        eagerly = hook is not None and self.random.random() < 0.3

        def run() -> None:
            self.control.execute(
                action,
                self._executor(key, way, approved=needs_approval),
                key,
                reconcile=hook,
                reconcile_eagerly=eagerly,
            )

        try:
            if granted is None:
                run()
            else:
                with with_approval(granted.approval_id):
                    run()
        except Suspended as waits:
            executor = self._executor(key, "acts", approved=needs_approval)
            self.control.resume(waits.continuation, executor)
            return "committed, resumed"
        return "committed"

    def _looks(self, key: str) -> str:
        return "committed" if self.remote.has_done(key) else "not_executed"

    def _executor(self, key: str, way: str, *, approved: bool) -> Callable[[], None]:
        def takes_time() -> None:
            time.sleep(self.random.uniform(0, self.task.pace))

        def act() -> None:
            if not ctrlrun.remaining(self.task.margin):
                raise NotExecuted("too little is left of the lease")
            ctrlrun.fence()
            fenced = time.monotonic()
            for _ in range(faults.times(self.task, self.random, key)):
                self.remote.act(
                    key,
                    ctrlrun.attempt_key(),
                    approved=approved,
                    host=self.task.host,
                    waited=time.monotonic() - fenced,
                )

        def executor() -> None:
            takes_time()
            if way == "refused":
                raise NotExecuted("refused by the remote")
            if way == "request is lost":
                raise ConnectionError("the request was lost")
            if way == "suspended":
                raise Suspended(new_id("tok"))
            if way == "slow":
                time.sleep(self.task.lease * 1.1)
            if way == "kept":
                with ctrlrun.keep_alive():
                    time.sleep(self.task.lease * 1.1)
                    act()
                    return
            act()
            takes_time()
            if way == "reply is lost":
                raise ConnectionError("the reply was lost")

        return executor


class Person:
    """Answers what waits: requests at once, AMBIGUOUS after a look at the remote."""

    def __init__(self, task: Task, store: UnitStateStore) -> None:
        self.store = store
        self.remote = Remote(Path(task.folder) / "acts")
        self.patience = timedelta(seconds=task.lease / 4)

    def step(self) -> str:
        """One round over all that waits."""
        answered = self._requests() + self.resolutions()
        time.sleep(0.05)
        return f"answers {answered}" if answered else "nothing to answer"

    def _requests(self) -> int:
        waiting = self.store.approvals_page(
            after=START, limit=200, status=ApprovalStatus.PENDING, live_at=utc_now()
        )
        for record in waiting.items:
            number = int(str(record.request.action.arguments["key"])[1:]) // APPROVED_EACH
            answer = verbs.deny if number % _REFUSED_EACH == 0 else verbs.approve
            answer(self.store, record.approval_id, "tui:person", action_hash=record.action_hash)
        return len(waiting.items)

    def resolutions(self) -> int:
        """Answer each AMBIGUOUS that has been so for a while, truthfully."""
        unknown = self.store.effects_page(
            after=START, limit=200, state=EffectState.AMBIGUOUS, order="updated"
        )
        answered = 0
        for record in unknown.items:
            if utc_now() - record.updated_at < self.patience:
                continue
            outcome: verbs.Outcome = (
                "committed" if self.remote.has_done(record.effect_key) else "failed"
            )
            with suppress(ctrlrun.InvalidArgument):  # a hook was asked meanwhile
                verbs.resolve(
                    self.store,
                    record.effect_key,
                    outcome,
                    "tui:person",
                    attempt=record.attempt,
                    action_id=record.action_id,
                )
                answered += 1
        return answered


ROLES: dict[str, Any] = {"agent": Agent, "person": Person}


def run(task: Task) -> None:
    """Do it until the run is over; a store that is out of reach is tried again."""
    folder = Path(task.folder)
    if task.host:
        process._host = lambda: task.host
    store: UnitStateStore | None = None
    role: Any = None
    while not (folder / "stop").exists():
        try:
            if role is None:
                store = open_store(task.store)
                role = ROLES[task.role](task, store)
            _note(folder / "ends", f"{task.role}: {role.step()}")
        except BROKEN as error:
            _note(folder / "ends", f"{task.role}: {type(error).__name__}")
            time.sleep(0.02)
        except ApprovalRequired:
            _note(folder / "ends", f"{task.role}: ApprovalRequired")
        except (CTRLRunError, ConnectionError) as error:
            _note(folder / "ends", f"{task.role}: {type(error).__name__}")
        except Exception:
            _note(folder / "surprises", traceback.format_exc())
    if store is not None:
        store.close()


def _note(path: Path, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{text}\n".encode())
    finally:
        os.close(descriptor)


def live(task: Task, said: str) -> None:
    """The life of a process; what it prints goes to a file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    output = os.open(said, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    run(task)
