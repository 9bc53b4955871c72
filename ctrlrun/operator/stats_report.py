"""What a count of receipts says: the values of the Stats view and of `ctrlrun stats`.

Values alone: `stats` counts, `stats_panels` makes these. Every number that stands for receipts
carries the filter text that lists exactly them (docs/stats.md, docs/filters.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from ctrlrun.operator.filter_fields import RowKind
from ctrlrun.state import Damage


class Window(StrEnum):
    """The spans of time that the console offers, up to now."""

    QUARTER = "15m"
    HOUR = "1h"
    DAY = "24h"
    WEEK = "7d"
    ALL = "all"

    @property
    def length(self) -> timedelta | None:
        """How far it reaches back; None for all there is."""
        return _LENGTHS[self]


_LENGTHS: dict[Window, timedelta | None] = {
    Window.QUARTER: timedelta(minutes=15),
    Window.HOUR: timedelta(hours=1),
    Window.DAY: timedelta(hours=24),
    Window.WEEK: timedelta(days=7),
    Window.ALL: None,
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A number, the same number in the window before (None: there is none), and what it counts.

    `filter` is a text for `ctrlrun.operator.filter.parse(filter, kind, now=...)`.
    """

    count: int
    before: int | None
    filter: str
    kind: RowKind = RowKind.RECEIPTS

    @property
    def change(self) -> int | None:
        """Against the window before; None where there is none, or it is not counted yet."""
        return None if self.before is None else self.count - self.before


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the count is, in receipts that were looked at. `done`: all there were is in.

    `before_done`: the window before is in too; until then no `before` is given.
    """

    looked_at: int
    total: int
    done: bool
    before_done: bool

    @property
    def share(self) -> float:
        """0.0 to 1.0."""
        return 1.0 if self.done or self.total == 0 else min(1.0, self.looked_at / self.total)


@dataclass(frozen=True, slots=True)
class TotalRow:
    """Calls by a decision (`allow approve deny`) or an outcome (`committed ... observed`)."""

    name: str
    figure: Figure


@dataclass(frozen=True, slots=True)
class ActionRow:
    """One action. In observe mode `allowed asked denied blocked duplicates` are what enforcing would
    have done. `duplicates` is part of `blocked`; None in enforce mode, whose receipts do not say
    what they were blocked at.
    """

    action: str
    calls: Figure
    allowed: Figure
    asked: Figure
    denied: Figure
    blocked: Figure
    duplicates: Figure | None
    ambiguous: Figure
    failed: Figure


@dataclass(frozen=True, slots=True)
class ReasonRow:
    """What one agent's calls of one action were stopped by, or asked a human for."""

    reason: str
    action: str
    agent: str
    denied: Figure
    asked: Figure
    blocked: Figure

    @property
    def count(self) -> int:
        """All three together."""
        return self.denied.count + self.asked.count + self.blocked.count


@dataclass(frozen=True, slots=True)
class PolicyRow:
    """Calls under one policy: the first 16 characters of its hash; None: they do not say which."""

    policy_hash: str | None
    calls: Figure
    asked: Figure
    stopped: Figure


@dataclass(frozen=True, slots=True)
class PrincipalRow:
    """One agent. Not by user: an agent may act for as many as it has customers."""

    agent: str
    calls: Figure
    asked: Figure
    denied: Figure
    blocked: Figure


@dataclass(frozen=True, slots=True)
class Bucket:
    """One bar of the chart: what finished in [start, start + series.step).

    `filter` is that span of time alone; the terms of what is meant go before it.
    """

    start: datetime
    calls: int
    asked: int
    stopped: int
    ambiguous: int
    filter: str


@dataclass(frozen=True, slots=True)
class Series:
    """The chart over time, oldest first, empty buckets included. Steps are whole minutes."""

    step: timedelta
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True, slots=True)
class WorstTen:
    """The ten minutes in which most was asked: where they begin (a whole minute), and how much."""

    start: datetime
    asked: Figure


@dataclass(frozen=True, slots=True)
class Rollout:
    """What enforcing this policy would have done to the calls that were only observed.

    `stopped` is denied or blocked. `asked_per_hour` is an average
    over the window, or over the time from the first receipt when all is counted.
    """

    calls: Figure
    denied: Figure
    asked: Figure
    blocked: Figure
    ambiguous: Figure
    stopped: Figure
    asked_per_hour: float
    worst: WorstTen | None


@dataclass(frozen=True, slots=True)
class AnswerTimes:
    """Requests made in the window, and how long people took. Figures list approvals.

    `expired`: nobody answered in time. `median` and `p95` are over granted and denied ones whose
    time of answer is recorded; None without any.
    """

    requests: Figure
    granted: Figure
    denied: Figure
    expired: Figure
    waiting: Figure
    median: timedelta | None
    p95: timedelta | None

    @property
    def expired_share(self) -> float | None:
        """Expired ones of all requests; None without requests."""
        return self.expired.count / self.requests.count if self.requests.count else None


@dataclass(frozen=True, slots=True)
class StatsReport:
    """One window, counted so far.

    `since` is the boundary (inclusive; None: from the beginning), `until` when it was counted;
    `first` and `last` are the earliest and the latest end that was counted. Rows are ordered by
    what they count, descending, then by name. `rollout` is there in observe mode alone.
    `calls` are the receipts of this mode, in every row; those that were made in the other one are in
    `other_mode` and in no other number. `requests` are the different requests for approval that the
    calls which needed one presented. `document` is what
    `ctrlrun stats --json` prints for this boundary. `damaged` names receipts that cannot be read;
    no number has them.
    """

    mode: str
    window: Window | None
    since: datetime | None
    until: datetime
    first: datetime | None
    last: datetime | None
    progress: Progress
    calls: Figure
    denied: Figure
    asked: Figure
    blocked: Figure
    ambiguous: Figure
    other_mode: Figure
    requests: int
    decisions: tuple[TotalRow, ...]
    results: tuple[TotalRow, ...]
    actions: tuple[ActionRow, ...]
    reasons: tuple[ReasonRow, ...]
    policies: tuple[PolicyRow, ...]
    principals: tuple[PrincipalRow, ...]
    series: Series
    rollout: Rollout | None
    answers: AnswerTimes | None
    document: Mapping[str, Any]
    damaged: tuple[Damage, ...] = ()
