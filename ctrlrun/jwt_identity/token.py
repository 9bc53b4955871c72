"""The compact form of a signed token, taken apart: text in, header and bytes out.

Nothing is believed here, and the payload stays bytes: only a verified one is read. Every refusal is
an IdentityError whose message is the cause, for the log alone; no message holds a token.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ctrlrun.errors import IdentityError

MAX_TOKEN = 16_384
"""Characters that a token may have: what servers take as one header, and little to parse."""

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)
_SHOWN = 64


@dataclass(frozen=True, slots=True)
class Token:
    """A token that can be read; whether it can be believed is another matter."""

    header: Mapping[str, Any]
    payload: bytes = field(repr=False)
    signed: bytes = field(repr=False)
    signature: bytes = field(repr=False)


def bearer_token(credentials: str) -> str:
    """The token of `Bearer TOKEN`; the scheme in any case, a space and no other blank after it."""
    scheme, _, token = credentials.partition(" ")
    if scheme.lower() != "bearer":
        raise IdentityError("the header does not hold Bearer credentials")
    token = token.strip(" ")
    if not token:
        raise IdentityError("no token follows the word Bearer")
    if len(token) > MAX_TOKEN:
        raise IdentityError(f"the token has {len(token)} characters, more than {MAX_TOKEN}")
    return token


def parse(token: str) -> Token:
    """The token in its parts, its header read: `kid` is text, and nothing in it is critical."""
    parts = token.split(".")
    if len(parts) != 3:
        raise IdentityError(f"the token has {len(parts)} parts, not three")
    header = json_object(_decoded(parts[0], "header"), "the token's header")
    if "kid" in header and not isinstance(header["kid"], str):
        raise IdentityError("the token's kid is no string")
    # An extension that a token calls critical must be understood, and none is: even an empty list
    # is not what an issuer may write.
    if "crit" in header:
        raise IdentityError("the token calls extensions critical, and none is known")
    return Token(
        header,
        payload=_decoded(parts[1], "payload"),
        signed=f"{parts[0]}.{parts[1]}".encode("ascii"),
        signature=_decoded(parts[2], "signature"),
    )


def json_object(text: bytes, what: str) -> dict[str, Any]:
    """The JSON object of a text: UTF-8, each name once, numbers that JSON has.

    Two readers that differ on a repeated name see two documents under one signature.
    """
    try:
        value = json.loads(
            text.decode("utf-8"), object_pairs_hook=_each_name_once, parse_constant=_no_constant
        )
    except RecursionError:
        raise IdentityError(f"{what} is nested too deeply") from None
    except ValueError:
        # The parser's own message may quote the text.
        raise IdentityError(f"{what} is not JSON, or repeats a name") from None
    if not isinstance(value, dict):
        raise IdentityError(f"{what} is no JSON object")
    return value


def shown(value: object) -> str:
    """A value of an unverified document as a cause names it: short, or only its type."""
    if not isinstance(value, str):
        return "nothing" if value is None else f"a value of type {type(value).__name__}"
    return f'"{value}"' if len(value) <= _SHOWN else f'"{value[:_SHOWN]}…"'


def _decoded(part: str, name: str) -> bytes:
    """A part's bytes: base64url without padding, spelled in the one way that it has."""
    if _BASE64URL.fullmatch(part) and len(part) % 4 != 1:
        decoded = urlsafe_b64decode(part + "=" * (-len(part) % 4))
        if urlsafe_b64encode(decoded).rstrip(b"=") == part.encode("ascii"):
            return decoded
    raise IdentityError(f"the token's {name} is not base64url")


def _each_name_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")
