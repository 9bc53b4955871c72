"""What policy and authority share: `Decision`, and conditions over an action's arguments.

A condition is one key of a `when:` (`amount_lte: 50000`), parsed, checked and ready to be tested.
Comparison is strict about types: nothing is coerced, and a missing argument never matches. The
rules are in docs/policy.md.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from enum import StrEnum
from types import MappingProxyType
from typing import Any

from ctrlrun.canonical import MAX_DEPTH, has_surrogate, is_oversized
from ctrlrun.errors import InvalidArgument, PolicyError
from ctrlrun.logs import get_logger

logger = get_logger(__name__)

DATA_SCOPE = "data_scope"
"""The one derived value: the labels of the arguments that a call supplies."""

RESERVED_ARGUMENTS = frozenset(
    {
        "action_id",
        "agent",
        "claims",
        DATA_SCOPE,
        "environment",
        "expires_at",
        "issuer",
        "principal",
        "resource",
        "user",
    }
)
"""Names that would read like a fact about the caller, and so never name an argument in a rule."""

OPERATORS = ("eq", "neq", "in", "lt", "lte", "gt", "gte")
NUMERIC = frozenset({"lt", "lte", "gt", "gte"})
_SUFFIXES = tuple(sorted((f"_{op}" for op in OPERATORS), key=len, reverse=True))
_ABSENT = object()


class Decision(StrEnum):
    """How much autonomy an action gets."""

    ALLOW = "allow"
    APPROVE = "approve"
    DENY = "deny"


# --- comparison ----------------------------------------------------------------------------------


def same_value(value: Any, operand: Any) -> bool:
    """Whether two canonical values are equal, types included: `True` is not `1`, `"1"` is not `1`.

    Lists and tuples are one kind, and so are mappings of any class.
    """
    kind = type(operand)
    if type(value) is kind and (kind is str or kind is int or kind is bool):
        return bool(value == operand)
    if operand is None or value is None or kind is bool or isinstance(value, bool):
        return value is operand
    if isinstance(operand, (str, int)):
        base = str if isinstance(operand, str) else int
        return isinstance(value, base) and bool(value == operand)
    if isinstance(operand, Mapping):
        return (
            isinstance(value, Mapping)
            and value.keys() == operand.keys()
            and all(same_value(value[key], item) for key, item in operand.items())
        )
    return (
        isinstance(value, (list, tuple))
        and len(value) == len(operand)
        and all(map(same_value, value, operand))
    )


def _differs(value: Any, operand: Any) -> bool:
    return not same_value(value, operand)


def _is_one_of(value: Any, operand: Any) -> bool:
    return any(same_value(value, item) for item in operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# The numeric tests answer None for a value that is no number, which is worth a warning.


def _lt(value: Any, operand: Any) -> bool | None:
    return value < operand if _is_number(value) else None


def _lte(value: Any, operand: Any) -> bool | None:
    return value <= operand if _is_number(value) else None


def _gt(value: Any, operand: Any) -> bool | None:
    return value > operand if _is_number(value) else None


def _gte(value: Any, operand: Any) -> bool | None:
    return value >= operand if _is_number(value) else None


# `data_scope` is a set: the order and repeats of an operand do not matter.


def _same_scope(value: Any, operand: Any) -> bool:
    return isinstance(value, (set, frozenset)) and value == frozenset(operand)


def _other_scope(value: Any, operand: Any) -> bool:
    return isinstance(value, (set, frozenset)) and value != frozenset(operand)


def _scope_meets(value: Any, operand: Any) -> bool:
    return isinstance(value, (set, frozenset)) and not value.isdisjoint(operand)


_Test = Callable[[Any, Any], bool | None]
_TESTS: Mapping[str, _Test] = MappingProxyType(
    {
        "eq": same_value,
        "neq": _differs,
        "in": _is_one_of,
        "lt": _lt,
        "lte": _lte,
        "gt": _gt,
        "gte": _gte,
    }
)
_SCOPE_TESTS: Mapping[str, _Test] = MappingProxyType(
    {"eq": _same_scope, "neq": _other_scope, "in": _scope_meets}
)


# --- one condition -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of one argument; `key` is how the document spells it (`amount_lte`).

    `operand` is kept as a read-only copy: lists as tuples, mappings as read-only views. Raises
    InvalidArgument for an unknown operator or an operand that it cannot have (docs/policy.md).
    """

    key: str
    argument: str
    op: str
    operand: Any
    _test: _Test = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("key", "argument"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value:
                raise InvalidArgument(f"a condition's {name} must be a non-empty str: {value!r}")
        if not isinstance(self.op, str) or self.op not in OPERATORS:
            raise InvalidArgument(
                f"{self.key}: unknown operator {self.op!r}; one of {', '.join(OPERATORS)}"
            )
        tests = _SCOPE_TESTS if self.argument == DATA_SCOPE else _TESTS
        _check_operand_kind(self.key, self.argument, self.op, self.operand)
        object.__setattr__(self, "operand", _frozen_operand(self.operand, self.key, MAX_DEPTH))
        object.__setattr__(self, "_test", tests[self.op])

    def matches(self, action_name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether the condition holds for canonical arguments.

        False, with one WARNING, when the argument is absent, or is no integer although the operator
        compares numbers.
        """
        value = arguments.get(self.argument, _ABSENT)
        if value is _ABSENT:
            logger.warning(
                "%r: condition %r: no argument %r in this call, so it does not hold; present: %s",
                action_name,
                self.key,
                self.argument,
                ", ".join(repr(name) for name in sorted(arguments) if name != DATA_SCOPE) or "none",
            )
            return False
        verdict = self._test(value, self.operand)
        if verdict is None:
            logger.warning(
                "%r: condition %r: argument %r is %s, not an integer, so it does not hold",
                action_name,
                self.key,
                self.argument,
                "null" if value is None else f"of type {type(value).__name__}",
            )
            return False
        return verdict


def _check_operand_kind(key: str, argument: str, op: str, operand: Any) -> None:
    """The operand's outermost type, by operator."""
    if argument == DATA_SCOPE:
        if op in NUMERIC:
            raise InvalidArgument(f"{key}: {DATA_SCOPE} is a set of labels; {op} compares numbers")
        labels = operand if isinstance(operand, (list, tuple)) else None
        if labels is None or not all(isinstance(label, str) for label in labels):
            raise InvalidArgument(f"{key}: {DATA_SCOPE} is compared with a flat list of strings")
    elif op in NUMERIC:
        if not _is_number(operand):
            raise InvalidArgument(
                f"{key}: {op} compares with an int (money in minor units), not {_shown(operand)}"
            )
    elif op == "in" and not isinstance(operand, (list, tuple)):
        raise InvalidArgument(f"{key}: in needs a list, not {_shown(operand)}")


def _shown(value: Any) -> str:
    """A value for a message: short, and never an error of its own (a huge int has no repr)."""
    try:
        text = repr(value)
    except Exception:
        return f"<{type(value).__name__}>"
    return text if len(text) <= 80 else f"{text[:79]}…"


def _frozen_operand(value: Any, where: str, depth: int) -> Any:
    """A read-only copy of an operand; refuses what an argument can never be."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        if has_surrogate(value):
            raise InvalidArgument(f"{where}: a lone surrogate is not text")
        return str.__str__(value)
    if isinstance(value, int):
        if is_oversized(value):
            raise InvalidArgument(f"{where}: an integer of more than 4300 digits")
        return int.__int__(value)
    if depth <= 0:
        raise InvalidArgument(f"{where}: nested too deeply, or contains itself")
    if isinstance(value, (list, tuple)):
        return tuple(_frozen_operand(item, where, depth - 1) for item in value)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str) or has_surrogate(name):
                raise InvalidArgument(f"{where}: the mapping key {name!r} is not a string of text")
        return MappingProxyType(
            {
                str.__str__(name): _frozen_operand(item, where, depth - 1)
                for name, item in value.items()
            }
        )
    hint = ""
    if isinstance(value, float):
        hint = "; use an int in minor units, or a string"
    elif isinstance(value, date):
        hint = "; write it in quotes, as text"
    raise InvalidArgument(
        f"{where}: no argument can be a {type(value).__name__}: {_shown(value)}{hint}"
    )


class AllOf:
    """Conditions that have to hold together, laid out for the path that every call takes.

    A comparison of two values of one plain type goes straight to the interpreter's own operator;
    everything else, warnings included, is the condition's business.
    """

    __slots__ = ("_steps",)

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._steps = tuple((item.argument, *_direct(item), item) for item in conditions)

    def hold(self, action_name: str, arguments: Mapping[str, Any]) -> bool:
        """Whether all hold, tested in order up to the first that does not."""
        for argument, kind, compare, operand, condition in self._steps:
            value = arguments.get(argument, _ABSENT)
            if type(value) is kind:
                if not compare(value, operand):
                    return False
            elif not condition.matches(action_name, arguments):
                return False
        return True


_DIRECT: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {
        "eq": operator.eq,
        "neq": operator.ne,
        "lt": operator.lt,
        "lte": operator.le,
        "gt": operator.gt,
        "gte": operator.ge,
    }
)


def _direct(condition: Condition) -> tuple[type | None, Callable[[Any, Any], bool], Any]:
    """The one type for which the operator alone decides (None for none), the operator, the operand."""
    kind = type(condition.operand)
    compare = _DIRECT.get(condition.op)
    if compare is None or kind not in (str, int, bool):
        return None, operator.eq, None
    return kind, compare, condition.operand


# --- a whole `when:` -----------------------------------------------------------------------------


def parse_conditions(
    mapping: Mapping[str, Any], *, where: str, allow_derived: bool = False
) -> Mapping[str, Condition]:
    """The conditions of a mapping such as a rule's `when:`, by their keys, in order; read-only.

    `where` starts every message; `allow_derived` admits `data_scope`. Raises PolicyError for a key
    without an operator, a reserved name, or an operand that its operator cannot have. The rules are
    in docs/policy.md.
    """
    if not isinstance(mapping, Mapping):
        raise PolicyError(f"{where}: conditions must be a mapping")
    conditions: dict[str, Condition] = {}
    for key, operand in mapping.items():
        try:
            argument, op = split_key(key)
            check_argument(key, argument, op, allow_derived=allow_derived)
            if _holds_tuple(operand, MAX_DEPTH):
                raise InvalidArgument(f"{key}: no argument can be a tuple: {_shown(operand)}")
            conditions[key] = Condition(key, argument, op, operand)
        except InvalidArgument as error:
            raise PolicyError(f"{where}: {error}") from None
    return MappingProxyType(conditions)


def split_key(key: object) -> tuple[str, str]:
    """A condition's key as argument and operator; InvalidArgument when it has no operator."""
    if not isinstance(key, str):
        raise InvalidArgument(f"the condition {key!r} must be a string, <argument>_<operator>")
    for suffix in _SUFFIXES:
        if key.endswith(suffix) and len(key) > len(suffix):
            return key[: -len(suffix)], suffix[1:]
    raise InvalidArgument(
        f"the condition {key!r} does not end in an operator: "
        f"<argument>_<operator>, with one of {', '.join(OPERATORS)}"
    )


def check_argument(key: str, argument: str, op: str, *, allow_derived: bool) -> None:
    """InvalidArgument for a condition that reads like one thing and would test another."""
    if key.endswith("_not_in"):
        raise InvalidArgument(
            f"{key}: there is no operator not_in; it would be read as an argument {argument!r}"
        )
    if argument in RESERVED_ARGUMENTS and not (allow_derived and argument == DATA_SCOPE):
        raise InvalidArgument(
            f"{key}: {argument!r} is reserved; conditions test the arguments of the call"
        )


def _holds_tuple(value: Any, depth: int) -> bool:
    """Whether a tuple stands in it: what YAML makes of `!!omap` and `!!pairs`, and never a list."""
    if isinstance(value, tuple):
        return True
    if depth <= 0:
        return False
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, list):
        return False
    return any(_holds_tuple(item, depth - 1) for item in value)
