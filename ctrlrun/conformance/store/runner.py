"""`run`: every case on storage that was emptied for it, and nothing left behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from ctrlrun.conformance.results import CaseResult, SuiteResult, SuiteStatus
from ctrlrun.conformance.store.backends import StoreBackend, missing_of
from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import CheckFailed, NotApplicable, described, type_of
from ctrlrun.conformance.store.report import StoreReport
from ctrlrun.conformance.store.suites import SUITES
from ctrlrun.errors import InvalidArgument


def all_case_ids() -> frozenset[str]:
    """The ids of all cases; `SUITES` has them in the order in which they run."""
    return frozenset(case.id for cases in SUITES.values() for case in cases)


def run(backend: StoreBackend, *, only: Iterable[str] = (), processes: int = 8) -> StoreReport:
    """Hold a store to the cases of docs/conformance.md.

    `only` names the cases to run (empty: all). `processes` contend in the cases across processes,
    2 at least. The storage is reset before each case and at the end. What a case raises fails it;
    A backend without the members of `StoreBackend` fails every case, and none is run.
    KeyboardInterrupt propagates. Raises InvalidArgument for an unknown case and for too few
    processes, before anything is touched.
    """
    chosen = _chosen(only)
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 2:
        raise InvalidArgument(f"processes must be an integer of 2 or more, not {processes!r}")
    unfit = missing_of(backend)
    if unfit is not None:
        name = getattr(backend, "name", None)
        shown = name if isinstance(name, str) else type_of(backend)
        suites = _suites(chosen, lambda case: _failed(case, unfit))
        return StoreReport(shown, "refused", unfit, suites)
    try:
        suites = _suites(chosen, lambda case: _run_case(backend, case, processes))
    except BaseException:
        with suppress(Exception):
            backend.reset()
        raise
    reason = _reset(backend)
    return StoreReport(backend.name, "ok" if reason is None else "refused", reason, suites)


def _chosen(only: Iterable[str]) -> frozenset[str]:
    known = all_case_ids()
    if isinstance(only, str):
        raise InvalidArgument(f"only must be a collection of case ids, not the text {only!r}")
    named = tuple(only)
    unknown = [name for name in named if name not in known]
    if unknown:
        raise InvalidArgument(f"there is no case {unknown[0]!r}; cases: {', '.join(sorted(known))}")
    return frozenset(named) or known


def _suites(chosen: frozenset[str], judge: Callable[[Case], CaseResult]) -> tuple[SuiteResult, ...]:
    return tuple(
        SuiteResult.of(name, [judge(case) for case in picked])
        for name, cases in SUITES.items()
        if (picked := [case for case in cases if case.id in chosen])
    )


def _failed(case: Case, reason: str) -> CaseResult:
    return CaseResult(case.id, case.title, SuiteStatus.FAIL, reason)


def _run_case(backend: StoreBackend, case: Case, processes: int) -> CaseResult:
    unreset = _reset(backend)
    if unreset is not None:
        return _failed(case, unreset)
    bench = Bench(backend, processes)
    try:
        case.check(bench)
        bench.close()
    except NotApplicable as nothing:
        bench.abandon()
        return CaseResult(case.id, case.title, SuiteStatus.NOT_APPLICABLE, str(nothing))
    except Exception as error:
        bench.abandon()
        return CaseResult(case.id, case.title, SuiteStatus.FAIL, _reason(error), bench.detail)
    except BaseException:
        bench.abandon()
        raise
    return CaseResult(case.id, case.title, SuiteStatus.PASS, None, bench.detail)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, CheckFailed) and text else described(error)


def _reset(backend: StoreBackend) -> str | None:
    """Why the storage could not be emptied, or None."""
    try:
        backend.reset()
    except Exception as error:
        return f"reset() raised {described(error)}"
    return None
