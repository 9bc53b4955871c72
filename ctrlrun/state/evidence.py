"""Evidence in a relational store: the log of events, and the chain of receipts."""

from __future__ import annotations

from collections.abc import Sequence

from ctrlrun.errors import DamagedRow, InvalidArgument
from ctrlrun.receipt import Event, Receipt, event_data_json, link, numbered
from ctrlrun.state.core import Reads, Writes
from ctrlrun.state.rows import (
    EVENT_COLUMNS,
    RECEIPT_COLUMNS,
    column_time,
    event_from,
    receipt_from,
)
from ctrlrun.state.session import Row, Session

_APPEND = (
    "INSERT INTO events (ts, type, action_id, effect_key, approval_id, data_json) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)
_HEAD = "SELECT seq, hash FROM receipt_chain WHERE id = 1"
_PUT = (
    "INSERT INTO receipts (receipt_id, action_id, effect_key, result, json, ts, seq, prev_hash, "
    "hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_BY_ID = f"SELECT {RECEIPT_COLUMNS} FROM receipts WHERE receipt_id = ?"
_MOVE_HEAD = "UPDATE receipt_chain SET seq = ?, hash = ? WHERE id = 1"


class EvidenceReads(Reads):
    """The log and the receipts, whole. Readers of ours take pages instead."""

    def events(self) -> tuple[Event, ...]:
        """Every event, oldest first."""
        rows = self._rows(f"SELECT {EVENT_COLUMNS} FROM events ORDER BY event_id")
        return tuple(event_from(row) for row in rows)

    def get_receipt(self, receipt_id: str) -> Receipt | None:
        """The receipt of an id, or None."""
        row = self._row(_BY_ID, (receipt_id,))
        return None if row is None else receipt_from(row)

    def receipts(self) -> tuple[Receipt, ...]:
        """Every receipt in the order of the chain, those from before it first."""
        order = self._dialect.stored["receipts"]
        rows = self._rows(
            f"SELECT {RECEIPT_COLUMNS} FROM receipts ORDER BY {order.key} NULLS FIRST, {order.tie}"
        )
        return tuple(receipt_from(row) for row in rows)

    def chain_head(self) -> tuple[int, str] | None:
        """The last receipt's place and hash, or None when the head row is gone."""
        row = self._row(_HEAD)
        return None if row is None else _head_from(row)


class EvidenceWrites(EvidenceReads, Writes):
    """Appending: nothing here is ever changed or removed."""

    def append_event(self, event: Event) -> Event:
        """Append an event; returns it with the id that it was given.

        Raises InvalidArgument for data that JSON has no form for, or a time without an offset.
        """
        (event_id,) = self._append((event,))
        return numbered(event, event_id)

    def append_events(self, events: Sequence[Event]) -> Sequence[int | None]:
        """Append several events in order, as `append_event` does with each: the ids they were given.

        One statement writes them all.
        """
        if getattr(self.append_event, "__func__", None) is not EvidenceWrites.append_event:
            return [self.append_event(event).event_id for event in events]  # it sees each of them
        return self._append(events) if events else ()

    def _append(self, events: Sequence[Event]) -> Sequence[int]:
        values = [value for event in events for value in _columns(event)]
        sql = _APPEND + ", (?, ?, ?, ?, ?, ?)" * (len(events) - 1)
        return self._write(lambda session: session.insert(sql, values, "event_id"))

    def put_receipt(self, receipt: Receipt) -> Receipt:
        """Store a receipt as the next of the chain; returns it with `seq`, `prev_hash`, `hash`.

        Raises InvalidArgument when the chain has no head row, the id was used before, or the
        receipt has no canonical form.
        """

        def step(session: Session) -> Receipt:
            row = session.row(f"{_HEAD}{self._dialect.for_update}")
            if row is None:
                raise InvalidArgument("the receipt chain has no head row; nothing was written")
            chained, document = link(_head_from(row), receipt)
            values = (
                chained.receipt_id,
                chained.action_id,
                chained.effect_key,
                str(chained.result),
                document,
                column_time(chained.finished_at),
                chained.seq,
                chained.prev_hash,
                chained.hash,
            )
            # The head never moves without the receipt, which may be refused (a used id).
            both = self._dialect.moving_head(_PUT)
            if both is None:
                session.execute(_PUT, values)
                session.execute(_MOVE_HEAD, (chained.seq, chained.hash))
                assert chained.seq is not None and chained.hash is not None
                session.note_head(chained.seq, chained.hash)
            elif session.execute(both, values).rowcount != 1:
                raise InvalidArgument(f"receipt {chained.receipt_id} already exists")
            return chained

        return self._write(step)


def _columns(event: Event) -> tuple[str | None, ...]:
    return (
        column_time(event.ts),
        str(event.type),
        event.action_id,
        event.effect_key,
        event.approval_id,
        event_data_json(event),
    )


def _head_from(row: Row) -> tuple[int, str]:
    seq, digest = row
    if not isinstance(seq, int) or not isinstance(digest, str):
        raise DamagedRow(table="receipt_chain", row_id="1")
    return seq, digest
