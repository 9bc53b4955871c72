"""Grants found by the action they may cover: by literal names and by the text before a star.

What it finds is checked again; what it leaves out cannot match. Ten thousand delegations of one
agent, each for another resource, cost a look-up and not a scan. The rules are in docs/authority.md.
"""

from __future__ import annotations

from itertools import product
from typing import Generic, TypeVar

from ctrlrun.action import Action
from ctrlrun.authority.grants import Grant

T = TypeVar("T")

_Key = tuple[str, str, str, str]

_ANY = "*"
_MOST_PATTERNS = 16  # a grant with more patterns of a kind is found by its other names
_MOST_LENGTHS = 8


class _Kind:
    """The keys of one kind of name, such as agents: literal ones, and heads before a star."""

    __slots__ = ("_lengths",)

    def __init__(self) -> None:
        self._lengths: list[int] = []

    def key(self, pattern: str | None) -> str:
        """Where a pattern is kept; one that is left out is kept where `*` is."""
        if pattern is None:
            return _ANY
        head, star, _ = pattern.partition("*")
        if not star:
            return "=" + head
        return "*" + head[: self._kept_length(len(head))]

    def _kept_length(self, length: int) -> int:
        """How much of a head counts. With too many lengths each look-up would try them all."""
        if length == 0 or length in self._lengths:
            return length
        if len(self._lengths) < _MOST_LENGTHS:
            self._lengths.append(length)
            return length
        return max((known for known in self._lengths if known < length), default=0)

    def reached(self, value: str | None) -> list[str]:
        """The keys under which a pattern that matches the value is kept."""
        if value is None:
            return [_ANY]
        return [_ANY, "=" + value, *("*" + value[:length] for length in self._lengths)]


class ShapeIndex(Generic[T]):
    """Items, each under a grant of which only the shape matters: subject, actions, resources."""

    def __init__(self) -> None:
        self._agents, self._users, self._resources, self._actions = (_Kind() for _ in range(4))
        self._items: dict[_Key, dict[T, None]] = {}
        self._keys: dict[T, tuple[_Key, ...]] = {}

    def add(self, grant: Grant, item: T) -> None:
        """An item that `find` gives for what the grant may cover."""
        agent, user = self._agents.key(grant.subject.agent), self._users.key(grant.subject.user)
        resources = [self._resources.key(pattern) for pattern in _few(grant.resources or (None,))]
        actions = [self._actions.key(pattern) for pattern in _few(grant.actions)]
        keys = tuple(
            (agent, user, resource, action) for resource in resources for action in actions
        )
        self._keys[item] = keys
        for key in keys:
            self._items.setdefault(key, {})[item] = None

    def remove(self, item: T) -> None:
        """Take back what `add` did."""
        for key in dict.fromkeys(self._keys.pop(item)):
            items = self._items[key]
            del items[item]
            if not items:
                del self._items[key]

    def find(self, action: Action) -> dict[T, None]:
        """The items whose grant may cover the action, and some whose grant does not."""
        principal = action.principal
        found: dict[T, None] = {}
        for key in product(
            self._agents.reached(principal.agent),
            self._users.reached(principal.user),
            self._resources.reached(action.resource),
            self._actions.reached(action.name),
        ):
            items = self._items.get(key)
            if items is not None:
                found.update(items)
        return found


def _few(patterns: tuple[str | None, ...]) -> tuple[str | None, ...]:
    return patterns if len(patterns) <= _MOST_PATTERNS else (None,)
