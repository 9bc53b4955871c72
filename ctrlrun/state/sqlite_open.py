"""Opening SQLite files: which may be opened, and what they hold. Only looks.

A file that is refused is left exactly as it was, journal mode included.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from ctrlrun.errors import InvalidArgument, StoreNotFound
from ctrlrun.state import schema
from ctrlrun.state.masking import masked
from ctrlrun.state.schema import Found
from ctrlrun.state.sqlite_files import Identity
from ctrlrun.state.sqlite_session import (
    BUSY,
    Connect,
    is_busy,
    open_connection,
    patiently,
    renamed,
)

MIN_SQLITE_VERSION = (3, 35, 0)


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


def check_one_name(path: Path) -> None:
    """InvalidArgument for a file that others may open under another name.

    SQLite names the write-ahead log after the path, so one file under two names has two logs, and
    each loses what is in the other.
    """
    real = os.path.realpath(path)
    links = os.stat(real).st_nlink
    if links > 1 and links > 1 + _unfinished_links(real):
        raise InvalidArgument(
            f"{str(path)!r} is a file with {links} names (hard links), and writing it under two "
            "of them loses data; remove the others, or copy the file and open the copy"
        )
    if _is_mount_point(real):
        raise InvalidArgument(
            f"{str(path)!r} is mounted as a single file, so the write-ahead log beside it is not "
            "shared with whoever opens it elsewhere; mount its folder instead"
        )


def _unfinished_links(real: str) -> int:
    """How many names of the file are those under which a new store is made: they are to go."""
    which = os.stat(real).st_ino
    with os.scandir(os.path.dirname(real)) as entries:
        return sum(
            entry.inode() == which
            for entry in entries
            if entry.name.startswith(".ctrlrun-") and entry.name.endswith(".new")
        )


def _is_mount_point(real: str) -> bool:
    """Whether a file is mounted at the path, as Linux tells."""
    try:
        lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    except OSError:
        return False
    # The fifth field, in which spaces, tabs, line ends and backslashes are written as `\\040`.
    mounted = os.fsencode(real)
    escaped = b"".join(
        b"\\%03o" % byte if byte in b" \t\n\\" else bytes([byte]) for byte in mounted
    )
    return any(line.split(b" ")[4] == escaped for line in lines if line.count(b" ") > 4)


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


def opened(connection: sqlite3.Connection) -> sqlite3.Connection:
    """The connection, once SQLite has opened its files; closed when it cannot."""
    try:
        patiently(lambda: connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall())
    except BaseException:
        connection.close()
        raise
    return connection


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
