"""delegations: what is listed, in which form, and what a damaged row hides (nothing)."""

from __future__ import annotations

import json
import sqlite3

import pytest

from ctrlrun.authority import DelegationRecord
from ctrlrun.canonical import has_surrogate
from ctrlrun.clock import iso_timestamp, utc_now
from tests.cli.grants import Grants, bare, grants
from tests.lib.hostile import HOSTILE

__all__ = ["bare", "grants"]

SUPPORT = "support-agent/dana@example.com"


def ids(grants: Grants, *arguments: str) -> list[str]:
    return [line.split("  ")[0] for line in grants.ctrlrun("delegations", *arguments).lines]


def test_a_line(grants: Grants) -> None:
    ends = grants.ends.isoformat()
    first = grants.made(expires_at=ends)
    second = grants.made(first, SUPPORT, delegable=False, expires_at=ends)
    grants.ctrlrun("revoke", second, "--by", "the night  shift")
    ended = grants.ctrlrun("delegations", "--all")
    assert (ended.code, ended.err) == (0, "")
    moment = iso_timestamp(grants.ends)
    assert ended.lines == [
        f"{first}  head  depth 1  support-agent  {moment}",
        f"{second}  {first}  depth 2  support-agent  {moment}"
        "  revoked by the night \u27e8U+0020\u27e9shift",
    ]


def test_what_never_ends_and_what_nobody_is_named_for(grants: Grants) -> None:
    grant = json.dumps(
        {"subject": {"agent": None, "user": "dana"}, "actions": ["a"], "constraints": {}}
    )
    name = "dlg_" + "a" * 32
    grants.scene.store.put_delegation(
        DelegationRecord(name, "gone", 1, grant, "head", None, "api", utc_now())
    )
    grants.scene.store.revoke_delegation(name, by=None, at=utc_now())
    assert grants.ctrlrun("delegations", "--all").lines == [
        f"{name}  gone  depth 1  -  -  revoked by -"
    ]


def test_which_are_listed(grants: Grants) -> None:
    first = grants.made()
    second = grants.made()
    third = grants.made(second, SUPPORT)
    grants.ctrlrun("revoke", first)
    assert ids(grants) == [second, third]
    assert ids(grants, "--all") == [first, second, third]
    assert ids(grants, "--parent", "head") == [second]
    assert ids(grants, "--parent", "head", "--all") == [first, second]
    assert ids(grants, "--parent", second) == [third]


def test_what_hangs_beneath_one_that_was_revoked_says_so(grants: Grants) -> None:
    """Also where a row between was deleted, cannot be read, or leads in a circle: as far as seen."""
    top = grants.made()
    middle = grants.made(top, SUPPORT)
    leaf = grants.made(top, SUPPORT)
    grants.damage(leaf, "parent_id", middle)
    other = grants.made()
    circle = grants.made()
    grants.damage(circle, "parent_id", circle)
    grants.ctrlrun("revoke", top)
    marks = [line.split("  ")[5:] for line in grants.ctrlrun("delegations").lines]
    assert marks == [[f"beneath revoked {top}"], [f"beneath revoked {top}"], [], []]
    assert ids(grants) == [middle, leaf, other, circle]
    grants.ctrlrun("revoke", middle, "--by", "ann")
    marks = [line.split("  ")[5:] for line in grants.ctrlrun("delegations", "--all").lines]
    assert [mark[:1] for mark in marks] == [
        ["revoked by cli:local"],
        ["revoked by ann"],
        [f"beneath revoked {middle}"],
        [],
        [],
    ]
    (document, *_) = grants.ctrlrun("delegations", "--json").documents
    assert document["delegation_id"] == leaf and document["revoked_at"] is None
    grants.damage(middle, "created_at", "yesterday")
    assert "beneath" not in grants.ctrlrun("delegations").out


def test_json_has_the_columns(grants: Grants) -> None:
    made = grants.made()
    grants.ctrlrun("revoke", made, "--by", "ann")
    (document,) = grants.ctrlrun("delegations", "--json", "--all").documents
    record = grants.scene.store.get_delegation(made)
    assert record is not None and record.revoked_at is not None
    assert document == {
        "delegation_id": made,
        "parent_id": "head",
        "depth": 1,
        "grant_json": record.grant_json,
        "created_by_agent": "head-of-support",
        "created_by_user": "dana@example.com",
        "created_via": "cli",
        "created_at": iso_timestamp(record.created_at),
        "revoked_at": iso_timestamp(record.revoked_at),
        "revoked_by": "ann",
    }
    connection = sqlite3.connect(grants.scene.state)
    columns = [row[1] for row in connection.execute("PRAGMA table_info(delegations)")]
    connection.close()
    assert list(document) == columns


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no delegations are in force"),
        (("--all",), "no delegations yet"),
        (("--parent", "x\x1b[2J"), "x"),
    ],
)
def test_nothing(grants: Grants, arguments: tuple[str, ...], said: str) -> None:
    ended = grants.ctrlrun("delegations", *arguments)
    assert (ended.code, ended.err) == (0, "")
    (line,) = ended.lines
    assert said in line and line.isprintable()
    as_json = grants.ctrlrun("delegations", "--json", *arguments)
    assert (as_json.code, as_json.out, as_json.err) == (0, "", ended.out)


