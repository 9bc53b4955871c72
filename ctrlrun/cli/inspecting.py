"""The text form of one action's inspection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ctrlrun.approval import ApprovalStatus
from ctrlrun.cli.lines import label, principal_text
from ctrlrun.cli.output import Output
from ctrlrun.operator import HolderStanding, differing, mutation_facts
from ctrlrun.operator.pages import paged
from ctrlrun.operator.wording import data_text, json_text
from ctrlrun.receipt import Receipt, principal_document
from ctrlrun.state import StateReader

Document = dict[str, Any]

_EVENT_ID = 3
_EVENT_TYPE = 28


@dataclass(frozen=True, slots=True)
class _Header:
    """What was asked, from the receipt or from the first request about it."""

    name: str
    principal: Document
    resource: str | None
    environment: str
    arguments: Any


def inspection_lines(
    out: Output,
    document: Document,
    reader: StateReader,
    now: datetime,
    uncovered: str | None = None,
) -> Iterator[str]:
    """The lines of an inspection document; `reader` knows what was asked when no receipt does.

    `uncovered` is why no grant covered the action.
    """
    header = _header(document, reader)
    name = "-" if header is None else header.name
    yield f"{out.shown(document['action_id'])}  {out.shown(name)}"
    yield ""
    if header is not None:
        for name, said in _asked(header):
            yield label(name) + out.shown(said)
    for name, said in _became(document, reader, now, uncovered):
        yield label(name) + out.shown(said)
    yield ""
    for event in document["events"]:
        yield _event_line(out, event)


def _header(document: Document, reader: StateReader) -> _Header | None:
    receipt = document["receipt"]
    if receipt is not None:
        return _Header(
            receipt["action"],
            receipt["principal"],
            receipt["resource"],
            receipt["environment"],
            receipt["arguments"],
        )
    for approval in document["approvals"]:
        record = reader.get_approval(approval["approval_id"])
        if record is not None:
            action = record.request.action
            return _Header(
                action.name,
                principal_document(action.principal),
                action.resource,
                action.environment,
                action.canonical_arguments,
            )
    return None


def _asked(header: _Header) -> Iterator[tuple[str, str]]:
    principal = header.principal
    yield "principal", principal_text(principal["agent"], principal["user"])
    if principal.get("issuer") is not None:
        yield "issuer", principal["issuer"]
    if principal.get("expires_at") is not None:
        yield "expires", principal["expires_at"]
    if principal.get("claims"):
        yield "claims", ", ".join(sorted(principal["claims"]))
    yield "resource", header.resource or "-"
    yield "environment", header.environment
    yield "arguments", json_text(header.arguments)


def _became(
    document: Document, reader: StateReader, now: datetime, uncovered: str | None
) -> Iterator[tuple[str, str]]:
    receipt = document["receipt"]
    if receipt is not None:
        yield "decision", f"{receipt['decision']}  ({receipt['decision_reason']})"
    if uncovered is not None:
        yield "authority", uncovered
    for approval in document["approvals"]:
        answered = f" by {approval['approver']}" if approval["approver"] is not None else ""
        yield "approval", f"{approval['approval_id']}  {approval['status']}{answered}"
    effect = document["effect"]
    if effect is not None:
        resolved = effect["resolved_by"]
        ending = f"  resolved by {resolved}" if resolved is not None else ""
        line = f"{effect['effect_key']}  {effect['state']}  attempt {effect['attempt']}"
        yield "effect", line + ending
        holder = effect["holder"]
        if holder is not None and holder["standing"] != HolderStanding.ENDED:
            yield "holder", holder["said"]
    if receipt is None:
        yield "receipt", f"-  ({_awaits(document, reader, now)})"
    else:
        yield "receipt", f"{receipt['receipt_id']}  {receipt['result']}"
        yield from _details(receipt)
        facts = mutation_facts(paged(reader), Receipt.from_dict(receipt))
        for field in () if facts is None else differing(facts.fields):
            left, right = (
                side if side is not None else "nothing" for side in (field.left, field.right)
            )
            yield "differs", f"{field.name}: approved {left}, attempted {right}"


def _details(receipt: Document) -> Iterator[tuple[str, str]]:
    """What only some receipts have."""
    if receipt["error"] is not None:
        yield "error", receipt["error"]
    if receipt["execution"] is not None:
        yield "execution", receipt["execution"]
    would_have = receipt["would_have"]
    if would_have is not None:
        blocked = would_have.get("blocked_reason")
        ending = f"  blocked: {blocked}" if blocked is not None else ""
        yield "would have", f"{would_have.get('decision')}  ({would_have.get('reason')}){ending}"
    if receipt["policy_hash"] is not None:
        version = receipt["policy_version"]
        yield "policy", receipt["policy_hash"] + (f"  {version}" if version is not None else "")


def _awaits(document: Document, reader: StateReader, now: datetime) -> str:
    """Why there is no receipt: where the last request of this action stands, by the clock."""
    asked = [
        event["approval_id"]
        for event in document["events"]
        if event["type"] == "APPROVAL_REQUESTED" and event["approval_id"] is not None
    ]
    record = reader.get_approval(asked[-1]) if asked else None
    status = None if record is None else record.status_at(now)
    if status is ApprovalStatus.PENDING:
        return "awaiting a human"
    if status is ApprovalStatus.GRANTED:
        return "granted, not used"
    if status in (ApprovalStatus.DENIED, ApprovalStatus.EXPIRED):
        return status.value
    held = (
        None if document["effect"] is None else reader.get_effect(document["effect"]["effect_key"])
    )
    if held is not None and held.action_id == document["action_id"] and held.lease_is_lapsed(now):
        return "no outcome, and its lease has lapsed: ctrlrun resolve says what became of it"
    return "in flight"


def _event_line(out: Output, event: Document) -> str:
    event_id = "-" if event["event_id"] is None else str(event["event_id"])
    start = f"  {event_id:>{_EVENT_ID}}  {event['ts']}  {out.shown(event['type']):<{_EVENT_TYPE}}"
    return (start + out.shown(data_text(event["data"]))).rstrip(" ")
