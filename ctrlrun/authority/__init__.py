"""Grants: who may do what, on what, where, and until when; and how they are handed on.

`Authority` judges actions, delegations and revocations. It reads a store's delegations, writes
nothing and appends no event. The rules are in docs/authority.md.
"""

from ctrlrun.authority.authority import Authority, authority_form, only_authority, parse_section
from ctrlrun.authority.containment import (
    DIMENSIONS,
    DimensionVerdict,
    contained_dimension,
    judge_dimensions,
)
from ctrlrun.authority.delegation import Delegation, delegation_from_row, new_delegation_id
from ctrlrun.authority.grant_json import grant_from_json, grant_to_json
from ctrlrun.authority.grants import (
    DEFAULT_MAX_DELEGATION_DEPTH,
    DELEGATION_ID_PREFIX,
    Grant,
    Subject,
)
from ctrlrun.authority.nearest import NearestGrant, nearest_grant
from ctrlrun.authority.patterns import (
    ACTION_SEPARATOR,
    RESOURCE_SEPARATOR,
    contains,
    matches,
    validate_pattern,
)
from ctrlrun.authority.records import (
    DelegationChanges,
    DelegationFollower,
    DelegationReader,
    DelegationRecord,
    DelegationRow,
    row_of,
)
from ctrlrun.authority.section import grant_from_yaml
from ctrlrun.authority.verdict import (
    AUTHORITY_CONSTRAINT,
    AUTHORITY_ESCALATION,
    AUTHORITY_EXPIRED,
    AUTHORITY_GRANT,
    AUTHORITY_REVOKED,
    AUTHORITY_UNREADABLE,
    CONTAINMENT,
    MAX_DEPTH,
    NO_AUTHORITY,
    NOT_THE_SUBJECT,
    PARENT_NOT_DELEGABLE,
    PARENT_NOT_VALID,
    UNKNOWN_PARENT,
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
    "CONTAINMENT",
    "DEFAULT_MAX_DELEGATION_DEPTH",
    "DELEGATION_ID_PREFIX",
    "DIMENSIONS",
    "MAX_DEPTH",
    "NOT_THE_SUBJECT",
    "NO_AUTHORITY",
    "PARENT_NOT_DELEGABLE",
    "PARENT_NOT_VALID",
    "RESOURCE_SEPARATOR",
    "UNKNOWN_PARENT",
    "Authority",
    "AuthorityResult",
    "Delegation",
    "DelegationChanges",
    "DelegationFollower",
    "DelegationReader",
    "DelegationRecord",
    "DelegationRow",
    "DimensionVerdict",
    "Grant",
    "NearestGrant",
    "Subject",
    "authority_form",
    "contained_dimension",
    "contains",
    "delegation_from_row",
    "grant_from_json",
    "grant_from_yaml",
    "grant_to_json",
    "judge_dimensions",
    "matches",
    "nearest_grant",
    "new_delegation_id",
    "only_authority",
    "parse_section",
    "row_of",
    "validate_pattern",
]