DAMAGE = [
    ("grant_json", "nonsense"),
    ("grant_json", '{"subject":{"agent":"a"},"actions":"abc","constraints":{}}'),
    ("created_at", "yesterday"),
    ("created_via", "nowhere"),
    ("created_by_agent", ""),
    ("depth", "deep"),
]


@pytest.mark.parametrize(("column", "value"), DAMAGE)
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_damaged_row_is_named_after_the_others(
    grants: Grants, column: str, value: str, form: tuple[str, ...]
) -> None:
    made = [grants.made() for _ in range(3)]
    grants.damage(made[1], column, value)
    ended = grants.ctrlrun("delegations", *form)
    assert ended.code == 1
    shown = ended.out
    assert made[0] in shown and made[2] in shown and made[1] not in shown
    assert len(ended.lines) == 2
    (error,) = ended.err.splitlines()
    assert error.startswith("Error: delegations ") and made[1] in error
    assert ids(grants, "--parent", "nobody") == [
        "no delegation from 'nobody' is in force; --all lists those that were revoked"
    ]
    assert ids(grants, "--parent", "nobody", "--all")[0].startswith("nothing was ever handed on")


def test_many_are_read_page_by_page(grants: Grants) -> None:
    """More than a page of them, one of them damaged, in the order in which they came."""
    template = grants.scene.store.get_delegation(grants.made())
    assert template is not None
    connection = sqlite3.connect(grants.scene.state)
    with connection:
        connection.executemany(
            "INSERT INTO delegations SELECT ?, parent_id, depth, grant_json, created_by_agent, "
            "created_by_user, created_via, created_at, NULL, NULL FROM delegations LIMIT 1",
            [(f"dlg_{number:032x}",) for number in range(700, 0, -1)],
        )
    connection.close()
    damaged = f"dlg_{350:032x}"
    grants.damage(damaged)
    ended = grants.ctrlrun("delegations")
    expected = [f"dlg_{number:032x}" for number in range(700, 0, -1) if number != 350]
    assert [line.split("  ")[0] for line in ended.lines] == [template.delegation_id, *expected]
    assert ended.code == 1 and damaged in ended.err


def test_it_needs_no_policy_and_makes_nothing(grants: Grants) -> None:
    made = grants.made()
    grants.policy("mode: observe\nnonsense: [")
    ended = grants.ctrlrun("delegations")
    assert (ended.code, ended.err) == (0, "") and ended.out.startswith(made)


def test_no_store_is_made(bare: Grants) -> None:
    ended = bare.ctrlrun("delegations")
    assert ended.code == 1 and "no database at" in ended.error
    assert not bare.scene.state.parent.exists()


def test_reading_changes_nothing(grants: Grants) -> None:
    grants.made()
    grants.scene.store.close()
    before = grants.scene.state.read_bytes()
    grants.ctrlrun("delegations", "--all", "--json")
    assert grants.scene.state.read_bytes() == before


def test_hostile_text_stays_in_its_field(grants: Grants) -> None:
    texts = {
        f"dlg_{number:032x}": text for number, text in enumerate(HOSTILE) if not has_surrogate(text)
    }
    for name, text in texts.items():
        grant = json.dumps({"subject": {"agent": f"a{text}"}, "actions": ["a"], "constraints": {}})
        grants.scene.store.put_delegation(
            DelegationRecord(name, f"p{text}", 1, grant, "head", None, "api", utc_now())
        )
        grants.scene.store.revoke_delegation(name, by=f"by{text}", at=utc_now())
    ended = grants.ctrlrun("delegations", "--all")
    assert all(line.isprintable() for line in [*ended.lines, *ended.err.splitlines()])
    listed = [line.split("  ") for line in ended.lines]
    assert {len(fields) for fields in listed} == {6}
    documents = grants.ctrlrun("delegations", "--all", "--json").documents
    assert [document["delegation_id"] for document in documents] == [name for name, *_ in listed]
    for document in documents:
        text = texts.pop(document["delegation_id"])
        assert (document["revoked_by"], document["parent_id"]) == (f"by{text}", f"p{text}")
    assert len(listed) > 60 and texts
    for name, text in texts.items():  # no pattern of a subject may hold that: it grants nothing
        ended = grants.ctrlrun("delegations", "--all", "--parent", f"p{text}")
        (line,) = ended.err.splitlines()
        assert (ended.code, ended.out) == (1, "") and name in line and line.isprintable()
