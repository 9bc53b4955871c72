"""`ctrlrun.stats/v1`: which receipts make which number, in which order, and what a window is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctrlrun.conditions import Decision
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import Receipt, ReceiptResult, WouldHave
from ctrlrun.reporting import STATS_SCHEMA, since_boundary, stats_document, tally
from tests.cases import walk
from tests.lib.store_suite.helpers import SECOND, START_TIME, receipt

NOW = datetime(2026, 9, 3, 12, 0, tzinfo=UTC)


def observed(number: int, decision: str, blocked: str | None, **more: Any) -> Receipt:
    reason = more.pop("reason", "rule[9]")
    return receipt(
        number,
        decision=Decision(decision),
        decision_reason=reason,
        result=ReceiptResult.OBSERVED,
        execution=ReceiptResult(more.pop("execution", "committed")),
        would_have=WouldHave({"decision": decision, "reason": reason, "blocked_reason": blocked}),
        **more,
    )


def test_observe_mode_counts_what_enforcing_would_have_done() -> None:
    receipts = [
        observed(1, "deny", "rule[2]"),
        observed(2, "deny", "rule[2]"),
        observed(3, "deny", None, reason="unknown_action"),
        observed(4, "approve", "approval_required"),
        observed(5, "allow", "duplicate"),
        observed(6, "allow", "in_progress"),
        observed(7, "allow", "ambiguous", execution="ambiguous"),
        observed(8, "approve", "approval_mismatch"),
        observed(9, "approve", "approval_denied"),
        observed(10, "allow", "duplicate"),
        observed(11, "allow", None),
        receipt(12, result=ReceiptResult.DENIED, decision_reason="rule[1]"),
        receipt(13, result=ReceiptResult.AMBIGUOUS),
    ]
    document = stats_document(receipts, mode="observe", boundary=None)
    assert list(document.items()) == [
        ("schema", STATS_SCHEMA),
        ("mode", "observe"),
        ("since", None),
        ("from", "2026-09-03T10:12:02.123Z"),
        ("to", "2026-09-03T10:12:14.123Z"),
        ("actions", 13),
        ("would_have_been_denied", 3),
        ("denied_by_reason", {"rule[2]": 2, "unknown_action": 1}),
        ("would_have_needed_approval", 1),
        ("would_have_been_blocked", 6),
        (
            "blocked_by_reason",
            {
                "duplicate": 2,
                "ambiguous": 1,
                "approval_denied": 1,
                "approval_mismatch": 1,
                "in_progress": 1,
            },
        ),
        ("ambiguous_outcomes", 1),
        ("approval_requests", 0),
        ("other_mode", 2),
    ]
    assert list(document["blocked_by_reason"]) == [
        "duplicate",
        "ambiguous",
        "approval_denied",
        "approval_mismatch",
        "in_progress",
    ]


def test_enforce_mode_counts_results() -> None:
    receipts = [
        receipt(1),
        receipt(2, result=ReceiptResult.DENIED, decision_reason="rule[1]"),
        receipt(3, result=ReceiptResult.DENIED, decision_reason="approval_denied"),
        receipt(4, result=ReceiptResult.BLOCKED),
        receipt(5, result=ReceiptResult.AMBIGUOUS),
        observed(6, "deny", "rule[2]", execution="ambiguous"),
    ]
    document = stats_document(receipts, mode="enforce", boundary=None)
    assert list(document.items())[5:] == [
        ("actions", 6),
        ("denied", 2),
        ("denied_by_reason", {"approval_denied": 1, "rule[1]": 1}),
        ("ambiguous_outcomes", 1),
        ("approval_requests", 0),
        ("other_mode", 1),
    ]
    alone = stats_document(receipts[:5], mode="enforce", boundary=None)
    assert list(alone)[-1] == "approval_requests"


def asked(number: int, approval_id: str | None, result: str = "blocked", **more: Any) -> Receipt:
    more |= {"decision": Decision.APPROVE, "approval_id": approval_id}
    return receipt(number, result=ReceiptResult(result), **more)


def test_a_request_that_is_presented_many_times_is_one_request() -> None:
    """377 calls that needed approval were three requests, presented to find out about them."""
    receipts = [asked(n, f"apr_{n % 3}") for n in range(1, 375)]
    receipts += [asked(375, "apr_0", "committed"), asked(376, None), receipt(377)]
    receipts.append(observed(378, "approve", None, approval_id="apr_9"))
    document = stats_document(receipts, mode="enforce", boundary=None)
    assert document["approval_requests"] == 3
    assert stats_document(receipts, mode="observe", boundary=None)["approval_requests"] == 1
    later = receipts[373].finished_at
    assert stats_document(receipts, mode="enforce", boundary=later)["approval_requests"] == 2


def test_the_boundary_is_inclusive() -> None:
    receipts = [receipt(number) for number in (1, 2, 3)]
    boundary = START_TIME + 2 * SECOND
    document = stats_document(receipts, mode="enforce", boundary=boundary)
    assert (document["actions"], document["since"]) == (2, "2026-09-03T10:12:03.123Z")
    later = stats_document(receipts, mode="enforce", boundary=boundary + timedelta(days=1))
    assert (later["actions"], later["from"], later["to"]) == (0, None, None)


def test_reasons_are_ordered_by_count_then_name() -> None:
    assert list(tally(["b", "a", "c", "c"]).items()) == [("c", 2), ("a", 1), ("b", 1)]
    assert tally([]) == {}


@walk(
    ("text", "expected"),
    [
        (None, None),
        ("30m", NOW - timedelta(minutes=30)),
        (" 2h\n", NOW - timedelta(hours=2)),
        ("007d", NOW - timedelta(days=7)),
        ("2026-09-03T00:00:00Z", datetime(2026, 9, 3, tzinfo=UTC)),
        ("20260903T000000Z", datetime(2026, 9, 3, tzinfo=UTC)),
        ("2026-09-03T02:00:00.5+0200", datetime(2026, 9, 3, microsecond=500_000, tzinfo=UTC)),
        ("2026-09-03T02:00+02:00", datetime(2026, 9, 3, tzinfo=UTC)),
    ],
)
def test_a_window_is_a_span_or_a_time_with_an_offset(
    text: str | None, expected: datetime | None
) -> None:
    assert since_boundary(text, clock=lambda: NOW) == expected


@walk(
    "text",
    [
        "",
        " ",
        "5",
        "m",
        "0h",
        "000d",
        "-1h",
        "+1h",
        "1.5h",
        "24 h",
        "24H",
        "1w",
        "2mo",
        "1s",
        "²h",
        "１h",
        "٣h",
        "1h30m",
        "2026-11-29",
        "2026-09-03T00:00:00",
        "20260903",
        "yesterday",
        "2026-13-01T00:00:00Z",
        "２０２６-09-03T00:00:00Z",
        "99999999d",
        "9" * 5000 + "d",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_other_windows_are_refused_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(InvalidArgument, match="30m") as refused:
        since_boundary(text, clock=lambda: NOW)
    assert "ISO-8601" in str(refused.value)
