"""Names, signatures, fields, defaults and homes that programs for format 0.6.1 are written against."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import FrozenInstanceError, asdict, fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import ctrlrun
from ctrlrun import (
    Action,
    Control,
    Decision,
    Grant,
    HeaderIdentityProvider,
    InMemoryStateStore,
    Policy,
    Principal,
    Receipt,
    SQLiteStateStore,
    StaticIdentityProvider,
    Subject,
)
from ctrlrun.authority import contains
from ctrlrun.conditions import parse_conditions
from ctrlrun.conformance.store import (
    InMemoryBackend,
    StoreReport,
    SuiteResult,
    SuiteStatus,
    all_case_ids,
    run,
)
from ctrlrun.conformance.store.fixtures import FIXTURES
from ctrlrun.errors import AmbiguousWrite, ApprovalTimeout, InvalidArgument, PolicyError
from ctrlrun.migrations import classify
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.providers import LocalApprovalProvider, ScriptedApprovalProvider
from ctrlrun.receipt import ChainReport, WouldHave, verify_chain
from ctrlrun.reporting import since_boundary, stats_document
from tests.cases import walk

NOW = datetime(2026, 9, 3, 10, 0, tzinfo=UTC)
TTL = timedelta(minutes=15)

# --- homes ---------------------------------------------------------------------------------------


@walk(
    ("module", "names"),
    [
        ("ctrlrun.policy", ("Decision", "Condition", "parse_conditions")),
        ("ctrlrun.receipt", ("JSONLEventSink", "EventSink")),
        ("ctrlrun.approval", ("LocalApprovalProvider", "ScriptedApprovalProvider")),
        ("ctrlrun.action", ("canonical_bytes",)),
    ],
)
def test_a_public_name_is_found_at_its_home_too(module: str, names: tuple[str, ...]) -> None:
    home = import_module(module)
    for name in names:
        assert getattr(home, name) is getattr(ctrlrun, name), name
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'Nothing'"):
        _ = home.Nothing


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("ctrlrun.approval", "LocalApprovalProvider"),
        ("ctrlrun.receipt", "JSONLEventSink"),
        ("ctrlrun.policy", "parse_conditions"),
    ],
)
def test_a_home_can_be_the_first_import_of_a_program(module: str, name: str) -> None:
    code = f"from {module} import {name}; import ctrlrun; assert {name} is ctrlrun.{name}"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_error_of_a_lost_commit_is_found_beside_the_store() -> None:
    assert import_module("ctrlrun.postgres").AmbiguousWrite is AmbiguousWrite


# --- signatures ----------------------------------------------------------------------------------


@walk(
    ("call", "parameters"),
    [
        (Receipt.from_json, ["line"]),
        (classify, ["applied"]),
        (since_boundary, ["argument", "clock"]),
        (stats_document, ["counted", "mode", "boundary"]),
        (contains, ["parent", "child", "separator"]),
        (Policy.effect_template, ["self", "action_name"]),
        (Policy.resource_template, ["self", "action_name"]),
        (Policy.mcp_options, ["self", "action_name"]),
        (Grant.is_expired, ["self", "now"]),
        (Grant.matches_shape, ["self", "action"]),
        (Grant.constraints_hold, ["self", "action"]),
        (Subject.matches, ["self", "principal"]),
        (StaticIdentityProvider, ["agent", "user", "claims", "issuer", "expires_at"]),
        (HeaderIdentityProvider, ["agent_header", "user_header", "issuer"]),
        (SuiteResult, ["name", "status", "reason", "cases"]),
        (StoreReport, ["store", "status", "reason", "suites"]),
        (InMemoryBackend, ["root"]),
        (
            ChainReport,
            ["ok", "verified", "chained", "unchained", "breaks", "head_seq", "head_hash"],
        ),
    ],
)
def test_parameters_have_their_names(call: Callable[..., Any], parameters: list[str]) -> None:
    assert list(inspect.signature(call).parameters) == parameters


@walk(
    ("call", "parameter", "default"),
    [
        (PostgresStateStore, "schema", "public"),
        (LocalApprovalProvider.request, "ttl", TTL),
        (LocalApprovalProvider.wait, "timeout", None),
        (ScriptedApprovalProvider.request, "ttl", TTL),
        (ScriptedApprovalProvider.wait, "timeout", None),
        (ChainReport, "head_seq", None),
        (ChainReport, "head_hash", None),
        (SuiteResult, "reason", None),
        (SuiteResult, "cases", ()),
        (StoreReport, "status", "ok"),
        (StoreReport, "reason", None),
        (StoreReport, "suites", ()),
        (InMemoryBackend, "root", None),
        (StaticIdentityProvider, "user", None),
        (HeaderIdentityProvider, "user_header", None),
        (HeaderIdentityProvider, "issuer", None),
    ],
)
def test_parameters_have_their_defaults(
    call: Callable[..., Any], parameter: str, default: object
) -> None:
    assert inspect.signature(call).parameters[parameter].default == default


# --- receipts ------------------------------------------------------------------------------------

BY_POSITION: tuple[Any, ...] = (
    *("ctr_1", "act_1", "stripe.refund", "sha256:a1", Principal("bot"), None, {"amount": 1}),
    *("production", Decision.ALLOW, "rule[0]", ctrlrun.receipt.ReceiptResult.COMMITTED, NOW, NOW),
)


def receipt(*more: Any, **named: Any) -> Receipt:
    return Receipt(*(*BY_POSITION, *more), **named)


def test_a_receipt_takes_its_fields_by_position() -> None:
    made = receipt("apr_1", "cli:ada", "refund:1", 2)
    assert (made.decision_reason, made.result, made.finished_at) == ("rule[0]", "committed", NOW)
    assert (made.approval_id, made.approver, made.effect_key) == ("apr_1", "cli:ada", "refund:1")
    assert made.attempt == 2


@walk(
    ("decision", "blocked"),
    [(Decision.DENY, "rule[2]"), (Decision.APPROVE, "approval_required"), (Decision.ALLOW, None)],
)
def test_what_would_have_been_is_read_by_attribute_and_as_a_mapping(
    decision: Decision, blocked: str | None
) -> None:
    document = {"decision": decision.value, "reason": "rule[2]", "blocked_reason": blocked}
    made = receipt(would_have=document)
    for found in (
        made,
        replace(made, would_have=WouldHave(document)),
        Receipt.from_json(made.to_json()),
        Receipt.from_dict(made.to_dict()),
    ):
        would_have = found.would_have
        assert would_have is not None
        assert would_have.decision is decision
        assert (would_have.reason, would_have.blocked_reason) == ("rule[2]", blocked)
        assert would_have.to_dict() == dict(would_have) == document
        assert would_have["decision"] == decision
        assert would_have.get("blocked_reason") == blocked
        assert isinstance(would_have, Mapping)
        assert json.loads(found.to_json())["would_have"] == document


def test_the_receipt_of_an_observed_call_says_what_would_have_been() -> None:
    policy = Policy.from_yaml(
        "schema: ctrlrun.policy/v3\nmode: observe\nactions: {mail.send: {decision: approve}}"
    )
    store = InMemoryStateStore()
    action = Action("mail.send", {"to": "ada"}, Principal("bot"))
    observed = Control(policy, store).execute(action, lambda: None)
    for found in (observed, *store.receipts()):
        assert found.would_have is not None
        assert found.would_have.decision is Decision.APPROVE
        assert found.would_have.blocked_reason == found.would_have["blocked_reason"]
        assert found.would_have.blocked_reason == "approval_required"
    assert verify_chain(store).ok


# --- the chain -----------------------------------------------------------------------------------


def test_the_breaks_of_a_chain_are_a_list() -> None:
    store = InMemoryStateStore()
    assert verify_chain(store).breaks == []
    store.put_receipt(receipt())
    report = verify_chain(store, expect_head=(9, "sha256:" + "0" * 64))
    assert [found.name for found in report.breaks] == ["head_mismatch"]
    assert isinstance(report.breaks, list)
    assert ChainReport(True, 0, 0, 0, []).head_seq is None


# --- approvals -----------------------------------------------------------------------------------


@walk("scripted", [False, True])
def test_a_provider_asks_and_waits_without_more_than_the_action(scripted: bool) -> None:
    store = InMemoryStateStore()
    action = Action("mail.send", {"to": "ada"}, Principal("bot"))
    provider: LocalApprovalProvider | ScriptedApprovalProvider = (
        ScriptedApprovalProvider(store, ["grant"]) if scripted else LocalApprovalProvider(store)
    )
    request = provider.request(action)
    assert request.expires_at - request.created_at == TTL
    if not scripted:
        store.grant_approval(request.request_id, "cli:ada")
    approval = provider.wait(request.request_id)
    assert approval is not None
    assert approval.approval_id == request.request_id
    with pytest.raises(ApprovalTimeout):
        provider.wait(provider.request(action).request_id, timeout=timedelta(0))


# --- policies ------------------------------------------------------------------------------------

V4 = "schema: ctrlrun.policy/v4\nactions:\n  a.b: {decision: allow, effect: 'k:{id}'%s}"


@walk("text", [V4 % ", data: null", V4 % ", data: ~", V4 % ", data:"])
def test_data_may_be_null_and_is_no_data_then(text: str) -> None:
    policy = Policy.from_yaml(text)
    action = Action("a.b", {"id": 1}, Principal("bot"))
    assert policy.data_scope(action) == frozenset()
    assert policy.evaluate(action).decision is Decision.ALLOW


def test_null_data_needs_the_schema_that_data_needs() -> None:
    with pytest.raises(PolicyError, match="data"):
        Policy.from_yaml((V4 % ", data: null").replace("/v4", "/v2"))


def test_policies_are_equal_by_content(tmp_path: Path) -> None:
    text = V4 % ""
    (tmp_path / "p.yaml").write_text(text + "\n# a comment\n")
    first, second = Policy.from_yaml(text), Policy.from_file(tmp_path / "p.yaml")
    assert first == second
    assert hash(first) == hash(second)
    for other in (
        text.replace("allow", "deny"),
        text + "\nversion: '2'",
        text + "\nmode: observe",
        text + "\nenvironment: staging",
        text + "\ncontrols: {SOX: {title: t}}",
        text.replace("/v4", "/v3"),
    ):
        assert first != Policy.from_yaml(other), other
    assert first != text
    assert first.effect_template(action_name="a.b") == "k:{id}"
    assert first.resource_template(action_name="a.b") is None
    assert first.mcp_options(action_name="a.b").not_executed_on_error is False


# --- grants --------------------------------------------------------------------------------------

GRANT = Grant(
    "g1",
    Subject("bot-*", "ada"),
    ("stripe.*",),
    resources=("payment:EU-*",),
    constraints=parse_conditions({"amount_lte": 100}, where="grant"),
    environments=("production",),
    expires_at=NOW,
)


def act(**changes: Any) -> Action:
    values: dict[str, Any] = {
        "name": "stripe.refund",
        "arguments": {"amount": 100},
        "principal": Principal("bot-1", "ada"),
        "resource": "payment:EU-1",
    }
    return Action(**(values | changes))


@walk(
    ("action", "expected"),
    [
        (act(), True),
        (act(name="mail.send"), False),
        (act(principal=Principal("cat", "ada")), False),
        (act(principal=Principal("bot-1")), False),
        (act(resource=None), False),
        (act(environment="staging"), False),
        (act(arguments={"amount": 101}), True),
    ],
)
def test_a_grant_says_whether_its_shape_is_an_actions(action: Action, expected: bool) -> None:
    assert GRANT.matches_shape(action) is expected


@walk(
    ("arguments", "expected"),
    [({"amount": 100}, True), ({"amount": 101}, False), ({}, False), ({"amount": "7"}, False)],
)
def test_a_grant_says_whether_its_limits_hold(arguments: dict[str, Any], expected: bool) -> None:
    assert GRANT.constraints_hold(act(arguments=arguments)) is expected


def test_a_grant_says_whether_it_has_expired() -> None:
    assert not GRANT.is_expired(NOW)
    assert GRANT.is_expired(NOW + timedelta(microseconds=1))
    assert not Grant("g2", Subject("bot"), ("a.b",)).is_expired(NOW)


@walk(
    ("subject", "principal", "expected"),
    [
        (Subject("bot-*"), Principal("bot-1"), True),
        (Subject("bot-*"), Principal("cat"), False),
        (Subject("bot-*", "ada"), Principal("bot-1"), False),
        (Subject(user="ada"), Principal("cat", "ada"), True),
    ],
)
def test_a_subject_says_whom_it_is_for(
    subject: Subject, principal: Principal, expected: bool
) -> None:
    assert subject.matches(principal) is expected


# --- identity ------------------------------------------------------------------------------------


@walk(
    ("made", "same", "other", "values"),
    [
        (
            lambda: StaticIdentityProvider("bot", "ada", {"tier": 1}, "idp", NOW),
            lambda: StaticIdentityProvider("bot", "ada", {"tier": 1}, "idp", NOW),
            lambda: StaticIdentityProvider("bot", "ada", {"tier": 2}, "idp", NOW),
            {"agent": "bot", "user": "ada", "claims": {"tier": 1}, "issuer": "idp"}
            | {"expires_at": NOW},
        ),
        (
            lambda: HeaderIdentityProvider("X-Agent"),
            lambda: HeaderIdentityProvider(agent_header="X-Agent"),
            lambda: HeaderIdentityProvider("X-Agent", "X-User"),
            {"agent_header": "X-Agent", "user_header": None, "issuer": None},
        ),
    ],
)
def test_the_plain_providers_are_values(
    made: Callable[[], Any], same: Callable[[], Any], other: Callable[[], Any], values: object
) -> None:
    provider = made()
    assert is_dataclass(provider)
    assert {field.name: getattr(provider, field.name) for field in fields(provider)} == values
    assert provider == same() != other()
    for copied in (copy.deepcopy(provider), pickle.loads(pickle.dumps(provider))):
        assert copied == provider
        assert asdict(copied) == values  # type: ignore[arg-type]
    assert hash(provider) == hash(same())
    with pytest.raises(FrozenInstanceError):
        setattr(provider, fields(provider)[0].name, "mallory")


def test_the_claims_of_a_static_identity_are_a_snapshot() -> None:
    claims: dict[str, Any] = {"tier": 1}
    provider = StaticIdentityProvider("bot", claims=claims)
    claims["tier"] = 9
    assert provider.claims == {"tier": 1}
    with pytest.raises(InvalidArgument):
        replace(provider, agent="")


# --- the conformance kit -------------------------------------------------------------------------


def test_the_values_of_the_kit_have_their_defaults(tmp_path: Path) -> None:
    assert SuiteResult.of("x", ()).status == "not_applicable"
    assert SuiteResult.of("x", ()).reason is None
    assert SuiteResult("x", SuiteStatus.PASS) == SuiteResult("x", SuiteStatus.PASS, None, ())
    report = StoreReport("mine")
    assert (report.store, report.backend, report.status, report.ok) == ("mine", "mine", "ok", False)
    assert report.to_dict()["backend"] == "mine"
    for backend in (InMemoryBackend(), InMemoryBackend(None), InMemoryBackend(tmp_path)):
        assert run(backend, only=["event-ids"]).ok


def test_the_broken_stores_and_the_cases_are_collections() -> None:
    assert isinstance(FIXTURES, Sequence)
    assert len(FIXTURES) == len({fixture.name for fixture in FIXTURES}) == 16
    assert isinstance(all_case_ids(), frozenset)
    assert len(all_case_ids()) == 28


def test_a_run_needs_no_pytest() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from ctrlrun.conformance.store import InMemoryBackend, run\n"
        "assert run(InMemoryBackend(), only=['retry-table']).ok"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- the earliest database -----------------------------------------------------------------------

EARLIEST = (
    "CREATE TABLE effects (effect_key TEXT PRIMARY KEY, state TEXT NOT NULL, "
    "action_id TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1{})"
)


@walk(
    "columns",
    [
        "",
        ", lease_expires_at TEXT",
        ", lease_expires_at TEXT, result_json TEXT, error TEXT, created_at TEXT",
    ],
)
def test_a_database_with_the_earliest_table_of_effects_opens(tmp_path: Path, columns: str) -> None:
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(EARLIEST.format(columns))
        db.commit()
    for number in (1, 2):  # what was left out is looked for again
        store = SQLiteStateStore(path)
        store.put_receipt(replace(receipt(), receipt_id=f"ctr_{number}"))
        assert verify_chain(store).verified == number
        store.close()
