"""SQLite: how a session connects, syncs and reads, and follows its files."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from typing import TypeVar

from ctrlrun.errors import InvalidArgument
from ctrlrun.state.session import Row, Session, Values
from ctrlrun.state.sqlite_connection import (
    BUSY_PATIENCE_S,
    FIRST_PAUSE_S,
    Connect,
    busy,
    patiently,
    renamed,
)
from ctrlrun.state.sqlite_files import Files, Guard, Identity, Place, guards
from ctrlrun.state.sqlite_seen import Mark, Seen

T = TypeVar("T")

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

_LOOKS = 20
"""So often the files may have changed while they were opened."""
_ANOTHERS = (
    "its -wal is that of a database which was moved or replaced, and programs still use it; "
    "stop them, then take -wal and -shm to where that database is, or remove them"
)
_STILL_USED = "its files were replaced, and another thread of this program still uses the old ones"

_serials = count(1)

_KEY_INDEXES = (
    "x_events_by_action",
    "x_events_by_effect",
    "x_events_by_approval",
    "x_receipts_by_action",
    "x_receipts_by_effect",
)


class SQLiteSession(Session):
    """One thread's connection to one file.

    `target` is the URI of the file at `path`; `check` is asked about each new connection. With
    `seen`, files that lack what the store has seen are refused.
    """

    def __init__(
        self,
        target: str,
        path: str,
        connect: Connect,
        durability: str | None,
        check: Check,
        seen: Seen | None = None,
    ) -> None:
        # Before anything can fail: `__del__` looks at it.
        self._connection: sqlite3.Connection | None = None
        super().__init__()
        self._target = target
        self._path = path
        self._make = connect
        self._durability = durability
        self._check = check
        self._seen = seen
        self._place = Place(path)
        self._guard: Guard | None = None
        self._files: Files = Files(None, None, None)
        self._written = Mark()
        self._synchronous = ""
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
        return self._files.database

    def connect(self) -> None:
        """Connect to the files at the path, known before and after, so that no others are meant."""
        self._place.resolve()
        changing: Exception = busy("its files change while they are opened")
        for _ in range(_LOOKS):
            files = self._place.look()
            if files.database is None:
                self._make(self._target).close()  # says what is missing
                continue
            try:
                guard = guards.enter(self._place, files, self, BUSY_PATIENCE_S)
            except TimeoutError:
                raise busy(f"cannot open {self._path!r}: {_STILL_USED}") from None
            try:
                found = self._open(guard, files)
            except sqlite3.Error as error:
                if self._place.look() == files:
                    raise
                changing = error
                continue
            if found is not None:
                self._guard, (self._connection, self._files) = guard, found
                self._synchronous = ""
                self._serial = next(_serials)
                return
        raise changing

    def _open(self, guard: Guard, files: Files) -> tuple[sqlite3.Connection, Files] | None:
        """A connection to exactly these files, or those that it made; None when others came."""
        connection: sqlite3.Connection | None = None
        try:
            if self._clear_the_way(guard, files):
                self._give_up(guard, None, replaced=True)
                return None
            for _ in range(_LOOKS):
                former, connection = connection, None
                if former is not None and guard.holds:
                    former.close()  # first: connections of a process share the index
                connection = self._make(self._target)
                if former is not None:
                    former.close()
                self._check(connection, files.database)
                self._touch(connection)
                found = self._place.look()
                is_held = guard.protect(self._place, found)
                if found == files and is_held:
                    if self._seen is not None:
                        self._seen.check(connection, files)
                    guard.end_writing(self)
                    return connection, files
                if files.wal not in (None, found.wal):
                    self._files = files  # so that the index of the log that was removed is known
                    break
                if found.database != files.database or not is_held:
                    break
                files = found
        except BaseException:
            replaced = self._place.look().database != files.database
            self._give_up(guard, connection, replaced=replaced)
            raise
        self._give_up(guard, connection, replaced=True)
        time.sleep(FIRST_PAUSE_S)  # another program closes it, or replaces its files
        return None

    def _touch(self, connection: sqlite3.Connection) -> None:
        """Have SQLite open all files that it reads from."""
        try:
            patiently(lambda: connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone())
        except sqlite3.Error as error:
            raise self._named("read", error) from error

    def _clear_the_way(self, guard: Guard, files: Files) -> bool:
        """Let nothing be opened that belongs to files which are gone; whether that moved something.

        Until they end, or find out, other programs may still write to what was removed.
        """
        if files.in_log_mode:
            patiently(lambda: _own_log(guard, self._place))
            known = self._files
            is_of_former = (known.database, known.shm) == (files.database, files.shm)
            if guard.index_fits(self._place) and not (is_of_former and known.wal != files.wal):
                return False
        patiently(lambda: self._write_alone(guard))
        if files.shm is not None:
            self._place.drop_index(files)
            return True
        return False

    def _write_alone(self, guard: Guard) -> None:
        if not guard.begin_writing(self):
            raise busy("database is locked")

    def _give_up(
        self, guard: Guard, connection: sqlite3.Connection | None, *, replaced: bool
    ) -> None:
        guard.end_writing(self)
        if connection is None:
            guard.leave(lambda: None, replaced=False)
        else:
            guard.leave(connection.close, replaced=replaced)

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        guard, self._guard = self._guard, None
        if connection is not None and guard is not None:
            guard.end_writing(self)
            replaced = self._files.in_log_mode and not self._place.holds(self._files)
            if replaced:
                self._put_log_aside()
            guard.leave(connection.close, replaced=replaced)

    def _put_log_aside(self) -> None:
        """Where another database took the place of this one, leave it no log that is not its own.

        While this one holds the log, no program of ours opens it together with that database.
        """
        files = self._place.look()
        if files.wal is None or files.wal != self._files.wal:
            return
        if files.database in (None, self._files.database):
            return
        with suppress(TimeoutError):
            guard = guards.enter(self._place, files, self, patience_s=0)
            if guard.begin_writing(self):  # else another program is at it
                self._place.put_aside(files)
                guard.end_writing(self)
            guard.leave(lambda: None, replaced=False)

    def _follow(self) -> None:
        """Connect anew where the files at the path are not those of the connection any more."""
        if not self._place.holds(self._files):
            self.disconnect()
            self.connect()

    def token(self) -> object:
        """Counts what others commit and what this connection did, in these very files."""
        if not self.active and not self._place.holds(self._files):
            self.disconnect()
            if self._place.look().database is None:
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
        while True:
            connection = self.connection
            try:
                if connection.in_transaction:  # an interrupt fell between two of our steps
                    connection.execute("ROLLBACK")
                if wanted != self._synchronous:
                    # The first statement of a connection reads the schema, and may have to wait.
                    self._synchronous = ""  # not known, if an interrupt comes between the two
                    patiently(lambda: self.connection.execute(f"PRAGMA synchronous={wanted}"))
                    self._synchronous = wanted
                patiently(self._take_lock)
            except sqlite3.Error as error:
                if not self._place.holds(self._files):
                    self._end(connection)
                    self._follow()
                    continue
                raise self._named("write", error) from error
            if self._place.holds(self._files):
                break
            self._end(connection)
            self._follow()
        self._written = Mark()
        self.active = True
        self.broken = None

    def _take_lock(self) -> None:
        """Our write lock, which stays when something in this process drops SQLite's, and SQLite's."""
        guard = self._guard
        if guard is not None and not guard.begin_writing(self):
            raise busy("database is locked")
        try:
            self.connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            if guard is not None:
                guard.end_writing(self)
            raise

    def _end(self, connection: sqlite3.Connection) -> None:
        """Leave a transaction in which nothing was written."""
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        if self._guard is not None:
            self._guard.end_writing(self)

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
        self._ended()

    def landed(self) -> bool:
        """Whether the files at the path hold what was committed: they may have been replaced meanwhile.

        Where they hold it all the same, it stands. Raises StoreReplaced for files that lack more.
        """
        seen, written = self._seen, self._written
        if seen is None:
            return True
        if self._place.holds(self._files):
            seen.note(written)
            return True
        self.committed = False  # as far as anybody can see
        self._follow()
        # Only a unit that wrote an event can be told.
        if written.event is None or not written.is_in(self.connection):
            return False
        self.committed = True
        seen.note(written)
        return True

    def _ended(self) -> None:
        self.active = False
        if self._guard is not None:
            self._guard.end_writing(self)

    def rollback(self) -> None:
        connection = self._connection
        try:
            # Errors like a full disk have rolled back by themselves.
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.disconnect()
        finally:
            self._ended()
            self.broken = None

    def note_head(self, seq: int, digest: str) -> None:
        """Remember it with what this transaction writes."""
        self._written = Mark((seq, digest), self._written.event)

    def nested(self, work: Callable[[], T]) -> T:
        """As every session's; what is taken back was not written."""
        before = self._written
        try:
            return super().nested(work)
        except BaseException:
            self._written = before
            raise

    # --- statements ------------------------------------------------------------------------------

    def insert(self, sql: str, values: Values, key: str) -> Sequence[int]:
        cursor = self.execute(sql, values)
        last = cursor.lastrowid
        assert last is not None
        if key == "event_id":
            self._written = Mark(self._written.receipt, (last, values[-6], values[-4]))
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
        if not self.active:
            self._follow()

        def read() -> list[Row]:
            try:
                return self.connection.execute(sql, values).fetchall()
            except sqlite3.DatabaseError:
                if self.active or self._place.holds(self._files):
                    raise
                self._follow()
                return self.connection.execute(sql, values).fetchall()

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


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _own_log(guard: Guard, place: Place) -> None:
    if guard.log_is_anothers(place):
        raise busy(_ANOTHERS)
