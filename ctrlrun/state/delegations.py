"""Delegations in a relational store: grants that were handed on, kept byte for byte."""

from __future__ import annotations

from datetime import datetime

from ctrlrun.authority import DelegationChanges, DelegationRecord, DelegationRow
from ctrlrun.errors import InvalidArgument
from ctrlrun.state.core import Reads, Writes
from ctrlrun.state.rows import (
    DELEGATION_COLUMNS,
    column_time,
    delegation_from,
    optional_column_time,
)
from ctrlrun.state.session import Session
from ctrlrun.state.verdicts import check_name

_BY_ID = f"SELECT {DELEGATION_COLUMNS} FROM delegations WHERE delegation_id = ?"
_ALL = f"SELECT {DELEGATION_COLUMNS} FROM delegations"
_EXISTS = "SELECT delegation_id FROM delegations WHERE delegation_id = ?"
_PUT = (
    f"INSERT INTO delegations ({DELEGATION_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (delegation_id) DO NOTHING"
)
_REVOKE = (
    "UPDATE delegations SET revoked_at = ?, revoked_by = ? "
    "WHERE delegation_id = ? AND revoked_at IS NULL"
)


class DelegationReads(Reads):
    """What a store tells about delegations."""

    def get_delegation(self, delegation_id: str) -> DelegationRecord | None:
        """The record of an id, or None."""
        row = self._row(_BY_ID, (delegation_id,))
        return None if row is None else delegation_from(row)

    def delegations_for(self, parent_id: str) -> tuple[DelegationRecord, ...]:
        """What was handed on from a grant, revoked ones too, oldest first."""
        return self._listed(" WHERE parent_id = ?", (parent_id,))

    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]:
        """Every delegation that nobody revoked, or every one; oldest first."""
        return self._listed("" if include_revoked else " WHERE revoked_at IS NULL")

    def delegation_row(self, delegation_id: str) -> DelegationRow | None:
        """The row of an id as it is stored, whether or not it can be read; or None."""
        row = self._row(_BY_ID, (delegation_id,))
        return None if row is None else DelegationRow(*row)

    def delegation_changes(self, mark: object | None) -> DelegationChanges:
        """All rows, unjudged, and no mark: what changes after this look cannot be told from it."""
        return DelegationChanges(None, True, tuple(DelegationRow(*row) for row in self._rows(_ALL)))

    def _listed(self, where: str, values: tuple[str, ...] = ()) -> tuple[DelegationRecord, ...]:
        order = self._dialect.stored["delegations"]
        keys = order.tie if order.key is None else f"{order.key} NULLS FIRST, {order.tie}"
        sql = f"SELECT {DELEGATION_COLUMNS} FROM delegations{where} ORDER BY {keys}"
        return tuple(delegation_from(row) for row in self._rows(sql, values))


class DelegationWrites(DelegationReads, Writes):
    """Recording and revoking."""

    def put_delegation(self, record: DelegationRecord) -> None:
        """Store a delegation; InvalidArgument when its id was used before."""
        values = (
            check_name(record.delegation_id, "delegation_id"),
            record.parent_id,
            record.depth,
            record.grant_json,
            record.created_by_agent,
            record.created_by_user,
            record.created_via,
            column_time(record.created_at),
            optional_column_time(record.revoked_at),
            record.revoked_by,
        )

        def step(session: Session) -> None:
            if session.execute(_PUT, values).rowcount != 1:
                raise InvalidArgument(f"delegation {record.delegation_id} already exists")

        self._write(step)

    def revoke_delegation(self, delegation_id: str, *, by: str | None, at: datetime) -> bool:
        """Revoke it: True the first time, False afterwards; InvalidArgument for an unknown id."""
        values = (column_time(at), by, delegation_id)

        def step(session: Session) -> bool:
            if session.execute(_REVOKE, values).rowcount == 1:
                return True
            if session.row(_EXISTS, (delegation_id,)) is not None:
                return False
            revoked = self._revoke_strange(session, values)
            if revoked is None:
                raise InvalidArgument(f"no delegation {delegation_id!r} in this store")
            return revoked

        return self._write(step)

    def _revoke_strange(self, session: Session, values: tuple[str, str | None, str]) -> bool | None:
        """`revoke_delegation` where the id is not stored as text; None when there is no such row."""
        return None
