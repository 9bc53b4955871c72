"""Which grant comes nearest to an action that none covers, and in which dimensions it fails.

For the person who wrote the grants; the agent is never told. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from ctrlrun.action import Action
from ctrlrun.authority.containment import DIMENSIONS
from ctrlrun.authority.grants import Grant
from ctrlrun.authority.patterns import ACTION_SEPARATOR, RESOURCE_SEPARATOR, matches


@dataclass(frozen=True, slots=True)
class NearestGrant:
    """A grant that does not cover an action; `fails` are the dimensions, at least one."""

    grant_id: str
    fails: tuple[str, ...]


def nearest_grant(grants: Iterable[Grant], action: Action, now: datetime) -> NearestGrant | None:
    """The grant that fails in the fewest dimensions; None when there is none, or one covers it.

    Of two that are equally near, the one that is for this principal, then the lower id.
    """
    found = [NearestGrant(grant.id, _fails(grant, action, now)) for grant in grants]
    if not all(each.fails for each in found):
        return None
    return min(
        found,
        key=lambda each: (len(each.fails), "subject" in each.fails, each.grant_id),
        default=None,
    )


def _fails(grant: Grant, action: Action, now: datetime) -> tuple[str, ...]:
    is_for_action = _any_matches(grant.actions, action.name, ACTION_SEPARATOR)
    holds = {
        "subject": grant.subject.matches(action.principal),
        "actions": is_for_action,
        "resources": grant.resources is None
        or _any_matches(grant.resources, action.resource, RESOURCE_SEPARATOR),
        # Limits on the arguments of another action say nothing about this one's.
        "constraints": not is_for_action or grant.constraints_hold(action),
        "environments": grant.environments is None or action.environment in grant.environments,
        "expires_at": not grant.is_expired(now),
    }
    return tuple(dimension for dimension in DIMENSIONS if not holds[dimension])


def _any_matches(patterns: Iterable[str], value: str | None, separator: str) -> bool:
    return value is not None and any(
        matches(pattern, value, separator=separator) for pattern in patterns
    )
