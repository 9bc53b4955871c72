"""What an evaluation of authority says, and the words of it."""

from __future__ import annotations

from dataclasses import dataclass

AUTHORITY_GRANT = "authority_grant"
AUTHORITY_UNREADABLE = "authority_unreadable"
AUTHORITY_ESCALATION = "authority_escalation"
AUTHORITY_REVOKED = "authority_revoked"
AUTHORITY_EXPIRED = "authority_expired"
AUTHORITY_CONSTRAINT = "authority_constraint"
NO_AUTHORITY = "no_authority"


@dataclass(frozen=True, slots=True)
class AuthorityResult:
    """Whether some grant covers an action, which one, and if none does, why.

    `reason` is one of this module's words. `grant_id` is the grant that passed, or the one that the
    refusal is about; for a delegation `delegation_id` is the same and `depth` its distance from the
    document (1 beneath a grant). At most one of the last five is set: what is wrong with the chain
    above a delegation (docs/authority.md).
    """

    passed: bool
    reason: str
    grant_id: str | None = None
    delegation_id: str | None = None
    depth: int = 0
    dimension: str | None = None
    missing_parent_id: str | None = None
    expired_parent_id: str | None = None
    depth_exceeded: int | None = None
    cycle_at: str | None = None
