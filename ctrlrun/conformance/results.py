"""What a conformance run found: cases, suites, and their lines of text.

Values only; what is checked is elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ctrlrun.text import inert


class SuiteStatus(StrEnum):
    """How a case or a suite ended."""

    PASS = "pass"
    FAIL = "fail"
    NOT_APPLICABLE = "not_applicable"


_WORDS = {
    SuiteStatus.PASS: "PASS",
    SuiteStatus.FAIL: "FAIL",
    SuiteStatus.NOT_APPLICABLE: "N/A ",
}


@dataclass(frozen=True, slots=True)
class CaseResult:
    """How one case ended; `detail` holds what it counted.

    Raises ValueError for a case that did not pass and does not say why.
    """

    id: str
    title: str
    status: SuiteStatus
    reason: str | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status is not SuiteStatus.PASS and not self.reason:
            raise ValueError(f"case {self.id} is {self.status} without a reason")

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values."""
        return {
            "id": self.id,
            "title": self.title,
            "status": str(self.status),
            "reason": self.reason,
            "detail": dict(self.detail),
        }


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """How the cases of one suite ended, together."""

    name: str
    status: SuiteStatus
    reason: str | None = None
    cases: tuple[CaseResult, ...] = ()

    @classmethod
    def of(cls, name: str, cases: Iterable[CaseResult]) -> SuiteResult:
        """Failed if any case failed, not applicable if none is applicable, else passed.

        The reason is that of the first case which decides it.
        """
        found = tuple(cases)
        failed = [case for case in found if case.status is SuiteStatus.FAIL]
        if failed:
            return cls(name, SuiteStatus.FAIL, failed[0].reason, found)
        if all(case.status is SuiteStatus.NOT_APPLICABLE for case in found):
            reason = found[0].reason if found else None
            return cls(name, SuiteStatus.NOT_APPLICABLE, reason, found)
        return cls(name, SuiteStatus.PASS, None, found)

    def to_dict(self) -> dict[str, Any]:
        """The result as JSON values, cases last."""
        return {
            "name": self.name,
            "status": str(self.status),
            "reason": self.reason,
            "cases": [case.to_dict() for case in self.cases],
        }

    def lines(self) -> list[str]:
        """The suite as lines of text, with the cases that did not pass beneath it."""
        rest = (case for case in self.cases if case.status is not SuiteStatus.PASS)
        return [
            f"  {_line(self.status, self.name, self.reason)}",
            *(f"{' ' * 10}{_line(case.status, case.id, case.reason)}" for case in rest),
        ]


def _line(status: SuiteStatus, name: str, reason: str | None) -> str:
    shown = "" if reason is None else f"  - {inert(reason)}"
    return f"{_WORDS[status]}  {name}{shown}"
