"""Keys, tokens as an issuer or an attacker writes them, and the providers they are shown to."""

from __future__ import annotations

import hashlib
import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from ctrlrun.action import Principal
from ctrlrun.errors import IdentityError
from ctrlrun.identity import IdentityContext
from ctrlrun.jwt_identity import JWTIdentityProvider

NOW = datetime(2027, 3, 4, 5, 6, 7, tzinfo=UTC)
NOW_SECONDS = int(NOW.timestamp())
ISSUER = "https://id.example"
AUDIENCE = "ctrlrun"
TYPE = "at+jwt"
SECRET = "a-secret-of-more-than-thirty-two-bytes-for-hs256-and-more-for-512"
REFUSED = "the bearer token was refused"


class _Absent:
    def __repr__(self) -> str:  # tests are named by it, in every worker alike
        return "absent"


ABSENT: Any = _Absent()
"""In place of a value: the name is left out."""


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def move(self, **by: float) -> None:
        self.now += timedelta(**by)


# --- keys ----------------------------------------------------------------------------------------


@cache
def private_key(name: str) -> Any:
    """The private key of this name: what stands before a `-` says its kind."""
    kind = name.partition("-")[0]
    if kind == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if kind == "ec":
        return ec.generate_private_key(ec.SECP256R1())
    if kind == "ec384":
        return ec.generate_private_key(ec.SECP384R1())
    return ed25519.Ed25519PrivateKey.generate()


def public_pem(name: str) -> str:
    """The public half, in PEM."""
    pem: bytes = (
        private_key(name)
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    return pem.decode()


def private_pem(name: str) -> str:
    """The private half, in PEM."""
    pem: bytes = private_key(name).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem.decode()


def jwk(name: str, alg: str, /, **more: Any) -> dict[str, Any]:
    """The public half as an entry of a key set; `more` adds to it, or takes away."""
    algorithm = jwt.get_algorithm_by_name(alg)
    entry = json.loads(algorithm.to_jwk(private_key(name).public_key()))
    entry.pop("key_ops", None)
    entry |= {"kid": name, "alg": alg, "use": "sig", **more}
    return {name: value for name, value in entry.items() if value is not ABSENT}


# --- tokens --------------------------------------------------------------------------------------


def b64(text: bytes) -> str:
    """Base64url, as the compact form has it."""
    return urlsafe_b64encode(text).rstrip(b"=").decode()


def document(base: Mapping[str, Any], changes: Mapping[str, Any] | bytes | None) -> bytes:
    """JSON of `base` with changes, or the bytes that replace it."""
    if isinstance(changes, bytes):
        return changes
    merged = {**base, **(changes or {})}
    return json.dumps(
        {name: value for name, value in merged.items() if value is not ABSENT}
    ).encode()


def good_claims() -> dict[str, Any]:
    """Claims that are taken at NOW."""
    return {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "agent-7",
        "exp": NOW_SECONDS + 300,
        "iat": NOW_SECONDS - 5,
        "jti": "t-1",
    }


def token(
    header: Mapping[str, Any] | bytes | None = None,
    claims: Mapping[str, Any] | bytes | None = None,
    *,
    alg: str = "RS256",
    key: Any = "rsa",
) -> str:
    """A token signed by the named key, of good content but for the changes."""
    head = b64(document({"alg": alg, "typ": TYPE, "kid": "rsa"}, header))
    signed = f"{head}.{b64(document(good_claims(), claims))}"
    return f"{signed}.{b64(signature(signed.encode(), alg, key))}"


def signature(signed: bytes, alg: str, key: Any) -> bytes:
    """What the key makes of it; for HS* the key is a secret's text, whatever PyJWT thinks of it."""
    if alg.startswith("HS"):
        return hmac.new(key.encode(), signed, getattr(hashlib, f"sha{alg[2:]}")).digest()
    made: bytes = jwt.get_algorithm_by_name(alg).sign(signed, private_key(key))
    return made


# --- providers -----------------------------------------------------------------------------------


def provider(**settings: Any) -> JWTIdentityProvider:
    """A provider for tokens signed with the key `rsa`; `settings` replace or add."""
    if not settings.keys() & {"secret", "public_key", "jwks_url"}:
        settings["public_key"] = public_pem("rsa")
    defaults = {
        "algorithms": ["RS256"],
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "token_type": TYPE,
        "clock": Clock(),
    }
    return JWTIdentityProvider(**{**defaults, **settings})


def shown_to(
    asked: JWTIdentityProvider, credentials: str | None, header: str = "Authorization"
) -> Principal | None:
    """What the provider says to a request with these credentials."""
    headers = {} if credentials is None else {header: credentials}
    return asked.resolve(IdentityContext("stripe.refund", "production", headers))


def admitted(asked: JWTIdentityProvider, credentials: str) -> Principal:
    """The principal of credentials that have to be good."""
    principal = shown_to(asked, credentials)
    assert isinstance(principal, Principal)
    return principal


def refused(asked: JWTIdentityProvider, credentials: str, caplog: pytest.LogCaptureFixture) -> str:
    """The cause that is logged, once, when credentials are refused; the refusal tells none of it."""
    caplog.clear()
    with caplog.at_level("WARNING", "ctrlrun"), pytest.raises(IdentityError) as caught:
        shown_to(asked, credentials)
    error = caught.value
    assert type(error) is IdentityError
    assert (error.args, vars(error)) == ((REFUSED,), {})
    assert error.__cause__ is None
    assert error.__context__ is None
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ctrlrun", "WARNING")
    cause = record.getMessage()
    assert cause.isprintable()
    assert record.exc_info is None
    for part in credentials.split("."):
        assert len(part) < 16 or part not in cause
    return cause


def bearer(text: str) -> str:
    """Credentials of the Bearer scheme."""
    return f"Bearer {text}"
