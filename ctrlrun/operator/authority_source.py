"""Which grants a person at a screen works under: the policy's own, or those of a document beside it.

Reads documents, decides nothing. That there are none is a value with its reason, not an error: what
hangs on grants says it, and everything else works.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ctrlrun.authority import Authority, authority_form, only_authority
from ctrlrun.errors import CTRLRunError
from ctrlrun.operator.policy_view import PolicyUnread, PolicyView


@dataclass(frozen=True, slots=True)
class AuthorityUnread:
    """No grants, and why, in one line; `is_absent`: no document that was read has any."""

    reason: str
    is_absent: bool = False


def read_authority(
    policy: PolicyView | PolicyUnread, path: Path | None = None
) -> Authority | AuthorityUnread:
    """The grants of the policy, or of the document at `path` (`--authority`).

    Never raises: where there are none, where the document cannot be read, and where both hold some,
    it is an `AuthorityUnread`.
    """
    section = policy.authority if isinstance(policy, PolicyView) else None
    try:
        beside = None if path is None else Authority.from_file(path)
        authority = only_authority(section, beside)
    except CTRLRunError as error:
        return AuthorityUnread(str(error))
    if authority is not None:
        return authority
    if isinstance(policy, PolicyUnread):
        return AuthorityUnread(f"policy not read: {policy.reason}")
    return AuthorityUnread(f"{policy.source} has no authority section", is_absent=True)


def has_same_grants(one: Authority, other: Authority) -> bool:
    """Whether two readings of grants came to the same, comments and order aside."""
    return authority_form(one) == authority_form(other)
