"""What an agent proposes: `Action` and `Principal`, their canonical form and hash.

An action is frozen the moment it is built: its arguments are a snapshot that nobody can change
between a person's approval and the call. The rules are in docs/actions.md.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from json.encoder import encode_basestring as quoted
from types import MappingProxyType
from typing import Any

from ctrlrun.canonical import (
    canonical_bytes as canonical_bytes,
)
from ctrlrun.canonical import (
    encode_plain,
    has_surrogate,
    plain,
    sha256_of,
)
from ctrlrun.clock import new_id
from ctrlrun.errors import InvalidArgument

ACTION_SCHEMA = "ctrlrun.action/v1"
DEFAULT_ENVIRONMENT = "production"

ClaimValue = str | int | bool


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: an agent, and the user it acts for.

    `claims` (verified facts about the principal), `issuer` and `expires_at` (aware) come from an
    identity provider and are not part of an action's hash. Raises InvalidArgument for a value of
    the wrong type, blank text, or a claim that is no string, integer or boolean.
    """

    agent: str
    user: str | None = None
    claims: Mapping[str, ClaimValue] = field(default_factory=dict)
    issuer: str | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        _set(self, "agent", _text(self.agent, "agent", blank=False))
        _set(self, "user", _optional_text(self.user, "user"))
        _set(self, "issuer", _optional_text(self.issuer, "issuer"))
        _set(self, "claims", MappingProxyType(_claims(self.claims)))
        if self.expires_at is not None:
            if not isinstance(self.expires_at, datetime):
                raise InvalidArgument("expires_at must be a datetime")
            if self.expires_at.utcoffset() is None:
                raise InvalidArgument("expires_at must have an offset from UTC")

    def __hash__(self) -> int:
        claims = frozenset(self.claims.items())
        return hash((self.agent, self.user, claims, self.issuer, self.expires_at))

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only views do not pickle; what a principal is built from does.
        claims = dict(self.claims)
        return (Principal, (self.agent, self.user, claims, self.issuer, self.expires_at))

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The names of the claims, sorted."""
        return tuple(sorted(self.claims))

    def is_expired(self, now: datetime) -> bool:
        """Whether the credential has lapsed; exactly at its expiry it still holds."""
        return self.expires_at is not None and now > self.expires_at


@dataclass(frozen=True, slots=True, eq=False)
class Action:
    """One proposed call: a name, its arguments, who asks, on what, where.

    Two actions are equal when their `action_id`s are; the same content has the same `action_hash`.
    Raises InvalidArgument, naming the field and the path in it, for a value that has no canonical
    form (docs/actions.md).
    """

    name: str
    arguments: Mapping[str, Any]
    principal: Principal
    resource: str | None = None
    environment: str = DEFAULT_ENVIRONMENT
    action_id: str = field(default_factory=lambda: new_id("act_"))

    _arguments_json: str = field(init=False, repr=False)
    action_hash: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _set(self, "name", _text(self.name, "name", blank=False))
        if not isinstance(self.principal, Principal):
            raise InvalidArgument("principal must be a Principal")
        _set(self, "resource", _optional_text(self.resource, "resource"))
        _set(self, "environment", _text(self.environment, "environment", blank=False))
        _set(self, "action_id", _text(self.action_id, "action_id", blank=False))
        if not isinstance(self.arguments, Mapping):
            raise InvalidArgument("arguments must be a mapping")
        arguments = plain(self.arguments, "arguments")
        _set(self, "_arguments_json", encode_plain(arguments, "arguments"))
        _set(self, "arguments", _frozen(arguments))
        _set(self, "action_hash", sha256_of(canonicalize(self)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Action) and self.action_id == other.action_id

    def __hash__(self) -> int:
        return hash(self.action_id)

    def __reduce__(self) -> tuple[Any, ...]:
        # Read-only views do not pickle; what an action is built from does.
        parts = (self.name, self.canonical_arguments, self.principal)
        return (Action, (*parts, self.resource, self.environment, self.action_id))

    @property
    def canonical_arguments(self) -> dict[str, Any]:
        """The arguments as plain, fresh containers, in canonical (sorted) order."""
        parsed: dict[str, Any] = json.loads(self._arguments_json)
        return parsed

    @property
    def arguments_json(self) -> str:
        """The canonical JSON text of the arguments."""
        return self._arguments_json


def canonicalize(action: Action) -> bytes:
    """The bytes that an action's hash is computed over (docs/actions.md)."""
    principal = action.principal
    return (
        f'{{"arguments":{action.arguments_json}'
        f',"environment":{quoted(action.environment)}'
        f',"name":{quoted(action.name)}'
        f',"principal":{{"agent":{quoted(principal.agent)},"user":{_text_or_null(principal.user)}}}'
        f',"resource":{_text_or_null(action.resource)}'
        f',"schema":"{ACTION_SCHEMA}"}}'
    ).encode()


def action_hash(action: Action) -> str:
    """`sha256:` and the hex SHA-256 of `canonicalize(action)`."""
    return action.action_hash


def _text_or_null(value: str | None) -> str:
    return "null" if value is None else quoted(value)


def _set(target: object, name: str, value: object) -> None:
    """Fill a field of a frozen dataclass while it is being built."""
    object.__setattr__(target, name, value)


def _text(value: object, name: str, *, blank: bool) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be a str, not {type(value).__name__}")
    text = str.__str__(value)
    if not text or not (blank or text.strip()):
        raise InvalidArgument(f"{name} must not be {'empty' if blank else 'blank'}")
    if has_surrogate(text):
        raise InvalidArgument(f"{name} holds a lone surrogate, which is not text")
    return text


def _optional_text(value: object, name: str) -> str | None:
    return None if value is None else _text(value, name, blank=True)


def _claims(claims: object) -> dict[str, ClaimValue]:
    if not isinstance(claims, Mapping):
        raise InvalidArgument("claims must be a mapping")
    result: dict[str, ClaimValue] = {}
    for key, value in claims.items():
        name = _text(key, "a claim's name", blank=True)
        where = f"claims.{name}"
        if not isinstance(value, (str, int)):
            raise InvalidArgument(f"{where} must be a str, int or bool, not {type(value).__name__}")
        checked: ClaimValue = plain(value, where)
        if isinstance(checked, str) and has_surrogate(checked):
            raise InvalidArgument(f"{where} holds a lone surrogate, which is not text")
        result[name] = checked
    return result


def _frozen(value: Any) -> Any:
    """Read-only mappings and tuples, all the way down."""
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value
