"""Receipts as documents: what is written, and what every earlier schema reads as."""

from __future__ import annotations

import json
import re
from dataclasses import FrozenInstanceError, replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.conditions import Decision
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import (
    RECEIPT_SCHEMA,
    Event,
    EventType,
    Receipt,
    ReceiptResult,
    WouldHave,
    iso_timestamp,
    new_receipt_id,
)
from tests.cases import walk
from tests.lib.store_suite.helpers import receipt

KEYS = [
    "schema",
    "receipt_id",
    "action_id",
    "action",
    "action_hash",
    "principal",
    "resource",
    "arguments",
    "environment",
    "decision",
    "decision_reason",
    "approval_id",
    "approver",
    "effect_key",
    "attempt",
    "result",
    "execution",
    "would_have",
    "error",
    "started_at",
    "finished_at",
    "seq",
    "prev_hash",
    "policy_hash",
    "policy_version",
    "controls",
]
OPTIONAL = {
    *("execution", "would_have", "seq", "prev_hash", "policy_hash", "policy_version", "controls"),
    "schema",
}

FULL = receipt(
    principal=Principal(
        "bot",
        "ada",
        claims={"team": "infra", "level": 3, "oncall": True},
        issuer="https://idp",
        expires_at=datetime(2026, 1, 1, 16, tzinfo=UTC),
    ),
    resource="ns:café",
    arguments={"name": "café", "labels": ["z"], "opts": {"b": None}},
    decision=Decision.APPROVE,
    approval_id="apr_1",
    approver="cli:local",
    attempt=2,
    result=ReceiptResult.OBSERVED,
    execution=ReceiptResult.FAILED,
    would_have=WouldHave({"decision": "deny", "reason": "r", "blocked_reason": None}),
    error="line1\nline2",
    started_at=datetime(2026, 1, 1, 12, 0, 1, tzinfo=UTC),
    finished_at=datetime(2026, 1, 1, 12, 0, 1, 999999, tzinfo=UTC),
    seq=7,
    prev_hash="sha256:00",
    policy_version="2026-01",
    controls=("SOX-1", "PCI"),
)


def v1() -> dict[str, Any]:
    """A document of the first schema."""
    document = {key: value for key, value in FULL.to_dict().items() if key not in OPTIONAL}
    return document | {
        "schema": "ctrlrun.receipt/v1",
        "principal": {"agent": "bot", "user": None},
        "result": "committed",
    }


def v2() -> dict[str, Any]:
    """A document of the second schema."""
    later = ("seq", "prev_hash", "policy_hash", "policy_version", "controls")
    document = {key: value for key, value in FULL.to_dict().items() if key not in later}
    return document | {"schema": "ctrlrun.receipt/v2"}


def test_a_document_has_its_keys_in_order() -> None:
    document = FULL.to_dict()
    assert list(document) == KEYS
    assert list(document["principal"]) == ["agent", "user", "claims", "issuer", "expires_at"]
    assert document["schema"] == RECEIPT_SCHEMA == "ctrlrun.receipt/v3"
    assert (document["decision"], document["result"], document["execution"]) == (
        "approve",
        "observed",
        "failed",
    )
    assert {type(document[key]) for key in ("decision", "result", "execution")} == {str}


def test_a_document_is_one_compact_line_of_readable_text() -> None:
    text = FULL.to_json()
    assert "\n" not in text
    assert '"resource":"ns:café","arguments":{"name":"café",' in text
    assert json.loads(text) == FULL.to_dict()


def test_times_are_cut_to_milliseconds_in_utc() -> None:
    east = timezone(timedelta(hours=2))
    shown = replace(FULL, started_at=datetime(2026, 1, 1, 14, 0, 1, 999, tzinfo=east)).to_dict()
    assert shown["started_at"] == "2026-01-01T12:00:01.000Z"
    assert shown["finished_at"] == "2026-01-01T12:00:01.999Z"
    assert shown["principal"]["expires_at"] == "2026-01-01T16:00:00.000Z"
    assert iso_timestamp(FULL.finished_at) == "2026-01-01T12:00:01.999Z"


def test_a_document_reads_back_as_itself() -> None:
    read = Receipt.from_json(FULL.to_json())
    assert read == replace(FULL, finished_at=FULL.finished_at.replace(microsecond=999000))
    assert read.to_json() == FULL.to_json()
    assert type(read.result) is ReceiptResult
    assert type(read.decision) is Decision
    assert read.controls == ("SOX-1", "PCI")


