"""What a filter can name: the fields of each kind of row, and the texts that they hold.

A table and the functions behind it; `filter` reads the language and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.conditions import Decision
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.operator.authority_state import AuthorityRow, GrantState
from ctrlrun.operator.endings import ENDING_WITHIN
from ctrlrun.operator.grant_words import limits_texts
from ctrlrun.operator.seen import SeenAction, action_of_request
from ctrlrun.operator.stats_words import ENFORCED, enforced, stopped_by
from ctrlrun.operator.wording import json_text
from ctrlrun.receipt import Event, EventType, Receipt, ReceiptResult
from ctrlrun.state.tally import ANSWERS, answer_of

Row = Receipt | Event | EffectRecord | ApprovalRecord | AuthorityRow
Texts = tuple[str, ...]

_ALWAYS = datetime.min.replace(tzinfo=UTC)
"""Since when a grant of the document stands: nobody knows."""

ENDING = "ending"
"""The state of a grant that ends within the hour, beside that of where it stands."""

LAPSED = "lapsed"
"""The state of an effect whose lease ran out without an outcome, by the clock."""


class RowKind(StrEnum):
    """What a list holds: it says which fields a filter may name."""

    RECEIPTS = "receipts"
    EVENTS = "events"
    EFFECTS = "effects"
    APPROVALS = "approvals"
    INBOX = "inbox"  # approvals, effects, and grants that end soon
    AUTHORITY = "authority"


@dataclass(frozen=True, slots=True)
class Subject:
    """A row under test, and what its record does not hold itself."""

    row: Row
    action: SeenAction | None
    effect_key: str | None
    now: datetime


Extract = Callable[[Subject], Iterator[object]]


def texts(extract: Extract, subject: Subject) -> Texts:
    """The texts of a field, absent values left out."""
    return tuple(str(value) for value in extract(subject) if value is not None)


def moment_of(row: Row) -> datetime:
    """The time that `since` and `until` look at."""
    match row:
        case Receipt():
            return row.finished_at
        case Event():
            return row.ts
        case EffectRecord():
            return row.updated_at
        case ApprovalRecord():
            return row.request.created_at
        case AuthorityRow():
            record = row.node.record
            return _ALWAYS if record is None else record.created_at


def subject_of(
    row: Row, action: SeenAction | None, effect_key: str | None, now: datetime
) -> Subject:
    """A row with the action that an approval holds, or that was found for an effect."""
    if isinstance(row, ApprovalRecord):
        action = action_of_request(row.request.action, row.action_hash)
    return Subject(row, action, effect_key, now)


# --- what rows hold ------------------------------------------------------------------------------


def _attribute(*names: str) -> Extract:
    """Attributes of the row; one that this kind of row lacks holds nothing."""

    def extract(subject: Subject) -> Iterator[object]:
        return (getattr(subject.row, name, None) for name in names)

    return extract


def _data(*keys: str) -> Extract:
    """Keys of an event's data."""

    def extract(subject: Subject) -> Iterator[object]:
        data: Mapping[str, Any] = getattr(subject.row, "data", {})
        return (data.get(key) for key in keys)

    return extract


def _of_action(name: str) -> Extract:
    def extract(subject: Subject) -> Iterator[object]:
        action = subject.action
        if isinstance(subject.row, AuthorityRow):
            yield from _of_grant(subject.row, name)
        else:
            yield None if action is None else getattr(action, name)

    return extract


def _of_grant(row: AuthorityRow, name: str) -> Sequence[object]:
    """The patterns of a grant that say what an action's attribute says."""
    if row.grant is None:
        return ()
    match name:
        case "name":
            return row.grant.actions
        case "resource":
            return row.grant.resources or ()
        case _:
            return row.grant.environments or ()


def _of_principal(name: str) -> Extract:
    def extract(subject: Subject) -> Iterator[object]:
        if isinstance(subject.row, AuthorityRow):
            grant = subject.row.grant
            yield None if grant is None else getattr(grant.subject, name)
            return
        holder = subject.row if isinstance(subject.row, Receipt) else subject.action
        yield None if holder is None else getattr(holder.principal, name)

    return extract


def _of_delegation(*columns: str) -> Extract:
    """Columns of a delegation's row; a grant of the document has none."""

    def extract(subject: Subject) -> Iterator[object]:
        record = subject.row.node.record if isinstance(subject.row, AuthorityRow) else None
        return (getattr(record, column, None) for column in columns)

    return extract


