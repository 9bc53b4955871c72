"""Grants as they are written: what a section may say, patterns, and the same checks by hand."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.authority import (
    ACTION_SEPARATOR,
    DEFAULT_MAX_DELEGATION_DEPTH,
    RESOURCE_SEPARATOR,
    Authority,
    Grant,
    Subject,
    authority_form,
    only_authority,
    parse_section,
    validate_pattern,
)
from ctrlrun.conditions import Condition
from ctrlrun.documents import read_document
from ctrlrun.errors import InvalidArgument, PolicyError
from ctrlrun.policy import Policy
from tests.cases import walk

MINIMAL: dict[str, Any] = {"id": "g", "subject": {"agent": "bot"}, "actions": ["a.b"]}
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
BOT = Subject(agent="bot")


def parse(*grants: Any, **section: Any) -> Authority:
    return parse_section({"grants": list(grants), **section}, source="file.yaml")


def grant(**keys: Any) -> Grant:
    return parse({**MINIMAL, **keys}).grants[keys.get("id", "g")]


def refusal(section: Any) -> str:
    with pytest.raises(PolicyError) as caught:
        parse_section(section, source="file.yaml")
    message = str(caught.value)
    assert message.startswith("file.yaml: ")
    return message


# --- the section ---------------------------------------------------------------------------------


def test_no_grants_is_a_section() -> None:
    authority = parse()
    assert dict(authority.grants) == {}
    assert authority.max_delegation_depth == DEFAULT_MAX_DELEGATION_DEPTH == 3
    assert authority.source == "file.yaml"


@walk(
    ("section", "says"),
    [
        (None, "mapping"),
        ([], "mapping"),
        ({}, "grants"),
        ({"grants": None}, "grants"),
        ({"grants": {}}, "list"),
        ({"grants": [], "mode": "observe"}, "top level"),
        ({"grants": [], "depth": 1}, "'depth'"),
        ({"grants": [], "max_delegation_depth": None}, "max_delegation_depth"),
        ({"grants": [], "max_delegation_depth": True}, "max_delegation_depth"),
        ({"grants": [], "max_delegation_depth": -1}, "max_delegation_depth"),
        ({"grants": [], "max_delegation_depth": "3"}, "max_delegation_depth"),
        ({"grants": [], "max_delegation_depth": 1.5}, "max_delegation_depth"),
    ],
)
def test_what_a_section_refuses(section: Any, says: str) -> None:
    assert says in refusal(section)


def test_depth_zero_is_allowed() -> None:
    assert parse(max_delegation_depth=0).max_delegation_depth == 0


def test_grants_are_kept_by_id_in_order_and_read_only() -> None:
    authority = parse({**MINIMAL, "id": "z"}, {**MINIMAL, "id": "no_authority"})
    assert list(authority.grants) == ["z", "no_authority"]
    with pytest.raises(TypeError):
        authority.grants["x"] = authority.grants["z"]  # type: ignore[index]


def test_an_id_given_twice_is_refused() -> None:
    message = refusal({"grants": [MINIMAL, MINIMAL]})
    assert "grants[1]" in message
    assert "'g'" in message


# --- one grant -----------------------------------------------------------------------------------


def test_the_defaults_of_a_grant() -> None:
    assert grant() == Grant("g", BOT, ("a.b",))
    assert grant().resources is None
    assert grant().environments is None
    assert grant().expires_at is None
    assert grant().delegable is False
    assert dict(grant().constraints) == {}


def test_a_full_grant() -> None:
    full = grant(
        id="a.b_c-9",
        subject={"agent": "bot-*", "user": "ana@example.com"},
        actions=["stripe.*", "**"],
        resources=["payment:EU-*"],
        constraints={"amount_lte": 100, "region_in": ["eu"]},
        environments=["staging"],
        expires_at="2030-01-01T12:00:00Z",
        delegable=True,
    )
    assert full.subject == Subject("bot-*", "ana@example.com")
    assert full.actions == ("stripe.*", "**")
    assert full.resources == ("payment:EU-*",)
    assert full.environments == ("staging",)
    assert full.expires_at == NOON
    assert full.delegable is True
    assert full.constraints == {
        "amount_lte": Condition("amount_lte", "amount", "lte", 100),
        "region_in": Condition("region_in", "region", "in", ["eu"]),
    }


@walk("key", ["id", "subject", "actions"])
def test_required_keys(key: str) -> None:
    message = refusal({"grants": [MINIMAL, {k: v for k, v in MINIMAL.items() if k != key}]})
    assert f"grants[1]: {key} is missing" in message


@walk(
    "key",
    [*MINIMAL, "resources", "constraints", "environments", "expires_at", "delegable"],
)
def test_null_is_never_a_value(key: str) -> None:
    message = refusal({"grants": [{**MINIMAL, key: None}]})
    assert "grants[0]" in message
    assert key in message


@walk(
    ("keys", "says"),
    [
        ({"decision": "allow"}, "'decision'"),
        ({"mode": "observe"}, "top level"),
        ({"id": ""}, "id"),
        ({"id": 5}, "id"),
        ({"id": "-a"}, "id"),
        ({"id": "a b"}, "id"),
        ({"id": "a\n"}, "id"),
        ({"id": "größe"}, "id"),
        ({"id": "dlg_1"}, "dlg_"),
        ({"subject": "bot"}, "subject"),
        ({"subject": {}}, "subject"),
        ({"subject": {"agent": None}}, "agent"),
        ({"subject": {"agent": ""}}, "agent"),
        ({"subject": {"agent": 5}}, "agent"),
        ({"subject": {"agent": "a**"}}, "agent"),
        ({"subject": {"group": "x"}}, "'group'"),
        ({"subject": {"agent": "a", "issuer": "x"}}, "'issuer'"),
        ({"actions": []}, "actions"),
        ({"actions": "a.b"}, "actions"),
        ({"actions": ["a..b"]}, "actions[0]"),
        ({"actions": ["a", 5]}, "actions[1]"),
        ({"resources": []}, "resources"),
        ({"resources": "a"}, "resources"),
        ({"resources": ["a:"]}, "resources[0]"),
        ({"constraints": {}}, "constraints"),
        ({"constraints": []}, "constraints"),
        ({"constraints": {"amount": 1}}, "'amount'"),
        ({"constraints": {"amount_lte": 1.5}}, "minor units"),
        ({"constraints": {"amount_lte": True}}, "int"),
        ({"constraints": {"data_scope_in": ["phi"]}}, "data_scope"),
        ({"constraints": {"user_eq": "ana"}}, "reserved"),
        ({"constraints": {"region_not_in": ["eu"]}}, "region_not_in"),
        ({"environments": []}, "environments"),
        ({"environments": "dev"}, "environments"),
        ({"environments": [""]}, "environments[0]"),
        ({"environments": ["dev", 5]}, "environments[1]"),
        ({"expires_at": "2030-01-01"}, "offset"),
        ({"expires_at": "2030-01-01T00:00:00"}, "offset"),
        ({"expires_at": "soon"}, "'soon'"),
        ({"expires_at": 1893456000}, "expires_at"),
        ({"expires_at": True}, "expires_at"),
        ({"delegable": "true", "expires_at": "2030-01-01T00:00:00Z"}, "delegable"),
        ({"delegable": 1, "expires_at": "2030-01-01T00:00:00Z"}, "delegable"),
        ({"delegable": True}, "expires_at"),
    ],
)
def test_what_a_grant_refuses(keys: dict[str, Any], says: str) -> None:
    message = refusal({"grants": [{**MINIMAL, "id": "first"}, {**MINIMAL, **keys}]})
    assert "grants[1]" in message
    assert says in message


@walk("item", [None, "g", []])
def test_a_grant_is_a_mapping(item: Any) -> None:
    assert "grants[0]" in refusal({"grants": [item]})


@walk(
    ("text", "moment"),
    [
        ("2030-01-01T12:00:00Z", NOON),
        ("2030-01-01 12:00:00Z", NOON),
        ("2030-01-01T14:00:00+02:00", NOON),
        ("'2030-01-01T12:00:00+00:00'", NOON),
        ("'2030-01-01T12:00:00.5Z'", NOON + timedelta(seconds=0.5)),
    ],
)
def test_times_with_an_offset(text: str, moment: datetime) -> None:
    value = read_document(f"v: {text}", source="file.yaml")["v"]
    assert grant(expires_at=value).expires_at == moment


@walk("text", ["2030-01-01", "2030-01-01T12:00:00", "2030-01-01 12:00:00"])
def test_yaml_times_without_an_offset_are_refused(text: str) -> None:
    value = read_document(f"v: {text}", source="file.yaml")["v"]
    assert "offset" in refusal({"grants": [{**MINIMAL, "expires_at": value}]})


def test_a_star_in_an_environment_is_no_wildcard_and_warned_about(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert grant(environments=["dev-*"]).environments == ("dev-*",)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "'dev-*'" in record.getMessage()


# --- patterns ------------------------------------------------------------------------------------


@walk(
    "pattern",
    [
        "a",
        "a.b",
        "*",
        "a*",
        "a.*",
        "*.b",
        "a*.b*",
        "**",
        "a.**",
        "a.b.**",
        "a b.c",
        "größe.*",
        "a:b*",
    ],
)
def test_well_formed_patterns(pattern: str) -> None:
    assert validate_pattern(pattern, separator=ACTION_SEPARATOR, where="here") == pattern
    swapped = pattern.replace(":", "").replace(".", ":")
    assert validate_pattern(swapped, separator=RESOURCE_SEPARATOR, where="here") == swapped


@walk(
    "pattern",
    [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a?",
        "a[b",
        "a]b",
        "*a",
        "a*b",
        "a.*b",
        "**.a",
        "a.**.b",
        "a**",
        "a.b**",
        "***",
        "a*.**",
        "*.**",
        5,
        None,
    ],
)
def test_malformed_patterns(pattern: Any) -> None:
    with pytest.raises(PolicyError, match=r"^here: "):
        validate_pattern(pattern, separator=ACTION_SEPARATOR, where="here")


@walk(
    ("pattern", "well_formed"),
    [
        ("acme.bot:1", True),
        ("*", True),
        ("bot-*", True),
        ("**", False),
        ("a.**", False),
        ("", False),
        ("a?", False),
        ("*a", False),
    ],
)
def test_a_subject_is_one_segment(pattern: str, well_formed: bool) -> None:
    for name in ("agent", "user"):
        if well_formed:
            assert getattr(Subject(**{name: pattern}), name) == pattern
        else:
            with pytest.raises(InvalidArgument, match=f"subject.{name}"):
                Subject(**{name: pattern})


# --- built by hand -------------------------------------------------------------------------------

LIMIT = Condition("amount_lte", "amount", "lte", 5)


@walk(
    ("fields", "says"),
    [
        ({"id": None}, "id"),
        ({"id": "a b"}, "id"),
        ({"subject": {"agent": "bot"}}, "subject"),
        ({"actions": ()}, "actions"),
        ({"actions": "a.b"}, "actions"),
        ({"actions": ("a..b",)}, "actions"),
        ({"resources": ()}, "resources"),
        ({"resources": "a"}, "resources"),
        ({"environments": ()}, "environments"),
        ({"environments": "dev"}, "environments"),
        ({"environments": ("",)}, "environments"),
        ({"constraints": None}, "constraints"),
        ({"constraints": {"amount_lte": 5}}, "amount_lte"),
        ({"constraints": {"other_lte": LIMIT}}, "other_lte"),
        ({"constraints": {"a": Condition("a", "amount", "lte", 5)}}, "amount_lte"),
        ({"constraints": {"user_eq": Condition("user_eq", "user", "eq", "x")}}, "reserved"),
        (
            {
                "constraints": {
                    "data_scope_in": Condition("data_scope_in", "data_scope", "in", ["x"])
                }
            },
            "reserved",
        ),
        ({"constraints": {"a_not_in": Condition("a_not_in", "a_not", "in", ["x"])}}, "not_in"),
        ({"expires_at": datetime(2030, 1, 1)}, "offset"),
        ({"expires_at": "2030-01-01T00:00:00Z"}, "expires_at"),
        ({"delegable": 1, "expires_at": NOON}, "delegable"),
        ({"delegable": True}, "expires_at"),
    ],
)
def test_a_grant_built_by_hand_is_checked_alike(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        Grant(**{"id": "g", "subject": BOT, "actions": ("a.b",), **fields})


@walk("grant_id", ["", "dlg_0123", "g.1"])
def test_ids_that_a_program_may_give(grant_id: str) -> None:
    assert Grant(grant_id, BOT, ("a",)).id == grant_id


def test_a_grant_is_a_snapshot() -> None:
    actions, constraints = ["a.b"], {"amount_lte": LIMIT}
    built = Grant("g", BOT, actions, constraints=constraints)  # type: ignore[arg-type]
    actions.append("**")
    constraints.clear()
    assert built.actions == ("a.b",)
    assert list(built.constraints) == ["amount_lte"]
    with pytest.raises(TypeError):
        built.constraints["x"] = LIMIT  # type: ignore[index]


def test_a_subject_needs_somebody() -> None:
    with pytest.raises(InvalidArgument, match="subject"):
        Subject()


@walk(
    ("grants", "depth"),
    [
        ({}, -1),
        ({}, True),
        ({}, "3"),
        ([], 3),
        ({"other": Grant("g", BOT, ("a",))}, 3),
        ({"g": {"id": "g"}}, 3),
    ],
)
def test_an_authority_built_by_hand_is_checked(grants: Any, depth: Any) -> None:
    with pytest.raises(InvalidArgument):
        Authority(grants, max_delegation_depth=depth)


def test_the_form_that_is_hashed_has_every_key() -> None:
    assert authority_form(None) is None
    authority = parse({**MINIMAL, "constraints": {"region_in": ["eu"]}}, max_delegation_depth=1)
    form = json.loads(json.dumps(authority_form(authority)))
    assert form == {
        "max_delegation_depth": 1,
        "grants": {
            "g": {
                "actions": ["a.b"],
                "constraints": {"region_in": {"argument": "region", "op": "in", "operand": ["eu"]}},
                "delegable": False,
                "environments": None,
                "expires_at": None,
                "resources": None,
                "subject": {"agent": "bot", "user": None},
            }
        },
    }


# --- whole documents -----------------------------------------------------------------------------

DOCUMENT = """
schema: ctrlrun.policy/v3
authority:
  max_delegation_depth: 2
  grants:
    - id: g
      subject: {agent: bot}
      actions: [a.b]