def test_the_hash_is_never_part_of_the_document() -> None:
    assert replace(FULL, hash="sha256:x").to_json() == FULL.to_json()
    assert replace(FULL, hash="sha256:x").chain_hash() == FULL.chain_hash()
    assert Receipt.from_json(FULL.to_json()).hash is None


def test_a_document_of_the_first_schema_reads_and_is_written_as_the_third() -> None:
    read = Receipt.from_dict(v1())
    assert read.principal == Principal("bot")
    assert (read.execution, read.would_have, read.seq, read.prev_hash) == (None, None, None, None)
    assert (read.policy_hash, read.policy_version, read.controls) == (None, None, ())
    assert list(read.to_dict()) == KEYS
    assert read.to_dict()["schema"] == RECEIPT_SCHEMA


def test_a_document_of_the_second_schema_reads() -> None:
    read = Receipt.from_dict(v2())
    assert read.principal == FULL.principal
    assert (read.execution, read.would_have) == (ReceiptResult.FAILED, FULL.would_have)
    assert (read.seq, read.controls) == (None, ())


def test_unknown_keys_and_schemas_are_passed_over() -> None:
    newer = FULL.to_dict() | {"schema": "ctrlrun.receipt/v9", "novelty": {"x": 1}}
    assert Receipt.from_dict(newer).to_json() == FULL.to_json()


@walk("key", [key for key in KEYS if key not in OPTIONAL])
def test_a_key_of_the_first_schema_is_required(key: str) -> None:
    document = v1()
    del document[key]
    with pytest.raises(KeyError, match=key):
        Receipt.from_dict(document)


@walk("key", ["agent", "user"])
def test_a_principal_has_an_agent_and_a_user(key: str) -> None:
    document = v1()
    del document["principal"][key]
    with pytest.raises(KeyError, match=key):
        Receipt.from_dict(document)


@walk("key", sorted(OPTIONAL))
def test_a_later_key_is_optional(key: str) -> None:
    document = FULL.to_dict()
    del document[key]
    Receipt.from_dict(document)


def test_controls_are_a_list_of_strings() -> None:
    assert Receipt.from_dict(FULL.to_dict() | {"controls": None}).controls == ()
    for wrong in ("SOX-1", {"SOX-1": 1}, [1], ["SOX-1", None], 7):
        with pytest.raises(InvalidArgument):
            Receipt.from_dict(FULL.to_dict() | {"controls": wrong})


@walk(
    "changes",
    [{"result": "undone"}, {"decision": "maybe"}, {"execution": "x"}, {"started_at": "yesterday"}],
)
def test_a_value_that_is_none_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Receipt.from_dict(FULL.to_dict() | changes)
    with pytest.raises(InvalidArgument):
        Receipt.from_json("[1]")


def test_a_receipt_is_frozen_and_says_least_by_default() -> None:
    with pytest.raises(FrozenInstanceError):
        FULL.error = "x"  # type: ignore[misc]
    least = receipt(effect_key=None, policy_hash=None)
    assert least.attempt == 1
    assert least.controls == ()
    nothing = (
        "approval_id approver effect_key execution would_have error seq prev_hash policy_hash "
        "policy_version hash"
    )
    assert {getattr(least, name) for name in nothing.split()} == {None}


def test_ids_are_random() -> None:
    made = {new_receipt_id() for _ in range(50)}
    assert len(made) == 50
    assert all(re.fullmatch(r"ctr_[0-9a-f]{32}", item) for item in made)


def test_results_and_event_types_are_these() -> None:
    assert [str(item) for item in ReceiptResult] == [
        *("committed", "failed", "ambiguous", "denied", "blocked", "observed")
    ]
    assert len(EventType) == 25
    assert all(item.value == item.name for item in EventType)


def test_an_event_has_its_keys_in_order() -> None:
    written = Event(EventType.ACTION_DENIED, None, FULL.finished_at, {"reason": "café"})
    assert written.to_json() == (
        '{"event_id":null,"ts":"2026-01-01T12:00:01.999Z","type":"ACTION_DENIED",'
        '"action_id":null,"effect_key":null,"approval_id":null,"data":{"reason":"café"}}'
    )
