"""Rows to values and back: the columns of persisted format 0.6.1.

A row that cannot be read is a `DamagedRow` that names its table and id, never a guess. The format
is in docs/format.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRecord, ApprovalRequest, ApprovalStatus
from ctrlrun.authority import DelegationRecord
from ctrlrun.clock import column_timestamp, parse_timestamp
from ctrlrun.effect import EffectRecord, EffectState, Holder
from ctrlrun.errors import CTRLRunError, DamagedRow, InvalidArgument
from ctrlrun.receipt import Event, Receipt, event_type
from ctrlrun.state.page import ReceiptRow
from ctrlrun.state.session import Row

T = TypeVar("T")

EFFECT_COLUMNS = (
    "effect_key, state, action_id, attempt, lease_expires_at, result_json, error, created_at, "
    "updated_at, resolved_by"
)
HOLDER_COLUMNS = "effect_key, action_id, attempt, host, pid, boot_id, thread, started_at, seen_at"
APPROVAL_COLUMNS = (
    "approval_id, action_hash, status, action_json, approver, created_at, granted_at, expires_at, "
    "consumed_at, policy_hash_at_approval"
)
EVENT_COLUMNS = "event_id, ts, type, action_id, effect_key, approval_id, data_json"
RECEIPT_COLUMNS = "receipt_id, json, hash"
RECEIPT_ROW_COLUMNS = "receipt_id, action_id, effect_key, result, json, ts, seq, prev_hash, hash"
DELEGATION_COLUMNS = (
    "delegation_id, parent_id, depth, grant_json, created_by_agent, created_by_user, created_via, "
    "created_at, revoked_at, revoked_by"
)

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def detail_of(error: BaseException) -> str:
    """Why a row cannot be read, in a line."""
    text = str(error) if isinstance(error, (CTRLRunError, ValueError)) else repr(error)
    return " ".join(text.split()) or type(error).__name__


def _reading(table: str, read: Callable[[Row], T], row: Row) -> T:
    """What `read` makes of a row whose first column is its id."""
    try:
        return read(row)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, CTRLRunError) as error:
        name = text_of(row[0]) or "without an id"
        message = f"{table} {name} cannot be read: {detail_of(error)}"
        raise DamagedRow(message, table=table, row_id=name) from error


def text_of(value: object) -> str | None:
    """A stored value as text, whatever was stored."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def _text(value: object, column: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{column} is {'missing' if value is None else 'not text'}")
    return value


def _optional(value: object, column: str) -> str | None:
    return None if value is None else _text(value, column)


def _number(value: object, column: str) -> int:
    if not isinstance(value, int):
        raise ValueError(f"{column} is {'missing' if value is None else 'not an integer'}")
    return value


def _time(value: object, column: str) -> datetime:
    try:
        return parse_timestamp(_text(value, column))
    except ValueError as error:
        raise ValueError(f"{column}: {error}") from None


def _optional_time(value: object, column: str) -> datetime | None:
    return None if value is None else _time(value, column)


# --- effects -------------------------------------------------------------------------------------


def effect_from(row: Row) -> EffectRecord:
    """A row of `EFFECT_COLUMNS`."""
    return _reading("effects", _effect, row)


def _effect(row: Row) -> EffectRecord:
    state = EffectState(_text(row[1], "state"))
    if state is EffectState.NEW:
        raise ValueError("state is new, which is never stored")
    return EffectRecord(
        effect_key=_text(row[0], "effect_key"),
        state=state,
        action_id=_text(row[2], "action_id"),
        attempt=_number(row[3], "attempt"),
        created_at=_time(row[7], "created_at"),
        updated_at=_time(row[8], "updated_at"),
        lease_expires_at=_optional_time(row[4], "lease_expires_at"),
        result=None if row[5] is None else json.loads(_text(row[5], "result_json")),
        error=_optional(row[6], "error"),
        resolved_by=_optional(row[9], "resolved_by"),
    )


def holder_from(row: Row) -> Holder:
    """A row of `HOLDER_COLUMNS`."""
    return _reading("holders", _holder, row)


def _holder(row: Row) -> Holder:
    return Holder(
        effect_key=_text(row[0], "effect_key"),
        action_id=_text(row[1], "action_id"),
        attempt=_number(row[2], "attempt"),
        host=_text(row[3], "host"),
        pid=_number(row[4], "pid"),
        boot_id=_text(row[5], "boot_id"),
        thread=_text(row[6], "thread"),
        started_at=_optional(row[7], "started_at"),
        seen_at=_time(row[8], "seen_at"),
    )


# --- actions and approvals -----------------------------------------------------------------------


