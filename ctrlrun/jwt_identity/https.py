"""One document over HTTPS, for a root of trust: nothing else is asked, and nobody in between.

Redirects are not followed and the environment's proxies not used, so that the configured host is
the one that answers; the certificate is checked against the system's authorities, or those of
`SSL_CERT_FILE`. The whole exchange has one deadline: a server that drips cannot hold a call.
"""

from __future__ import annotations

import http.client
import ssl
import time
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlsplit

from ctrlrun.errors import IdentityError, InvalidArgument

MAX_BODY = 1_048_576
"""Bytes that a document may have: key sets have some thousands."""

_SHOWN = 200
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "ctrlrun",
}


@dataclass(frozen=True, slots=True)
class Address:
    """Where a document is: host, port and what to ask for there."""

    host: str
    port: int
    target: str

    @classmethod
    def of(cls, url: object, name: str) -> Address:
        """An `https` address; InvalidArgument, under the setting's name, for any other text."""
        if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
            raise InvalidArgument(f"{name} must be an address in ASCII without spaces")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidArgument(f"{name} is no address") from None
        if parts.scheme != "https":
            raise InvalidArgument(f"{name} must begin with https://")
        if not parts.hostname or port == 0:
            raise InvalidArgument(f"{name} names no host, or a port that does not exist")
        if "@" in parts.netloc:
            raise InvalidArgument(f"{name} holds a user or a password, which are not sent")
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.hostname, port or 443, target)


def fetch(address: Address, *, timeout: float) -> bytes:
    """The document there, within `timeout` seconds; IdentityError when it cannot be had."""
    try:
        return _fetched(address, time.monotonic() + timeout)
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        raise IdentityError(
            f"{address.host} could not be asked: {type(error).__name__}: {str(error)[:_SHOWN]}"
        ) from None


def _fetched(address: Address, deadline: float) -> bytes:
    context = ssl.create_default_context()
    context.sslsocket_class = _DeadlineSocket
    connection = http.client.HTTPSConnection(
        address.host, address.port, timeout=_left(deadline), context=context
    )
    try:
        connection.connect()
        cast("_DeadlineSocket", connection.sock).deadline = deadline
        connection.request("GET", address.target, headers=_HEADERS)
        with connection.getresponse() as response:
            # 3xx among them: a redirect would let the host name another root of trust.
            if response.status != http.client.OK:
                raise IdentityError(f"{address.host} answered {response.status}, not 200")
            body = response.read(MAX_BODY + 1)
    finally:
        connection.close()
    if len(body) > MAX_BODY:
        raise IdentityError(f"{address.host} answered more than {MAX_BODY} bytes")
    return body


class _DeadlineSocket(ssl.SSLSocket):
    """Waits until a moment of the monotonic clock, however many pieces arrive before it.

    A socket's own timeout is for each piece. The real clock is meant: a network waits in it.
    """

    deadline: float

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(_left(self.deadline))
        return super().recv_into(*args, **kwargs)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the time for it is over")
    return left
