"""Sessions: one connection for each thread of a store, and the transaction it may be in.

Owns who may use a connection when: threads that end, `close()`, `fork()`, and calls that join a
transaction which their thread has open. Knows no SQL; a dialect's session class brings that.
"""

from __future__ import annotations

import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, Self, TypeVar

from ctrlrun.effect import EffectRecord
from ctrlrun.forks import Forked, watch_forks

Row = tuple[Any, ...]
Values = Sequence[Any]
T = TypeVar("T")

_FORK_PATIENCE_S = 6.0  # longer than a call waits for the write lock


class Cursor(Protocol):
    """What a statement leaves behind: the part of DB-API cursors that the store uses."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...


@dataclass(frozen=True, slots=True)
class EffectChange:
    """A step of an effect inside a transaction.

    `state` and `action_id` are what stands after it, `before` the states it starts from (none: there
    was no record), `renews` that another attempt stood before it. `at` is its time.
    """

    effect_key: str
    action_id: str
    state: str
    before: tuple[str, ...]
    at: str
    renews: bool = False
    record: EffectRecord | None = None
    """A record that is new."""


class Session(ABC):
    """One thread's connection. Entered around each use; entering again nests.

    `active` says that the thread has a write transaction open, which its calls then join. `broken`
    is the error that ended such a transaction early, or left half of a call in it: nothing more is
    written in it, and it cannot be committed. `committed` says that the last transaction is, also
    where an interrupt came after its COMMIT.

    An interrupt (Ctrl-C, a signal handler that raises) may come between any two steps, in `__exit__`
    and `rollback` too. So whoever begins a transaction also calls `leave` in the end, in a `finally`
    of its own: one interrupt keeps only one of the two from cleaning up.
    """

    def __init__(self) -> None:
        self.active = False
        self.broken: BaseException | None = None
        self.committed = False
        self.writes = 0
        self._depth = 0
        self._retired = False
        self._lock = threading.RLock()

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            if not self.connected:
                self.connect()
        except BaseException:
            self._lock.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()
        if self._retired:
            self.retire()

    def use(self, work: Callable[[], T]) -> T:
        """`work` with the connection: as `with session`, and an interrupt leaves nothing locked."""
        try:
            with self._lock:
                if not self.connected:
                    self.connect()
                return work()
        finally:
            if self._retired:
                self.retire()

    def leave(self) -> None:
        """Let go of what an interrupt kept this thread from letting go of, as it ends its use."""
        if self.active:
            with self._lock:
                if self.connected:
                    self.rollback()
                self.active = False
        try:
            while True:
                self._lock.release()
        except RuntimeError:  # it is not, or no longer, this thread's
            pass
        if self._retired:
            self.retire()

    def __del__(self) -> None:
        # A thread that ends drops its session: the descriptor goes with it.
        if self.connected:
            self.disconnect()

    @property
    @abstractmethod
    def connected(self) -> bool: ...
    @abstractmethod
    def connect(self) -> None: ...
    @abstractmethod
    def disconnect(self) -> None: ...
    @abstractmethod
    def begin(self, *, durable: bool) -> None:
        """Open a write transaction, with the write lock held (`durable`: on disk at its commit)."""

    @abstractmethod
    def commit(self) -> None:
        """Commit it; raises `broken` instead when that is set."""

    def landed(self) -> bool:
        """Whether what was just committed stands where the store is; else it is to be run again."""
        return True

    @abstractmethod
    def rollback(self) -> None:
        """Undo it, whatever state it is in."""

    @property
    @abstractmethod
    def in_transaction(self) -> bool:
        """Whether the database still has the transaction: some errors end it."""

    @abstractmethod
    def execute(self, sql: str, values: Values = ()) -> Cursor:
        """A statement that writes, inside a transaction."""

    def execute_later(self, sql: str, values: Values = ()) -> None:
        """A statement that writes, and whose outcome nobody asks for: it may go with the next write.

        No other statement may write its table. Where it fails is then told there, and at the latest
        before the commit.
        """
        self.execute(sql, values)

    @abstractmethod
    def insert(self, sql: str, values: Values, key: str) -> Sequence[int]:
        """An insert whose rows are given numbers by the database, in the column `key`: those numbers."""

    @abstractmethod
    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        """All rows of a read; a column that is not text comes as `bytes`."""

    @abstractmethod
    def token(self) -> object:
        """A value that is another one after a commit of any process."""

    @property
    def longest_row(self) -> int:
        """How many bytes a row may have."""
        return 1_000_000_000

    def is_indexed(self) -> bool:
        """Whether the indexes that make a read by key cheap are there."""
        return True

    def has_index(self, name: str) -> bool:
        """Whether the index of this name is there, so that a statement may ask for it."""
        return True

    is_traced = False
    """Whether the session wants to hear what a transaction does to an effect."""

    def note_effect(self, change: EffectChange) -> None:
        """Hear that: for a session that may lose its commit."""
        return

    def note_head(self, seq: int, digest: str) -> None:
        """Hear where the chain's head was moved to: for a session whose files may be replaced."""
        return

    def has_table(self, name: str) -> bool:
        """Whether the side table of this name is there."""
        return True

    def takes_rows(self, name: str) -> bool:
        """Whether the side table of this name may be asked to take a row.

        Asked where a statement that fails would cost the transaction around it.
        """
        return True

    def row(self, sql: str, values: Values = ()) -> Row | None:
        """The first row of a read that finds one at most."""
        rows = self.rows(sql, values)
        return rows[0] if rows else None

    def joined(self, step: Callable[[Session], T]) -> T:
        """One call inside the open transaction: all of it or, if it fails halfway, none of it all.

        A refusal comes before the call's first write, so the transaction goes on after it.
        """
        before = self.writes
        try:
            return step(self)
        except BaseException as error:
            if self.writes != before and self.broken is None:
                self.broken = error
            raise

    def nested(self, work: Callable[[], T]) -> T:
        """A unit inside the open transaction: what leaves it takes its own writes back."""
        depth = self._depth
        # Each depth has a name of its own: an interrupt may come before the point is set, or when
        # it is gone, and must not take back what is outside of it.
        point = f"nested_{depth + 1}"
        try:
            self._depth = depth + 1
            self.execute(f"SAVEPOINT {point}")
            value = work()
            self.execute(f"RELEASE SAVEPOINT {point}")
        except BaseException as error:
            if self.in_transaction and not self._taken_back(point):
                self.broken = error
            raise
        finally:
            self._depth = depth
        return value

    def _taken_back(self, point: str) -> bool:
        """Undo a nested unit; where that fails, the whole transaction can only be rolled back."""
        try:
            self.broken = None  # what was left half done goes back with the rest
            self.execute(f"ROLLBACK TO SAVEPOINT {point}")
            self.execute(f"RELEASE SAVEPOINT {point}")
        except Exception:
            return False
        return True

    def retire(self) -> None:
        """Disconnect as soon as nobody uses the session: at once, or when its thread leaves it."""
        self._retired = True
        if self._lock.acquire(blocking=False):
            try:
                if not self.active:
                    self._retired = False
                    self.disconnect()
            finally:
                self._lock.release()

    def freeze(self) -> bool:
        """Disconnect and keep everybody out until `thaw`; False when it stays in use too long."""
        if not self._lock.acquire(timeout=_FORK_PATIENCE_S):
            return False
        if self.connected:
            self.disconnect()
        return True

    def thaw(self) -> None:
        self._lock.release()


