"""Two actions side by side: what differs is named, nothing else is."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal
from ctrlrun.operator import Part, SeenAction, Sign, action_of_request, differing
from ctrlrun.operator.difference import difference


def seen(name: str = "pay", **arguments: Any) -> SeenAction:
    action = Action(name, arguments, Principal("bot"), environment="staging")
    return action_of_request(action, action.action_hash)


def changes(left: SeenAction, right: SeenAction) -> list[tuple[str, str, str | None, str | None]]:
    fields = differing(difference(left, right))
    return [(field.name, str(field.sign), field.left, field.right) for field in fields]


def test_one_changed_amount_is_one_line() -> None:
    left, right = seen(amount=200000, currency="EUR"), seen(currency="EUR", amount=500000)
    assert changes(left, right) == [("amount", "differs", "200000", "500000")]


def test_fields_stand_in_canonical_order_with_the_hash_last() -> None:
    fields = difference(seen(z=1, a=2), seen(a=2, z=1))
    assert [field.name for field in fields] == [
        "action",
        "a",
        "z",
        "agent",
        "user",
        "resource",
        "environment",
        "hash",
    ]
    assert {field.sign for field in fields} == {Sign.SAME}


def test_a_number_is_not_the_text_that_looks_like_it() -> None:
    assert changes(seen(amount=1), seen(amount="1")) == [("amount", "differs", "1", '"1"')]
    assert changes(seen(flag=True), seen(flag=1)) == [("flag", "differs", "true", "1")]


def test_what_one_side_lacks_is_named_and_null_is_a_value() -> None:
    assert changes(seen(a=1), seen(a=1, b=None)) == [("b", "added", None, "null")]
    assert changes(seen(a=1, b=None), seen(a=1)) == [("b", "missing", "null", None)]


def test_containers_are_unfolded_down_to_what_differs() -> None:
    left = seen(meta={"rows": [{"x": 1}, 2], "note": "n"}, tags=[])
    right = seen(meta={"rows": [{"x": 3}, 2, 4], "note": "n"}, tags=["a"])
    assert changes(left, right) == [
        ("meta.rows[0].x", "differs", "1", "3"),
        ("meta.rows[2]", "added", None, "4"),
        ("tags", "differs", "[]", '["a"]'),
    ]


def test_every_part_of_an_action_is_compared() -> None:
    left = Action("pay", {}, Principal("a"), environment="staging")
    right = Action("send", {}, Principal("b", "ana"), resource="r", environment="production")
    fields = difference(
        action_of_request(left, left.action_hash), action_of_request(right, right.action_hash)
    )
    assert {field.part for field in fields if field.sign is not Sign.SAME} == set(Part) - {
        Part.ARGUMENT
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab\u202e", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xy", max_size=2), inner),
    max_leaves=8,
)
arguments = st.dictionaries(st.sampled_from(["amount", "meta", "x.y", "z"]), values)


@given(arguments, arguments)
def test_differences_are_symmetric_and_empty_only_for_equal_actions(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    left, right = seen(**one), seen(**other)
    there, back = difference(left, right), difference(right, left)
    mirror = {Sign.ADDED: Sign.MISSING, Sign.MISSING: Sign.ADDED}
    assert [(field.name, field.right, field.left) for field in there] == [
        (field.name, field.left, field.right) for field in back
    ]
    assert [mirror.get(field.sign, field.sign) for field in there] == [f.sign for f in back]
    assert (differing(there) == ()) == (left.action_hash == right.action_hash)
