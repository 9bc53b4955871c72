"""A proxy before the server that breaks a connection at its COMMIT, on either side of it."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import urllib.parse
from enum import StrEnum

from tests.pg.server import server_url


class Cut(StrEnum):
    """What happens to the next COMMIT."""

    BEFORE = "before"
    """The server never hears of it."""
    AFTER = "after"
    """The server commits; the answer is lost."""


class Proxy:
    """Hands on what comes, until it is told to cut. Counts the connections that were made."""

    def __init__(self) -> None:
        self.cuts: list[Cut] = []
        self.connections = 0
        self.refuses = False
        self._server = socket.create_server(("127.0.0.1", 0))
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The server's URL by way of the proxy."""
        parts = urllib.parse.urlsplit(server_url())
        port = self._server.getsockname()[1]
        user = parts.username or "postgres"
        return (
            f"postgresql://{user}@127.0.0.1:{port}{parts.path}?sslmode=disable&gssencmode=disable"
        )

    def close(self) -> None:
        self._closed = True
        self._server.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                if self.refuses:
                    client.close()
                    continue
                self.connections += 1
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        upstream = _upstream()
        lost = threading.Event()
        threading.Thread(target=_copy, args=(upstream, client, lost), daemon=True).start()
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                if self.cuts and re.search(rb"COMMIT\x00", data):
                    lost.set()
                    if self.cuts.pop(0) is Cut.AFTER:
                        upstream.sendall(data)
                        _until_answered(upstream)
                    break
                upstream.sendall(data)
        for end in (client, upstream):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


def _upstream() -> socket.socket:
    parts = urllib.parse.urlsplit(server_url())
    host = urllib.parse.parse_qs(parts.query).get("host", [parts.hostname or "127.0.0.1"])[0]
    if host.startswith("/"):
        upstream = socket.socket(socket.AF_UNIX)
        upstream.connect(f"{host}/.s.PGSQL.{parts.port or 5432}")
        return upstream
    return socket.create_connection((host, parts.port or 5432))


def _until_answered(upstream: socket.socket) -> None:
    """Wait until the server has said something: it has committed by then."""
    _answers.setdefault(upstream.fileno(), threading.Event()).wait(10)


_answers: dict[int, threading.Event] = {}


def _copy(upstream: socket.socket, client: socket.socket, lost: threading.Event) -> None:
    number = upstream.fileno()
    with contextlib.suppress(OSError):
        while data := upstream.recv(65536):
            if lost.is_set():
                _answers.setdefault(number, threading.Event()).set()
                continue
            client.sendall(data)
    with contextlib.suppress(OSError):
        client.shutdown(socket.SHUT_RDWR)
    _answers.pop(number, None)
