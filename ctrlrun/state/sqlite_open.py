"""Opening SQLite files: what may be opened, what is made where nothing is, and bringing it to head.

A file that is refused is left exactly as it was, journal mode included. A new database is built
beside its place and put there whole, so that no crash leaves half of one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ctrlrun.clock import Clock, column_timestamp
from ctrlrun.errors import InvalidArgument, StoreNotFound
from ctrlrun.state import schema
from ctrlrun.state.schema import Classification, Found, Migration
from ctrlrun.state.sqlite_schema import EXTENSION_LEDGER, EXTENSIONS, LEDGER, MIGRATIONS
from ctrlrun.state.sqlite_session import (
    BUSY,
    Connect,
    Identity,
    is_busy,
    open_connection,
    patiently,
)

MIN_SQLITE_VERSION = (3, 35, 0)

_NEW_FILE_MODE = 0o600
_NEW_DIRECTORY_MODE = 0o700


# --- paths ---------------------------------------------------------------------------------------


def check_sqlite() -> None:
    """InvalidArgument when the SQLite library is older than the store needs."""
    if sqlite3.sqlite_version_info < MIN_SQLITE_VERSION:
        needed = ".".join(map(str, MIN_SQLITE_VERSION))
        raise InvalidArgument(f"SQLite {sqlite3.sqlite_version} is too old; {needed} is needed")


def check_path(path: str | os.PathLike[str]) -> Path:
    """The path as given; InvalidArgument for one that is no file's, or a database in memory."""
    text = os.fspath(path)
    if not isinstance(text, str):
        raise InvalidArgument(f"a store's path is a str or Path, not {type(path).__name__}")
    if not text.strip():
        raise InvalidArgument("a store's path must not be empty; set CTRLRUN_STATE to a file")
    if text == ":memory:" or "mode=memory" in text:
        raise InvalidArgument(
            f"{text!r} is a database in memory, which other processes cannot see; use "
            "InMemoryStateStore, or set CTRLRUN_STATE to a file"
        )
    if "\0" in text:
        raise InvalidArgument("a store's path must not hold a NUL character")
    return Path(text)


