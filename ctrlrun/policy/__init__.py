"""Policy documents: loaded strictly, hashed, and asked for a decision.

This room knows no store, no person and no executor. The rules are in docs/policy.md.
"""

from ctrlrun.conditions import Condition, Decision, parse_conditions
from ctrlrun.policy.policy import Mode, Policy, discover_policy_path, hash_with_authority
from ctrlrun.policy.rules import ActionPolicy, Evaluation, McpOptions, PolicyControl, Rule
from ctrlrun.policy.versions import SCHEMAS

__all__ = [
    "SCHEMAS",
    "ActionPolicy",
    "Condition",
    "Decision",
    "Evaluation",
    "McpOptions",
    "Mode",
    "Policy",
    "PolicyControl",
    "Rule",
    "discover_policy_path",
    "hash_with_authority",
    "parse_conditions",
]
