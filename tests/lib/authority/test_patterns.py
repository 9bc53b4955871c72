"""What a pattern matches, and which patterns lie inside which."""

from __future__ import annotations

import re

from hypothesis import event, given
from hypothesis import strategies as st

from ctrlrun.authority import (
    ACTION_SEPARATOR,
    RESOURCE_SEPARATOR,
    contains,
    matches,
    validate_pattern,
)
from tests.cases import walk

ACTION, RESOURCE, SUBJECT = ACTION_SEPARATOR, RESOURCE_SEPARATOR, None


@walk(
    ("separator", "pattern", "value", "expected"),
    [
        (ACTION, "stripe.*", "stripe.refund", True),
        (ACTION, "stripe.*", "stripe.refund.partial", False),
        (ACTION, "stripe.*", "stripe.", True),
        (ACTION, "stripe.**", "stripe", False),
        (ACTION, "stripe.**", "stripe.refund", True),
        (ACTION, "stripe.**", "stripe.refund.partial", True),
        (ACTION, "stripe.**", "stripes.refund", False),
        (ACTION, "stripe.ref*", "stripe.ref", True),
        (ACTION, "stripe.ref*", "stripe.refund", True),
        (ACTION, "stripe.ref*", "stripe.re", False),
        (ACTION, "stripe.refund", "Stripe.refund", False),
        (ACTION, "*", "a.b", False),
        (ACTION, "*", "a", True),
        (ACTION, "**", "x", True),
        (ACTION, "**", "x.y.z", True),
        (ACTION, "*.b", "a.b", True),
        (ACTION, "a*.b*", "ab.bc", True),
        (ACTION, "a*.b*", "ab.cb", False),
        (SUBJECT, "*", "acme.bot:1", True),
        (SUBJECT, "acme.*", "acme.bot:1", True),
        (SUBJECT, "acme", "acme.bot", False),
        (SUBJECT, "read-*", "read-", True),
        (SUBJECT, "read-*", "reader", False),
        (RESOURCE, "payment:EU-*", "payment:EU-42", True),
        (RESOURCE, "payment:EU-*", "payment:EU-", True),
        (RESOURCE, "payment:EU-*", "payment:EU-42:leg2", False),
        (RESOURCE, "cluster:stg/*", "cluster:stg/a/b", True),
        (RESOURCE, "a.b:*", "a.b:c.d", True),
    ],
)
def test_matches(separator: str | None, pattern: str, value: str, expected: bool) -> None:
    assert matches(pattern, value, separator=separator) is expected


@walk(
    ("parent", "child", "expected"),
    [
        ("**", "a.b.**", True),
        ("**", "*", True),
        ("**", "a", True),
        ("*", "**", False),
        ("*", "a*", True),
        ("a*", "*", False),
        ("stripe.**", "stripe", False),
        ("stripe.**", "stripe.refund.**", True),
        ("stripe.**", "stripe.*", True),
        ("stripe.**", "str*.refund", False),
        ("stripe.refund.**", "stripe.**", False),
        ("stripe.*", "stripe.**", False),
        ("stripe.*", "stripe.refund", True),
        ("stripe.*.partial", "stripe.ref*.partial", True),
        ("stripe.ref*.partial", "stripe.*.partial", False),
        ("a", "a*", False),
        ("a*", "a", True),
        ("ab*", "a*", False),
        ("a", "a", True),
        ("A", "a", False),
    ],
)
def test_contains(parent: str, child: str, expected: bool) -> None:
    assert contains(parent, child, separator=ACTION) is expected


def test_a_subject_is_never_split() -> None:
    assert contains("acme.*", "acme.bot.1", separator=None)
    assert not contains("acme.*", "acme", separator=None)


LETTERS = "ab"
SEGMENT = st.text(LETTERS, min_size=1, max_size=2)
STARRED = st.one_of(SEGMENT, SEGMENT.map(lambda head: head + "*"), st.just("*"))
PATTERN = st.one_of(
    st.lists(STARRED, min_size=1, max_size=3),
    st.lists(SEGMENT, max_size=2).map(lambda head: [*head, "**"]),
).map(".".join)
VALUE = st.lists(st.text(LETTERS, max_size=3), min_size=1, max_size=4).map(".".join)


def as_regex(pattern: str) -> re.Pattern[str]:
    """The pattern said in another language, by hand."""
    parts = []
    for segment in pattern.split("."):
        if segment == "**":
            parts.append(r".*")
        elif segment.endswith("*"):
            parts.append(re.escape(segment[:-1]) + r"[^.]*")
        else:
            parts.append(re.escape(segment))
    return re.compile(r"\.".join(parts), re.DOTALL)


@given(PATTERN, VALUE)
def test_matching_is_that_of_the_regular_expression(pattern: str, value: str) -> None:
    validate_pattern(pattern, separator=ACTION, where="here")
    expected = as_regex(pattern).fullmatch(value) is not None
    event(f"matches: {expected}")
    assert matches(pattern, value, separator=ACTION) is expected


@given(PATTERN)
def test_every_pattern_contains_itself(pattern: str) -> None:
    assert contains(pattern, pattern, separator=ACTION)


@given(PATTERN, PATTERN, PATTERN)
def test_containment_of_patterns_is_transitive(first: str, second: str, third: str) -> None:
    if contains(first, second, separator=ACTION) and contains(second, third, separator=ACTION):
        assert contains(first, third, separator=ACTION)


def every_value(longest: int) -> list[str]:
    """All values of few letters: what a pattern of two letters can tell apart."""
    segments = ["", "a", "b", "ab", "ba", "aa", "abb", "bb", "bba", "bab", "aab", "c"]
    values = [[segment] for segment in segments]
    found = list(values)
    for _ in range(longest - 1):
        values = [[*value, segment] for value in values for segment in segments]
        found += values
    return [".".join(value) for value in found]


VALUES = every_value(3)


@given(PATTERN, PATTERN)
def test_containing_is_matching_whatever_the_other_matches(parent: str, child: str) -> None:
    inside = [value for value in VALUES if matches(child, value, separator=ACTION)]
    covered = all(matches(parent, value, separator=ACTION) for value in inside)
    if contains(parent, child, separator=ACTION):
        assert covered
    elif not child.endswith("**"):
        # Nothing is refused without a reason: some value lies outside. (`a.**` is more than the
        # three segments that are tried here.)
        assert not covered
