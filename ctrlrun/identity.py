"""Principals from outside: what a provider is told, what it answers, and the two plainest ones.

A provider says who proposes an action; it decides nothing about the action. Providers that verify
a credential live elsewhere (`ctrlrun.jwt_identity`); the two here believe what they are given and
say so once, when they are made. The rules are in docs/identity.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from ctrlrun.action import ClaimValue, Principal
from ctrlrun.errors import IdentityError, InvalidArgument
from ctrlrun.logs import get_logger
from ctrlrun.text import inert

logger = get_logger("ctrlrun")


@dataclass(frozen=True, slots=True)
class IdentityContext:
    """What a provider may look at: the action's name, the environment, and who is said to ask.

    `headers` came with the request (none for a call inside the process); they hold credentials, so
    they are kept out of `repr`. `agent` and `user` are a hint that nobody verified. Raises
    InvalidArgument for headers that are no mapping of text to text.
    """

    action: str
    environment: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    agent: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.headers, Mapping):
            raise InvalidArgument("headers must be a mapping of names to values")
        headers = dict(self.headers)
        if not all(isinstance(part, str) for header in headers.items() for part in header):
            raise InvalidArgument("headers must have str names and str values")
        object.__setattr__(self, "headers", MappingProxyType(headers))

    def header(self, name: str) -> str | None:
        """The trimmed value of a header, whatever the case of its name; None if absent or blank.

        Raises IdentityError when two names differ in case alone: which of them the sender's proxy
        vouched for cannot be told.
        """
        wanted = _folded(name)
        values = [value for key, value in self.headers.items() if _folded(key) == wanted]
        if len(values) > 1:
            raise IdentityError(f"the request has {len(values)} headers {inert(name)}")
        return (values[0].strip() or None) if values else None


@runtime_checkable
class IdentityProvider(Protocol):
    """Says who asks."""

    def resolve(self, context: IdentityContext) -> Principal | None:
        """The principal, or None when there is no credential to look at.

        Raises IdentityError for a credential that was presented and is not good.
        """


@dataclass(frozen=True)
class StaticIdentityProvider:
    """One principal for every call, verified by nothing: for a process that serves one agent.

    Takes what `Principal` takes and raises InvalidArgument as it does. Logs one WARNING, when made.
    """

    agent: str
    user: str | None = None
    claims: Mapping[str, ClaimValue] = field(default_factory=dict, hash=False)
    issuer: str | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "claims", dict(self._principal.claims))
        logger.warning(
            "every call is taken to be agent %s: a static identity verifies nothing",
            self.agent,
        )

    @cached_property
    def _principal(self) -> Principal:
        return Principal(self.agent, self.user, self.claims, self.issuer, self.expires_at)

    def resolve(self, context: IdentityContext) -> Principal:
        """The same principal, whatever the context."""
        return self._principal


@dataclass(frozen=True)
class HeaderIdentityProvider:
    """Believes headers that a proxy in front of this process sets, and strips from callers.

    Without such a proxy anyone is whoever they say. Raises InvalidArgument for a blank name of a
    header. Logs one WARNING, when made.
    """

    agent_header: str
    user_header: str | None = None
    issuer: str | None = None

    def __post_init__(self) -> None:
        for name in ("agent_header", "user_header"):
            header = getattr(self, name)
            if header is not None or name == "agent_header":
                object.__setattr__(self, name, _header_name(header, name))
        Principal("any", issuer=self.issuer)  # refuses an issuer that is none
        logger.warning(
            "header %s is believed unverified: a proxy must set it and strip it from callers",
            self.agent_header,
        )

    def resolve(self, context: IdentityContext) -> Principal | None:
        """The principal that the headers name, without claims; None without the agent's header.

        Raises IdentityError for a value that cannot be a name.
        """
        agent = context.header(self.agent_header)
        if agent is None:
            return None
        user = None if self.user_header is None else context.header(self.user_header)
        try:
            return Principal(agent, user, issuer=self.issuer)
        except InvalidArgument as error:
            raise IdentityError(f"the identity headers name no principal: {error}") from error


def _header_name(name: object, where: str) -> str:
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgument(f"{where} must be the name of a header")
    return name.strip()


def _folded(name: str) -> str:
    """A header's name for comparison: names are ASCII, and no other letter folds onto one."""
    return name.lower() if name.isascii() else name
