"""Policy documents: what they may say, how they refuse, and how they decide."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal
from ctrlrun.conditions import Decision
from ctrlrun.control import Control
from ctrlrun.errors import InvalidArgument, PolicyError
from ctrlrun.policy import Evaluation, McpOptions, Policy, PolicyControl, discover_policy_path
from tests.cases import walk

BOT = Principal("bot")
REPOSITORY = Path(__file__).parents[2]


def document(version: int = 4, /, **sections: Any) -> str:
    """A policy document; JSON is YAML, and keeps the order of its keys."""
    return json.dumps({"schema": f"ctrlrun.policy/v{version}", "actions": {}, **sections})


def entry(item: Any, version: int = 4, /, **sections: Any) -> str:
    return document(version, actions={"a.b": item}, **sections)


def load(text: str) -> Policy:
    return Policy.from_yaml(text)


def refusal(text: str) -> str:
    with pytest.raises(PolicyError) as caught:
        Policy.from_yaml(text, source="policy.yaml")
    message = str(caught.value)
    assert message.startswith("policy.yaml: ")
    return message


def decide(policy: Policy, name: str = "a.b", **arguments: Any) -> Evaluation:
    return policy.evaluate(Action(name, arguments, BOT))


# --- top level -----------------------------------------------------------------------------------


@walk("version", [1, 2, 3, 4])
def test_an_empty_policy_of_each_version_denies_all(version: int) -> None:
    policy = load(document(version))
    assert policy.schema == f"ctrlrun.policy/v{version}"
    assert decide(policy) == Evaluation(Decision.DENY, "unknown_action", ())
    assert (policy.environment, policy.mode, policy.version) == (None, "enforce", None)
    assert (policy.authority, policy.source) == (None, "<string>")
    assert (dict(policy.actions), dict(policy.controls)) == ({}, {})


@walk(
    "schema", [None, "", "ctrlrun.policy/v5", "ctrlrun.policy/V1", "v1", 1, ["ctrlrun.policy/v1"]]
)
def test_the_schema_is_never_assumed(schema: Any) -> None:
    for text in (document(schema=schema), "actions: {}\n"):
        message = refusal(text)
        for version in (1, 2, 3, 4):
            assert f"ctrlrun.policy/v{version}" in message


@walk(
    ("sections", "says"),
    [
        ({"actions": None}, ["actions", "mapping"]),
        ({"actions": []}, ["actions", "mapping"]),
        ({"rules": []}, ["'rules'", "allowed", "actions", "authority", "version"]),
        ({"1": 2}, ["'1'", "allowed"]),
        ({"approvers": ["ana"]}, ["'approvers'"]),
        ({"environment": None}, ["environment", "null"]),
        ({"environment": "  "}, ["environment", "blank"]),
        ({"environment": 5}, ["environment", "string"]),
        ({"mode": None}, ["mode", "observe", "enforce"]),
        ({"mode": "off"}, ["mode", "'off'"]),
        ({"mode": False}, ["mode"]),
        ({"mode": "Enforce"}, ["mode", "'Enforce'"]),
        ({"mode": True}, ["mode"]),
        ({"version": None}, ["version"]),
        ({"version": " "}, ["version", "blank"]),
        ({"version": 3}, ["version", "string"]),
        ({"authority": None}, ["authority", "mapping"]),
        ({"authority": {}}, ["grants"]),
        ({"authority": {"grants": [{"id": "g"}]}}, ["grants[0]", "subject"]),
    ],
)
def test_what_the_top_level_refuses(sections: dict[str, Any], says: list[str]) -> None:
    message = refusal(document(**sections))
    for part in says:
        assert part in message


def test_no_actions_is_an_error_and_says_what_denies_all() -> None:
    assert "actions is missing" in refusal("schema: ctrlrun.policy/v1\n")


@walk(
    ("key", "value", "needs"),
    [
        ("environment", "dev", 3),
        ("mode", "enforce", 3),
        ("authority", {"grants": []}, 3),
        ("version", "1", 4),
        ("controls", {}, 4),
    ],
)
def test_a_newer_top_level_key_is_refused_even_when_null(key: str, value: Any, needs: int) -> None:
    for version in range(1, needs):
        for written in (value, None):
            message = refusal(document(version, **{key: written}))
            assert key in message
            assert f"needs schema ctrlrun.policy/v{needs}" in message
    load(document(needs, **{key: value}))


def test_the_top_level_is_read() -> None:
    policy = load(document(environment=" staging ", mode="observe", version=" 7 "))
    assert (policy.environment, policy.mode, policy.version) == ("staging", "observe", " 7 ")


def test_a_policy_holds_its_grants() -> None:
    grants = [{"id": "g", "subject": {"agent": "bot"}, "actions": ["a.b"]}]
    authority = load(document(3, authority={"grants": grants})).authority
    assert authority is not None
    assert list(authority.grants) == ["g"]


# --- check order ---------------------------------------------------------------------------------

TOP_FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("schema", {"schema": "x"}),
    ("unknown key 'unknown'", {"unknown": 1}),
    ("actions: must be a mapping", {"actions": None}),
    ("environment", {"environment": ""}),
    ("mode", {"mode": ""}),
    ("version", {"version": ""}),
    ("controls", {"controls": 5}),
    ("a.b", {"actions": {"a.b": None}}),
    ("authority", {"authority": None}),
]


@walk("first", range(len(TOP_FAULTS)))
def test_the_first_fault_of_a_document_is_raised(first: int) -> None:
    sections: dict[str, Any] = {}
    for _, fault in reversed(TOP_FAULTS[first:]):
        sections.update(fault)
    assert refusal(document(**sections)).startswith(f"policy.yaml: {TOP_FAULTS[first][0]}")


@walk(
    ("version", "sections", "says"),
    [
        (2, {"environment": "", "version": ""}, "environment needs schema"),
        (2, {"mode": "", "version": ""}, "mode needs schema"),
        (3, {"environment": "", "version": ""}, "environment: must not be blank"),
        (3, {"version": "", "actions": {"a": None}}, "version needs schema"),
    ],
)
def test_newer_keys_are_checked_before_values(
    version: int, sections: dict[str, Any], says: str
) -> None:
    assert refusal(document(version, **sections)).startswith(f"policy.yaml: {says}")


ENTRY_FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("mode", {"mode": "observe"}),
    ("'unknown'", {"unknown": 1}),
    ("exactly one", {"decision": "allow", "rules": []}),
    ("effect", {"effect": "{"}),
    ("resource", {"resource": "{"}),
    ("mcp", {"mcp": 5}),
    ("controls", {"controls": 5}),
    ("data", {"data": 5}),
    ("decision", {"decision": "maybe"}),
]


@walk("first", range(len(ENTRY_FAULTS)))
def test_the_first_fault_of_an_entry_is_raised(first: int) -> None:
    item: dict[str, Any] = {}
    for _, fault in reversed(ENTRY_FAULTS[first:]):
        item.update(fault)
    message = refusal(entry(item))
    assert message.startswith("policy.yaml: a.b: ")
    assert ENTRY_FAULTS[first][0] in message


RULE_FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("mode", {"mode": "observe"}),
    ("'unknown'", {"unknown": 1}),
    ("decision", {"decision": "maybe"}),
    ("controls", {"controls": 5}),
    ("when", {"when": {}}),
]


@walk("first", range(len(RULE_FAULTS)))
def test_the_first_fault_of_a_rule_is_raised(first: int) -> None:
    rule: dict[str, Any] = {"decision": "allow"}
    for _, fault in reversed(RULE_FAULTS[first:]):
        rule.update(fault)
    message = refusal(entry({"rules": [{"decision": "deny"}, rule]}))
    assert message.startswith("policy.yaml: a.b: rule[1]")
    assert RULE_FAULTS[first][0] in message


# --- entries -------------------------------------------------------------------------------------


@walk("name", ["on", "1", "null", "2030-01-01", "1.5"])
def test_an_action_name_is_a_string(name: str) -> None:
    message = refusal(f"schema: ctrlrun.policy/v1\nactions: {{{name}: {{decision: allow}}}}\n")
    assert "quotes" in message


@walk("name", ["", "  ", "a\nb", "a\x7f", "a\u202eb", "a\u200b", "a\u2028b", "a\u2029"])
def test_an_action_name_is_printable_and_not_blank(name: str) -> None:
    assert "action name" in refusal(document(actions={name: {"decision": "allow"}}))


@walk("name", ["stripe.*", "Stripe.Refund", "a b", "größe", "支払い", "*", "."])
def test_action_names_match_exactly(name: str) -> None:
    policy = load(document(actions={name: {"decision": "allow"}}))
    assert decide(policy, name).decision is Decision.ALLOW
    for other in (name + "x", name.swapcase(), "stripe.refund", name + " "):
        if other != name:
            assert decide(policy, other).reason == "unknown_action"


@walk("decision", ["allow", "approve", "deny"])
def test_a_bare_decision_is_the_decision(decision: str) -> None:
    policy = load(entry({"decision": decision}, 1))
    assert decide(policy, amount=1) == Evaluation(Decision(decision), "decision")
    assert policy.actions["a.b"].decision is Decision(decision)


@walk("value", [None, "", "Allow", "ALLOW", "yes", True, 1, ["allow"], {"allow": 1}])
def test_other_decisions_are_refused(value: Any) -> None:
    for item in ({"decision": value}, {"rules": [{"decision": value}]}):
        message = refusal(entry(item, 1))
        assert "allow, approve, deny" in message


@walk(
    ("item", "says"),
    [
        (None, ["mapping"]),
        ("allow", ["mapping"]),
        ([], ["mapping"]),
        ({}, ["exactly one", "neither"]),
        ({"effect": "x"}, ["exactly one", "neither"]),
        ({"decision": "allow", "rules": [{"decision": "deny"}]}, ["exactly one", "both"]),
        ({"rules": []}, ["rules", "empty"]),
        ({"rules": None}, ["rules", "list"]),
        ({"rules": {"decision": "deny"}}, ["rules", "list"]),
        ({"rules": ["deny"]}, ["rule[0]", "mapping"]),
        ({"rules": [{}]}, ["rule[0]", "decision is missing"]),
        ({"rules": [{"when": {"x_eq": 1}}]}, ["rule[0]", "decision is missing"]),
        (
            {"rules": [{"decision": "deny", "effect": "x"}]},
            ["rule[0]", "'effect'", "decision, when, controls"],
        ),
        ({"rules": [{"decision": "deny", "when": {}}]}, ["rule[0]", "when", "empty"]),
        ({"rules": [{"decision": "deny", "when": None}]}, ["rule[0]", "when", "null"]),
        ({"rules": [{"decision": "deny", "when": []}]}, ["rule[0]", "when", "list"]),
        ({"rules": [{"decision": "deny", "when": {"amount": 1}}]}, ["rule[0]", "'amount'"]),
        (
            {"rules": [{"decision": "deny", "when": {"amount_lt": 1.5}}]},
            ["rule[0]", "amount_lt", "int"],
        ),
        (
            {"rules": [{"decision": "deny", "when": {"user_eq": "x"}}]},
            ["rule[0]", "user_eq", "reserved"],
        ),
        ({"rules": [{"decision": "deny", "when": {"x_not_in": []}}]}, ["rule[0]", "x_not_in"]),
        ({"decision": "allow", "mode": "observe"}, ["mode", "top-level"]),
        ({"rules": [{"decision": "deny", "mode": "observe"}]}, ["rule[0]", "mode", "top-level"]),
        ({"decision": "allow", "lease": 5}, ["'lease'", "allowed"]),
    ],
)
def test_what_an_entry_refuses(item: Any, says: list[str]) -> None:
    message = refusal(entry(item))
    for part in ["a.b", *says]:
        assert part in message


@walk(
    ("key", "value", "needs"),
    [("effect", "x", 2), ("resource", "x", 2), ("mcp", {}, 2), ("data", {}, 4)],
)
def test_a_newer_entry_key_is_refused_even_when_null(key: str, value: Any, needs: int) -> None:
    for version in range(1, needs):
        for written in (value, None):
            message = refusal(entry({"decision": "allow", key: written}, version))
            assert f"{key} needs schema ctrlrun.policy/v{needs}" in message
    load(entry({"decision": "allow", key: value}, needs))


@walk("key", ["effect", "resource"])
def test_templates_of_an_entry(key: str) -> None:
    policy = load(entry({"decision": "allow", key: "k:{a}"}, 2))
    templates = {"effect": policy.effect_template, "resource": policy.resource_template}
    assert templates[key]("a.b") == "k:{a}"
    assert templates[key]("unlisted") is None
    assert load(entry({"decision": "allow", key: None}, 2)).actions["a.b"].effect is None
    for template in ("", "{", "k:{data_scope}", 5, ["x"]):
        message = refusal(entry({"decision": "allow", key: template}, 2))
        assert message.startswith(f"policy.yaml: a.b: {key}: ")


@walk("template", ["{resource}", "{agent}:{user}"])
def test_reserved_names_may_stand_in_templates(template: str) -> None:
    load(entry({"decision": "allow", "effect": template}, 2))


NUMBERED = {"when": {"item_gte": 1}, "decision": "allow"}


@walk(
    ("item", "warned"),
    [
        ({"decision": "allow", "effect": "refund:{order}:{item}"}, ["effect"]),
        ({"decision": "allow", "effect": "{a}{b}", "resource": "{a}/{b}"}, ["effect", "resource"]),
        ({"decision": "allow", "effect": "{resource}:{item}"}, ["effect"]),
        ({"rules": [NUMBERED, {"decision": "approve"}], "effect": "{order}:{item}"}, ["effect"]),
        ({"rules": [NUMBERED, {"decision": "deny"}], "effect": "{order}:{item}"}, []),
        ({"rules": [NUMBERED], "effect": "{order}:{item}", "resource": "{item}"}, []),
        ({"rules": [NUMBERED], "effect": "{order}{item}"}, ["effect"]),
    ],
)
def test_templates_whose_keys_can_collide_are_warned_about(
    item: dict[str, Any], warned: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    load(entry(item, 2))
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * len(warned)
    for record, key in zip(caplog.records, warned, strict=True):
        assert f"a.b: {key}: different arguments can make one value" in record.getMessage()
        assert item[key] in record.getMessage()


def test_mcp_options() -> None:
    for value, flag in [(None, False), ({}, False), ({"not_executed_on_error": True}, True)]:
        policy = load(entry({"decision": "allow", "mcp": value}, 2))
        assert policy.mcp_options("a.b").not_executed_on_error is flag
    assert load(document()).mcp_options("unlisted") == McpOptions(not_executed_on_error=False)
    refused: Any
    for refused in (
        [],
        True,
        {"not_executed_on_error": 1},
        {"not_executed_on_error": None},
        {"x": True},
    ):
        assert "mcp" in refusal(entry({"decision": "allow", "mcp": refused}, 2))


@walk(
    ("data", "says"),
    [
        ([], "mapping"),
        ({"note": None}, "note"),
        ({"note": ""}, "blank"),
        ({"note": " "}, "blank"),
        ({"note": 5}, "string"),
        ({"note": ["phi"]}, "string"),
        ({"note": {}}, "label"),
        ({"note": {"label": None}}, "label"),
        ({"note": {"label": "phi", "x": 1}}, "'x'"),
        ({"note": {"label": "phi", "redact": True}}, "no redaction"),
        ({"note": {"redact": None}}, "no redaction"),
        ({"": "phi"}, "blank"),
        ({"data_scope": "phi"}, "data_scope"),
    ],
)
def test_what_data_refuses(data: Any, says: str) -> None:
    message = refusal(entry({"decision": "allow", "data": data}))
    assert message.startswith("policy.yaml: a.b: data")
    assert says in message


# --- controls ------------------------------------------------------------------------------------


@walk(
    ("controls", "says"),
    [
        ([], "mapping"),
        ({"c": None}, "mapping"),
        ({"c": "Title"}, "mapping"),
        ({"c": {}}, "title"),
        ({"c": {"title": ""}}, "blank"),
        ({"c": {"title": " "}}, "blank"),
        ({"c": {"title": 5}}, "string"),
        ({"c": {"title": "T", "source": None}}, "source"),
        ({"c": {"title": "T", "source": " "}}, "source"),
        ({"c": {"title": "T", "level": 1}}, "'level'"),
        ({"c": {"title": "T\u202e"}}, "U+202E"),
        ({"c": {"title": "T\n"}}, "U+000A"),
        ({"": {"title": "T"}}, "id"),
        ({" ": {"title": "T"}}, "id"),
        ({"c\x1b": {"title": "T"}}, "U+001B"),
        ({"c\u200b": {"title": "T"}}, "U+200B"),
        ({"c" * 201: {"title": "T"}}, "200"),
    ],
)
def test_what_the_registry_refuses(controls: Any, says: str) -> None:
    message = refusal(document(controls=controls))
    assert message.startswith("policy.yaml: controls")
    assert says in message


def test_a_control_id_is_a_string() -> None:
    assert "string" in refusal(
        "schema: ctrlrun.policy/v4\nactions: {}\ncontrols: {1: {title: T}}\n"
    )


def test_the_registry_is_read_in_order() -> None:
    policy = load(
        document(controls={"z" * 200: {"title": "Z", "source": "S\n1"}, "a": {"title": "A"}})
    )
    assert list(policy.controls.values()) == [
        PolicyControl("z" * 200, "Z", "S\n1"),
        PolicyControl("a", "A", None),
    ]


@walk("version", [1, 2, 3, 4])
@walk("cited", [None, []])
def test_citing_nothing_is_fine_in_any_version(version: int, cited: Any) -> None:
    item = {"controls": cited, "rules": [{"decision": "allow", "controls": cited}]}
    assert decide(load(entry(item, version))).controls == ()


@walk("cited", [["nowhere"], ["c-one", "nowhere"], [1], [None]])
def test_an_unknown_citation_names_those_declared(cited: Any) -> None:
    registry = {"c-one": {"title": "One"}, "c-two": {"title": "Two"}}
    for item in (
        {"decision": "allow", "controls": cited},
        {"rules": [{"decision": "allow", "controls": cited}]},
    ):
        message = refusal(entry(item, controls=registry))
        assert repr(cited[-1]) in message
        assert "c-one" in message
        assert "c-two" in message


def test_a_citation_without_registry_says_where_one_is_declared() -> None:
    message = refusal(entry({"decision": "allow", "controls": ["c"]}, 1))
    assert "registry" in message
    assert "ctrlrun.policy/v4" in message


def test_controls_are_those_of_rule_and_entry_in_registry_order() -> None:
    item = {
        "controls": ["c2", "c2"],
        "rules": [
            {"decision": "approve", "when": {"x_eq": 1}, "controls": ["c3", "c1", "c3"]},
            {"decision": "allow", "when": {"x_eq": 2}},
        ],
    }
    registry = {f"c{n}": {"title": "T"} for n in (1, 2, 3)}
    policy = load(
        document(
            actions={"a.b": item, "bare": {"decision": "deny", "controls": ["c3", "c1"]}},
            controls=registry,
        )
    )
    assert decide(policy, x=1) == Evaluation(Decision.APPROVE, "rule[0]", ("c1", "c2", "c3"))
    assert decide(policy, x=2) == Evaluation(Decision.ALLOW, "rule[1]", ("c2",))
    assert decide(policy, x=3) == Evaluation(Decision.DENY, "no_matching_rule", ("c2",))
    assert decide(policy, "bare") == Evaluation(Decision.DENY, "decision", ("c1", "c3"))
    assert decide(policy, "unlisted").controls == ()


# --- anything else -------------------------------------------------------------------------------

WORDS = [
    *("schema", "actions", "environment", "mode", "authority", "version", "controls", "decision"),
    *("rules", "effect", "resource", "mcp", "data", "when", "allow", "deny", "observe", "grants"),
    *("ctrlrun.policy/v1", "ctrlrun.policy/v4", "a_eq", "data_scope_in", "amount_lte", "title"),
    *("id", "subject", "agent", "expires_at", "{a}", "{", "", "*", "label", "redact"),
]
things = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(
    st.fixed_dictionaries(
        {"schema": st.sampled_from(["ctrlrun.policy/v1", "ctrlrun.policy/v4"])},
        optional={
            "actions": things | st.dictionaries(st.sampled_from(WORDS), things, min_size=1),
            "controls": things,
            "authority": things | st.fixed_dictionaries({"grants": st.lists(things)}),
            "mode": things,
            "environment": things,
        },
    )
)
def test_no_document_makes_any_other_error(sections: dict[str, Any]) -> None:
    text = json.dumps(sections)
    try:
        policy = Policy.from_yaml(text, source="policy.yaml")
    except PolicyError as error:
        assert str(error).startswith("policy.yaml: ")
    else:
        assert policy.policy_hash == load(text).policy_hash
        for name in policy.actions:
            assert decide(policy, name).decision in Decision


# --- deciding ------------------------------------------------------------------------------------

BANDS = {
    "rules": [
        {"when": {"amount_gte": 0, "amount_lte": 50000}, "decision": "allow"},
        {"when": {"amount_gte": 0, "amount_lte": 500000}, "decision": "approve"},
        {"decision": "deny"},
    ]
}


@walk(
    ("amount", "decision", "reason"),
    [
        (0, "allow", "rule[0]"),
        (50000, "allow", "rule[0]"),
        (50001, "approve", "rule[1]"),
        (200000, "approve", "rule[1]"),
        (500000, "approve", "rule[1]"),
        (500001, "deny", "rule[2]"),
        (900000, "deny", "rule[2]"),
        (-1, "deny", "rule[2]"),
    ],
)
def test_the_first_matching_rule_decides(
    amount: int, decision: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert decide(load(entry(BANDS, 1)), amount=amount) == Evaluation(Decision(decision), reason)
    assert caplog.records == []


@walk("arguments", [{"amount": "10000"}, {"amount": True}, {"amount": None}, {}])
def test_a_wrong_or_missing_amount_matches_no_band_and_warns_per_rule(
    arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    found = decide(load(entry(BANDS, 1)), **arguments)
    assert found == Evaluation(Decision.DENY, "rule[2]")
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2


def test_no_matching_rule_is_a_denial() -> None:
    policy = load(entry({"rules": [{"when": {"x_eq": 1}, "decision": "allow"}]}))
    assert decide(policy, x=2) == Evaluation(Decision.DENY, "no_matching_rule")


def test_reserved_names_are_ordinary_arguments() -> None:
    policy = load(entry({"decision": "allow"}))
    assert decide(policy, agent="x", user="y", resource=1).decision is Decision.ALLOW


def test_principal_resource_and_environment_do_not_matter() -> None:
    policy = load(entry(BANDS, 1))
    actions = [
        Action("a.b", {"amount": 1}, BOT),
        Action(
            "a.b", {"amount": 1}, Principal("other", user="ana"), resource="r", environment="dev"
        ),
    ]
    assert len({policy.evaluate(action) for action in actions}) == 1


def test_data_scope_is_what_the_call_supplies() -> None:
    item = {
        "data": {"diagnosis": "phi", "note": {"label": "internal"}, "remark": "internal"},
        "rules": [
            {"when": {"data_scope_in": ["phi"]}, "decision": "deny"},
            {"when": {"data_scope_eq": ["internal"], "amount_lte": 5}, "decision": "approve"},
            {"when": {"data_scope_eq": []}, "decision": "allow"},
        ],
    }
    policy = load(entry(item))
    cases: list[tuple[dict[str, Any], set[str], str]] = [
        ({}, set(), "rule[2]"),
        ({"other": 1}, set(), "rule[2]"),
        ({"diagnosis": None}, {"phi"}, "rule[0]"),
        ({"note": "x", "diagnosis": "y"}, {"phi", "internal"}, "rule[0]"),
        ({"note": "x", "amount": 5}, {"internal"}, "rule[1]"),
        ({"note": "x", "remark": "", "amount": 5}, {"internal"}, "rule[1]"),
        ({"note": "x", "amount": 6}, {"internal"}, "no_matching_rule"),
        # An argument of that name cannot pretend to be the scope.
        ({"data_scope": ["phi"]}, set(), "rule[2]"),
        ({"data_scope": [], "diagnosis": 1}, {"phi"}, "rule[0]"),
    ]
    for arguments, scope, reason in cases:
        assert policy.data_scope(Action("a.b", arguments, BOT)) == scope
        assert decide(policy, **arguments).reason == reason, arguments
    assert policy.data_scope(Action("unlisted", {"diagnosis": 1}, BOT)) == frozenset()


def test_without_labels_the_scope_is_empty_not_absent(caplog: pytest.LogCaptureFixture) -> None:
    policy = load(entry({"rules": [{"when": {"data_scope_neq": ["phi"]}, "decision": "allow"}]}))
    assert decide(policy).reason == "rule[0]"
    assert caplog.records == []


def test_rules_can_be_read_as_a_person_reads_them() -> None:
    policy = load(entry(BANDS, 1))
    first, _, last = policy.actions["a.b"].rules
    assert [(c.argument, c.op, c.operand) for c in first.conditions] == [
        ("amount", "gte", 0),
        ("amount", "lte", 50000),
    ]
    assert first.decision is Decision.ALLOW
    assert (last.conditions, last.decision) == ((), Decision.DENY)
    actions: Any = policy.actions
    for change in (
        lambda: actions.__setitem__("x", actions["a.b"]),
        lambda: setattr(policy.actions["a.b"], "decision", Decision.ALLOW),
        lambda: setattr(first, "decision", Decision.ALLOW),
        lambda: setattr(first.conditions[1], "operand", 10**9),
        lambda: setattr(policy, "actions", {}),
    ):
        with pytest.raises((AttributeError, TypeError)):
            change()


# --- files ---------------------------------------------------------------------------------------


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CTRLRUN_CONFIG", raising=False)
    return tmp_path


def test_the_file_is_the_one_given_then_the_variable_then_here(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ctrlrun.yaml", "named.yaml", "variable.yaml"):
        (workplace / name).write_text(document())
    assert Policy.from_file().source == str(workplace / "ctrlrun.yaml")
    monkeypatch.setenv("CTRLRUN_CONFIG", "variable.yaml")
    assert (
        Policy.from_file().source == str(discover_policy_path()) == str(workplace / "variable.yaml")
    )
    for path in ("named.yaml", Path("named.yaml"), workplace / "named.yaml"):
        assert Policy.from_file(path).source == str(workplace / "named.yaml")


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_variable_is_refused_unless_a_path_is_given(
    blank: str, workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "ctrlrun.yaml").write_text(document())
    monkeypatch.setenv("CTRLRUN_CONFIG", blank)
    for find in (Policy.from_file, discover_policy_path):
        with pytest.raises(PolicyError, match="CTRLRUN_CONFIG"):
            find()
    Policy.from_file("ctrlrun.yaml")


def test_no_parent_and_no_home_is_searched(
    workplace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workplace / "ctrlrun.yaml").write_text(document())
    (workplace / "below").mkdir()
    monkeypatch.chdir(workplace / "below")
    monkeypatch.setenv("HOME", str(workplace))
    for path in (None, "~/ctrlrun.yaml"):
        with pytest.raises(PolicyError, match="below"):
            Policy.from_file(path)


@pytest.mark.parametrize("configured", [None, "elsewhere/mine.yaml", "/nowhere/ctrlrun.yaml"])
def test_a_missing_policy_says_where_it_was_looked_for(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, configured: str | None
) -> None:
    if configured is not None:
        monkeypatch.setenv("CTRLRUN_CONFIG", configured)
    file = workplace / (configured or "ctrlrun.yaml")
    for read in (Policy.from_file, Control.from_file):
        with pytest.raises(PolicyError) as refused:
            read()
        said = str(refused.value)
        for part in (f"looked in {file.parent}", "`ctrlrun init`", "CTRLRUN_CONFIG"):
            assert part in said
        assert ("where CTRLRUN_CONFIG points" in said) == (configured is not None)


@pytest.mark.parametrize(
    "kind", ["missing", "directory", "latin", "utf16", "nul", "pipe", "device"]
)
def test_a_file_that_cannot_be_read_is_named(kind: str, workplace: Path) -> None:
    """At once: a pipe would wait for whoever writes to it, a device has no end."""
    path = workplace / ("no\0thing" if kind == "nul" else "policy.yaml")
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "latin":
        path.write_bytes(document().encode() + b"# caf\xe9\n")
    elif kind == "utf16":
        path.write_text(document(), encoding="utf-16")
    with pytest.raises(PolicyError) as caught:
        Policy.from_file(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_a_fault_in_a_file_starts_with_its_absolute_path(workplace: Path) -> None:
    (workplace / "ctrlrun.yaml").write_text(
        "schema: ctrlrun.policy/v1\nactions: {a: {decision: never}}\n"
    )
    with pytest.raises(PolicyError) as caught:
        Policy.from_file("ctrlrun.yaml")
    assert str(caught.value).startswith(f"{workplace / 'ctrlrun.yaml'}: a: ")


@walk("path", [5, b"x", ["ctrlrun.yaml"]])
def test_a_path_is_a_path(path: Any) -> None:
    with pytest.raises(InvalidArgument):
        Policy.from_file(path)


# --- the starter ---------------------------------------------------------------------------------


def starter() -> Policy:
    return Policy.from_file(REPOSITORY / "ctrlrun" / "policy" / "starter.yaml")


def test_the_example_is_the_starter() -> None:
    packaged = (REPOSITORY / "ctrlrun" / "policy" / "starter.yaml").read_bytes()
    assert (REPOSITORY / "ctrlrun.example.yaml").read_bytes() == packaged


def test_the_starter_has_its_hash() -> None:
    assert starter().policy_hash == (
        "sha256:a43fec57d8d4e3ae6adedcaf296e4f196a01ebdf5c092da813627dc25a17861f"
    )


@walk(
    ("name", "arguments", "decision", "effect"),
    [
        ("customer.read", {}, "allow", None),
        ("invoice.read", {}, "allow", None),
        ("email.send", {"message_id": "m"}, "allow", "email:{message_id}"),
        ("stripe.refund", {"amount": 50000}, "allow", "refund:{payment_id}"),
        ("stripe.refund", {"amount": 200000}, "approve", "refund:{payment_id}"),
        ("stripe.refund", {"amount": -1}, "deny", "refund:{payment_id}"),
        ("iam.grant_admin", {}, "deny", None),
        ("k8s.delete_namespace", {}, "approve", "namespace:{cluster}:{name}"),
        ("shell.run", {}, "deny", None),
    ],
)
def test_the_starter_decides(
    name: str, arguments: dict[str, Any], decision: str, effect: str | None
) -> None:
    policy = starter()
    assert decide(policy, name, **arguments).decision == decision
    assert policy.effect_template(name) == effect
    assert policy.mode == "enforce"
    assert policy.authority is None
