"""Grants found by the action they may cover: by literal names and by the text before a star.

What it finds is checked again; what it leaves out cannot match. Ten thousand delegations of one
agent, each for another resource, cost a look-up and not a scan. The rules are in docs/authority.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from ctrlrun.action import Action
from ctrlrun.authority.grants import Grant, Subject
from ctrlrun.authority.patterns import ACTION_SEPARATOR, RESOURCE_SEPARATOR, matches

T = TypeVar("T")

_MOST_BRANCHES = 16  # a grant with more patterns of a kind is found by its other names


def subject_matches(subject: Subject, agent: str, user: str | None) -> bool:
    """Whether a subject is for this agent and user; one it leaves out is any, or nobody."""
    if subject.agent is not None and not matches(subject.agent, agent, separator=None):
        return False
    if subject.user is None:
        return True
    return user is not None and matches(subject.user, user, separator=None)


def covers_shape(grant: Grant, action: Action) -> bool:
    """Whether subject, action, resource and environment of a grant match an action."""
    principal, resource = action.principal, action.resource
    if not subject_matches(grant.subject, principal.agent, principal.user):
        return False
    if not _any_matches(grant.actions, action.name, ACTION_SEPARATOR):
        return False
    if grant.resources is not None and (
        resource is None or not _any_matches(grant.resources, resource, RESOURCE_SEPARATOR)
    ):
        return False
    return grant.environments is None or action.environment in grant.environments


def _any_matches(patterns: Iterable[str], value: str, separator: str) -> bool:
    return any(matches(pattern, value, separator=separator) for pattern in patterns)


class _Level(Generic[T]):
    """The branches of one kind of name."""

    __slots__ = ("_exact", "_lengths", "_prefixes", "any")

    def __init__(self) -> None:
        self.any: T | None = None
        self._exact: dict[str, T] = {}
        self._prefixes: dict[str, T] = {}
        self._lengths: list[int] = []

    def get(self, pattern: str | None) -> T | None:
        """The branch of a pattern; None for whatever matches anything, or nothing."""
        if pattern is None or pattern.startswith("*"):
            return self.any
        head, star, _ = pattern.partition("*")
        return (self._prefixes if star else self._exact).get(head)

    def put(self, pattern: str | None, branch: T) -> None:
        """A branch for a pattern that has none."""
        if pattern is None or pattern.startswith("*"):
            self.any = branch
            return
        head, star, _ = pattern.partition("*")
        if not star:
            self._exact[head] = branch
            return
        self._prefixes[head] = branch
        if len(head) not in self._lengths:
            self._lengths.append(len(head))

    def reached(self, value: str | None) -> Iterator[T]:
        """The branches whose patterns could match a value."""
        if self.any is not None:
            yield self.any
        if value is None:
            return
        exact = self._exact.get(value)
        if exact is not None:
            yield exact
        for length in self._lengths:
            branch = self._prefixes.get(value[:length])
            if branch is not None:
                yield branch


class ShapeIndex(Generic[T]):
    """Items, each under a grant of which only the shape matters: subject, actions, resources."""

    def __init__(self) -> None:
        self._agents: _Level[_Level[_Level[_Level[dict[T, None]]]]] = _Level()

    def add(self, grant: Grant, item: T) -> None:
        """An item that `find` gives for what the grant may cover."""
        for items in self._places(grant):
            items[item] = None

    def remove(self, grant: Grant, item: T) -> None:
        """Take back what `add` did."""
        for items in self._places(grant):
            items.pop(item, None)

    def find(self, action: Action) -> dict[T, None]:
        """The items whose grant may cover the action, and some whose grant does not."""
        principal = action.principal
        found: dict[T, None] = {}
        for users in self._agents.reached(principal.agent):
            for resources in users.reached(principal.user):
                for actions in resources.reached(action.resource):
                    for items in actions.reached(action.name):
                        found.update(items)
        return found

    def _places(self, grant: Grant) -> Iterator[dict[T, None]]:
        users = _branch(self._agents, grant.subject.agent, _Level[_Level[_Level[dict[T, None]]]])
        resources = _branch(users, grant.subject.user, _Level[_Level[dict[T, None]]])
        for resource in _few(grant.resources or (None,)):
            actions = _branch(resources, resource, _Level[dict[T, None]])
            for action in _few(grant.actions):
                yield _branch(actions, action, dict[T, None])


B = TypeVar("B")


def _branch(level: _Level[B], pattern: str | None, make: type[B]) -> B:
    branch = level.get(pattern)
    if branch is None:
        branch = make()
        level.put(pattern, branch)
    return branch


def _few(patterns: tuple[str | None, ...]) -> tuple[str | None, ...]:
    return patterns if len(patterns) <= _MOST_BRANCHES else (None,)
