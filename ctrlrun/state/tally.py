"""What is counted of receipts and of answers, and the same count over receipts as objects.

Values, and plain Python for stores that hold objects. `tallies` has the SQL of it; what a number
means to a person is decided in `ctrlrun.operator.stats`. Rules: docs/stats.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

from ctrlrun.approval import ApprovalRecord, ApprovalStatus
from ctrlrun.conditions import Decision
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun.state.page import Damage, aware

POLICY_DIGITS = len("sha256:") + 16
"""How much of a policy's hash is kept: policies are told apart by it, not proved."""

Timed = Literal["", "hour", "minute"]


class ReceiptFacts(NamedTuple):
    """What receipts are counted by. The last four are None outside observe mode.

    `policy` is the beginning of the policy's hash. A tuple, because a slice makes many of them.
    """

    action: str
    agent: str
    decision: str
    decision_reason: str
    result: str
    policy: str | None = None
    execution: str | None = None
    would_decision: str | None = None
    would_reason: str | None = None
    blocked_reason: str | None = None


class Tally(NamedTuple):
    """So many receipts that say the same.

    `before`: they finished before the split. `moment`: the minute or the hour in which they
    finished, where times were asked for (None: the stored time is no time).
    """

    facts: ReceiptFacts
    receipts: int
    before: bool = False
    moment: datetime | None = None


class Request(NamedTuple):
    """An approval that receipts of calls which needed one name: the last of them finished then.

    `observed`: those receipts were made in observe mode.
    """

    approval_id: str
    observed: bool
    last: datetime


@dataclass(frozen=True, slots=True)
class TallyPage:
    """What a stretch of the chain holds.

    `after` is the cursor behind it, None when there was nothing to look at; `left` is about how
    many receipts are behind that. `first` and `last` are the ends of those that finished at or
    after the split, unless `has_ends` says that they are to be asked for when all is counted. Receipts that cannot be read are in no tally; the first hundred are named.
    """

    tallies: tuple[Tally, ...] = ()
    requests: tuple[Request, ...] = ()
    looked_at: int = 0
    left: int = 0
    after: str | None = None
    first: datetime | None = None
    last: datetime | None = None
    damaged: tuple[Damage, ...] = ()
    has_ends: bool = True


@dataclass(frozen=True, slots=True)
class Stretch:
    """Which receipts: of the chain, and of those the ones that finished in [since, until).

    `split` parts them by when they finished. `timed` is how exactly moments are told: by the
    `minute`, by the `hour`, or not at all. Raises InvalidArgument for a moment without an offset from UTC.
    """

    since: datetime | None = None
    until: datetime | None = None
    split: datetime | None = None
    timed: Timed = ""

    def __post_init__(self) -> None:
        for name in ("since", "until", "split"):
            moment = getattr(self, name)
            if moment is not None:
                aware(moment, name)


@dataclass(frozen=True, slots=True)
class AnswerTally:
    """Requests and how they were answered. `expired`: nobody did in time, by the clock.

    `median` and `p95` (nearest rank) are over the granted and denied ones.
    """

    requests: int = 0
    granted: int = 0
    denied: int = 0
    expired: int = 0
    waiting: int = 0
    median: timedelta | None = None
    p95: timedelta | None = None


# --- receipts as objects -------------------------------------------------------------------------


def facts_of(receipt: Receipt) -> ReceiptFacts:
    """What a receipt is counted by."""
    would = receipt.would_have
    policy = word(receipt.policy_hash)
    return ReceiptFacts(
        receipt.action,
        receipt.principal.agent,
        receipt.decision.value,
        receipt.decision_reason,
        receipt.result.value,
        None if policy is None else policy[:POLICY_DIGITS] or None,
        None if receipt.execution is None else receipt.execution.value,
        None if would is None else word(would.get("decision")),
        None if would is None else word(would.get("reason")),
        None if would is None else word(would.get("blocked_reason")),
    )


