"""Making SQLite databases: bringing one to head, and creating one where nothing is.

Each step and its record is one transaction. A new database is built beside its place and put there
whole, so that no crash leaves half of one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Callable
from pathlib import Path

from ctrlrun.clock import Clock, column_timestamp
from ctrlrun.errors import InvalidArgument
from ctrlrun.state import schema
from ctrlrun.state.schema import Classification, Migration
from ctrlrun.state.sqlite_connection import Connect, patiently
from ctrlrun.state.sqlite_open import applied_extensions, look, naming, uri
from ctrlrun.state.sqlite_schema import EXTENSION_LEDGER, EXTENSIONS, LEDGER, MIGRATIONS

_NEW_FILE_MODE = 0o600
_NEW_DIRECTORY_MODE = 0o700

# --- bringing to head ----------------------------------------------------------------------------


def bring_to_head(
    connection: sqlite3.Connection, path: Path, clock: Clock, *, extend: bool = True
) -> None:
    """Apply what is missing, each step and its record in one transaction. Refuses before writing."""
    where = repr(str(path))
    with naming(path):
        found = patiently(lambda: look(connection))
        kind = schema.judge(found, where)
        use_wal(connection)
        connection.execute("PRAGMA synchronous=FULL")
        if kind is not Classification.UP_TO_DATE:
            while _step(connection, where, clock, _next_migration):
                pass
        extensions = patiently(lambda: applied_extensions(connection, found))
        if extend and not extensions >= {step.id for step in EXTENSIONS}:
            while _step(connection, where, clock, _next_extension):
                pass


def use_wal(connection: sqlite3.Connection) -> None:
    """Write-ahead logging, which readers and the writer need to work beside each other."""

    def switch() -> None:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            connection.execute("PRAGMA journal_mode=WAL").fetchone()

    patiently(switch)


Pick = Callable[[sqlite3.Connection, str], tuple[Migration, str, str] | None]


def _step(connection: sqlite3.Connection, where: str, clock: Clock, pick: Pick) -> bool:
    """Apply the next missing step under the write lock; False when there is none."""
    patiently(lambda: connection.execute("BEGIN IMMEDIATE"))
    try:
        picked = pick(connection, where)
        if picked is not None:
            _apply(connection, where, clock, *picked)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return picked is not None


def _apply(
    connection: sqlite3.Connection,
    where: str,
    clock: Clock,
    step: Migration,
    ledger: str,
    record: str,
) -> None:
    try:
        for statement in (ledger, *step.statements):
            connection.execute(statement)
        stamp = column_timestamp(clock())
        connection.execute(record, (step.id, stamp, schema.ctrlrun_version()))
    except sqlite3.Error as error:
        raise schema.failed(step.id, error, look(connection).recorded, where) from error


def _next_migration(
    connection: sqlite3.Connection, where: str
) -> tuple[Migration, str, str] | None:
    """The first migration that is missing, looked up again: another process may apply them too."""
    found = look(connection)
    schema.judge(found, where)
    missing = schema.pending(found.recorded)
    if not missing:
        return None
    step = next(step for step in MIGRATIONS if step.id == missing[0])
    return step, LEDGER, "INSERT INTO schema_version VALUES (?, ?, ?)"


def _next_extension(
    connection: sqlite3.Connection, where: str
) -> tuple[Migration, str, str] | None:
    found = look(connection)
    applied = applied_extensions(connection, found)
    missing = (step for step in EXTENSIONS if step.id not in applied)
    step = next(filter(found.suits, missing), None)
    if step is None:
        return None
    return step, EXTENSION_LEDGER, "INSERT INTO schema_extensions VALUES (?, ?, ?)"


# --- creating ------------------------------------------------------------------------------------


def create(path: Path, clock: Clock, connect: Connect) -> None:
    """Make a new database at the path, whole or not at all, never over what is there meanwhile.

    InvalidArgument when a symbolic link is there that leads nowhere.

    Built in a file beside it, synced, then linked to its name: a crash leaves at most that other
    file. Where links are not to be had, an empty file takes the name, which opening then fills.
    """
    if path.is_symlink():
        raise InvalidArgument(
            f"{path} is a symbolic link to no file, and no store is made through a link: name the "
            "file itself, or remove the link"
        )
    target = Path(os.path.realpath(path))
    _make_directories(target.parent)
    beside = target.with_name(f".ctrlrun-{secrets.token_hex(8)}.new")
    try:
        _make_file(beside, target)
        _build(beside, clock, connect)
        _sync(beside, target)
        _publish(beside, target)
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{beside}{suffix}")
    _sync(target.parent)


def _make_directories(directory: Path) -> None:
    missing = [parent for parent in (directory, *directory.parents) if not parent.exists()]
    for parent in reversed(missing):
        parent.mkdir(mode=_NEW_DIRECTORY_MODE, exist_ok=True)
        # A store whose folder a power cut forgets is lost with all that was acted on.
        _sync(parent.parent)


def _make_file(path: Path, shown: Path) -> None:
    """An empty file of our own; an error names the file that it was for."""
    try:
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        os.close(os.open(path, flags, _NEW_FILE_MODE))
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(shown)) from None


def _build(path: Path, clock: Clock, connect: Connect) -> None:
    connection = connect(uri(path, "rw"))
    try:
        # All steps in one transaction: nobody sees the file before it is complete.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        stamp = column_timestamp(clock())
        for ledger, table, steps in (
            (LEDGER, "schema_version", MIGRATIONS),
            (EXTENSION_LEDGER, "schema_extensions", EXTENSIONS),
        ):
            connection.execute(ledger)
            for step in steps:
                for statement in step.statements:
                    connection.execute(statement)
                record = (step.id, stamp, schema.ctrlrun_version())
                connection.execute(f"INSERT INTO {table} VALUES (?, ?, ?)", record)
        connection.execute("COMMIT")
        use_wal(connection)
    finally:
        connection.close()


def _publish(beside: Path, target: Path) -> None:
    try:
        os.link(beside, target)
    except FileExistsError:
        pass  # another process was faster; its database is as good
    except OSError:
        with contextlib.suppress(FileExistsError):
            _make_file(target, target)


def _sync(path: Path, shown: Path | None = None) -> None:
    """Have the file, or the directory's entries, on disk; an error names what it was for."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        return  # a directory that may be passed but not listed; on Windows, any
    try:
        os.fsync(handle)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(shown or path)) from None
    finally:
        os.close(handle)
