"""revoke: taken back once, with whatever else is broken, and nothing else for a repetition."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from ctrlrun.canonical import has_surrogate
from ctrlrun.clock import new_id
from ctrlrun.state import SQLiteStateStore
from tests.cli.grants import ACTIONS, Grants, bare, grants
from tests.cli.helpers import Ended
from tests.lib.hostile import HOSTILE

__all__ = ["bare", "grants"]

BANNER = "OBSERVE MODE — nothing is enforced"
UNKNOWN = "dlg_" + "0" * 32


def revoked_by(grants: Grants, delegation_id: str) -> str | None:
    record = grants.scene.store.get_delegation(delegation_id)
    assert record is not None and record.is_revoked
    return record.revoked_by


@pytest.mark.parametrize(
    ("arguments", "operator", "recorded"),
    [
        ((), None, "cli:local"),
        ((), "alice", "cli:alice"),
        (("--by", "the night shift"), None, "the night shift"),
        (("--by", "tui:bob"), "alice", "tui:bob"),
    ],
)
def test_what_it_says_and_leaves(
    grants: Grants,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    operator: str | None,
    recorded: str,
) -> None:
    made = grants.made()
    if operator is not None:
        monkeypatch.setenv("CTRLRUN_OPERATOR", operator)
    ended = grants.ctrlrun("revoke", made, *arguments)
    assert (ended.code, ended.err) == (0, "")
    assert ended.lines[0] == f"revoked {made} by {recorded}"
    assert len(ended.lines) == 2 and "next evaluation" in ended.lines[1]
    assert revoked_by(grants, made) == recorded
    data = {"delegation_id": made, "revoked_by": recorded}
    event = grants.events()[-1]
    assert (event.type, event.action_id, dict(event.data)) == ("DELEGATION_REVOKED", None, data)
    assert grants.event_lines()[-1]["data"] == data


def test_a_repetition_says_when_it_was_and_writes_nothing(grants: Grants) -> None:
    made = grants.made()
    grants.ctrlrun("revoke", made, "--by", "ann")
    before, lines = grants.events(), grants.event_lines()
    ended = grants.ctrlrun("revoke", made, "--by", "bob", "--note", "again")
    assert (ended.code, ended.err) == (0, "")
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(f"{made} was already revoked at {time}\n", ended.out)
    assert (grants.events(), grants.event_lines()) == (before, lines)
    assert revoked_by(grants, made) == "ann"


def test_what_is_beneath_stays_as_it_is(grants: Grants) -> None:
    parent = grants.made()
    child = grants.made(parent, "support-agent/dana@example.com")
    grants.ctrlrun("revoke", parent)
    record = grants.scene.store.get_delegation(child)
    assert record is not None and not record.is_revoked


def test_a_note_is_kept(grants: Grants) -> None:
    grants.ctrlrun("revoke", grants.made(), "--note", "left the team")
    assert grants.events()[-1].data["note"] == "left the team"


# --- refused -------------------------------------------------------------------------------------


def refused(grants: Grants, ended: Ended, *named: str) -> None:
    assert ended.code == 1
    assert [name for name in named if name not in ended.error] == []
    assert grants.events() == []


@pytest.mark.parametrize("delegation_id", [UNKNOWN, "dlg_", "nobody", "DLG_" + "0" * 32])
def test_an_unknown_id_is_named(grants: Grants, delegation_id: str) -> None:
    refused(grants, grants.ctrlrun("revoke", delegation_id), delegation_id)


def test_an_empty_id_is_an_unknown_one(grants: Grants) -> None:
    refused(grants, grants.ctrlrun("revoke", ""), "no delegation ''")


def test_a_grant_is_taken_out_of_its_document(grants: Grants) -> None:
    refused(grants, grants.ctrlrun("revoke", "head"), "head", "ctrlrun.yaml")
    path = grants.standalone()
    ended = grants.ctrlrun("revoke", "head", "--authority", path.name)
    refused(grants, ended, "head", "grants.yaml")


@pytest.mark.parametrize("by", ["", " ", "a\nb", "a\x1b[2J", "a\u2028b"])
def test_a_by_that_is_no_line_is_refused(grants: Grants, by: str) -> None:
    made = grants.made()
    ended = grants.ctrlrun("revoke", made, "--by", by)
    assert ended.code == 1 and "--by" in ended.error and ended.error.isprintable()
    assert len(grants.events()) == 1


def test_a_blank_operator_is_refused(grants: Grants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRLRUN_OPERATOR", "")
    refused(grants, grants.ctrlrun("revoke", UNKNOWN), "CTRLRUN_OPERATOR")


@pytest.mark.parametrize("arguments", [(), (UNKNOWN, "x"), (UNKNOWN, "--authority", "absent")])
def test_usage(grants: Grants, arguments: tuple[str, ...]) -> None:
    ended = grants.ctrlrun("revoke", *arguments)
    assert (ended.code, ended.out) == (2, "")


# --- with everything else broken -----------------------------------------------------------------


def _no_policy(grants: Grants) -> tuple[str, ...]:
    (grants.folder / "ctrlrun.yaml").unlink()
    return ()


def _broken_policy(grants: Grants) -> tuple[str, ...]:
    grants.policy("schema: ctrlrun.policy/v9\n")
    return ()


def _broken_section(grants: Grants) -> tuple[str, ...]:
    grants.policy(f"schema: ctrlrun.policy/v3\nauthority: {{grants: [1]}}{ACTIONS}")
    return ()


def _both(grants: Grants) -> tuple[str, ...]:
    text = (grants.folder / "ctrlrun.yaml").read_text("utf-8")
    path = grants.standalone()
    grants.policy(text)
    return ("--authority", path.name)


@pytest.mark.parametrize("broken", [_no_policy, _broken_policy, _broken_section, _both])
def test_a_policy_that_does_not_load_is_said_and_it_is_revoked(
    grants: Grants, broken: object
) -> None:
    made = grants.made()
    assert callable(broken)
    more = broken(grants)
    ended = grants.ctrlrun("revoke", made, *more)
    assert ended.code == 0
    assert ended.lines[0] == f"revoked {made} by cli:local"
    (said,) = ended.err.splitlines()
    assert "does not load" in said and "ctrlrun.yaml" in said
    assert revoked_by(grants, made) == "cli:local"


def test_no_section_is_no_matter(grants: Grants) -> None:
    made = grants.made()
    grants.policy(f"schema: ctrlrun.policy/v2\n{ACTIONS}")
    ended = grants.ctrlrun("revoke", made)
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("grant_json", "nonsense"),
        ("created_at", "yesterday"),
        ("created_via", "nowhere"),
        ("delegation_id", "dlg_odd"),
    ],
)
def test_a_row_that_nobody_can_read_is_revoked(grants: Grants, column: str, value: str) -> None:
    """It denies every action of everybody until it is."""
    made = grants.made()
    grants.damage(made, column, value)
    name = value if column == "delegation_id" else made
    ended = grants.ctrlrun("revoke", name)
    assert (ended.code, ended.lines[0]) == (0, f"revoked {name} by cli:local")
    assert grants.events()[-1].data["delegation_id"] == name
    again = grants.ctrlrun("revoke", name)
    assert again.code == 0 and again.out.startswith(f"{name} was already revoked at ")


def test_observe_mode_is_said_first(grants: Grants) -> None:
    made = grants.made()
    grants.observe()
    ended = grants.ctrlrun("revoke", made)
    assert (ended.code, ended.err) == (0, f"{BANNER}\n")
    refused = grants.ctrlrun("revoke", UNKNOWN)
    assert refused.err.splitlines()[0] == BANNER and UNKNOWN in refused.err


# --- the store -----------------------------------------------------------------------------------


def test_no_store_is_made(bare: Grants) -> None:
    ended = bare.ctrlrun("revoke", UNKNOWN)
    assert ended.code == 1
    assert UNKNOWN in ended.error and "no database at" in ended.error
    assert not bare.scene.state.parent.exists()


def test_the_store_that_is_named_is_used_with_its_events_file(grants: Grants) -> None:
    (grants.folder / "other").mkdir()
    SQLiteStateStore(grants.folder / "other" / "state.db").close()
    url = ("--store-url", "sqlite://other/state.db")
    (document,) = grants.delegate("--json", *url).documents
    assert grants.ctrlrun("revoke", document["delegation_id"]).code == 1
    assert grants.ctrlrun("revoke", document["delegation_id"], *url).code == 0
    lines = Path("other/events.jsonl").read_text("utf-8").splitlines()
    kinds = [json.loads(line)["type"] for line in lines]
    assert kinds == ["DELEGATION_CREATED", "DELEGATION_REVOKED"]
    assert grants.event_lines() == []


# --- what others wrote ---------------------------------------------------------------------------


def test_hostile_text_stays_in_its_line(grants: Grants) -> None:
    template = grants.scene.store.get_delegation(grants.made())
    assert template is not None
    for text in HOSTILE:
        if not has_surrogate(text):
            made = replace(template, delegation_id=new_id("dlg_"))
            grants.scene.store.put_delegation(made)
            _say_everywhere(grants, made.delegation_id, text)


def _say_everywhere(grants: Grants, made: str, text: str) -> None:
    unknown = grants.ctrlrun("revoke", f"dlg_{text}", "--note", text)
    assert unknown.code == 1 and unknown.error.isprintable(), ascii(text)
    ended = grants.ctrlrun("revoke", made, "--note", text, "--by", f"by {text}")
    if ended.code:
        assert "--by" in ended.error and ended.error.isprintable(), ascii(text)
        assert grants.ctrlrun("revoke", made, "--note", text).code == 0, ascii(text)
    else:
        assert len(ended.lines) == 2 and ended.lines[0].isprintable(), ascii(text)
        assert revoked_by(grants, made) == f"by {text}"
