"""Interrupts: a signal handler that raises at each place of a protected call where one can.

CPython runs signal handlers where a Python function begins, after each call of a C function, and
where a loop goes round. A tracer counts these places; at the chosen one it has a signal arrive, in
C, so that the handler runs where it would outside of a test. `lines` raises out of the tracer
instead, before each line: also in places that no signal reaches.
"""

from __future__ import annotations

import contextlib
import ctypes
import dis
import fcntl
import functools
import itertools
import random
import signal
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import psycopg

import ctrlrun
from ctrlrun.action import Action, Principal
from ctrlrun.control import Control, context, with_approval
from ctrlrun.control.ambient import ambient_principal, presented_approval
from ctrlrun.control.executing import running_call
from ctrlrun.effect import EffectRecord
from ctrlrun.errors import ApprovalRequired, CTRLRunError, InvalidArgument
from ctrlrun.policy import Policy
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.sinks import JSONLEventSink
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore, UnitStateStore
from tests.pg.server import a_schema, server_url

PACKAGE = str(Path(ctrlrun.__file__).parent)
SIGNAL = signal.SIGALRM

ASKS = Policy.from_yaml("schema: ctrlrun.policy/v1\nactions: {pay: {decision: approve}}\n")
ALLOWS = Policy.from_yaml("schema: ctrlrun.policy/v1\nactions: {pay: {decision: allow}}\n")
ENDS = ("EXECUTION_COMMITTED", "EXECUTION_FAILED", "EXECUTION_AMBIGUOUS")


class SoftTimeLimit(Exception):
    """What a worker's soft time limit raises: an `Exception`, unlike Ctrl-C."""


KINDS: tuple[type[BaseException], ...] = (KeyboardInterrupt, SoftTimeLimit)


@functools.cache
def _before_calls(code: CodeType) -> frozenset[int]:
    """Where an instruction stands whose next one calls something."""
    steps = list(dis.get_instructions(code))
    return frozenset(
        here.offset
        for here, after in itertools.pairwise(steps)
        if after.opname in ("CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD")
    )


def _arrival() -> Callable[..., None]:
    """A tracer in C that has the signal arrive: no Python runs in it, so the handler comes after."""
    trip = ctypes.pythonapi.PyErr_SetInterruptEx
    trip.argtypes = [ctypes.c_int, ctypes.py_object, ctypes.py_object, ctypes.py_object]
    trip.restype = None
    return functools.partial(trip, int(SIGNAL))


