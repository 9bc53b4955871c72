"""`PostgresStateStore`: a store in one schema of a Postgres database, for any number of hosts.

And what reads it, and answers in one that is there, without ever making or migrating it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Self

from ctrlrun.clock import Clock, utc_now
from ctrlrun.state import postgres_open
from ctrlrun.state.postgres_commit import SettledWrites
from ctrlrun.state.postgres_delegations import FollowedDelegations
from ctrlrun.state.postgres_dialect import PostgresDialect
from ctrlrun.state.postgres_pages import SettledPages
from ctrlrun.state.postgres_session import Connection, PostgresSession
from ctrlrun.state.postgres_url import DEFAULT_SCHEMA, place_of
from ctrlrun.state.relational import RelationalReader, RelationalStore
from ctrlrun.state.session import Sessions


class _Opened:
    """A store's connection string, its schema, and the sessions that lead there."""

    connector: postgres_open.Connect = staticmethod(postgres_open.open_connection)
    """Makes every connection of the store: overridden by tests of broken ones."""

    def _open(
        self, url: str, schema: str | None, check: Callable[[Connection], None]
    ) -> tuple[Sessions[PostgresSession], PostgresDialect]:
        # The default cannot be told from the same name given, and gives way to the URL's.
        place, self.schema = place_of(url, None if schema == DEFAULT_SCHEMA else schema)
        first = postgres_open.first_look(check)
        version = 0

        def connect() -> Connection:
            nonlocal version
            connection = self.connector(place)
            try:
                first(connection)
            except BaseException:
                connection.close()
                raise
            version = connection.info.server_version
            return connection

        sessions = Sessions(lambda: PostgresSession(connect, self.schema))
        with sessions.current():
            pass  # refuse here what cannot be opened
        return sessions, PostgresDialect(version)


class PostgresStateStore(
    _Opened, FollowedDelegations, SettledPages, SettledWrites, RelationalStore
):
    """A store in a schema of a Postgres database, shared by threads, processes and hosts.

    `url` goes to psycopg as it is (URL or keywords; `PG*` variables count), but for the parameter
    `ctrlrun_schema` of a URL, which names the schema where `schema` is left at `public`. Makes what is missing of tables and indexes, never the schema itself. `clock`
    returns aware times.

    Raises, in this order: InvalidArgument for an empty `url`, a bad name or two that differ;
    MissingDependency; the driver's error where nothing can be reached; InvalidArgument for a
    database that is not UTF8, a schema that is not there, or one in which tables are to be made and
    may not be; SchemaMismatch for another application's tables or another format. Rules:
    docs/stores.md.
    """

    def __init__(self, url: str, *, clock: Clock = utc_now, schema: str = DEFAULT_SCHEMA) -> None:
        sessions, dialect = self._open(url, schema, lambda c: self._prepare(c, clock))
        super().__init__(sessions, dialect, clock)

    def _prepare(self, connection: Connection, clock: Clock) -> None:
        postgres_open.bring_to_head(connection, self.schema, clock)

    @staticmethod
    def create_schema(url: str, schema: str) -> None:
        """Make the schema, unless it is there; raises the driver's error where it may not."""
        postgres_open.create_schema(url, schema)

    @staticmethod
    def drop_schema(url: str, schema: str, *, timeout: str = "10s") -> None:
        """Drop the schema and everything in it; gives up when others hold it for `timeout`."""
        postgres_open.drop_schema(url, schema, timeout=timeout)


class ExistingPostgresStore(PostgresStateStore):
    """A store for answers: with `extend=False` not changed by being opened.

    With `extend` it is given the indexes that it lacks; its format is left to the agents and to
    `ctrlrun migrate`. Raises StoreNotFound for a schema that is not there, and SchemaMismatch for
    one that holds no store at this build's head.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock = utc_now,
        schema: str = DEFAULT_SCHEMA,
        extend: bool,
    ) -> None:
        self._extend = extend
        super().__init__(url, clock=clock, schema=schema)

    def _prepare(self, connection: Connection, clock: Clock) -> None:
        postgres_open.check_ready(connection, self.schema)
        if self._extend:
            super()._prepare(connection, clock)


class PostgresReader(_Opened, FollowedDelegations, SettledPages, RelationalReader):
    """The reads and pages of a store that exists; there is no method in it that writes.

    Raises StoreNotFound when there is no such schema, and SchemaMismatch when it holds no store at
    this build's head: a reader brings nothing there.
    """

    def __init__(self, url: str, *, clock: Clock = utc_now, schema: str | None = None) -> None:
        sessions, dialect = self._open(
            url, schema, lambda c: postgres_open.check_ready(c, self.schema)
        )
        super().__init__(sessions, dialect, clock)


class KeptReader(PostgresReader):
    """A reader for all the threads of somebody who reads often: its connections stay open.

    `again` begins a use, as opening does, at the price of a look; `close` ends one, `end` all.
    """

    def again(self) -> Self:
        """The reader, once the store was found as it has to be; raises as opening it does."""
        with self._sessions.current() as session:
            session.look(lambda connection: postgres_open.check_ready(connection, self.schema))
        return self

    def close(self) -> None:
        """End a use; the connection waits for the next."""

    def end(self) -> None:
        """Close the connections."""
        super().close()


def migrate(url: str, schema: str, clock: Clock) -> tuple[str, ...]:
    """Bring a store that exists to head; what that took, by whomever, in the order of applying."""
    with closing(postgres_open.open_connection(url)) as connection:
        postgres_open.check_present(connection, schema)
        before = frozenset(postgres_open.applied_steps(connection, schema))
        postgres_open.bring_to_head(connection, schema, clock)
        after = postgres_open.applied_steps(connection, schema)
    return tuple(step for step in after if step not in before)
