"""Whether anything changed among the delegations of a Postgres schema, told without sending them all.

Postgres gives each version of a row a place and the number of the transaction that wrote it: an
update, by whatever program, makes another version. A hash over both, summed over all rows, is
another sum after any change (by chance the same once in 2^64). The rules are in docs/authority.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ctrlrun.authority import DelegationChanges, DelegationRow
from ctrlrun.state.delegations import DelegationReads
from ctrlrun.state.postgres_session import PostgresSession
from ctrlrun.state.rows import DELEGATION_COLUMNS

# One statement each: sum and rows are of one moment. The table's own id tells a schema that was
# dropped and made again from the one before.
_VERSION = (
    "hashtextextended(tableoid::text || ' ' || xmin::text || ' ' || ctid::text || ' ' "
    "|| delegation_id, 0)"
)
_SUM = f"SELECT COUNT(*), COALESCE(SUM({_VERSION}), 0)::text FROM delegations"
_ALL = f"SELECT (SUM({_VERSION}) OVER ())::text, {DELEGATION_COLUMNS} FROM delegations"


@dataclass(frozen=True, slots=True)
class _Mark:
    """All versions of all rows, summed up."""

    rows: int
    total: str


class FollowedDelegations(DelegationReads):
    """The reads of delegations, and whether any changed since a mark."""

    def delegation_changes(self, mark: object | None) -> DelegationChanges:
        """Nothing, or all rows; what is read inside a transaction that writes leaves no mark."""
        session: PostgresSession = self._sessions.current()
        if session.active:
            return super().delegation_changes(mark)
        if isinstance(mark, _Mark) and mark == _Mark(*self._rows(_SUM)[0]):
            return DelegationChanges(mark, False, ())
        rows = self._rows(_ALL)
        found = tuple(DelegationRow(*row[1:]) for row in rows)
        return DelegationChanges(_Mark(len(rows), rows[0][0] if rows else "0"), True, found)
