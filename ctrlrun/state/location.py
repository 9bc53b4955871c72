"""Which store is meant, and opening it: the order of option, variables and default.

Refuses what names no store in one clear line, and never makes one. Rules: docs/stores.md.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ctrlrun.clock import Clock
from ctrlrun.errors import InvalidArgument, MissingDependency
from ctrlrun.forks import Forked, watch_forks
from ctrlrun.receipt import EVENTS_FILENAME
from ctrlrun.state.masking import masked, without_passwords
from ctrlrun.state.postgres_url import DEFAULT_SCHEMA, SCHEMES, place_of, with_schema
from ctrlrun.state.protocol import PagedReader, UnitStateStore
from ctrlrun.state.sqlite import ExistingSQLiteStore, SQLiteReader
from ctrlrun.state.sqlite_open import applied_steps, check_path

if TYPE_CHECKING:
    from ctrlrun.state.postgres import KeptReader
    from ctrlrun.state.postgres_listen import Listener

STORE_URL_VARIABLE = "CTRLRUN_STORE_URL"
STATE_VARIABLE = "CTRLRUN_STATE"
CONFIG_VARIABLE = "CTRLRUN_CONFIG"
DEFAULT_POLICY = "ctrlrun.yaml"

_SQLITE = "sqlite://"


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a store is. `shown` is what a person may read: a password in it is masked.

    `path` is a SQLite file; `url`, which may hold a password, and `schema` are of Postgres.
    """

    backend: str
    path: Path | None
    shown: str
    url: str = field(default="", repr=False)
    schema: str = ""

    @property
    def events_path(self) -> Path | None:
        """The events file that agents write beside the store; None where nothing stands beside it."""
        return None if self.path is None else self.path.parent / EVENTS_FILENAME

    @property
    def store_url(self) -> str:
        """What names the store to another process of ours: may hold a password."""
        if self.path is not None:
            return f"sqlite://{self.path}"
        return with_schema(self.url, self.schema)


def locate(store_url: str | None, environ: Mapping[str, str] = os.environ) -> StoreLocation:
    """The store that an operator means; it need not exist.

    `store_url`, else CTRLRUN_STORE_URL, else the file CTRLRUN_STATE, else `.ctrlrun/state.db`
    beside the policy. Raises InvalidArgument for a URL of no store, a variable that is set and
    blank, and a database in memory; MissingDependency for Postgres without its extra.
    """
    if store_url is not None:
        return _from_url(store_url, "--store-url")
    from_variable = environ.get(STORE_URL_VARIABLE)
    if from_variable is not None:
        if not from_variable.strip():
            raise _blank(STORE_URL_VARIABLE, "a store URL")
        return _from_url(from_variable, STORE_URL_VARIABLE)
    return _file(state_path(environ=environ))


def state_path(
    source: str | os.PathLike[str] | None = None, environ: Mapping[str, str] = os.environ
) -> Path:
    """The SQLite file of a policy: CTRLRUN_STATE, else `.ctrlrun/state.db` in the policy's folder.

    `source` is the policy's path; absent, CTRLRUN_CONFIG, else `./ctrlrun.yaml` (which need not
    exist). Raises InvalidArgument for a blank variable, or a path that can be no file.
    """
    stated = environ.get(STATE_VARIABLE)
    if stated is not None:
        if not stated.strip():
            raise _blank(STATE_VARIABLE, "a file path")
        return check_path(stated)
    return _policy_path(source, environ).parent / ".ctrlrun" / "state.db"


def open_reader(location: StoreLocation, *, clock: Clock) -> PagedReader:
    """A reader of a store that exists, which cannot write.

    Raises as `SQLiteReader` or `PostgresReader` does, and InvalidArgument for a server that cannot
    be reached.
    """
    if location.path is not None:
        return SQLiteReader(location.path, clock=clock)
    from ctrlrun.state.postgres import PostgresReader

    with _reaching(location):
        return PostgresReader(location.url, clock=clock, schema=location.schema)


