"""What an evaluation of authority says, and the words of it.

The data of the two authority events is built here and nowhere else. The rules are in
docs/authority.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

AUTHORITY_GRANT = "authority_grant"
AUTHORITY_UNREADABLE = "authority_unreadable"
AUTHORITY_ESCALATION = "authority_escalation"
AUTHORITY_REVOKED = "authority_revoked"
AUTHORITY_EXPIRED = "authority_expired"
AUTHORITY_CONSTRAINT = "authority_constraint"
NO_AUTHORITY = "no_authority"
"""Why an action is covered, or is not."""

UNKNOWN_PARENT = "unknown_parent"
PARENT_NOT_DELEGABLE = "parent_not_delegable"
PARENT_NOT_VALID = "parent_not_valid"
NOT_THE_SUBJECT = "not_the_subject"
MAX_DEPTH = "max_depth"
CONTAINMENT = "containment"
"""Why a grant cannot be handed on."""

_CHAIN_FACTS = (
    "dimension",
    "missing_parent_id",
    "expired_parent_id",
    "cycle_at",
    "depth_exceeded",
)


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

    def event_data(self) -> dict[str, Any]:
        """The data of the event about it, `AUTHORITY_RESOLVED` when it passed, `AUTHORITY_DENIED` when not.

        Keys that do not apply are absent (docs/events.md).
        """
        data: dict[str, Any] = {"reason": self.reason}
        if self.grant_id is not None:
            data["grant_id"] = self.grant_id
        if self.delegation_id is not None:
            data |= {"delegation_id": self.delegation_id, "depth": self.depth}
            facts = ((name, getattr(self, name)) for name in _CHAIN_FACTS)
            data |= {name: fact for name, fact in facts if fact is not None}
        return data

    def describe(self) -> str:
        """The verdict as one line for a person, such as the message of an AuthorityDenied."""
        if self.reason == AUTHORITY_GRANT:
            return f"{self._name()} covers it"
        if self.reason == NO_AUTHORITY:
            return "no_authority: no grant covers this principal, action, resource and environment"
        return f"{self.reason}: {self._name()} {self._problem()}"

    def _name(self) -> str:
        if self.delegation_id is not None:
            return f"delegation {self.delegation_id or repr(self.delegation_id)}"
        return f"grant {self.grant_id}"

    def _problem(self) -> str:
        if self.missing_parent_id is not None:
            return f"stands beneath {self.missing_parent_id}, which is no grant and no delegation"
        if self.expired_parent_id is not None:
            return f"stands beneath {self.expired_parent_id}, which has expired"
        if self.dimension is not None:
            return f"is, or stands beneath, one that is wider than its parent in {self.dimension}"
        if self.cycle_at is not None:
            return f"leads in a circle at {self.cycle_at}; revoke it to let others act again"
        if self.depth_exceeded is not None:
            return f"stands at depth {self.depth_exceeded}, deeper than the document allows"
        return _PROBLEMS[self.reason]


_PROBLEMS = {
    AUTHORITY_UNREADABLE: "cannot be read, so nobody may act; revoke it to let others act again",
    AUTHORITY_ESCALATION: "stands beneath one that may not be delegated",
    AUTHORITY_REVOKED: "was revoked, or stands beneath one that was",
    AUTHORITY_EXPIRED: "has expired",
    AUTHORITY_CONSTRAINT: "sets limits that the arguments do not keep",
}
