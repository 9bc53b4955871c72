"""Loading what is enforced, for the commands that need it, and the banner of observe mode.

Which commands load the policy is docs/commands.md; what is in one, docs/policy.md. Nothing here
decides about an action.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from ctrlrun.authority import Authority, only_authority
from ctrlrun.cli.output import note
from ctrlrun.cli.warnings import warnings_held
from ctrlrun.policy import Policy

F = TypeVar("F", bound=Callable[..., Any])

BANNER = "OBSERVE MODE — nothing is enforced"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a command works under: the policy, and the grants that go with it, if there are any."""

    policy: Policy
    authority: Authority | None


def authority_option(command: F) -> F:
    """Add `--authority`."""
    return click.option(
        "--authority",
        "authority_file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="The grants, where they stand in a document of their own and not in the policy.",
    )(command)


def load_policy(authority_file: Path | None = None) -> Loaded:
    """The policy that is in force here, and its grants: its own, or those of `authority_file`.

    Under `mode: observe` the banner is said first, before any warning about a document. Raises
    PolicyError when one of them does not load, or both hold grants.
    """
    with warnings_held():
        policy = Policy.from_file()
        if policy.mode == "observe":
            note(BANNER)
        beside = None if authority_file is None else Authority.from_file(authority_file)
        return Loaded(policy, only_authority(policy.authority, beside))
