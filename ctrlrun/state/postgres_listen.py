"""Hearing of commits: a connection of its own that a Postgres store's notifications come to.

A notification says that something was committed, not what: whoever hears of one looks. Where
nothing can be heard (no trigger, a standby, a pooler, a connection that broke) this says so, and
tries again; it never raises. Rules: docs/stores.md.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress

from ctrlrun.logs import get_logger
from ctrlrun.state import postgres_open
from ctrlrun.state.masking import without_passwords
from ctrlrun.state.postgres_schema import TOLD_BY, channel_of
from ctrlrun.state.postgres_session import Connection, driver

log = get_logger("ctrlrun.postgres")

_RETRIES_S = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_UNHEARD_S = 60.0  # until it looks again whether there is something to hear by now
_GOODBYE_S = 2.0
_BREAKS_SOON = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""How a line that went dead is found out: nothing is ever sent on it. What the URL says wins."""

# A pooler gives out numbers of its own for its backends, and what is listened for behind it goes to
# whoever has the backend next.
_CAN_HEAR = (
    "SELECT pg_catalog.pg_backend_pid(), pg_catalog.pg_is_in_recovery(), EXISTS ("
    "SELECT 1 FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_proc f ON f.oid = t.tgfoid "
    "WHERE t.tgrelid = pg_catalog.to_regclass($1) AND t.tgname = $2 AND t.tgenabled IN ('O', 'A') "
    "AND pg_catalog.strpos(f.prosrc, $3) > 0)"
)


class Listener:
    """A thread that calls `heard`, in that thread, when something was committed to a store.

    It calls it too when it begins to hear and when it ceases to: what fell between is looked for.
    """

    def __init__(
        self,
        url: str,
        schema: str,
        heard: Callable[[], None],
        *,
        connect: postgres_open.Connect = postgres_open.open_connection,
    ) -> None:
        self._url = url
        self._schema = schema
        self._heard = heard
        self._connect = connect
        self._hears = False
        self._tries = 0
        self._stop = threading.Event()
        self._bell, self._button = socket.socketpair()
        self._thread = threading.Thread(
            target=self._run, name="ctrlrun-postgres-listener", daemon=True
        )

    @property
    def is_alive(self) -> bool:
        """Whether it hears: False while there is no connection that anything comes to."""
        return self._hears

    def start(self) -> None:
        """Begin to connect; what that takes is the thread's."""
        self._thread.start()

    def close(self) -> None:
        """Close the connection and end the thread; may come twice."""
        self._stop.set()
        with suppress(OSError):  # closed before
            self._button.send(b"\0")
        if self._thread.is_alive():
            self._thread.join(_GOODBYE_S)
        if not self._thread.is_alive():  # else the thread lets go of them
            self._let_go()

    def _let_go(self) -> None:
        self._button.close()
        self._bell.close()

    # --- in the listener's thread ----------------------------------------------------------------

    def _run(self) -> None:
        while not self._stop.is_set():
            pause = self._hear_once()
            if self._hears:
                self._hears = False
                self._heard()
            self._stop.wait(pause)

    def _hear_once(self) -> float:
        """Hear for as long as the connection lasts; how long to wait before the next."""
        try:
            with closing(self._connect(self._patient())) as connection:
                why = self._deafness(connection)
                if why is None:
                    self._listen(connection)
                    return 0.0
        except Exception as error:  # whatever a driver raises: who would be woken polls meanwhile
            said = " ".join(without_passwords(str(error), self._url).split())
            log.info("not hearing of commits in schema %s: %s", self._schema, said)
            pause = _RETRIES_S[min(self._tries, len(_RETRIES_S) - 1)]
            self._tries += 1
            return pause
        log.info("not hearing of commits in schema %s: %s", self._schema, why)
        return _UNHEARD_S

    def _patient(self) -> str:
        """The connection string, with what finds a dead line out; an unreadable one as it is."""
        psycopg = driver()
        given = psycopg.conninfo.conninfo_to_dict(self._url)
        added = {name: value for name, value in _BREAKS_SOON.items() if name not in given}
        return str(psycopg.conninfo.make_conninfo(self._url, **added))

    def _deafness(self, connection: Connection) -> str | None:
        """Why nothing would be heard on this connection; None when it would."""
        values = (f'"{self._schema}".events', TOLD_BY, channel_of(self._schema))
        backend, is_standby, is_told = connection.execute(_CAN_HEAR, values).fetchone()
        if backend != connection.info.backend_pid:
            return "a pooler stands between"
        if is_standby:
            return "the server is a standby"
        return None if is_told else "the store does not tell of them"

    def _listen(self, connection: Connection) -> None:
        """Until it is closed; raises the driver's error when the connection breaks."""
        connection.execute(f'LISTEN "{channel_of(self._schema)}"')
        self._hears, self._tries = True, 0
        self._heard()
        with selectors.DefaultSelector() as waiting:
            waiting.register(connection.fileno(), selectors.EVENT_READ)
            waiting.register(self._bell, selectors.EVENT_READ)
            while not self._stop.is_set():
                waiting.select()
                if _is_told(connection):
                    self._heard()


def _is_told(connection: Connection) -> bool:
    """Take in what came, and say whether a notification was among it."""
    connection.pgconn.consume_input()
    is_told = False
    while connection.pgconn.notifies() is not None:
        is_told = True
    return is_told
