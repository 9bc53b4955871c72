"""Actions and principals: what they accept, that they are frozen, and when they are equal."""

from __future__ import annotations

import copy
import enum
import json
import pickle
import sys
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal
from ctrlrun.errors import InvalidArgument
from tests.cases import walk

LONE = json.loads('"\\ud800"')
BOT = Principal("refund-agent")


def an_action(**fields: Any) -> Action:
    return Action(**{"name": "stripe.refund", "arguments": {}, "principal": BOT, **fields})


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


# --- fields --------------------------------------------------------------------------------------


@walk("value", ["", "  ", "\n", 5, None, b"x", LONE])
@walk("name", ["name", "environment", "action_id"])
def test_required_text_of_an_action_is_refused_by_field(name: str, value: object) -> None:
    with pytest.raises(InvalidArgument, match=name):
        an_action(**{name: value})


@walk("value", ["", 5, LONE, b"x"])
def test_a_resource_is_none_or_text(value: object) -> None:
    with pytest.raises(InvalidArgument, match="resource"):
        an_action(resource=value)
    assert an_action(resource=None).resource is None


@walk("value", ["bot", None, {"agent": "bot"}])
def test_a_principal_is_a_principal(value: object) -> None:
    with pytest.raises(InvalidArgument, match="principal"):
        an_action(principal=value)


@walk("value", [None, [], [("a", 1)], "a"])
def test_arguments_are_a_mapping(value: object) -> None:
    with pytest.raises(InvalidArgument, match="arguments"):
        an_action(arguments=value)


@walk(
    ("fields", "names"),
    [
        ({"agent": ""}, "agent"),
        ({"agent": " "}, "agent"),
        ({"agent": 5}, "agent"),
        ({"agent": LONE}, "agent"),
        ({"user": ""}, "user"),
        ({"user": 5}, "user"),
        ({"user": LONE}, "user"),
        ({"issuer": ""}, "issuer"),
        ({"claims": None}, "claims"),
        ({"claims": [("a", 1)]}, "claims"),
        ({"claims": {"": 1}}, "claim"),
        ({"claims": {1: 1}}, "claim"),
        ({"claims": {"a": 1.5}}, r"claims\.a"),
        ({"claims": {"a": None}}, r"claims\.a"),
        ({"claims": {"a": []}}, r"claims\.a"),
        ({"claims": {"a": {}}}, r"claims\.a"),
        ({"claims": {"a": LONE}}, r"claims\.a"),
        ({"expires_at": datetime(2030, 1, 1)}, "expires_at"),
        ({"expires_at": "2030-01-01T00:00:00Z"}, "expires_at"),
    ],
)
def test_a_principal_refuses_by_field(fields: dict[str, Any], names: str) -> None:
    with pytest.raises(InvalidArgument, match=names):
        Principal(**{"agent": "bot", **fields})


def test_a_principal_compares_all_fields_and_can_be_a_key() -> None:
    full: dict[str, Any] = {
        "agent": "bot",
        "user": "ana",
        "claims": {"tier": 2, "admin": False},
        "issuer": "https://id.example",
        "expires_at": datetime(2030, 1, 1, tzinfo=UTC),
    }
    principal = Principal(**full)
    assert principal == Principal(**full)
    assert len({principal, Principal(**full)}) == 1
    changes: dict[str, Any] = {
        "agent": "b",
        "user": None,
        "claims": {},
        "issuer": None,
        "expires_at": None,
    }
    for name in changes:
        assert Principal(**{**full, name: changes[name]}) != principal


def test_claims_are_a_snapshot_and_their_names_are_sorted() -> None:
    claims: dict[str, Any] = {"b": 1, "a": "x"}
    principal = Principal("bot", claims=claims)
    claims["c"] = True
    assert principal.claim_names == ("a", "b")
    with pytest.raises(TypeError):
        principal.claims["c"] = True  # type: ignore[index]


def test_a_credential_still_holds_at_its_expiry() -> None:
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    principal = Principal("bot", expires_at=moment)
    assert not principal.is_expired(moment)
    assert principal.is_expired(moment.replace(microsecond=1))
    assert not Principal("bot").is_expired(moment)


# --- argument values -----------------------------------------------------------------------------


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Mixed(int, enum.Enum):
    X = 1


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Mixed.X, 1),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (UserDict(a=1), {"a": 1}),
        (Pair(1, "x"), [1, "x"]),
        ((1, [2, ()]), [1, [2, []]]),
        ({Colour.RED: 1}, {"red": 1}),
        (True, True),
        (None, None),
        ("", ""),
        ({"": []}, {"": []}),
        ("\x00\x1f", "\x00\x1f"),
        ("😀", "😀"),
        pytest.param(10**4300 - 1, 10**4300 - 1, id="4300 digits"),
        pytest.param(-(10**4300) + 1, -(10**4300) + 1, id="4300 digits, negative"),
    ],
)
def test_accepted_values_become_their_plain_json_value(value: Any, plain: Any) -> None:
    action = an_action(arguments={"x": value})
    found = action.canonical_arguments["x"]
    assert found == plain
    assert type(found) is type(plain)
    assert action.action_hash == an_action(arguments={"x": plain}).action_hash


