"""A rollout: the figures agree with each other, and enforcing does what observing said.

Three things count the same store: `ctrlrun stats`, the count under it, and SQL written here. Then
the same calls are enforced, in two ways:

- *From the snapshot before.* An empty store, as the observed day had: every call meets the world
  that it met while nothing was enforced, but for what the calls before it changed. A call that
  enforcing stops leaves its effect key free, and while observing it took it: so a later, different
  call of the same key could meet another world. The day has no such calls (a test holds it to
  that), and so every call must end as observing said, with the same reason.
- *On the store of the rollout itself.* What was done while observing is done: grant and policy stop
  exactly the calls that they would have stopped, for the same reason, and every other call that
  has a key finds it taken. Nothing is done twice.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.clock import utc_now
from ctrlrun.operator import ReadingDesk
from ctrlrun.operator.stats import StatsCount
from ctrlrun.receipt import verify_chain
from tests.cli.helpers import ROOT, clean_environ, run
from tests.rollout import EXAMPLE, Rollout, enforce_anew, rehearse

KEYED = {"duplicate", "in_progress", "ambiguous"}
"""What a taken key stops; all else is stopped by a grant, the policy or an approval."""

BLOCKED = {*KEYED, "approval_mismatch"}

EXPECTED = {
    "approval_required": 80,
    "no_authority": 40,
    "rule[2]": 20,
    "authority_constraint": 20,
    "unknown_action": 20,
    "decision": 20,
    "approval_mismatch": 20,
    "duplicate": 20,
    "in_progress": 20,
    "ambiguous": 20,
}


@dataclass(frozen=True)
class Rehearsal:
    """Both runs of the example in one folder, and the store as the first left it."""

    folder: Path
    observed: Rollout
    enforced: Rollout
    printed: tuple[tuple[str, str], tuple[str, str]]


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> Rehearsal:
    """The example, played twice."""
    folder = tmp_path_factory.mktemp("rehearsal") / "day"
    folder.mkdir()
    observed, *first = rehearse(folder)
    kept = shutil.copytree(observed.folder, folder.with_name("observed"))
    enforced, *second = rehearse(folder, enforce=True)
    observed = replace(observed, folder=kept)
    return Rehearsal(folder, observed, enforced, ((first[0], first[1]), (second[0], second[1])))


@pytest.fixture
def observed(rehearsal: Rehearsal) -> Rollout:
    """A day on which nothing was enforced."""
    return rehearsal.observed


@pytest.fixture
def again(rehearsal: Rehearsal) -> Rollout:
    """The same day enforced on the observed day's store."""
    return rehearsal.enforced


@pytest.fixture(scope="module")
def anew(tmp_path_factory: pytest.TempPathFactory) -> Rollout:
    """The same day enforced, from the beginning."""
    return enforce_anew(tmp_path_factory.mktemp("anew"))


# --- the figures ---------------------------------------------------------------------------------


def by_sql(state: Path) -> dict[str, Any]:
    """The figures of the observe document, counted by the database alone."""
    would_have = "json_extract(json, '$.would_have.{}')".format
    reason = would_have("blocked_reason")
    with closing(sqlite3.connect(state)) as connection:

        def count(where: str) -> int:
            sql = f"SELECT COUNT(*) FROM receipts WHERE {where}"
            (number,) = connection.execute(sql).fetchone()
            return int(number)

        def reasons(where: str) -> dict[str, int]:
            sql = (
                f"SELECT COALESCE({reason}, {would_have('reason')}) AS why, COUNT(*) AS n "
                f"FROM receipts WHERE {where} GROUP BY why ORDER BY n DESC, why"
            )
            return dict(connection.execute(sql).fetchall())

        denied = f"{would_have('decision')} = 'deny'"
        blocked = f"{reason} IN ({', '.join(map(repr, sorted(BLOCKED)))})"
        return {
            "actions": count("1"),
            "would_have_been_denied": count(denied),
            "denied_by_reason": reasons(denied),
            "would_have_needed_approval": count(f"{reason} = 'approval_required'"),
            "would_have_been_blocked": count(blocked),
            "blocked_by_reason": reasons(blocked),
            "ambiguous_outcomes": count("json_extract(json, '$.execution') = 'ambiguous'"),
        }


def by_the_command(rollout: Rollout, *arguments: str) -> dict[str, Any]:
    ended = run("stats", "--json", *arguments, cwd=rollout.folder, environ=rollout.environ)
    assert ended.code == 0, ended.err
    document: dict[str, Any] = json.loads(ended.out)
    return document


def by_the_count(rollout: Rollout, mode: Any) -> dict[str, Any]:
    desk = ReadingDesk(rollout.location)
    with closing(desk.reader()) as reader:
        count = StatsCount(None, mode=mode)
        while not count.advance(reader, utc_now(), limit=300):
            pass
        return dict(count.report().document)


def test_the_day_has_everything_in_it(observed: Rollout) -> None:
    assert set(observed.stopped.values()) == {None}
    reasons = Counter(observed.would_have_stopped().values())
    assert reasons.pop(None) > 1000
    assert reasons == EXPECTED
    agents = {document["principal"]["agent"] for document in observed.documents()}
    assert agents == {"support-agent", "ops-agent", "report-agent"}
    executions = Counter(document["execution"] for document in observed.documents())
    assert executions["ambiguous"] == executions["failed"] == 20
    with closing(ReadingDesk(observed.location).reader()) as reader:
        assert verify_chain(reader).ok


