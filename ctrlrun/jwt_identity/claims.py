"""What the claims of a verified token must say, and the principal they name.

Pure: claims and a moment in, a principal or an IdentityError out. Its message is the cause, for
the log alone. The rules are in docs/identity.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from ctrlrun.action import ClaimValue, Principal
from ctrlrun.errors import IdentityError, InvalidArgument
from ctrlrun.jwt_identity.token import shown
from ctrlrun.logs import get_logger

logger = get_logger("ctrlrun")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_PER_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Expected:
    """What a token has to say to be taken, and which of its claims name whom."""

    issuer: str
    audience: str
    agent_claim: str
    user_claim: str | None
    claim_names: tuple[str, ...]
    leeway: timedelta

    def principal(self, claims: Mapping[str, Any], now: datetime) -> Principal:
        """The principal that these claims name at `now`; IdentityError when they do not do."""
        leeway = self.leeway // _MICROSECOND
        moment = (now - _EPOCH) // _MICROSECOND
        self._check_issuer(claims)
        _check_forms(claims, moment + leeway)
        expiry = _expiry(claims, moment - leeway)
        _check_begun(claims, moment + leeway)
        self._check_audience(claims)
        return self._named(claims, expiry)

    def _check_issuer(self, claims: Mapping[str, Any]) -> None:
        issuer = claims.get("iss")
        if issuer != self.issuer:
            raise IdentityError(f"iss is {shown(issuer)}, not the configured issuer")

    def _check_audience(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud")
        if audience == self.audience:
            return
        if not isinstance(audience, list):
            raise IdentityError(f"aud is {shown(audience)}, not the configured audience")
        if self.audience not in audience:
            raise IdentityError("aud lists others, not the configured audience")

    def _named(self, claims: Mapping[str, Any], expiry: int) -> Principal:
        agent = claims.get(self.agent_claim)
        if not isinstance(agent, str) or not agent.strip():
            raise IdentityError(f"{self.agent_claim} is {shown(agent)}, which names no agent")
        user = None if self.user_claim is None else claims.get(self.user_claim)
        user = (user.strip() or None) if isinstance(user, str) else None
        try:
            # The principal expires with the token: leeway admits it, and does not lengthen it.
            expires_at = _EPOCH + timedelta(seconds=expiry)
            return Principal(agent.strip(), user, self._kept(claims), self.issuer, expires_at)
        except OverflowError:
            raise IdentityError("exp is later than any date") from None
        except InvalidArgument as error:
            raise IdentityError(f"the claims name no principal: {error}") from None

    def _kept(self, claims: Mapping[str, Any]) -> dict[str, ClaimValue]:
        kept: dict[str, ClaimValue] = {}
        for name in self.claim_names:
            value = claims.get(name)
            if isinstance(value, (str, int)):
                kept[name] = value
            elif name in claims:
                logger.debug("claim %s is dropped: it is %s", name, shown(value))
        return kept


def _check_forms(claims: Mapping[str, Any], latest: int) -> None:
    """`sub` and `jti` are text, `iat` is a number and not after `latest`, where they are there."""
    for name in ("sub", "jti"):
        if name in claims and not isinstance(claims[name], str):
            raise IdentityError(f"{name} is {shown(claims[name])}, not a string")
    if "iat" not in claims:
        return
    issued = claims["iat"]
    if isinstance(issued, bool) or not isinstance(issued, (int, float)):
        raise IdentityError(f"iat is {shown(issued)}, not a number")
    # A number such as 1e999 is read as infinite.
    if not (isinstance(issued, int) or math.isfinite(issued)) or issued * _PER_SECOND > latest:
        raise IdentityError("iat is in the future")


def _expiry(claims: Mapping[str, Any], earliest: int) -> int:
    """`exp` in seconds; at `earliest` exactly it still holds."""
    expiry = _integer(claims.get("exp"), "exp")
    if expiry * _PER_SECOND < earliest:
        raise IdentityError("the token has expired")
    return expiry


def _check_begun(claims: Mapping[str, Any], latest: int) -> None:
    begins = claims.get("nbf")
    if begins is not None and _integer(begins, "nbf") * _PER_SECOND > latest:
        raise IdentityError("the token does not hold yet")


def _integer(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise IdentityError(f"{name} is {shown(value)}, not an integer")
    return value
