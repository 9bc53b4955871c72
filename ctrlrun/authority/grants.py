"""Grants: which subject may do which actions, on what, where, within which limits, until when.

These are the values; where they are written is the business of `documents`. The rules are in
docs/authority.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.authority.patterns import (
    ACTION_SEPARATOR,
    RESOURCE_SEPARATOR,
    matches,
    pattern_fault,
)
from ctrlrun.canonical import has_surrogate
from ctrlrun.conditions import AllOf, Condition, check_argument
from ctrlrun.errors import InvalidArgument
from ctrlrun.logs import get_logger

logger = get_logger(__name__)

DEFAULT_MAX_DELEGATION_DEPTH = 3
DELEGATION_ID_PREFIX = "dlg_"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Subject:
    """Whom a grant is for: a pattern for the agent, for the user, or for both.

    Raises InvalidArgument when both are None or one is malformed.
    """

    agent: str | None = None
    user: str | None = None

    def __post_init__(self) -> None:
        if self.agent is None and self.user is None:
            raise InvalidArgument("subject: needs agent, user, or both")
        for name, pattern in (("agent", self.agent), ("user", self.user)):
            if pattern is not None:
                _check_pattern(pattern, None, f"subject.{name}")

    def matches(self, principal: Principal) -> bool:
        """Whether it is for this principal; a name it leaves out is any, or nobody's."""
        agent, user = principal.agent, principal.user
        if self.agent is not None and not matches(self.agent, agent, separator=None):
            return False
        return self.user is None or (user is not None and matches(self.user, user, separator=None))


@dataclass(frozen=True, slots=True)
class Grant:
    """One permission. None means no limit for `resources` and `environments`, never for `expires_at`.

    `constraints` are conditions by their keys; sequences become tuples. An empty `id` is one that is
    still to be given. Raises InvalidArgument for whatever a document's grant would be refused for.
    """

    id: str
    subject: Subject
    actions: tuple[str, ...] = ()
    resources: tuple[str, ...] | None = None
    constraints: Mapping[str, Condition] = field(default_factory=dict)
    environments: tuple[str, ...] | None = None
    expires_at: datetime | None = None
    delegable: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or (self.id and not _ID.fullmatch(self.id)):
            raise InvalidArgument(
                f"id: {self.id!r} must be letters, digits, dots, underscores and hyphens, "
                "starting with a letter or digit"
            )
        if not isinstance(self.subject, Subject):
            raise InvalidArgument("subject: must be a Subject")
        _set(self, "actions", _patterns(self.actions, ACTION_SEPARATOR, "actions"))
        if self.resources is not None:
            _set(self, "resources", _patterns(self.resources, RESOURCE_SEPARATOR, "resources"))
        if self.environments is not None:
            _set(self, "environments", _environments(self.environments, self.id))
        _set(self, "constraints", _constraints(self.constraints))
        self._check_expiry()

    def is_expired(self, now: datetime) -> bool:
        """Whether its last moment is over; it is good at that moment still."""
        return self.expires_at is not None and now > self.expires_at

    def matches_shape(self, action: Action) -> bool:
        """Whether its subject, actions, resources and environments are the action's."""
        resource = action.resource
        if not self.subject.matches(action.principal):
            return False
        if not _any_matches(self.actions, action.name, ACTION_SEPARATOR):
            return False
        if self.resources is not None and (
            resource is None or not _any_matches(self.resources, resource, RESOURCE_SEPARATOR)
        ):
            return False
        return self.environments is None or action.environment in self.environments

    def constraints_hold(self, action: Action) -> bool:
        """Whether the action's arguments keep every limit; one that is absent keeps none.

        An argument of another type than a limit needs does not hold, and is named in a WARNING.
        """
        return AllOf(self.constraints.values()).hold(action.name, action.arguments)

    def _check_expiry(self) -> None:
        moment = self.expires_at
        if moment is not None:
            if not isinstance(moment, datetime):
                raise InvalidArgument(f"expires_at: must be a datetime, not {moment!r}")
            if moment.utcoffset() is None:
                raise InvalidArgument("expires_at: must have an offset from UTC")
        if not isinstance(self.delegable, bool):
            raise InvalidArgument(f"delegable: must be true or false, not {self.delegable!r}")
        if self.delegable and moment is None:
            raise InvalidArgument("delegable: what can be delegated needs an expires_at")


def grant_form(grant: Grant) -> dict[str, Any]:
    """A grant in the form that hashes and stored delegations use; every key is present."""
    return {
        "actions": list(grant.actions),
        "constraints": {
            key: {"argument": item.argument, "op": item.op, "operand": item.operand}
            for key, item in grant.constraints.items()
        },
        "delegable": grant.delegable,
        "environments": None if grant.environments is None else list(grant.environments),
        "expires_at": None if grant.expires_at is None else grant.expires_at.isoformat(),
        "resources": None if grant.resources is None else list(grant.resources),
        "subject": {"agent": grant.subject.agent, "user": grant.subject.user},
    }


def _any_matches(patterns: Iterable[str], value: str, separator: str) -> bool:
    return any(matches(pattern, value, separator=separator) for pattern in patterns)


def _set(target: object, name: str, value: object) -> None:
    """Fill a field of a frozen dataclass while it is being built."""
    object.__setattr__(target, name, value)


def _check_pattern(pattern: object, separator: str | None, where: str) -> None:
    fault = pattern_fault(pattern, separator=separator)
    if fault is not None:
        raise InvalidArgument(f"{where}: {fault}")


def _items(value: object, where: str) -> tuple[Any, ...]:
    """A non-empty list or tuple; a plain `str` would be taken letter by letter."""
    if not isinstance(value, (list, tuple)):
        raise InvalidArgument(f"{where}: must be a list, not {value!r}")
    if not value:
        raise InvalidArgument(f"{where}: must not be empty")
    return tuple(value)


def _patterns(value: object, separator: str, where: str) -> tuple[str, ...]:
    patterns = _items(value, where)
    for index, pattern in enumerate(patterns):
        _check_pattern(pattern, separator, f"{where}[{index}]")
    return patterns


def _environments(value: object, grant_id: str) -> tuple[str, ...]:
    names = _items(value, "environments")
    for index, name in enumerate(names):
        if not isinstance(name, str) or not name or has_surrogate(name):
            raise InvalidArgument(f"environments[{index}]: must be a non-empty string: {name!r}")
        if "*" in name:
            logger.warning(
                "grant %r: environment %r is compared as it stands; * is no wildcard here",
                grant_id,
                name,
            )
    return names


def _constraints(value: object) -> Mapping[str, Condition]:
    if not isinstance(value, Mapping):
        raise InvalidArgument("constraints: must be a mapping")
    for key, condition in value.items():
        if not isinstance(condition, Condition):
            raise InvalidArgument(f"constraints: {key!r} must be a Condition, not {condition!r}")
        spelled = f"{condition.argument}_{condition.op}"
        if not key == condition.key == spelled:
            raise InvalidArgument(
                f"constraints: the condition {condition.key!r} stands under {key!r} "
                f"and tests {spelled!r}; all three must be one"
            )
        check_argument(key, condition.argument, condition.op, allow_derived=False)
    return MappingProxyType(dict(value))
