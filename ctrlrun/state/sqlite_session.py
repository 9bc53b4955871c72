"""SQLite: how a session waits, syncs and reads, and what its SQL spells in its own way."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any, Self, TypeVar

from ctrlrun.effect import escape_surrogates
from ctrlrun.errors import InvalidArgument, StoreReplaced
from ctrlrun.state import sqlite_files
from ctrlrun.state.dialect import Filter, Order
from ctrlrun.state.lost_commit import Trace
from ctrlrun.state.session import EffectChange, Row, Session, Values
from ctrlrun.state.sqlite_files import Head, Identity, Place, StoreFiles
from ctrlrun.state.sqlite_tally import FACTS, TALLY_INDEX

T = TypeVar("T")

BUSY_PATIENCE_S = 5.0
BUSY = "another process has held its lock for more than 5 s; try again when it is done"
_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.016
"""Shorter ones let the next process in sooner, and eight of them get a third less done: each that
gets in reads anew what the one before it wrote, and each look takes time from whoever works."""

Connect = Callable[[str], sqlite3.Connection]
"""Makes the connection to a `file:` URI: the seam for a file system that fails on purpose."""

Check = Callable[[sqlite3.Connection, Identity | None], None]
"""Looks at a new connection, and may refuse it."""

_OF_A_CONNECTION = frozenset(
    {
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_CANTOPEN,
    }
)
"""What a connection may keep of a disk that failed once: the next call opens another one."""

_serials = count(1)

_HEAD = "SELECT seq, hash FROM receipt_chain WHERE id = 1"
_HASH_AT = "SELECT hash FROM receipts WHERE seq = ?"

_KEY_INDEXES = (
    "x_events_by_action",
    "x_events_by_effect",
    "x_events_by_approval",
    "x_receipts_by_action",
    "x_receipts_by_effect",
)


def open_connection(uri: str) -> sqlite3.Connection:
    """A connection in autocommit, without a busy handler of its own: `patiently` waits."""
    return sqlite3.connect(
        uri,
        uri=True,
        timeout=0,
        isolation_level=None,
        cached_statements=256,
        check_same_thread=False,
    )


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the lock."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


def renamed(error: sqlite3.Error, message: str) -> sqlite3.Error:
    """The error with another message: of the same class, with what SQLite calls it."""
    said = type(error)(message)
    if getattr(error, "sqlite_errorcode", None) is not None:
        said.sqlite_errorcode = error.sqlite_errorcode
        said.sqlite_errorname = error.sqlite_errorname
    return said


def patiently(run: Callable[[], T], deadline: float | None = None) -> T:
    """`run`, repeated while another process holds the lock, for 5 s or until `deadline`; then its
    error.

    SQLite's own handler looks again every 100 ms: with eight busy processes some would wait in vain
    beside a lock that was free many times.
    """
    try:
        return run()
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
    if deadline is None:
        deadline = time.monotonic() + BUSY_PATIENCE_S
    pause = _FIRST_PAUSE_S
    while True:
        time.sleep(pause)
        try:
            return run()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
        pause = min(pause * 2, _LONGEST_PAUSE_S)


class SQLiteSession(Session):
    """One thread's connection to one file.

    `target` is the URI of the file at `place`; `check` is asked about each new connection. One that
    `writes` is held to the files at the place: before each use and after each durable commit.
    """

    is_traced = True

    def __init__(
        self,
        target: str,
        place: Place,
        connect: Connect,
        durability: str | None,
        check: Check,
        *,
        writes: bool,
    ) -> None:
        # Before anything can fail: `__del__` looks at it.
        self._connection: sqlite3.Connection | None = None
        super().__init__()
        self._target = target
        self._place = place
        self._path = place.path
        self._make = connect
        self._durability = durability
        self._check = check
        self._writes = writes
        self._synchronous = ""
        self._files: StoreFiles | None = None
        self._holds_write_lock = False
        self._serial = 0
        self.trace = Trace()

    # --- the connection --------------------------------------------------------------------------

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            if self._writes and not self.active and not self.files.in_place():
                self.reopen()
        except BaseException:
            self._lock.release()
            raise
        return self

    @property
    def path(self) -> str:
        """Where the store is."""
        return self._path

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection; there is one inside `with session`."""
        assert self._connection is not None
        return self._connection

    @property
    def files(self) -> StoreFiles:
        """The files that the connection opened."""
        assert self._files is not None
        return self._files

    @property
    def identity(self) -> Identity | None:
        """Which file the connection leads to."""
        return None if self._files is None else self._files.database

    def connect(self) -> None:
        deadline = time.monotonic() + BUSY_PATIENCE_S
        while not self._connect():
            if time.monotonic() >= deadline:
                raise _busy(
                    f"cannot open {self._path!r}: its files were replaced, and other threads still "
                    "use the old ones"
                )
            time.sleep(_FIRST_PAUSE_S)

    def _connect(self) -> bool:
        """Connect to the files that are there now; False when those moved meanwhile."""
        connection = self._make(self._target)
        files = sqlite_files.join(self._place, self, connection)
        if files is None:
            return False
        try:
            self._synchronous = ""
            self._check(connection, files.database)
            settled = sqlite_files.settle(files)
            if settled:
                self._check_head(connection)
        except BaseException:
            sqlite_files.leave(files, self, connection)
            raise
        if not settled:
            sqlite_files.leave(files, self, connection)
            return False
        self._serial = next(_serials)
        self._connection, self._files = connection, files
        return True

    def _check_head(self, connection: sqlite3.Connection) -> None:
        """StoreReplaced where the file lacks the last receipt that this process has seen there."""
        seen = sqlite_files.head_seen_at(self._place) if self._writes else None
        if seen is None or seen[0] == 0:
            return
        found = connection.execute(_HASH_AT, (seen[0],)).fetchone()
        if found != (seen[1],):
            raise StoreReplaced(
                f"{self._path!r} is another store than the one that this process worked with: it "
                f"lacks receipt {seen[0]}, so it may not know what was done; look at what replaced "
                "it, then restart the process"
            )

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        files, self._files = self._files, None
        if connection is not None and files is not None:
            if self._holds_write_lock:
                self._release_write_lock(files)
            sqlite_files.leave(files, self, connection)

    def reopen(self) -> None:
        """Leave files that were replaced, with all threads of the process, and open what is there.

        Raises StoreNotFound where nothing is, StoreReplaced where it is an older store.
        """
        sqlite_files.leave_together(self.files)
        self.disconnect()
        self.connect()

    def in_place(self) -> bool:
        """Whether what was written last is in the files at the store's path."""
        return self._files is not None and self._files.in_place()

    def head_seen(self) -> Head | None:
        """The head of the chain in the files of the connection, unless another thread uses it."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if self._connection is None or self.active:
                return None
            row = self._connection.execute(_HEAD).fetchone()
        except sqlite3.Error:
            return None
        finally:
            self._lock.release()
        is_head = row is not None and isinstance(row[0], int) and isinstance(row[1], str)
        return (row[0], row[1]) if is_head else None

    def token(self) -> object:
        """Counts what others commit and what this connection did, in these very files."""
        if not self.active and not self.in_place():
            if self._files is not None:
                sqlite_files.leave_together(self._files)
            self.disconnect()
            if sqlite_files.identity_of(self._path) is None:
                return None
            self.connect()
        version = self.rows("PRAGMA data_version")[0][0]
        return (self.identity, self._serial, version, self.connection.total_changes)

    @property
    def longest_row(self) -> int:
        """As this build of SQLite was made; less where the connection is limited."""
        return self.connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH)

    def is_indexed(self) -> bool:
        """Looks each time: a writer may add them while a reader is open."""
        marks = ", ".join("?" * len(_KEY_INDEXES))
        found = self.rows(
            f"SELECT COUNT(*) FROM sqlite_master WHERE type = 'index' AND name IN ({marks})",
            _KEY_INDEXES,
        )
        return bool(found[0][0] == len(_KEY_INDEXES))

    def has_index(self, name: str) -> bool:
        """Looks each time, as `is_indexed`."""
        found = self.rows("SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?", (name,))
        return bool(found)

    def has_table(self, name: str) -> bool:
        """Looks each time, as `is_indexed`."""
        found = self.rows("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", (name,))
        return bool(found)

    # --- transactions ----------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        return self.connection.in_transaction

    def begin(self, *, durable: bool) -> None:
        wanted = "FULL" if self._is_full(durable=durable) else "NORMAL"
        try:
            self._begin(wanted)
            while not self.files.in_place():
                self.rollback()
                self.reopen()
                self._begin(wanted)
        except sqlite3.Error as error:
            raise self._named("write", error) from error
        self.active = True
        self.broken = None
        self.trace = Trace()

    def _begin(self, synchronous: str) -> None:
        """Take the write lock of our programs, then SQLite's, within 5 s in all."""
        connection, files = self.connection, self.files
        deadline = time.monotonic() + BUSY_PATIENCE_S
        if connection.in_transaction:  # an interrupt fell between two of our steps
            connection.execute("ROLLBACK")
        taken = [True] if self._holds_write_lock else []
        try:
            if not taken:
                # In one call of C: no interrupt comes between the lock and the note of it.
                taken.extend(map(files.writer.acquire, (True,), (BUSY_PATIENCE_S,)))
            if not taken[0]:
                raise _busy(BUSY)
            self._holds_write_lock = True
            patiently(lambda: _take_write(files), deadline)
            if synchronous != self._synchronous:
                self._synchronous = ""  # not known, if an interrupt comes between the two
                # A connection's first statement reads the schema, and may have to wait for it.
                patiently(lambda: connection.execute(f"PRAGMA synchronous={synchronous}"), deadline)
                self._synchronous = synchronous
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"), deadline)
        except BaseException:
            if taken and taken[0]:
                self._release_write_lock(files)
            raise

    def _release_write_lock(self, files: StoreFiles) -> None:
        files.give_write_back()
        self._holds_write_lock = False  # only here: what an interrupt cuts short is done again
        files.writer.release()

    def _is_full(self, *, durable: bool) -> bool:
        return durable if self._durability is None else self._durability == "full"

    def commit(self) -> None:
        if self.broken is not None:
            raise self.broken
        connection = self.connection
        try:
            # Beside a store that is not yet in WAL mode, readers can hold up a commit.
            patiently(lambda: connection.execute("COMMIT"))
            self.committed = True
        except sqlite3.Error as error:
            raise self._named("write", error) from error
        except BaseException as interrupt:
            # SQLite knows whether it had committed; an error of its own may have ended it, too.
            failed = isinstance(interrupt.__context__, sqlite3.Error)
            self.committed = not failed and not connection.in_transaction
            raise
        self._release_write_lock(self.files)
        self.active = False

    def rollback(self) -> None:
        connection = self.connection
        try:
            # Errors like a full disk have rolled back by themselves.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.disconnect()
        finally:
            if self._holds_write_lock:
                self._release_write_lock(self.files)
            self.active = False
            self.broken = None

    def note_effect(self, change: EffectChange) -> None:
        self.trace = self.trace.with_change(change)

    # --- statements ------------------------------------------------------------------------------

    def insert(self, sql: str, values: Values, key: str) -> Sequence[int]:
        cursor = self.execute(sql, values)
        last = cursor.lastrowid
        assert last is not None
        self.trace = self.trace.with_event(last, values)
        # Nobody else writes meanwhile, so the rows of one statement have numbers without a gap.
        return range(last - cursor.rowcount + 1, last + 1)

    def execute(self, sql: str, values: Values = ()) -> sqlite3.Cursor:
        if self.broken is not None:
            raise self.broken
        before = self.writes
        try:
            self.writes = before + 1  # an interrupt may come between the write and its count
            cursor = self.connection.execute(sql, values)
        except sqlite3.Error as error:
            self.writes = before
            raise self._noted("write", error) from error
        except (UnicodeEncodeError, OverflowError) as error:
            self.writes = before
            raise InvalidArgument(f"a value cannot be stored: {error}") from None
        if cursor.rowcount <= 0:
            self.writes = before
        return cursor

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        connection = self.connection

        def read() -> list[Row]:
            return connection.execute(sql, values).fetchall()

        try:
            return read() if self.active else patiently(read)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", None) is None:  # not from SQLite: bytes, no text
                return self._undecoded(read)
            raise self._noted("read", error) from error
        except sqlite3.Error as error:
            raise self._noted("read", error) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidArgument(f"a value cannot be looked up: {error}") from None

    def _undecoded(self, read: Callable[[], list[Row]]) -> list[Row]:
        """Once more, with columns that are not UTF-8 as they are: one such row is one damaged row."""
        connection = self.connection
        connection.text_factory = _text_or_bytes
        try:
            return read()
        finally:
            connection.text_factory = str

    def _noted(self, what: str, error: sqlite3.Error) -> sqlite3.Error:
        """Some errors end the transaction; what followed would be committed by itself."""
        named = self._named(what, error)
        if self.active and not self.connection.in_transaction and self.broken is None:
            self.broken = named
        return named

    def _named(self, what: str, error: sqlite3.Error) -> sqlite3.Error:
        """The error with the file in it, which SQLite leaves out."""
        if (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _OF_A_CONNECTION:
            self.retire()
        return renamed(error, f"cannot {what} {self._path!r}: {error}")


def _take_write(files: StoreFiles) -> None:
    try:
        files.take_write()
    except BlockingIOError:
        raise _busy("database is locked") from None


def _busy(message: str) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode, error.sqlite_errorname = sqlite3.SQLITE_BUSY, "SQLITE_BUSY"
    return error


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


# --- what SQLite spells in its own way -----------------------------------------------------------

_PLAIN_ID = re.compile(r"[A-Za-z0-9 ._:+-]+")

_STORED = MappingProxyType(
    {
        "approvals": Order(None, "rowid"),
        "delegations": Order(None, "rowid"),
        "effects": Order("created_at", "rowid"),
        "receipts": Order("seq", "rowid"),
    }
)


@dataclass(frozen=True, slots=True)
class SQLiteDialect:
    """The SQL fragments of SQLite: its write lock is the whole database's, its order is by bytes."""

    for_update: str = ""
    byte_order: str = ""
    tally_facts: str = FACTS
    tally_index: str = TALLY_INDEX
    tally_source: str = f"receipts INDEXED BY {TALLY_INDEX}"
    whole: str = " LIMIT -1"
    first_tie: int = 0
    last_tie: int = 2**63 - 1

    def moving_head(self, put: str) -> str | None:
        return None

    def storable(self, text: str) -> str:
        return escape_surrogates(text)

    def as_bytes(self, expression: str) -> str:
        return f"CAST({expression} AS BLOB)"

    def seconds_between(self, start: str, end: str) -> str:
        return f"(julianday({end}) - julianday({start})) * 86400.0"

    @property
    def stored(self) -> Mapping[str, Order]:
        return _STORED

    def has_control(self, control: str) -> Filter:
        named = "EXISTS (SELECT 1 FROM json_each(receipts.json, '$.controls') WHERE value = ?)"
        values: tuple[Any, ...] = (control,)
        if _PLAIN_ID.fullmatch(control):
            # Such an id has one spelling in JSON: most documents need not be parsed to be ruled out.
            named = f"instr(json, ?) > 0 AND {named}"
            values = (json.dumps(control), control)
        return Filter(f"CASE WHEN json_valid(json) THEN ({named}) ELSE 1 END", values)
