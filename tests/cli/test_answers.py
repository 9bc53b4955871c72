"""approve, deny, resolve: what is said, written, and refused."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalStatus
from ctrlrun.clock import iso_timestamp, utc_now
from ctrlrun.effect import EffectState
from ctrlrun.errors import AmbiguousEffect, DuplicateEffect, NotExecuted
from tests.cli.helpers import Ended, Scene, run, start


def last_event(scene: Scene) -> dict[str, Any]:
    return scene.store.events()[-1].to_dict()


def lines_of_file(scene: Scene) -> list[dict[str, Any]]:
    text = (scene.state.parent / "events.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


# --- approve and deny ----------------------------------------------------------------------------


def test_a_grant_says_what_it_covers_and_until_when(scene: Scene) -> None:
    request_id = scene.ask("txn_8", 200000)
    record = scene.store.get_approval(request_id)
    assert record is not None
    ended = scene.ctrlrun("approve", request_id)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines == [
        f"granted {request_id} for {record.action_hash}",
        f"expires {iso_timestamp(record.expires_at)}",
        "action      stripe.refund",
        "agent       refund-agent",
        "resource    -",
        "environment production",
        "arguments   amount = 200000",
        '            payment_id = "txn_8"',
    ]
    assert scene.refund("txn_8", 200000, presenting=request_id).approver == "cli:local"


def test_a_denial(scene: Scene) -> None:
    request_id = scene.ask()
    ended = scene.ctrlrun("deny", request_id)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[:2] == [f"denied {request_id}", "action      stripe.refund"]
    record = scene.store.get_approval(request_id)
    assert record is not None and record.status is ApprovalStatus.DENIED


def test_what_is_shown_of_an_action(scene: Scene) -> None:
    action = Action(
        "stripe.refund",
        {"amount": 200000, "currency": "EUR", "a = b": [1, None], "to": "\u0430dmin"},
        Principal("refund-agent", "dana@example.com"),
        resource="payment:txn_8",
        environment="staging",
    )
    assert scene.ctrlrun("deny", scene.request(action)).lines[1:] == [
        "action      stripe.refund",
        "agent       refund-agent (user: dana@example.com)",
        "resource    payment:txn_8",
        "environment staging",
        'arguments   "a = b" = [1, null]',
        "            amount = 200000  (EUR 2,000.00)",
        '            currency = "EUR"',
        '            to = "\u0430dmin"',
        "beware      words that mix scripts: \u0430dmin",
    ]


def test_the_events_of_the_answers(scene: Scene) -> None:
    granted, denied = scene.ask("txn_8"), scene.ask("txn_9")
    record = scene.store.get_approval(granted)
    assert record is not None
    scene.ctrlrun("approve", granted)
    event = last_event(scene)
    assert (event["type"], event["action_id"], event["approval_id"], event["effect_key"]) == (
        "APPROVAL_GRANTED",
        record.request.action.action_id,
        granted,
        None,
    )
    assert event["data"] == {"approver": "cli:local", "action_hash": record.action_hash}
    scene.ctrlrun("deny", denied)
    event = last_event(scene)
    assert (event["type"], event["data"]) == ("APPROVAL_DENIED", {"approver": "cli:local"})


def test_an_answer_is_appended_to_the_events_file_too(scene: Scene) -> None:
    scene.ctrlrun("approve", scene.ask())
    assert lines_of_file(scene)[-1] == last_event(scene)
    scene.lose("txn_2")
    scene.ctrlrun("resolve", "refund:txn_2", "--failed", "--note", "n")
    assert lines_of_file(scene)[-1] == last_event(scene)


def test_an_events_file_that_cannot_be_written_does_not_undo_the_answer(scene: Scene) -> None:
    request_id = scene.ask()
    (scene.state.parent / "events.jsonl").unlink()
    (scene.state.parent / "events.jsonl").mkdir()
    ended = run("approve", request_id, cwd=scene.folder)
    assert (ended.code, ended.lines[0].split()[0]) == (0, "granted")
    assert ended.err.startswith("warning: ") and ended.err.count("\n") == 1
    assert "events.jsonl" in ended.err


@pytest.mark.parametrize(
    ("command", "said"),
    [("approve", "granted apr_"), ("deny", "denied apr_"), ("resolve", "refund:txn_2 resolved")],
)
def test_an_answer_that_cannot_be_printed_is_given_all_the_same(
    scene: Scene, command: str, said: str
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    scene.lose("txn_2")
    about = ["refund:txn_2", "--failed", "--note", "n"] if command == "resolve" else [scene.ask()]
    with open("/dev/full", "wb") as full:
        child = start(command, *about, cwd=scene.folder, stdout=full.fileno())
        _, err = child.communicate(timeout=60)
    assert child.returncode == 0
    assert err.decode().startswith(f"warning: {said}") and err.count(b"\n") == 1
    assert b"standard output" in err


def test_a_pipe_in_place_of_the_events_file_holds_no_answer_up(scene: Scene) -> None:
    events = scene.state.parent / "events.jsonl"
    request_id = scene.ask()
    events.unlink()
    os.mkfifo(events)
    ended = run("approve", request_id, cwd=scene.folder)
    assert (ended.code, ended.lines[0].split()[0]) == (0, "granted")
    assert ended.err.startswith("warning: ") and "events.jsonl" in ended.err


@pytest.mark.parametrize("command", ["approve", "deny"])
@pytest.mark.parametrize("request_id", ["apr_nope", ""])
def test_a_request_that_is_unknown(scene: Scene, command: str, request_id: str) -> None:
    ended = scene.ctrlrun(command, request_id)
    assert ended.code == 1 and repr(request_id) in ended.error
    assert scene.event_types() == []


def _granted(scene: Scene, request_id: str) -> None:
    scene.store.grant_approval(request_id, "bob")


def _consumed(scene: Scene, request_id: str) -> None:
    record = scene.store.get_approval(request_id)
    assert record is not None
    scene.store.grant_approval(request_id, "bob")
    scene.store.consume_approval(request_id, record.action_hash)


def _denied(scene: Scene, request_id: str) -> None:
    scene.store.deny_approval(request_id, "bob")


@pytest.mark.parametrize("command", ["approve", "deny"])
@pytest.mark.parametrize(
    ("answer", "status"), [(_granted, "granted"), (_consumed, "consumed"), (_denied, "denied")]
)
def test_a_request_that_was_answered(scene: Scene, command: str, answer: Any, status: str) -> None:
    request_id = scene.ask()
    answer(scene, request_id)
    before = scene.event_types()
    ended = scene.ctrlrun(command, request_id)
    assert ended.code == 1
    assert request_id in ended.error and f"already {status}" in ended.error
    assert scene.event_types() == before


@pytest.mark.parametrize("command", ["approve", "deny"])
def test_a_request_whose_time_is_over(scene: Scene, command: str) -> None:
    with scene.at(utc_now() - timedelta(hours=1)):
        request_id = scene.ask()
    record = scene.store.get_approval(request_id)
    assert record is not None
    ended = scene.ctrlrun(command, request_id)
    assert ended.code == 1
    assert "expired" in ended.error and iso_timestamp(record.expires_at)[:19] in ended.error
    assert scene.event_types()[-1] == "APPROVAL_EXPIRED"
    again = scene.ctrlrun(command, request_id)
    assert again.code == 1 and "already expired" in again.error
    assert scene.event_types().count("APPROVAL_EXPIRED") == 1


def test_a_request_that_was_altered_can_only_be_denied(scene: Scene) -> None:
    import sqlite3

    request_id = scene.ask()
    with sqlite3.connect(scene.state) as connection:
        connection.execute(
            "UPDATE approvals SET action_json = replace(action_json, '200000', '900000')"
        )
    connection.close()
    assert scene.ctrlrun("approve", request_id).code == 1
    assert scene.event_types()[-1] == "APPROVAL_REQUESTED"
    assert scene.ctrlrun("deny", request_id).code == 0


# --- who, and the note ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "variable", "who"),
    [
        ((), None, "cli:local"),
        ((), "bob", "cli:bob"),
        (("--as", "alice"), None, "cli:alice"),
        (("--as", "alice"), "bob", "cli:alice"),
    ],
)
def test_who_answers(
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    variable: str | None,
    who: str,
) -> None:
    if variable is not None:
        monkeypatch.setenv("CTRLRUN_OPERATOR", variable)
    scene.lose("txn_2")
    ended = scene.ctrlrun("resolve", "refund:txn_2", "--committed", *options)
    assert ended.lines == [f"refund:txn_2 resolved committed by {who}"]
    assert last_event(scene)["data"]["resolver"] == who
    scene.ctrlrun("approve", scene.ask(), *options)
    assert last_event(scene)["data"]["approver"] == who


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\tb", "\x1b[31m", "\u202ebob", "a\u2028b"])
@pytest.mark.parametrize("command", ["approve", "deny", "resolve"])
def test_a_name_that_is_none(scene: Scene, command: str, name: str) -> None:
    request_id = scene.ask()
    scene.lose("txn_2")
    before = scene.bytes_of_store()
    given = ("refund:txn_2", "--failed", "--note", "n") if command == "resolve" else (request_id,)
    ended = scene.ctrlrun(command, *given, "--as", name)
    assert ended.code == 1 and "--as" in ended.error
    assert scene.bytes_of_store() == before


def test_a_variable_that_names_nobody(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRLRUN_OPERATOR", "")
    ended = scene.ctrlrun("approve", scene.ask())
    assert ended.code == 1 and "CTRLRUN_OPERATOR" in ended.error
    assert scene.event_types()[-1] == "APPROVAL_REQUESTED"


def test_a_note_is_kept_in_the_event(scene: Scene) -> None:
    scene.ctrlrun("approve", scene.ask("txn_8"), "--note", "asked in #payments")
    assert last_event(scene)["data"]["note"] == "asked in #payments"
    scene.ctrlrun("deny", scene.ask("txn_9"), "--note", "not that one")
    assert last_event(scene)["data"]["note"] == "not that one"
    scene.lose("txn_2")
    scene.ctrlrun("resolve", "refund:txn_2", "--failed", "--note", "dashboard: nothing")
    assert last_event(scene)["data"]["note"] == "dashboard: nothing"


# --- resolve -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--committed", "--failed")])
def test_exactly_one_outcome_is_said_before_a_store_is_looked_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("CTRLRUN_STATE", "/nowhere/state.db")
    ended = scene.ctrlrun("resolve", "refund:txn_1", *options)
    assert (ended.code, ended.out) == (2, "")
    assert "--committed" in ended.err and "--failed" in ended.err


def test_resolved_committed(scene: Scene) -> None:
    scene.lose()
    ended = scene.ctrlrun("resolve", "refund:txn_1", "--committed")
    assert (ended.code, ended.lines) == (0, ["refund:txn_1 resolved committed by cli:local"])
    record = scene.store.get_effect("refund:txn_1")
    assert record is not None
    assert (record.state, record.resolved_by) == (EffectState.COMMITTED, "cli:local")
    assert record.lease_expires_at is None
    assert record.error == "resolved committed by cli:local (was: TimeoutError: no reply)"


def test_resolved_failed_permits_a_retry(scene: Scene) -> None:
    scene.lose()
    ended = scene.ctrlrun("resolve", "refund:txn_1", "--failed", "--note", "asked them")
    assert ended.lines == [
        "refund:txn_1 resolved failed by cli:local",
        "a retry of this effect is now permitted",
    ]
    event = last_event(scene)
    assert (event["type"], event["effect_key"]) == ("EFFECT_RESOLVED", "refund:txn_1")
    assert event["data"] == {
        "state": "failed",
        "resolver": "cli:local",
        "resolved_by": "human",
        "note": "asked them",
    }
    assert scene.refund().attempt == 2


def while_it_runs(scene: Scene, work: Callable[[], object]) -> None:
    """A slow executor, whose effect somebody found AMBIGUOUS; `work` happens meanwhile."""

    def executor() -> None:
        later = utc_now() + timedelta(hours=1)
        with scene.at(later), pytest.raises(AmbiguousEffect):
            scene.store.reserve_effect("refund:txn_1", "act_rival")
        work()

    with contextlib.suppress(AmbiguousEffect, DuplicateEffect):
        scene.refund(executor=executor)


@pytest.mark.parametrize("note", [None, "", "  "])
def test_failed_needs_a_note(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, note: str | None
) -> None:
    scene.lose()
    said = [] if note is None else ["--note", note]
    ended = scene.ctrlrun("resolve", "refund:txn_1", "--failed", *said)
    assert (ended.code, ended.out) == (2, "")
    assert "--note" in ended.err
    assert "EFFECT_RESOLVED" not in scene.event_types()
    monkeypatch.setenv("CTRLRUN_STATE", "/nowhere/state.db")
    assert scene.ctrlrun("resolve", "refund:txn_1", "--failed", *said).code == 2


@pytest.mark.parametrize(
    "said", [("--failed", "--note", "the pod was deleted"), ("--committed",)], ids=str
)
def test_with_a_note_or_committed_it_is_resolved_all_the_same(
    scene: Scene, said: tuple[str, ...]
) -> None:
    def work() -> None:
        assert scene.ctrlrun("resolve", "refund:txn_1", *said).code == 0

    while_it_runs(scene, work)
    assert "EFFECT_RESOLVED" in scene.event_types()


def test_hostile_hosts_are_inert(scene: Scene) -> None:
    def work() -> None:
        record = scene.store.get_effect("refund:txn_1")
        assert record is not None
        held = scene.store.get_holder(record.effect_key, record.attempt)
        assert held is not None
        scene.store.put_holder(
            replace(held, host="web\x1b[2J\n\u202e", boot_id="elsewhere", seen_at=utc_now())
        )
        lines = scene.ctrlrun("inspect", record.action_id).out
        assert not {"\x1b", "\u202e"} & set(lines)
        (holder,) = [line for line in lines.splitlines() if line.startswith("holder")]
        assert "alive" in holder
        (document,) = scene.ctrlrun("effects", "--json").documents
        assert document["holder"]["host"] == "web\x1b[2J\n\u202e"  # data stays data

    while_it_runs(scene, work)


def test_there_is_nothing_to_resolve(scene: Scene) -> None:
    scene.refund("txn_1")

    def not_executed() -> None:
        raise NotExecuted("nothing was sent")

    with pytest.raises(NotExecuted):
        scene.refund("txn_2", executor=not_executed)
    scene.store.reserve_effect("refund:txn_3", "act_3")

    def refused(key: str) -> Ended:
        ended = scene.ctrlrun("resolve", key, "--failed", "--note", "n")
        assert ended.code == 1
        return ended

    error = refused("refund:nope").error
    assert "there is no effect 'refund:nope'; `ctrlrun effects` shows" in error
    for key, state in (("txn_1", "committed"), ("txn_2", "failed"), ("txn_3", "reserved")):
        error = refused(f"refund:{key}").error
        assert f"refund:{key}" in error and state in error
    assert "EFFECT_RESOLVED" not in scene.event_types()


def test_an_attempt_that_moved_is_refused(scene: Scene) -> None:
    scene.lose()
    scene.ctrlrun("resolve", "refund:txn_1", "--failed", "--note", "n", "--attempt", "1")
    scene.lose()
    ended = scene.ctrlrun("resolve", "refund:txn_1", "--failed", "--note", "n", "--attempt", "1")
    assert ended.code == 1 and "attempt 2" in ended.error
    assert scene.ctrlrun("resolve", "refund:txn_1", "--committed", "--attempt", "2").code == 0


# --- without a policy ----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [None, "schema: nonsense: [", ""])
def test_answers_need_no_policy(scene: Scene, policy: str | None) -> None:
    if policy is not None:
        (scene.folder / "ctrlrun.yaml").write_text(policy, encoding="utf-8")
    assert scene.ctrlrun("approve", scene.ask("txn_8")).code == 0
    assert scene.ctrlrun("deny", scene.ask("txn_9")).code == 0
    scene.lose()
    assert scene.ctrlrun("resolve", "refund:txn_1", "--committed").code == 0
    for command in ("receipts", "effects", "approvals", "events"):
        assert scene.ctrlrun(command).code == 0
