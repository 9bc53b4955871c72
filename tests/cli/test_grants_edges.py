"""delegate, revoke, delegations at their edges: odd ids, odd times, names that are blank."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.cli.grants import Grants, grants

__all__ = ["grants"]


def test_an_empty_parent_is_an_unknown_one(grants: Grants) -> None:
    ended = grants.delegate(parent="")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("Error: unknown_parent: '': ")
    assert [dict(event.data) for event in grants.events()] == [
        {"reason": "unknown_parent", "parent_id": ""}
    ]


@pytest.mark.parametrize("as_name", ["/dana", " /dana"])
def test_a_blank_agent_is_none(grants: Grants, as_name: str) -> None:
    ended = grants.delegate(as_name=as_name)
    assert (ended.code, ended.out) == (2, "")
    assert "names no agent" in ended.err


def test_what_a_grant_file_may_hold_is_said_without_the_id(grants: Grants) -> None:
    ended = grants.delegate(decision="allow")
    assert (ended.code, ended.out) == (1, "")
    assert "unknown key 'decision'; allowed: subject, actions" in ended.err


@pytest.mark.parametrize(
    ("expires_at", "shown"),
    [
        ("9999-12-31T23:59:59-23:59", "9999-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00.000Z"),
    ],
)
def test_a_delegation_until_the_end_of_the_calendar_is_listed(
    grants: Grants, expires_at: str, shown: str
) -> None:
    text = (grants.folder / "ctrlrun.yaml").read_text("utf-8")
    grants.policy(text.replace(grants.ends.isoformat(), "9999-12-31T23:59:59.999999-23:59"))
    made = grants.made(expires_at=expires_at)
    ended = grants.ctrlrun("delegations")
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines == [f"{made}  head  depth 1  support-agent  {shown}"]


def test_a_row_without_an_id_is_taken_back(grants: Grants) -> None:
    made = grants.made()
    with closing(sqlite3.connect(grants.scene.state)) as connection, connection:
        connection.execute("UPDATE delegations SET delegation_id = NULL")
    assert grants.ctrlrun("delegations").code == 1
    ended = grants.ctrlrun("revoke", "")
    assert (ended.code, ended.err) == (0, "")
    assert made not in ended.out
    assert grants.ctrlrun("delegations").code == 0