def action_json(action: Action) -> str:
    """An action as the store keeps it: whole, the principal's claims included."""
    principal = action.principal
    expires_at = principal.expires_at
    document = {
        "action_id": action.action_id,
        "name": action.name,
        "arguments": action.canonical_arguments,
        "principal": {
            "agent": principal.agent,
            "user": principal.user,
            "claims": dict(principal.claims),
            "issuer": principal.issuer,
            "expires_at": None if expires_at is None else expires_at.isoformat(),
        },
        "resource": action.resource,
        "environment": action.environment,
    }
    return _encode(document)


def _action_from(text: object) -> Action:
    """An action from its stored text; what older rows lack reads as absent."""
    document = json.loads(_text(text, "action_json"))
    principal = document["principal"]
    return Action(
        name=document["name"],
        arguments=document["arguments"],
        principal=Principal(
            agent=principal["agent"],
            user=principal["user"],
            claims=principal.get("claims") or {},
            issuer=principal.get("issuer"),
            expires_at=_optional_time(principal.get("expires_at"), "expires_at"),
        ),
        resource=document["resource"],
        environment=document["environment"],
        action_id=document["action_id"],
    )


def continuation_action_from(row: Row) -> Action:
    """The action of a row (effect_key, action_id, action_json, ...) of continuations."""
    return _reading("continuations", lambda held: _action_from(held[2]), row)


def approval_from(row: Row) -> ApprovalRecord:
    """A row of `APPROVAL_COLUMNS`."""
    return _reading("approvals", _approval, row)


def _approval(row: Row) -> ApprovalRecord:
    request = ApprovalRequest(
        request_id=_text(row[0], "approval_id"),
        action_hash=_text(row[1], "action_hash"),
        action=_action_from(row[3]),
        created_at=_time(row[5], "created_at"),
        expires_at=_time(row[7], "expires_at"),
        policy_hash=_optional(row[9], "policy_hash_at_approval"),
    )
    return ApprovalRecord(
        request=request,
        status=ApprovalStatus(_text(row[2], "status")),
        approver=_optional(row[4], "approver"),
        granted_at=_optional_time(row[6], "granted_at"),
        consumed_at=_optional_time(row[8], "consumed_at"),
    )


# --- events, receipts, delegations ---------------------------------------------------------------


def event_from(row: Row) -> Event:
    """A row of `EVENT_COLUMNS`; a type of a newer build stays as it is."""
    return _reading("events", _event, row)


def _event(row: Row) -> Event:
    data = {} if row[6] is None else json.loads(_text(row[6], "data_json"))
    if not isinstance(data, dict):
        raise ValueError("data_json is not an object")
    return Event(
        type=event_type(_text(row[2], "type")),
        action_id=_optional(row[3], "action_id"),
        ts=_time(row[1], "ts"),
        data=data,
        effect_key=_optional(row[4], "effect_key"),
        approval_id=_optional(row[5], "approval_id"),
        event_id=_number(row[0], "event_id"),
    )


def receipt_from(row: Row) -> Receipt:
    """A row of `RECEIPT_COLUMNS`: the document, and the hash beside it."""
    return _reading("receipts", _receipt, row)


def _receipt(row: Row) -> Receipt:
    return replace(Receipt.from_json(_text(row[1], "json")), hash=_optional(row[2], "hash"))


def receipt_row_from(row: Row, cursor: str) -> ReceiptRow:
    """A row that begins with `RECEIPT_ROW_COLUMNS`, unjudged."""
    stored = row[:9]
    seq = stored[6]
    if bytes not in map(type, stored) and (seq is None or type(seq) is int):
        return ReceiptRow(cursor, *stored)
    texts = [text_of(value) for value in stored]
    number = seq if isinstance(seq, int) else None
    return ReceiptRow._make((cursor, *texts[:6], number, *texts[7:]))


def delegation_from(row: Row) -> DelegationRecord:
    """A row of `DELEGATION_COLUMNS`."""
    return _reading("delegations", _delegation, row)


def _delegation(row: Row) -> DelegationRecord:
    return DelegationRecord(
        delegation_id=_text(row[0], "delegation_id"),
        parent_id=_text(row[1], "parent_id"),
        depth=_number(row[2], "depth"),
        grant_json=_text(row[3], "grant_json"),
        created_by_agent=_text(row[4], "created_by_agent"),
        created_by_user=_optional(row[5], "created_by_user"),
        created_via=_text(row[6], "created_via"),
        created_at=_time(row[7], "created_at"),
        revoked_at=_optional_time(row[8], "revoked_at"),
        revoked_by=_optional(row[9], "revoked_by"),
    )


def column_time(moment: datetime) -> str:
    """A time as the columns hold it; InvalidArgument for one without an offset from UTC."""
    if moment.tzinfo is UTC:
        return moment.isoformat()
    if moment.utcoffset() is None:
        raise InvalidArgument(f"{moment.isoformat()} has no offset from UTC")
    return column_timestamp(moment)


def optional_column_time(moment: datetime | None) -> str | None:
    """`column_time`, or nothing."""
    return None if moment is None else column_time(moment)
