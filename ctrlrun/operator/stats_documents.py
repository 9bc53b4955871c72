"""`ctrlrun.stats/v1`: the document of a count, and the windows that it can be asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ctrlrun.clock import Clock, iso_timestamp, utc_now
from ctrlrun.conditions import Decision
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator.stats_words import ASKED, BLOCKED
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun.state.tally import ReceiptFacts, facts_of

if TYPE_CHECKING:
    from ctrlrun.policy import Mode

STATS_SCHEMA = "ctrlrun.stats/v1"

_WINDOW = re.compile(r"0*([1-9][0-9]*)([mhd])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_MOST_DIGITS = 9


def since_boundary(argument: str | None, *, clock: Clock = utc_now) -> datetime | None:
    """The boundary that a window means: `30m`, `2h`, `7d` back from now, or a time with an offset.

    None for None. Raises InvalidArgument for anything else, and for a window that reaches back
    beyond the calendar (docs/stats.md).
    """
    if argument is None:
        return None
    asked = argument.strip()
    window = _WINDOW.fullmatch(asked)
    try:
        if window is not None:
            if len(window[1]) > _MOST_DIGITS:
                raise OverflowError
            return clock().astimezone(UTC) - timedelta(**{_UNITS[window[2]]: int(window[1])})
        moment = datetime.fromisoformat(asked) if asked.isascii() else None
        if moment is not None and moment.utcoffset() is not None:
            return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidArgument(
            f"{asked!r} reaches back beyond the calendar; write 30m, 2h, 7d or an ISO-8601 "
            "timestamp with an offset"
        ) from None
    except ValueError:
        pass
    raise InvalidArgument(
        f"{asked!r} is no window; write 30m, 2h, 7d or an ISO-8601 timestamp with an offset, "
        "like 2026-09-03T00:00:00Z"
    )


def stats_document(
    counted: Iterable[Receipt], *, mode: Mode, boundary: datetime | None
) -> dict[str, Any]:
    """The document (`ctrlrun.stats/v1`) of the receipts that finished at the boundary or later.

    `mode` is that of the policy in force: it says which numbers there are. Keys in their fixed
    order; `other_mode`, how many receipts the other mode made, only when there are any.
    """
    counts: Counter[ReceiptFacts] = Counter()
    ends: list[datetime] = []
    requests: set[str] = set()
    observing = mode == "observe"
    for receipt in counted:
        if boundary is None or receipt.finished_at >= boundary:
            counts[facts_of(receipt)] += 1
            ends.append(receipt.finished_at)
            of_mode = (receipt.result is ReceiptResult.OBSERVED) is observing
            if of_mode and receipt.decision is Decision.APPROVE and receipt.approval_id:
                requests.add(receipt.approval_id)
    return document_of(
        counts,
        mode=mode,
        boundary=boundary,
        ends=(min(ends, default=None), max(ends, default=None)),
        requests=len(requests),
    )


def document_of(
    counts: Mapping[ReceiptFacts, int],
    *,
    mode: str,
    boundary: datetime | None,
    ends: tuple[datetime | None, datetime | None],
    requests: int,
) -> dict[str, Any]:
    """`stats_document` of receipts that were counted already."""
    document: dict[str, Any] = {
        "schema": STATS_SCHEMA,
        "mode": mode,
        "since": _stamp(boundary),
        "from": _stamp(ends[0]),
        "to": _stamp(ends[1]),
        "actions": sum(counts.values()),
    }
    observing = mode == "observe"
    document |= _observed(counts) if observing else _enforced(counts)
    document["approval_requests"] = requests
    other = sum(
        count
        for facts, count in counts.items()
        if (facts.result == ReceiptResult.OBSERVED) is not observing
    )
    return document | ({"other_mode": other} if other else {})


def tally(reasons: Iterable[str]) -> dict[str, int]:
    """How often each reason occurs, most often first, equal ones by name."""
    return _ordered(Counter(reasons))


def _observed(counts: Mapping[ReceiptFacts, int]) -> dict[str, Any]:
    denied: Counter[str] = Counter()
    blocked: Counter[str] = Counter()
    asked = ambiguous = 0
    for facts, count in counts.items():
        if facts.would_decision == Decision.DENY:
            denied[facts.blocked_reason or facts.would_reason or ""] += count
        if facts.would_decision is not None and facts.blocked_reason == ASKED:
            asked += count
        if facts.would_decision is not None and facts.blocked_reason in BLOCKED:
            blocked[str(facts.blocked_reason)] += count
        if facts.execution == ReceiptResult.AMBIGUOUS:
            ambiguous += count
    return {
        "would_have_been_denied": denied.total(),
        "denied_by_reason": _ordered(denied),
        "would_have_needed_approval": asked,
        "would_have_been_blocked": blocked.total(),
        "blocked_by_reason": _ordered(blocked),
        "ambiguous_outcomes": ambiguous,
    }


def _enforced(counts: Mapping[ReceiptFacts, int]) -> dict[str, Any]:
    denied: Counter[str] = Counter()
    ambiguous = 0
    for facts, count in counts.items():
        if facts.result == ReceiptResult.DENIED:
            denied[facts.decision_reason] += count
        elif facts.result == ReceiptResult.AMBIGUOUS:
            ambiguous += count
    return {
        "denied": denied.total(),
        "denied_by_reason": _ordered(denied),
        "ambiguous_outcomes": ambiguous,
    }


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _stamp(moment: datetime | None) -> str | None:
    return None if moment is None else iso_timestamp(moment)
