"""inspect: one action whole, as text and as JSON."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from socket import gethostname
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority, DelegationRecord, Grant, Subject, grant_to_json
from ctrlrun.clock import utc_now
from ctrlrun.control import Control
from ctrlrun.errors import AuthorityDenied
from ctrlrun.policy import Policy
from ctrlrun.receipt import Event, EventType, ReceiptResult, WouldHave
from tests.cli.helpers import POLICY, Scene


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


def test_a_crashed_call_is_not_in_flight_for_ever(scene: Scene) -> None:
    with scene.at(utc_now() - timedelta(hours=1)):
        scene.store.reserve_effect("refund:txn_1", "act_1")
        event = Event(EventType.EXECUTION_STARTED, "act_1", utc_now(), {}, "refund:txn_1")
        scene.store.append_event(event)
    assert receipt_line(scene, "act_1").startswith("receipt     -  (no outcome, and its lease has")


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


def test_any_id_of_an_action_shows_it(scene: Scene) -> None:
    request_id = scene.ask("txn_8")
    asked = scene.store.get_approval(request_id)
    assert asked is not None
    scene.refund("txn_1")
    (receipt,) = scene.store.receipts()
    for some_id, action_id in (
        (request_id, asked.request.action.action_id),
        (receipt.receipt_id, receipt.action_id),
        ("refund:txn_1", receipt.action_id),
    ):
        for options in ((), ("--json",)):
            ended = scene.ctrlrun("inspect", some_id, *options)
            assert (ended.code, ended.err) == (0, "")
            assert ended.out == scene.ctrlrun("inspect", action_id, *options).out


def test_what_no_action_tells_of_is_shown_as_it_is_stored(scene: Scene) -> None:
    scene.store.reserve_effect("refund:txn_7", "act_holder")
    action = Action("email.send", {"to": "\x1b[2J"}, Principal("bot"))
    request_id = scene.control.approvals.request(action, timedelta(minutes=5)).request_id
    grant = grant_to_json(Grant("", Subject("bot"), ("email.send",)))
    made = DelegationRecord("dlg_1", "head", 1, grant, "ada", None, "api", utc_now())
    scene.store.put_delegation(made)
    for some_id, said in (
        ("refund:txn_7", 'state: "reserved"'),
        (request_id, 'action: "email.send"'),
        ("dlg_1", 'parent_id: "head"'),
    ):
        ended = scene.ctrlrun("inspect", some_id)
        assert (ended.code, ended.err) == (0, "")
        assert said in ended.lines and "\x1b" not in ended.out
        (document,) = [json.loads(scene.ctrlrun("inspect", some_id, "--json").out)]
        assert some_id in document.values()


@pytest.mark.parametrize("some_id", ["apr_nope", "ctr_nope", "dlg_nope", "refund:nope"])
def test_an_unknown_id_is_named(scene: Scene, some_id: str) -> None:
    ended = scene.ctrlrun("inspect", some_id)
    assert ended.code == 1 and f"nothing is known of {some_id!r}" in ended.error


GRANTS = """
authority:
  grants:
    - {id: support, subject: {agent: support-agent}, actions: [stripe.refund]}
    - {id: readers, subject: {agent: refund-agent}, actions: ["stripe.read*"]}
    - id: european
      subject: {agent: refund-agent}
      actions: [stripe.refund]
      resources: ["payment:eu_*"]
"""


@pytest.mark.parametrize(
    ("agent", "name", "said"),
    [
        ("refund-agent", "stripe.refund", "the nearest grant, european, fails in resources"),
        ("refund-agent", "stripe.payout", "the nearest grant, readers, fails in actions"),
        ("stranger", "stripe.refund", "the nearest grant, support, fails in subject"),
    ],
)
def test_no_authority_names_the_nearest_grant_to_operators_alone(
    scene: Scene, agent: str, name: str, said: str
) -> None:
    policy = POLICY.replace("ctrlrun.policy/v2", "ctrlrun.policy/v3") + GRANTS
    (scene.folder / "ctrlrun.yaml").write_text(policy, encoding="utf-8")
    control = Control(Policy.from_yaml(policy), scene.store, authority=Authority.from_yaml(policy))
    with pytest.raises(AuthorityDenied) as denied:
        control.execute(Action(name, {}, Principal(agent), resource="payment:us_1"), lambda: None)
    assert not any(grant in str(denied.value) for grant in ("european", "readers", "support:"))
    (receipt,) = scene.store.receipts()
    lines = scene.ctrlrun("inspect", receipt.action_id).lines
    assert f"authority   no grant covers {agent} for {name}; {said}" in lines
    denials = [event for event in scene.store.events() if event.type == "AUTHORITY_DENIED"]
    assert [dict(event.data) for event in denials] == [{"reason": "no_authority"}]


def test_without_the_grants_it_says_so(scene: Scene) -> None:
    authority = Authority.from_yaml(f"schema: ctrlrun.policy/v3{GRANTS}")
    control = Control(scene.control.policy, scene.store, authority=authority)
    with pytest.raises(AuthorityDenied):
        control.execute(Action("x", {}, Principal("stranger")), lambda: None)
    (receipt,) = scene.store.receipts()
    lines = scene.ctrlrun("inspect", receipt.action_id).lines
    assert any("the grants were not read: policy not read" in line for line in lines)
    (scene.folder / "grants.yaml").write_text(f"schema: ctrlrun.policy/v3{GRANTS}")
    named = scene.ctrlrun("inspect", receipt.action_id, "--authority", "grants.yaml").lines
    assert any("the nearest grant, " in line for line in named)
