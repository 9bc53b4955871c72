"""`JWTIdentityProvider`: its settings, and the steps from a header to a principal.

It refuses with one sentence, whatever the cause: who sends a bad token learns nothing from the
answer. The cause is logged. The rules are in docs/identity.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from ctrlrun.action import Principal
from ctrlrun.canonical import has_surrogate
from ctrlrun.clock import LONGEST, Clock, utc_now
from ctrlrun.errors import IdentityError, InvalidArgument
from ctrlrun.identity import IdentityContext
from ctrlrun.jwt_identity.claims import Expected
from ctrlrun.jwt_identity.https import Address
from ctrlrun.jwt_identity.jwks import Published, PublishedKeys
from ctrlrun.jwt_identity.keys import (
    Algorithms,
    FixedKey,
    KeySource,
    check_families,
    chosen_algorithms,
    load_pyjwt,
    signed_by,
)
from ctrlrun.jwt_identity.token import bearer_token, json_object, parse, shown
from ctrlrun.logs import get_logger

if TYPE_CHECKING:
    from jwt.algorithms import Algorithm

logger = get_logger("ctrlrun")

REFUSED = "the bearer token was refused"

_LONGEST_QUESTION = timedelta(hours=1)

Duration = timedelta | float


class JWTIdentityProvider:
    """Takes the principal from a signed token in a request's header.

    Exactly one of `jwks_url` (https), `public_key` (PEM, or the path of a PEM file) and `secret`
    gives the key. Durations are timedeltas, or numbers of seconds: `leeway` for differing clocks,
    `jwks_min_refresh_interval` between two questions for the key set, `jwks_max_age` after which
    its keys verify nothing, `http_timeout` for one question. `token_type=None` takes any `typ`.

    Raises MissingDependency without PyJWT, and InvalidArgument for a setting that can never be
    right. The settings, and all that is refused, are in docs/identity.md.
    """

    def __init__(
        self,
        *,
        jwks_url: str | None = None,
        public_key: str | os.PathLike[str] | None = None,
        secret: str | bytes | None = None,
        algorithms: Collection[str],
        issuer: str,
        audience: str,
        token_type: str | None,
        header: str = "authorization",
        agent_claim: str = "sub",
        user_claim: str | None = None,
        claim_names: Sequence[str] = (),
        leeway: Duration = timedelta(seconds=60),
        jwks_min_refresh_interval: Duration = timedelta(seconds=30),
        jwks_max_age: Duration = timedelta(hours=1),
        http_timeout: Duration = timedelta(seconds=5),
        clock: Clock = utc_now,
    ) -> None:
        self._algorithms: Algorithms = chosen_algorithms(algorithms, load_pyjwt())
        _check_one_source(jwks_url=jwks_url, public_key=public_key, secret=secret)
        check_families(self._algorithms, symmetric=secret is not None)
        self._clock = clock
        self._expected = Expected(
            issuer=_text(issuer, "issuer"),
            audience=_text(audience, "audience"),
            agent_claim=_text(agent_claim, "agent_claim"),
            user_claim=None if user_claim is None else _text(user_claim, "user_claim"),
            claim_names=_names(claim_names),
            leeway=_duration(leeway, "leeway"),
        )
        self._header = _text(header, "header").strip()
        self._token_type = _checked_type(token_type)
        interval = _duration(jwks_min_refresh_interval, "jwks_min_refresh_interval")
        max_age = _duration(jwks_max_age, "jwks_max_age")
        timeout = _duration(http_timeout, "http_timeout")
        if not timedelta(0) < timeout <= _LONGEST_QUESTION:
            raise InvalidArgument("http_timeout must be more than nothing, and an hour at most")
        self._keys: KeySource
        if jwks_url is not None:
            where = Published(Address.of(jwks_url, "jwks_url"), timeout, interval, max_age)
            self._keys = PublishedKeys(where, self._algorithms, clock)
        elif public_key is not None:
            self._keys = FixedKey.of_public_key(public_key, self._algorithms)
        else:
            self._keys = FixedKey.of_secret(secret, self._algorithms)

    def resolve(self, context: IdentityContext) -> Principal | None:
        """The principal that the token names; None without the header, or with a blank one.

        Raises IdentityError for any token that is not good, always with the same message.
        """
        try:
            credentials = context.header(self._header)
            return None if credentials is None else self._principal(credentials)
        except IdentityError as error:
            cause = str(error)
        except Exception as error:
            # What nobody foresaw is a refusal too. Its text may hold key material: not logged.
            cause = f"unforeseen {type(error).__name__}"
        logger.warning("a bearer token was refused: %s", cause)
        # Outside the handler, so that the cause is not on the error as its context either.
        raise IdentityError(REFUSED)

    def _principal(self, credentials: str) -> Principal:
        token = parse(bearer_token(credentials))
        algorithm = self._algorithm(token.header)
        self._check_type(token.header)
        key = self._keys.key_for(token.header)
        if not signed_by(token, algorithm, key):
            raise IdentityError("the signature is not the key's")
        claims = json_object(token.payload, "the token's payload")
        return self._expected.principal(claims, self._clock())

    def _algorithm(self, header: Mapping[str, Any]) -> Algorithm:
        name = header.get("alg")
        algorithm = self._algorithms.get(name) if isinstance(name, str) else None
        if algorithm is None:
            raise IdentityError(f"alg is {shown(name)}, not one of the configured")
        return algorithm

    def _check_type(self, header: Mapping[str, Any]) -> None:
        if self._token_type is None:
            return
        kind = header.get("typ")
        if not isinstance(kind, str) or _kind(kind) != self._token_type:
            raise IdentityError(f"typ is {shown(kind)}, not the configured type")


def _kind(typ: str) -> str:
    """A `typ` for comparison: media types have no case, and `application/` may be left out."""
    return typ.strip().casefold().removeprefix("application/")


def _checked_type(token_type: object) -> str | None:
    if token_type is not None:
        return _kind(_text(token_type, "token_type"))
    logger.warning(
        "token_type is None: a token made for another purpose, an ID token for one, is taken as "
        "well (RFC 8725, section 3.11)"
    )
    return None


def _check_one_source(**sources: object) -> None:
    given = [name for name, value in sources.items() if value is not None]
    if len(given) != 1:
        raise InvalidArgument(
            f"exactly one of {', '.join(sources)} must be given, not {', '.join(given) or 'none'}"
        )


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip() or has_surrogate(value):
        raise InvalidArgument(f"{name} must be text, and not blank")
    return value


def _names(value: object) -> tuple[str, ...]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, set, frozenset)):
        raise InvalidArgument("claim_names must be a list of names, such as ['role']")
    return tuple(_text(name, "each of claim_names") for name in value)


def _duration(value: object, name: str) -> timedelta:
    """A timedelta, or a number of seconds, not negative and not longer than a clock goes."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        # Compared as it is: a number can be too large to convert, or no number at all.
        value = timedelta(seconds=value) if 0 <= value <= LONGEST.total_seconds() else None
    if not isinstance(value, timedelta) or not timedelta(0) <= value <= LONGEST:
        raise InvalidArgument(f"{name} must be a timedelta or seconds, 0 to {LONGEST.days} days")
    return value
