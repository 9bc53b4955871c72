"""Algorithms and the key that is configured: what PyJWT is asked for, and nothing it should decide.

PyJWT reads keys and verifies signatures. It is loaded when a provider is made, not before. Which
algorithm and which key are used is decided here, from the settings; a token chooses among them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ctrlrun.canonical import has_surrogate
from ctrlrun.errors import IdentityError, InvalidArgument, MissingDependency
from ctrlrun.files import read_regular
from ctrlrun.jwt_identity.token import Token, shown
from ctrlrun.logs import get_logger

if TYPE_CHECKING:
    from jwt import PyJWS
    from jwt.algorithms import Algorithm

logger = get_logger("ctrlrun")

Algorithms = Mapping[str, "Algorithm"]


class KeySource(Protocol):
    """Where the key for a token comes from."""

    def key_for(self, header: Mapping[str, Any]) -> object:
        """The key, ready for the header's `alg`; IdentityError when there is none."""


def load_pyjwt() -> PyJWS:
    """PyJWT's signatures; MissingDependency when it or its cryptography is not installed."""
    try:
        import cryptography
        from jwt import PyJWS
    except ImportError:
        raise MissingDependency("PyJWT with cryptography", "identity") from None
    del cryptography  # PyJWT loads without it, and then knows HS* alone
    return PyJWS()


def chosen_algorithms(names: object, jws: PyJWS) -> dict[str, Algorithm]:
    """The algorithms of these names; InvalidArgument for none, `none`, or one PyJWT has not."""
    if isinstance(names, (str, bytes)) or not isinstance(names, (Sequence, set, frozenset)):
        raise InvalidArgument("algorithms must be a list of names, such as ['RS256']")
    if not names:
        raise InvalidArgument("algorithms must name at least one algorithm")
    chosen: dict[str, Algorithm] = {}
    for name in names:
        if not isinstance(name, str):
            raise InvalidArgument("algorithms must be strings")
        if name.strip().lower() == "none":
            raise InvalidArgument("the algorithm none verifies nothing and is never taken")
        try:
            chosen[name] = jws.get_algorithm_by_name(name)
        except NotImplementedError:
            raise InvalidArgument(f"algorithm {name!r} is not one that PyJWT has") from None
    return chosen


def check_families(algorithms: Algorithms, *, symmetric: bool) -> None:
    """InvalidArgument when an algorithm is not of the family that the key is for."""
    for name in algorithms:
        if symmetric and not name.startswith("HS"):
            raise InvalidArgument(f"{name} needs a public key, not a secret")
        if not symmetric and name.startswith("HS"):
            raise InvalidArgument(
                f"{name} with a public key is key confusion: who knows the key could sign"
            )


def signed_by(token: Token, algorithm: Algorithm, key: object) -> bool:
    """Whether the signature is this key's, by this algorithm, over what the token says."""
    return algorithm.verify(token.signed, key, token.signature)


class FixedKey:
    """One key for every token, whatever `kid` a token names. Opens no socket."""

    def __init__(self, keys: Mapping[str, object]) -> None:
        self._keys = keys

    @classmethod
    def of_secret(cls, secret: object, algorithms: Algorithms) -> FixedKey:
        """The shared secret; InvalidArgument when it is empty, no text, or a key of another kind."""
        material = secret
        if isinstance(secret, str) and not has_surrogate(secret):
            material = secret.encode()
        if not isinstance(material, bytes) or not material:
            raise InvalidArgument("secret must be text or bytes, and not empty")
        # PyJWT's own words may quote the key.
        keys = _serving(algorithms, material)
        if len(keys) < len(algorithms):
            raise InvalidArgument("secret holds a public key or a JWK, which is no secret")
        return cls(keys)

    @classmethod
    def of_public_key(cls, source: object, algorithms: Algorithms) -> FixedKey:
        """The public key in PEM, or in the file of that path; InvalidArgument when it is none."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            material = load_pem_public_key(_pem(source))
        except (ValueError, UnsupportedAlgorithm):
            raise InvalidArgument("public_key is no public key in PEM") from None
        keys = _serving(algorithms, material)
        if not keys:
            raise InvalidArgument(f"public_key serves none of {', '.join(algorithms)}")
        return cls(keys)

    def key_for(self, header: Mapping[str, Any]) -> object:
        key = self._keys.get(header["alg"])
        if key is None:
            raise IdentityError(f"the configured key does not serve alg {shown(header['alg'])}")
        return key


def prepared(algorithm: Algorithm, material: Any) -> object | None:
    """The key as the algorithm takes it; None when it is of another kind or curve."""
    from jwt.exceptions import InvalidKeyError

    try:
        key: object = algorithm.prepare_key(material)
    except (InvalidKeyError, TypeError, ValueError):
        return None
    return key


def _serving(algorithms: Algorithms, material: object) -> dict[str, object]:
    """The key for each algorithm that it is of the right kind and curve for."""
    keys: dict[str, object] = {}
    for name, algorithm in algorithms.items():
        key = prepared(algorithm, material)
        if key is None:
            continue
        keys[name] = key
        weakness = algorithm.check_key_length(key)
        if weakness:
            logger.warning("the key for %s is weak: %s", name, weakness)
    return keys


def _pem(source: object) -> bytes:
    if isinstance(source, str) and source.lstrip().startswith("-----BEGIN"):
        return source.encode()
    if not isinstance(source, (str, os.PathLike)):
        raise InvalidArgument("public_key must be PEM text or the path of a PEM file")
    try:
        return read_regular(source)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"public_key cannot be read: {error}") from None
