"""Grants: who may do what, on what, where, and until when.

This room reads and checks grants, and gives the form in which they are hashed. Evaluating an action
against them is not built yet. The rules are in docs/policy.md.
"""

from ctrlrun.authority.grants import (
    DEFAULT_MAX_DELEGATION_DEPTH,
    DELEGATION_ID_PREFIX,
    Grant,
    Subject,
)
from ctrlrun.authority.patterns import ACTION_SEPARATOR, RESOURCE_SEPARATOR, validate_pattern
from ctrlrun.authority.records import DelegationReader, DelegationRecord
from ctrlrun.authority.section import Authority, authority_form, parse_section
from ctrlrun.authority.verdict import (
    AUTHORITY_CONSTRAINT,
    AUTHORITY_ESCALATION,
    AUTHORITY_EXPIRED,
    AUTHORITY_GRANT,
    AUTHORITY_REVOKED,
    AUTHORITY_UNREADABLE,
    NO_AUTHORITY,
    AuthorityResult,
)

__all__ = [
    "ACTION_SEPARATOR",
    "AUTHORITY_CONSTRAINT",
    "AUTHORITY_ESCALATION",
    "AUTHORITY_EXPIRED",
    "AUTHORITY_GRANT",
    "AUTHORITY_REVOKED",
    "AUTHORITY_UNREADABLE",
    "DEFAULT_MAX_DELEGATION_DEPTH",
    "DELEGATION_ID_PREFIX",
    "NO_AUTHORITY",
    "RESOURCE_SEPARATOR",
    "Authority",
    "AuthorityResult",
    "DelegationReader",
    "DelegationRecord",
    "Grant",
    "Subject",
    "authority_form",
    "parse_section",
    "validate_pattern",
]
