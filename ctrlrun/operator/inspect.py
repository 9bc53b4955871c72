"""Evidence documents that leave the process: the inspection of an action, requests, effects.

Each is built here and nowhere else, with its keys in their fixed order (docs/format.md). Text forms
are made from them by whoever prints.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

from ctrlrun.approval import ApprovalRecord
from ctrlrun.clock import Clock, iso_timestamp, utc_now
from ctrlrun.effect import EffectRecord
from ctrlrun.operator.delegations import delegation_document
from ctrlrun.operator.holding import holder_document, holding
from ctrlrun.operator.pages import newest_first, oldest_first, paged
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import PagedReader, StateReader

INSPECTION_SCHEMA = "ctrlrun.inspection/v2"


def inspection_for(
    store: StateReader, action_id: str, *, clock: Clock = utc_now
) -> dict[str, Any] | None:
    """One action's whole history as JSON values, or None when no event or receipt has its id.

    Keys: `schema action_id receipt effect approvals events`. The receipt is the first of the id;
    approvals are all those of the same action hash, oldest first; the effect is the record that
    stands now under the key of the receipt, else under the first key among the events, with who
    holds it at the time of `clock`.

    Raises DamagedRow when a row of it cannot be read.
    """
    reader = paged(store)
    events = tuple(oldest_first(partial(reader.events_page, action_id=action_id)))
    receipt = next(oldest_first(partial(reader.receipts_page, action_id=action_id), limit=1), None)
    if receipt is None and not events:
        return None
    effect = _effect(reader, receipt, events)
    return {
        "schema": INSPECTION_SCHEMA,
        "action_id": action_id,
        "receipt": None if receipt is None else receipt.to_dict(),
        "effect": None if effect is None else held_effect_document(reader, effect, clock()),
        "approvals": [approval_document(record) for record in _approvals(reader, receipt, events)],
        "events": [event.to_dict() for event in events],
    }


def find_inspection(
    store: StateReader, some_id: str, *, clock: Clock = utc_now
) -> dict[str, Any] | None:
    """The inspection of the action that an id is about.

    The id of the action, a request (`apr_`) or a receipt (`ctr_`), or an effect key, whose action is
    the one that holds it. None where nothing is known of such an action.
    """
    document = inspection_for(store, some_id, clock=clock)
    if document is not None:
        return document
    request = store.get_approval(some_id)
    effect = store.get_effect(some_id)
    receipt = _receipt(store, some_id) if some_id.startswith("ctr_") else None
    for action_id in (
        None if request is None else request.request.action.action_id,
        None if effect is None else effect.action_id,
        None if receipt is None else receipt.action_id,
    ):
        document = None if action_id is None else inspection_for(store, action_id, clock=clock)
        if document is not None:
            return document
    return None


def _receipt(store: StateReader, receipt_id: str) -> Receipt | None:
    if hasattr(store, "get_receipt"):
        found: Receipt | None = store.get_receipt(receipt_id)
        return found
    every = newest_first(paged(store).receipts_page)
    return next((receipt for receipt in every if receipt.receipt_id == receipt_id), None)


def record_document(
    reader: PagedReader, some_id: str, *, clock: Clock = utc_now
) -> dict[str, Any] | None:
    """What stands under an id of which no action tells: a delegation, a request, an effect."""
    delegation = reader.get_delegation(some_id)
    if delegation is not None:
        return delegation_document(delegation)
    request = reader.get_approval(some_id)
    if request is not None:
        return request_document(request)
    effect = reader.get_effect(some_id)
    return None if effect is None else held_effect_document(reader, effect, clock())


def effect_document(record: EffectRecord) -> dict[str, Any]:
    """An effect record as JSON values; its result stays in the store."""
    return {
        "effect_key": record.effect_key,
        "state": record.state.value,
        "action_id": record.action_id,
        "attempt": record.attempt,
        "created_at": iso_timestamp(record.created_at),
        "updated_at": iso_timestamp(record.updated_at),
        "lease_expires_at": _timestamp(record.lease_expires_at),
        "error": record.error,
        "resolved_by": record.resolved_by,
    }


def held_effect_document(
    reader: PagedReader, record: EffectRecord, now: datetime
) -> dict[str, Any]:
    """`effect_document` and its `holder`, null where nobody wrote it down."""
    found = holding(reader, record, now)
    return effect_document(record) | {"holder": holder_document(found)}


def approval_document(record: ApprovalRecord) -> dict[str, Any]:
    """A request and its answer as JSON values."""
    return {
        "approval_id": record.approval_id,
        "action_hash": record.action_hash,
        "status": record.status.value,
        "approver": record.approver,
        "created_at": iso_timestamp(record.request.created_at),
        "expires_at": iso_timestamp(record.expires_at),
        "granted_at": _timestamp(record.granted_at),
        "consumed_at": _timestamp(record.consumed_at),
    }


def request_document(record: ApprovalRecord) -> dict[str, Any]:
    """`approval_document` and what was asked: `action agent resource arguments`."""
    action = record.request.action
    return approval_document(record) | {
        "action": action.name,
        "agent": action.principal.agent,
        "resource": action.resource,
        "arguments": action.canonical_arguments,
    }


def _effect(
    reader: PagedReader, receipt: Receipt | None, events: tuple[Event, ...]
) -> EffectRecord | None:
    if receipt is not None and receipt.effect_key is not None:
        return reader.get_effect(receipt.effect_key)
    keys = (event.effect_key for event in events if event.effect_key is not None)
    key = next(keys, None)
    return None if key is None else reader.get_effect(key)


def _approvals(
    reader: PagedReader, receipt: Receipt | None, events: tuple[Event, ...]
) -> tuple[ApprovalRecord, ...]:
    action_hash = _action_hash(receipt, events)
    if action_hash is None:
        return ()
    return tuple(oldest_first(partial(reader.approvals_page, action_hash=action_hash)))


def _action_hash(receipt: Receipt | None, events: tuple[Event, ...]) -> str | None:
    if receipt is not None:
        return receipt.action_hash
    for event in events:
        if event.type == "ACTION_PROPOSED":
            found = event.data.get("action_hash")
            return found if isinstance(found, str) else None
    return None


def _timestamp(moment: datetime | None) -> str | None:
    return None if moment is None else iso_timestamp(moment)
