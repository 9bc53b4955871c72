"""Containment: whether a grant permits nothing that its parent does not.

One rule for each of six dimensions. Leaving out what the parent declares is wider, never inherited.
The rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ctrlrun.authority.grants import Grant
from ctrlrun.authority.patterns import ACTION_SEPARATOR, RESOURCE_SEPARATOR, contains, matches
from ctrlrun.conditions import Condition, same_value

DIMENSIONS = (
    "subject",
    "actions",
    "resources",
    "constraints",
    "environments",
    "expires_at",
)
"""What is compared, in the order in which the first violation is reported."""


@dataclass(frozen=True, slots=True)
class DimensionVerdict:
    """Whether a child fits into its parent in one dimension; `problem` says in a line why not."""

    dimension: str
    problem: str | None = None

    @property
    def fits(self) -> bool:
        """Whether it does."""
        return self.problem is None


def judge_dimensions(parent: Grant, child: Grant) -> tuple[DimensionVerdict, ...]:
    """The verdict of every dimension, in the order of `DIMENSIONS`."""
    return tuple(
        DimensionVerdict(dimension, judge(parent, child)) for dimension, judge in _JUDGES.items()
    )


def contained_dimension(parent: Grant, child: Grant) -> str | None:
    """The first dimension in which `child` is wider than `parent`, or None when it is contained."""
    for dimension, judge in _JUDGES.items():
        if judge(parent, child) is not None:
            return dimension
    return None


# --- the six rules: each says what is wider, or nothing ------------------------------------------


def _subject(parent: Grant, child: Grant) -> str | None:
    agent, user = child.subject.agent, child.subject.user
    if agent is None or "*" in agent:
        return "must name one agent, without *"
    if user is not None and "*" in user:
        return "must name one user, without *"
    pattern = parent.subject.user
    if pattern is None:
        return None
    if user is None:
        return f"must name a user: the parent is for {pattern} alone"
    if not matches(pattern, user, separator=None):
        return f"the user {user} is not {pattern}, whom the parent is for"
    return None


def _actions(parent: Grant, child: Grant) -> str | None:
    return _outside(parent.actions, child.actions, ACTION_SEPARATOR)


def _resources(parent: Grant, child: Grant) -> str | None:
    if parent.resources is None:
        return None
    if child.resources is None:
        return "must be declared: the parent limits them"
    return _outside(parent.resources, child.resources, RESOURCE_SEPARATOR)


def _constraints(parent: Grant, child: Grant) -> str | None:
    for key, limit in parent.constraints.items():
        own = child.constraints.get(key)
        if own is None:
            return f"{key} must be declared: the parent limits it"
        if not _is_within(limit, own):
            return f"{key} is wider than the parent's"
    return None


def _environments(parent: Grant, child: Grant) -> str | None:
    if parent.environments is None:
        return None
    if child.environments is None:
        return "must be declared: the parent limits them"
    for name in child.environments:
        if name not in parent.environments:
            return f"{name} is none of the parent's"
    return None


def _expires_at(parent: Grant, child: Grant) -> str | None:
    if parent.expires_at is None:
        return None
    if child.expires_at is None:
        return "must be declared: the parent expires"
    if child.expires_at > parent.expires_at:
        return f"is later than the parent's, {parent.expires_at.isoformat()}"
    return None


_JUDGES: dict[str, Callable[[Grant, Grant], str | None]] = dict(
    zip(
        DIMENSIONS,
        (_subject, _actions, _resources, _constraints, _environments, _expires_at),
        strict=True,
    )
)


def _outside(parents: Iterable[str], children: Iterable[str], separator: str) -> str | None:
    for child in children:
        if not any(contains(parent, child, separator=separator) for parent in parents):
            return f"{child} is not inside any of the parent's"
    return None


def _is_within(limit: Condition, own: Condition) -> bool:
    """Whether whatever holds for `own` holds for `limit`; both have one key, so one operator."""
    if limit.op in ("lt", "lte"):
        return bool(own.operand <= limit.operand)
    if limit.op in ("gt", "gte"):
        return bool(own.operand >= limit.operand)
    if limit.op == "in":
        return all(any(same_value(item, other) for other in limit.operand) for item in own.operand)
    return same_value(own.operand, limit.operand)
