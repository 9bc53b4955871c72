"""Holders in a relational store: which process made which attempt, and when it was last seen.

A side table that decides nothing (docs/slow-executors.md). A store that has not got it tells of no
holder. What is written there joins the transaction that is open.
"""

from __future__ import annotations

from datetime import datetime

from ctrlrun.effect import Holder
from ctrlrun.state.core import Reads, Writes
from ctrlrun.state.rows import HOLDER_COLUMNS, column_time, holder_from
from ctrlrun.state.session import Session, Values

_TABLE = "holders"
_BY_ATTEMPT = f"SELECT {HOLDER_COLUMNS} FROM holders WHERE effect_key = ? AND attempt = ?"
_PUT = (
    f"INSERT INTO holders ({HOLDER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (effect_key, attempt) DO UPDATE SET action_id = excluded.action_id, "
    "host = excluded.host, pid = excluded.pid, boot_id = excluded.boot_id, "
    "thread = excluded.thread, started_at = excluded.started_at, seen_at = excluded.seen_at"
)
_SEE = "UPDATE holders SET seen_at = ? WHERE effect_key = ? AND attempt = ? AND action_id = ?"


class HolderReads(Reads):
    """What a store tells about holders."""

    def get_holder(self, effect_key: str, attempt: int) -> Holder | None:
        """Who made that attempt; None when nobody wrote it down.

        Raises DamagedRow for a row that cannot be read.
        """
        with self._sessions.current() as session:
            if not session.has_table(_TABLE):
                return None
            row = session.row(_BY_ATTEMPT, (effect_key, attempt))
        return None if row is None else holder_from(row)


class HolderWrites(HolderReads, Writes):
    """Writing down who makes an attempt, and that it was seen."""

    def put_holder(self, holder: Holder) -> None:
        """Write down who makes an attempt, over whoever made the part of it before a suspension."""
        values = (
            holder.effect_key,
            holder.action_id,
            holder.attempt,
            holder.host,
            holder.pid,
            holder.boot_id,
            holder.thread,
            holder.started_at,
            column_time(holder.seen_at),
        )
        self._write(lambda session: _put(session, _PUT, values))

    def see_holder(self, effect_key: str, action_id: str, attempt: int, at: datetime) -> None:
        """Note that an attempt was seen at a time; nothing when it is not written down."""
        values = (column_time(at), effect_key, attempt, action_id)
        self._write(lambda session: _put(session, _SEE, values))


def _put(session: Session, sql: str, values: Values) -> None:
    """Where the table is missing, or is not ours to write, a call goes on without it."""
    if session.takes_rows(_TABLE):
        session.execute_later(sql, values)
