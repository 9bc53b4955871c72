"""Opening SQLite files: which may be opened, and what they hold. Only looks.

A file that is refused is left exactly as it was, journal mode included.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ctrlrun.errors import CTRLRunError, InvalidArgument, StoreNotFound
from ctrlrun.state import schema
from ctrlrun.state.masking import masked
from ctrlrun.state.schema import Found
from ctrlrun.state.sqlite_connection import (
    BUSY,
    Connect,
    is_busy,
    open_connection,
    patiently,
    renamed,
)
from ctrlrun.state.sqlite_files import Identity

MIN_SQLITE_VERSION = (3, 35, 0)
_LOOKS = 5
_MOUNTS = "/proc/self/mountinfo"
_HALF_MADE = re.compile(r"\.ctrlrun-[0-9a-f]{16}\.new")
_ESCAPED = re.compile(rb"\\([0-7]{3})")


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
    if "://" in text:
        raise InvalidArgument(
            f"{masked(text)!r} is a URL, and a store's path is that of a file; name other stores "
            "by CTRLRUN_STORE_URL or --store-url"
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
            f"no database at '{path.absolute()}': is this the right folder? The agent's process "
            "creates it when it first runs"
        )


def require_one_name(path: Path) -> None:
    """InvalidArgument for a file with a second name: each name would have a log of its own.

    Two programs that write through different names each read one half of what happened. Reading
    stays possible.
    """
    real = os.path.realpath(path)
    if _names(real) > 1:
        _remove_half_made(real)
        names = _names(real)
        if names > 1:
            raise InvalidArgument(
                f"'{path}' is one file with {names} names (hard links), and SQLite keeps a log for "
                "each name, so programs would not see each other's writes; remove the other names, "
                f"or give this one a file of its own while no program runs: "
                f"sqlite3 '{path}' \"VACUUM INTO 'copy.db'\", then mv copy.db '{path}'"
            )
    if os.fsencode(real) in _mount_points():
        raise InvalidArgument(
            f"'{path}' is mounted as a single file, and SQLite keeps its log beside it, where other "
            "containers do not see it; mount the folder that holds it instead"
        )


def _names(path: str) -> int:
    try:
        return os.stat(path).st_nlink
    except OSError:
        return 0


def _remove_half_made(path: str) -> None:
    """Remove the names under which a new database was built: who made it may have been killed."""
    with contextlib.suppress(OSError):
        inode = os.stat(path).st_ino
        with os.scandir(os.path.dirname(path)) as entries:
            for entry in entries:
                if _HALF_MADE.fullmatch(entry.name) and entry.inode() == inode:
                    os.unlink(entry.path)


def _mount_points() -> frozenset[bytes]:
    """Where something is mounted, as this process sees it; nothing where the system does not tell."""
    try:
        with open(_MOUNTS, "rb") as mounts:
            fields = [line.split(b" ", 5)[4] for line in mounts]
    except (OSError, IndexError):
        return frozenset()
    return frozenset(
        _ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), field) for field in fields
    )


def uri(path: Path, mode: str) -> str:
    """The URI under which SQLite opens the file: `ro`, or `rw`, which never creates one."""
    return f"{path.absolute().as_uri()}?mode={mode}"


# --- looking -------------------------------------------------------------------------------------


def look(connection: sqlite3.Connection) -> Found:
    """What the database holds, at one moment.

    Tables and ledger are read in one transaction: read one after the other while another process
    migrates, a table made in between would look like one that is gone.
    """
    if connection.in_transaction:
        return _look(connection)
    connection.execute("BEGIN")
    try:
        return _look(connection)
    finally:
        connection.execute("ROLLBACK")


def _look(connection: sqlite3.Connection) -> Found:
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
    return renamed(error, f"cannot open {str(path)!r}: {reason}")


def peek(path: Path, connect: Connect, ask: Callable[[Found, str], object]) -> None:
    """Refuse what is not for us before SQLite touches it: opening alone can write beside a file.

    Asks again when the real connection is made, so whatever is in doubt here passes. A file that
    another process writes to meanwhile is in doubt: it is refused only when it stood still.
    """
    stood: _State | None = None
    for _ in range(_LOOKS):
        state = _state(path)
        if state.journal_size:
            return  # to be rolled back first
        refusal = _refusal(path, connect, ask, still=not state.wal_size)
        if refusal is None:
            return
        # With a log SQLite has read beneath its locks, and what it read is of one moment.
        if state.wal_size or stood == state == _state(path):
            raise refusal
        stood = state


def _refusal(
    path: Path, connect: Connect, ask: Callable[[Found, str], object], *, still: bool
) -> CTRLRunError | None:
    # Without a log to read, SQLite can be told to leave everything as it is.
    suffix = "&immutable=1" if still else ""
    try:
        with contextlib.closing(connect(uri(path, "ro") + suffix)) as connection:
            found = look(connection)
    except UnicodeDecodeError:
        return None
    except sqlite3.DatabaseError as error:
        named = _named(error, path)
        if not isinstance(named, InvalidArgument):
            return None
        named.__cause__ = error
        return named
    try:
        ask(found, repr(str(path)))
    except CTRLRunError as refusal:
        return refusal
    return None


class _State(NamedTuple):
    """What changes about a database when somebody writes to it."""

    inode: int
    size: int
    changed_ns: int
    wal_size: int
    journal_size: int


def _state(path: Path) -> _State:
    try:
        status = os.stat(path)
    except OSError:
        return _State(0, 0, 0, 0, 0)
    beside = (_size(f"{path}-wal"), _size(f"{path}-journal"))
    return _State(status.st_ino, status.st_size, status.st_mtime_ns, *beside)


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
