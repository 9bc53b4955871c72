"""What receipts are counted as, and the words of the filter language for it.

One definition under the counts and under the filter fields `enforced` and `stopped_by`, so that a
number and the list behind it cannot differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ctrlrun.conditions import Decision
from ctrlrun.receipt import ReceiptResult
from ctrlrun.state.tally import ReceiptFacts

ASKED = "approval_required"
BLOCKED = frozenset(
    {"approval_mismatch", "approval_denied", "duplicate", "in_progress", "ambiguous"}
)
"""The blocked reasons that are no decision: an approval or a key stood in the way."""

DUPLICATE = frozenset({"duplicate", "in_progress"})

ENFORCED = ("allowed", "asked", "denied", "blocked")
"""What enforcing would have done to an observed call."""


def enforced(would_decision: object, blocked_reason: object) -> tuple[str, ...]:
    """What enforcing would have done; empty for a receipt that does not say."""
    if would_decision is None:
        return ()
    words = []
    if would_decision == Decision.DENY:
        words.append("denied")
    if blocked_reason == ASKED:
        words.append("asked")
    if blocked_reason in BLOCKED:
        words.append("blocked")
    return tuple(words) or ("allowed",)


def stopped_by(word: str, reason: object, blocked_reason: object) -> object:
    """What one of the words of `enforced` is put down to: a rule, or what stood in the way."""
    if word == "asked":
        return reason
    return (blocked_reason or reason) if word == "denied" else blocked_reason


@dataclass(frozen=True, slots=True)
class Kind:
    """One thing that receipts are counted as, and the filter that lists them."""

    name: str
    holds: Callable[[ReceiptFacts], bool]
    filter: str


def kinds_of(mode: str) -> dict[str, Kind]:
    """What is counted under a policy's mode, by name. Only `other_mode` has receipts of the other."""
    return {kind.name: kind for kind in (_OBSERVE if mode == "observe" else _ENFORCE)}


def reason_of(kind: str, facts: ReceiptFacts, mode: str) -> str:
    """What a denied, asked or blocked receipt is put down to."""
    if mode != "observe":
        return facts.decision_reason
    return str(stopped_by(kind, facts.would_reason, facts.blocked_reason) or "")


def reason_term(mode: str) -> str:
    """The filter field that compares `reason_of`."""
    return "stopped_by" if mode == "observe" else "reason"


def _is_observed(facts: ReceiptFacts) -> bool:
    return facts.result == ReceiptResult.OBSERVED


def _would(word: str) -> Callable[[ReceiptFacts], bool]:
    return lambda facts: word in enforced(facts.would_decision, facts.blocked_reason)


def _result(*names: str) -> Callable[[ReceiptFacts], bool]:
    return lambda facts: facts.result in names


def _decision(name: str) -> Callable[[ReceiptFacts], bool]:
    return lambda facts: facts.decision == name and not _is_observed(facts)


_OBSERVE = (
    Kind("calls", _is_observed, "result:observed"),
    Kind("allowed", _would("allowed"), "enforced:allowed"),
    Kind("asked", _would("asked"), "enforced:asked"),
    Kind("denied", _would("denied"), "enforced:denied"),
    Kind("blocked", _would("blocked"), "enforced:blocked"),
    Kind(
        "stopped",
        lambda facts: (
            not {"denied", "blocked"}.isdisjoint(
                enforced(facts.would_decision, facts.blocked_reason)
            )
        ),
        "enforced:denied enforced:blocked",
    ),
    Kind(
        "duplicates",
        lambda facts: facts.would_decision is not None and facts.blocked_reason in DUPLICATE,
        "blocked:duplicate blocked:in_progress",
    ),
    Kind("ambiguous", lambda facts: facts.execution == "ambiguous", "execution:ambiguous"),
    Kind("failed", lambda facts: facts.execution == "failed", "execution:failed"),
    Kind("other_mode", lambda facts: not _is_observed(facts), "-result:observed"),
)
_ENFORCE = (
    Kind("calls", lambda facts: not _is_observed(facts), "-result:observed"),
    Kind("allowed", _decision("allow"), "decision:allow -result:observed"),
    Kind("asked", _decision("approve"), "decision:approve -result:observed"),
    Kind("denied", _result("denied"), "result:denied -result:observed"),
    Kind("blocked", _result("blocked"), "result:blocked -result:observed"),
    Kind(
        "stopped",
        _result("denied", "blocked"),
        "result:denied result:blocked -result:observed",
    ),
    Kind("ambiguous", _result("ambiguous"), "result:ambiguous -result:observed"),
    Kind("failed", _result("failed"), "result:failed -result:observed"),
    Kind("other_mode", _is_observed, "result:observed"),
)


class Spelling:
    """Filter terms for values that were counted, each found by no other value.

    Fields compare without case, except after `:=`; that is written where it makes a difference.
    """

    def __init__(self, values: Iterable[str]) -> None:
        distinct = set(values)
        lowered = {value.lower() for value in distinct}
        self._plain = len(lowered) == len(distinct) and all(value.isascii() for value in distinct)

    def term(self, field: str, value: str) -> str:
        """`field:value`, with quotes where the value needs them."""
        sign = ":" if self._plain and value else ":="
        return f"{field}{sign}{quoted(value)}"


def quoted(value: str) -> str:
    """A value as a filter reads it literally."""
    if value and all(character.isalnum() or character in "._-@/+[]:" for character in value):
        return value
    if not value:
        return ""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
