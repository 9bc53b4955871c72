"""What policy and authority share: `Decision` and conditions over arguments."""

from __future__ import annotations

from enum import StrEnum


class Decision(StrEnum):
    """How much autonomy an action gets."""

    ALLOW = "allow"
    APPROVE = "approve"
    DENY = "deny"
