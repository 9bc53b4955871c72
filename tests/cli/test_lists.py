"""approvals, effects, events: lines, JSON, filters, nothing to show."""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalStatus
from ctrlrun.clock import iso_timestamp, utc_now
from ctrlrun.control import with_approval
from ctrlrun.effect import EffectState
from ctrlrun.errors import ActionDenied, NotExecuted
from ctrlrun.operator.holding import holder_document, holding
from tests.cli.helpers import Scene


def effect_line(scene: Scene, key: str, ending: str = "") -> str:
    record = scene.store.get_effect(key)
    assert record is not None
    return (
        f"{key}  {record.state.value}  attempt {record.attempt}  {record.action_id}  "
        f"{iso_timestamp(record.updated_at)}{ending}"
    )


# --- effects -------------------------------------------------------------------------------------


@pytest.fixture
def effects(scene: Scene) -> Scene:
    """One effect in every state, and one that a human resolved."""
    scene.refund("txn_committed")
    scene.lose("txn_ambiguous")

    def not_executed() -> None:
        raise NotExecuted("nothing was sent")

    with pytest.raises(NotExecuted):
        scene.refund("txn_failed", executor=not_executed)
    scene.store.reserve_effect("live", "act_live")
    with scene.at(utc_now() - timedelta(hours=1)):
        scene.store.reserve_effect("lapsed", "act_lapsed")
        scene.store.begin_execution("lapsed", "act_lapsed")
    scene.lose("txn_resolved")
    scene.ctrlrun("resolve", "refund:txn_resolved", "--failed", "--note", "n")
    return scene


def test_effects_oldest_first(effects: Scene) -> None:
    assert effects.ctrlrun("effects").lines == [
        effect_line(effects, "lapsed", "  (lease expired)"),
        effect_line(effects, "refund:txn_committed"),
        effect_line(effects, "refund:txn_ambiguous"),
        effect_line(effects, "refund:txn_failed"),
        effect_line(effects, "live"),
        effect_line(effects, "refund:txn_resolved", "  resolved by cli:local"),
    ]


@pytest.mark.parametrize("state", list(EffectState))
def test_effects_of_a_state(effects: Scene, state: EffectState) -> None:
    ended = effects.ctrlrun("effects", "--state", state.value)
    assert ended.code == 0
    expected = [r.effect_key for r in effects.store.list_effects(state)]
    if not expected:
        assert ended.lines == [f"no effects are {state.value}"]
    else:
        assert [line.split("  ")[0] for line in ended.lines] == expected


def test_effects_as_json(effects: Scene) -> None:
    documents = effects.ctrlrun("effects", "--json", "--state", "ambiguous").documents
    record = effects.store.get_effect("refund:txn_ambiguous")
    assert record is not None
    assert documents == [
        {
            "effect_key": "refund:txn_ambiguous",
            "state": "ambiguous",
            "action_id": record.action_id,
            "attempt": 1,
            "created_at": iso_timestamp(record.created_at),
            "updated_at": iso_timestamp(record.updated_at),
            "lease_expires_at": None,
            "error": "TimeoutError: no reply",
            "resolved_by": None,
            "holder": holder_document(holding(effects.store, record, utc_now())),
        }
    ]
    assert documents[0]["holder"]["standing"] == "ended"
    assert next(iter(documents[0])) == "effect_key"


# --- approvals -----------------------------------------------------------------------------------


def approval_line(scene: Scene, request_id: str, status: str) -> str:
    record = scene.store.get_approval(request_id)
    assert record is not None
    expires_at = iso_timestamp(record.expires_at)
    return f"{request_id}  {status}  stripe.refund  refund-agent  {expires_at}"


@pytest.fixture
def requests(scene: Scene) -> tuple[Scene, dict[str, str]]:
    """Requests in every status, by name."""
    asked = {name: scene.ask(name) for name in ("waiting", "granted", "denied", "consumed")}
    scene.ctrlrun("approve", asked["granted"])
    scene.ctrlrun("deny", asked["denied"])
    scene.ctrlrun("approve", asked["consumed"])
    scene.refund("consumed", 200000, presenting=asked["consumed"])
    with scene.at(utc_now() - timedelta(hours=1)):
        asked["expired"] = scene.ask("expired")
    return scene, asked


def test_what_waits_now(requests: tuple[Scene, dict[str, str]]) -> None:
    scene, asked = requests
    expected = [approval_line(scene, asked["waiting"], "pending")]
    assert scene.ctrlrun("approvals").lines == expected
    assert scene.ctrlrun("approvals", "--pending").lines == expected


def test_every_request_with_its_status_by_the_clock(
    requests: tuple[Scene, dict[str, str]],
) -> None:
    scene, asked = requests
    statuses = {name: "pending" if name == "waiting" else name for name in asked}
    assert scene.ctrlrun("approvals", "--all").lines == [
        approval_line(scene, asked[name], statuses[name]) for name in asked
    ]


