"""One thread's connection to Postgres: transactions, statements, and what a lost commit leaves.

Every statement names its schema and nothing is kept in the server's session, so that a pooler may
stand between transactions. Loads the driver when the first connection is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ctrlrun.errors import InvalidArgument, MissingDependency
from ctrlrun.state.lost_commit import Trace
from ctrlrun.state.postgres_dialect import spelled
from ctrlrun.state.session import EffectChange, Row, Session, Values

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")

Connection = Any
"""A `psycopg.Connection`; the driver is an extra, and is not loaded to say so."""

_BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_LAG = f"{_BEGIN}; SET LOCAL synchronous_commit TO off"
_SYNC = f"{_BEGIN}; SET LOCAL synchronous_commit TO on"
_TAKE_ALONG = ("INSERT ", "UPDATE ", "DELETE ")
"""Statements that another write may be part of, as `WITH noted AS (...)`."""
_IDLE, _UNANSWERED, _IN_TRANSACTION, _UNKNOWN = 0, 1, 2, 4
"""Of libpq's PGTransactionStatusType; unanswered is a statement that was sent."""
_NEVER_COMMITTED = ("40001", "40P01")
_NOT_AS_IT_WAS = ("42P01", "42501")
"""A table that is not there, or that this role may not use."""
_HELD_TWICE = "continuations_by_value"


def driver() -> Any:
    """The module `psycopg`; MissingDependency when it is not installed."""
    try:
        import psycopg
    except ImportError as error:
        raise MissingDependency("psycopg", "postgres") from error
    return psycopg


