"""Building a Control, and the golden call."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.clock import counted_ids
from ctrlrun.control import Control, state_path
from ctrlrun.errors import InvalidArgument
from ctrlrun.policy import Policy
from ctrlrun.providers import LocalApprovalProvider
from ctrlrun.sinks import JSONLEventSink
from ctrlrun.state import InMemoryStateStore
from tests.cases import walk
from tests.lib.kernel.world import START, Clock, World

EMPTY = "schema: ctrlrun.policy/v1\nactions: {}"
GRANTS = """
schema: ctrlrun.policy/v3
authority:
  grants:
    - {id: support, subject: {agent: a}, actions: [x]}
actions: {x: {decision: allow}}
"""


def build(**changes: Any) -> Control:
    options = {"policy": Policy.from_yaml(EMPTY), "store": InMemoryStateStore(), **changes}
    return Control(**options)


@walk(
    ("changes", "word"),
    [
        ({"policy": "x"}, "policy"),
        ({"store": None}, "store"),
        ({"store": "state.db"}, "store"),
        ({"approvals": object()}, "approvals"),
        ({"clock": 5}, "clock"),
        ({"lease": None}, "lease"),
        ({"lease": 5}, "lease"),
        ({"lease": True}, "lease"),
        ({"lease": timedelta(0)}, "lease"),
        ({"suspend_timeout": timedelta(seconds=-1)}, "lease"),
        ({"suspend_timeout": 60}, "lease"),
        ({"approval_ttl": timedelta(0)}, "ttl"),
        ({"approval_ttl": None}, "ttl"),
        ({"environment": " "}, "environment"),
        ({"environment": 5}, "environment"),
        ({"sinks": [object()]}, "sink"),
    ],
)
def test_a_part_of_the_wrong_kind_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgument, match=word):
        build(**changes)


def test_what_it_was_built_with_is_readable() -> None:
    control = build(lease=timedelta(minutes=1))
    assert isinstance(control.approvals, LocalApprovalProvider)
    assert control.lease == timedelta(minutes=1)
    assert control.sinks == ()
    assert control.environment == "production"
    with pytest.raises(AttributeError):
        control.lease = timedelta(minutes=2)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("argument", "variable", "document", "expected"),
    [
        (" arg ", "var", "doc", "arg"),
        (None, " var ", "doc", "var"),
        (None, None, "doc", "doc"),
        (None, None, None, "production"),
    ],
)
def test_the_environment_that_is_named_first_wins(
    monkeypatch: pytest.MonkeyPatch,
    argument: str | None,
    variable: str | None,
    document: str | None,
    expected: str,
) -> None:
    monkeypatch.delenv("CTRLRUN_ENVIRONMENT", raising=False)
    if variable is not None:
        monkeypatch.setenv("CTRLRUN_ENVIRONMENT", variable)
    line = f"environment: {document}\n" if document else ""
    policy = Policy.from_yaml(f"schema: ctrlrun.policy/v3\n{line}actions: {{}}")
    assert build(policy=policy, environment=argument).environment == expected


def test_a_blank_variable_is_refused_even_with_an_argument(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CTRLRUN_ENVIRONMENT", " ")
    with pytest.raises(InvalidArgument, match="CTRLRUN_ENVIRONMENT"):
        build(environment="staging")


def test_grants_that_nobody_enforces_are_said_once(caplog: pytest.LogCaptureFixture) -> None:
    policy = Policy.from_yaml(GRANTS, source="grants.yaml")
    with caplog.at_level(logging.WARNING, "ctrlrun"):
        control = build(policy=policy)
        control.evaluate(Action("x", {}, Principal("somebody")))
    assert len(caplog.records) == 1
    assert "grants.yaml" in caplog.text
    assert control.authority is None
    caplog.clear()
    with caplog.at_level(logging.WARNING, "ctrlrun"):
        assert build(policy=policy, authority=policy.authority).authority is policy.authority
    assert caplog.records == []


def test_from_file_puts_store_and_events_beside_the_policy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CTRLRUN_STATE", raising=False)
    monkeypatch.delenv("CTRLRUN_ENVIRONMENT", raising=False)
    (tmp_path / "p.yaml").write_text("schema: ctrlrun.policy/v1\nactions: {x: {decision: allow}}")
    control = Control.from_file(tmp_path / "p.yaml", environment="staging")
    action = Action("x", {}, Principal("a"), environment="staging")
    control.execute(action, lambda: None)
    folder = tmp_path / ".ctrlrun"
    assert state_path(tmp_path / "p.yaml") == folder / "state.db"
    assert isinstance(control.sinks[0], JSONLEventSink)
    lines = (folder / "events.jsonl").read_text().splitlines()
    assert [json.loads(line)["type"] for line in lines] == [
        str(event.type) for event in control.store.events()
    ]
    control.store.close()  # type: ignore[attr-defined]


def test_the_golden_call(clock: Clock) -> None:
    assert clock() == START
    w = World(InMemoryStateStore(clock=clock), clock)
    with counted_ids():
        action = w.action()
        assert action.action_id == "act_00000000000000000000000000000001"
        assert action.action_hash == (
            "sha256:fbfaac6c558fca9bdabaf4911c0ce459fe60db670532c31641c788dfedf26aa5"
        )
        assert w.action(1000).action_hash == (
            "sha256:7f95dbec4441a544a50c88eb61c196135eca5581b74522d8889a4002b2c1cabf"
        )
        w.control.execute(action, lambda: None, "pay:p1")
    events = w.store.events()
    assert events[2].to_json() == (
        '{"event_id":3,"ts":"2026-09-03T10:12:01.000Z","type":"EFFECT_RESERVED",'
        '"action_id":"act_00000000000000000000000000000001","effect_key":"pay:p1",'
        '"approval_id":null,"data":{"attempt":1,"lease_expires_at":"2026-09-03T10:17:01.000Z"}}'
    )
    assert [dict(events[index].data) for index in (0, 1, 3, 4)] == [
        {"action_hash": action.action_hash},
        {"decision": "allow", "reason": "rule[0]"},
        {},
        {},
    ]


def test_evaluate_writes_nothing_and_knows_expiry(clock: Clock) -> None:
    w = World(InMemoryStateStore(clock=clock), clock)
    expired = Principal("a", expires_at=START - timedelta(microseconds=1))
    assert w.control.evaluate(w.action(principal=expired)).reason == "principal_expired"
    assert w.control.evaluate(w.action(1000)).decision == "approve"
    assert w.store.events() == ()
