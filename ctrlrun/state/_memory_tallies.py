"""The counts of the store in memory."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import datetime

from ctrlrun.receipt import EventType
from ctrlrun.state._memory_pages import Tables
from ctrlrun.state.page import START, aware, check_page, number_of
from ctrlrun.state.tally import AnswerTally, Stretch, TallyPage, answers_of, tally_receipts


class MemoryTallies:
    """Receipts and answers counted, over tables behind a lock."""

    _lock: threading.RLock
    _tables: Tables

    def receipts_place(self, since: datetime) -> str:
        """The cursor before the first receipt of the chain that finished then or later."""
        aware(since, "since")
        with self._lock:
            rows = self._tables.receipts
            found = (row.seq for row in rows if row.receipt.finished_at >= since)
            return str(next(found, len(rows) + 1) - 1)

    def receipts_tally(
        self,
        stretch: Stretch,
        *,
        after: str = START,
        through: str | None = None,
        limit: int,
    ) -> TallyPage:
        """The tallies of the next receipts behind a cursor, at most through another."""
        check_page(None, after, limit)
        start = number_of(after) if after else 0
        with self._lock:
            rows = self._tables.receipts
            end = len(rows) if through is None else min(number_of(through or "0"), len(rows))
            chosen = rows[start : min(end, start + limit)]
        if not chosen:
            return TallyPage()
        page = tally_receipts((row.receipt for row in chosen), stretch)
        last = chosen[-1].seq
        return replace(page, after=str(last), left=end - last)

    def receipts_finished(self, stretch: Stretch, *, through: str) -> TallyPage:
        """The tallies of all receipts that finished in the stretch and stand before a cursor."""
        with self._lock:
            chosen = self._tables.receipts[: number_of(through or "0")]
        return tally_receipts((row.receipt for row in chosen), stretch)

    def receipts_ends(
        self, since: datetime | None, *, through: str
    ) -> tuple[datetime | None, datetime | None]:
        """When the first and the last receipt finished of those from `since` on, before a cursor."""
        page = self.receipts_finished(Stretch(since=since), through=through)
        return page.first, page.last

    def answers_tally(
        self, now: datetime, *, since: datetime | None = None, until: datetime | None = None
    ) -> AnswerTally:
        """How the requests made in [since, until) were answered, as of `now`."""
        for name, moment in (("now", now), ("since", since), ("until", until)):
            if moment is not None:
                aware(moment, name)
        denied: dict[str, datetime] = {}
        with self._lock:
            for row in self._tables.events:
                event = row.event
                if event.type is EventType.APPROVAL_DENIED and event.approval_id is not None:
                    denied.setdefault(event.approval_id, event.ts)
            records = [row.record for row in self._tables.approvals.values()]
        return answers_of(
            (
                (record, denied.get(record.approval_id))
                for record in records
                if (since is None or record.request.created_at >= since)
                and (until is None or record.request.created_at < until)
            ),
            now,
        )
