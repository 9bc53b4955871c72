"""delegate: what is handed on, what is refused at which step, and what each leaves behind."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.canonical import has_surrogate
from ctrlrun.clock import iso_timestamp
from ctrlrun.state import SQLiteStateStore
from tests.cli.grants import ACTIONS, HEAD, Grants, bare, grants
from tests.cli.helpers import start, start_program
from tests.lib.hostile import HOSTILE

__all__ = ["bare", "grants"]

ID = re.compile("dlg_[0-9a-f]{32}")


# --- handed on -----------------------------------------------------------------------------------


def test_what_it_says_and_leaves(grants: Grants) -> None:
    ended = grants.delegate()
    assert (ended.code, ended.err) == (0, "")
    first, second, third = ended.lines
    made = first.removeprefix("created ")
    assert ID.fullmatch(made)
    assert second == "parent head at depth 1"
    assert third == f"revoke it with: ctrlrun revoke {made}"
    record = grants.scene.store.get_delegation(made)
    assert record is not None
    assert (record.parent_id, record.depth, record.created_via) == ("head", 1, "cli")
    assert (record.created_by_agent, record.created_by_user) == tuple(HEAD.split("/"))
    data = {
        "delegation_id": made,
        "parent_id": "head",
        "depth": 1,
        "created_by_agent": "head-of-support",
        "created_by_user": "dana@example.com",
        "created_via": "cli",
    }
    (event,) = grants.events()
    assert (event.type, event.action_id, dict(event.data)) == ("DELEGATION_CREATED", None, data)
    (line,) = grants.event_lines()
    assert (line["type"], line["data"], line["event_id"]) == (event.type, data, event.event_id)


def test_json_is_one_line(grants: Grants) -> None:
    ended = grants.delegate("--json")
    (document,) = ended.documents
    assert list(document) == [
        "delegation_id",
        "parent_id",
        "depth",
        "created_by_agent",
        "created_by_user",
        "created_via",
        "created_at",
    ]
    record = grants.scene.store.get_delegation(document["delegation_id"])
    assert record is not None
    assert document["created_at"] == iso_timestamp(record.created_at)
    assert (document["depth"], document["created_via"]) == (1, "cli")


def test_it_can_be_handed_on_again(grants: Grants) -> None:
    first = grants.made()
    ended = grants.delegate(parent=first, as_name="support-agent/dana@example.com")
    assert ended.lines[1] == f"parent {first} at depth 2"


@pytest.mark.parametrize(
    ("as_name", "agent", "user"),
    [("a", "a", None), ("a/", "a", None), ("a/b", "a", "b"), ("a/b/c", "a", "b/c")],
)
def test_as_is_split_at_the_first_slash(
    grants: Grants, as_name: str, agent: str, user: str | None
) -> None:
    ended = grants.delegate(as_name=as_name)
    assert ended.code == 1 and ended.error.startswith("not_the_subject: ")
    text = (grants.folder / "ctrlrun.yaml").read_text("utf-8")
    anyone = "subject: {agent: '*'}"
    grants.policy(text.replace("subject: {agent: head-of-support, user: dana@example.com}", anyone))
    (document,) = grants.delegate("--json", as_name=as_name).documents
    assert (document["created_by_agent"], document["created_by_user"]) == (agent, user)


def test_a_note_and_a_named_operator_are_kept(
    grants: Grants, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants.made()
    assert not {"note", "by"} & set(grants.events()[-1].data)
    monkeypatch.setenv("CTRLRUN_OPERATOR", "alice")
    assert grants.delegate("--note", "for the night").code == 0
    data = grants.events()[-1].data
    assert (data["note"], data["by"], data["created_via"]) == ("for the night", "cli:alice", "cli")


# --- the order of checks -------------------------------------------------------------------------

BROKEN_POLICY = "schema: ctrlrun.policy/v9\n"
NO_STORE = ("--store-url", "sqlite://absent.db")

ORDER: list[tuple[str, int, str]] = [
    # what is wrong from this step on, the exit code, what is named
    ("file", 2, "absent.yaml"),
    ("as", 2, "--as"),
    ("as text", 1, "--as"),
    ("policy", 1, "ctrlrun.yaml"),
    ("authority", 1, "nothing to delegate"),
    ("store", 1, "absent.db"),
    ("grant", 1, "grant.yaml"),
    ("rules", 1, "unknown_parent: "),
]


@pytest.mark.parametrize(("step", "code", "named"), ORDER)
def test_the_first_thing_that_is_wrong_is_what_is_said(
    grants: Grants, step: str, code: int, named: str
) -> None:
    """Everything is wrong from one step on."""
    steps = [name for name, _, _ in ORDER]
    wrong = set(steps[steps.index(step) :])
    if "policy" in wrong:
        grants.policy(BROKEN_POLICY)
    elif "authority" in wrong:
        grants.policy(f"schema: ctrlrun.policy/v3\n{ACTIONS}")
    file = "absent.yaml" if "file" in wrong else grants.grant("[]" if "grant" in wrong else None)
    as_name = "/dana" if "as" in wrong else "a\nb" if "as text" in wrong else HEAD
    arguments = ["delegate", "--parent", "nobody", "--file", file, "--as", as_name]
    ended = grants.ctrlrun(*arguments, *(NO_STORE if "store" in wrong else ()))
    assert (ended.code, ended.out) == (code, "")
    assert named in ended.err and "Traceback" not in ended.err
    rejected = [event.type for event in grants.events()]
    assert rejected == (["DELEGATION_REJECTED"] if step == "rules" else [])


@pytest.mark.parametrize("as_name", ["", " ", "a\nb", "a\x1b[2J", "a/b\u2028c", "a/\u202eb"])
def test_a_name_that_is_no_line_is_refused(grants: Grants, as_name: str) -> None:
    ended = grants.delegate(as_name=as_name)
    assert ended.code == 1 and "--as" in ended.error
    assert "\x1b" not in ended.err and "\u202e" not in ended.err


@pytest.mark.parametrize("as_name", ["/", "/dana@example.com"])
def test_an_empty_agent_cannot_be_asked_for(grants: Grants, as_name: str) -> None:
    ended = grants.delegate(as_name=as_name)
    assert (ended.code, ended.out) == (2, "") and "--as" in ended.err


@pytest.mark.parametrize("missing", ["--parent", "--file", "--as"])
def test_all_three_are_required(grants: Grants, missing: str) -> None:
    options = {"--parent": "head", "--file": grants.grant(), "--as": HEAD}
    given = [part for pair in options.items() if pair[0] != missing for part in pair]
    ended = grants.ctrlrun("delegate", *given)
    assert (ended.code, ended.out) == (2, "") and missing in ended.err


def test_a_folder_is_no_grant_file(grants: Grants) -> None:
    ended = grants.ctrlrun("delegate", "--parent", "head", "--file", ".", "--as", HEAD)
    assert (ended.code, ended.out) == (2, "")


def test_no_policy_at_all_names_init(grants: Grants) -> None:
    (grants.folder / "ctrlrun.yaml").unlink()
    assert "ctrlrun init" in grants.delegate().error


# --- the grant -----------------------------------------------------------------------------------

GRANTS = {
    "not a mapping": ("[]", "mapping"),
    "empty": ("", "mapping"),
    "bad YAML": ("actions: [", "YAML"),
    "a key twice": ("subject: {agent: a}\nsubject: {agent: b}", "subject"),
    "an unknown key": ("subject: {agent: a}\nactions: [b]\nlimit: 5", "limit"),
    "an id": ("id: mine\nsubject: {agent: a}\nactions: [b]", "assigned, not chosen"),
    "a null id": ("id: null\nsubject: {agent: a}\nactions: [b]", "assigned"),
    "no subject": ("actions: [b]", "subject"),
    "no actions": ("subject: {agent: a}", "actions"),
    "a float": ("subject: {agent: a}\nactions: [b]\nconstraints: {x_lte: 1.5}", "x_lte"),
    "no end": ("subject: {agent: a}\nactions: [b]\ndelegable: true", "expires_at"),
    "a mode": ("subject: {agent: a}\nactions: [b]\nmode: observe", "top level"),
    "hostile": ("subject: {agent: a}\nactions: [b]\n? 'x\\e[2J'\n: 1".replace("'", '"'), "unknown"),
}


@pytest.mark.parametrize(("text", "named"), GRANTS.values(), ids=GRANTS)
def test_what_is_no_grant_is_refused_without_an_event(
    grants: Grants, text: str, named: str
) -> None:
    ended = grants.delegate(text=text)
    assert ended.code == 1
    assert "grant.yaml" in ended.error and named in ended.error
    assert "\x1b" not in ended.err
    assert grants.events() == [] and grants.scene.store.delegations() == ()


def test_a_grant_that_is_not_utf_8_is_refused(grants: Grants) -> None:
    (grants.folder / "latin.yaml").write_bytes("subject: {agent: bôt}".encode("latin-1"))
    ended = grants.ctrlrun("delegate", "--parent", "head", "--file", "latin.yaml", "--as", HEAD)
    assert ended.code == 1 and "latin.yaml" in ended.error and "UTF-8" in ended.error


# --- the rules -----------------------------------------------------------------------------------

LATER: dict[str, Any] = {"expires_at": "2999-01-01T00:00:00Z"}
RULES: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "no such parent": ({"parent": "nobody"}, "unknown_parent", None),
    "no such delegation": ({"parent": "dlg_" + "0" * 32}, "unknown_parent", None),
    "a parent that is kept": ({"parent": "kept"}, "parent_not_delegable", None),
    "a parent that ended": ({"parent": "past"}, "parent_not_valid", None),
    "somebody else": ({"as_name": "somebody/dana@example.com"}, "not_the_subject", None),
    "another user": ({"as_name": "head-of-support/bob"}, "not_the_subject", None),
    "any agent": (
        {"subject": {"agent": "*", "user": "dana@example.com"}},
        "containment",
        "subject",
    ),
    "more actions": ({"actions": ["stripe.*"]}, "containment", "actions"),
    "more money": ({"constraints": {"amount_lte": 500001}}, "containment", "constraints"),
    "no limit": ({"constraints": ...}, "containment", "constraints"),
    "longer": (LATER, "containment", "expires_at"),
}


@pytest.mark.parametrize(("changes", "reason", "dimension"), RULES.values(), ids=RULES)
def test_a_rule_that_fails_is_named_and_recorded(
    grants: Grants, changes: dict[str, Any], reason: str, dimension: str | None
) -> None:
    ended = grants.delegate(**changes)
    assert ended.code == 1
    assert ended.error.startswith(f"{reason}: ")
    assert dimension is None or dimension in ended.error
    expected = {"reason": reason, "parent_id": changes.get("parent", "head")}
    if dimension is not None:
        expected["dimension"] = dimension
    (event,) = grants.events()
    assert (event.type, event.action_id) == ("DELEGATION_REJECTED", None)
    assert dict(event.data) == expected
    assert [line["data"] for line in grants.event_lines()] == [expected]
    assert grants.scene.store.delegations(include_revoked=True) == ()


def test_a_revoked_parent_is_unknown(grants: Grants) -> None:
    parent = grants.made()
    grants.ctrlrun("revoke", parent)
    ended = grants.delegate(parent=parent, as_name="support-agent/dana@example.com")
    assert ended.code == 1 and ended.error.startswith("unknown_parent: ")


def test_the_depth_is_bound(grants: Grants) -> None:
    support = "support-agent/dana@example.com"
    second = grants.made(grants.made(), support)
    ended = grants.delegate(parent=second, as_name=support)
    assert ended.code == 1 and ended.error.startswith("max_depth: ")


# --- the store -----------------------------------------------------------------------------------


def test_the_default_store_is_made(bare: Grants) -> None:
    assert bare.delegate().code == 0
    store = SQLiteStateStore(bare.scene.state)
    assert len(store.delegations()) == 1
    store.close()
    assert len(bare.event_lines()) == 1


def test_the_store_of_the_variable_is_made_too(
    bare: Grants, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CTRLRUN_STATE", "elsewhere/state.db")
    assert bare.delegate().code == 0
    assert (bare.folder / "elsewhere" / "events.jsonl").exists()
    assert not bare.scene.state.exists()


def test_several_at_once_make_one_store(bare: Grants) -> None:
    bare.grant()
    command = ("delegate", "--parent", "head", "--file", "grant.yaml", "--as", HEAD)
    children = [start(*command, cwd=bare.folder) for _ in range(4)]
    ended = [(child.communicate(timeout=60)[1], child.returncode) for child in children]
    assert ended == [(b"", 0)] * 4
    store = SQLiteStateStore(bare.scene.state)
    ids = {record.delegation_id for record in store.delegations()}
    assert len(ids) == 4 == len(store.events())
    store.close()
    assert {line["data"]["delegation_id"] for line in bare.event_lines()} == ids


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("refused_for", ["authority", "policy", "grant", "as", "url", "variable"])
def test_nothing_is_made_for_a_refusal_that_needs_no_store(
    bare: Grants, monkeypatch: pytest.MonkeyPatch, refused_for: str
) -> None:
    bare.grant()
    if refused_for == "authority":
        bare.policy(f"schema: ctrlrun.policy/v3\n{ACTIONS}")
    elif refused_for == "policy":
        bare.policy(BROKEN_POLICY)
    elif refused_for == "variable":
        monkeypatch.setenv("CTRLRUN_STORE_URL", f"sqlite://{bare.scene.state}")
    more = ("--store-url", f"sqlite://{bare.scene.state}") if refused_for == "url" else ()
    before = files(bare.folder)
    text = {"text": "[]"} if refused_for == "grant" else {}
    ended = bare.delegate(*more, as_name="" if refused_for == "as" else HEAD, **text)
    assert ended.code == 1 and ended.out == ""
    assert files(bare.folder) == before


def test_the_store_that_is_named_is_used_with_its_events_file(grants: Grants) -> None:
    (grants.folder / "other").mkdir()
    SQLiteStateStore(grants.folder / "other" / "state.db").close()
    assert grants.delegate("--store-url", "sqlite://other/state.db").code == 0
    assert grants.scene.store.delegations() == () and grants.event_lines() == []
    lines = (grants.folder / "other" / "events.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["type"] for line in lines] == ["DELEGATION_CREATED"]


# --- where the grants are ------------------------------------------------------------------------


def test_grants_in_a_document_of_their_own(grants: Grants) -> None:
    path = grants.standalone()
    assert "nothing to delegate" in grants.delegate().error
    assert grants.delegate("--authority", path.name).code == 0


def test_grants_in_both_places_are_refused(grants: Grants) -> None:
    text = (grants.folder / "ctrlrun.yaml").read_text("utf-8")
    path = grants.standalone()
    grants.policy(text)
    error = grants.delegate("--authority", path.name).error
    assert "ctrlrun.yaml" in error and "grants.yaml" in error


@pytest.mark.parametrize(
    ("text", "named"),
    [("schema: ctrlrun.policy/v3\nactions: {}", "actions"), ("schema: ctrlrun.policy/v1", "v3")],
)
def test_a_document_of_grants_holds_nothing_else(grants: Grants, text: str, named: str) -> None:
    path = grants.standalone()
    path.write_text(text)
    error = grants.delegate("--authority", path.name).error
    assert "grants.yaml" in error and named in error


def test_a_document_of_grants_must_be_there(grants: Grants) -> None:
    ended = grants.delegate("--authority", "absent.yaml")
    assert (ended.code, ended.out) == (2, "") and "absent.yaml" in ended.err


# --- observe mode --------------------------------------------------------------------------------

BANNER = "OBSERVE MODE — nothing is enforced"


def test_observe_mode_is_said_before_anything_else(grants: Grants) -> None:
    """Before a warning about the document, too."""
    text = (grants.folder / "ctrlrun.yaml").read_text("utf-8")
    starred = text.replace("- id: kept", "- id: kept\n      environments: ['prod*']")
    grants.policy(starred)
    grants.observe()
    ended = grants.delegate()
    assert ended.code == 0
    banner, warning = ended.err.splitlines()
    assert banner == BANNER
    assert warning.startswith("warning: ") and "prod*" in warning
    assert BANNER not in ended.out and len(ended.lines) == 3


def test_observe_mode_is_said_before_a_refusal_and_not_for_a_bad_policy(grants: Grants) -> None:
    grants.observe()
    refused = grants.delegate(parent="nobody")
    assert refused.code == 1
    assert refused.err.splitlines()[0] == BANNER and "unknown_parent" in refused.err
    grants.policy("mode: observe\nschema: ctrlrun.policy/v9\n")
    assert BANNER not in grants.delegate().err


# --- what others wrote ---------------------------------------------------------------------------


def test_hostile_text_stays_in_its_line(grants: Grants) -> None:
    """In the parent's id, the note and the grant."""
    for text in HOSTILE:
        if not has_surrogate(text):
            _say_everywhere(grants, text)