def _cyclic_list() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def _cyclic_mapping() -> Any:
    value: dict[str, Any] = {}
    value["self"] = {"again": value}
    return value


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (1.0, "float.*minor units"),
        (float("nan"), "float"),
        (Decimal("1.0"), "Decimal"),
        ({1, 2}, "set"),
        (b"x", "bytes"),
        (bytearray(b"x"), "bytearray"),
        (date(2030, 1, 1), "date"),
        (datetime(2030, 1, 1, tzinfo=UTC), "datetime"),
        (1j, "complex"),
        (range(3), "range"),
        ((n for n in [1]), "generator"),
        (object(), "object"),
        (len, "builtin"),
        ({1: "x"}, "key 1 of type int"),
        ({None: "x"}, "NoneType"),
        (LONE, "lone surrogate"),
        ({LONE: 1}, "lone surrogate"),
        pytest.param(10**4300, "4300 digits", id="4301 digits"),
        pytest.param(-(10**4300), "4300 digits", id="4301 digits, negative"),
    ],
)
def test_refused_values_are_named_with_their_path(value: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=r"arguments\.meta\.rows\[0\]\.x.*" + says) as caught:
        an_action(arguments={"meta": {"rows": [{"x": value}]}})
    assert len(str(caught.value)) < 400


@walk("value", [nested(201), _cyclic_list(), _cyclic_mapping()])
def test_what_goes_too_deep_or_round_is_refused_in_a_short_message(value: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"arguments\.x.*nested too deeply") as caught:
        an_action(arguments={"x": value})
    assert len(str(caught.value)) < 400


def test_two_hundred_levels_are_accepted() -> None:
    action = an_action(arguments={"x": nested(200)})
    assert action.canonical_arguments == {"x": nested(200)}


def test_a_deep_value_on_a_deep_stack_is_no_recursion_error() -> None:
    def descend(levels: int) -> None:
        if levels:
            return descend(levels - 1)
        with pytest.raises(InvalidArgument, match="nested too deeply"):
            an_action(arguments={"x": nested(200)})

    frames = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        frames, frame = frames + 1, frame.f_back
    descend(sys.getrecursionlimit() - frames - 150)


def test_a_tuple_hashes_like_a_list_and_true_not_like_one() -> None:
    def hash_of(value: Any) -> str:
        return an_action(arguments={"x": value}).action_hash

    assert hash_of((1, (2,))) == hash_of([1, [2]])
    assert hash_of(True) != hash_of(1)
    assert hash_of("e\u0301") != hash_of("\u00e9")


# --- frozen, fresh, equal ------------------------------------------------------------------------


def test_the_caller_cannot_change_an_action_afterwards() -> None:
    rows = [{"amount": 1}]
    arguments = {"rows": rows}
    action = an_action(arguments=arguments)
    before = action.action_hash
    rows[0]["amount"] = 2
    arguments["more"] = []
    assert action.canonical_arguments == {"rows": [{"amount": 1}]}
    assert action.action_hash == before


@walk(
    "change",
    [
        lambda arguments: arguments.__setitem__("a", 1),
        lambda arguments: arguments["rows"].__setitem__(0, 1),
        lambda arguments: arguments["rows"][0].__setitem__("a", 1),
    ],
)
def test_arguments_are_read_only_all_the_way_down(change: Callable[[Any], None]) -> None:
    action = an_action(arguments={"rows": [{"a": 0}]})
    with pytest.raises((TypeError, AttributeError)):
        change(action.arguments)
    with pytest.raises(FrozenInstanceError):
        action.name = "other"  # type: ignore[misc]


def test_canonical_arguments_are_fresh_each_time() -> None:
    action = an_action(arguments={"rows": [1]})
    action.canonical_arguments["rows"].append(2)
    assert action.canonical_arguments == {"rows": [1]}


def test_equality_goes_by_id_and_hashes_by_content() -> None:
    one, two = an_action(arguments={"a": 1}), an_action(arguments={"a": 1})
    other = an_action(arguments={"a": 2}, action_id=one.action_id)
    assert one != two
    assert one.action_hash == two.action_hash
    assert one == other
    assert hash(one) == hash(one.action_id) == hash(other)
    assert one != one.action_id


def test_ids_are_prefixed_and_random() -> None:
    ids = {an_action().action_id for _ in range(20)}
    assert len(ids) == 20
    for action_id in ids:
        assert action_id.startswith("act_")
        assert len(action_id) == 36
        int(action_id[4:], 16)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), json_values, max_size=4))
def test_rebuilding_from_either_form_keeps_the_hash(arguments: Mapping[str, Any]) -> None:
    action = an_action(arguments=arguments)
    assert an_action(arguments=action.arguments).action_hash == action.action_hash
    assert an_action(arguments=action.canonical_arguments).action_hash == action.action_hash
    assert action.canonical_arguments == arguments


def test_actions_and_principals_can_be_copied_and_pickled() -> None:
    principal = Principal("a", "u", {"level": 3}, "idp", datetime(2026, 1, 1, tzinfo=UTC))
    action = Action("pay", {"rows": ({"a": [1]},)}, principal, "r", "staging")
    for copied in (copy.deepcopy(action), pickle.loads(pickle.dumps(action))):
        assert copied == action
        assert copied.action_hash == action.action_hash
        assert copied.principal == principal
        assert copied.arguments == action.arguments
