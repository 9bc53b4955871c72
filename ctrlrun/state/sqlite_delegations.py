"""What changed among the delegations of a SQLite file, told without reading them all.

Triggers note every insert, update and delete of a row, by whatever program, in a side table; each
note has a random stamp. Whoever finds the last note it knows, with its stamp, knows everything up
to it; else (another file, an older copy, a transaction that was rolled back) it is given all rows.
Without the side table all rows are read each time. The rules are in docs/authority.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ctrlrun.authority import DelegationChanges, DelegationRow
from ctrlrun.state.delegations import DelegationReads
from ctrlrun.state.rows import DELEGATION_COLUMNS, text_of
from ctrlrun.state.session import Row, Session
from ctrlrun.state.sqlite_files import Identity
from ctrlrun.state.sqlite_schema import CHANGES_TABLE, CHANGES_TRIGGERS
from ctrlrun.state.sqlite_session import SQLiteSession

_COLUMNS = ", ".join(f"d.{name}" for name in DELEGATION_COLUMNS.split(", "))
_SCHEMA = "PRAGMA schema_version"
_TRIGGERS = (
    "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'delegations'"
)
_TABLE = f"SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = '{CHANGES_TABLE}'"
_IDS = "SELECT rowid, delegation_id, revoked_at FROM delegations ORDER BY rowid"
_REVOKE_ROW = "UPDATE delegations SET revoked_at = ?, revoked_by = ? WHERE rowid = ?"
# Each in one statement, so that notes and rows are of one moment.
_SINCE = (
    f"SELECT c.change_id, c.stamp, c.delegation_id, {_COLUMNS} FROM {CHANGES_TABLE} AS c "
    "LEFT JOIN delegations AS d ON d.delegation_id = c.delegation_id AND c.change_id > ? "
    "WHERE c.change_id >= ? ORDER BY c.change_id"
)
_WHOLE = (
    f"SELECT c.change_id, c.stamp, d.rowid, {_COLUMNS} FROM "
    f"(SELECT change_id, stamp FROM {CHANGES_TABLE} ORDER BY change_id DESC LIMIT 1) AS c "
    "LEFT JOIN delegations AS d ON 1"
)


@dataclass(frozen=True, slots=True)
class _Mark:
    """The last note that was seen, in which file, beneath which schema."""

    identity: Identity | None
    schema: int
    change_id: int
    stamp: int


class FollowedDelegations(DelegationReads):
    """The reads of delegations, and what changed among them since a mark."""

    def delegation_changes(self, mark: object | None) -> DelegationChanges:
        """What changed since `mark`, or all rows; one statement, of one moment."""
        session: SQLiteSession
        with self._sessions.current() as session:
            schema = session.rows(_SCHEMA)[0][0]
            if (
                isinstance(mark, _Mark)
                and mark.schema == schema
                and mark.identity == session.identity
            ):
                changes = _changes(session, mark)
                if changes is not None:
                    return changes
            if _is_noted(session):
                rows = session.rows(_WHOLE)
                if rows:
                    change_id, stamp = rows[0][:2]
                    found = tuple(DelegationRow(*row[3:]) for row in rows if row[2] is not None)
                    fresh = _Mark(session.identity, schema, change_id, stamp)
                    return DelegationChanges(fresh, True, found)
            return super().delegation_changes(mark)

    def _revoke_strange(self, session: Session, values: tuple[str, str | None, str]) -> bool | None:
        """Revoke the first row whose id is no text and reads like this one: such a row denies all."""
        at, by, delegation_id = values
        found = None
        for rowid, stored, revoked_at in session.rows(_IDS):
            if isinstance(stored, str) or (text_of(stored) or "") != delegation_id:
                continue
            if revoked_at is None:
                session.execute(_REVOKE_ROW, (at, by, rowid))
                return True
            found = False
        return found


def _changes(session: SQLiteSession, mark: _Mark) -> DelegationChanges | None:
    """What was noted after the mark; None when it has to be read anew."""
    rows = session.rows(_SINCE, (mark.change_id, mark.change_id))
    if not rows or rows[0][:2] != (mark.change_id, mark.stamp):
        return None
    if len(rows) == 1:
        return DelegationChanges(mark, False, ())
    latest: dict[str, Row] = {}
    for row in rows[1:]:
        if not isinstance(row[2], str):
            return None  # an id that is not text: no row can be told by it
        latest[row[2]] = row[3:]
    change_id, stamp = rows[-1][:2]
    return DelegationChanges(
        _Mark(mark.identity, mark.schema, change_id, stamp),
        False,
        tuple(DelegationRow(*row) for row in latest.values() if row[0] is not None),
        tuple(delegation_id for delegation_id, row in latest.items() if row[0] is None),
    )


def _is_noted(session: SQLiteSession) -> bool:
    """Whether the side table and its triggers are there, and the triggers are those of this build."""
    triggers = {str(name): sql for name, sql in session.rows(_TRIGGERS)}
    if any(triggers.get(name) != sql for name, sql in CHANGES_TRIGGERS.items()):
        return False
    return bool(session.rows(_TABLE))