S = TypeVar("S", bound=Session)


class Sessions(Forked, Generic[S]):
    """The sessions of one store, by thread."""

    def __init__(self, make: Callable[[], S]) -> None:
        self._make = make
        self._inherited: list[S] = []
        self._frozen: list[S] = []
        self._is_forking = False
        self._reset()
        watch_forks(self)

    def _reset(self) -> None:
        self._local = threading.local()
        self._all: weakref.WeakSet[S] = weakref.WeakSet()
        self._guard = threading.Lock()

    def current(self) -> S:
        """This thread's session."""
        try:
            session: S = self._local.session
        except AttributeError:
            session = self._make()
            with self._guard:
                self._all.add(session)
            self._local.session = session
        return session

    def close(self) -> None:
        """Disconnect every thread; one that is inside a call disconnects when it leaves it."""
        with self._guard:
            sessions = list(self._all)
        for session in sessions:
            session.retire()

    def before_fork(self) -> None:
        """Let no connection be carried over: the child would hold locks that are not its own."""
        self._guard.acquire()
        self._is_forking = True
        mine = getattr(self._local, "session", None)
        for session in list(self._all):
            in_own_transaction = session is mine and session.active
            if not in_own_transaction and session.freeze():
                self._frozen.append(session)

    def after_fork_in_parent(self) -> None:
        for session in self._frozen:
            session.thaw()
        self._frozen = []
        if self._is_forking:
            self._is_forking = False
            self._guard.release()

    def after_fork_in_child(self) -> None:
        """Start anew. A connection that could not be closed is kept and never touched again."""
        self._inherited += [session for session in self._all if session.connected]
        self._frozen = []
        self._is_forking = False
        self._reset()
