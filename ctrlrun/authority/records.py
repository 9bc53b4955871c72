"""Delegations as they are stored, and what reads them: this room's own protocols, not a store.

A store that has the calls of `DelegationFollower` is read in steps: what changed since the last
look, and rows as they stand, damaged ones included. Any other is read whole, each time. The rules
are in docs/authority.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol, TypeGuard


@dataclass(frozen=True, slots=True)
class DelegationRecord:
    """One row of delegations, as stored."""

    delegation_id: str
    parent_id: str
    depth: int
    grant_json: str
    created_by_agent: str
    created_by_user: str | None
    created_via: str
    created_at: datetime
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @property
    def is_revoked(self) -> bool:
        """Whether somebody revoked it."""
        return self.revoked_at is not None


class DelegationReader(Protocol):
    """What evaluation reads: every store has these calls."""

    def get_delegation(self, delegation_id: str) -> DelegationRecord | None: ...
    def delegations_for(self, parent_id: str) -> tuple[DelegationRecord, ...]: ...
    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]: ...


class DelegationRow(NamedTuple):
    """The columns of one row, unjudged: any of them may hold anything."""

    delegation_id: object
    parent_id: object
    depth: object
    grant_json: object
    created_by_agent: object
    created_by_user: object
    created_via: object
    created_at: object
    revoked_at: object
    revoked_by: object


class DelegationChanges(NamedTuple):
    """What a look at a store's delegations found, all of one moment.

    `is_whole` says that `rows` are all rows; else they are those that changed since the mark that
    was given, and `gone` the ids that are no longer there. `mark` stands for this look; None when
    the store cannot tell what changes after it.
    """

    mark: object | None
    is_whole: bool
    rows: tuple[DelegationRow, ...]
    gone: tuple[str, ...] = ()


class DelegationFollower(Protocol):
    """What our stores add: rows unjudged, and only those that changed."""

    def delegation_row(self, delegation_id: str) -> DelegationRow | None: ...
    def delegation_changes(self, mark: object | None) -> DelegationChanges:
        """What changed since `mark`, by whatever process; everything for None or a mark gone by."""
        ...


def is_follower(store: object) -> TypeGuard[DelegationFollower]:
    """Whether a store has the calls; a check of the protocol itself takes longer than the look."""
    return hasattr(store, "delegation_changes") and hasattr(store, "delegation_row")


def row_of(record: DelegationRecord) -> DelegationRow:
    """A record as a row; its times as text."""
    revoked_at = record.revoked_at
    return DelegationRow(
        record.delegation_id,
        record.parent_id,
        record.depth,
        record.grant_json,
        record.created_by_agent,
        record.created_by_user,
        record.created_via,
        _text_of(record.created_at),
        None if revoked_at is None else _text_of(revoked_at),
        record.revoked_by,
    )


def _text_of(moment: object) -> object:
    return moment.isoformat() if isinstance(moment, datetime) else moment
