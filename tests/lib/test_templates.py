"""Resource and effect-key templates."""

from __future__ import annotations

import enum
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal
from ctrlrun.effect import (
    can_collide,
    resolve_effect_key,
    resolve_resource,
    template_placeholders,
)
from ctrlrun.errors import EffectKeyError, InvalidArgument
from tests.cases import walk


def key_of(template: str, *, resource: str | None = None, **arguments: Any) -> str:
    action = Action("n", arguments, Principal("bot"), resource=resource)
    return resolve_effect_key(template, action)


@walk(
    ("template", "names"),
    [
        ("refund:nightly", ()),
        ("{a}{b}", ("a", "b")),
        ("{a}/{a}", ("a", "a")),
        ("k:{pagó_id}:{_p}", ("pagó_id", "_p")),
        ("one\n{a}\ntwo", ("a",)),
        (" ", ()),
    ],
)
def test_names_in_order_with_repeats(template: str, names: tuple[str, ...]) -> None:
    assert template_placeholders(template) == names


@walk(
    ("template", "character", "position"),
    [
        ("{", "{", 0),
        ("}", "}", 0),
        ("{}", "}", 1),
        ("{ a }", " ", 1),
        ("{{a}}", "{", 1),
        ("{a}}", "}", 3),
        ("{1st}", "1", 1),
        ("{a.b}", ".", 2),
        ("{a[0]}", "[", 2),
        ("{a!r}", "!", 2),
        ("{a:>10}", ":", 2),
        ("k:{a", "{", 2),
        ("{a}:{b ", " ", 6),
    ],
)
def test_malformed_templates_name_character_and_position(
    template: str, character: str, position: int
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        template_placeholders(template)
    message = str(caught.value)
    assert repr(template) in message
    assert f"unexpected {character!r} at position {position}" in message


@walk("template", ["", None, 5, b"{a}", ["{a}"], json.loads('"k\\ud800"')])
def test_a_template_is_text_with_something_in_it(template: object) -> None:
    with pytest.raises(InvalidArgument, match="template"):
        template_placeholders(template)


class Number(int, enum.Enum):
    ONE = 1


@walk(
    ("value", "text"),
    [
        ("x", "x"),
        (" ", " "),
        ("{b}", "{b}"),
        (1, "1"),
        ("1", "1"),
        (-5, "-5"),
        (0, "0"),
        (Number.ONE, "1"),
    ],
)
def test_strings_and_integers_fill_both_kinds(value: Any, text: str) -> None:
    assert key_of("k:{a}", a=value, b="not this") == f"k:{text}"
    assert resolve_resource("k:{a}", {"a": value, "b": "not this"}) == f"k:{text}"


class Odd:
    """A value whose comparison has no truth, like an array's."""

    def __eq__(self, other: object) -> Any:
        raise ValueError("ambiguous")

    __hash__ = None  # type: ignore[assignment]


@walk("value", [None, "", True, False, [], ["x"], {}, {"a": 1}])
def test_other_values_fill_neither(value: Any) -> None:
    with pytest.raises(EffectKeyError, match="'a'"):
        key_of("k:{a}", a=value)
    with pytest.raises(InvalidArgument, match="'a'"):
        resolve_resource("k:{a}", {"a": value})


@walk("value", [1.5, b"x", Odd()])
def test_a_resource_is_filled_before_arguments_are_checked(value: Any) -> None:
    with pytest.raises(InvalidArgument, match="'a'"):
        resolve_resource("k:{a}", {"a": value})


def test_a_missing_name_lists_what_there_is() -> None:
    with pytest.raises(EffectKeyError) as caught:
        key_of("k:{payment}", zeta=1, alpha=2)
    message = str(caught.value)
    assert "'k:{payment}'" in message
    assert "'payment'" in message
    assert "alpha, zeta" in message
    with pytest.raises(InvalidArgument, match="alpha, zeta"):
        resolve_resource("k:{payment}", {"zeta": 1, "alpha": 2})


def test_resource_in_an_effect_is_the_field() -> None:
    assert key_of("refund:{resource}", resource="payment:1") == "refund:payment:1"
    with pytest.raises(EffectKeyError, match="resource"):
        key_of("refund:{resource}")


@walk("field", [None, "payment:1"])
def test_resource_in_an_effect_is_never_a_guess(field: str | None) -> None:
    action = Action("n", {"resource": "mine"}, Principal("bot"), resource=field)
    with pytest.raises(EffectKeyError, match="resource"):
        resolve_effect_key("refund:{resource}", action)
    assert resolve_effect_key("refund", action) == "refund"


def test_resource_in_a_resource_is_the_argument() -> None:
    assert resolve_resource("r:{resource}", {"resource": "mine"}) == "r:mine"


@walk("name", ["name", "agent", "environment", "principal", "user", "action_id"])
def test_other_fields_of_the_action_are_not_reachable(name: str) -> None:
    with pytest.raises(EffectKeyError):
        key_of(f"k:{{{name}}}")
    action = Action("n", {name: "given"}, Principal("bot"))
    assert resolve_effect_key(f"k:{{{name}}}", action) == "k:given"


@walk(
    ("template", "numbers", "collides"),
    [
        ("refund:{order}:{item}", [], True),
        ("refund:{order}:{item}", ["item"], False),
        ("{order}/{line}/{part}", ["line", "part"], False),
        ("{order}/{line}/{part}", ["line"], True),
        ("{a}{b}", ["a", "b"], True),
        ("{a}0{b}", ["a", "b"], True),
        ("{a}-{b}", ["a", "b"], True),  # ("1", "-2") is 1--2, and so is no other; ("x-", "1") is
        ("{a}:{a}", [], False),
        ("{a}{a}", [], False),
        ("x{a}", [], False),
        ("x", [], False),
    ],
)
def test_templates_that_can_collide_are_noticed(
    template: str, numbers: list[str], collides: bool
) -> None:
    assert can_collide(template, numbers) is collides


@given(
    st.sampled_from(["{a}:{n}", "{n}:{a}", "k{n}/{a}/{m}", "{n}.{m}"]),
    *[
        st.fixed_dictionaries(
            {
                "a": st.text(":/.-012", min_size=1),
                "n": st.integers(-9, 99),
                "m": st.integers(-9, 99),
            }
        )
    ]
    * 2,
)
def test_templates_that_cannot_collide_do_not(
    template: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    assert not can_collide(template, ["n", "m"])
    used = template_placeholders(template)
    if [first[name] for name in used] != [second[name] for name in used]:
        assert key_of(template, **first) != key_of(template, **second)


@given(
    st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"])), st.text(min_size=1)
)
def test_literal_text_and_values_are_kept_as_they_are(literal: str, value: str) -> None:
    assert key_of(f"{literal}|{{a}}|{literal}", a=value) == f"{literal}|{value}|{literal}"
