"""The code of a card: nothing but the shown code, typed on purpose, answers."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.clock import counted_ids
from ctrlrun_tui.cards.code import (
    CODE_LETTERS,
    LOCKED_FOR,
    QUIET,
    TOGETHER,
    Code,
    Lock,
    Press,
    hash_code,
    letter_code,
)

DRAWN = 100.0
LETTERS = "abcdefghijklmnopqrstuvwxyz"
PROSE = "refund was my choice yes okay confirm the zoom call from marc and fix it "

Strokes = Sequence[tuple[float, str]]
"""Keys with the seconds since the key before."""


def shown(text: str = "mf", *, drawn_at: float = DRAWN) -> Code:
    return Code(text).offer().drawn(drawn_at)


def play(code: Code, strokes: Strokes, *, start: float = DRAWN) -> tuple[Code, list[Press]]:
    presses = []
    at = start
    for gap, key in strokes:
        at += gap
        code, press = code.press(key, at)
        presses.append(press)
    return code, presses


def answered(code: Code, strokes: Strokes) -> bool:
    return Press.ANSWERED in play(code, strokes)[1]


def evenly(keys: Iterable[str], gap: float) -> Strokes:
    return [(gap, key) for key in keys]


# --- which code ----------------------------------------------------------------------------------


def test_letters_are_two_different_ones_and_never_those_of_the_card_before() -> None:
    previous = None
    for _ in range(500):
        code = letter_code(previous)
        assert len(set(code)) == 2
        assert set(code) <= set(CODE_LETTERS)
        assert previous is None or set(code) != set(previous)
        previous = code


def test_every_pair_can_come() -> None:
    assert len({letter_code(None) for _ in range(2000)}) == 12


def test_letters_are_held_still_with_the_ids() -> None:
    with counted_ids():
        first = [letter_code(None) for _ in range(3)]
    with counted_ids():
        assert [letter_code(None) for _ in range(3)] == first


@pytest.mark.parametrize(
    ("action_hash", "code"),
    [
        ("sha256:68424d72aa22fe0fd8", "0fd8"),
        ("sha256:68424d72aa22feaaab", "aaab"),
        ("sha256:68424d72aa22fbaaaa", "baaaa"),  # a held `a` must not be an answer
        ("sha256:68424d72aacaaaaaaa", "caaaaaaa"),
    ],
)
def test_a_high_grant_takes_the_last_characters_of_the_hash(action_hash: str, code: str) -> None:
    assert hash_code(action_hash) == code


# --- typed on purpose ----------------------------------------------------------------------------


@given(
    st.sampled_from(["mf", "cz", "0fd8", "aab0"]),
    st.lists(st.floats(min_value=TOGETHER * 1.01, max_value=30), min_size=8, max_size=8),
    st.floats(min_value=QUIET * 1.01, max_value=3600),
)
def test_the_code_typed_after_the_quiet_answers(text: str, gaps: list[float], wait: float) -> None:
    strokes = [
        (wait if index == 0 else gap, key)
        for index, (key, gap) in enumerate(zip(text, gaps, strict=False))
    ]
    _, presses = play(shown(text), strokes)
    assert presses == [Press.COUNTED] * (len(text) - 1) + [Press.ANSWERED]


def test_after_a_lock_the_code_can_be_typed() -> None:
    code, presses = play(shown(), [(1, "x"), (LOCKED_FOR + 0.01, "m"), (0.1, "f")])
    assert presses == [Press.WRONG, Press.COUNTED, Press.ANSWERED]
    assert code.is_answered


def test_nothing_counts_after_the_answer() -> None:
    code, _ = play(shown(), [(1, "m"), (0.1, "f")])
    assert code.press("m", DRAWN + 5) == (code, Press.IGNORED)


# --- what does not answer ------------------------------------------------------------------------


def test_before_it_is_drawn_nothing_counts() -> None:
    code, presses = play(Code("mf").offer(), [(5, "m")])
    assert presses == [Press.EARLY]
    assert code.typed == 0


@pytest.mark.parametrize(
    ("after_drawn", "press"), [(0.29, Press.EARLY), (0.31, Press.COUNTED), (-2.0, Press.EARLY)]
)
def test_the_first_character_waits_for_the_drawn_card(after_drawn: float, press: Press) -> None:
    assert shown().press("m", DRAWN + after_drawn)[1] is press


@pytest.mark.parametrize(("after_key", "press"), [(0.29, Press.EARLY), (0.31, Press.COUNTED)])
def test_the_first_character_waits_for_quiet(after_key: float, press: Press) -> None:
    code = shown().other_key(DRAWN + 5)
    assert code.press("m", DRAWN + 5 + after_key)[1] is press


def test_a_key_that_was_read_earlier_and_handled_later_does_not_shorten_the_quiet() -> None:
    code = shown().other_key(DRAWN + 5).other_key(DRAWN + 1)
    assert code.press("m", DRAWN + 5.1)[1] is Press.EARLY


def test_a_code_that_is_not_shown_takes_nothing() -> None:
    assert play(Code("mf"), [(5, "m"), (0.1, "f")])[1] == [Press.IGNORED, Press.WRONG]
    withdrawn = shown().press("m", DRAWN + 1)[0].withdraw()
    assert withdrawn.press("m", DRAWN + 2)[1] is Press.IGNORED
    assert withdrawn.typed == 0


def test_shown_anew_it_is_to_be_drawn_anew() -> None:
    code = shown().withdraw().offer()
    assert code.press("m", DRAWN + 60)[1] is Press.EARLY
    assert code.drawn(DRAWN + 61).press("m", DRAWN + 61.4)[1] is Press.COUNTED


def test_another_key_in_between_takes_the_typed_part_back() -> None:
    code = shown().press("m", DRAWN + 1)[0].other_key(DRAWN + 1.5)
    assert code.press("f", DRAWN + 2)[1] is Press.WRONG


def test_a_wrong_character_locks_for_two_seconds() -> None:
    code, presses = play(shown(), [(1, "m"), (0.2, "x")])
    assert presses == [Press.COUNTED, Press.WRONG]
    assert code.lock is Lock.NOT_THE_CODE
    assert code.is_locked(DRAWN + 1.2 + LOCKED_FOR - 0.01)
    assert not code.is_locked(DRAWN + 1.2 + LOCKED_FOR)


def test_other_characters_hold_the_lock_and_the_codes_own_do_not() -> None:
    wrong, _ = play(shown(), [(1, "x"), (1.5, "y")])
    assert wrong.is_locked(DRAWN + 4)
    own, _ = play(shown(), [(1, "x"), (1.5, "m")])
    assert not own.is_locked(DRAWN + 3.01)


@pytest.mark.parametrize("code", ["mf", "0fd8"])
@pytest.mark.parametrize("keys", ["m", "f", "a", "0", "8"])
@pytest.mark.parametrize("rate", [0.015, 0.033, 0.092, 0.5])
def test_a_held_key_answers_nothing(code: str, keys: str, rate: float) -> None:
    assert not answered(shown(code), [(1, keys), (0.66, keys), *evenly(keys * 100, rate)])


def test_a_held_key_does_not_answer_a_hash_that_ends_in_it() -> None:
    code = shown(hash_code("sha256:" + "1" * 30 + "aaaaaa"))
    assert not answered(code, [(0.66, "a"), *evenly("a" * 200, 0.1)])


@pytest.mark.parametrize("text", ["mf", "0fd8"])
@pytest.mark.parametrize("pasted", ["{}", "{} ", "{}\n", "x{}", "note {} done", "{0}{0}{0}"])
def test_a_paste_that_comes_as_keys_answers_nothing(text: str, pasted: str) -> None:
    code, _ = play(shown(text), [(5, pasted.format(text)[0])])
    rest = evenly(pasted.format(text)[1:], 0.0002)
    assert Press.ANSWERED not in play(code, rest, start=DRAWN + 5)[1]


def test_a_paste_says_why_it_was_refused() -> None:
    code, _ = play(shown(), [(5, "m"), (0.0001, "f")])
    assert code.lock is Lock.TOGETHER


# --- everything else -----------------------------------------------------------------------------

_keys = st.sampled_from(["m", "f", "c", "z", "a", "e", "0", "Enter"])
_gaps = st.one_of(
    st.sampled_from([0.0, 0.001, 0.03, 0.06, 0.15, 0.29, 0.31, 0.4, 1.0, 2.1]),
    st.floats(min_value=0, max_value=4),
)


@given(st.lists(st.tuples(_gaps, _keys), max_size=60), st.sampled_from(["mf", "cz", "0ea0"]))
def test_only_the_whole_code_after_quiet_and_unlocked_answers(
    strokes: list[tuple[float, str]], text: str
) -> None:
    """An answer implies: the code itself, in one piece, slow enough, 0.3 s after all else, and no
    wrong character within the two seconds before."""
    code, presses = play(shown(text), strokes)
    if Press.ANSWERED not in presses:
        assert not code.is_answered
        return
    end = presses.index(Press.ANSWERED) + 1
    start = end - len(text)
    times = [DRAWN + sum(gap for gap, _ in strokes[: index + 1]) for index in range(len(strokes))]
    assert "".join(key for _, key in strokes[start:end]) == text
    assert times[start] - (times[start - 1] if start else DRAWN) >= QUIET
    assert all(later - earlier >= TOGETHER for earlier, later in pairwise(times[start:end]))
    recent = [
        key
        for (_, key), at in zip(strokes[:start], times, strict=False)
        if times[start] - at < LOCKED_FOR - 1e-6
    ]
    assert set(recent) <= set(text)


@given(st.lists(st.tuples(st.floats(0, 0.299), st.sampled_from(LETTERS)), max_size=200))
def test_keys_without_a_pause_never_answer(strokes: list[tuple[float, str]]) -> None:
    assert not answered(shown("mf"), strokes)


def _runs_that_answer(text_of: random.Random, gap: float, *, prose: bool, runs: int) -> int:
    count = 0
    for _ in range(runs):
        pair = letter_code(None)
        if prose:
            start = text_of.randrange(len(PROSE))
            keys = (PROSE[start:] + PROSE)[:60]
        else:
            keys = "".join(text_of.choices(LETTERS, k=50))
        strokes = [(gap * text_of.uniform(0.8, 1.2), key) for key in keys]
        count += answered(shown(pair), strokes)
    return count


@pytest.mark.parametrize("prose", [True, False])
@pytest.mark.parametrize("gap", [0.06, 0.15])
def test_typing_into_an_open_card_answers_nothing(gap: float, prose: bool) -> None:
    assert _runs_that_answer(random.Random(7), gap, prose=prose, runs=400) == 0


def test_slow_typing_into_an_open_card_needs_the_pair_as_its_first_two_letters() -> None:
    """At 0.4 s a key every key is preceded by quiet; what is left is the chance of 1 in 676."""
    with counted_ids():
        assert _runs_that_answer(random.Random(7), 0.4, prose=False, runs=1000) <= 8
