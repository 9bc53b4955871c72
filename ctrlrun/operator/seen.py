"""What an action was, read from wherever the store has written it down.

An effect record names only the id of its action. The action itself stands in a receipt or in an
approval request; `find_action` looks there, in this order, and says where it found it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.canonical import plain
from ctrlrun.receipt import Event, EventType, Receipt
from ctrlrun.state import PagedReader


class SeenIn(StrEnum):
    """Where an action was read from; `RIVAL` is another action's receipt for the same effect."""

    APPROVAL = "approval"
    RECEIPT = "receipt"
    RIVAL = "rival"


@dataclass(frozen=True, slots=True)
class SeenAction:
    """An action as recorded; `arguments` are plain values in canonical (sorted) order.

    `action_hash` is the hash as recorded beside it, which an altered row no longer matches.
    """

    action_id: str
    name: str
    arguments: Mapping[str, Any]
    principal: Principal
    resource: str | None
    environment: str
    action_hash: str
    seen_in: SeenIn


def action_of_request(action: Action, action_hash: str) -> SeenAction:
    """The action of an approval request, with the hash that the request was stored under."""
    return SeenAction(
        action.action_id,
        action.name,
        action.canonical_arguments,
        action.principal,
        action.resource,
        action.environment,
        action_hash,
        SeenIn.APPROVAL,
    )


def action_of_receipt(receipt: Receipt, *, seen_in: SeenIn = SeenIn.RECEIPT) -> SeenAction:
    """The action that a receipt describes."""
    arguments: dict[str, Any] = plain(receipt.arguments, "arguments")
    return SeenAction(
        receipt.action_id,
        receipt.action,
        _sorted(arguments),
        receipt.principal,
        receipt.resource,
        receipt.environment,
        receipt.action_hash,
        seen_in,
    )


def find_action(
    reader: PagedReader, action_id: str, effect_key: str | None = None
) -> SeenAction | None:
    """The action of an id: from its receipt, from a request about it, or from a rival's receipt.

    A call that died before its outcome has no receipt and, without an approval, left its arguments
    nowhere; a later attempt at the same `effect_key` then shows what it was about, marked as such.
    None when nothing tells.
    """
    receipts = reader.receipts_page(limit=1, action_id=action_id).items
    if receipts:
        return action_of_receipt(receipts[-1])
    requested = _requested_action(reader, action_id)
    if requested is not None or effect_key is None:
        return requested
    rivals = reader.receipts_page(limit=1, effect_key=effect_key).items
    return action_of_receipt(rivals[-1], seen_in=SeenIn.RIVAL) if rivals else None


def effect_key_of(reader: PagedReader, request_id: str) -> str | None:
    """The effect key that a request is about, which only its event holds; None without one."""
    asked = reader.events_page(
        limit=1, approval_id=request_id, types=(EventType.APPROVAL_REQUESTED,)
    ).items
    return asked[-1].effect_key if asked else None


def requests_about(reader: PagedReader, effect_key: str, *, look_back: int) -> list[Event]:
    """The proposals of a key that asked a person, among its newest `look_back` events.

    Without that bound an agent that retries one key all night would make every look at it slow.
    """
    newest = reader.events_page(limit=look_back, effect_key=effect_key).items
    return [event for event in newest if event.type == EventType.APPROVAL_REQUESTED]


def _requested_action(reader: PagedReader, action_id: str) -> SeenAction | None:
    proposals = reader.events_page(
        limit=1, action_id=action_id, types=(EventType.ACTION_PROPOSED,)
    ).items
    action_hash = proposals[-1].data.get("action_hash") if proposals else None
    if not isinstance(action_hash, str):
        return None
    records = reader.approvals_page(limit=1, action_hash=action_hash).items
    if not records:
        return None
    record = records[-1]
    return action_of_request(record.request.action, record.action_hash)


def _sorted(value: Any) -> Any:
    """Mappings in canonical order, all the way down."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value
