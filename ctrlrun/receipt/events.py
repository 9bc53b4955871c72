"""Events: one line for each thing that happened in a call, or that a person did."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from ctrlrun.canonical import compact_encoder
from ctrlrun.clock import iso_timestamp
from ctrlrun.effect import escape_surrogates
from ctrlrun.errors import InvalidArgument

EVENTS_FILENAME = "events.jsonl"


class EventType(StrEnum):
    """Every type of event; what `data` holds for each is in docs/events.md."""

    ACTION_PROPOSED = "ACTION_PROPOSED"
    AUTHORITY_RESOLVED = "AUTHORITY_RESOLVED"
    AUTHORITY_DENIED = "AUTHORITY_DENIED"
    POLICY_EVALUATED = "POLICY_EVALUATED"
    ACTION_DENIED = "ACTION_DENIED"
    APPROVAL_REQUESTED = "APPROVAL_REQUESTED"
    APPROVAL_GRANTED = "APPROVAL_GRANTED"
    APPROVAL_DENIED = "APPROVAL_DENIED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    APPROVAL_INVALIDATED = "APPROVAL_INVALIDATED"
    APPROVAL_CONSUMED = "APPROVAL_CONSUMED"
    EFFECT_RESERVED = "EFFECT_RESERVED"
    EFFECT_RESERVATION_REFUSED = "EFFECT_RESERVATION_REFUSED"
    EXECUTION_STARTED = "EXECUTION_STARTED"
    EXECUTION_COMMITTED = "EXECUTION_COMMITTED"
    EXECUTION_FAILED = "EXECUTION_FAILED"
    EXECUTION_AMBIGUOUS = "EXECUTION_AMBIGUOUS"
    EXECUTION_SUSPENDED = "EXECUTION_SUSPENDED"
    EXECUTION_RESUMED = "EXECUTION_RESUMED"
    RECONCILIATION_STARTED = "RECONCILIATION_STARTED"
    RECONCILIATION_RESOLVED = "RECONCILIATION_RESOLVED"
    EFFECT_RESOLVED = "EFFECT_RESOLVED"
    DELEGATION_CREATED = "DELEGATION_CREATED"
    DELEGATION_REVOKED = "DELEGATION_REVOKED"
    DELEGATION_REJECTED = "DELEGATION_REJECTED"


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `event_id` is given by the store that appends it.

    `type` is a plain `str` when a newer build wrote a type that this one does not know.
    """

    type: EventType | str
    action_id: str | None
    ts: datetime
    data: Mapping[str, Any] = field(default_factory=dict)
    effect_key: str | None = None
    approval_id: str | None = None
    event_id: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON values, keys in their fixed order."""
        return {
            "event_id": self.event_id,
            "ts": iso_timestamp(self.ts),
            "type": str(self.type),
            "action_id": self.action_id,
            "effect_key": self.effect_key,
            "approval_id": self.approval_id,
            "data": dict(self.data),
        }

    def to_json(self) -> str:
        """`to_dict` as one line of JSON."""
        return json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))


def numbered(event: Event, event_id: int | None) -> Event:
    """The event with the id that it was given."""
    return Event(
        event.type,
        event.action_id,
        event.ts,
        event.data,
        event.effect_key,
        event.approval_id,
        event_id,
    )


def event_data_json(event: Event) -> str:
    """The event's data as the text that a store keeps.

    Raises InvalidArgument for data that JSON has no form for; lone surrogates become escapes.
    """
    try:
        text = _encode_data(dict(event.data))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the data of {event.type} cannot be stored: {error}") from None
    return escape_surrogates(text)


_encode_data = compact_encoder(sort_keys=False, allow_nan=False)


def event_type(text: str) -> EventType | str:
    """The known type, or the text itself when a newer build wrote it."""
    try:
        return EventType(text)
    except ValueError:
        return text