def test_requests_as_json(scene: Scene) -> None:
    action = Action("email.send", {"b": "é", "a": 1}, Principal("bot"), resource="r")
    request_id = scene.request(action)
    record = scene.store.get_approval(request_id)
    assert record is not None
    ended = scene.ctrlrun("approvals", "--json")
    assert ended.documents == [
        {
            "approval_id": request_id,
            "action_hash": action.action_hash,
            "status": "pending",
            "approver": None,
            "created_at": iso_timestamp(record.request.created_at),
            "expires_at": iso_timestamp(record.expires_at),
            "granted_at": None,
            "consumed_at": None,
            "action": "email.send",
            "agent": "bot",
            "resource": "r",
            "arguments": {"a": 1, "b": "é"},
        }
    ]
    assert '"b":"é"' in ended.out


# --- events --------------------------------------------------------------------------------------


def test_events_by_id(scene: Scene) -> None:
    receipt = scene.refund()
    events = scene.store.events()
    lines = scene.ctrlrun("events").lines
    start = f"{{}}  {{}}  {{}}  {receipt.action_id}  refund:txn_1"
    starts = [start.format(e.event_id, iso_timestamp(e.ts), e.type) for e in events]
    ends = [
        f"  action_hash={receipt.action_hash}",
        "  decision=allow reason=rule[0]",
        f"  attempt=1 lease_expires_at={events[2].data['lease_expires_at']}",
        "",
        "",
    ]
    assert lines == [a + b for a, b in zip(starts, ends, strict=True)]


def test_data_that_could_be_taken_for_more_data_is_quoted(scene: Scene) -> None:
    def executor() -> None:
        raise TimeoutError("no reply resolver=cli:bob")

    with pytest.raises(TimeoutError):
        scene.refund(executor=executor)
    assert (
        scene.ctrlrun("events", "--last", "1")
        .lines[0]
        .endswith('  error="TimeoutError: no reply resolver=cli:bob"')
    )


def test_the_last_events_as_json(scene: Scene) -> None:
    scene.refund()
    ended = scene.ctrlrun("events", "--last", "2", "--json")
    assert ended.documents == [event.to_dict() for event in scene.store.events()[-2:]]


def test_filtered_events(scene: Scene) -> None:
    scene.refund("txn_1")
    scene.lose("txn_2")
    lines = scene.ctrlrun("events", "--filter", "type:EXECUTION_* key:refund:txn_2").lines
    assert [line.split("  ")[2] for line in lines] == ["EXECUTION_STARTED", "EXECUTION_AMBIGUOUS"]
    assert scene.ctrlrun("events", "--filter", "key:nope").lines == ["no events match"]


# --- nothing to show, and what cannot be read ----------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("effects",), "no effects yet"),
        (("effects", "--state", "failed"), "no effects are failed"),
        (("approvals",), "no approvals are pending"),
        (("approvals", "--all"), "no approvals yet"),
        (("events",), "no events yet"),
        (("events", "--last", "3"), "no events yet"),
        (("receipts",), "no receipts yet"),
        (("receipts", "--last", "3"), "no receipts yet"),
        (("receipts", "--control", "SOX\n1"), "no receipts cite 'SOX⏎1'"),
        (("receipts", "--filter", "action:nope"), "no receipts match"),
    ],
)
def test_nothing_to_show(scene: Scene, arguments: tuple[str, ...], said: str) -> None:
    ended = scene.ctrlrun(*arguments)
    assert (ended.code, ended.lines, ended.err) == (0, [said], "")
    ended = scene.ctrlrun(*arguments, "--json")
    assert (ended.code, ended.out, ended.err) == (0, "", f"{said}\n")


@pytest.mark.parametrize(
    ("command", "statement", "named"),
    [
        ("effects", "UPDATE effects SET state = 'x' WHERE effect_key = 'refund:txn_2'", "refund:"),
        ("approvals", "UPDATE approvals SET action_json = '{'", "apr_"),
        ("receipts", "UPDATE receipts SET json = '{' WHERE seq = 2", "ctr_"),
        ("events", "UPDATE events SET data_json = '{' WHERE event_id = 3", "3"),
    ],
)
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_damaged_row_is_named_after_the_others(
    scene: Scene, command: str, statement: str, named: str, options: tuple[str, ...]
) -> None:
    for number in range(1, 4):
        scene.refund(f"txn_{number}")
    scene.ask()
    whole = scene.ctrlrun(command, *options)
    with sqlite3.connect(scene.state) as connection:
        connection.execute(statement)
    connection.close()
    ended = scene.ctrlrun(command, *options)
    assert ended.code == 1
    assert ended.err.startswith("Error: ") and ended.err.count("\n") == 1
    assert command in ended.err and named in ended.err
    printed = [line for line in ended.lines if not line.startswith("no ")]
    assert len(printed) == len(whole.lines) - 1 and set(printed) < set(whole.lines)


def test_a_missing_table_is_named(scene: Scene) -> None:
    with sqlite3.connect(scene.state) as connection:
        connection.execute("DROP TABLE approvals")
    connection.close()
    ended = scene.ctrlrun("approvals")
    assert ended.code == 1 and "approvals" in ended.error


