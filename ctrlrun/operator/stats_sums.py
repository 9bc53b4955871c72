"""The sums of a count: what was added, moved behind the boundary, or taken out again.

Plain arithmetic over tallies; knows neither stores nor what a screen shows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from ctrlrun.operator.stats_words import kinds_of
from ctrlrun.state.tally import ReceiptFacts, Request, Tally

MARKS = ("calls", "asked", "stopped", "ambiguous")
"""What is told over time."""


class Sums:
    """Receipts of a window and of the one before, by what they say; of the window, over time too.

    `moments`: by the minute or hour in which receipts finished, one number for each of `MARKS`.
    """

    def __init__(self, mode: str) -> None:
        kinds = kinds_of(mode)
        self._kinds = [kinds[name] for name in MARKS]
        self._marks: dict[ReceiptFacts, tuple[int, ...]] = {}
        self.current: Counter[ReceiptFacts] = Counter()
        self.before: Counter[ReceiptFacts] = Counter()
        self.moments: dict[datetime, list[int]] = {}
        self._observes = mode == "observe"
        self._requests: dict[str, datetime] = {}

    @property
    def is_broken(self) -> bool:
        """Whether more was taken out than was ever counted: somebody changed the store by hand."""
        return any(n < 0 for counts in (self.current, self.before) for n in counts.values())

    def add(self, tallies: Iterable[Tally]) -> None:
        """Count receipts in, on the side of the boundary on which they finished."""
        for tally in tallies:
            if tally.before:
                _change(self.before, tally.facts, tally.receipts)
            else:
                _change(self.current, tally.facts, tally.receipts)
                self._mark(tally, tally.receipts)

    def move(self, tallies: Iterable[Tally]) -> None:
        """The boundary passed these: they belong to the window before."""
        for tally in tallies:
            _change(self.current, tally.facts, -tally.receipts)
            _change(self.before, tally.facts, tally.receipts)
            self._mark(tally, -tally.receipts)

    def drop(self, tallies: Iterable[Tally]) -> None:
        """These left the window before."""
        for tally in tallies:
            _change(self.before, tally.facts, -tally.receipts)

    def name(self, requests: Iterable[Request]) -> None:
        """Remember which requests receipts of this mode name, and when the last of them finished."""
        for request in requests:
            if request.observed is self._observes:
                known = self._requests.get(request.approval_id, request.last)
                self._requests[request.approval_id] = max(known, request.last)

    def requests(self, since: datetime | None) -> int:
        """How many different requests the receipts name that finished at the boundary or later."""
        if since is None:
            return len(self._requests)
        return sum(last >= since for last in self._requests.values())

    def _mark(self, tally: Tally, receipts: int) -> None:
        if tally.moment is None:
            return
        marks = self._marks.get(tally.facts)
        if marks is None:
            marks = tuple(int(kind.holds(tally.facts)) for kind in self._kinds)
            self._marks[tally.facts] = marks
        numbers = self.moments.setdefault(tally.moment, [0] * len(MARKS))
        for index, mark in enumerate(marks):
            numbers[index] += mark * receipts
        if not numbers[0]:
            del self.moments[tally.moment]


def _change(counts: Counter[ReceiptFacts], facts: ReceiptFacts, by: int) -> None:
    counts[facts] += by
    if not counts[facts]:
        del counts[facts]
