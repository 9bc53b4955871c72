"""The policy hash: golden values, what changes it, and the hash of what a Control enforces."""

from __future__ import annotations

import json
import random
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.authority import Authority
from ctrlrun.canonical import sha256_of
from ctrlrun.policy import Policy, hash_with_authority
from tests.cases import walk

WORKED = """
schema: ctrlrun.policy/v2
actions:
  stripe.refund:
    effect: refund:{payment_id}
    rules:
      - {when: {amount_gte: 0, amount_lte: 50000}, decision: allow}
      - {when: {amount_gte: 0, amount_lte: 500000}, decision: approve}
      - {decision: deny}
"""
WORKED_HASH = "20dae65c212dc7d8d5f989acd1d9f83d879451716a2f5ae030fbca4e07e16a83"
WORKED_IN_STAGING = "74caf1d5a6a1ee7ba4b5eca6c78f8e7d29e1bec44f31af9f3254132a7a7bc95a"

CARE = """
schema: ctrlrun.policy/v4
controls:
  c-two: {title: Two, source: S 1}
  c-one: {title: One}
actions:
  care.read:
    controls: [c-one]
    data: {diagnosis: phi, note: {label: internal}}
    rules:
      - {when: {data_scope_in: [phi]}, controls: [c-two], decision: approve}
      - {decision: allow}
"""

GRANTED = """
schema: ctrlrun.policy/v3
authority:
  grants:
    - id: support
      subject: {agent: refund-agent}
      actions: [stripe.refund]
      constraints: {amount_lte: 200000}
      expires_at: 2030-01-01T00:00:00Z
actions:
  stripe.refund: {decision: allow}
"""
GRANTED_HASH = "7b894b20d84ee2fc0dc050e85daa17994951fbca03dafc9acb5dee9419e525d9"
UNENFORCED_HASH = "c1c74fc9b8b1775384602bd281d9c89774d0b3820f686526ebc3f92a6a6c83ee"

GOLDEN = [
    (
        "schema: ctrlrun.policy/v1\nactions: {}\n",
        "6f25c184081f8189eb23eaec64f3d11d7f98b94ce58c30ac7a365e583dbb1539",
    ),
    (
        "schema: ctrlrun.policy/v4\nactions: {}\n",
        "3f06324e2e9f378f9f396cd4665d420049c7e8153d01a5ac1a43d1b68509e7c9",
    ),
    (
        "schema: ctrlrun.policy/v4\nactions: {}\nversion: '7'\n",
        "3f06324e2e9f378f9f396cd4665d420049c7e8153d01a5ac1a43d1b68509e7c9",
    ),
    (
        "schema: ctrlrun.policy/v3\nenvironment: staging\nmode: observe\n"
        "actions: {a.b: {decision: approve}}\n",
        "1e1d8c2d0e6c01d1686a7c2af3af32d61efbee5ee551a82845ef8540bfb4b6a6",
    ),
    (WORKED, WORKED_HASH),
    (CARE, "525795742eb03ce306be41bad00a0f5dfb4005521425d962278358ab78e1bffe"),
    (GRANTED, GRANTED_HASH),
    (
        """
schema: ctrlrun.policy/v3
authority:
  grants:
    - id: g1
      subject: {agent: bot-*}
      actions: [stripe.refund]
      resources: ["payment:EU-*"]
      constraints: {amount_lte: 100, region_in: [eu, uk]}
      expires_at: 2027-01-01T00:00:00Z
actions: {stripe.refund: {decision: allow}}
""",
        "15d55c4c79a2d33bdc84db30c5b34e11837845ac0ac0419a6a8e0af1dfd01b95",
    ),
]


def hash_of(text: str) -> str:
    return Policy.from_yaml(text).policy_hash


@walk(("text", "digest"), GOLDEN)
def test_golden_policy_hashes(text: str, digest: str) -> None:
    assert hash_of(text) == f"sha256:{digest}"


def test_the_preimage_of_the_smallest_policy() -> None:
    preimage = (
        b'{"actions":{},"authority":null,"controls":null,"environment":"production",'
        b'"mode":"enforce","schema":"ctrlrun.policy/v1"}'
    )
    assert hash_of("schema: ctrlrun.policy/v1\nactions: {}\n") == sha256_of(preimage)


# --- what a Control enforces ---------------------------------------------------------------------


def test_the_environment_of_a_control_enters() -> None:
    policy = Policy.from_yaml(WORKED)
    assert hash_with_authority(policy, None) == f"sha256:{WORKED_HASH}"
    assert hash_with_authority(policy, None, "production") == f"sha256:{WORKED_HASH}"
    assert hash_with_authority(policy, None, "staging") == f"sha256:{WORKED_IN_STAGING}"


def test_without_an_environment_it_is_the_documents_own_stripped() -> None:
    text = "schema: ctrlrun.policy/v3\nactions: {}\nenvironment: %s\n"
    plain, padded = (Policy.from_yaml(text % name) for name in ("staging", "' staging '"))
    assert plain.policy_hash == padded.policy_hash
    assert hash_with_authority(padded, None) == padded.policy_hash
    assert hash_with_authority(padded, None, "staging") == padded.policy_hash