class Tracer:
    """Interrupts some work at its `at`-th place (at none for 0), and counts the places."""

    def __init__(self, at: int, kind: type[BaseException], *, lines: bool = False) -> None:
        self.places = 0
        self.where = ""
        self._at = at
        self._kind = kind
        self._lines = lines
        self._arrive = _arrival()

    def run(self, work: Callable[[], object]) -> BaseException | None:
        """Do the work; what it raised."""
        before = signal.signal(SIGNAL, self._handle)
        sys.settrace(self._enter)
        try:
            try:
                work()
            finally:
                sys.settrace(None)  # behind the last place, the handler runs here
        except BaseException as error:
            return error
        finally:
            signal.signal(SIGNAL, before)
        return None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        sys.settrace(None)
        if frame is not None:
            self.where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        raise self._kind

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE) or self._is_over:
            return None
        if self._lines:
            return self._line
        frame.f_trace_opcodes = True
        return self._alone(frame) if self._is_here() else self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode" and frame.f_lasti in _before_calls(frame.f_code) and self._is_here():
            return self._alone(frame)
        return self._step

    def _alone(self, frame: FrameType) -> Any:
        """The tracer that has the signal arrive, and no other in the frames that called this one.

        The handler would run in a tracer of Python then, between two instructions where it never
        runs outside of a test: behind the one that takes a lock, and before what releases it.
        """
        caller = frame.f_back
        while caller is not None:
            caller.f_trace = None
            caller = caller.f_back
        return self._arrive

    def _line(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "line" and self._is_here():
            self._handle(SIGNAL, frame)
        return self._line

    def _is_here(self) -> bool:
        if self._is_over:
            return False
        self.places += 1
        return self.places == self._at

    @property
    def _is_over(self) -> bool:
        return 0 < self._at <= self.places


@dataclass
class Findings:
    """What was tried, and what was found wrong: each with its place."""

    tried: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Scene:
    """A store, with calls that are made on it one after the other, each under a key of its own."""

    def __init__(
        self, store: UnitStateStore, folder: Path, can_write: Callable[[str], object]
    ) -> None:
        self.store = store
        self.findings = Findings()
        self._sink = JSONLEventSink(folder, max_bytes=1 << 20)
        self._asking = Control(ASKS, store, sinks=[self._sink])
        self._allowing = Control(ALLOWS, store)
        self._can_write = can_write
        self._ran: Counter[str] = Counter()
        self._number = 0

    def places(self, *, lines: bool = False) -> int:
        """How many places there are in one call."""
        tracer = Tracer(0, KeyboardInterrupt, lines=lines)
        self._call(tracer)
        return tracer.places

    def interrupt(self, at: int, kind: type[BaseException], *, lines: bool = False) -> None:
        """Interrupt one call at a place, and look at what it left."""
        tracer = Tracer(at, kind, lines=lines)
        self.judge(*self._call(tracer), lambda: tracer.where, kind)

    def strike(self, seconds: float, kind: type[BaseException]) -> None:
        """Interrupt one call by a timer, wherever it is then."""
        where = "?"

        def handle(number: int, frame: FrameType | None) -> None:
            nonlocal where
            if frame is not None:
                where = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
            raise kind

        class Timed(Tracer):
            def run(self, work: Callable[[], object]) -> BaseException | None:
                try:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, seconds)
                        work()
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except BaseException as error:
                    return error
                return None

        before = signal.signal(SIGNAL, handle)
        try:
            self.judge(*self._call(Timed(0, kind)), lambda: where, kind)
        finally:
            signal.signal(SIGNAL, before)

    def _call(self, tracer: Tracer) -> tuple[str, BaseException | None, list[str]]:
        self._number += 1
        key = f"pay:{self._number}"
        wrong: list[str] = []
        action = Action("pay", {"key": key}, Principal("agent"))
        approval = self._approved(action, key)
        with context("agent"), with_approval(approval):
            raised = tracer.run(lambda: self._asking.execute(action, self._executor(key), key))
            if presented_approval() != approval or ambient_principal() != Principal("agent"):
                wrong.append("what surrounds the call was changed")
        if presented_approval() is not None or ambient_principal() is not None:
            wrong.append("a principal or an approval is left")
        with contextlib.suppress(InvalidArgument):
            running_call("?")
            wrong.append("an executor still runs")
        return key, raised, wrong

    def _approved(self, action: Action, key: str) -> str:
        try:
            self._asking.execute(action, self._executor(key), key)
        except ApprovalRequired as required:
            self.store.grant_approval(required.request_id, "cli:me")
            return required.request_id
        raise AssertionError("nobody was asked")

    def _executor(self, key: str) -> Callable[[], str]:
        def executor() -> str:
            self._ran[key] += 1
            return "done"

        return executor

    def judge(
        self,
        key: str,
        raised: BaseException | None,
        wrong: list[str],
        where: Callable[[], str],
        kind: type[BaseException],
    ) -> None:
        """Look at what an interrupted call left, and go on with the store."""
        if raised is not None and type(raised) is not kind:
            wrong.append(f"raised {raised!r}")
        del raised
        wrong += self._held()
        wrong += self._evidence(key)
        wrong += self._goes_on(key)
        self.findings.tried += 1
        self.findings.wrong += [f"{kind.__name__} in {where()}: {each}" for each in wrong]

    def _held(self) -> Iterator[str]:
        if self.store.in_unit:  # type: ignore[attr-defined]
            yield "a unit is open"
        try:
            self._can_write(self._sink_path)
        except Exception as error:
            yield f"another connection cannot write: {error!r}"
        failed: list[BaseException] = []

        def write() -> None:
            try:
                _free(self.store, owner)
                self.store.reserve_effect(f"thread:{self._number}", "act_other")
            except BaseException as error:
                failed.append(error)

        owner = getattr(self.store, "_sessions", None)
        owner = None if owner is None else owner.current()
        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        thread.join(5)
        if thread.is_alive() or failed:
            yield f"another thread cannot write: {failed}"

    @property
    def _sink_path(self) -> str:
        return str(self._sink.events_path)

    def _evidence(self, key: str) -> Iterator[str]:
        ran, record = self._ran[key], self.store.get_effect(key)
        state = "none" if record is None else record.state.value
        self.findings.ends[f"{state}, {'ran' if ran else 'not run'}"] += 1
        if ran > 1:
            yield f"ran {ran} times"
        if state in ("none", "failed", "reserved") and ran:
            yield f"ran, and is {state}"
        if state == "committed" and not ran:
            yield "committed, and did not run"
        page = self.store.events_page(limit=40)
        told = Counter(str(event.type) for event in page.items if event.effect_key == key)
        ends = sum(told[kind] for kind in ENDS)
        if ends != (state in ("committed", "failed", "ambiguous")):
            yield f"{state}, and its evidence has {ends} ends"
        if any(count > 1 for kind, count in told.items() if kind in (*ENDS, "EXECUTION_STARTED")):
            yield f"told twice: {told}"
        yield from self._receipts(key, record, ends)

    def _receipts(self, key: str, record: EffectRecord | None, ends: int) -> Iterator[str]:
        page = self.store.receipts_page(limit=10)
        results = [
            str(receipt.result)
            for receipt in page.items
            if receipt.effect_key == key and receipt.result in ("committed", "failed", "ambiguous")
        ]
        if len(results) > ends:
            yield f"receipts {results} for {ends} ends"
        if ends and not results:
            self.findings.ends["without a receipt"] += 1
        if results and record is not None and results != [record.state.value]:
            yield f"receipts {results}, and the record is {record.state.value}"

    def _goes_on(self, key: str) -> Iterator[str]:
        before = self._ran[key]
        with contextlib.suppress(CTRLRunError):
            again = Action("pay", {"key": key}, Principal("agent"))
            self._allowing.execute(again, self._executor(key), key)
        if self._ran[key] > 1:
            yield f"acted twice ({before} before)"
        other = f"other:{self._number}"
        try:
            action = Action("pay", {"key": other}, Principal("agent"))
            self._allowing.execute(action, self._executor(other), other)
        except Exception as error:
            yield f"the next call fails: {error!r}"


