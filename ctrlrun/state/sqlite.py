"""`SQLiteStateStore`: a store in one SQLite file, and `SQLiteReader`, which cannot write."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

from ctrlrun.clock import Clock, utc_now
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import Receipt
from ctrlrun.state import schema, sqlite_make, sqlite_open
from ctrlrun.state.relational import RelationalReader, RelationalStore
from ctrlrun.state.session import Sessions
from ctrlrun.state.sqlite_connection import Connect, open_connection
from ctrlrun.state.sqlite_delegations import FollowedDelegations
from ctrlrun.state.sqlite_dialect import SQLiteDialect
from ctrlrun.state.sqlite_seen import Seen
from ctrlrun.state.sqlite_session import SQLiteSession

_DURABILITIES = ("full", "normal")
_USED_RECEIPT = "receipts.receipt_id"  # as SQLite names the column whose value was there


class SQLiteStateStore(FollowedDelegations, RelationalStore):
    """A store in the SQLite file at `path`, shared by threads and processes.

    Creates the file, and what is missing of directories, tables and indexes. `clock` returns aware
    times. `durability` is `full` or `normal` for every transaction; absent, CTRLRUN_DURABILITY;
    absent too, what must survive a power cut is synced and the rest may lag (docs/stores.md).

    Raises InvalidArgument for a path that can be no database, SchemaMismatch for a database of
    another application or another format, `sqlite3.OperationalError` when it stays locked for 5 s.
    """

    connector: Connect = staticmethod(open_connection)
    """Makes every connection of the store: overridden by tests of power cuts."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = utc_now,
        durability: str | None = None,
    ) -> None:
        sqlite_open.check_sqlite()
        self.path = sqlite_open.check_path(path)
        level = _durability(durability)
        self._prepare_file(clock)
        sessions = _sessions(
            self.path,
            "rw",
            self.connector,
            level,
            lambda connection: self._prepare(connection, clock),
        )
        super().__init__(sessions, SQLiteDialect(), clock)
        with self._sessions.current():
            pass  # refuse here what cannot be opened

    def _prepare_file(self, clock: Clock) -> None:
        if sqlite_open.check_file(self.path):
            sqlite_open.peek(self.path, self.connector, schema.judge)
        else:
            with sqlite_open.naming(self.path):
                sqlite_make.create(self.path, clock, self.connector)

    def put_receipt(self, receipt: Receipt) -> Receipt:
        """As every store's; SQLite itself says when the id was used before."""
        try:
            return super().put_receipt(receipt)
        except sqlite3.IntegrityError as error:
            if _USED_RECEIPT not in str(error):
                raise
            raise InvalidArgument(f"receipt {receipt.receipt_id} already exists") from error

    def _prepare(self, connection: sqlite3.Connection, clock: Clock) -> None:
        sqlite_make.bring_to_head(connection, self.path, clock)


class ExistingSQLiteStore(SQLiteStateStore):
    """A store for answers: never created, and with `extend=False` not changed by being opened.

    With `extend` it is brought to this build's head as `SQLiteStateStore` does. Raises
    StoreNotFound when there is no file, SchemaMismatch also for an empty one, and without `extend`
    for one that is behind.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock = utc_now,
        durability: str | None = None,
        extend: bool,
    ) -> None:
        self._extend = extend
        super().__init__(path, clock=clock, durability=durability)

    def _prepare_file(self, clock: Clock) -> None:
        sqlite_open.require_file(self.path)
        brings_to_head = self._extend and self.path.stat().st_size
        ask = schema.judge if brings_to_head else schema.require_ready
        sqlite_open.peek(self.path, self.connector, ask)

    def _prepare(self, connection: sqlite3.Connection, clock: Clock) -> None:
        if self._extend and self.path.stat().st_size:
            super()._prepare(connection, clock)
        else:
            sqlite_open.check_ready(connection, self.path)


class SQLiteReader(FollowedDelegations, RelationalReader):
    """The reads and pages of a store that exists, through connections that cannot write.

    Each thread has its own. A store that was replaced is noticed by `change_token`, which then
    looks at the new file.

    Raises StoreNotFound when there is no file, and SchemaMismatch when the store is not at this
    build's head: a reader brings nothing there.
    """

    connector: Connect = staticmethod(open_connection)

    def __init__(self, path: str | os.PathLike[str], *, clock: Clock = utc_now) -> None:
        sqlite_open.check_sqlite()
        self.path = sqlite_open.check_path(path)
        sqlite_open.require_file(self.path)
        sqlite_open.peek(self.path, self.connector, schema.require_ready)

        def look(connection: sqlite3.Connection) -> None:
            sqlite_open.check_ready(connection, self.path)

        sessions = _sessions(self.path, "ro", self.connector, None, look)
        super().__init__(sessions, SQLiteDialect(), clock)
        with self._sessions.current():
            pass  # refuse here what cannot be read


def _sessions(
    path: Path,
    mode: str,
    connector: Connect,
    durability: str | None,
    first: Callable[[sqlite3.Connection], None],
) -> Sessions[SQLiteSession]:
    """The sessions of the file, which may be gone or another one by the time a thread connects."""
    place = path.absolute()  # a later chdir must not lead elsewhere
    target = sqlite_open.uri(place, mode)
    gate = sqlite_open.Gate(path, first)

    def connect(uri: str) -> sqlite3.Connection:
        sqlite_open.require_file(place)
        if mode == "rw":
            sqlite_open.require_one_name(place)
        with sqlite_open.naming(path):
            return connector(uri)

    seen = Seen(str(path)) if mode == "rw" else None
    return Sessions(lambda: SQLiteSession(target, str(place), connect, durability, gate, seen))


def _durability(given: str | None) -> str | None:
    name = "durability"
    if given is None:
        given = os.environ.get("CTRLRUN_DURABILITY")
        name = "CTRLRUN_DURABILITY"
    if given is not None and given not in _DURABILITIES:
        raise InvalidArgument(f"{name} must be one of {', '.join(_DURABILITIES)}, not {given!r}")
    return given
