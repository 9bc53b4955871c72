"""Two actions side by side, field by field in canonical order.

For the refused mutation (what was approved beside what was attempted) and for a request that was
asked again with other arguments. Values are compared as canonical JSON, so `1` and `"1"` differ
and the order of keys does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ctrlrun.action import Action
from ctrlrun.operator.seen import SeenAction, action_of_request
from ctrlrun.operator.wording import json_text


class Sign(StrEnum):
    """How the right side stands to the left: `added` is on the right alone."""

    SAME = "same"
    DIFFERS = "differs"
    ADDED = "added"
    MISSING = "missing"


class Part(StrEnum):
    """Which part of an action a field belongs to, in the order in which they are shown."""

    ACTION = "action"
    ARGUMENT = "argument"
    PRINCIPAL = "principal"
    RESOURCE = "resource"
    ENVIRONMENT = "environment"
    HASH = "hash"


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field: the values as JSON text (the hash and names plain), None on the side without it.

    `name` is the path within the arguments: `amount`, `meta.rows[0]`.
    """

    part: Part
    name: str
    sign: Sign
    left: str | None
    right: str | None


def difference(left: SeenAction, right: SeenAction) -> tuple[FieldDifference, ...]:
    """Every field of the two actions; a container that differs is unfolded down to what differs."""
    return (
        _plain(Part.ACTION, "action", left.name, right.name),
        *_arguments("", dict(left.arguments), dict(right.arguments)),
        _plain(Part.PRINCIPAL, "agent", left.principal.agent, right.principal.agent),
        _plain(Part.PRINCIPAL, "user", left.principal.user, right.principal.user),
        _plain(Part.RESOURCE, "resource", left.resource, right.resource),
        _plain(Part.ENVIRONMENT, "environment", left.environment, right.environment),
        _plain(Part.HASH, "hash", left.action_hash, right.action_hash),
    )


def differing(fields: tuple[FieldDifference, ...]) -> tuple[FieldDifference, ...]:
    """Those that are not the same on both sides, the hash left out."""
    return tuple(
        field for field in fields if field.sign is not Sign.SAME and field.part is not Part.HASH
    )


def different_fields(approved: Action, attempted: Action) -> tuple[str, ...]:
    """The names of what is not the same in two actions: paths of arguments, `agent`, `resource`."""
    sides = (action_of_request(each, each.action_hash) for each in (approved, attempted))
    return tuple(field.name for field in differing(difference(*sides)))


def _plain(part: Part, name: str, left: str | None, right: str | None) -> FieldDifference:
    return FieldDifference(part, name, _sign(left, right), left, right)


def _sign(left: str | None, right: str | None) -> Sign:
    if left == right:
        return Sign.SAME
    if left is None:
        return Sign.ADDED
    return Sign.MISSING if right is None else Sign.DIFFERS


def _arguments(
    prefix: str, left: dict[str, Any], right: dict[str, Any]
) -> Iterator[FieldDifference]:
    for name in sorted(left.keys() | right.keys()):
        yield from _argument(f"{prefix}{name}", _side(left, name), _side(right, name))


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's value, with its text; a JSON null is a value too."""

    value: Any
    text: str


def _side(values: dict[str, Any], name: str) -> _Side | None:
    return _Side(values[name], json_text(values[name])) if name in values else None


def _argument(path: str, left: _Side | None, right: _Side | None) -> Iterator[FieldDifference]:
    left_text = None if left is None else left.text
    right_text = None if right is None else right.text
    if left is not None and right is not None and left_text != right_text:
        if _both(dict, left, right):
            yield from _arguments(f"{path}.", left.value, right.value)
            return
        if _both(list, left, right):
            yield from _items(path, left.value, right.value)
            return
    yield FieldDifference(Part.ARGUMENT, path, _sign(left_text, right_text), left_text, right_text)


def _both(kind: type, left: _Side, right: _Side) -> bool:
    """Whether both are containers of a kind that hold something to unfold."""
    return all(isinstance(side.value, kind) and bool(side.value) for side in (left, right))


def _items(path: str, left: list[Any], right: list[Any]) -> Iterator[FieldDifference]:
    for index in range(max(len(left), len(right))):
        one = _Side(left[index], json_text(left[index])) if index < len(left) else None
        other = _Side(right[index], json_text(right[index])) if index < len(right) else None
        yield from _argument(f"{path}[{index}]", one, other)
