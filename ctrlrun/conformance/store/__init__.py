"""The conformance suites of stores: `assert run(MyBackend()).ok` in a package's own tests.

Every case, and how to write a store that passes, is in docs/conformance.md.
"""

from __future__ import annotations

from ctrlrun.conformance.results import CaseResult, SuiteResult, SuiteStatus
from ctrlrun.conformance.store.backends import InMemoryBackend, SQLiteBackend, StoreBackend
from ctrlrun.conformance.store.report import StoreReport
from ctrlrun.conformance.store.runner import all_case_ids, run
from ctrlrun.conformance.store.suites import SUITES

__all__ = [
    "SUITES",
    "CaseResult",
    "InMemoryBackend",
    "SQLiteBackend",
    "StoreBackend",
    "StoreReport",
    "SuiteResult",
    "SuiteStatus",
    "all_case_ids",
    "run",
]
