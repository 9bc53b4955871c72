"""What the rows of the inbox do not hold themselves: effect keys, actions, vain presentations.

On a store with our indexes each is looked up by itself. On one without (a deployment whose agents
have not been brought up to date) such a look costs the whole store: there the newest events and
receipts are read once for a whole page, and what is older than those stays unknown on the list; a
detail looks for it all the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Protocol

from ctrlrun.approval import ApprovalRecord
from ctrlrun.effect import EffectRecord
from ctrlrun.operator.pages import is_indexed
from ctrlrun.operator.seen import (
    SeenAction,
    action_of_receipt,
    effect_key_of,
    find_action,
    requests_about,
)
from ctrlrun.operator.wording import to_millisecond
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import PagedReader

_LOOK_BACK = 200
_SCANNED = 2_000
_PRESENTED_IN_VAIN = (
    EventType.APPROVAL_INVALIDATED,
    EventType.EFFECT_RESERVATION_REFUSED,
    EventType.ACTION_DENIED,
)


@dataclass(frozen=True, slots=True)
class RefusedPresentation:
    """A granted request that somebody presented in vain; the grant stands."""

    at: datetime
    reason: str


class Lookups(Protocol):
    """Finds them, for as long as one page is read."""

    def effect_key(self, request_id: str) -> str | None:
        """The key that a request is about."""
        ...

    def asked_about(self, effect_key: str) -> frozenset[str]:
        """The hashes of the actions that a person was asked about for a key."""
        ...

    def action(self, record: EffectRecord) -> SeenAction | None:
        """The action of the attempt that holds an effect."""
        ...

    def refused(self, record: ApprovalRecord) -> RefusedPresentation | None:
        """The last time that somebody presented a grant and was refused."""
        ...


def lookups(reader: PagedReader) -> Lookups:
    """The way that the store allows."""
    return IndexedLookups(reader) if is_indexed(reader) else ScannedLookups(reader)


class IndexedLookups:
    """Each by itself."""

    def __init__(self, reader: PagedReader) -> None:
        self._reader = reader

    def effect_key(self, request_id: str) -> str | None:
        return effect_key_of(self._reader, request_id)

    def asked_about(self, effect_key: str) -> frozenset[str]:
        return _hashes(requests_about(self._reader, effect_key, look_back=_LOOK_BACK))

    def action(self, record: EffectRecord) -> SeenAction | None:
        return find_action(self._reader, record.action_id, record.effect_key)

    def refused(self, record: ApprovalRecord) -> RefusedPresentation | None:
        refusals = self._reader.events_page(
            limit=1, approval_id=record.approval_id, types=_PRESENTED_IN_VAIN
        ).items
        return _presentation(record, refusals[-1]) if refusals else None


class ScannedLookups:
    """All at once, from the newest of each kind."""

    def __init__(self, reader: PagedReader) -> None:
        self._reader = reader

    def effect_key(self, request_id: str) -> str | None:
        asked = self._asked.get(request_id)
        return None if asked is None else asked.effect_key

    def asked_about(self, effect_key: str) -> frozenset[str]:
        return _hashes([event for event in self._asked.values() if event.effect_key == effect_key])

    def action(self, record: EffectRecord) -> SeenAction | None:
        return self._actions.get(record.action_id)

    def refused(self, record: ApprovalRecord) -> RefusedPresentation | None:
        refusal = self._refusals.get(record.approval_id)
        return None if refusal is None else _presentation(record, refusal)

    @cached_property
    def _asked(self) -> dict[str, Event]:
        return self._newest((EventType.APPROVAL_REQUESTED,))

    @cached_property
    def _refusals(self) -> dict[str, Event]:
        return self._newest(_PRESENTED_IN_VAIN)

    @cached_property
    def _actions(self) -> dict[str, SeenAction]:
        receipts = self._reader.receipts_page(limit=_SCANNED).items
        return {receipt.action_id: action_of_receipt(receipt) for receipt in receipts}

    def _newest(self, types: tuple[EventType, ...]) -> dict[str, Event]:
        """By request: its last event of these types."""
        events = self._reader.events_page(limit=_SCANNED, types=types).items
        return {event.approval_id: event for event in events if event.approval_id is not None}


def _hashes(asked: list[Event]) -> frozenset[str]:
    return frozenset(str(event.data.get("action_hash")) for event in asked)


def _presentation(record: ApprovalRecord, refusal: Event) -> RefusedPresentation | None:
    """A refusal, if it came after the grant."""
    if record.granted_at is None or refusal.ts < to_millisecond(record.granted_at):
        return None
    return RefusedPresentation(refusal.ts, str(refusal.data.get("reason")))
