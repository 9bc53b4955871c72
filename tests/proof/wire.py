"""A bad wire before a Postgres server: it drops, delays, half-closes and resets, by a seed."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum


class Fate(StrEnum):
    """What becomes of a connection once so many bytes went over it."""

    RESET = "reset"
    """Both ends are torn off."""
    HALF_CLOSED = "half closed"
    """One direction is shut; the other goes on for a moment."""
    SILENT = "silent"
    """Nothing passes any more, and after a while it is gone."""
    DELAYED = "delayed"
    """It stands still for a moment, and goes on."""
    ANSWER_LOST = "answer lost"
    """The next COMMIT goes through, and what the server says of it does not."""


_LINGER_S = 0.5
_LONGEST_DELAY_S = 0.3
_MEAN_BYTES = 30_000
_COMMIT = b"COMMIT\x00"


class BadWire:
    """Hands bytes to and fro until the fate of a connection strikes it. `fates` counts them."""

    def __init__(self, server: str, seed: int) -> None:
        self.fates: Counter[str] = Counter()
        self.is_bad = True
        self._server = server
        self._choices = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, schema: str) -> str:
        """A store's URL by way of this wire."""
        parts = urllib.parse.urlsplit(self._server)
        port = self._listener.getsockname()[1]
        return (
            f"postgresql://{parts.username or 'postgres'}@127.0.0.1:{port}{parts.path}"
            f"?sslmode=disable&gssencmode=disable&ctrlrun_schema={schema}"
        )

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                fate = self._choices.choice(list(Fate))
                size = self._choices.expovariate(1 / _MEAN_BYTES)
                delay = self._choices.uniform(0, _LONGEST_DELAY_S)
                line = _Line(self, client, fate, size, delay)
                threading.Thread(target=line.serve, daemon=True).start()

    def reach(self) -> socket.socket:
        """A connection to the server itself."""
        parts = urllib.parse.urlsplit(self._server)
        host = urllib.parse.parse_qs(parts.query).get("host", [parts.hostname or "127.0.0.1"])[0]
        if not host.startswith("/"):
            return socket.create_connection((host, parts.port or 5432))
        upstream = socket.socket(socket.AF_UNIX)
        try:
            upstream.connect(f"{host}/.s.PGSQL.{parts.port or 5432}")
        except OSError:
            upstream.close()
            raise
        return upstream


class _Line:
    """One connection, and what becomes of it."""

    def __init__(
        self, wire: BadWire, client: socket.socket, fate: Fate, bytes_left: float, delay: float
    ) -> None:
        self._wire = wire
        self._client = client
        self._fate = fate
        self._left = bytes_left
        self._delay = delay
        self._lock = threading.Lock()
        self._answers_are_lost = False

    def serve(self) -> None:
        """Hand on what the client says; another thread hands back the answers."""
        try:
            upstream = self._wire.reach()
        except OSError:
            self._client.close()
            return
        back = threading.Thread(target=self._copy, args=(upstream, self._client), daemon=True)
        back.start()
        self._copy(self._client, upstream)
        back.join()
        for end in (self._client, upstream):
            end.close()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._strikes(len(data)):
                    self._strike(source, sink)
                if self._fate is Fate.ANSWER_LOST and self._left <= 0 and self._wire.is_bad:
                    if source is self._client and _COMMIT in data:
                        self._answers_are_lost = True
                    elif source is not self._client and self._answers_are_lost:
                        self._wire.fates[self._fate] += 1
                        break  # the server has said what it did, and nobody hears it
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _strikes(self, count: int) -> bool:
        """Whether these bytes are the ones too many; once for each connection."""
        with self._lock:
            before, self._left = self._left, self._left - count
            return before > 0 >= self._left and self._wire.is_bad

    def _strike(self, source: socket.socket, sink: socket.socket) -> None:
        """Let the fate happen; raises OSError where that is the end of this direction."""
        if self._fate is Fate.ANSWER_LOST:
            return  # at its next COMMIT
        self._wire.fates[self._fate] += 1
        if self._fate is Fate.DELAYED:
            time.sleep(self._delay)
            return
        if self._fate is Fate.RESET:
            for end in (source, sink):
                with contextlib.suppress(OSError):  # closing sends a reset, not an end
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif self._fate is Fate.HALF_CLOSED:
            sink.shutdown(socket.SHUT_WR)
            time.sleep(_LINGER_S)
        else:
            time.sleep(_LINGER_S)
        raise ConnectionResetError


@contextlib.contextmanager
def bad_wires(server: str, count: int, seed: int) -> Iterator[list[BadWire]]:
    """So many wires before one server."""
    wires = [BadWire(server, seed + number) for number in range(count)]
    try:
        yield wires
    finally:
        for wire in wires:
            wire.close()
