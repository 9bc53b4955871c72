"""A policy as a person reads it, and one that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlrun.operator import PolicyUnread, PolicyView, read_policy
from ctrlrun.policy import Policy, hash_with_authority
from tests.cases import walk
from tests.lib.operator.helpers import POLICY

RULES = """
schema: ctrlrun.policy/v1
actions:
  a:
    rules:
      - when: {amount_gte: 0, amount_lte: 500000}
        decision: approve
      - when: {amount_gt: 5, currency_eq: EUR, to_in: [x, "1"], n_neq: null}
        decision: allow
      - when: {amount_lt: 10}
        decision: allow
      - decision: deny
  b: {decision: deny}
"""


@walk(
    ("action", "reason", "text"),
    [
        ("a", "rule[0]", "amount 0 to 500000"),
        ("a", "rule[1]", 'amount over 5, currency "EUR", to one of "x", "1", n not null'),
        ("a", "rule[2]", "amount under 10"),
        ("a", "rule[3]", "whatever no earlier rule took"),
        ("a", "rule[4]", None),
        ("a", "no_matching_rule", "no rule matches"),
        ("a", "decision", None),
        ("b", "decision", "every call"),
        ("b", "rule[0]", None),
        ("c", "unknown_action", "not listed in the policy"),
        ("a", "unknown_action", None),
        ("c", "rule[0]", None),
        ("a", "authority_expired", None),
    ],
)
def test_a_reason_in_words(action: str, reason: str, text: str | None) -> None:
    assert PolicyView(Policy.from_yaml(RULES)).rule_text(action, reason) == text


def test_controls_of_the_rule_and_of_the_entry() -> None:
    view = PolicyView(Policy.from_yaml(POLICY))
    assert view.controls("stripe.refund", "rule[1]") == ("PAY-4EYES",)
    assert view.controls("stripe.refund", "rule[0]") == ()
    assert view.controls("none", "rule[1]") == ()
    assert view.control_title("PAY-4EYES") == "Two people see a large refund"
    assert view.control_title("x") is None
    assert view.effect_template("stripe.refund") == "refund:{payment_id}"


def test_a_document_is_the_one_that_asked_in_whatever_environment_it_was_enforced() -> None:
    policy = Policy.from_yaml(POLICY)
    view = PolicyView(policy)
    assert view.is_what_asked(policy.policy_hash, "staging")
    elsewhere = hash_with_authority(policy, None, "production")
    assert view.is_what_asked(elsewhere, "production")
    assert not view.is_what_asked(elsewhere, "staging")
    assert not view.is_what_asked("sha256:0", "staging")


def test_a_policy_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ctrlrun.yaml"
    path.write_text(POLICY)
    view = read_policy(path)
    assert isinstance(view, PolicyView)
    assert (view.source, view.mode, view.environment) == (str(path), "enforce", "staging")


@walk("text", [None, "{", "schema: ctrlrun.policy/v9\nactions: {}\n"])
def test_what_cannot_be_read_is_a_value(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "ctrlrun.yaml"
    if text is not None:
        path.write_text(text)
    unread = read_policy(path)
    assert isinstance(unread, PolicyUnread)
    assert unread.source == str(path)
    assert str(path) in unread.reason


def test_a_blank_variable_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRLRUN_CONFIG", " ")
    unread = read_policy()
    assert isinstance(unread, PolicyUnread)
    assert "CTRLRUN_CONFIG" in unread.reason