def test_three_counts_agree_on_every_figure(observed: Rollout) -> None:
    expected = by_sql(observed.state)
    assert expected["denied_by_reason"] | expected["blocked_by_reason"] == {
        reason: number for reason, number in EXPECTED.items() if reason != "approval_required"
    }
    command = by_the_command(observed)
    figures = {key: command[key] for key in expected}
    assert figures == expected
    for key in ("denied_by_reason", "blocked_by_reason"):
        assert list(command[key]) == list(expected[key])
    assert by_the_count(observed, "observe") == command


def test_a_window_is_counted_alike(observed: Rollout) -> None:
    moments = sorted(document["finished_at"] for document in observed.documents())
    boundary = moments[len(moments) // 3]
    document = by_the_command(observed, "--since", boundary)
    assert document["actions"] == sum(moment >= boundary for moment in moments)
    assert (document["from"], document["to"]) == (boundary, moments[-1])


# --- enforced from the beginning -----------------------------------------------------------------


def test_no_call_meets_a_key_that_only_observing_took(observed: Rollout) -> None:
    """What makes the next test exact: who comes to such a key is stopped by grant or policy, too."""
    taken: set[str] = set()
    for document in observed.documents():
        key, reason = document["effect_key"], document["would_have"]["blocked_reason"]
        if key is None:
            continue
        if reason is not None and reason not in KEYED:
            taken.add(key)
        else:
            assert key not in taken


def test_enforcing_stops_what_observing_said_call_by_call(observed: Rollout, anew: Rollout) -> None:
    said = observed.would_have_stopped()
    assert list(anew.stopped) == list(said)
    differing = {
        call: (said[call], stopped)
        for call, stopped in anew.stopped.items()
        if stopped != said[call]
    }
    assert differing == {}
    stopped = sum(reason is not None for reason in said.values())
    assert anew.changes < observed.changes <= anew.changes + stopped


def test_the_enforced_receipts_say_the_same(observed: Rollout, anew: Rollout) -> None:
    """Call by call again, from the evidence: the same action, denied for the same reason."""
    denied = [
        (document["action_hash"], document["would_have"]["blocked_reason"])
        for document in observed.documents()
        if document["would_have"]["decision"] == "deny"
    ]
    receipts = anew.documents()
    assert denied == [
        (document["action_hash"], document["decision_reason"])
        for document in receipts
        if document["result"] == "denied"
    ]
    blocked = sum(reason in BLOCKED for reason in observed.would_have_stopped().values())
    assert sum(document["result"] == "blocked" for document in receipts) == blocked
    command = by_the_command(anew)
    assert command["denied"] == len(denied)
    assert command["denied_by_reason"] == dict(Counter(reason for _, reason in denied))
    assert by_the_count(anew, "enforce") == command


def test_each_call_that_would_have_been_asked_about_is_asked_about(
    observed: Rollout, anew: Rollout
) -> None:
    asked = [
        document["action_hash"]
        for document in observed.documents()
        if document["would_have"]["blocked_reason"] == "approval_required"
    ]
    with closing(sqlite3.connect(anew.state)) as connection:
        sql = "SELECT action_hash FROM approvals ORDER BY rowid"
        requested = [action_hash for (action_hash,) in connection.execute(sql)]
    assert requested == asked


# --- enforced on the same store ------------------------------------------------------------------


def test_what_was_done_while_observing_is_not_done_again(observed: Rollout, again: Rollout) -> None:
    said = observed.would_have_stopped()
    keys = dict(
        zip(said, (document["effect_key"] for document in observed.documents()), strict=True)
    )
    for call, stopped in again.stopped.items():
        if said[call] is not None and said[call] not in KEYED:
            assert stopped == said[call], call
        elif keys[call] is None:
            assert stopped is None, call
        else:
            assert stopped in ("duplicate", "ambiguous"), call
    assert again.changes == 0
    missing = set(said) - set(again.stopped)
    assert {said[call] for call in missing} == {
        "in_progress"
    }  # made inside a call that did not run


def test_the_store_of_both_modes_is_counted_by_the_current_one(
    observed: Rollout, again: Rollout
) -> None:
    command = by_the_command(again)
    receipts = again.documents()
    assert command["actions"] == len(receipts)
    assert command["other_mode"] == len(observed.documents())
    assert command["denied"] == sum(document["result"] == "denied" for document in receipts)
    assert by_the_count(again, "enforce") == command


# --- as a program --------------------------------------------------------------------------------


def test_enforcing_before_observing_is_refused(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE / "main.py"), "--enforce"], cwd=tmp_path, env=clean_environ()
    )
    assert done.returncode == 1
    assert list(tmp_path.iterdir()) == []


def test_the_example_says_what_was_played(rehearsal: Rehearsal) -> None:
    (out, err), (enforced, nothing) = rehearsal.printed
    assert (err, nothing) == ("OBSERVE MODE — nothing is enforced\n", "")
    assert "would have needed approval        80" in out
    assert "BLOCKED" in enforced and "     0  things done twice" in enforced
    assert os.listdir(rehearsal.folder) == [".ctrlrun"]
    assert os.listdir(rehearsal.folder / ".ctrlrun") == ["examples"]
    assert not (ROOT / ".ctrlrun" / "examples").exists()
