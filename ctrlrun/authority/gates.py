"""Grants of one shape, found by the one limit that tells most of them apart.

Ten thousand delegations for one agent and action, each pinned to an order or with a ceiling of its
own, are not gone through one by one. What is left out cannot pass; what is found is checked. The
rules are in docs/authority.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Any

from ctrlrun.authority.grants import Grant
from ctrlrun.conditions import Condition

MANY = 64
"""From how many on something is found, and not gone through."""

_PINNED = frozenset({str, int, bool})
_NUMERIC = ("lt", "lte", "gt", "gte")

_Key = tuple[str, str]


class Gates:
    """Ids of grants by the limit at their gate: an equality if there is one, else a number."""

    __slots__ = ("_bounds", "_open", "_pins")

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._pins: dict[str, dict[tuple[type, Any], set[str]]] = {}
        self._bounds: dict[_Key, list[tuple[int, str]]] = {}

    def add(self, grant: Grant, grant_id: str) -> None:
        """Put an id behind the gate of its grant."""
        gate = _gate(grant)
        if gate is None:
            self._open.add(grant_id)
        elif gate.op == "eq":
            pins = self._pins.setdefault(gate.argument, {})
            pins.setdefault((type(gate.operand), gate.operand), set()).add(grant_id)
        else:
            bounds = self._bounds.setdefault((gate.argument, gate.op), [])
            insort(bounds, (gate.operand, grant_id))

    def remove(self, grant: Grant, grant_id: str) -> None:
        """Take back what `add` did."""
        gate = _gate(grant)
        if gate is None:
            self._open.discard(grant_id)
        elif gate.op == "eq":
            pins, pin = self._pins[gate.argument], (type(gate.operand), gate.operand)
            pins[pin].discard(grant_id)
            if not pins[pin]:
                del pins[pin]
        else:
            bounds = self._bounds[gate.argument, gate.op]
            del bounds[bisect_left(bounds, (gate.operand, grant_id))]

    def passed_by(self, arguments: Mapping[str, Any]) -> set[str] | None:
        """The ids whose gate these arguments pass; None when that is too many to be of use."""
        found = set(self._open) if len(self._open) <= MANY else None
        for argument, pins in self._pins.items():
            value = arguments.get(argument)
            if found is not None and type(value) in _PINNED:
                found |= pins.get((type(value), value), set())
        for (argument, op), bounds in self._bounds.items():
            start, end = _reach(bounds, op, arguments.get(argument))
            if found is None or end - start > MANY:
                return None
            found.update(grant_id for _, grant_id in bounds[start:end])
        return None if found is None or len(found) > MANY else found


def _gate(grant: Grant) -> Condition | None:
    """The limit by which a grant is found; None when it has none that tells much."""
    number = None
    for condition in grant.constraints.values():
        if condition.op == "eq" and type(condition.operand) in _PINNED:
            return condition
        if number is None and condition.op in _NUMERIC:
            number = condition
    return number


def _reach(bounds: list[tuple[int, str]], op: str, value: Any) -> tuple[int, int]:
    """From where to where the bounds let a value pass; what is no number passes none."""
    if type(value) is not int:
        return 0, 0
    if op == "lte":
        return bisect_left(bounds, (value, "")), len(bounds)
    if op == "lt":
        return bisect_left(bounds, (value + 1, "")), len(bounds)
    if op == "gte":
        return 0, bisect_left(bounds, (value + 1, ""))
    return 0, bisect_left(bounds, (value, ""))
