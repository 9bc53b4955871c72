"""Which store is meant, and opening it: the order of option, variables and default.

Refuses what names no store in one clear line, and never makes one. Rules: docs/stores.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ctrlrun.clock import Clock
from ctrlrun.errors import CTRLRunError, InvalidArgument, MissingDependency
from ctrlrun.receipt import EVENTS_FILENAME
from ctrlrun.state.protocol import PagedReader, UnitStateStore
from ctrlrun.state.sqlite import ExistingSQLiteStore, SQLiteReader
from ctrlrun.state.sqlite_open import applied_steps, check_path

STORE_URL_VARIABLE = "CTRLRUN_STORE_URL"
STATE_VARIABLE = "CTRLRUN_STATE"
CONFIG_VARIABLE = "CTRLRUN_CONFIG"
DEFAULT_POLICY = "ctrlrun.yaml"

_SQLITE = "sqlite://"
_POSTGRES = ("postgres://", "postgresql://")
_CREDENTIALS = re.compile(r"(://[^:@/]*):.*@", re.DOTALL)
_PASSWORD_PARAMETER = re.compile(r"(?i)(password=)[^&\s]*")


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a store is. `shown` is what a person may read: a password in it is masked."""

    backend: str
    path: Path
    shown: str

    @property
    def events_path(self) -> Path:
        """The events file that agents write beside the store."""
        return self.path.parent / EVENTS_FILENAME


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
    """A reader of a store that exists, which cannot write; raises as `SQLiteReader` does."""
    return SQLiteReader(location.path, clock=clock)


def open_writer(location: StoreLocation, *, clock: Clock, extend: bool) -> UnitStateStore:
    """A store that exists, for answers.

    With `extend` it is first brought to this build's format and indexes; without, opening changes
    nothing, and a store that is behind is refused. Raises as `ExistingSQLiteStore` does.
    """
    return ExistingSQLiteStore(location.path, clock=clock, extend=extend)


def migrate(location: StoreLocation, *, clock: Clock) -> tuple[str, ...]:
    """Bring a store that exists to this build's format and indexes; the ids of what was applied.

    What another process applies meanwhile is named too. Raises as `ExistingSQLiteStore` does.
    """
    before = frozenset(applied_steps(location.path))
    open_writer(location, clock=clock, extend=True).close()
    return tuple(step for step in applied_steps(location.path) if step not in before)


def masked(url: str) -> str:
    """A URL without its passwords."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _CREDENTIALS.sub(r"\1:***@", url))


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
    if url.startswith(_POSTGRES):
        raise _no_postgres(url, origin)
    raise InvalidArgument(
        f"{origin}: no store backend for {masked(url)!r}; "
        "write sqlite://PATH or postgresql://USER@HOST/DATABASE"
    )


def _no_postgres(url: str, origin: str) -> CTRLRunError:
    if find_spec("psycopg") is None:
        return MissingDependency("psycopg", "postgres")
    return InvalidArgument(
        f"{origin}: {masked(url)!r} is a Postgres store, which this version of ctrlrun does not "
        "open; write sqlite://PATH"
    )


def _file(path: Path) -> StoreLocation:
    return StoreLocation("sqlite", path, str(path))


def _blank(variable: str, what: str) -> InvalidArgument:
    return InvalidArgument(f"{variable} is set but blank; set it to {what}, or unset it")
