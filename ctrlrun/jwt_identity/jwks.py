"""Keys that an issuer publishes at an address (JWKS): asked for when one is missing, and dropped.

A set is replaced whole and never changed, so that a known key is found without waiting. One thread
asks at a time, and nobody before the interval since the last question is over, however it ended.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from ctrlrun.clock import Clock
from ctrlrun.errors import IdentityError
from ctrlrun.forks import Forked, watch_forks
from ctrlrun.jwt_identity.https import Address, fetch
from ctrlrun.jwt_identity.keys import Algorithms, prepared
from ctrlrun.jwt_identity.token import json_object, shown
from ctrlrun.logs import get_logger

if TYPE_CHECKING:
    from jwt import PyJWK

logger = get_logger("ctrlrun")

_NO_TIME = timedelta(0)


@dataclass(frozen=True, slots=True)
class PublishedKey:
    """One entry of a set: the key, and the algorithm that its issuer keeps it for, if it says so."""

    jwk: PyJWK
    alg: object


@dataclass(frozen=True, slots=True)
class _KeySet:
    fetched_at: datetime
    keys: Mapping[str, PublishedKey]


@dataclass(frozen=True, slots=True)
class Published:
    """Where a set is, how long one question for it may take, how often it may be asked, and how
    long what was answered holds.
    """

    address: Address
    timeout: timedelta
    interval: timedelta
    max_age: timedelta


class PublishedKeys(Forked):
    """The keys at an address, by `kid`; never the key that a token brings along."""

    def __init__(self, where: Published, algorithms: Algorithms, clock: Clock) -> None:
        self._where = where
        self._algorithms = algorithms
        self._clock = clock
        self._asking = threading.Lock()
        self._asked_at: datetime | None = None
        self._set: _KeySet | None = None
        watch_forks(self)

    def after_fork_in_child(self) -> None:
        """A thread that is not here may have been asking: then this process asks for itself."""
        if self._asking.locked():
            self._asking = threading.Lock()
            self._asked_at = None

    def key_for(self, header: Mapping[str, Any]) -> object:
        """The key of the header's `kid`, ready for its `alg`."""
        kid = header.get("kid")
        if not isinstance(kid, str):
            raise IdentityError("the token names no kid, and the key set needs one")
        published = self._known(kid) or self._asked_for(kid)
        alg = header["alg"]
        if published.alg is not None and published.alg != alg:
            raise IdentityError(f"kid {shown(kid)} is for {shown(published.alg)}, not {shown(alg)}")
        key = prepared(self._algorithms[alg], published.jwk.key)
        if key is None:
            raise IdentityError(f"kid {shown(kid)} does not serve alg {shown(alg)}")
        return key

    def _known(self, kid: str) -> PublishedKey | None:
        known = self._set
        if known is None or not _within(self._clock() - known.fetched_at, self._where.max_age):
            return None
        return known.keys.get(kid)

    def _asked_for(self, kid: str) -> PublishedKey:
        with self._asking:
            published = self._known(kid)  # another thread may have asked meanwhile
            if published is not None:
                return published
            now = self._clock()
            if self._asked_at is not None:
                elapsed = now - self._asked_at
                if _NO_TIME <= elapsed < self._where.interval:
                    raise IdentityError(f"no key for kid {shown(kid)}, and it is too early to ask")
            self._asked_at = now
            body = fetch(self._where.address, timeout=self._where.timeout.total_seconds())
            self._set = _KeySet(now, read_key_set(body))
            published = self._set.keys.get(kid)
        if published is None:
            raise IdentityError(f"kid {shown(kid)} is not in the key set")
        return published


def read_key_set(text: bytes) -> dict[str, PublishedKey]:
    """The keys of a JWKS document that may verify, by `kid`; IdentityError when it is no such."""
    entries = json_object(text, "the key set").get("keys")
    if not isinstance(entries, list):
        raise IdentityError("the key set has no list of keys")
    usable = [entry for entry in entries if _may_verify(entry)]
    repeated = [
        kid for kid, times in Counter(entry["kid"] for entry in usable).items() if times > 1
    ]
    if repeated:
        raise IdentityError(f"the key set has kid {shown(repeated[0])} more than once")
    read = {entry["kid"]: _published(entry) for entry in usable}
    return {kid: key for kid, key in read.items() if key is not None}


def _may_verify(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("kid"), str):
        return False
    if entry.get("use", "sig") != "sig":
        return False
    operations = entry.get("key_ops", ["verify"])
    return isinstance(operations, list) and "verify" in operations


def _published(entry: Mapping[str, Any]) -> PublishedKey | None:
    """The public key of an entry; None for material that PyJWT cannot read, or that is secret."""
    from jwt import PyJWK

    # What signs does not belong in a published set: everyone who read it could sign.
    if entry.get("kty") == "oct" or "d" in entry:
        return None
    try:
        jwk = PyJWK(dict(entry))
        weakness = jwk.Algorithm.check_key_length(jwk.key)
    except Exception:
        # Foreign material can break in many ways; the other keys of the set are not at fault.
        return None
    if weakness:
        logger.warning("the key set's key %s is weak: %s", shown(entry["kid"]), weakness)
    return PublishedKey(jwk, entry.get("alg"))


def _within(elapsed: timedelta, limit: timedelta) -> bool:
    """Whether so much time is not too much; a clock that was set back says nothing."""
    return _NO_TIME <= elapsed <= limit
