"""One program, unchanged, on SQLite and on Postgres; and the commands and the feed on Postgres."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ctrlrun
from ctrlrun.cli import main
from ctrlrun.clock import utc_now
from ctrlrun.operator import Desk, ReadingDesk, approve, resolve
from ctrlrun.operator.feed import Feed
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.receipt import verify_chain
from ctrlrun.state import SQLiteStateStore
from ctrlrun.state.location import locate
from tests.cli.helpers import Ended
from tests.cli.helpers import run as run_program
from tests.pg.server import a_url, run, server_url

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


Command = Callable[..., Ended]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs the program in this process, in an empty folder, on the store of a schema."""
    monkeypatch.chdir(tmp_path)

    def runs(schema: str, *arguments: str) -> Ended:
        monkeypatch.setenv("CTRLRUN_STORE_URL", a_url(schema))
        capsys.readouterr()
        code = main(arguments)
        return Ended(code, *capsys.readouterr())

    return runs


def test_the_commands_read_and_answer(filled: str, tmp_path: Path, command: Command) -> None:
    environ = {"CTRLRUN_STORE_URL": a_url(filled)}
    ended = run_program("receipts", "--verify-chain", "--json", cwd=tmp_path, environ=environ)
    assert ended.code == 0 and json.loads(ended.out)["ok"]
    ended = command(filled, "effects", "--json")
    effects = ended.documents
    assert {effect["effect_key"] for effect in effects} == {"refund:a", "refund:b", "refund:c"}
    ended = command(filled, "events", "--json")
    assert len(ended.lines) > 10
    (tmp_path / "ctrlrun.yaml").write_text(POLICY)
    ended = command(filled, "stats", "--json")
    assert ended.code == 0, ended.err
    with closing(PostgresStateStore(server_url(), schema=filled)) as store:
        store.reserve_effect("k", "act_1")
        store.begin_execution("k", "act_1")
        store.mark_ambiguous("k", "act_1", "no reply")
        ended = command(filled, "resolve", "k", "--failed", "--note", "n", "--as", "ada")
        assert ended.code == 0, ended.err
        record = store.get_effect("k")
        assert record is not None and record.resolved_by == "cli:ada"
    assert [path.name for path in tmp_path.iterdir()] == [
        "ctrlrun.yaml"
    ]  # no events file beside anything


def test_refusals_are_one_line_each_and_distinct(schema: str, command: Command) -> None:
    said = [command("t_absent", "effects"), command(schema, "effects")]
    run(schema, "CREATE TABLE {s}.invoices (id int)")
    said.append(command(schema, "effects"))
    run(schema, "DROP TABLE {s}.invoices")
    with closing(PostgresStateStore(server_url(), schema=schema)):
        pass
    run(schema, "DELETE FROM {s}.schema_version WHERE migration_id LIKE '0004%'")
    said.append(command(schema, "effects"))
    run(schema, "INSERT INTO {s}.schema_version VALUES ('0099_x', 'x', '9')")
    said.append(command(schema, "effects"))
    assert [ended.code for ended in said] == [1] * 5
    for ended, words in zip(
        said,
        ["no schema", "no table schema_version", "invoices", "0004_policy", "0099_x"],
        strict=True,
    ):
        assert words in ended.error
    ended = command(schema, "migrate")
    assert ended.code == 1 and "0099_x" in ended.err
    run(schema, "DELETE FROM {s}.schema_version WHERE migration_id LIKE '0099%'")
    ended = command(schema, "migrate")
    assert ended.lines == ["applied 0004_policy_provenance"]


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