def _free(store: object, session: Any) -> None:
    """The lock of another thread's session, which is not in use, can be had."""
    if session is None:
        return
    if not session._lock.acquire(blocking=False):
        raise AssertionError("its lock is held")
    session._lock.release()


# --- where -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def in_memory(folder: Path) -> Iterator[Scene]:
    """On a store in memory."""
    yield Scene(InMemoryStateStore(), folder, _alone_with)


@contextlib.contextmanager
def on_sqlite(folder: Path) -> Iterator[Scene]:
    """On SQLite."""
    path = folder / "state.db"

    def can_write(events: str) -> None:
        _alone_with(events)
        with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")

    with closing(SQLiteStateStore(path)) as store:
        yield Scene(store, folder, can_write)


@contextlib.contextmanager
def on_postgres(folder: Path) -> Iterator[Scene]:
    """On Postgres, in a schema of its own."""
    with a_schema() as schema, psycopg.connect(server_url(), autocommit=True) as other:
        other.execute("SET lock_timeout = '2s'")

        def can_write(events: str) -> None:
            _alone_with(events)
            with other.transaction():
                for table in ("receipt_chain", "effects", "approvals"):
                    other.execute(f'SELECT 1 FROM "{schema}".{table} FOR UPDATE')  # type: ignore[arg-type]

        with closing(PostgresStateStore(server_url(), schema=schema)) as store:
            yield Scene(store, folder, can_write)


PLACES = {"memory": in_memory, "sqlite": on_sqlite, "postgres": on_postgres}


def _alone_with(events: str) -> None:
    """Nobody holds the file of events; BlockingIOError where somebody does."""
    with contextlib.suppress(FileNotFoundError), open(events, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def interrupted(scene: Scene, every: int, seed: int, *, lines: bool = False) -> Findings:
    """Interrupt a call at every n-th place, with each kind of exception; what was found."""
    scene.places(lines=lines)  # a first call warms up what is made once
    count = scene.places(lines=lines)
    for number, kind in enumerate(KINDS):
        for at in range(1 + (seed + number) % every, count + 1, every):
            scene.interrupt(at, kind, lines=lines)
    return scene.findings


def struck(scene: Scene, times: int, seed: int) -> Findings:
    """Interrupt calls by a timer, at random."""
    choose = random.Random(seed)
    for number in range(times):
        scene.strike(choose.uniform(0.000_05, 0.004), KINDS[number % len(KINDS)])
    return scene.findings
