"""From sums to a report: the rows of each panel, each number with the filter behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from ctrlrun.clock import iso_timestamp
from ctrlrun.conditions import Decision
from ctrlrun.operator.filter_fields import RowKind
from ctrlrun.operator.stats_chart import series_of, worst_ten
from ctrlrun.operator.stats_documents import document_of
from ctrlrun.operator.stats_report import (
    ActionRow,
    AnswerTimes,
    Figure,
    PolicyRow,
    PrincipalRow,
    Progress,
    ReasonRow,
    Rollout,
    StatsReport,
    TotalRow,
    Window,
)
from ctrlrun.operator.stats_words import Spelling, kinds_of, reason_of, reason_term
from ctrlrun.receipt import ReceiptResult
from ctrlrun.state import Damage
from ctrlrun.state.tally import POLICY_DIGITS, AnswerTally, ReceiptFacts

if TYPE_CHECKING:
    from ctrlrun.policy import Mode

Key = tuple[str | None, ...]
Numbers = Mapping[tuple[Key, str], int]

_STOPS = ("denied", "asked", "blocked")
_ALL: Key = ()
_AN_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a count holds, as it was at one moment; `before` is None where it is not counted."""

    mode: Mode
    window: Window | None
    boundary: datetime | None
    since: datetime | None
    until: datetime
    ends: tuple[datetime | None, datetime | None]
    current: Mapping[ReceiptFacts, int]
    before: Mapping[ReceiptFacts, int] | None
    moments: Mapping[datetime, tuple[int, ...]]
    answers: tuple[AnswerTally, AnswerTally | None] | None
    requests: int


def report_of(counted: Counted, progress: Progress, damaged: tuple[Damage, ...]) -> StatsReport:
    """The report of a count."""
    panels = _Panels(counted)
    return StatsReport(
        mode=counted.mode,
        window=counted.window,
        since=counted.boundary,
        until=counted.until,
        first=counted.ends[0],
        last=counted.ends[1],
        progress=progress,
        calls=panels.figure("calls"),
        denied=panels.figure("denied"),
        asked=panels.figure("asked"),
        blocked=panels.figure("blocked"),
        ambiguous=panels.figure("ambiguous"),
        other_mode=panels.figure("other_mode"),
        requests=counted.requests,
        decisions=panels.totals("decision", [word.value for word in Decision]),
        results=panels.totals("result", [word.value for word in ReceiptResult]),
        actions=panels.actions(),
        reasons=panels.reasons(),
        policies=panels.policies(),
        principals=panels.principals(),
        series=series_of(counted.moments, counted.since, counted.until, counted.window),
        rollout=panels.rollout() if counted.mode == "observe" else None,
        answers=None if counted.answers is None else _answers(counted, *counted.answers),
        document=document_of(
            counted.current,
            mode=counted.mode,
            boundary=counted.boundary,
            ends=counted.ends,
            requests=counted.requests,
        ),
        damaged=damaged,
    )


