"""Conditions: how keys are read, which operands an operator takes, and what matches."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal
from ctrlrun.conditions import (
    OPERATORS,
    RESERVED_ARGUMENTS,
    AllOf,
    Condition,
    Decision,
    parse_conditions,
)
from ctrlrun.errors import InvalidArgument, PolicyError
from tests.cases import walk

LONE = json.loads('"\\ud800"')
RESERVED = [
    "action_id",
    "agent",
    "claims",
    "data_scope",
    "environment",
    "expires_at",
    "issuer",
    "principal",
    "resource",
    "user",
]


def one(key: str, operand: Any, *, derived: bool = False) -> Condition:
    return parse_conditions({key: operand}, where="here", allow_derived=derived)[key]


def holds(key: str, operand: Any, *value: Any) -> bool:
    """Whether a condition holds for an argument of one value, or for none."""
    condition = one(key, operand)
    return condition.matches("n", {condition.argument: value[0]} if value else {})


def test_there_are_three_decisions() -> None:
    assert [*Decision] == ["allow", "approve", "deny"]


# --- keys ----------------------------------------------------------------------------------------


@walk(
    ("key", "argument", "op"),
    [
        ("amount_eq", "amount", "eq"),
        ("amount_neq", "amount", "neq"),
        ("amount_in", "amount", "in"),
        ("amount_lt", "amount", "lt"),
        ("amount_lte", "amount", "lte"),
        ("amount_gt", "amount", "gt"),
        ("amount_gte", "amount", "gte"),
        ("a_lte_lt", "a_lte", "lt"),
        ("a b_eq", "a b", "eq"),
        ("__eq", "_", "eq"),
        ("größe_gte", "größe", "gte"),
        ("meta.rows[0]_lt", "meta.rows[0]", "lt"),
        ("not_in", "not", "in"),
        ("resource_id_eq", "resource_id", "eq"),
        ("name_eq", "name", "eq"),
    ],
)
def test_a_key_is_an_argument_and_the_longest_operator(key: str, argument: str, op: str) -> None:
    condition = one(key, [] if op == "in" else 1)
    assert (condition.key, condition.argument, condition.op) == (key, argument, op)


@walk(
    "key",
    ["amount", "amount_ne", "amount_contains", "_eq", "_neq", "a_NEQ", "eq", "", "a_eq ", "aeq"],
)
def test_a_key_without_operator_lists_the_operators(key: str) -> None:
    with pytest.raises(PolicyError, match=r"^here: ") as caught:
        one(key, 1)
    assert repr(key) in str(caught.value)
    assert all(op in str(caught.value) for op in OPERATORS)


@walk("key", [1, True, None, ("a_eq",)])
def test_a_key_is_a_string(key: Any) -> None:
    with pytest.raises(PolicyError, match=r"^here: "):
        parse_conditions({key: 1}, where="here")


@walk("key", ["region_not_in", "_not_in", "a_not_not_in"])
def test_not_in_is_no_operator(key: str) -> None:
    with pytest.raises(PolicyError, match="not_in"):
        one(key, ["eu"])


def test_the_reserved_names_are_these() -> None:
    assert sorted(RESERVED_ARGUMENTS) == RESERVED


@walk("name", RESERVED)
def test_reserved_names_are_refused_whole_and_only_whole(name: str) -> None:
    with pytest.raises(PolicyError, match=f"^here: {name}_eq: .*reserved"):
        one(f"{name}_eq", ["x"])
    assert one(f"{name}_2_eq", "x").argument == f"{name}_2"
    if name != "data_scope":
        with pytest.raises(PolicyError, match="reserved"):
            one(f"{name}_eq", ["x"], derived=True)


def test_conditions_keep_their_order_and_are_read_only() -> None:
    conditions = parse_conditions({"b_eq": 1, "a_eq": 2}, where="here")
    assert list(conditions) == ["b_eq", "a_eq"]
    with pytest.raises(TypeError):
        conditions["c_eq"] = conditions["a_eq"]  # type: ignore[index]


def test_no_conditions_are_no_conditions() -> None:
    assert parse_conditions({}, where="here") == {}


@walk("value", [None, [], "a_eq"])
def test_conditions_are_a_mapping(value: Any) -> None:
    with pytest.raises(PolicyError, match=r"^here: "):
        parse_conditions(value, where="here")


# --- operands ------------------------------------------------------------------------------------

NO_ARGUMENT: list[Any] = [
    1.5,
    date(2030, 1, 1),
    datetime(2030, 1, 1, tzinfo=UTC),
    b"x",
    {"x", "y"},
    {1: "x"},
    ("x",),
    LONE,
    {LONE: 1},
    object(),
    pytest.param(10**4300, id="4301 digits"),
]


@walk("value", NO_ARGUMENT)
@walk("op", ["eq", "neq", "in"])
def test_operands_are_what_an_argument_can_be_at_every_depth(op: str, value: Any) -> None:
    for operand in (value, [value], [[{"deep": value}]]):
        with pytest.raises(PolicyError, match=f"^here: a_{op}: "):
            one(f"a_{op}", operand)


@walk("operand", ["x", 5, True, None, {"a": 1}, 1.5])
def test_in_needs_a_list(operand: Any) -> None:
    with pytest.raises(PolicyError, match=r"^here: a_in: .*list"):
        one("a_in", operand)


@walk("operand", [True, False, "5", 5.0, None, [5], {"a": 5}])
@walk("op", ["lt", "lte", "gt", "gte"])
def test_numeric_operators_need_an_int(op: str, operand: Any) -> None:
    with pytest.raises(PolicyError, match=rf"^here: a_{op}: .*\bint\b.*minor units"):
        one(f"a_{op}", operand)


def test_a_cyclic_operand_is_refused() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    with pytest.raises(PolicyError, match="nested too deeply"):
        one("a_eq", cyclic)


def test_operands_are_read_only_copies() -> None:
    inner: dict[str, Any] = {"k": [1]}
    condition = one("a_eq", [inner])
    inner["k"].append(2)
    assert condition.matches("n", {"a": [{"k": [1]}]})
    assert one("a_in", ["eu", "uk"]).operand == ("eu", "uk")
    with pytest.raises(TypeError):
        condition.operand[0]["k"] = 1


@walk(
    ("fields", "says"),
    [
        (("a_contains", "a", "contains", "x"), "operator 'contains'"),
        (("a_eq", "a", None, "x"), "operator"),
        (("amount_lte", "amount", "lte", 1.5), "int"),
        (("amount_lte", "amount", "lte", True), "int"),
        (("a_eq", "a", "eq", 1.5), "float"),
        (("a_in", "a", "in", "xy"), "list"),
        (("_eq", "", "eq", 1), "argument"),
        ((None, "a", "eq", 1), "key"),
        (("data_scope_lt", "data_scope", "lt", 1), "data_scope"),
    ],
)
def test_a_condition_built_by_hand_is_checked_alike(fields: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        Condition(*fields)


def test_conditions_of_the_same_content_are_equal() -> None:
    assert one("a_eq", [1]) == Condition("a_eq", "a", "eq", (1,))
    assert one("a_eq", 1) != one("a_neq", 1)


# --- matching ------------------------------------------------------------------------------------

DISTINCT: list[Any] = [
    True,
    False,
    1,
    0,
    -1,
    2**70,
    "1",
    "True",
    "",
    "a",
    "A",
    None,
    [],
    {},
    [1],
    [True],
    ["1"],
    [1, 2],
    [2, 1],
    [[1, 2]],
    [None],
    {"a": 1},
    {"a": True},
    {"a": None},
    {"b": 1},
    {"a": 1, "b": 2},
    {"a": [1, {"b": "c"}]},
]


@walk("value", DISTINCT)
def test_equality_is_strict_about_types(value: Any) -> None:
    for operand in DISTINCT:
        same = value is operand
        assert holds("x_eq", operand, value) is same, operand
        assert holds("x_neq", operand, value) is not same, operand
        assert holds("x_in", [operand], value) is same, operand
        assert holds("x_in", ["other", operand, -7], value) is same, operand


@walk("value", DISTINCT)
def test_frozen_arguments_match_like_plain_ones(value: Any) -> None:
    action = Action("n", {"x": value}, Principal("bot"))
    assert one("x_eq", value).matches("n", action.arguments)
    assert one("x_eq", value).matches("n", action.canonical_arguments)


@walk("op", OPERATORS)
def test_conditions_together_judge_like_each_alone(op: str) -> None:
    for operand in DISTINCT:
        try:
            condition = one(f"x_{op}", [operand] if op == "in" else operand)
        except PolicyError:
            continue
        for value in DISTINCT:
            arguments = {"x": value, "y": 1}
            alone = condition.matches("n", arguments)
            assert AllOf([condition]).hold("n", arguments) is alone, (operand, value)
            assert AllOf([one("y_eq", 1), condition]).hold("n", arguments) is alone
            assert not AllOf([condition, one("y_eq", 2)]).hold("n", arguments)
            assert not AllOf([one("y_eq", True), condition]).hold("n", arguments)


def test_the_first_condition_that_fails_ends_it(caplog: pytest.LogCaptureFixture) -> None:
    both = AllOf([one("a_eq", 1), one("absent_eq", 1)])
    assert not both.hold("n", {"a": 2})
    assert caplog.records == []
    assert not both.hold("n", {"a": 1})
    assert len(caplog.records) == 1
    assert AllOf([]).hold("n", {})


def test_mappings_match_whatever_their_order_and_class() -> None:
    assert holds("x_eq", {"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert holds("x_eq", {"a": 1}, MappingProxyType({"a": 1}))


def test_in_an_empty_list_is_nothing() -> None:
    assert not any(holds("x_in", [], value) for value in DISTINCT)


@walk(
    ("op", "below", "equal", "above"),
    [
        ("lt", True, False, False),
        ("lte", True, True, False),
        ("gt", False, False, True),
        ("gte", False, True, True),
    ],
)
def test_numbers_compare_as_integers(op: str, below: bool, equal: bool, above: bool) -> None:
    found = [holds(f"x_{op}", 10, value) for value in (9, 10, 11)]
    assert found == [below, equal, above]
    assert holds(f"x_{op}", 2**64, 2**64 - 1) is below


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    assert all(record.name.startswith("ctrlrun") for record in caplog.records)
    return [record.getMessage() for record in caplog.records]


@walk("op", OPERATORS)
def test_an_absent_argument_never_matches_and_warns_once(
    op: str, caplog: pytest.LogCaptureFixture
) -> None:
    condition = one(f"amount_{op}", [1] if op == "in" else 1)
    assert condition.matches("stripe.refund", {"zeta": 1, "alpha": 2}) is False
    (message,) = messages(caplog)
    for part in ("stripe.refund", f"amount_{op}", "'amount'", "'alpha', 'zeta'"):
        assert part in message


@walk(
    ("value", "kind"), [("5", "str"), (True, "bool"), (None, "null"), ([5], "list"), ({}, "dict")]
)
@walk("op", ["lt", "lte", "gt", "gte"])
def test_a_value_that_is_no_number_does_not_match_and_warns_once(
    op: str, value: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert holds(f"amount_{op}", 5, value) is False
    (message,) = messages(caplog)
    assert "'amount'" in message
    assert kind in message


def test_other_misses_are_silent(caplog: pytest.LogCaptureFixture) -> None:
    assert not holds("a_eq", 1, "1")
    assert not holds("a_in", [1], {})
    assert not holds("a_neq", 1, 1)
    assert not holds("a_lt", 1, 1)
    assert messages(caplog) == []


# --- data_scope ----------------------------------------------------------------------------------


@walk("operand", ["phi", 5, None, True, [1], [["phi"]], [{"a": "b"}], {"a": "b"}])
@walk("op", ["eq", "neq", "in"])
def test_data_scope_is_compared_with_a_flat_list_of_strings(op: str, operand: Any) -> None:
    with pytest.raises(PolicyError, match="flat list of strings"):
        one(f"data_scope_{op}", operand, derived=True)


@walk("op", ["lt", "lte", "gt", "gte"])
def test_data_scope_is_no_number(op: str) -> None:
    with pytest.raises(PolicyError, match="data_scope"):
        one(f"data_scope_{op}", 5, derived=True)


@walk(
    ("scope", "operand", "meets", "equal"),
    [
        ({"phi"}, ["phi"], True, True),
        ({"phi", "pii"}, ["pii", "phi", "pii"], True, True),
        ({"phi", "pii"}, ["phi"], True, False),
        ({"phi"}, ["pii"], False, False),
        (set(), [], False, True),
        (set(), ["phi"], False, False),
        ({"phi"}, [], False, False),
    ],
)
def test_data_scope_is_a_set(scope: set[str], operand: list[str], meets: bool, equal: bool) -> None:
    found = [
        one(f"data_scope_{op}", operand, derived=True).matches(
            "n", {"data_scope": frozenset(scope)}
        )
        for op in ("in", "eq", "neq")
    ]
    assert found == [meets, equal, not equal]


# --- properties ----------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "1", "a"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2)
    ),
    max_leaves=6,
)


def spelled(value: Any) -> str:
    """JSON text as an independent judge: it keeps `true` and `1` apart."""
    return json.dumps(value, sort_keys=True)


@given(json_values, json_values)
def test_eq_agrees_with_the_canonical_text(value: Any, operand: Any) -> None:
    same = spelled(value) == spelled(operand)
    arguments: Mapping[str, Any] = Action("n", {"x": value}, Principal("b")).arguments
    assert one("x_eq", operand).matches("n", arguments) is same
    assert one("x_neq", operand).matches("n", arguments) is not same


@given(json_values, st.lists(json_values, max_size=4))
def test_in_is_eq_to_any(value: Any, operands: list[Any]) -> None:
    assert holds("x_in", operands, value) is any(holds("x_eq", item, value) for item in operands)


@given(st.integers(), st.integers())
def test_the_numeric_operators_split_the_line(value: int, operand: int) -> None:
    less, at_most, more, at_least = (
        holds(f"x_{op}", operand, value) for op in ("lt", "lte", "gt", "gte")
    )
    assert (less, at_most) == (not at_least, not more)
    assert at_most is (less or value == operand)
