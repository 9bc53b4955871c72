"""The canonical form: golden hashes, and what makes two documents the same."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal, action_hash, canonicalize
from ctrlrun.canonical import canonical_bytes
from ctrlrun.errors import InvalidArgument
from tests.cases import walk

BOT = Principal("refund-agent")

GOLDEN = [
    (
        Action("a", {}, Principal("b")),
        "65040fbe4c17f8b4f3ae19ce978b6222745ea8ef811b6a27658fb1f9e774e0a5",
    ),
    (
        Action("stripe.refund", {"payment_id": "txn_2", "amount": 200000}, BOT),
        "e8702b48316cdd7fd64d120fb2f41fc430d594c8e5c1999e9fa23765a161193c",
    ),
    (
        Action(
            "stripe.refund",
            {"payment_id": "txn_8231", "amount": 2000, "meta": {"b": 1, "a": 2}},
            BOT,
            resource="payment:txn_8231",
        ),
        "377099341ea140037e3295bff165a0f74e0fbd8766c43bde01eadb9a6464afb4",
    ),
    (
        Action(
            "n",
            {"😀": 1, "\uffff": 2, "é": 3, "z": 4, "Z": 5},
            Principal("x", user="ana@example.com"),
        ),
        "c53148b5ed0dbc65dc9a9f09782e600b75bee51dda95e794ae032f2ff86f0072",
    ),
    (
        Action("n", {"s": 'a\x00\x1f\x7f\u2028\t\n"\\/'}, BOT),
        "d94c36a18adc306ee53c54b68567acf46346b0e9a1d58c1dcf0be91d3d7e6bdd",
    ),
    (
        Action("n", {"t": (1, [2, ()], {"k": None}), "b": True, "big": 2**70}, BOT),
        "0047377ed4f9d26dfb31888da5f4cbcdae564956e8139961ca8f8e3e69ce241a",
    ),
]


@walk(("action", "digest"), GOLDEN)
def test_golden_action_hashes(action: Action, digest: str) -> None:
    assert action.action_hash == action_hash(action) == f"sha256:{digest}"


def test_the_bytes_of_the_smallest_action() -> None:
    assert canonicalize(Action("a", {}, Principal("b"))) == (
        b'{"arguments":{},"environment":"production","name":"a",'
        b'"principal":{"agent":"b","user":null},"resource":null,"schema":"ctrlrun.action/v1"}'
    )


def test_keys_sort_by_code_point_not_by_utf16() -> None:
    text = canonical_bytes({"😀": 1, "\uffff": 2, "é": 3, "z": 4, "Z": 5}).decode()
    assert text == '{"Z":5,"z":4,"é":3,"\uffff":2,"😀":1}'


def test_only_the_mandatory_escapes_are_written() -> None:
    controls = "".join(map(chr, range(0x20)))
    text = canonical_bytes(controls + '"\\/\x7f\u2028é').decode()
    short = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
    escaped = "".join(short.get(c, f"\\u{ord(c):04x}") for c in controls)
    assert text == f'"{escaped}\\"\\\\/\x7f\u2028é"'


def test_the_hash_covers_exactly_six_keys() -> None:
    action = Action("n", {"x": 1}, Principal("bot", user="ana"), resource="r", environment="dev")
    document = json.loads(canonicalize(action))
    assert list(document) == [
        "arguments",
        "environment",
        "name",
        "principal",
        "resource",
        "schema",
    ]
    assert document["principal"] == {"agent": "bot", "user": "ana"}


@walk(
    "change",
    [
        {"name": "m"},
        {"arguments": {"x": 2}},
        {"principal": Principal("other", user="ana")},
        {"principal": Principal("bot")},
        {"resource": None},
        {"environment": "prod"},
    ],
)
def test_every_hashed_field_changes_the_hash(change: dict[str, Any]) -> None:
    fields: dict[str, Any] = {
        "name": "n",
        "arguments": {"x": 1},
        "principal": Principal("bot", user="ana"),
        "resource": "r",
        "environment": "dev",
    }
    assert Action(**fields).action_hash != Action(**{**fields, **change}).action_hash


def test_ids_claims_issuer_and_expiry_do_not_change_the_hash() -> None:
    known = Principal(
        "bot", claims={"a": 1}, issuer="https://id", expires_at=datetime(2030, 1, 1, tzinfo=UTC)
    )
    assert Action("n", {}, known).action_hash == Action("n", {}, Principal("bot")).action_hash


@walk(
    "value",
    [
        1.5,
        {1: 1},
        {True: 1},
        {None: 1},
        b"x",
        {1},
        datetime(2030, 1, 1, tzinfo=UTC),
        json.loads('"\\ud800"'),
        {json.loads('"\\udfff"'): 1},
        [[[{"a": {"b": 0.1}}]]],
    ],
)
def test_what_has_no_single_spelling_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="document"):
        canonical_bytes({"in": [value]})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=15,
)


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@given(json_values, st.randoms(use_true_random=False))
def test_key_order_never_matters(value: Any, order: random.Random) -> None:
    assert canonical_bytes(shuffled(value, order)) == canonical_bytes(value)


@given(json_values)
def test_the_form_reads_back_as_the_same_value(value: Any) -> None:
    assert json.loads(canonical_bytes(value)) == value


def with_types(value: Any) -> Any:
    """A value that differs where Python's `==` would take True for 1."""
    if isinstance(value, dict):
        return {key: with_types(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_types(item) for item in value]
    return (type(value).__name__, value)


@given(json_values, json_values)
def test_equal_bytes_mean_equal_values(one: Any, other: Any) -> None:
    same = with_types(one) == with_types(other)
    assert (canonical_bytes(one) == canonical_bytes(other)) is same
