"""The policy as the person who answers needs it: rule texts, controls, and whether it is the same.

Reads a document, decides nothing. A policy that cannot be read is a value, not an error: every
screen works without one and says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctrlrun.authority import Authority
from ctrlrun.canonical import plain
from ctrlrun.conditions import Condition
from ctrlrun.errors import CTRLRunError
from ctrlrun.operator.wording import json_text
from ctrlrun.policy import (
    ActionPolicy,
    Mode,
    Policy,
    Rule,
    discover_policy_path,
    hash_with_authority,
)

_RULE = re.compile(r"rule\[(\d+)\]")
_COMPARISONS = {"lt": "under", "lte": "up to", "gt": "over", "gte": "from"}


@dataclass(frozen=True, slots=True)
class PolicyUnread:
    """No policy: where it was looked for, and why it is not there, in one line."""

    source: str
    reason: str


class PolicyView:
    """A policy that was read.

    What it returns came from the document and passes `inert` before a screen, as all such text.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    @property
    def source(self) -> str:
        """The absolute path of the document."""
        return self._policy.source

    @property
    def mode(self) -> Mode:
        """`enforce`, or `observe`: nothing is refused."""
        return self._policy.mode

    @property
    def environment(self) -> str | None:
        """The environment that the document states, None when it does not."""
        return self._policy.environment

    @property
    def policy_hash(self) -> str:
        """The hash of the document, its own grants included."""
        return self._policy.policy_hash

    @property
    def version(self) -> str | None:
        """The document's label."""
        return self._policy.version

    @property
    def authority(self) -> Authority | None:
        """The document's own grants, None when it has no such section."""
        return self._policy.authority

    def effect_template(self, action_name: str) -> str | None:
        """The template of an action's effect key, None when the policy gives none."""
        return self._policy.effect_template(action_name)

    def is_what_asked(self, policy_hash: str, environment: str) -> bool:
        """Whether a hash that was recorded with a request is that of this document.

        A program enforces the document in an environment of its own, with the document's grants or
        without any: each of these counts as this document.
        """
        enforced = (
            hash_with_authority(self._policy, authority, environment)
            for authority in (self._policy.authority, None)
        )
        return policy_hash == self._policy.policy_hash or policy_hash in enforced

    def rule_text(self, action_name: str, reason: str) -> str | None:
        """What `reason` (`rule[1]`, `decision` …) stands for: `amount 0 to 500000`.

        None when the document has no such rule for the action.
        """
        if reason == "unknown_action":
            return None if action_name in self._policy.actions else "not listed in the policy"
        entry = self._policy.actions.get(action_name)
        if entry is None:
            return None
        if reason == "decision":
            return "every call" if entry.decision is not None else None
        if reason == "no_matching_rule":
            return "no rule matches" if entry.rules else None
        rule = _rule(entry, reason)
        return None if rule is None else _conditions_text(rule.conditions)

    def controls(self, action_name: str, reason: str) -> tuple[str, ...]:
        """The ids of the controls that the rule, or the entry around it, cites."""
        entry = self._policy.actions.get(action_name)
        if entry is None:
            return ()
        rule = _rule(entry, reason)
        return entry.otherwise.controls if rule is None else rule.outcome.controls

    def control_title(self, control_id: str) -> str | None:
        """The title of a control, None when the document does not declare it."""
        control = self._policy.controls.get(control_id)
        return None if control is None else control.title


def read_policy(path: Path | str | None = None) -> PolicyView | PolicyUnread:
    """Read the policy at `path`, or where every command looks for it when None.

    Never raises: a document that is missing or malformed is a `PolicyUnread` with the reason.
    """
    try:
        file = discover_policy_path() if path is None else Path(path)
    except CTRLRunError as error:
        return PolicyUnread("", str(error))
    try:
        return PolicyView(Policy.from_file(None if path is None else file))
    except CTRLRunError as error:
        return PolicyUnread(str(file), str(error))


def _rule(entry: ActionPolicy, reason: str) -> Rule | None:
    match = _RULE.fullmatch(reason)
    if match is None or int(match[1]) >= len(entry.rules):
        return None
    return entry.rules[int(match[1])]


def _conditions_text(conditions: tuple[Condition, ...]) -> str:
    """The conditions by argument, in the document's order: `amount 0 to 500000, currency "EUR"`."""
    if not conditions:
        return "whatever no earlier rule took"
    by_argument: dict[str, list[Condition]] = {}
    for condition in conditions:
        by_argument.setdefault(condition.argument, []).append(condition)
    return ", ".join(
        f"{argument} {_limits_text(limits)}" for argument, limits in by_argument.items()
    )


def _limits_text(limits: list[Condition]) -> str:
    operands = {limit.op: limit.operand for limit in limits}
    if len(limits) == 2 and operands.keys() == {"gte", "lte"}:
        return f"{operands['gte']} to {operands['lte']}"
    return " and ".join(_limit_text(limit) for limit in limits)


def _limit_text(limit: Condition) -> str:
    if limit.op in _COMPARISONS:
        return f"{_COMPARISONS[limit.op]} {limit.operand}"
    if limit.op == "in":
        return f"one of {', '.join(_operand_text(item) for item in limit.operand) or 'nothing'}"
    word = "not " if limit.op == "neq" else ""
    return f"{word}{_operand_text(limit.operand)}"


def _operand_text(operand: Any) -> str:
    return json_text(plain(operand, "operand"))