def _key(subject: Subject) -> Iterator[object]:
    yield getattr(subject.row, "effect_key", None) or subject.effect_key


def _receipt_reason(subject: Subject) -> Iterator[object]:
    row = subject.row
    if isinstance(row, Receipt):
        yield row.decision_reason
        if row.would_have is not None:
            yield from (row.would_have.get(key) for key in ("blocked_reason", "reason"))


def _would(subject: Subject) -> tuple[object, object, object]:
    """What enforcing would have decided, why, and what it would have stopped at."""
    row = subject.row
    would = row.would_have if isinstance(row, Receipt) else None
    if would is None:
        return None, None, None
    return would.get("decision"), would.get("reason"), would.get("blocked_reason")


def _blocked(subject: Subject) -> Iterator[object]:
    decision, _, blocked = _would(subject)
    yield None if decision is None else blocked


def _enforced(subject: Subject) -> Iterator[object]:
    decision, _, blocked = _would(subject)
    yield from enforced(decision, blocked)


def _stopped_by(subject: Subject) -> Iterator[object]:
    decision, reason, blocked = _would(subject)
    for word in enforced(decision, blocked):
        if word != "allowed":
            yield stopped_by(word, reason, blocked)


def _answer(subject: Subject) -> Iterator[object]:
    if isinstance(subject.row, ApprovalRecord):
        yield answer_of(subject.row, subject.now)


def _state(subject: Subject) -> Iterator[object]:
    """The state by the clock: a lapsed lease and a lapsed request have other words."""
    row = subject.row
    if isinstance(row, ApprovalRecord):
        yield row.status_at(subject.now)
    elif isinstance(row, EffectRecord):
        yield row.state
        if row.lease_is_lapsed(subject.now):
            yield LAPSED
    elif isinstance(row, AuthorityRow):
        yield row.outlook.at(subject.now).state
        if ends_soon(row, subject.now):
            yield ENDING


def ends_soon(row: AuthorityRow, now: datetime) -> bool:
    """Whether it counts now, and will not in an hour."""
    ends_at = row.outlook.ends_at
    soon = ends_at is not None and ends_at <= now + ENDING_WITHIN
    return soon and row.outlook.at(now).is_live


def _controls(subject: Subject) -> Iterator[object]:
    if isinstance(subject.row, Receipt):
        yield from subject.row.controls


def _request_id(subject: Subject) -> Iterator[object]:
    row = subject.row
    if isinstance(row, ApprovalRecord):
        yield row.approval_id
        yield row.request.action.action_id
    elif isinstance(row, AuthorityRow):
        yield row.node.node_id
    else:
        yield getattr(row, "action_id", None)


def _said(subject: Subject) -> Iterator[object]:
    """What a row says beyond its fields: arguments, or an event's data."""
    row = subject.row
    if isinstance(row, Event):
        yield json_text(dict(row.data))
    elif isinstance(row, Receipt):
        yield json_text(dict(row.arguments))
    elif isinstance(row, AuthorityRow) and row.grant is not None:
        yield from limits_texts(row.grant)
    if subject.action is not None:
        yield json_text(dict(subject.action.arguments))


