"""One program, unchanged, on SQLite and on Postgres; and the commands and the feed on Postgres."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ctrlrun
from ctrlrun.clock import utc_now
from ctrlrun.operator import Desk, ReadingDesk, approve, resolve
from ctrlrun.operator.feed import Feed
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import verify_chain
from ctrlrun.state import SQLiteStateStore
from ctrlrun.state.location import locate
from tests.pg.server import a_url, run, server_url

ROOT = Path(__file__).resolve().parents[2]
POLICY = """
schema: ctrlrun.policy/v2
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 50000}
        decision: allow
      - decision: approve
"""


def play(store: Any) -> list[str]:
    """An agent's morning: what became of its calls, and what was told of it."""
    policy = ctrlrun.Policy.from_yaml(POLICY)
    control = ctrlrun.Control(policy, store)
    paid: list[str] = []
    said: list[str] = []

    @ctrlrun.protect("stripe.refund", control=control)
    def refund(payment_id: str, amount: int) -> str:
        paid.append(payment_id)
        return f"re_{payment_id}"

    @ctrlrun.protect("stripe.refund", control=control)
    def lossy(payment_id: str, amount: int) -> str:
        paid.append(payment_id)
        raise TimeoutError("no reply")

    def call(function: Any, payment_id: str, amount: int) -> str:
        try:
            return str(function(payment_id=payment_id, amount=amount))
        except ctrlrun.ApprovalRequired as error:
            said.append("asked")
            approve(store, error.request_id, "cli:ada")
            with ctrlrun.with_approval(error.request_id):
                answer = str(function(payment_id=payment_id, amount=amount))
            try:
                with ctrlrun.with_approval(error.request_id):
                    function(payment_id=payment_id, amount=amount)
            except ctrlrun.CTRLRunError as again:
                said.append(f"{type(again).__name__} {getattr(again, 'reason', '')}")
            return answer
        except (ctrlrun.CTRLRunError, TimeoutError) as error:
            return type(error).__name__

    with ctrlrun.context(agent="refund-agent"):
        said += [call(refund, "a", 100), call(refund, "a", 100), call(refund, "b", 90_000)]
        said += [call(lossy, "c", 1), call(refund, "c", 1)]
    resolve(store, "refund:c", "failed", "cli:ada")
    with ctrlrun.context(agent="refund-agent"):
        said.append(call(refund, "c", 1))
    said.append(" ".join(str(event.type) for event in store.events()))
    said.append(" ".join(receipt.result for receipt in store.receipts()))
    report = verify_chain(store)
    said.append(f"{report.ok} {report.verified} {paid}")
    return said


def test_a_program_runs_unchanged(tmp_path: Path, schema: str) -> None:
    with closing(SQLiteStateStore(tmp_path / "state.db")) as store:
        on_sqlite = play(store)
    with closing(PostgresStateStore(server_url(), schema=schema)) as store:
        on_postgres = play(store)
    assert on_postgres == on_sqlite
    assert "True" in on_postgres[-1] and "asked" in on_postgres


@pytest.fixture
def filled(schema: str) -> str:
    with closing(PostgresStateStore(server_url(), schema=schema)) as store:
        play(store)
    return schema


def command(schema: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("CTRLRUN_")}
    environ |= {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tui")]),
        "CTRLRUN_STORE_URL": a_url(schema),
    }
    return subprocess.run(
        [sys.executable, "-m", "ctrlrun", *arguments],
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_commands_read_and_answer(filled: str, tmp_path: Path) -> None:
    ended = command(filled, "receipts", "--verify-chain", "--json", cwd=tmp_path)
    assert ended.returncode == 0 and json.loads(ended.stdout)["ok"]
    ended = command(filled, "effects", "--json", cwd=tmp_path)
    effects = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {effect["effect_key"] for effect in effects} == {"refund:a", "refund:b", "refund:c"}
    ended = command(filled, "events", "--json", cwd=tmp_path)
    assert len(ended.stdout.splitlines()) > 10
    (tmp_path / "ctrlrun.yaml").write_text(POLICY)
    ended = command(filled, "stats", "--json", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    with closing(PostgresStateStore(server_url(), schema=filled)) as store:
        store.reserve_effect("k", "act_1")
        store.begin_execution("k", "act_1")
        store.mark_ambiguous("k", "act_1", "no reply")
        ended = command(filled, "resolve", "k", "--failed", "--as", "ada", cwd=tmp_path)
        assert ended.returncode == 0, ended.stderr
        record = store.get_effect("k")
        assert record is not None and record.resolved_by == "cli:ada"
    assert [path.name for path in tmp_path.iterdir()] == [
        "ctrlrun.yaml"
    ]  # no events file beside anything


def test_refusals_are_one_line_each_and_distinct(schema: str, tmp_path: Path) -> None:
    said = [command("t_absent", "effects", cwd=tmp_path), command(schema, "effects", cwd=tmp_path)]
    run(schema, "CREATE TABLE {s}.invoices (id int)")
    said.append(command(schema, "effects", cwd=tmp_path))
    run(schema, "DROP TABLE {s}.invoices")
    with closing(PostgresStateStore(server_url(), schema=schema)):
        pass
    run(schema, "DELETE FROM {s}.schema_version WHERE migration_id LIKE '0004%'")
    said.append(command(schema, "effects", cwd=tmp_path))
    run(schema, "INSERT INTO {s}.schema_version VALUES ('0099_x', 'x', '9')")
    said.append(command(schema, "effects", cwd=tmp_path))
    assert [ended.returncode for ended in said] == [1] * 5
    assert all(ended.stdout == "" and ended.stderr.count("\n") == 1 for ended in said)
    for ended, words in zip(
        said,
        ["no schema", "no table schema_version", "invoices", "0004_policy", "0099_x"],
        strict=True,
    ):
        assert words in ended.stderr
    ended = command(schema, "migrate", cwd=tmp_path)
    assert ended.returncode == 1 and "0099_x" in ended.stderr
    run(schema, "DELETE FROM {s}.schema_version WHERE migration_id LIKE '0099%'")
    ended = command(schema, "migrate", cwd=tmp_path)
    assert ended.stdout.splitlines() == ["applied 0004_policy_provenance"]


def test_a_feed_follows(filled: str) -> None:
    desk = ReadingDesk(locate(a_url(filled), {}))
    assert desk.events_path is None
    feed = Feed(desk, desk.events_path, watch=False)
    try:
        assert feed.poll().events == ()
        with closing(PostgresStateStore(server_url(), schema=filled)) as store:
            store.append_event(ctrlrun.Event("ACTION_PROPOSED", "act_9", utc_now(), {}))
        batch = feed.poll()
        assert [item.event.action_id for item in batch.events] == ["act_9"]
        assert batch.changed and batch.error is None
    finally:
        feed.close()


def test_a_desk_answers_without_extending(filled: str) -> None:
    run(filled, "DROP INDEX {s}.x_events_by_action", "DELETE FROM {s}.schema_extensions")
    with closing(PostgresStateStore(server_url(), schema=filled)) as store:
        store.reserve_effect("k", "act_1")
        store.mark_ambiguous("k", "act_1", "no reply")
    run(filled, "DROP INDEX {s}.x_events_by_action", "DELETE FROM {s}.schema_extensions")
    desk = Desk(locate(a_url(filled), {}), "tui:ada", extend=False)
    assert desk.sinks == ()
    assert desk.resolve("k", "failed").resolved_by == "tui:ada"
    with closing(desk.reader()) as reader:
        assert not reader.is_indexed()