class _Panels:
    """The rows of one report."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted
        self._mode = counted.mode
        self._kinds = kinds_of(counted.mode)
        self._now = self._sum(counted.current)
        self._before = None if counted.before is None else self._sum(counted.before)
        spelled = [*counted.current, *(counted.before or ())]
        self._spell = {
            "action": Spelling(facts.action for facts in spelled),
            "agent": Spelling(facts.agent for facts in spelled),
            "reason": Spelling(
                text
                for facts in spelled
                for text in (facts.decision_reason, facts.would_reason, facts.blocked_reason)
                if text is not None
            ),
        }
        self._since = "" if counted.since is None else f"since:{iso_timestamp(counted.since)}"

    def figure(self, kind: str, key: Key = _ALL, *terms: str) -> Figure:
        """One number, with the terms that narrow its filter to the row."""
        return self._figure(kind, key, self._kinds[kind].filter, *terms)

    def totals(self, field: str, names: list[str]) -> tuple[TotalRow, ...]:
        """Calls by a decision or an outcome, those that there are."""
        rows = []
        for name in names:
            terms = (f"{field}:{name}", self._kinds["calls"].filter)
            row = TotalRow(name, self._figure(f"{field} {name}", _ALL, *dict.fromkeys(terms)))
            if row.figure.count or row.figure.before:
                rows.append(row)
        return tuple(rows)

    def actions(self) -> tuple[ActionRow, ...]:
        """By action."""
        rows = []
        for key in self._keys("action"):
            term = self._spell["action"].term("action", str(key[1]))
            made = {
                name: self.figure(name, key, term)
                for name in (
                    "calls",
                    "allowed",
                    "asked",
                    "denied",
                    "blocked",
                    "ambiguous",
                    "failed",
                )
            }
            duplicates = None
            if "duplicates" in self._kinds:
                duplicates = self.figure("duplicates", key, term)
            rows.append(ActionRow(action=str(key[1]), duplicates=duplicates, **made))
        return tuple(rows)

    def reasons(self) -> tuple[ReasonRow, ...]:
        """By what stopped, or asked for a human."""
        field = reason_term(self._mode)
        rows = []
        for key in self._keys("reason", *_STOPS):
            _, reason, action, agent = map(str, key)
            terms = (
                self._spell["reason"].term(field, reason),
                self._spell["action"].term("action", action),
                self._spell["agent"].term("agent", agent),
            )
            denied, asked, blocked = (self.figure(name, key, *terms) for name in _STOPS)
            rows.append(ReasonRow(reason, action, agent, denied, asked, blocked))
        return tuple(rows)

    def policies(self) -> tuple[PolicyRow, ...]:
        """By policy."""
        rows = []
        for key in self._keys("policy"):
            term = _policy_term(key[1])
            calls, asked, stopped = (
                self.figure(name, key, term) for name in ("calls", "asked", "stopped")
            )
            rows.append(PolicyRow(key[1], calls, asked, stopped))
        return tuple(rows)

    def principals(self) -> tuple[PrincipalRow, ...]:
        """By agent."""
        rows = []
        for key in self._keys("agent"):
            term = self._spell["agent"].term("agent", str(key[1]))
            calls, asked, denied, blocked = (
                self.figure(name, key, term) for name in ("calls", "asked", "denied", "blocked")
            )
            rows.append(PrincipalRow(str(key[1]), calls, asked, denied, blocked))
        return tuple(rows)

    def rollout(self) -> Rollout:
        """What enforcing would have done."""
        counted = self._counted
        asked = self.figure("asked")
        began = counted.since if counted.since is not None else counted.ends[0]
        hours = 0.0 if began is None else (counted.until - began) / _AN_HOUR
        return Rollout(
            calls=self.figure("calls"),
            denied=self.figure("denied"),
            asked=asked,
            blocked=self.figure("blocked"),
            ambiguous=self.figure("ambiguous"),
            stopped=self.figure("stopped"),
            asked_per_hour=asked.count / hours if hours > 0 else float(asked.count),
            worst=worst_ten(counted.moments, counted.since, self._kinds["asked"].filter),
        )

    # --- sums by row -----------------------------------------------------------------------------

    def _sum(self, counts: Mapping[ReceiptFacts, int]) -> Numbers:
        """Every number of every row, in one walk."""
        numbers: Counter[tuple[Key, str]] = Counter()
        for facts, count in counts.items():
            kinds = [kind.name for kind in self._kinds.values() if kind.holds(facts)]
            for key in _rows_of(facts):
                for kind in kinds:
                    numbers[key, kind] += count
            if "calls" in kinds:
                numbers[_ALL, f"decision {facts.decision}"] += count
                numbers[_ALL, f"result {facts.result}"] += count
            for kind in _STOPS:
                if kind in kinds:
                    reason = reason_of(kind, facts, self._mode)
                    numbers[("reason", reason, facts.action, facts.agent), kind] += count
        return numbers

    def _keys(self, dimension: str, *kinds: str) -> list[Key]:
        """The rows of a panel: by what they count, then by name."""
        sizes: Counter[Key] = Counter()
        for (key, kind), count in self._now.items():
            if key and key[0] == dimension and kind in (kinds or ("calls",)):
                sizes[key] += count
        return sorted(sizes, key=lambda key: (-sizes[key], tuple(part or "" for part in key)))

    def _figure(self, kind: str, key: Key, *terms: str) -> Figure:
        before = None if self._before is None else self._before.get((key, kind), 0)
        text = " ".join(term for term in (*terms, self._since) if term)
        return Figure(self._now.get((key, kind), 0), before, text)


def _rows_of(facts: ReceiptFacts) -> Iterator[Key]:
    yield _ALL
    yield "action", facts.action
    yield "agent", facts.agent
    yield "policy", facts.policy


def _policy_term(policy: str | None) -> str:
    if policy is None:
        return "-policy:*"
    quoted = policy.replace("\\", "\\\\").replace('"', '\\"')
    return f'policy:"{quoted}"' + ("*" if len(policy) == POLICY_DIGITS else "")


def _answers(counted: Counted, now: AnswerTally, before: AnswerTally | None) -> AnswerTimes:
    since = "" if counted.since is None else f"since:{iso_timestamp(counted.since)}"

    def figure(name: str, count: int, earlier: int | None) -> Figure:
        answer = "" if name == "requests" else f"answer:{name}"
        text = " ".join(term for term in (answer, since) if term)
        return Figure(count, earlier, text, RowKind.APPROVALS)

    made = {
        name: figure(name, getattr(now, name), None if before is None else getattr(before, name))
        for name in ("requests", "granted", "denied", "expired", "waiting")
    }
    return AnswerTimes(**made, median=now.median, p95=now.p95)
