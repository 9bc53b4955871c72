"""Where an item stands now: what became of a request or an effect, who answered it, and when.

What a screen says when the item that it shows has moved on. Reads one record and at most one event.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.effect import EffectRecord, EffectState
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import PagedReader
from ctrlrun.state.page import START

_RUN: dict[str, str | None] = {
    EventType.EXECUTION_STARTED: None,
    EventType.EXECUTION_SUSPENDED: None,
    EventType.EXECUTION_COMMITTED: "committed",
    EventType.EXECUTION_FAILED: "failed",
    EventType.EXECUTION_AMBIGUOUS: "AMBIGUOUS",
}
"""What the newest event of a run says about its outcome."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an item stands now: `word` (`granted`, `EXPIRED`, `committed`, `gone` …), who and when.

    `outcome` follows a grant that was spent: what became of the call (`committed`, `failed`,
    `AMBIGUOUS`, `executing`, `lapsed`), None when nothing tells yet.
    """

    word: str
    by: str | None = None
    at: datetime | None = None
    outcome: str | None = None


def request_standing(reader: PagedReader, request_id: str, now: datetime) -> Standing:
    """What became of a request: who answered it and when, or that its time is over."""
    record = reader.get_approval(request_id)
    if record is None:
        return Standing("gone")
    match record.status_at(now):
        case ApprovalStatus.PENDING:
            return Standing("waiting")
        case ApprovalStatus.EXPIRED:
            return Standing("EXPIRED", record.approver, record.expires_at)
        case ApprovalStatus.GRANTED:
            return Standing("granted", record.approver, record.granted_at)
        case ApprovalStatus.DENIED:
            return Standing("denied", record.approver, answered_at(reader, record))
        case ApprovalStatus.CONSUMED:
            outcome = _outcome_of(reader, request_id, now)
            return Standing("spent", record.approver, record.consumed_at, outcome)


def effect_standing(reader: PagedReader, effect_key: str, now: datetime) -> Standing:
    """What became of an effect: its state, and who resolved it and when."""
    record = reader.get_effect(effect_key)
    if record is None:
        return Standing("gone")
    return Standing(_effect_word(record, now), record.resolved_by, record.updated_at)


def answered_at(reader: PagedReader, record: ApprovalRecord) -> datetime | None:
    """When a request was granted or denied; None while nobody did, or when nothing tells."""
    if record.status is not ApprovalStatus.DENIED:
        return record.granted_at
    denial = _first_denial(reader, record.approval_id)
    return None if denial is None else denial.ts


def is_answer(reader: PagedReader, denial: Event) -> bool:
    """Whether an APPROVAL_DENIED is a person's answer, not evidence that the request was presented.

    A call that presents a denied request leaves an event of the same type, with the call's effect
    key, which an answer has not; without a key it comes after the answer. docs/answers.md.
    """
    if denial.effect_key is not None or denial.approval_id is None:
        return False
    first = _first_denial(reader, denial.approval_id)
    return first is None or first.event_id == denial.event_id


def _first_denial(reader: PagedReader, request_id: str) -> Event | None:
    """The answer: whatever else is of this type came after it."""
    denials = reader.events_page(
        after=START, limit=1, approval_id=request_id, types=(EventType.APPROVAL_DENIED,)
    ).items
    return denials[0] if denials else None


def _outcome_of(reader: PagedReader, request_id: str, now: datetime) -> str | None:
    """What became of the call that spent a grant."""
    events = reader.events_page(limit=1, approval_id=request_id, types=_RUN).items
    if not events:
        return None
    event = events[-1]
    record = None if event.effect_key is None else reader.get_effect(event.effect_key)
    if record is not None and record.action_id == event.action_id:
        return _effect_word(record, now)
    return _RUN[event.type]


def _effect_word(record: EffectRecord, now: datetime) -> str:
    if record.lease_is_lapsed(now):
        return "lapsed"
    return "AMBIGUOUS" if record.state is EffectState.AMBIGUOUS else record.state.value
