"""Opening Postgres schemas: which may be opened, what they hold, and bringing one to head.

A schema is never created by being opened, and whatever is refused stays as it was. Passwords leave
no message. Rules: docs/stores.md and docs/format.md.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

from ctrlrun.clock import Clock, column_timestamp
from ctrlrun.errors import InvalidArgument, SchemaMismatch, StoreNotFound
from ctrlrun.logs import get_logger
from ctrlrun.state import schema as formats
from ctrlrun.state.masking import without_passwords
from ctrlrun.state.postgres_schema import (
    EXTENSION_LEDGER,
    EXTENSIONS,
    LEDGER,
    LOCK_KEY,
    MIGRATIONS,
    NEEDS_MORE,
    channel_of,
)
from ctrlrun.state.postgres_session import Connection, driver
from ctrlrun.state.postgres_url import place_of
from ctrlrun.state.schema import Classification, Found, Migration

log = get_logger("ctrlrun.postgres")

_TIMEOUT = re.compile(r"[0-9]+(ms|s|min|h|)")

Connect = Callable[[str], Connection]


# --- connecting ----------------------------------------------------------------------------------


def open_connection(url: str) -> Connection:
    """A connection in autocommit that prepares nothing on the server; raises the driver's error.

    A password of the connection string is masked in it.
    """
    psycopg = driver()
    try:
        return psycopg.connect(
            url,
            autocommit=True,
            prepare_threshold=None,
            cursor_factory=psycopg.RawCursor,
            client_encoding="UTF8",
            fallback_application_name="ctrlrun",
        )
    except psycopg.Error as error:
        said = without_passwords(str(error), url)
        if said == str(error):
            raise
        raise type(error)(said) from None


# --- looking -------------------------------------------------------------------------------------


def check_server(connection: Connection) -> None:
    """InvalidArgument unless the database's encoding holds every text."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InvalidArgument(
            f"the database {connection.info.dbname} is encoded in {encoding}; a store needs UTF8"
        )


def schema_exists(connection: Connection, schema: str) -> bool:
    """Whether the schema is there."""
    sql = "SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = $1"
    return connection.execute(sql, (schema,)).fetchone() is not None


def _missing_schema(connection: Connection, schema: str) -> str:
    """That a schema is not there, and the statement that makes it, for whoever may run it."""
    (may, user) = connection.execute(
        "SELECT has_database_privilege(current_database(), 'CREATE'), quote_ident(current_user)"
    ).fetchone()
    makes = f'CREATE SCHEMA "{schema}"'
    advice = makes if may else f"{makes} AUTHORIZATION {user} (as a role that may)"
    return f'the database {connection.info.dbname} has no schema "{schema}"; run: {advice}'


def look(connection: Connection, schema: str) -> Found:
    """What the schema holds, in one statement and so of one moment, but for the ledger's rows.

    The ledger is read first: a migration in between may then add tables, never take one away.
    """
    recorded: dict[str, str] = {}
    if _has_table(connection, schema, "schema_version"):
        with _damaged_ledger():
            rows = connection.execute(
                f'SELECT migration_id, ctrlrun_version FROM "{schema}".schema_version'
            ).fetchall()
            recorded = {str(name): str(version) for name, version in rows}
    columns: dict[str, list[str]] = {}
    rows = connection.execute(
        "SELECT c.relname, a.attname FROM pg_catalog.pg_class c "
        "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace "
        "LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 "
        "AND NOT a.attisdropped WHERE n.nspname = $1 AND c.relkind IN ('r', 'p')",
        (schema,),
    ).fetchall()
    for table, column in rows:
        columns.setdefault(str(table), []).append(str(column))
    return Found(columns, recorded)


@contextlib.contextmanager
def _damaged_ledger() -> Iterator[None]:
    """A table of that name that is another application's has no such columns: it records nothing."""
    try:
        yield
    except driver().errors.UndefinedColumn:
        pass


def _has_table(connection: Connection, schema: str, table: str) -> bool:
    sql = (
        "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
        "ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2 "
        "AND c.relkind IN ('r', 'p')"
    )
    return connection.execute(sql, (schema, table)).fetchone() is not None


def applied_extensions(connection: Connection, schema: str) -> frozenset[str]:
    """The extensions that the schema records."""
    if not _has_table(connection, schema, "schema_extensions"):
        return frozenset()
    with _damaged_ledger():
        rows = connection.execute(
            f'SELECT extension_id FROM "{schema}".schema_extensions'
        ).fetchall()
        return frozenset(str(name) for (name,) in rows)
    return frozenset()


def applied_steps(connection: Connection, schema: str) -> tuple[str, ...]:
    """Migrations and extensions that the schema records, in the order in which they apply."""
    found = look(connection, schema)
    return (*sorted(found.recorded), *sorted(applied_extensions(connection, schema)))


def where(connection: Connection, schema: str) -> str:
    """The store as messages name it."""
    return f'schema "{schema}" of database {connection.info.dbname}'


