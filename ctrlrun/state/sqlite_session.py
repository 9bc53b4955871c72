"""SQLite: how a session waits, syncs and reads, and what its SQL spells in its own way."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from types import MappingProxyType
from typing import Any, TypeVar

from ctrlrun.effect import escape_surrogates
from ctrlrun.errors import InvalidArgument
from ctrlrun.state.dialect import Filter, Order
from ctrlrun.state.session import Row, Session, Values
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

Identity = tuple[int, int]
"""Which file: its device and inode."""

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


def patiently(run: Callable[[], T]) -> T:
    """`run`, repeated while another process holds the lock, for 5 s; then its error.

    SQLite's own handler looks again every 100 ms: with eight busy processes some would wait in vain
    beside a lock that was free many times.
    """
    try:
        return run()
    except sqlite3.OperationalError as error:
        if not is_busy(error):
            raise
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

    `target` is the URI of the file at `path`; `check` is asked about each new connection.
    """

    def __init__(
        self,
        target: str,
        path: str,
        connect: Connect,
        durability: str | None,
        check: Check,
    ) -> None:
        # Before anything can fail: `__del__` looks at it.
        self._connection: sqlite3.Connection | None = None
        super().__init__()
        self._target = target
        self._path = path
        self._make = connect
        self._durability = durability
        self._check = check
        self._synchronous = ""
        self._identity: Identity | None = None
        self._serial = 0

    # --- the connection --------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._connection is not None

    @property
    def connection(self) -> sqlite3.Connection:
        """The connection; there is one inside `with session`."""
        assert self._connection is not None
        return self._connection

    @property
    def identity(self) -> Identity | None:
        """Which file the connection leads to."""
        return self._identity

    def connect(self) -> None:
        connection = self._make(self._target)
        try:
            self._identity = file_identity(self._path)
            self._synchronous = ""
            self._check(connection, self._identity)
        except BaseException:
            connection.close()
            raise
        self._serial = next(_serials)
        self._connection = connection

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def token(self) -> object:
        """Counts what others commit and what this connection did, in this very file."""
        identity = file_identity(self._path)
        if identity != self._identity and not self.active:
            self.disconnect()
            if identity is None:
                return None
            self.connect()
        version = self.rows("PRAGMA data_version")[0][0]
        return (identity, self._serial, version, self.connection.total_changes)

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
        connection = self.connection
        wanted = "FULL" if self._is_full(durable=durable) else "NORMAL"
        try:
            if connection.in_transaction:  # an interrupt fell between two of our steps
                connection.execute("ROLLBACK")
            if wanted != self._synchronous:
                # The first statement of a connection reads the schema, and may have to wait for it.
                patiently(lambda: connection.execute(f"PRAGMA synchronous={wanted}"))
                self._synchronous = wanted
            patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
        except sqlite3.Error as error:
            raise self._named("write", error) from error
        self.active = True
        self.broken = None

    def _is_full(self, *, durable: bool) -> bool:
        return durable if self._durability is None else self._durability == "full"

    def commit(self) -> None:
        if self.broken is not None:
            raise self.broken
        connection = self.connection
        try:
            # Beside a store that is not yet in WAL mode, readers can hold up a commit.
            patiently(lambda: connection.execute("COMMIT"))
        except sqlite3.Error as error:
            raise self._named("write", error) from error
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
            self.active = False
            self.broken = None

    # --- statements ------------------------------------------------------------------------------

    def insert(self, sql: str, values: Values, key: str) -> Sequence[int]:
        cursor = self.execute(sql, values)
        last = cursor.lastrowid
        assert last is not None
        # Nobody else writes meanwhile, so the rows of one statement have numbers without a gap.
        return range(last - cursor.rowcount + 1, last + 1)

    def execute(self, sql: str, values: Values = ()) -> sqlite3.Cursor:
        if self.broken is not None:
            raise self.broken
        try:
            cursor = self.connection.execute(sql, values)
        except sqlite3.Error as error:
            raise self._noted("write", error) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise InvalidArgument(f"a value cannot be stored: {error}") from None
        if cursor.rowcount > 0:
            self.writes += 1
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


def file_identity(path: str) -> Identity | None:
    """Which file stands at the path."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
