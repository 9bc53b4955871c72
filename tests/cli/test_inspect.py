"""inspect: one action whole, as text and as JSON."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from socket import gethostname
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.clock import utc_now
from ctrlrun.receipt import ReceiptResult, WouldHave
from tests.cli.helpers import Scene


def shape(lines: list[str]) -> list[str]:
    """The lines without what differs from run to run."""
    text = "\n".join(lines)
    text = re.sub(r"\b(act|apr|ctr)_[0-9a-f]{32}", r"\1_#", text)
    text = re.sub(r"sha256:[0-9a-f]{64}", "sha256:#", text)
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "<ts>", text).split("\n")


def test_a_call_that_committed(scene: Scene) -> None:
    receipt = scene.refund("txn_1", 200, executor=lambda: "done")
    ended = scene.ctrlrun("inspect", receipt.action_id)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0] == f"{receipt.action_id}  stripe.refund"
    assert shape(ended.lines) == [
        "act_#  stripe.refund",
        "",
        "principal   refund-agent",
        "resource    -",
        "environment production",
        'arguments   {"amount": 200, "payment_id": "txn_1"}',
        "decision    allow  (rule[0])",
        "effect      refund:txn_1  committed  attempt 1",
        "receipt     ctr_#  committed",
        "policy      sha256:#",
        "",
        "    1  <ts>  ACTION_PROPOSED             action_hash=sha256:#",
        "    2  <ts>  POLICY_EVALUATED            decision=allow reason=rule[0]",
        "    3  <ts>  EFFECT_RESERVED             attempt=1 lease_expires_at=<ts>",
        "    4  <ts>  EXECUTION_STARTED",
        "    5  <ts>  EXECUTION_COMMITTED",
    ]


def test_everything_that_a_receipt_may_say(scene: Scene) -> None:
    principal = Principal(
        "bot (user: cfo)",
        "ada",
        {"team": "secret", "level": 3},
        "https://idp",
        datetime(2026, 1, 1, 16, tzinfo=UTC),
    )
    receipt = scene.receipt(
        principal=principal,
        resource="ns:café",
        result=ReceiptResult.OBSERVED,
        execution=ReceiptResult.FAILED,
        would_have=WouldHave(
            {"decision": "deny", "reason": "rule[2]", "blocked_reason": "rule[2]"}
        ),
        error="boom\nbang",
        policy_hash="sha256:f0",
        policy_version="2026-01",
        effect_key=None,
    )
    assert scene.ctrlrun("inspect", receipt.action_id).lines[2:] == [
        'principal   "bot (user: cfo)" (user: ada)',
        "issuer      https://idp",
        "expires     2026-01-01T16:00:00.000Z",
        "claims      level, team",
        "resource    ns:café",
        "environment production",
        'arguments   {"payment_id": "txn_1"}',
        "decision    allow  (rule[0])",
        f"receipt     {receipt.receipt_id}  observed",
        "error       boom⏎bang",
        "execution   failed",
        "would have  deny  (rule[2])  blocked: rule[2]",
        "policy      sha256:f0  2026-01",
        "",
    ]


def _asked(scene: Scene) -> tuple[str, str]:
    """A request: its id, and the id of the action that it is about."""
    request_id = scene.ask()
    record = scene.store.get_approval(request_id)
    assert record is not None
    return request_id, record.request.action.action_id


def receipt_line(scene: Scene, action_id: str) -> str:
    lines = scene.ctrlrun("inspect", action_id).lines
    return next(line for line in lines if line.startswith("receipt "))


def test_a_call_that_awaits_a_human(scene: Scene) -> None:
    request_id, action_id = _asked(scene)
    assert shape(scene.ctrlrun("inspect", action_id).lines)[:8] == [
        "act_#  stripe.refund",
        "",
        "principal   refund-agent",
        "resource    -",
        "environment production",
        'arguments   {"amount": 200000, "payment_id": "txn_8"}',
        "approval    apr_#  pending",
        "receipt     -  (awaiting a human)",
    ]
    scene.ctrlrun("approve", request_id, "--as", "alice")
    assert receipt_line(scene, action_id) == "receipt     -  (granted, not used)"
    assert (
        f"approval    {request_id}  granted by cli:alice"
        in scene.ctrlrun("inspect", action_id).lines
    )


def test_why_there_is_no_receipt(scene: Scene) -> None:
    request_id, action_id = _asked(scene)
    scene.ctrlrun("deny", request_id)
    assert receipt_line(scene, action_id) == "receipt     -  (denied)"
    with scene.at(utc_now() - timedelta(hours=1)):
        _, action_id = _asked(scene)
    assert receipt_line(scene, action_id) == "receipt     -  (expired)"
    seen: list[str] = []

    def look() -> None:
        seen.append(receipt_line(scene, scene.store.events()[-1].action_id or ""))

    scene.refund(executor=look)
    assert seen == ["receipt     -  (in flight)"]


def test_an_action_of_which_only_events_are_known(scene: Scene) -> None:
    seen: list[Any] = []

    def look() -> None:
        seen.append(scene.ctrlrun("inspect", scene.store.events()[-1].action_id or ""))

    scene.refund(executor=look)
    assert shape(seen[0].lines)[:5] == [
        "act_#  -",
        "",
        "effect      refund:txn_1  executing  attempt 1",
        f"holder      {gethostname()} pid {os.getpid()}, alive now",
        "receipt     -  (in flight)",
    ]


def test_a_refused_retry_shows_the_record_that_its_rival_holds(scene: Scene) -> None:
    scene.lose()
    scene.ctrlrun("resolve", "refund:txn_1", "--failed", "--note", "n")
    action_id = scene.store.receipts()[0].action_id
    lines = scene.ctrlrun("inspect", action_id).lines
    assert "effect      refund:txn_1  failed  attempt 1  resolved by cli:local" in lines
    assert re.fullmatch(
        r"    6  \S+  EFFECT_RESOLVED             "
        r"state=failed resolver=cli:local resolved_by=human note=n",
        lines[-1],
    )


def test_json(scene: Scene) -> None:
    receipt = scene.refund()
    ended = scene.ctrlrun("inspect", receipt.action_id, "--json")
    import json

    document = json.loads(ended.out)
    assert ended.out == json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    assert list(document) == [
        "schema",
        "action_id",
        "receipt",
        "effect",
        "approvals",
        "events",
    ]
    assert document["schema"] == "ctrlrun.inspection/v2"
    assert document["receipt"] == json.loads(scene.store.receipts()[0].to_json())


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_an_unknown_action(scene: Scene, options: tuple[str, ...]) -> None:
    scene.store.reserve_effect("refund:txn_1", "act_holder")
    for action_id in ("act_nope", "act_holder", ""):
        ended = scene.ctrlrun("inspect", action_id, *options)
        assert ended.code == 1 and repr(action_id) in ended.error


def test_events_stand_in_order_and_ids_to_the_right(scene: Scene) -> None:
    for number in range(3):
        scene.refund(f"txn_{number}")
    action = Action("email.send", {}, Principal("bot"))
    receipt = scene.control.execute(action, lambda: None)
    lines = [line for line in scene.ctrlrun("inspect", receipt.action_id).lines if line[:2] == "  "]
    assert [line[:7] for line in lines] == ["   16  ", "   17  ", "   18  ", "   19  "]


def test_an_id_of_something_else_is_told_where_its_action_stands(scene: Scene) -> None:
    request_id = scene.ask()
    scene.refund("txn_1")
    request = scene.store.get_approval(request_id)
    (receipt,) = scene.store.receipts()
    assert request is not None
    scene.store.reserve_effect("refund:txn_7", "act_holder")
    for other, said in (
        (request_id, f"see `ctrlrun inspect {request.request.action.action_id}`"),
        (receipt.receipt_id, "ctrlrun receipts --json"),
        ("refund:txn_1", f"see `ctrlrun inspect {receipt.action_id}`"),
        ("refund:txn_7", "`ctrlrun effects` shows"),  # of that action nothing is known
        ("dlg_1", "`ctrlrun delegations` shows"),
    ):
        ended = scene.ctrlrun("inspect", other)
        assert ended.code == 1
        assert other in ended.error and said in ended.error
