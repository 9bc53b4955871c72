"""What the two events about authority hold, to the key."""

from __future__ import annotations

from typing import Any

from ctrlrun.authority import AuthorityResult
from tests.cases import walk
from tests.lib.authority.helpers import dlg

D = {"grant_id": dlg(1), "delegation_id": dlg(1), "depth": 2}


@walk(
    ("result", "data"),
    [
        (AuthorityResult(True, "authority_grant", "g"), {"grant_id": "g"}),
        (AuthorityResult(True, "authority_grant", dlg(1), dlg(1), 2), D),
        (AuthorityResult(False, "no_authority"), {}),
        (AuthorityResult(False, "authority_expired", "g"), {"grant_id": "g"}),
        (AuthorityResult(False, "authority_constraint", "g"), {"grant_id": "g"}),
        (AuthorityResult(False, "authority_revoked", dlg(1), dlg(1), 2), D),
        (
            AuthorityResult(False, "authority_unreadable", delegation_id=dlg(1)),
            {"delegation_id": dlg(1), "depth": 0},
        ),
        *(
            (AuthorityResult(False, reason, dlg(1), dlg(1), 2, **{key: value}), D | {key: value})
            for reason, key, value in [
                ("authority_escalation", "dimension", "actions"),
                ("authority_escalation", "missing_parent_id", "gone"),
                ("authority_escalation", "expired_parent_id", "root"),
                ("authority_escalation", "depth_exceeded", 3),
                ("authority_unreadable", "cycle_at", dlg(1)),
            ]
        ),
        (AuthorityResult(False, "authority_escalation", dlg(1), dlg(1), 2), D),
    ],
)
def test_the_data(result: AuthorityResult, data: dict[str, Any]) -> None:
    assert result.event_data() == {"reason": result.reason, **data}
    assert next(iter(result.event_data())) == "reason"
    said = result.describe()
    assert "\n" not in said
    assert "None" not in said
    for value in (result.grant_id, result.missing_parent_id, result.expired_parent_id):
        assert value is None or value in said