class PostgresSession(Session):
    """One thread's connection to one schema. `connect` makes the connection, and checks it."""

    def __init__(self, connect: Callable[[], Connection], schema: str) -> None:
        # Before anything can fail: `__del__` looks at it.
        self._connection: psycopg.Connection[Any] | None = None
        super().__init__()
        self._make = connect
        self.schema = schema
        self.trace = Trace()
        self.lost: BaseException | None = None
        """The error or interrupt under which a COMMIT went out and no answer was read."""
        self.backend: int = 0
        self._server_lags = False
        self._writable: set[str] = set()
        self._waiting: tuple[str, Values] | None = None
        """A write that becomes part of the next one, which saves a round trip."""

    # --- the connection --------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._connection is not None and not self._connection.closed

    @property
    def connection(self) -> psycopg.Connection[Any]:
        """The connection; there is one inside `with session`."""
        assert self._connection is not None
        return self._connection

    def connect(self) -> None:
        if self.active:  # what was begun is gone; half of it must not be written elsewhere
            raise self.broken or driver().OperationalError("the connection was lost")
        self.disconnect()
        connection = self._make()
        try:
            row = connection.execute("SELECT current_setting('synchronous_commit')").fetchone()
            self._server_lags = row is not None and row[0] == "off"
        except BaseException:
            connection.close()
            raise
        self.backend = connection.info.backend_pid
        self._writable.clear()
        self._connection = connection

    def disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # --- transactions ----------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        return self.connected and self._status() != _IDLE

    def _status(self) -> int:
        """How libpq sees the transaction."""
        return _UNKNOWN if not self.connected else int(self.connection.pgconn.transaction_status)

    def begin(self, *, durable: bool) -> None:
        if self.in_transaction:  # an interrupt fell between two of our steps
            self.connection.execute("ROLLBACK")
        statement = _LAG
        if durable:
            statement = _SYNC if self._server_lags else _BEGIN
        self._again(lambda: self.connection.execute(statement))
        self._waiting = None
        self.active = True
        self.broken = None
        self.lost = None
        self.trace = Trace()

    def commit(self) -> None:
        if self.broken is not None:
            raise self.broken
        self._send_waiting()
        try:
            ended = self.connection.execute("COMMIT").statusmessage
        except driver().Error as error:
            if error.sqlstate not in _NEVER_COMMITTED:
                self.lost = error
            raise
        except BaseException as interrupt:
            if self._status() != _IN_TRANSACTION:  # else it had not gone out
                self.lost = interrupt
            raise
        if ended != "COMMIT":
            raise driver().InternalError("the transaction had failed, and was rolled back")
        self.committed = True
        self.active = False

    def rollback(self) -> None:
        try:
            if (
                self._status() == _UNANSWERED
            ):  # an interrupt: the server ends what it hears no more of
                self.disconnect()
            elif self.in_transaction:
                self.connection.execute("ROLLBACK")
        except driver().Error:
            self.disconnect()
        finally:
            self.active = False
            self.broken = None

    def nested(self, work: Callable[[], T]) -> T:
        before = self.trace

        def whole() -> T:
            try:
                value = work()
                self._send_waiting()
            except BaseException:
                self._waiting = None  # taken back unsent
                raise
            return value

        try:
            return super().nested(whole)
        except BaseException:
            self.trace = before
            raise

    is_traced = True

    def note_effect(self, change: EffectChange) -> None:
        self.trace = self.trace.with_change(change)

    # --- statements ------------------------------------------------------------------------------

    def insert(self, sql: str, values: Values, key: str) -> Sequence[int]:
        rows = self.execute(f"{sql} RETURNING {key}", values).fetchall()
        numbers = [int(row[0]) for row in rows]
        self.trace = replace(self.trace, event_id=numbers[-1])
        return numbers

    def execute(self, sql: str, values: Values = ()) -> psycopg.Cursor[Any]:
        if self.broken is not None:
            raise self.broken
        if not sql.startswith(_TAKE_ALONG):
            self._send_waiting()
        elif self._waiting is not None:
            note, noted = self._waiting
            sql, values = f"WITH noted AS ({note}) {sql}", (*noted, *values)
        before = self.writes
        try:
            self.writes = before + 1  # an interrupt may come between the write and its count
            cursor = self._run(sql, values, "stored")
        except (driver().Error, InvalidArgument):
            self.writes = before
            raise
        self._waiting = None
        if cursor.rowcount <= 0:
            self.writes = before
        return cursor

    def execute_later(self, sql: str, values: Values = ()) -> None:
        if self.broken is not None:
            raise self.broken
        self._send_waiting()
        _check(values, "stored")
        self._waiting = (sql, values)
        self.writes += 1

    def _send_waiting(self) -> None:
        """Send the write that waits by itself: before a read, which may ask for it, or an end."""
        if self._waiting is None:
            return
        if self.broken is not None:
            raise self.broken
        self._run(*self._waiting, "stored")
        self._waiting = None

    def rows(self, sql: str, values: Values = ()) -> list[Row]:
        if not self.active:
            return self._again(lambda: self._run(sql, values, "looked up").fetchall())
        if self.broken is not None:
            raise self.broken
        self._send_waiting()
        return self._run(sql, values, "looked up").fetchall()

    def _run(self, sql: str, values: Values, what: str) -> psycopg.Cursor[Any]:
        _check(values, what)
        errors = driver()
        try:
            return self.connection.execute(spelled(sql, self.schema), values or None)
        except errors.Error as error:
            if self.active and self.broken is None:
                self.broken = error  # the server takes nothing more in this transaction
            if error.sqlstate in _NOT_AS_IT_WAS:
                self._writable.clear()  # somebody changed what was found there
            if isinstance(error, (errors.DataError, errors.errors.UndefinedFunction)):
                said = str(error).partition("\n")[0]
                raise InvalidArgument(f"a value cannot be {what}: {said}") from error
            if error.sqlstate == "23505" and error.diag.constraint_name == _HELD_TWICE:
                raise InvalidArgument(
                    "another effect is waiting for the same continuation"
                ) from error
            raise

    def look(self, look: Callable[[Connection], object]) -> None:
        """Let somebody look at the database outside of a transaction."""
        self._again(lambda: look(self.connection))

    def _again(self, run: Callable[[], T]) -> T:
        """`run`, once more where the connection turns out to be gone: nothing was begun on it."""
        try:
            return run()
        except driver().OperationalError:
            if self.connected:
                raise
        self.connect()
        return run()

    # --- what the server tells -------------------------------------------------------------------

    def token(self) -> object:
        """Which transactions have ended, in this very schema: another one after each of them."""
        found = self.rows(
            "SELECT to_regclass(?)::oid::bigint, txid_current_snapshot()::text",
            (f'"{self.schema}".events',),
        )
        return None if found[0][0] is None else found[0]

    def is_indexed(self) -> bool:
        """Looks each time: a writer may add them while a reader is open."""
        from ctrlrun.state.postgres_schema import KEY_INDEXES

        marks = ", ".join("?" * len(KEY_INDEXES))
        found = self.rows(
            f"SELECT COUNT(*) FROM pg_catalog.pg_indexes WHERE schemaname = ? AND indexname IN ({marks})",
            (self.schema, *KEY_INDEXES),
        )
        return bool(found[0][0] == len(KEY_INDEXES))

    def has_index(self, name: str) -> bool:
        """None of those that a statement would ask for by name."""
        return False

    def has_table(self, name: str) -> bool:
        """Looks each time, as `is_indexed`; one that this role may not read is none."""
        return self._may(name, "SELECT")

    def takes_rows(self, name: str) -> bool:
        """A yes holds as long as the connection, or until it proves wrong: that costs one call."""
        if name not in self._writable and self._may(name, "SELECT", "INSERT", "UPDATE"):
            self._writable.add(name)
        return name in self._writable

    def _may(self, name: str, *privileges: str) -> bool:
        table = f'"{self.schema}".{name}'
        asked = " AND ".join(["has_table_privilege(to_regclass(?), ?)"] * len(privileges))
        values = tuple(value for privilege in privileges for value in (table, privilege))
        return bool(self.rows(f"SELECT {asked}", values)[0][0])

    def appenders(self) -> frozenset[str]:
        """The transactions of others that may have been given event ids and have not ended."""
        found = self.rows(
            "SELECT virtualtransaction FROM pg_catalog.pg_locks WHERE locktype = 'relation' "
            "AND relation = to_regclass(?) AND mode = 'RowExclusiveLock' AND granted "
            "AND database = (SELECT oid FROM pg_catalog.pg_database "
            "WHERE datname = current_database()) AND pid IS DISTINCT FROM pg_backend_pid()",
            (f'"{self.schema}".events',),
        )
        return frozenset(str(row[0]) for row in found)

    def is_running(self, backend: int) -> bool:
        """Whether that backend still has a transaction."""
        found = self.rows(
            "SELECT 1 FROM pg_catalog.pg_stat_activity WHERE pid = ? AND pid <> pg_backend_pid() "
            "AND xact_start IS NOT NULL",
            (backend,),
        )
        return bool(found)


def _check(values: Values, what: str) -> None:
    """InvalidArgument for a text that no Postgres can hold."""
    for value in values:
        if not isinstance(value, str):
            continue
        if "\0" in value:
            raise InvalidArgument(f"a value cannot be {what}: it holds a NUL character")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"a value cannot be {what}: {error}") from None
