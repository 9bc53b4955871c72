"""Grants to hand on: their stored text, and their YAML."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from ctrlrun.authority import (
    DELEGATION_ID_PREFIX,
    Grant,
    grant_from_json,
    grant_from_yaml,
    grant_to_json,
    new_delegation_id,
)
from ctrlrun.clock import counted_ids
from ctrlrun.errors import CTRLRunError, InvalidArgument, PolicyError
from tests.cases import walk
from tests.lib.authority.helpers import dlg, grant, text

GOLDEN = (
    '{"actions":["stripe.refund"],"constraints":{"amount_gte":0,"cluster_in":["a"]},'
    '"delegable":false,"environments":null,"expires_at":"2026-12-01T02:00:00+02:00",'
    '"resources":["payment:EU-4*"],"subject":{"agent":"bôt","user":null}}'
)


def golden_grant(grant_id: str = "") -> Grant:
    return grant(
        grant_id,
        agent="bôt",
        resources=("payment:EU-4*",),
        constraints={"cluster_in": ["a"], "amount_gte": 0},
        expires_at=datetime(2026, 12, 1, 2, tzinfo=timezone(timedelta(hours=2))),
    )


def test_the_stored_text_to_the_letter() -> None:
    assert grant_to_json(golden_grant()) == GOLDEN


def test_the_text_reads_back_under_the_id_of_its_delegation() -> None:
    again = grant_from_json(GOLDEN, delegation_id=dlg(1))
    assert again == golden_grant(dlg(1))
    assert again.expires_at is not None
    assert again.expires_at.isoformat() == "2026-12-01T02:00:00+02:00"


def test_nested_operands_read_back() -> None:
    made = grant("", constraints={"labels_eq": [{"b": [1, None], "a": "é"}], "flag_neq": False})
    assert (
        grant_from_json(grant_to_json(made), delegation_id=dlg(1)).constraints == made.constraints
    )


@walk("key", ["resources", "environments", "expires_at", "delegable"])
def test_what_another_program_may_leave_out(key: str) -> None:
    changes: dict[str, Any] = {"delegable": False} if key == "expires_at" else {}
    left_out = grant_from_json(text(**{**changes, key: ...}), delegation_id=dlg(1))
    assert getattr(left_out, key) == (False if key == "delegable" else None)


UNREADABLE: list[Any] = [
    {"actions": ...},
    {"subject": ...},
    {"constraints": ...},
    {"actions": "stripe.refund"},
    {"actions": {}},
    {"actions": None},
    {"actions": []},
    {"actions": [5]},
    {"actions": ["a..b"]},
    {"resources": "x"},
    {"resources": []},
    {"resources": [None]},
    {"environments": "dev"},
    {"environments": []},
    {"environments": [5]},
    {"environments": [""]},
    {"subject": None},
    {"subject": "bot"},
    {"subject": {}},
    {"subject": {"agent": None, "user": None}},
    {"subject": {"agent": 5}},
    {"subject": {"agent": "bot", "group": "x"}},
    {"constraints": None},
    {"constraints": []},
    {"constraints": {"amount": 5}},
    {"constraints": {"amount_lte": 1.5}},
    {"constraints": {"amount_lte": "5"}},
    {"constraints": {"amount_lte": True}},
    {"constraints": {"user_eq": "x"}},
    {"constraints": {"data_scope_in": ["phi"]}},
    {"delegable": "true"},
    {"delegable": 1},
    {"delegable": None},
    {"delegable": True, "expires_at": None},
    {"expires_at": "2026-12-01T02:00:00"},
    {"expires_at": "2026-12-01"},
    {"expires_at": "soon"},
    {"expires_at": 1893456000},
    {"id": "x"},
    {"decision": "allow"},
]
NOT_GRANTS = [
    "",
    "{",
    "null",
    "[]",
    '"x"',
    text()[:-1] + ', "actions": ["**"]}',
    text().replace('"constraints": {}', '"constraints": {"a_eq": 1, "a_eq": 2}'),
    text().replace('"constraints": {}', '"constraints": {"a_eq": NaN}'),
    text().replace('"constraints": {}', '"constraints": {"a_eq": Infinity}'),
    text().replace('"constraints": {}', '"constraints": {"a_eq": 1e5}'),
    text().replace("stripe.refund", "\\ud800"),
    text().replace('"constraints": {}', '"constraints": {"a_eq": ' + "[" * 3000 + "]" * 3000 + "}"),
    text().replace('"constraints": {}', '"constraints": {"a_eq": ' + "9" * 5000 + "}"),
]


@walk("stored", [*(text(**changes) for changes in UNREADABLE), *NOT_GRANTS])
def test_what_is_no_grant_is_refused_by_name(stored: str) -> None:
    with pytest.raises(InvalidArgument, match=dlg(1)) as caught:
        grant_from_json(stored, delegation_id=dlg(1))
    assert "\n" not in str(caught.value)


@walk("stored", [None, 5, b"{}"])
def test_what_is_no_text_is_refused(stored: Any) -> None:
    with pytest.raises(InvalidArgument):
        grant_from_json(stored, delegation_id=dlg(1))


def test_a_condition_that_would_not_read_back_cannot_be_made() -> None:
    from ctrlrun.conditions import Condition

    with pytest.raises(InvalidArgument, match="minor units"):
        Condition("amount_lte", "amount", "lte", 1.5)


# --- YAML ----------------------------------------------------------------------------------------

YAML = """
subject: {agent: bot}
actions: [stripe.refund]
constraints: {amount_lte: 5}
expires_at: 2026-12-01T02:00:00+02:00
"""


def test_a_grant_is_read_without_an_id() -> None:
    made = grant_from_yaml(YAML, source="grant.yaml")
    assert made.id == ""
    assert made.subject.agent == "bot"
    assert json.loads(grant_to_json(made))["constraints"] == {"amount_lte": 5}


@walk("value", ["x", "null", "", "dlg_1"])
def test_an_id_is_assigned_and_not_brought(value: str) -> None:
    with pytest.raises(PolicyError, match=r"^grant\.yaml: .*assigned"):
        grant_from_yaml(f"id: {value}\n{YAML}", source="grant.yaml")


@walk(
    ("document", "says"),
    [
        ("actions: [a]", "subject is missing"),
        ("subject: {agent: b}", "actions is missing"),
        (YAML + "mode: observe\n", "top level"),
        (YAML + "decision: allow\n", "'decision'"),
        (YAML + "resources: null\n", "null"),
        (YAML + "delegable: 1\n", "delegable"),
        (YAML + "actions: [b]\n", "line 6"),
        ("[]", "mapping"),
        ("subject: [", "YAML"),
    ],
)
def test_what_a_document_of_one_grant_refuses(document: str, says: str) -> None:
    with pytest.raises(PolicyError) as caught:
        grant_from_yaml(document, source="grant.yaml")
    assert str(caught.value).startswith("grant.yaml: ")
    assert says in str(caught.value)


def test_ids() -> None:
    first, second = new_delegation_id(), new_delegation_id()
    assert first != second
    for made in (first, second):
        assert made.startswith(DELEGATION_ID_PREFIX)
        assert len(made) == len(DELEGATION_ID_PREFIX) + 32
        assert set(made[4:]) <= set("0123456789abcdef")
    with counted_ids():
        assert new_delegation_id() == dlg(1)


def test_every_refusal_is_one_of_ours() -> None:
    for stored in NOT_GRANTS:
        with pytest.raises(CTRLRunError):
            grant_from_json(stored, delegation_id="x")
