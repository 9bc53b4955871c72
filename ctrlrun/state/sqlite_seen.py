"""How far a store has seen its own evidence, to tell a file that goes back behind it.

An older copy that is moved into place, or a new file where one was removed, has forgotten effects
that happened. A store that has seen more than the file holds acts no more.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from ctrlrun.errors import StoreReplaced
from ctrlrun.state.sqlite_files import Files

_NEWEST = (
    "SELECT c.seq, c.hash, e.event_id, e.ts, e.action_id FROM (SELECT 1) "
    "LEFT JOIN receipt_chain AS c ON c.id = 1 "
    "LEFT JOIN events AS e ON e.event_id = (SELECT MAX(event_id) FROM events)"
)
_RECEIPT = "SELECT 1 FROM receipts WHERE seq = ? AND hash = ?"
_EVENT = "SELECT 1 FROM events WHERE event_id = ? AND ts IS ? AND action_id IS ?"


class Mark(NamedTuple):
    """The newest receipt and the newest event: of a store, or of one transaction.

    Made in every transaction, so a plain tuple: a dataclass costs a call 12 us more.
    """

    receipt: tuple[Any, Any] | None = None
    """Its place in the chain and its hash."""
    event: tuple[Any, Any, Any] | None = None
    """Its id, its time and its action."""

    def is_in(self, connection: sqlite3.Connection) -> bool:
        """Whether the database holds both."""
        return all(
            row is None or connection.execute(sql, row).fetchone() is not None
            for sql, row in ((_RECEIPT, self.receipt), (_EVENT, self.event))
        )


def newest(connection: sqlite3.Connection) -> Mark:
    """What the connection sees."""
    seq, digest, *event = connection.execute(_NEWEST).fetchone()
    return Mark((seq, digest) if seq else None, tuple(event) if event[0] is not None else None)


class Seen:
    """What one store has seen, over all of its threads."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._mark: Mark | None = None
        self._files: Files | None = None

    def check(self, connection: sqlite3.Connection, files: Files) -> None:
        """Take note of the files of a new connection.

        Raises StoreReplaced for files that lack what this store has seen.
        """
        if files == self._files:
            return
        if self._mark is None:
            self._mark = newest(connection)
        elif not self._mark.is_in(connection):
            raise StoreReplaced(
                f"the files at {self._path!r} were replaced by others, which lack receipts or events "
                "that this program has seen: effects that happened are forgotten there, so nothing is "
                "done; put the newer files back, or restart the program to go on with these",
                path=self._path,
            )
        self._files = files

    def note(self, written: Mark) -> None:
        """What a transaction wrote stands in the files at the path."""
        if self._mark is not None:
            known = self._mark
            self._mark = Mark(written.receipt or known.receipt, written.event or known.event)
