"""Stored grants, read: strictly, as an evaluation reads them, and kept as long as their text stands.

A store of ten thousand delegations is looked at several times a second; each text is parsed once.
Nothing is kept about whether a delegation still counts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from ctrlrun.authority import (
    DelegationRecord,
    Grant,
    contained_dimension,
    delegation_from_row,
    row_of,
)
from ctrlrun.errors import CTRLRunError


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stored delegation that cannot be read, and why, in a line."""

    why: str


class GrantTexts:
    """What stored rows say. Safe to use from several threads: at worst a row is read twice."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[DelegationRecord, Grant | Unreadable]] = {}
        self._fits: dict[str, tuple[Grant, Grant, str | None]] = {}
        self._expiries: dict[str, tuple[str, datetime | None]] = {}

    def read(self, record: DelegationRecord) -> Grant | Unreadable:
        """The grant of a row, or why there is none."""
        kept = self._read.get(record.delegation_id)
        if kept is not None and (kept[0] is record or _same_row(kept[0], record)):
            return kept[1]
        found = _read(record)
        self._read[record.delegation_id] = (record, found)
        return found

    def wider_in(self, holder: Grant, grant: Grant) -> str | None:
        """The first dimension in which a stored grant is wider than its holder, or None."""
        kept = self._fits.get(grant.id)
        if kept is None or kept[0] is not holder or kept[1] is not grant:
            kept = (holder, grant, contained_dimension(holder, grant))
            self._fits[grant.id] = kept
        return kept[2]

    def expiry(self, record: DelegationRecord) -> datetime | None:
        """When a row's time is over, looked up without reading all of it."""
        kept = self._expiries.get(record.delegation_id)
        if kept is None or kept[0] != record.grant_json:
            kept = (record.grant_json, expiry_of(record))
            self._expiries[record.delegation_id] = kept
        return kept[1]


def _same_row(one: DelegationRecord, other: DelegationRecord) -> bool:
    """Whether two readings of a row agree in all that a grant is read from."""
    return (
        one.grant_json == other.grant_json
        and one.created_via == other.created_via
        and one.created_by_agent == other.created_by_agent
    )


def _read(record: DelegationRecord) -> Grant | Unreadable:
    """As an evaluation reads it: what cannot be read there must not look readable here."""
    try:
        return delegation_from_row(row_of(record)).grant
    except CTRLRunError as error:
        return Unreadable(str(error).removeprefix(f"{record.delegation_id}: "))


def expiry_of(record: DelegationRecord) -> datetime | None:
    """When a row's time is over; None where it has no end, or cannot be read."""
    try:
        document = json.loads(record.grant_json)
        moment = datetime.fromisoformat(document["expires_at"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return moment if moment.utcoffset() is not None else None
