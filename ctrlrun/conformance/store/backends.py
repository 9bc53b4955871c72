"""Backends: how the suites get at a store, again and again, empty each time.

A backend opens handles and throws storage away. It closes nothing that it handed out: who asked
for a handle closes it.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ctrlrun.clock import Clock, new_id, utc_now
from ctrlrun.conformance.store.checking import type_of
from ctrlrun.errors import InvalidArgument
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore, StateStore
from ctrlrun.state.location import locate, masked
from ctrlrun.state.postgres_url import SCHEMES, with_schema

_SQLITE = "sqlite://"


@runtime_checkable
class StoreBackend(Protocol):
    """What the suites need of a store.

    A backend may also have `opener() -> str`, a `module:function` that processes import and call
    with the URL: it is how a `url()` of a scheme that is not ours is opened.
    """

    @property
    def name(self) -> str:
        """What the report calls it."""
        ...

    def open(self) -> StateStore:
        """A handle on the storage, with the clock of the host."""
        ...

    def open_with_clock(self, clock: Clock) -> StateStore:
        """The same, with this clock."""
        ...

    def reopen(self) -> StateStore | None:
        """Another handle on what `open` wrote; None when that is gone with its handle."""
        ...

    def url(self) -> str | None:
        """Where another process finds the storage; None when none can."""
        ...

    def reset(self) -> None:
        """Throw everything away; what is opened next is empty."""
        ...


class InMemoryBackend:
    """`InMemoryStateStore`: each `open` is a store of its own, and nothing is left of it.

    `root` is taken as by `SQLiteBackend`, and nothing is kept there.
    """

    name = "memory"

    def __init__(self, root: str | Path | None = None) -> None:
        pass

    def open(self) -> StateStore:
        """A fresh store."""
        return self.open_with_clock(utc_now)

    def open_with_clock(self, clock: Clock) -> StateStore:
        """A fresh store with this clock."""
        return InMemoryStateStore(clock=clock)

    def reopen(self) -> StateStore | None:
        """None: it is gone."""
        return None

    def url(self) -> str | None:
        """None: it is in this process alone."""
        return None

    def reset(self) -> None:
        """Nothing is kept that could be thrown away."""


class SQLiteBackend:
    """`SQLiteStateStore` on files in a folder of its own under `root`, removed at each reset."""

    name = "sqlite"

    def __init__(self, root: str | Path) -> None:
        self._folder = Path(root).absolute() / new_id("conformance_")
        self._number = 0

    @property
    def path(self) -> Path:
        """The file of the storage as it is now."""
        return self._folder / f"state-{self._number}.db"

    def open(self) -> StateStore:
        """A handle on the file, which is made if it is not there."""
        return self.open_with_clock(utc_now)

    def open_with_clock(self, clock: Clock) -> StateStore:
        """The same, with this clock."""
        return SQLiteStateStore(self.path, clock=clock)

    def reopen(self) -> StateStore | None:
        """Another handle on the same file."""
        return self.open()

    def url(self) -> str | None:
        """`sqlite://` and the path."""
        return f"{_SQLITE}{self.path}"

    def reset(self) -> None:
        """Remove the folder; the next file has another name."""
        self._number += 1
        if self._folder.exists():
            shutil.rmtree(self._folder)


class PostgresBackend:
    """`PostgresStateStore` in schemas of its own, made in the database at `url` and dropped again.

    `url` is a URL, not keywords, and its user may make schemas. Raises InvalidArgument for another
    scheme, MissingDependency without the extra, and the driver's errors as they come.
    """

    name = "postgres"

    def __init__(self, url: str) -> None:
        if not url.startswith(SCHEMES):
            raise InvalidArgument(f"a database is named by a {SCHEMES[-1]} URL, to which we add")
        self._database = locate(url).url
        self._mark = secrets.token_hex(6)
        self._number = 0
        self._is_made = False

    @property
    def schema(self) -> str:
        """The schema of the storage as it is now; it is made by the first handle."""
        return f"conf_{self._mark}_{self._number}"

    def open(self) -> StateStore:
        """A handle on the schema, which is made if it is not there."""
        return self.open_with_clock(utc_now)

    def open_with_clock(self, clock: Clock) -> StateStore:
        """The same, with this clock."""
        if not self._is_made:
            PostgresStateStore.create_schema(self._database, self.schema)
            self._is_made = True
        return PostgresStateStore(self._database, clock=clock, schema=self.schema)

    def reopen(self) -> StateStore | None:
        """Another handle on the same schema."""
        return self.open()

    def url(self) -> str | None:
        """The database's URL, with the schema as `ctrlrun_schema`."""
        return with_schema(self._database, self.schema)

    def reset(self) -> None:
        """Drop the schema; the next one has another name."""
        if self._is_made:
            PostgresStateStore.drop_schema(self._database, self.schema)
            self._is_made = False
        self._number += 1


# --- opening by address --------------------------------------------------------------------------


def store_from_url(url: str) -> StateStore:
    """The store at an address of ours; InvalidArgument for any other scheme.

    A Postgres URL says its schema with `ctrlrun_schema`, as on the command line.
    """
    if url.startswith(_SQLITE):
        return SQLiteStateStore(url.removeprefix(_SQLITE))
    if url.startswith(SCHEMES):
        return PostgresStateStore(url)
    raise InvalidArgument(
        f"{_scheme(url)}:// is no store of ours ({_SQLITE}, {SCHEMES[-1]}); a backend with a scheme of its own "
        "says with opener() how to open it: 'module:function'"
    )


_CALLS = ("open", "open_with_clock", "reopen", "url", "reset")


def missing_of(backend: object) -> str | None:
    """The members of `StoreBackend` that an object has not got, in a line; None when it has all."""
    missing = [] if isinstance(getattr(backend, "name", None), str) else ["name (a text)"]
    missing += [f"{name}()" for name in _CALLS if not callable(getattr(backend, name, None))]
    if not missing:
        return None
    return f"the backend, {type_of(backend)}, has no {', '.join(missing)}"


def opener_of(backend: StoreBackend) -> str | None:
    """The `module:function` that opens the backend's addresses, or None when ours does."""
    ask: Callable[[], str] | None = getattr(backend, "opener", None)
    return None if ask is None else ask()


def open_at(url: str, opener: str | None) -> StateStore:
    """The store at an address, by what the backend names or by ours.

    Raises InvalidArgument for a scheme that neither opens, and for an opener that is no
    `module:function` or is not there.
    """
    return store_from_url(url) if opener is None else _function(opener)(url)


def _function(opener: object) -> Callable[[str], StateStore]:
    module, _, name = opener.partition(":") if isinstance(opener, str) else ("", "", "")
    if not module or not name:
        raise InvalidArgument(f"opener() must say 'module:function', not {opener!r}")
    try:
        found: Any = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"opener {opener!r} cannot be imported: {error}") from None
    if not callable(found):
        raise InvalidArgument(f"opener {opener!r} is not a function")
    opened: Callable[[str], StateStore] = found
    return opened


def _scheme(url: str) -> str:
    return url.partition("://")[0] if "://" in url else masked(url)[:20]
