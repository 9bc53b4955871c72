"""Receipts: one portable document for each attempt that ended."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from ctrlrun.action import DEFAULT_ENVIRONMENT, Principal
from ctrlrun.canonical import canonical_bytes, sha256_of
from ctrlrun.clock import iso_timestamp, new_id, parse_timestamp
from ctrlrun.conditions import Decision
from ctrlrun.errors import InvalidArgument

RECEIPT_SCHEMA = "ctrlrun.receipt/v3"
RECEIPTS_FILENAME = "receipts.jsonl"


class ReceiptResult(StrEnum):
    """How an attempt ended; `observed` only in observe mode."""

    COMMITTED = "committed"
    FAILED = "failed"
    AMBIGUOUS = "ambiguous"
    DENIED = "denied"
    BLOCKED = "blocked"
    OBSERVED = "observed"


def new_receipt_id() -> str:
    """`ctr_` and 32 random lowercase hex digits."""
    return new_id("ctr_")


class WouldHave(dict[str, Any]):
    """What enforcing would have done with an observed call (docs/observe.md).

    Its keys in the document are read as attributes too; `decision` is a Decision then, and raises
    ValueError for a text that is none.
    """

    @property
    def decision(self) -> Decision:
        """What the rules say."""
        return Decision(self["decision"])

    @property
    def reason(self) -> str:
        """Why."""
        reason: str = self["reason"]
        return reason

    @property
    def blocked_reason(self) -> str | None:
        """The first thing that enforcing would have stopped at, or None."""
        reason: str | None = self.get("blocked_reason")
        return reason

    def to_dict(self) -> dict[str, Any]:
        """The keys and their values, as in the document."""
        return dict(self)


@dataclass(frozen=True)
class Receipt:
    """What one attempt was, who decided it, and how it ended (docs/receipts.md).

    `seq` (from 1) and `prev_hash` are its place in the chain, given by the store; `hash` is the
    hash of its document, and never part of it. `execution` and `would_have` are set in observe
    mode alone.
    """

    receipt_id: str
    action_id: str
    action: str
    action_hash: str
    principal: Principal
    resource: str | None
    arguments: Mapping[str, Any]
    environment: str
    decision: Decision
    decision_reason: str
    result: ReceiptResult
    started_at: datetime
    finished_at: datetime
    approval_id: str | None = None
    approver: str | None = None
    effect_key: str | None = None
    attempt: int = 1
    execution: ReceiptResult | None = None
    would_have: WouldHave | None = None
    error: str | None = None
    seq: int | None = None
    prev_hash: str | None = None
    policy_hash: str | None = None
    policy_version: str | None = None
    controls: tuple[str, ...] = ()
    hash: str | None = None

    def __post_init__(self) -> None:
        if self.would_have is not None and type(self.would_have) is not WouldHave:
            object.__setattr__(self, "would_have", WouldHave(self.would_have))

    def to_dict(self) -> dict[str, Any]:
        """The document (`ctrlrun.receipt/v3`), keys in their fixed order."""
        return {
            "schema": RECEIPT_SCHEMA,
            "receipt_id": self.receipt_id,
            "action_id": self.action_id,
            "action": self.action,
            "action_hash": self.action_hash,
            "principal": principal_document(self.principal),
            "resource": self.resource,
            "arguments": dict(self.arguments),
            "environment": self.environment,
            "decision": str(self.decision),
            "decision_reason": self.decision_reason,
            "approval_id": self.approval_id,
            "approver": self.approver,
            "effect_key": self.effect_key,
            "attempt": self.attempt,
            "result": str(self.result),
            "execution": None if self.execution is None else str(self.execution),
            "would_have": None if self.would_have is None else dict(self.would_have),
            "error": self.error,
            "started_at": iso_timestamp(self.started_at),
            "finished_at": iso_timestamp(self.finished_at),
            "seq": self.seq,
            "prev_hash": self.prev_hash,
            "policy_hash": self.policy_hash,
            "policy_version": self.policy_version,
            "controls": list(self.controls),
        }

    def to_json(self) -> str:
        """`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))

    def chain_hash(self) -> str:
        """The hash of the document, which the next receipt names as its `prev_hash`."""
        return sha256_of(canonical_bytes(self.to_dict()))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Receipt:
        """A receipt from a document of schema v1, v2 or v3.

        Raises KeyError for a missing key of v1, ValueError for a bad time or enum, and
        InvalidArgument for `controls` that are no list of strings.
        """
        finished_at = parse_timestamp(document["finished_at"])
        execution = document.get("execution")
        return cls(
            receipt_id=document["receipt_id"],
            action_id=document["action_id"],
            action=document["action"],
            action_hash=document["action_hash"],
            principal=principal_from_document(document["principal"]),
            resource=document["resource"],
            arguments=document["arguments"],
            environment=document["environment"] or DEFAULT_ENVIRONMENT,
            decision=Decision(document["decision"]),
            decision_reason=document["decision_reason"],
            approval_id=document["approval_id"],
            approver=document["approver"],
            effect_key=document["effect_key"],
            attempt=document["attempt"],
            result=ReceiptResult(document["result"]),
            execution=None if execution is None else ReceiptResult(execution),
            would_have=document.get("would_have"),
            error=document["error"],
            started_at=parse_timestamp(document["started_at"]),
            finished_at=finished_at,
            seq=document.get("seq"),
            prev_hash=document.get("prev_hash"),
            policy_hash=document.get("policy_hash"),
            policy_version=document.get("policy_version"),
            controls=_controls(document.get("controls")),
        )

    @classmethod
    def from_json(cls, line: str) -> Receipt:
        """`from_dict` of a JSON text."""
        document = json.loads(line)
        if not isinstance(document, dict):
            raise InvalidArgument("a receipt is a JSON object")
        return cls.from_dict(document)


def principal_document(principal: Principal) -> dict[str, Any]:
    """A principal as it stands in a receipt, times in milliseconds."""
    expires_at = principal.expires_at
    return {
        "agent": principal.agent,
        "user": principal.user,
        "claims": dict(principal.claims),
        "issuer": principal.issuer,
        "expires_at": None if expires_at is None else iso_timestamp(expires_at),
    }


def principal_from_document(document: Mapping[str, Any]) -> Principal:
    """The principal of a receipt of any schema."""
    expires_at = document.get("expires_at")
    return Principal(
        agent=document["agent"],
        user=document["user"],
        claims=document.get("claims") or {},
        issuer=document.get("issuer"),
        expires_at=None if expires_at is None else parse_timestamp(expires_at),
    )


def _controls(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidArgument("a receipt's controls are a list of strings")
    return tuple(value)
