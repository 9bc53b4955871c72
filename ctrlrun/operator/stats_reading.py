"""Tallies from every store: those of our stores, or made over the pages of any other, slower."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import cast

from ctrlrun.approval import ApprovalRecord
from ctrlrun.operator.pages import PAGE, oldest_first, paged
from ctrlrun.receipt import EventType, Receipt
from ctrlrun.state import PagedReader, StateReader, TallyReader
from ctrlrun.state.page import START
from ctrlrun.state.tally import AnswerTally, Stretch, TallyPage, answers_of, tally_receipts


def tallying(store: StateReader) -> TallyReader:
    """The store itself when it counts, else counts over its pages."""
    counts = hasattr(store, "receipts_tally")
    return cast("TallyReader", store) if counts else PageTallies(paged(store))


class PageTallies:
    """Counts over pages of receipts: what is counted is read whole."""

    def __init__(self, reader: PagedReader) -> None:
        self._reader = reader

    def receipts_place(self, since: datetime) -> str:
        """The cursor before the first receipt of the chain that finished then or later."""
        cursor = START
        while True:
            page = self._reader.receipts_page(after=cursor, limit=PAGE)
            if page.after is None or any(r.finished_at >= since for r in page.items):
                return cursor
            cursor = page.after

    def receipts_tally(
        self,
        stretch: Stretch,
        *,
        after: str = START,
        through: str | None = None,
        limit: int,
    ) -> TallyPage:
        """The tallies of the next page of receipts; cursors are those of the pages."""
        if through == START or (through is not None and after == through):
            return TallyPage()
        # Up to a cursor, whole pages: `receipts_place` gives ends of those.
        size = min(limit, PAGE) if through is None else PAGE
        page = self._reader.receipts_page(after=after, limit=size)
        if page.after is None:
            return TallyPage()
        tally = tally_receipts(page.items, stretch)
        looked_at = len(page.items) + len(page.damaged)
        return replace(tally, looked_at=looked_at, after=page.after, damaged=page.damaged)

    def receipts_finished(self, stretch: Stretch, *, through: str) -> TallyPage:
        """The tallies of all receipts that finished in the stretch and stand before a cursor."""
        return tally_receipts(
            (receipt for page in self._until(through) for receipt in page), stretch
        )

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
        denied: dict[str, datetime] = {}
        read = partial(self._reader.events_page, types=(EventType.APPROVAL_DENIED,))
        for event in oldest_first(read):
            if event.approval_id is not None:
                denied.setdefault(event.approval_id, event.ts)
        return answers_of(
            (
                (record, denied.get(record.approval_id))
                for record in oldest_first(self._reader.approvals_page)
                if _is_within(record, since, until)
            ),
            now,
        )

    def _until(self, through: str) -> Iterator[tuple[Receipt, ...]]:
        """The receipts up to a cursor. Cursors have no order here: those before the next one."""
        following = self._reader.receipts_page(after=through, limit=1)
        page = self._reader.receipts_page(before=following.before, limit=PAGE)
        while page.before is not None:
            yield page.items
            page = self._reader.receipts_page(before=page.before, limit=PAGE)


def _is_within(record: ApprovalRecord, since: datetime | None, until: datetime | None) -> bool:
    made = record.request.created_at
    return (since is None or made >= since) and (until is None or made < until)
