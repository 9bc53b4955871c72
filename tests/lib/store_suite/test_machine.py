"""A few random games on every store; `benchmarks/machine.py` plays as many as wanted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from tests.lib.store_suite.conftest import BACKENDS
from tests.lib.store_suite.machine import play

GAMES = {"memory": 100, "sqlite": 15, "postgres": 20}
SEED = 1
"""The games of every run of the tests: what one finds, the next finds again."""

LATE = (
    (" by an earlier attempt", "taken"),
    ("resolve, of an earlier attempt", "invalid"),
    ("reconcile about an earlier attempt", "invalid"),
    ("suspend an earlier attempt", "ambiguous"),
    ("fence of an earlier attempt", "taken"),
    ("take, ", "ambiguous"),
)
"""What the fewest games have to meet, by parts of calls' names and what is said there: a machine
that never gets somewhere proves nothing about it."""

REACHED = (
    *LATE,
    ("committed by an earlier attempt of the same action", "taken"),
    ("failed by an earlier attempt of the same action", "taken"),
    ("ambiguous by an earlier attempt of the same action", "taken"),
    ("fence of the attempt that stands", "lapsed"),
    ("fence of the attempt that stands", "resolved"),
    ("fence of the attempt that stands", "passes"),
    ("reserve", "committed"),
    ("reserve", "ambiguous"),
    ("take, ", "ok"),
    ("take, ", "invalid"),
    ("consume_and_reserve", "ok"),
    ("consume_and_reserve", "consumed"),
    ("consume_and_reserve", "approval_denied"),
    ("consume_and_reserve", "expired"),
    ("consume_and_reserve", "mismatch"),
    ("consume_and_reserve", "in_progress"),
)
"""And what a hundred have to."""


def not_reached(
    seen: Counter[tuple[str, str]], wanted: Sequence[tuple[str, str]] = REACHED
) -> list[tuple[str, str]]:
    """What was never met of it."""
    return [
        (part, verdict)
        for part, verdict in wanted
        if not any(part in call and said == verdict for call, said in seen)
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("backend", BACKENDS)
def test_random_calls(backend: str) -> None:
    seen = play(backend, GAMES[backend], SEED)
    assert not_reached(seen, REACHED if backend == "memory" else LATE) == []