def test_reads_leave_the_store_as_it_is(scene: Scene) -> None:
    receipt = scene.refund()
    scene.ask()
    scene.store.close()
    before = scene.bytes_of_store()["state.db"]
    for arguments in (
        ("receipts",),
        ("receipts", "--verify-chain"),
        ("effects",),
        ("events",),
        ("approvals", "--all"),
        ("inspect", receipt.action_id),
    ):
        assert scene.ctrlrun(*arguments).code == 0
    assert scene.bytes_of_store()["state.db"] == before


def test_lists_longer_than_a_page(scene: Scene) -> None:
    for number in range(450):
        scene.receipt(receipt_id=f"ctr_{number}")
    ids = [line.split("  ")[1] for line in scene.ctrlrun("receipts").lines]
    assert ids == [f"ctr_{number}" for number in range(450)]
    last = [
        json.loads(line)["seq"]
        for line in scene.ctrlrun("receipts", "--last", "420", "--json").lines
    ]
    assert last == list(range(31, 451))


@pytest.mark.parametrize("key", ["mail:1", None])
def test_a_denied_request_that_was_presented_is_marked(scene: Scene, key: str | None) -> None:
    request_id = scene.ask("txn_8")
    record = scene.store.get_approval(request_id)
    assert record is not None
    scene.ctrlrun("deny", request_id)
    for _ in range(2):
        with pytest.raises(ActionDenied), with_approval(request_id):
            scene.control.execute(record.request.action, lambda: None, key)
    for only in ((), ("--last", "4")):
        lines = scene.ctrlrun("events", "--filter", "type:APPROVAL_DENIED", *only).lines
        assert len(lines) == 3
        marked = [line.endswith("  approver=cli:local  (presented again)") for line in lines]
        assert marked == [False, True, True]
    # Also where the answer itself is not listed.
    (line,) = scene.ctrlrun("events", "--filter", "type:APPROVAL_DENIED", "--last", "1").lines
    assert line.endswith("(presented again)")
    (document, *_) = scene.ctrlrun("events", "--filter", "type:APPROVAL_DENIED", "--json").documents
    assert list(document["data"]) == ["approver"]


def test_requests_that_lapsed_unanswered_are_counted(scene: Scene) -> None:
    """Whether their record says so or not; not those that were answered, nor those of long ago."""
    assert scene.ctrlrun("approvals").err == ""
    now = utc_now()
    for hours, asked in ((26, "txn_old"), (20, "txn_1"), (3, "txn_2"), (2, "txn_3"), (1, "txn_4")):
        with scene.at(now - timedelta(hours=hours)):
            request_id = scene.ask(asked)
            if asked == "txn_3":
                scene.store.grant_approval(request_id, "cli:local")
            if asked == "txn_4":
                scene.store.deny_approval(request_id, "cli:local")
    waiting = scene.ask("txn_5")
    ended = scene.ctrlrun("approvals")
    assert [line.split("  ")[0] for line in ended.lines] == [waiting]
    assert ended.err == "2 requests lapsed unanswered in the last day\n"
    for record in scene.store.approvals_page(limit=10).items:
        if record.status is ApprovalStatus.PENDING and record.approval_id != waiting:
            scene.ctrlrun("approve", record.approval_id)  # which makes the record say so
    for options in ((), ("--all",), ("--json",)):
        assert scene.ctrlrun("approvals", *options).err == (
            "2 requests lapsed unanswered in the last day\n"
        )


def test_lapsed_effects_are_listed_and_counted(scene: Scene) -> None:
    assert scene.ctrlrun("effects", "--state", "lapsed").lines == ["no effects are lapsed"]
    scene.store.reserve_effect("refund:live", "act_live")
    with scene.at(utc_now() - timedelta(hours=1)):
        scene.store.reserve_effect("refund:reserved", "act_1")
        scene.store.reserve_effect("refund:executing", "act_2")
        scene.store.begin_execution("refund:executing", "act_2")
    ended = scene.ctrlrun("effects", "--state", "lapsed")
    keys = [line.split("  ")[0] for line in ended.lines]
    assert (keys, ended.err) == (["refund:reserved", "refund:executing"], "")
    assert all(line.endswith("(lease expired)") for line in ended.lines)
    documents = scene.ctrlrun("effects", "--state", "lapsed", "--json").documents
    assert [document["state"] for document in documents] == ["reserved", "executing"]
    for options in ((), ("--state", "ambiguous"), ("--json",)):
        assert scene.ctrlrun("effects", *options).err.splitlines()[-1] == (
            "2 effects have a lapsed lease and no outcome: ctrlrun effects --state lapsed"
        )
    done = scene.ctrlrun("resolve", "refund:executing", "--failed", "--note", "never sent")
    assert done.lines[0] == "refund:executing resolved failed by cli:local"
    assert scene.ctrlrun("resolve", "refund:live", "--committed").code == 1