def _say_everywhere(grants: Grants, text: str) -> None:
    escaped = "".join(f"\\U{ord(character):08x}" for character in text)
    grant = f"""
subject: {{agent: support-agent, user: dana@example.com}}
actions: [stripe.refund]
constraints: {{amount_lte: 1, memo_eq: "{escaped}"}}
expires_at: "{grants.ends.isoformat()}"
"""
    refused = grants.delegate("--note", text, parent=f"x{text}", text=grant)
    assert refused.code == 1 and refused.error.startswith("unknown_parent: "), ascii(text)
    assert refused.error.isprintable(), ascii(text)
    assert grants.events()[-1].data["parent_id"] == f"x{text}"
    made = grants.delegate("--note", text, text=grant)
    assert (made.code, made.err, len(made.lines)) == (0, "", 3), ascii(text)
    record = grants.scene.store.get_delegation(made.lines[0].removeprefix("created "))
    assert record is not None
    assert json.loads(record.grant_json)["constraints"]["memo_eq"] == text
    unread = grants.delegate(text=f'subject: {{agent: a}}\nactions: [b]\n"{escaped}": 1')
    assert unread.code == 1 and unread.error.isprintable(), ascii(text)


@pytest.mark.parametrize("option", ["--parent", "--as", "--note"])
def test_text_that_is_no_text_cannot_be_asked_for(grants: Grants, option: str) -> None:
    ended = grants.delegate(option, "\ud800")
    assert (ended.code, ended.out) == (2, "") and "UTF-8" in ended.err


def test_it_runs_as_a_program(grants: Grants) -> None:
    file = grants.grant()
    child = start_program(
        *("delegate", "--parent", "head", "--file", file, "--as", HEAD), cwd=grants.folder
    )
    assert (child.communicate(timeout=60)[1], child.returncode) == (b"", 0)
    assert len(grants.events()) == 1
    assert timedelta(0) < grants.ends - grants.events()[0].ts
