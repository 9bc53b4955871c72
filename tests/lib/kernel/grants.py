"""Grants for kernel tests: who may `pay`, in few words, and rows that were not made by us."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from ctrlrun.action import Principal
from ctrlrun.authority import Authority, DelegationRecord, Grant, Subject
from ctrlrun.conditions import parse_conditions
from tests.lib.kernel.world import START

UNTIL = START + timedelta(days=30)
DANA = Principal("head", "dana")


def grant(grant_id: str = "root", agent: str | None = "head", **changes: Any) -> Grant:
    """A grant for `agent`, and nobody's in particular, to pay up to 10000."""
    facts: dict[str, Any] = {
        "actions": ("pay",),
        "constraints": parse_conditions({"amount_gte": 0, "amount_lte": 10000}, where="test"),
        "expires_at": UNTIL,
        "delegable": True,
        **changes,
    }
    user = facts.pop("user", None)
    return Grant(grant_id, Subject(agent, user), **facts)


def authority(*grants: Grant, depth: int = 3) -> Authority:
    """Such grants as a document's; by default agent `a` may pay up to 10000."""
    given = grants or (grant("root", "a"),)
    return Authority({item.id: item for item in given}, max_delegation_depth=depth)


def handed_on(agent: str = "a", **changes: Any) -> Grant:
    """What the holder of `grant()` hands on: the same, not to be handed on again."""
    return grant("", agent, **{"delegable": False, **changes})


def row(digit: str, parent_id: str, agent: str = "a", **changes: Any) -> DelegationRecord:
    """A row as another program may have written it: parents, grants and times are not checked."""
    document = {
        "actions": ["pay"],
        "constraints": {"amount_gte": 0, "amount_lte": 10000},
        "delegable": False,
        "environments": None,
        "expires_at": UNTIL.isoformat(),
        "resources": None,
        "subject": {"agent": agent, "user": None},
        **changes,
    }
    return DelegationRecord(
        delegation_id="dlg_" + digit * 32,
        parent_id=parent_id,
        depth=1,
        grant_json=json.dumps(document, sort_keys=True, separators=(",", ":")),
        created_by_agent="head",
        created_by_user=None,
        created_via="api",
        created_at=START,
    )