def check_present(connection: Connection, schema: str) -> Found:
    """What the schema holds; refuses one that is absent, or holds no store."""
    check_server(connection)
    if not schema_exists(connection, schema):
        raise StoreNotFound(_missing_schema(connection, schema))
    found = look(connection, schema)
    if not found.columns:
        raise SchemaMismatch(
            f"{where(connection, schema)} holds no store yet: it has no table schema_version; the "
            "agent's process makes it when it first runs",
            known=formats.MIGRATION_IDS,
            running=formats.ctrlrun_version(),
        )
    return found


def check_ready(connection: Connection, schema: str) -> None:
    """Refuse, each in words of its own, a schema that is absent, empty, foreign or not at head."""
    found = check_present(connection, schema)
    formats.require_ready(found, where(connection, schema))


# --- bringing to head ----------------------------------------------------------------------------


def bring_to_head(connection: Connection, schema: str, clock: Clock) -> None:
    """Apply what is missing: the migrations in one transaction, then each extension in its own.

    Refuses before writing. A role that may not add them goes without: everything works, slower.
    """
    check_server(connection)
    if not schema_exists(connection, schema):
        raise InvalidArgument(_missing_schema(connection, schema))
    found = look(connection, schema)
    place = where(connection, schema)
    if not found.columns or formats.pending(found.recorded):
        _require_create(connection, schema)
    kind = formats.judge(found, place)
    if kind is not Classification.UP_TO_DATE:
        with _locked(connection):
            _migrate(connection, schema, place, clock)
    missing = {step.id for step in EXTENSIONS} - applied_extensions(connection, schema)
    if missing:
        _extend(connection, schema, place, clock)


def _require_create(connection: Connection, schema: str) -> None:
    may, user = connection.execute(
        "SELECT has_schema_privilege($1, 'CREATE'), current_user", (schema,)
    ).fetchone()
    if not may:
        raise InvalidArgument(
            f"{user} may not create tables in {where(connection, schema)}; "
            f'run: GRANT CREATE ON SCHEMA "{schema}" TO "{user}"'
        )


@contextlib.contextmanager
def _locked(connection: Connection) -> Iterator[None]:
    """A transaction that one process at a time has, in mixed fleets too."""
    connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
    try:
        connection.execute("SELECT pg_advisory_xact_lock($1::bigint)", (LOCK_KEY,))
        yield
        connection.execute("COMMIT")
    except BaseException:
        if not connection.closed:
            connection.execute("ROLLBACK")
        raise


def _migrate(connection: Connection, schema: str, place: str, clock: Clock) -> None:
    """All pending migrations, looked up again: another process may have been first."""
    found = look(connection, schema)
    formats.judge(found, place)
    for step in MIGRATIONS:
        if step.id not in found.recorded:
            _apply(connection, schema, place, clock, step, LEDGER, "schema_version", found)


def _extend(connection: Connection, schema: str, place: str, clock: Clock) -> None:
    for step in EXTENSIONS:
        try:
            with _locked(connection):
                found = look(connection, schema)
                if step.id not in applied_extensions(connection, schema) and found.suits(step):
                    ledger = (EXTENSION_LEDGER, "schema_extensions")
                    _apply(connection, schema, place, clock, step, *ledger, found)
        except SchemaMismatch as error:
            if getattr(error.__cause__, "sqlstate", None) not in NEEDS_MORE:
                raise
            log.info("%s goes without %s: %s", place, step.id, error.__cause__)
            return


def _apply(
    connection: Connection,
    schema: str,
    place: str,
    clock: Clock,
    step: Migration,
    ledger: str,
    table: str,
    found: Found,
) -> None:
    psycopg = driver()
    try:
        if not _has_table(connection, schema, table):
            connection.execute(_named(ledger, schema))
        for statement in step.statements:
            connection.execute(_named(statement, schema))
        record = f'INSERT INTO "{schema}".{table} VALUES ($1, $2, $3)'
        stamp = column_timestamp(clock())
        connection.execute(record, (step.id, stamp, formats.ctrlrun_version()))
    except psycopg.Error as error:
        raise formats.failed(step.id, error, found.recorded, place) from error


def _named(statement: str, schema: str) -> str:
    quoted = statement.replace("{s}", f'"{schema}"')
    return quoted.replace("{channel}", f'"{channel_of(schema)}"')


# --- schemas -------------------------------------------------------------------------------------


def create_schema(url: str, schema: str) -> None:
    """Make the schema if it is not there."""
    place, name = place_of(url, schema)
    with contextlib.closing(open_connection(place)) as connection:
        if not schema_exists(connection, name):
            connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')


def drop_schema(url: str, schema: str, *, timeout: str = "10s") -> None:
    """Drop the schema with all that is in it; waits at most `timeout` for others' locks."""
    place, name = place_of(url, schema)
    if _TIMEOUT.fullmatch(timeout) is None:
        raise InvalidArgument(f"a timeout is a number with ms, s, min or h, not {timeout!r}")
    with contextlib.closing(open_connection(place)) as connection, connection.transaction():
        connection.execute(f"SET LOCAL lock_timeout TO '{timeout}'")
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


def first_look(
    check: Callable[[Connection], Any],
) -> Callable[[Connection], None]:
    """`check` for the first connection of a store; its threads' others lead to the same place."""
    done = False

    def run(connection: Connection) -> None:
        nonlocal done
        if not done:
            check(connection)
            done = True

    return run
