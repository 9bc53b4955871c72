"""What a policy says about one action, parsed: its rules, and how they decide.

Values only; nothing here reads a document. They are also what a screen shows when it explains a
rule. How rules decide is in docs/policy.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlrun.conditions import DATA_SCOPE, NUMERIC, AllOf, Condition, Decision

_NO_SCOPE: frozenset[str] = frozenset()
_Holds = Callable[[str, Mapping[str, Any]], bool]


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
    _ladder: tuple[tuple[_Holds, Evaluation], ...] = field(init=False, repr=False, compare=False)
    _reads_scope: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ladder = tuple((AllOf(rule.conditions).hold, rule.outcome) for rule in self.rules)
        reads_scope = any(
            item.argument == DATA_SCOPE for rule in self.rules for item in rule.conditions
        )
        object.__setattr__(self, "_ladder", ladder)
        object.__setattr__(self, "_reads_scope", reads_scope)

    def evaluate(self, name: str, arguments: Mapping[str, Any]) -> Evaluation:
        """The answer for canonical arguments: the first rule whose conditions all hold."""
        if self._reads_scope:
            # The scope takes the place of an argument of that name, which so cannot pretend to be it.
            arguments = {**arguments, DATA_SCOPE: self.scope_of(arguments)}
        for holds, outcome in self._ladder:
            if holds(name, arguments):
                return outcome
        return self.otherwise

    def numbers(self) -> frozenset[str]:
        """The arguments that each rule which lets a call act compares as numbers.

        A call in which one of them is no integer does not act.
        """
        compared = [
            {item.argument for item in rule.conditions if item.op in NUMERIC}
            for rule in self.rules
            if rule.decision is not Decision.DENY
        ]
        return frozenset(compared[0].intersection(*compared)) if compared else frozenset()

    def scope_of(self, arguments: Mapping[str, Any]) -> frozenset[str]:
        """The labels of the arguments that a call supplies, even as null."""
        if not self.data:
            return _NO_SCOPE
        return frozenset(label for name, label in self.data.items() if name in arguments)
