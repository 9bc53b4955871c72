"""What a policy says about one action, parsed: its rules, and how they decide.

Values only; nothing here reads a document. They are also what a screen shows when it explains a
rule. How rules decide is in docs/policy.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlrun.conditions import DATA_SCOPE, AllOf, Condition, Decision

_NO_SCOPE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the policy decided, why (`rule[1]`, `no_matching_rule` …), and the controls it cites."""

    decision: Decision
    reason: str
    controls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PolicyControl:
    """A control that rules may cite; citing it never changes a decision."""

    id: str
    title: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class McpOptions:
    """How the results of an MCP tool are read."""

    not_executed_on_error: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: it decides when all `conditions` hold; without any, always.

    `conditions` stand in the document's order, `controls` are the rule's own citations, `outcome` is
    what it answers (with the action's citations too).
    """

    decision: Decision
    conditions: tuple[Condition, ...]
    controls: tuple[str, ...]
    outcome: Evaluation
    _all: AllOf = field(init=False, repr=False, compare=False)
    _reads_scope: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reads_scope = any(item.argument == DATA_SCOPE for item in self.conditions)
        object.__setattr__(self, "_reads_scope", reads_scope)
        object.__setattr__(self, "_all", AllOf(self.conditions))

    def matches(self, name: str, arguments: Mapping[str, Any], scope: frozenset[str]) -> bool:
        """Whether all conditions hold; `scope` hides an argument of the name `data_scope`."""
        if self._reads_scope:
            arguments = {**arguments, DATA_SCOPE: scope}
        return self._all.hold(name, arguments)


@dataclass(frozen=True, slots=True)
class ActionPolicy:
    """A policy's entry for one action: a bare `decision`, or `rules` of which the first match wins.

    `otherwise` is the answer when no rule matched, or the bare decision's. `data` maps arguments to
    their labels; `effect` and `resource` are templates.
    """

    otherwise: Evaluation
    decision: Decision | None = None
    rules: tuple[Rule, ...] = ()
    effect: str | None = None
    resource: str | None = None
    mcp: McpOptions = McpOptions()
    controls: tuple[str, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)

    def evaluate(self, name: str, arguments: Mapping[str, Any]) -> Evaluation:
        """The answer for canonical arguments."""
        scope = self.scope_of(arguments)
        for rule in self.rules:
            if rule.matches(name, arguments, scope):
                return rule.outcome
        return self.otherwise

    def scope_of(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """The labels of the arguments that a call supplies, even as null."""
        if not self.data:
            return _NO_SCOPE
        return frozenset(label for name, label in self.data.items() if name in arguments)
