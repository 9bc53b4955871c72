"""Facts laid out for a card: nothing cut, nothing raw, every argument as it was hashed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ctrlrun.action import Action, Principal
from ctrlrun.canonical import has_surrogate
from ctrlrun.operator import action_of_request
from ctrlrun.text import cell_width, inert, wrapped
from ctrlrun_tui.cards.facts_view import FOLDED_FROM, argument_facts, mixed_facts
from ctrlrun_tui.cards.parts import INSIDE
from ctrlrun_tui.cards.sheet import GUTTER, LABEL, Laid, heading, lay, wrap_words
from ctrlrun_tui.data.models import Fact, Prose, Role, Span, line
from ctrlrun_tui.glyphs import UNICODE
from tests.lib.hostile import HOSTILE

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**6), 10**6) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


def drawn(laid: tuple[Laid, ...]) -> list[str]:
    return ["".join(span.text for span in each.line) for each in laid]


def of(arguments: dict[str, Any], **more: Any) -> Any:
    action = Action("email.send", arguments, Principal("mail-agent"), **more)
    return action_of_request(action, action.action_hash)


# --- wrapping ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("", 5, ("",)),
        ("abcdefgh", 3, ("abc", "def", "gh")),
        ("a b  c", 3, ("a b", "  c")),
        ("漢字漢", 4, ("漢字", "漢")),
        ("ab\u202ec", 9, ("ab", "⟨U+202E⟩c")),
        ("q\u0301q\u0301q\u0301", 2, ("q\u0301q\u0301", "q\u0301")),
    ],
)
def test_values_break_where_a_line_is_full_and_tokens_are_not_torn(
    text: str, width: int, lines: tuple[str, ...]
) -> None:
    assert wrapped(inert(text), width) == lines


@given(TEXTS, st.integers(2, 90))
def test_wrapping_loses_nothing(text: str, width: int) -> None:
    shown = inert(text)
    lines = wrapped(shown, width)
    assert "".join(lines) == shown
    assert all(cell_width(each) <= width for each in lines if "⟨" not in each)


def test_sentences_break_between_words() -> None:
    said = line("To grant as tui:alice, type  ", Span("m f", Role.YOURS))
    assert ["".join(span.text for span in each) for each in wrap_words(said, 26)] == [
        "To grant as tui:alice,",
        "type m f",
    ]


# --- facts ---------------------------------------------------------------------------------------


@given(TEXTS, TEXTS, TEXTS)
def test_every_line_fits_and_shows_the_whole_value(label: str, value: str, remark: str) -> None:
    fact = Fact(inert(label), line(inert(value)), line(inert(remark)), whole=True)
    lines = drawn(lay([fact], INSIDE))
    assert all(cell_len(each) <= INSIDE for each in lines)
    said = "".join(lines).replace(" ", "")
    assert inert(value).replace(" ", "") in said
    assert inert(label).replace(" ", "") in said


def test_a_remark_stands_at_the_right_edge_or_below() -> None:
    beside = drawn(lay([Fact("amount", line("200000"), line("EUR 2,000.00"))], 40))
    assert beside == ["  amount      200000        EUR 2,000.00"]
    below = drawn(lay([Fact("amount", line("2" * 26), line("EUR 2,000.00"))], 40))
    assert below == ["  amount      " + "2" * 26, " " * 28 + "EUR 2,000.00"]


def test_a_long_label_stands_on_lines_of_its_own() -> None:
    lines = drawn(lay([Fact("a_rather_long_name", line("1"))], 40))
    assert lines == ["  a_rather_long_name", " " * (GUTTER + LABEL) + "1"]


def test_what_a_card_is_about_is_owed_a_look() -> None:
    assert all(each.owed for each in heading(line("x" * 200), line("PRODUCTION"), INSIDE))
    assert drawn(heading(line("refund"), line("PRODUCTION"), 20)) == ["refund    PRODUCTION"]


# --- arguments -----------------------------------------------------------------------------------


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_the_lines_equal_the_canonical_arguments(arguments: dict[str, Any]) -> None:
    """In canonical order, each in the form that was hashed, whatever is in it."""
    action = of(arguments)
    told = argument_facts(action, {}, UNICODE, whole=True)
    assert not told.folded
    facts = [fact for fact in told.facts if isinstance(fact, Fact)]
    assert [fact.label for fact in facts] == [inert(name) for name in sorted(arguments)]
    for fact, (_, value) in zip(facts, sorted(arguments.items()), strict=True):
        canonical = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        assert "".join(span.text for span in fact.value) == inert(canonical)
    lines = drawn(lay(told.facts, INSIDE, owed=True))
    assert all(cell_len(each) <= INSIDE and each.isprintable() for each in lines)


def test_one_is_not_the_text_one() -> None:
    told = argument_facts(of({"a": 1, "b": "1", "c": True, "d": None}), {}, UNICODE, whole=False)
    assert ["".join(span.text for span in fact.value) for fact in told.facts] == [
        "1",
        '"1"',
        "true",
        "null",
    ]


def test_only_what_is_very_long_is_folded_and_says_how_long_it_is() -> None:
    fits = "x" * (FOLDED_FROM - 2)
    told = argument_facts(of({"a": fits, "b": fits + "x"}), {}, UNICODE, whole=False)
    assert told.folded
    whole, folded = told.facts
    assert isinstance(whole, Fact) and isinstance(folded, Fact)
    assert whole.value[0].text == json.dumps(fits)
    assert "…" in folded.value[0].text
    assert "349 characters, v whole" in folded.remark[0].text


def test_an_action_without_arguments_says_so() -> None:
    (prose,) = argument_facts(of({}), {}, UNICODE, whole=False).facts
    assert isinstance(prose, Prose)
    assert prose.text[0].text == "no arguments"


@pytest.mark.parametrize("text", [text for text in HOSTILE if not has_surrogate(text)])
def test_hostile_text_in_every_place_of_an_action_is_drawn_inert(text: str) -> None:
    action = of({text or "x": text, "deep": {text: [text]}}, resource=text)
    told = argument_facts(action, {}, UNICODE, whole=True)
    lines = drawn(lay([*told.facts, *mixed_facts(action, text, UNICODE)], INSIDE))
    assert all(each.isprintable() for each in lines)


@pytest.mark.parametrize(
    ("value", "flagged"),
    [
        ("раypal", ["раypal"]),
        ({"to": ["ok", "gооgle"]}, ["gооgle"]),
        ("\nпривет", []),  # the n of an escape is no letter of the word
        ("日本語のtext", []),
    ],
)
def test_words_that_mix_scripts_are_found_in_raw_values(value: Any, flagged: list[str]) -> None:
    told = list(mixed_facts(of({"to": value}), None, UNICODE))
    assert len(told) == len(flagged)
    for prose, word in zip(told, flagged, strict=True):
        assert prose.text[-1].text.endswith(f": {word}")
