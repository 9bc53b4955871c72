"""`Delegation`: a grant that was handed on, and how it is read from its stored row, strictly.

A row is either a delegation or unreadable; nothing in it is guessed or coerced. The rules are in
docs/authority.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from ctrlrun.action import Principal
from ctrlrun.authority.grant_json import grant_from_json, grant_to_json
from ctrlrun.authority.grants import DELEGATION_ID_PREFIX, Grant
from ctrlrun.authority.records import DelegationRecord, DelegationRow
from ctrlrun.clock import new_id, parse_timestamp
from ctrlrun.errors import InvalidArgument

CREATED_VIAS = ("api", "cli")

_ID = re.compile(re.escape(DELEGATION_ID_PREFIX) + "[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Delegation:
    """A grant that was handed on: `grant.id` is the delegation's id.

    `parent_id` is a grant of the document or another delegation, `depth` the distance from the
    document when it was made, `created_by` who handed it on, `created_via` `api` or `cli`.
    """

    delegation_id: str
    parent_id: str
    depth: int
    grant: Grant
    created_by: Principal
    created_via: str
    created_at: datetime
    revoked_at: datetime | None = None
    revoked_by: str | None = None

    @property
    def is_revoked(self) -> bool:
        """Whether somebody revoked it."""
        return self.revoked_at is not None

    def to_record(self) -> DelegationRecord:
        """The row that a store keeps."""
        return DelegationRecord(
            delegation_id=self.delegation_id,
            parent_id=self.parent_id,
            depth=self.depth,
            grant_json=grant_to_json(self.grant),
            created_by_agent=self.created_by.agent,
            created_by_user=self.created_by.user,
            created_via=self.created_via,
            created_at=self.created_at,
            revoked_at=self.revoked_at,
            revoked_by=self.revoked_by,
        )


def new_delegation_id() -> str:
    """An id for a delegation: `dlg_` and 32 random lowercase hex digits."""
    return new_id(DELEGATION_ID_PREFIX)


def delegation_from_row(row: DelegationRow) -> Delegation:
    """The delegation that a row holds; InvalidArgument, naming it, when it holds none."""
    return read_row(row, None)


def read_row(row: DelegationRow, grant: Grant | None) -> Delegation:
    """The delegation of a row; a `grant` that was read from the same text needs no reading again."""
    delegation_id = row.delegation_id
    if not isinstance(delegation_id, str) or not _ID.fullmatch(delegation_id):
        raise InvalidArgument(f"{delegation_id!r} is no id of a delegation")
    if row.created_via not in CREATED_VIAS:
        raise InvalidArgument(f"{delegation_id}: created_via is {row.created_via!r}")
    try:
        if grant is None:
            text = _text(row.grant_json, "grant_json")
            grant = grant_from_json(text, delegation_id=delegation_id)
        return Delegation(
            delegation_id=delegation_id,
            parent_id=_text(row.parent_id, "parent_id"),
            depth=_number(row.depth, "depth"),
            grant=grant,
            created_by=Principal(
                agent=_text(row.created_by_agent, "created_by_agent"),
                user=_optional_text(row.created_by_user, "created_by_user"),
            ),
            created_via=str(row.created_via),
            created_at=_moment(row.created_at, "created_at"),
            revoked_at=None if row.revoked_at is None else _moment(row.revoked_at, "revoked_at"),
            revoked_by=_optional_text(row.revoked_by, "revoked_by"),
        )
    except InvalidArgument as error:
        raise InvalidArgument(f"{delegation_id}: {error}") from None


def _text(value: object, column: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{column} is {'missing' if value is None else 'not text'}")
    return value


def _optional_text(value: object, column: str) -> str | None:
    return None if value is None else _text(value, column)


def _number(value: object, column: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgument(f"{column} is not an integer")
    return value


def _moment(value: object, column: str) -> datetime:
    try:
        return parse_timestamp(_text(value, column))
    except ValueError as error:
        raise InvalidArgument(f"{column}: {error}") from None
