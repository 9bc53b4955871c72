"""Delegations as they are stored, and what reads them: this room's own protocol, not a store.

The rules are in docs/authority.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


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
