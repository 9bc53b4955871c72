"""Delegations as documents, and the event that tells who made one: what screens show of a row."""

from __future__ import annotations

import json
from datetime import datetime
from functools import partial
from typing import Any

from ctrlrun.authority import DelegationRecord, grant_from_json, grant_to_json
from ctrlrun.clock import iso_timestamp
from ctrlrun.errors import CTRLRunError, DamagedRow
from ctrlrun.operator.authority_state import AuthorityRow
from ctrlrun.operator.grant_texts import expiry_of
from ctrlrun.operator.searching import search
from ctrlrun.operator.standing import Standing
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


def grant_file(record: DelegationRecord) -> str | None:
    """The grant of a row as the text of a file for `ctrlrun delegate`; None where it cannot be read."""
    try:
        grant = grant_from_json(record.grant_json, delegation_id=record.delegation_id)
    except CTRLRunError:
        return None
    document: dict[str, Any] = json.loads(grant_to_json(grant))
    document["subject"] = _present(document["subject"])
    document = _present(document)
    if not document["constraints"]:
        del document["constraints"]
    return json.dumps(document, ensure_ascii=False)


def _present(document: dict[str, Any]) -> dict[str, Any]:
    """Without what is null: a grant file leaves that out."""
    return {key: value for key, value in document.items() if value is not None}


def delegation_standing(reader: PagedReader, delegation_id: str, now: datetime) -> Standing:
    """What has become of a delegation itself, whatever stands above it."""
    try:
        record = reader.get_delegation(delegation_id)
    except DamagedRow:
        return Standing("unreadable")
    if record is None:
        return Standing("gone")
    if record.is_revoked:
        return Standing("revoked", record.revoked_by, record.revoked_at)
    ends_at = expiry_of(record)
    is_over = ends_at is not None and now > ends_at
    return Standing("expired", None, ends_at) if is_over else Standing("in force")


class RevokedAbove:
    """Which delegation above others was revoked, each row of the ways up looked at once.

    A row that cannot be read, or is not there, ends a way.
    """

    def __init__(self, reader: PagedReader) -> None:
        self._reader = reader
        self._found: dict[str, str | None] = {}

    def of(self, record: DelegationRecord) -> str | None:
        """The id of the nearest one above that was revoked, or None."""
        way: dict[str, None] = {}
        at: str | None = record.parent_id
        while at is not None and at not in self._found and at not in way:
            way[at] = None
            above = self._look(at)
            if above is not None and above.is_revoked:
                self._found[at] = at
            else:
                at = None if above is None else above.parent_id
        found = None if at is None else self._found.get(at)
        self._found.update(dict.fromkeys(way, found))
        return found

    def _look(self, delegation_id: str) -> DelegationRecord | None:
        try:
            return self._reader.get_delegation(delegation_id)
        except DamagedRow:
            return None


def made_event(reader: PagedReader, delegation_id: str) -> Event | None:
    """The DELEGATION_CREATED of an id, if it is among the newest of them; it names no action."""
    found = search(
        partial(reader.events_page, types=(EventType.DELEGATION_CREATED,)),
        lambda event: event.data.get("delegation_id") == delegation_id,
        at_least=1,
        budget=_LOOK_BACK,
    )
    return found.items[-1] if found.items else None
