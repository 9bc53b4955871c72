"""Delegations as documents, and the event that tells who made one: what screens show of a row."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from ctrlrun.authority import DelegationRecord, grant_to_json
from ctrlrun.clock import iso_timestamp
from ctrlrun.operator.authority_state import AuthorityRow
from ctrlrun.operator.searching import search
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import PagedReader

_LOOK_BACK = 1_000


def delegation_document(record: DelegationRecord) -> dict[str, Any]:
    """The columns of a row, times as text."""
    revoked_at = record.revoked_at
    return {
        "delegation_id": record.delegation_id,
        "parent_id": record.parent_id,
        "depth": record.depth,
        "grant_json": record.grant_json,
        "created_by_agent": record.created_by_agent,
        "created_by_user": record.created_by_user,
        "created_via": record.created_via,
        "created_at": iso_timestamp(record.created_at),
        "revoked_at": None if revoked_at is None else iso_timestamp(revoked_at),
        "revoked_by": record.revoked_by,
    }


def authority_document(row: AuthorityRow) -> dict[str, Any]:
    """A line of the tree as a document: a delegation's row, a grant of the document in full."""
    if row.node.record is not None:
        return delegation_document(row.node.record)
    if row.node.grant is not None:
        return {"id": row.node.node_id, "grant": json.loads(grant_to_json(row.node.grant))}
    return {"id": row.node.node_id, "detail": row.node.damage}


def made_event(reader: PagedReader, delegation_id: str) -> Event | None:
    """The DELEGATION_CREATED of an id, if it is among the newest of them; it names no action."""
    found = search(
        partial(reader.events_page, types=(EventType.DELEGATION_CREATED,)),
        lambda event: event.data.get("delegation_id") == delegation_id,
        at_least=1,
        budget=_LOOK_BACK,
    )
    return found.items[-1] if found.items else None
