"""Several processes at once: one winner on one key, on one approval, on one continuation."""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.control import Control
from ctrlrun.errors import InvalidArgument
from tests.e2e.crashes import POLICY
from tests.lib.store_suite.helpers import HOLDER
from tests.lib.store_suite.helpers import action as held_action
from tests.pg.server import a_schema, rows, server_url
from tests.proof.races import (
    KINDS,
    LONG,
    UNGUARDED,
    Call,
    Course,
    action,
    let_go,
    nearness,
    violations,
)

ROUNDS = 3
PROCESSES = 3
"""A few of both: `benchmarks/races.py` runs fifty rounds of eight."""


def test_one_winner_on_sqlite(tmp_path: Path) -> None:
    course = Course(tmp_path)
    calls = let_go(course, KINDS, ROUNDS, PROCESSES)
    assert len(calls) == len(KINDS) * ROUNDS * PROCESSES
    assert violations(course, calls, KINDS, ROUNDS, PROCESSES) == []
    assert max(nearness(calls, kind) for kind in KINDS) > 1, "they did not race"


def test_one_winner_on_postgres(tmp_path: Path) -> None:
    with a_schema() as schema:
        course = Course(tmp_path, server_url(), schema)
        calls = let_go(course, KINDS, ROUNDS, PROCESSES)
        assert len(calls) == len(KINDS) * ROUNDS * PROCESSES
        assert violations(course, calls, KINDS, ROUNDS, PROCESSES) == []
        assert max(nearness(calls, kind) for kind in KINDS) > 1, "they did not race"


def test_without_a_store_more_than_one_wins(tmp_path: Path) -> None:
    """The control: the same race, with a look before the act for all its protection."""
    calls = let_go(Course(tmp_path), (UNGUARDED,), ROUNDS, processes=2)
    won = Counter(call.round for call in calls if call.ended == "won")
    assert max(won.values()) > 1
    acts = Counter((tmp_path / "acts").read_text().split())
    assert acts == {f"{UNGUARDED}{number}": count for number, count in won.items()}


@pytest.mark.parametrize(
    ("acts", "ended", "found"),
    [
        ("key0\n", ("won", "in_progress"), []),
        ("key0\nkey0\n", ("won", "committed"), ["key 0: the remote acted 2 times"]),
        ("", ("won", "committed"), ["key 0: the remote acted 0 times"]),
        ("key0\n", ("won", "won"), ["key 0: 2 won, lost {}"]),
        ("key0\n", ("won", "ambiguous"), ["key 0: 1 won, lost {'ambiguous': 1}"]),
    ],
)
def test_the_judge_counts(
    tmp_path: Path, acts: str, ended: tuple[str, str], found: list[str]
) -> None:
    course = Course(tmp_path)
    with closing(course.store()) as store:
        Control(POLICY, store).execute(action("key", 0), lambda: None, "key0")
    course.acts.write_text(acts)
    calls = [Call("key", 0, word, 0, 1) for word in ended]
    assert violations(course, calls, ("key",), 1, processes=2) == found


def test_a_token_that_is_taken_while_one_waits_is_no_token(tmp_path: Path) -> None:
    """The first takes it and commits while the second waits for the row: spent, not ambiguous."""
    with a_schema() as schema, closing(Course(tmp_path, server_url(), schema).store()) as store:
        store.reserve_effect("k", HOLDER)
        store.begin_execution("k", HOLDER)
        store.hold_continuation(held_action(), "k", "token", utc_now() + LONG)
        with ThreadPoolExecutor(1) as pool:

            def take_and_commit() -> Future[object]:
                store.take_continuation("token")
                second: Future[object] = pool.submit(store.take_continuation, "token")
                _until_one_waits(schema)
                store.commit_effect("k", HOLDER, None)
                return second

            second = store.unit(take_and_commit, durable=True)
            with pytest.raises(InvalidArgument, match="no suspended call is waiting"):
                second.result(30)


def _until_one_waits(schema: str) -> None:
    waiting = (
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        f"AND query LIKE '%{schema}%' AND pid <> pg_backend_pid()"
    )
    end = time.monotonic() + 30
    while not rows(schema, waiting):
        assert time.monotonic() < end, "nobody waits"
        time.sleep(0.01)