_RECEIPTS: dict[str, Extract] = {
    "action": _attribute("action"),
    "agent": _of_principal("agent"),
    "user": _of_principal("user"),
    "decision": _attribute("decision"),
    "result": _attribute("result", "execution"),
    "execution": _attribute("execution"),
    "state": _attribute("result", "execution"),
    "reason": _receipt_reason,
    "enforced": _enforced,
    "blocked": _blocked,
    "stopped_by": _stopped_by,
    "key": _key,
    "id": _attribute("receipt_id", "action_id", "approval_id"),
    "approval": _attribute("approval_id"),
    "approver": _attribute("approver"),
    "control": _controls,
    "resource": _attribute("resource"),
    "environment": _attribute("environment"),
    "policy": _attribute("policy_hash", "policy_version"),
    "hash": _attribute("action_hash"),
    "attempt": _attribute("attempt"),
    "seq": _attribute("seq"),
    "error": _attribute("error"),
}
_EVENTS: dict[str, Extract] = {
    "type": _attribute("type"),
    "key": _key,
    "id": _attribute("event_id", "action_id", "approval_id"),
    "approval": _attribute("approval_id"),
    "decision": _data("decision"),
    "reason": _data("reason"),
    "state": _data("state", "outcome"),
    "approver": _data("approver", "resolver", "by", "revoked_by"),
    "hash": _data("action_hash"),
    "attempt": _data("attempt"),
    "error": _data("error"),
    "note": _data("note", "source"),
}
_EFFECTS: dict[str, Extract] = {
    "state": _state,
    "key": _key,
    "id": _request_id,
    "action": _of_action("name"),
    "agent": _of_principal("agent"),
    "user": _of_principal("user"),
    "resource": _of_action("resource"),
    "environment": _of_action("environment"),
    "attempt": _attribute("attempt"),
    "approver": _attribute("resolved_by"),
    "error": _attribute("error"),
}
_APPROVALS: dict[str, Extract] = {
    "state": _state,
    "answer": _answer,
    "key": _key,
    "id": _request_id,
    "action": _of_action("name"),
    "agent": _of_principal("agent"),
    "user": _of_principal("user"),
    "resource": _of_action("resource"),
    "environment": _of_action("environment"),
    "approver": _attribute("approver"),
    "policy": _attribute("policy_hash_at_approval"),
    "hash": _attribute("action_hash"),
}
_INBOX: dict[str, Extract] = _EFFECTS | {
    "approver": _attribute("approver", "resolved_by"),
}
_AUTHORITY: dict[str, Extract] = {
    "state": _state,
    "id": _request_id,
    "parent": _of_delegation("parent_id"),
    "agent": _of_principal("agent"),
    "user": _of_principal("user"),
    "action": _of_action("name"),
    "resource": _of_action("resource"),
    "environment": _of_action("environment"),
    "by": _of_delegation("created_by_agent", "created_by_user", "revoked_by"),
    "via": _of_delegation("created_via"),
}

FIELDS: dict[RowKind, dict[str, Extract]] = {
    RowKind.RECEIPTS: _RECEIPTS,
    RowKind.EVENTS: _EVENTS,
    RowKind.EFFECTS: _EFFECTS,
    RowKind.APPROVALS: _APPROVALS,
    RowKind.INBOX: _INBOX,
    RowKind.AUTHORITY: _AUTHORITY,
}

EVERYWHERE: dict[RowKind, tuple[Extract, ...]] = {
    kind: (*fields.values(), _said) for kind, fields in FIELDS.items()
}
"""Where a word is looked for."""

OTHER_NAMES = {
    "effect": "key",
    "effect_key": "key",
    "principal": "agent",
    "status": "state",
    "action_id": "id",
    "receipt_id": "id",
    "request_id": "id",
    "approval_id": "approval",
    "approved_by": "approver",
    "env": "environment",
}
"""What else a field is called elsewhere, for the error that suggests the field."""

TIMES = ("since", "until")
"""Fields that take a time; every kind of row has them."""

EXACT_CASE = frozenset({"key", "id", "parent", "approval", "control", "policy", "hash"})
"""Fields in which upper and lower case are different things."""

# --- values that are known -----------------------------------------------------------------------

_EFFECT_STATES = frozenset(state.value for state in EffectState if state is not EffectState.NEW)
_STATUSES = frozenset(status.value for status in ApprovalStatus)
_RESULTS = frozenset(result.value for result in ReceiptResult)
_DECISIONS = frozenset(decision.value for decision in Decision)

KNOWN: dict[RowKind, dict[str, frozenset[str]]] = {
    RowKind.RECEIPTS: {
        "decision": _DECISIONS,
        "result": _RESULTS,
        "execution": _RESULTS,
        "state": _RESULTS,
        "enforced": frozenset(ENFORCED),
    },
    RowKind.EVENTS: {
        "decision": _DECISIONS,
        "type": frozenset(kind.value for kind in EventType),
    },
    RowKind.EFFECTS: {"state": _EFFECT_STATES | {LAPSED}},
    RowKind.APPROVALS: {"state": _STATUSES, "answer": frozenset(ANSWERS)},
    RowKind.INBOX: {"state": _EFFECT_STATES | _STATUSES | {LAPSED, ENDING}},
    RowKind.AUTHORITY: {"state": frozenset(state.value for state in GrantState) | {ENDING}},
}
"""All values that a field can have: another one is a slip of the pen, not an empty list."""

NEEDS_ACTION = frozenset({"action", "agent", "user", "resource", "environment"})
"""Fields of an effect that its record does not hold."""