def test_the_grants_a_control_holds_enter_wherever_they_were_written() -> None:
    granted = Policy.from_yaml(GRANTED)
    assert hash_with_authority(granted, granted.authority) == f"sha256:{GRANTED_HASH}"
    assert hash_with_authority(granted, None) == f"sha256:{UNENFORCED_HASH}"
    bare = Policy.from_yaml(
        "schema: ctrlrun.policy/v3\nactions: {stripe.refund: {decision: allow}}\n"
    )
    assert bare.policy_hash == f"sha256:{UNENFORCED_HASH}"
    assert hash_with_authority(bare, granted.authority) == f"sha256:{GRANTED_HASH}"


def test_no_grants_is_not_no_authority() -> None:
    policy = Policy.from_yaml("schema: ctrlrun.policy/v3\nactions: {}\n")
    assert hash_with_authority(policy, Authority({})) != policy.policy_hash
    assert hash_with_authority(policy, Authority({})) != hash_with_authority(
        policy, Authority({}, max_delegation_depth=2)
    )


# --- what changes it, and what does not ----------------------------------------------------------


@walk(
    "change",
    [
        ("schema:", "# a comment\nschema:"),
        ("stripe.refund:", '"stripe.refund":'),
        ("amount_lte: 50000}", '"amount_lte": 50000}'),
        ("{amount_gte: 0, amount_lte: 50000}", "{amount_lte: 50000, amount_gte: 0}"),
        (
            "    effect: refund:{payment_id}\n    rules:",
            "    effect: 'refund:{payment_id}'\n    rules:",
        ),
    ],
)
def test_spelling_does_not_matter(change: tuple[str, str]) -> None:
    assert change[0] in WORKED
    assert hash_of(WORKED.replace(*change)) == f"sha256:{WORKED_HASH}"


def test_explicit_defaults_do_not_matter() -> None:
    text = "schema: ctrlrun.policy/v4\nactions: {}\n"
    assert hash_of(text) == hash_of(text + "mode: enforce\nenvironment: production\nversion: x\n")


def test_the_order_of_grants_does_not_matter() -> None:
    def text(*ids: str) -> str:
        grants = [{"id": i, "subject": {"agent": "a"}, "actions": ["x"]} for i in ids]
        return json.dumps(
            {"schema": "ctrlrun.policy/v3", "actions": {}, "authority": {"grants": grants}}
        )

    assert hash_of(text("one", "two")) == hash_of(text("two", "one")) != hash_of(text("one"))


def test_a_string_and_a_yaml_time_are_one_expiry() -> None:
    quoted = GRANTED.replace("2030-01-01T00:00:00Z", "'2030-01-01T00:00:00+00:00'")
    assert hash_of(quoted) == f"sha256:{GRANTED_HASH}"
    later = GRANTED.replace("2030-01-01T00:00:00Z", "2030-01-01T00:00:01Z")
    assert hash_of(later) != f"sha256:{GRANTED_HASH}"


@walk(
    ("entry", "other"),
    [
        ("decision: allow", "decision: deny"),
        ("decision: allow", "decision: allow, effect: null"),
        ("decision: allow", "decision: allow, mcp: {}"),
        ("decision: allow", "decision: allow, mcp: null"),
        ("decision: allow", "decision: allow, controls: []"),
        ("decision: allow", "decision: allow, data: {}"),
        ("decision: allow", "rules: [{decision: allow}]"),
        ("decision: allow, data: {a: x}", "decision: allow, data: {a: {label: x}}"),
        ("rules: [{decision: allow}]", "rules: [{decision: allow, controls: null}]"),
        (
            "rules: [{decision: allow, when: {a_eq: 1}}]",
            "rules: [{decision: allow, when: {a_eq: true}}]",
        ),
        (
            "rules: [{decision: allow, when: {a_eq: 1}}, {decision: deny}]",
            "rules: [{decision: deny}, {decision: allow, when: {a_eq: 1}}]",
        ),
    ],
)
def test_any_other_difference_matters(entry: str, other: str) -> None:
    text = "schema: ctrlrun.policy/v4\nactions: {a: {%s}}\n"
    assert hash_of(text % entry) != hash_of(text % other)


@walk("line", ["mode: observe", "environment: dev", "controls: {}", "controls: {c: {title: T}}"])
def test_top_level_differences_matter(line: str) -> None:
    text = "schema: ctrlrun.policy/v4\nactions: {}\n"
    assert hash_of(text) != hash_of(text + line)


def test_null_controls_are_absent_controls() -> None:
    text = "schema: ctrlrun.policy/v4\nactions: {}\n"
    assert hash_of(text) == hash_of(text + "controls: null\n")


def shuffled(value: Any, order: random.Random) -> Any:
    """The same document with every mapping in another order."""
    if isinstance(value, dict):
        items = [(key, shuffled(item, order)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    return [shuffled(item, order) for item in value] if isinstance(value, list) else value


@given(
    st.sampled_from([WORKED, CARE, GRANTED]),
    st.randoms(use_true_random=False),
    st.booleans(),
)
def test_neither_order_nor_layout_matters(text: str, order: random.Random, flow: bool) -> None:
    rewritten = yaml.safe_dump(
        shuffled(yaml.safe_load(text), order), sort_keys=False, default_flow_style=flow
    )
    assert hash_of(rewritten) == hash_of(text)
