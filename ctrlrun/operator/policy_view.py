"""The policy as the person who answers needs it: rule texts, controls, and whether it is the same.

Reads a document, decides nothing. A policy that cannot be read is a value, not an error: every
screen works without one and says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ctrlrun.errors import CTRLRunError
from ctrlrun.policy import Policy, hash_with_authority

_RULE = re.compile(r"rule\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class PolicyUnread:
    """No policy: where it was looked for, and why it is not there, in one line."""

    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class PolicyView:
    """A policy that was read. `environment` is what the document states, None when it does not."""

    source: str
    mode: str
    environment: str | None
    policy_hash: str
    version: str | None
    _policy: Policy

    def rule_text(self, action_name: str, reason: str) -> str | None:
        """A rule as a person reads it (`amount 0 to 500000`), None when the policy has no such."""
        raise NotImplementedError

    def controls(self, action_name: str, reason: str) -> tuple[str, ...]:
        """The ids of the controls that the rule or the entry cites."""
        raise NotImplementedError

    def effect_template(self, action_name: str) -> str | None:
        """The template of an action's effect key, None when the policy gives none."""
        raise NotImplementedError

    def is_what_asked(self, policy_hash: str, environment: str) -> bool:
        """Whether a hash recorded with a request of an environment is that of this document."""
        raise NotImplementedError


def read_policy(path: Path | str | None) -> PolicyView | PolicyUnread:
    """Read the policy at `path`, or where every command looks for it when None."""
    raise NotImplementedError