def check_file(path: Path) -> bool:
    """Whether there is a file; InvalidArgument when something else stands there."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise InvalidArgument(f"cannot look at {str(path)!r}: {error.strerror}") from None
    if stat.S_ISREG(mode):
        return True
    what = "a directory" if stat.S_ISDIR(mode) else "no regular file"
    raise InvalidArgument(f"{str(path)!r} is {what}, not a database; check CTRLRUN_STATE")


def require_file(path: Path) -> None:
    """StoreNotFound when there is no file."""
    if not check_file(path):
        raise StoreNotFound(
            f"no database at '{path}'; the agent's process creates it when it first runs"
        )


def uri(path: Path, mode: str) -> str:
    """The URI under which SQLite opens the file: `ro`, or `rw`, which never creates one."""
    return f"{path.absolute().as_uri()}?mode={mode}"


# --- looking -------------------------------------------------------------------------------------


def look(connection: sqlite3.Connection) -> Found:
    """What the database holds."""
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_'"
    ).fetchall()
    columns = {str(name): _columns(connection, str(name)) for (name,) in tables}
    found = Found(columns, {})
    if not found.has_ledger:
        return found
    recorded = connection.execute(
        "SELECT migration_id, ctrlrun_version FROM schema_version"
    ).fetchall()
    return Found(columns, {str(name): str(version) for name, version in recorded})


def _columns(connection: sqlite3.Connection, table: str) -> tuple[str, ...]:
    rows = connection.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall()
    return tuple(str(name) for (name,) in rows)


def applied_extensions(connection: sqlite3.Connection, found: Found) -> frozenset[str]:
    """The extensions that the database records."""
    if "extension_id" not in found.columns.get("schema_extensions", ()):
        return frozenset()
    rows = connection.execute("SELECT extension_id FROM schema_extensions").fetchall()
    return frozenset(str(name) for (name,) in rows)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of SQLite while a file is opened, with the file's name in them."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise _named(_malformed(error), path) from error
    except sqlite3.DatabaseError as error:
        raise _named(error, path) from error


def _malformed(error: UnicodeDecodeError) -> sqlite3.DatabaseError:
    """What SQLite said of a damaged schema: it quotes the damage, which need not be text."""
    said = sqlite3.DatabaseError(error.object.decode("utf-8", "backslashreplace"))
    said.sqlite_errorcode, said.sqlite_errorname = sqlite3.SQLITE_CORRUPT, "SQLITE_CORRUPT"
    return said


def _named(error: sqlite3.DatabaseError, path: Path) -> Exception:
    code = getattr(error, "sqlite_errorcode", 0) or 0
    if code & 0xFF == sqlite3.SQLITE_NOTADB:
        return InvalidArgument(f"{str(path)!r} is not a database; check CTRLRUN_STATE")
    reason = str(error)
    if is_busy(error):
        reason = BUSY
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN and not os.access(path.parent, os.W_OK):
        reason = (
            "its folder is read-only, and even to read it SQLite writes beside it; copy it first"
        )
    named = type(error)(f"cannot open {str(path)!r}: {reason}")
    if code:
        named.sqlite_errorcode = code
        named.sqlite_errorname = error.sqlite_errorname
    return named


def peek(path: Path, connect: Connect, ask: Callable[[Found, str], object]) -> None:
    """Refuse what is not for us before SQLite touches it: opening alone can write beside a file.

    Asks again when the real connection is made, so whatever is in doubt here passes.
    """
    if _size(f"{path}-journal"):
        return  # to be rolled back first
    # Without a log to read, SQLite can be told to leave everything as it is.
    still = "" if _size(f"{path}-wal") else "&immutable=1"
    try:
        with contextlib.closing(connect(uri(path, "ro") + still)) as connection:
            found = look(connection)
    except UnicodeDecodeError:
        return
    except sqlite3.DatabaseError as error:
        named = _named(error, path)
        if isinstance(named, InvalidArgument):
            raise named from error
        return
    ask(found, repr(str(path)))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def check_ready(connection: sqlite3.Connection, path: Path) -> None:
    """SchemaMismatch unless the database is at head; only reads."""
    with naming(path):
        schema.require_ready(patiently(lambda: look(connection)), repr(str(path)))


class Gate:
    """Looks at each new connection of a store: with `first` at the first, then at strange files.

    A thread's connection costs no look as long as it leads to the file that was looked at.
    """

    def __init__(self, path: Path, first: Callable[[sqlite3.Connection], None]) -> None:
        self._path = path
        self._first: Callable[[sqlite3.Connection], None] | None = first
        self._known: Identity | None = None

    def __call__(self, connection: sqlite3.Connection, identity: Identity | None) -> None:
        if self._first is not None:
            self._first(connection)
            self._first = None
        elif identity is None or identity != self._known:
            check_ready(connection, self._path)
        self._known = identity


def applied_migrations(
    path: str | os.PathLike[str], *, connect: Connect = open_connection
) -> tuple[str, ...]:
    """The migrations that a SQLite file records, in order; `()` for one that has no record.

    Only reads. Raises StoreNotFound when there is no file, InvalidArgument when it is no database.
    """
    place = check_path(path)
    require_file(place)
    with naming(place), contextlib.closing(connect(uri(place, "ro"))) as connection:
        return tuple(sorted(patiently(lambda: look(connection)).recorded))


def applied_steps(
    path: str | os.PathLike[str], *, connect: Connect = open_connection
) -> tuple[str, ...]:
    """Migrations and extensions that a SQLite file records, in the order in which they apply.

    Only reads; raises as `applied_migrations` does.
    """
    place = check_path(path)
    require_file(place)
    with naming(place), contextlib.closing(connect(uri(place, "ro"))) as connection:
        found = patiently(lambda: look(connection))
        extensions = patiently(lambda: applied_extensions(connection, found))
    return (*sorted(found.recorded), *sorted(extensions))


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
    applied = applied_extensions(connection, look(connection))
    step = next((step for step in EXTENSIONS if step.id not in applied), None)
    if step is None:
        return None
    return step, EXTENSION_LEDGER, "INSERT INTO schema_extensions VALUES (?, ?, ?)"


# --- creating ------------------------------------------------------------------------------------


def create(path: Path, clock: Clock, connect: Connect) -> None:
    """Make a new database at the path, whole or not at all, never over what is there meanwhile.

    Built in a file beside it, synced, then linked to its name: a crash leaves at most that other
    file. Where links are not to be had, an empty file takes the name, which opening then fills.
    """
    target = Path(os.path.realpath(path))
    _make_directories(target.parent)
    beside = target.with_name(f".ctrlrun-{secrets.token_hex(8)}.new")
    try:
        _make_file(beside, target)
        _build(beside, clock, connect)
        _sync(beside)
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


def _sync(path: Path) -> None:
    """Have the file, or the directory's entries, on disk."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except PermissionError:
        return  # a directory that may be passed but not listed; on Windows, any
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
