"""How much care a grant takes, and whether the policy that asked is the one that is read.

Whatever is not known to be harmless is high. The rules are in docs/answers.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ctrlrun.approval import ApprovalRecord
from ctrlrun.operator.policy_view import PolicyUnread, PolicyView

HARMLESS_ENVIRONMENTS = frozenset(
    {
        "ci",
        "demo",
        "dev",
        "development",
        "local",
        "qa",
        "sandbox",
        "stage",
        "staging",
        "test",
        "testing",
    }
)
"""Environments whose names say that nothing real hangs on them; any other is as production."""


class PolicyStand(StrEnum):
    """The policy that is read now, beside the one that asked."""

    UNCHANGED = "unchanged"
    CHANGED = "changed"
    UNREAD = "not read"
    UNRECORDED = "not recorded"


_STAND_WORDS = {
    PolicyStand.CHANGED: "the policy changed since it asked",
    PolicyStand.UNREAD: "policy not read",
    PolicyStand.UNRECORDED: "the policy that asked is not recorded",
}


@dataclass(frozen=True, slots=True)
class Risk:
    """How much care a grant takes; `why` has a sentence for each reason, empty when it is low."""

    high: bool
    why: tuple[str, ...]


def policy_stand(record: ApprovalRecord, policy: PolicyView | PolicyUnread) -> PolicyStand:
    """Whether the policy that asked is the one that is read now."""
    if isinstance(policy, PolicyUnread):
        return PolicyStand.UNREAD
    asked_under = record.policy_hash_at_approval
    if asked_under is None:
        return PolicyStand.UNRECORDED
    environment = record.request.action.environment
    if policy.is_what_asked(asked_under, environment):
        return PolicyStand.UNCHANGED
    return PolicyStand.CHANGED


def assess(
    environment: str, stand: PolicyStand, reason: str | None, controls: tuple[str, ...]
) -> Risk:
    """How much care a grant takes: whatever is not known to be harmless is high."""
    why: list[str] = []
    if environment.strip().casefold() not in HARMLESS_ENVIRONMENTS:
        why.append(f"environment {environment}")
    if stand is not PolicyStand.UNCHANGED:
        why.append(_STAND_WORDS[stand])
    elif reason is None:
        why.append("the rule that asked is not known")
    if controls:
        why.append(f"cites {', '.join(controls)}")
    return Risk(bool(why), tuple(why))