def tally_receipts(receipts: Iterable[Receipt], stretch: Stretch) -> TallyPage:
    """The tallies of receipts that were read; no cursor, and nothing left."""
    counts: Counter[tuple[ReceiptFacts, bool, datetime | None]] = Counter()
    ends: list[datetime] = []
    requests: dict[tuple[str, bool], datetime] = {}
    looked_at = 0
    for receipt in receipts:
        looked_at += 1
        finished = receipt.finished_at
        if (stretch.since is not None and finished < stretch.since) or (
            stretch.until is not None and finished >= stretch.until
        ):
            continue
        before = stretch.split is not None and finished < stretch.split
        facts = facts_of(receipt)
        moment = None if before else _moment_of(finished, facts, stretch.timed)
        counts[facts, before, moment] += 1
        if not before:
            ends.append(finished)
        if receipt.decision is Decision.APPROVE and receipt.approval_id is not None:
            named = receipt.approval_id, receipt.result is ReceiptResult.OBSERVED
            requests[named] = max(finished, requests.get(named, finished))
    tallies = tuple(Tally(key[0], count, key[1], key[2]) for key, count in counts.items())
    return TallyPage(
        tallies,
        tuple(Request(*named, last) for named, last in requests.items()),
        looked_at,
        first=min(ends, default=None),
        last=max(ends, default=None),
    )


def _moment_of(finished: datetime, facts: ReceiptFacts, timed: Timed) -> datetime | None:
    if not timed:
        return None
    minute = finished.astimezone(UTC).replace(second=0, microsecond=0)
    by_minute = timed == "minute" or facts.decision == Decision.APPROVE
    return minute if by_minute else minute.replace(minute=0)


def answers_of(
    records: Iterable[tuple[ApprovalRecord, datetime | None]], now: datetime
) -> AnswerTally:
    """The tally of requests, each with the time at which it was denied, if it was."""
    counts: Counter[str] = Counter()
    took: list[timedelta] = []
    for record, denied_at in records:
        answer = answer_of(record, now)
        counts[answer] += 1
        answered = record.granted_at if answer == "granted" else denied_at
        if answer in ("granted", "denied") and answered is not None:
            took.append(answered - record.request.created_at)
    took.sort()
    return AnswerTally(
        requests=counts.total(),
        granted=counts["granted"],
        denied=counts["denied"],
        expired=counts["expired"],
        waiting=counts["waiting"],
        median=took[rank(len(took), 50)] if took else None,
        p95=took[rank(len(took), 95)] if took else None,
    )


ANSWERS = ("granted", "denied", "expired", "waiting")
"""What can become of a request."""


def answer_of(record: ApprovalRecord, now: datetime) -> str:
    """What became of a request, one of `ANSWERS`; a grant stays one."""
    if record.granted_at is not None or record.status in (
        ApprovalStatus.GRANTED,
        ApprovalStatus.CONSUMED,
    ):
        return "granted"
    if record.status is ApprovalStatus.DENIED:
        return "denied"
    lapsed = record.status is ApprovalStatus.EXPIRED or now > record.request.expires_at
    return "expired" if lapsed else "waiting"


def rank(count: int, percent: int) -> int:
    """The place (from 0) of a percentile by nearest rank among `count` sorted values."""
    return max(0, -(-count * percent // 100) - 1)


_DECISIONS = frozenset(decision.value for decision in Decision)
_RESULTS = frozenset(result.value for result in ReceiptResult)


def known(facts: ReceiptFacts) -> ReceiptFacts | None:
    """The facts, or None when what they say is nothing that a receipt can say."""
    texts = (facts.action, facts.agent, facts.decision_reason, facts.decision, facts.result)
    if not all(isinstance(text, str) for text in texts):
        return None
    is_known = (
        facts.decision in _DECISIONS
        and facts.result in _RESULTS
        and (facts.execution is None or facts.execution in _RESULTS)
    )
    return facts if is_known else None


def word(value: object) -> str | None:
    """A value of a document as text."""
    return value if value is None or isinstance(value, str) else str(value)
