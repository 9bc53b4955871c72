"""The keys that providers are given: golden, and recomputed by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.errors import InvalidArgument
from ctrlrun.provider_keys import NAMESPACE, attempt_key_for, idempotency_key_for
from tests.cases import walk

GOLDEN = [
    (
        "production",
        "refund:txn_1",
        "e694ff73-7cfc-5b98-a6e7-b8ff6f3121a3",
        "630a81b8-366d-52e4-a4a4-518b07f5eb38",
        "fbca7134-75bd-5a1f-862e-8773fd1e71f1",
    ),
    (
        "staging",
        "refund:txn_1",
        "7fe2c1d0-7232-5ce6-8b4f-a0e352d12206",
        "ba1687a2-bddd-523c-8dd8-d7ac2af426f0",
        "27748f54-b878-5cb9-9614-05dd1ebd84e0",
    ),
    (
        "production",
        'refund:txn_ü"\n',
        "40d19252-52c7-586e-98aa-c2b67fa33781",
        "1fb8e542-b45b-532b-846e-b0b4fd350fd5",
        "c926f0d7-d006-5c82-9e3e-96c6dbce3675",
    ),
]


@walk(("environment", "key", "effect", "first", "second"), GOLDEN)
def test_golden_keys(environment: str, key: str, effect: str, first: str, second: str) -> None:
    """A provider keeps keys for days: one that changes with a version is a second refund."""
    assert idempotency_key_for(environment, key) == effect
    assert attempt_key_for(environment, key, 1) == first
    assert attempt_key_for(environment, key, 2) == second


def by_hand(payload: dict[str, Any]) -> str:
    """As docs/format.md says it, without our code."""
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    digest = hashlib.sha1(
        UUID("af758558-2d86-45b3-b283-f65e3ab9e26e").bytes + text.encode(), usedforsecurity=False
    ).digest()
    return str(UUID(bytes=digest[:16], version=5))


def test_anybody_can_make_them_again() -> None:
    effect = {"environment": "production", "effect_key": "refund:txn_1"}
    assert by_hand(effect) == GOLDEN[0][2]
    assert by_hand({**effect, "attempt": 2}) == GOLDEN[0][4]


def test_the_page_of_the_format_has_the_namespace_and_the_golden_keys() -> None:
    page = (Path(__file__).parents[2] / "docs" / "format.md").read_text("utf-8")
    assert str(NAMESPACE) in page
    for _, _, *keys in GOLDEN[:2]:
        assert all(key in page for key in keys)


@walk(
    ("environment", "key", "attempt"),
    [
        ("", "k", 1),
        ("e", "", 1),
        (None, "k", 1),
        ("e", b"k", 1),
        ("e", "\ud800", 1),
        ("e", "k", 0),
        ("e", "k", True),
        ("e", "k", "1"),
    ],
)
def test_what_is_no_key(environment: Any, key: Any, attempt: Any) -> None:
    with pytest.raises(InvalidArgument):
        attempt_key_for(environment, key, attempt)


_NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(environment=_NAMES, key=_NAMES, attempt=st.integers(1, 10**6))
def test_any_key_can_be_made_again(environment: str, key: str, attempt: int) -> None:
    effect = {"environment": environment, "effect_key": key}
    assert idempotency_key_for(environment, key) == by_hand(effect)
    assert attempt_key_for(environment, key, attempt) == by_hand({**effect, "attempt": attempt})


@given(st.lists(st.tuples(_NAMES, _NAMES, st.integers(1, 9)), unique=True))
def test_no_two_attempts_share_a_key(attempts: list[tuple[str, str, int]]) -> None:
    """Neither with each other nor with an effect: names that run together do not."""
    effects = {(environment, key) for environment, key, _ in attempts}
    keys = {attempt_key_for(*each) for each in attempts}
    keys |= {idempotency_key_for(*each) for each in effects}
    assert len(keys) == len(attempts) + len(effects)
