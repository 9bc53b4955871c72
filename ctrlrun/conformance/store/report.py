"""`StoreReport`: what a run of the suites over one store came to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ctrlrun.conformance.results import CaseResult, SuiteResult, SuiteStatus
from ctrlrun.text import inert

REPORT_SCHEMA = "ctrlrun.store-conformance/v1"


@dataclass(frozen=True, slots=True)
class StoreReport:
    """How a store did, case by case.

    `store` is the backend's name, `backend` the same. `status` is `ok` when the run was carried through, else
    `refused`, and then `reason` says what the backend did not do.
    """

    store: str
    status: str = "ok"
    reason: str | None = None
    suites: tuple[SuiteResult, ...] = ()

    @property
    def backend(self) -> str:
        """The backend's name."""
        return self.store

    @property
    def cases(self) -> tuple[CaseResult, ...]:
        """Every case that was run, in order."""
        return tuple(case for suite in self.suites for case in suite.cases)

    @property
    def applicable_cases(self) -> tuple[CaseResult, ...]:
        """The cases that passed or failed."""
        return tuple(case for case in self.cases if case.status is not SuiteStatus.NOT_APPLICABLE)

    @property
    def not_applicable_cases(self) -> tuple[CaseResult, ...]:
        """The cases that the backend has nothing for; each says why."""
        return tuple(case for case in self.cases if case.status is SuiteStatus.NOT_APPLICABLE)

    @property
    def passed_cases(self) -> tuple[CaseResult, ...]:
        """The cases that passed."""
        return tuple(case for case in self.cases if case.status is SuiteStatus.PASS)

    @property
    def ok(self) -> bool:
        """Whether every applicable case passed, and there was one."""
        applicable = len(self.applicable_cases)
        return self.status == "ok" and 0 < applicable == len(self.passed_cases)

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON values (`ctrlrun.store-conformance/v1`), suites last."""
        return {
            "schema": REPORT_SCHEMA,
            "backend": self.store,
            "status": self.status,
            "reason": self.reason,
            "ok": self.ok,
            "suites": [suite.to_dict() for suite in self.suites],
        }

    def to_text(self) -> str:
        """The report as lines; the last one counts cases: `sqlite: 28/28`."""
        lines = [line for suite in self.suites for line in suite.lines()]
        return "\n".join([*lines, "", *self._refusal(), self._sum()])

    def _refusal(self) -> list[str]:
        if self.status == "ok":
            return []
        return [f"{inert(self.store)}: {self.status.upper()} - {inert(self.reason or '')}"]

    def _sum(self) -> str:
        left_out = len(self.not_applicable_cases)
        note = f" ({left_out} not applicable)" if left_out else ""
        passed, applicable = len(self.passed_cases), len(self.applicable_cases)
        return f"{inert(self.store)}: {passed}/{applicable}{note}"
