"""Results as they are stored: JSON whatever the executor returned, and never an error."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from typing import Any

import hypothesis.strategies as st
from hypothesis import given

from ctrlrun.effect import escape_surrogates, storable_result
from tests.cases import walk


class Colour(StrEnum):
    RED = "red"


class Odd(Enum):
    ONE = 1


class Silent:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Shown:
    def __repr__(self) -> str:
        return "<Shown>"


Point = namedtuple("Point", "x y")

CYCLE: list[Any] = [1]
CYCLE.append(CYCLE)
DEEP: list[Any] = []
for _ in range(100_000):
    DEEP = [DEEP]


# What an executor returned, and what reads back; None there: the same.
CASES: list[tuple[Any, Any]] = [
    ({"id": "ch_1", "amount": 5, "paid": True, "note": None}, None),
    ([], None),
    ("", None),
    (0, None),
    (False, None),
    (1.5, None),
    ((1, (2,)), [1, [2]]),
    (Point(1, 2), [1, 2]),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (Colour.RED, "red"),
    (
        {1: "a", None: "b", False: "c", 2.5: "d"},
        {"1": "a", "null": "b", "false": "c", "2.5": "d"},
    ),
    ({"set": {1}}, {"set": "{1}"}),
    (b"\x00", "b'\\x00'"),
    (Decimal("1.10"), "Decimal('1.10')"),
    (
        datetime(2026, 1, 1, tzinfo=UTC),
        "datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)",
    ),
    ({"odd": Odd.ONE, "object": [Shown()]}, {"odd": "<Odd.ONE: 1>", "object": ["<Shown>"]}),
    ({(1, 2): "x"}, {"repr": "{(1, 2): 'x'}"}),
    ({"a": {(1,): 2}}, {"repr": "{'a': {(1,): 2}}"}),
    (CYCLE, {"repr": "[1, [...]]"}),
    (float("nan"), "nan"),
    ({"x": [float("inf"), -float("inf")]}, {"x": ["inf", "-inf"]}),
    (Silent(), {"repr": "<unrepresentable Silent>"}),
    ({"ok": 1, "bad": Silent()}, {"ok": 1, "bad": {"repr": "<unrepresentable Silent>"}}),
    ({(1,): Silent()}, {"repr": "<unrepresentable dict>"}),
    (DEEP, {"repr": "<unrepresentable list>"}),
    (10**5000, {"repr": "<unrepresentable int>"}),
]


@walk("case", range(len(CASES)))
def test_a_result_as_stored(case: int) -> None:
    result, stored = CASES[case]
    text = storable_result(result)
    assert text is not None
    assert json.loads(text) == (result if stored is None else stored)


def test_nothing_is_stored_as_nothing() -> None:
    assert storable_result(None) is None


def test_the_text_is_compact_and_readable() -> None:
    assert storable_result({"b": ["é", 1], "a": None}) == '{"b":["é",1],"a":null}'


def test_lone_surrogates_become_escapes() -> None:
    assert escape_surrogates("a\ud800é") == "a\\ud800é"
    text = storable_result({"x": "\udfff"})
    assert text == '{"x":"\\udfff"}'
    assert storable_result({("\ud800",): 1}) is not None


class Hostile(dict[str, Any]):
    """A mapping whose every look fails."""

    def items(self) -> Any:
        raise LookupError("no")


def test_somebodys_subclass_cannot_fail_a_commit() -> None:
    text = storable_result(Hostile(a=1))
    assert text is not None
    json.loads(text)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.binary(max_size=4)
    | st.complex_numbers()
    | st.builds(Silent)
    | st.datetimes(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers() | st.none(), inner, max_size=3)
        | st.dictionaries(st.tuples(st.integers()), inner, max_size=2)
        | st.frozensets(st.integers(), max_size=2)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_every_result_can_be_stored_and_read(result: Any) -> None:
    text = storable_result(result)
    assert (text is None) is (result is None)
    if text is not None:
        text.encode("utf-8")

        def refuse(constant: str) -> None:
            raise AssertionError(constant)

        json.loads(text, parse_constant=refuse)