class KeptReaders(Forked):
    """Readers of one store for a sitting that reads often, from any of its threads.

    Connecting to a server takes longer than most reads: its connections are kept until `close`,
    and the store is looked at again for each use. A file is opened each time.
    """

    def __init__(self, location: StoreLocation, *, clock: Clock) -> None:
        self._location = location
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: KeptReader | None = None
        watch_forks(self)

    def after_fork_in_child(self) -> None:
        """A thread that is not here may have been connecting."""
        self._lock = threading.Lock()

    def reader(self) -> PagedReader:
        """As `open_reader`; closing it gives it back."""
        if self._location.path is not None:
            return open_reader(self._location, clock=self._clock)
        with _reaching(self._location):
            return self._opened().again()

    def _opened(self) -> KeptReader:
        from ctrlrun.state.postgres import KeptReader

        with self._lock:
            if self._kept is None:
                location = self._location
                self._kept = KeptReader(location.url, clock=self._clock, schema=location.schema)
            return self._kept

    def close(self) -> None:
        """Close what was kept."""
        with self._lock:
            if self._kept is not None:
                self._kept.end()


def open_listener(location: StoreLocation, heard: Callable[[], None]) -> Listener | None:
    """What calls `heard`, in a thread of its own, after commits in a store; None where files do.

    It is not started, and reaches nothing before it is.
    """
    if location.path is not None:
        return None
    from ctrlrun.state.postgres_listen import Listener

    return Listener(location.url, location.schema, heard)


def open_writer(location: StoreLocation, *, clock: Clock, extend: bool) -> UnitStateStore:
    """A store that exists, for answers.

    With `extend` it is first brought to this build's format and indexes (in Postgres to its indexes
    alone); without, opening changes nothing, and a store that is behind is refused. Raises as
    `ExistingSQLiteStore` or `ExistingPostgresStore` does, and InvalidArgument for a server that
    cannot be reached.
    """
    if location.path is not None:
        return ExistingSQLiteStore(location.path, clock=clock, extend=extend)
    from ctrlrun.state.postgres import ExistingPostgresStore

    with _reaching(location):
        return ExistingPostgresStore(
            location.url, clock=clock, schema=location.schema, extend=extend
        )


def migrate(location: StoreLocation, *, clock: Clock) -> tuple[str, ...]:
    """Bring a store that exists to this build's format and indexes; the ids of what was applied.

    What another process applies meanwhile is named too. Raises as `open_writer` does.
    """
    if location.path is not None:
        before = frozenset(applied_steps(location.path))
        open_writer(location, clock=clock, extend=True).close()
        return tuple(step for step in applied_steps(location.path) if step not in before)
    from ctrlrun.state import postgres

    with _reaching(location):
        return postgres.migrate(location.url, location.schema, clock)


@contextlib.contextmanager
def _reaching(location: StoreLocation) -> Iterator[None]:
    """What the driver says while a store is opened, as one line that names the store."""
    from ctrlrun.state.postgres_session import driver

    try:
        yield
    except driver().Error as error:
        said = " ".join(without_passwords(str(error), location.url).split())
        raise InvalidArgument(f"cannot open {location.shown}: {said}") from error


def _policy_path(source: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path:
    if source is not None:
        return Path(source)
    configured = environ.get(CONFIG_VARIABLE)
    if configured is None:
        return Path(DEFAULT_POLICY)
    if not configured.strip():
        raise _blank(CONFIG_VARIABLE, "a policy's path")
    return Path(configured)


def _from_url(url: str, origin: str) -> StoreLocation:
    if url.startswith(_SQLITE):
        path = url.removeprefix(_SQLITE)
        if not path.strip():
            raise InvalidArgument(f"{origin}: {url!r} names no file; write sqlite://PATH")
        return _file(check_path(path))
    if url.startswith(SCHEMES):
        return _in_postgres(url, origin)
    raise InvalidArgument(
        f"{origin}: no store backend for {masked(url)!r}; "
        "write sqlite://PATH or postgresql://USER@HOST/DATABASE"
    )


def _in_postgres(url: str, origin: str) -> StoreLocation:
    if find_spec("psycopg") is None:
        raise MissingDependency("psycopg", "postgres")
    try:
        bare, schema = place_of(url)
    except InvalidArgument as error:
        raise InvalidArgument(f"{origin}: {error}") from None
    shown = masked(bare) if schema == DEFAULT_SCHEMA else f"{masked(bare)} (schema {schema})"
    return StoreLocation("postgres", None, shown, bare, schema)


def _file(path: Path) -> StoreLocation:
    return StoreLocation("sqlite", path, str(path))


def _blank(variable: str, what: str) -> InvalidArgument:
    return InvalidArgument(f"{variable} is set but blank; set it to {what}, or unset it")


__all__ = [
    "STORE_URL_VARIABLE",
    "KeptReaders",
    "StoreLocation",
    "locate",
    "masked",
    "migrate",
    "open_listener",
    "open_reader",
    "open_writer",
    "state_path",
]
