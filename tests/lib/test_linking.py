"""The quick way to a receipt's texts: the same bytes and the same refusals as the long way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Principal
from ctrlrun.canonical import canonical_bytes, sha256_of
from ctrlrun.conditions import Decision
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import GENESIS_HASH, Receipt, ReceiptResult, link
from tests.cases import walk
from tests.lib.store_suite.helpers import receipt

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.none() | st.booleans() | st.integers(-(2**80), 2**80) | words
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3)
)
claims = st.dictionaries(words.filter(bool), st.booleans() | st.integers() | words, max_size=3)
receipts = st.builds(
    replace,
    st.just(receipt()),
    action=words,
    principal=st.builds(Principal, st.just("bot"), st.none() | words.filter(bool), claims=claims),
    resource=st.none() | words,
    arguments=st.dictionaries(words, values, max_size=4),
    decision=st.sampled_from(Decision),
    result=st.sampled_from(ReceiptResult),
    attempt=st.integers(),
    would_have=st.none() | st.dictionaries(words, scalars, max_size=3),
    error=st.none() | words,
    controls=st.lists(words, max_size=3).map(tuple),
)


@given(receipts)
def test_both_texts_are_those_of_the_document(given_receipt: Receipt) -> None:
    chained, text = link((6, GENESIS_HASH), given_receipt)
    expected = replace(given_receipt, seq=7, prev_hash=GENESIS_HASH, hash=chained.hash)
    assert chained == expected
    assert type(chained) is Receipt
    assert text == expected.to_json()
    assert chained.hash == sha256_of(canonical_bytes(expected.to_dict()))


@walk(
    ("field", "value", "path"),
    [
        ("arguments", {"a": [1, {"b": 1.5}]}, r"receipt\.arguments\.a\[1\]\.b is a float"),
        ("arguments", {"a": b"x"}, r"receipt\.arguments\.a is a bytes"),
        ("arguments", {1: "x"}, r"receipt\.arguments has the key 1"),
        ("arguments", {"a": "\ud800"}, r"receipt\.arguments\.a holds a lone surrogate"),
        ("error", "\ud800", r"receipt\.error holds a lone surrogate"),
        ("attempt", 1.0, r"receipt\.attempt is a float"),
        ("controls", ("a", b"b"), r"receipt\.controls\[1\] is a bytes"),
        ("would_have", {"x": {1}}, r"receipt\.would_have\.x is a set"),
        ("resource", object(), r"receipt\.resource is a object"),
    ],
)
def test_what_has_no_canonical_form_is_named(field: str, value: Any, path: str) -> None:
    with pytest.raises(InvalidArgument, match=path):
        link((0, GENESIS_HASH), replace(receipt(), **{field: value}))


def test_a_receipt_of_another_shape_is_hashed_as_it_is() -> None:
    class Later(Receipt):
        def to_dict(self) -> dict[str, Any]:
            return super().to_dict() | {"region": "eu"}

    later = Later(**receipt().__dict__)
    chained, text = link((0, GENESIS_HASH), later)
    assert type(chained) is Later
    assert text.endswith('"controls":[],"region":"eu"}')
    assert chained.hash == sha256_of(canonical_bytes(chained.to_dict()))
