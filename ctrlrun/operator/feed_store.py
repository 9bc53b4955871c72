"""The store's half of a feed: what was appended since the last look, and whether it is the same store.

Looks at the change token first and reads only when that moved. Each read begins with the last event
that was seen: when another one stands there, the store went back or is another one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ctrlrun.errors import StoreNotFound
from ctrlrun.receipt import Event, Receipt
from ctrlrun.state import PagedReader
from ctrlrun.state.page import START

_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class StoreRead:
    """What one look found. `more` says that the batch is full."""

    events: tuple[Event, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    changed: bool = False
    more: bool = False
    replaced: bool = False
    damaged: int = 0


class StoreTail:
    """The end of one store's events, and of its receipts when they are asked for.

    Belongs to one thread, which owns the reader that it opens.
    """

    def __init__(
        self,
        open_reader: Callable[[], PagedReader],
        *,
        path: Path | None,
        after_event_id: int | None,
        receipts: bool,
        batch: int,
    ) -> None:
        self._open_reader = open_reader
        self._path = path
        self._wants_receipts = receipts
        self._batch = batch
        self._reader: PagedReader | None = None
        self._token: object = _UNKNOWN
        self._file = _file_at(path)
        self._more = False
        self._replaced = False
        self._last: Event | None = None
        self._cursor = None if after_event_id is None else str(after_event_id)
        self._receipt_cursor: str | None = None

    @property
    def last_id(self) -> int:
        """The newest event id that was handed out, or was there at the start."""
        return int(self._cursor or 0)

    def read(self) -> StoreRead:
        """Look once; whatever a reader raises leaves it, and the next look opens a new one."""
        try:
            return self._read()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the reader."""
        reader, self._reader = self._reader, None
        self._token = _UNKNOWN
        if reader is not None:
            with suppress(Exception):  # it is given up because it fails
                reader.close()

    def _read(self) -> StoreRead:
        if self._is_elsewhere():
            self.close()
            self._start_anew()
            self._replaced = True  # to be told by the look that can read it
        if self._reader is None:
            self._reader = self._open_reader()
        token = self._reader.change_token()
        if token is None:
            raise StoreNotFound("the store is no longer at its place")
        if token == self._token and not self._more:
            return StoreRead()
        found = self._appended(self._reader)
        self._token = token
        self._more = found.more
        changed = StoreRead(
            found.events,
            found.receipts,
            changed=True,
            more=found.more,
            replaced=found.replaced or self._replaced,
            damaged=found.damaged,
        )
        self._replaced = False
        return changed

    def _is_elsewhere(self) -> bool:
        """Whether another file stands at the store's path than at the last look."""
        found = _file_at(self._path)
        if found is None or found == self._file:
            return False
        is_other = self._file is not None
        self._file = found
        return is_other

    def _start_anew(self) -> None:
        self._last = None
        self._cursor = None
        self._receipt_cursor = None

    def _appended(self, reader: PagedReader) -> StoreRead:
        if self._cursor is None or (self._wants_receipts and self._receipt_cursor is None):
            self._go_to_end(reader)
        overlap = 0 if self._last is None else 1
        page = reader.events_page(after=str(self.last_id - overlap), limit=self._batch + overlap)
        events = page.items
        if self._last is not None:
            is_damaged = any(damage.row_id == self._cursor for damage in page.damaged)
            if events and events[0] == self._last:
                events = events[1:]
            elif not is_damaged:
                self._start_anew()
                self._go_to_end(reader)
                return StoreRead(replaced=True)
        if page.after is not None and int(page.after) > self.last_id:
            self._cursor = page.after
            self._last = events[-1] if events and str(events[-1].event_id) == page.after else None
        receipts = self._new_receipts(reader)
        full = len(events) + len(page.damaged) >= self._batch or len(receipts) >= self._batch
        return StoreRead(events, receipts, more=full, damaged=len(page.damaged))

    def _go_to_end(self, reader: PagedReader) -> None:
        """Begin behind what is there."""
        if self._cursor is None:
            newest = reader.events_page(limit=1)
            self._cursor = newest.after or "0"
            self._last = newest.items[-1] if newest.items else None
        if self._wants_receipts and self._receipt_cursor is None:
            self._receipt_cursor = reader.receipts_page(limit=1).after or START

    def _new_receipts(self, reader: PagedReader) -> tuple[Receipt, ...]:
        if self._receipt_cursor is None:
            return ()
        page = reader.receipts_page(after=self._receipt_cursor, limit=self._batch)
        self._receipt_cursor = page.after or self._receipt_cursor
        return page.items


def _file_at(path: Path | None) -> tuple[int, int] | None:
    try:
        status = None if path is None else os.stat(path)
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)