"""
WITH_POLICY = DOCUMENT + "actions: {a.b: {decision: allow}}\nmode: observe\n"


@walk("schema", ["v3", "v4"])
@walk("standalone", [True, False])
def test_a_document_of_grants(schema: str, standalone: bool) -> None:
    text = DOCUMENT.replace("v3", schema)
    authority = Authority.from_yaml(text, source="grants.yaml", standalone=standalone)
    assert list(authority.grants) == ["g"]
    assert (authority.max_delegation_depth, authority.source) == (2, "grants.yaml")


def test_the_other_keys_are_a_policys_business_unless_the_document_stands_alone() -> None:
    assert list(Authority.from_yaml(WITH_POLICY).grants) == ["g"]
    with pytest.raises(PolicyError, match=r"^grants\.yaml: .*'actions'"):
        Authority.from_yaml(WITH_POLICY, source="grants.yaml", standalone=True)


def test_a_section_reads_alike_in_a_policy_and_beside_it() -> None:
    inline = Policy.from_yaml(WITH_POLICY).authority
    assert authority_form(inline) == authority_form(Authority.from_yaml(DOCUMENT, standalone=True))


@walk("standalone", [True, False])
@walk(
    ("text", "says"),
    [
        (DOCUMENT.replace("v3", "v1"), "authority needs schema ctrlrun.policy/v3"),
        (DOCUMENT.replace("v3", "v2"), "authority needs schema ctrlrun.policy/v3"),
        (DOCUMENT.replace("v3", "v9"), "ctrlrun.policy/v3"),
        (DOCUMENT.replace("schema: ctrlrun.policy/v3", ""), "schema is missing"),
        (DOCUMENT.replace("schema: ctrlrun.policy/v3", "schema: [x]"), "schema"),
        ("schema: ctrlrun.policy/v3\n", "authority is missing"),
        ("schema: ctrlrun.policy/v3\nauthority:\n", "authority"),
        ("schema: ctrlrun.policy/v3\nauthority: {grants: null}\n", "grants"),
        (DOCUMENT + "authority: {grants: []}\n", "line 9"),
        (DOCUMENT + "      actions: [c]\n", "line 9"),
        (DOCUMENT + "      mode: observe\n", "top level"),
        ("- a", "mapping"),
    ],
)
def test_what_a_document_refuses(text: str, says: str, standalone: bool) -> None:
    with pytest.raises(PolicyError) as caught:
        Authority.from_yaml(text, source="grants.yaml", standalone=standalone)
    message = str(caught.value)
    assert message.startswith("grants.yaml: ")
    assert says in message
    assert "\n" not in message


def test_a_file_of_grants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grants.yaml"
    path.write_text(DOCUMENT, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert Authority.from_file("grants.yaml").source == str(path)
    path.write_text(WITH_POLICY, encoding="utf-8")
    with pytest.raises(PolicyError, match="'actions'"):
        Authority.from_file(path)


def test_a_file_that_cannot_be_read_is_named_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"schema: \xe9")
    for name in ("gone.yaml", "latin.yaml", "."):
        with pytest.raises(PolicyError) as caught:
            Authority.from_file(tmp_path / name)
        assert str(tmp_path) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidArgument):
        Authority.from_file(5)  # type: ignore[arg-type]


def test_grants_come_from_one_place() -> None:
    section = Authority({}, source="policy.yaml")
    beside = Authority({}, source="grants.yaml")
    assert only_authority(None, None) is None
    assert only_authority(section, None) is section
    assert only_authority(None, beside) is beside
    with pytest.raises(PolicyError, match=r"policy\.yaml.*grants\.yaml"):
        only_authority(section, beside)


def test_a_document_gives_every_grant_a_name() -> None:
    with pytest.raises(InvalidArgument):
        Authority({"": Grant("", BOT, ("a",))})
