"""What a run over a store reports, and what it does to the backend."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ctrlrun.clock import Clock
from ctrlrun.conformance.store import (
    SUITES,
    CaseResult,
    InMemoryBackend,
    SQLiteBackend,
    StoreBackend,
    StoreReport,
    SuiteResult,
    SuiteStatus,
    all_case_ids,
    contest,
    run,
)
from ctrlrun.conformance.store.backends import store_from_url
from ctrlrun.conformance.store.fixtures import FIXTURES, Fixture
from ctrlrun.effect import DEFAULT_LEASE, Reservation
from ctrlrun.errors import InvalidArgument
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore, StateStore
from tests.cases import walk

NO_OTHER_PROCESS = "this backend's storage cannot be opened from another process"
NO_OTHER_LIFE = "this backend's storage does not outlive the object that holds it"

CASES = {
    "reservation": ("e1-in-process", "e1-cross-process", "retry-table", "lease-expiry"),
    "approval": (
        "consume-cross-process",
        "answered-once",
        "binding",
        "single-use",
        "expiry",
        "atomic-with-reservation",
        "approval-checked-first",
    ),
    "resolution": ("only-ambiguous", "two-resolutions", "resolution-attribution"),
    "outcome": ("no-failed-on-refusal", "no-not-executed"),
    "durability": ("ambiguous-survives", "terminal-states-survive", "resolver-survives"),
    "evidence": ("action-round-trip", "event-ids", "receipt-round-trip"),
    "continuation": ("taken-once-cross-process", "one-resumption", "extend-lease-refusals"),
    "delegation": ("insert-not-upsert", "revoke-atomic-idempotent", "grant-json-round-trip"),
}
ACROSS_PROCESSES = (
    "e1-cross-process",
    "consume-cross-process",
    "answered-once",
    "taken-once-cross-process",
)

MEMORY_TEXT = f"""\
  PASS  reservation
          N/A   e1-cross-process  - {NO_OTHER_PROCESS}
  PASS  approval
          N/A   consume-cross-process  - {NO_OTHER_PROCESS}
          N/A   answered-once  - {NO_OTHER_PROCESS}
  PASS  resolution
  PASS  outcome
  N/A   durability  - {NO_OTHER_LIFE}
          N/A   ambiguous-survives  - {NO_OTHER_LIFE}
          N/A   terminal-states-survive  - {NO_OTHER_LIFE}
          N/A   resolver-survives  - {NO_OTHER_LIFE}
  PASS  evidence
  PASS  continuation
          N/A   taken-once-cross-process  - {NO_OTHER_PROCESS}
  PASS  delegation

memory: 21/21 (7 not applicable)"""

SQLITE_TEXT = """\
  PASS  reservation
  PASS  approval
  PASS  resolution
  PASS  outcome
  PASS  durability
  PASS  evidence
  PASS  continuation
  PASS  delegation

sqlite: 28/28"""


def test_the_cases_are_these() -> None:
    assert {name: tuple(case.id for case in cases) for name, cases in SUITES.items()} == CASES
    assert all_case_ids() == {case for cases in CASES.values() for case in cases}
    assert len(all_case_ids()) == 28
    titles = [case.title for cases in SUITES.values() for case in cases]
    assert all(titles) and len(set(titles)) == 28


# --- ours ----------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("forked_contenders")
def test_sqlite_gets_full_marks(tmp_path: Path) -> None:
    report = run(SQLiteBackend(tmp_path))
    assert report.to_text() == SQLITE_TEXT
    assert report.ok
    details = {case.id: dict(case.detail) for case in report.cases if case.detail}
    assert details == {
        "e1-in-process": {"threads": 8, "rounds": 12},
        "e1-cross-process": {"processes": 8, "rounds": 1},
        "consume-cross-process": {"processes": 8, "rounds": 1},
        "answered-once": {"processes": 8, "rounds": 4},
        "taken-once-cross-process": {"processes": 8, "rounds": 1},
        "no-failed-on-refusal": {"refusals": 13},
        "no-not-executed": {"refusals": 13},
    }
    assert list(tmp_path.iterdir()) == []


def test_contenders_are_interpreters_of_their_own(tmp_path: Path) -> None:
    (result,) = run(SQLiteBackend(tmp_path), only=["answered-once"], processes=2).cases
    assert (result.status, result.reason) == (SuiteStatus.PASS, None)


def test_memory_gets_what_there_is() -> None:
    report = run(InMemoryBackend())
    assert report.to_text() == MEMORY_TEXT
    assert report.ok
    assert len(report.applicable_cases) == len(report.passed_cases) == 21
    assert len(report.not_applicable_cases) == 7
    assert report.to_dict() == run(InMemoryBackend()).to_dict()


def test_the_document() -> None:
    document = run(InMemoryBackend(), only=("no-not-executed", "ambiguous-survives")).to_dict()
    assert json.loads(json.dumps(document)) == document
    assert list(document) == ["schema", "backend", "status", "reason", "ok", "suites"]
    assert document == {
        "schema": "ctrlrun.store-conformance/v1",
        "backend": "memory",
        "status": "ok",
        "reason": None,
        "ok": True,
        "suites": [
            {
                "name": "outcome",
                "status": "pass",
                "reason": None,
                "cases": [
                    {
                        "id": "no-not-executed",
                        "title": "no refusal is NotExecuted",
                        "status": "pass",
                        "reason": None,
                        "detail": {"refusals": 13},
                    }
                ],
            },
            {
                "name": "durability",
                "status": "not_applicable",
                "reason": NO_OTHER_LIFE,
                "cases": [
                    {
                        "id": "ambiguous-survives",
                        "title": "what nobody knows is still unknown",
                        "status": "not_applicable",
                        "reason": NO_OTHER_LIFE,
                        "detail": {},
                    }
                ],
            },
        ],
    }


def test_nothing_applicable_is_not_ok() -> None:
    report = run(InMemoryBackend(), only=("ambiguous-survives",))
    assert report.to_text().splitlines()[-1] == "memory: 0/0 (1 not applicable)"
    assert not report.ok


def test_only_runs_in_the_order_of_the_suites() -> None:
    report = run(InMemoryBackend(), only=["grant-json-round-trip", "binding", "single-use"])
    assert [case.id for case in report.cases] == ["binding", "single-use", "grant-json-round-trip"]
    assert [suite.name for suite in report.suites] == ["approval", "delegation"]


@walk(
    ("arguments", "words"),
    [
        ({"only": ["binding", "no-such-case"]}, "no-such-case"),
        ({"only": "binding"}, "'binding'"),
        ({"processes": 1}, "processes.*1"),
        ({"processes": True}, "processes.*True"),
        ({"processes": 2.0}, "processes.*2.0"),
    ],
)
def test_what_cannot_be_run_touches_nothing(arguments: dict[str, Any], words: str) -> None:
    backend = Counted()
    with pytest.raises(InvalidArgument, match=words):
        run(backend, **arguments)
    assert backend.calls == []


# --- broken stores -------------------------------------------------------------------------------


@walk("fixture", FIXTURES)
def test_a_broken_store_fails_its_case_for_its_reason_and_no_other(
    fixture: Fixture, tmp_path: Path
) -> None:
    backend = fixture.make(tmp_path)
    # What processes do on a file is that of the store itself: no fault of these is there.
    is_plain_elsewhere = isinstance(backend, SQLiteBackend) and backend.url() is not None
    left_out = ACROSS_PROCESSES if is_plain_elsewhere else ()
    report = run(backend, only=[case for case in all_case_ids() if case not in left_out])
    failed = {case.id: case.reason for case in report.cases if case.status is SuiteStatus.FAIL}
    assert set(failed) == {*fixture.fails, *fixture.also}
    for case, words in fixture.fails.items():
        assert words in str(failed[case])
    assert not report.ok


def test_the_broken_stores_are_these() -> None:
    assert {fixture.name: tuple(fixture.fails) for fixture in FIXTURES} == {
        "two-winners": ("e1-in-process",),
        "refuses-with-the-wrong-error": ("e1-in-process",),
        "releases-an-expired-lease": ("lease-expiry",),
        "grants-twice": ("single-use",),
        "consumes-before-reserving": ("atomic-with-reservation",),
        "resolves-anything": ("only-ambiguous",),
        "keeps-the-resolver-across-a-retry": ("resolution-attribution",),
        "guesses-failed": ("no-failed-on-refusal",),
        "raises-not-executed": ("no-not-executed",),
        "forgets-the-unknown": ("ambiguous-survives",),
        "forgets-the-resolver": ("resolver-survives",),
        "coerces-an-argument": ("action-round-trip",),
        "renumbers-events": ("event-ids",),
        "admits-two-resumptions": ("one-resumption",),
        "upserts-a-delegation": ("insert-not-upsert",),
        "falsely-declares-no-url": ("e1-cross-process", "ambiguous-survives"),
    }


def test_every_suite_has_a_broken_store() -> None:
    failing = {case for fixture in FIXTURES for case in fixture.fails}
    assert [name for name, cases in CASES.items() if not failing & set(cases)] == []


# --- what is done to the backend -----------------------------------------------------------------


class Counted(InMemoryBackend):
    """Notes what is asked of it."""

    def __init__(self, store: Callable[..., StateStore] = InMemoryStateStore) -> None:
        self.calls: list[str] = []
        self._store = store

    def open_with_clock(self, clock: Clock) -> StateStore:
        self.calls.append("open")
        return self._store(clock=clock)

    def reset(self) -> None:
        self.calls.append("reset")


def test_the_storage_is_reset_before_each_case_and_at_the_end() -> None:
    backend = Counted()
    run(backend, only=["binding", "retry-table", "single-use"])
    assert backend.calls == ["reset", "open"] * 3 + ["reset"]


def test_every_handle_is_closed_and_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: Counter[InMemoryStateStore] = Counter()
    monkeypatch.setattr(InMemoryStateStore, "close", lambda store: closed.update([store]))
    run(Counted(), only=["binding"])
    assert list(closed.values()) == [2]


class Interrupted(InMemoryStateStore):
    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        raise KeyboardInterrupt


@walk("case", ["retry-table", "e1-in-process"])
def test_an_interrupt_propagates_and_leaves_the_storage_reset(case: str) -> None:
    backend = Counted(Interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(backend, only=[case])
    assert backend.calls == ["reset", "open", "reset"]


class Raises(InMemoryStateStore):
    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        raise RuntimeError("out of\npaper \x1b[31m")


def test_what_a_case_raises_fails_it_in_one_line_and_the_next_one_runs() -> None:
    report = run(Counted(Raises), only=["retry-table", "binding"])
    first, second = report.cases
    assert (first.status, first.reason) == (
        SuiteStatus.FAIL,
        "RuntimeError: out of paper \x1b[31m",
    )
    assert second.status is SuiteStatus.PASS
    assert report.to_text().splitlines()[:2] == [
        "  FAIL  reservation  - RuntimeError: out of paper ␛[31m",
        "          FAIL  retry-table  - RuntimeError: out of paper ␛[31m",
    ]
    assert not report.ok


class WithoutSome(InMemoryStateStore):
    """A store that has not got every call."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("deny_approval", "resolve_effect"):
            raise AttributeError(name=name, obj=self)
        return super().__getattribute__(name)


def test_a_call_that_the_store_has_not_got_is_named_where_it_is_missed() -> None:
    cases = {
        "only-ambiguous": "resolve_effect",
        "binding": None,
        "single-use": "deny_approval",
    }
    for case in run(Counted(WithoutSome), only=cases).cases:
        call, reason = cases[case.id], str(case.reason)
        assert (call is None) == (case.status is SuiteStatus.PASS)
        assert call is None or f"WithoutSome has no {call}(), which is a call of" in reason
        assert "AttributeError" not in reason


@pytest.mark.parametrize(("opened", "named"), [(None, "None"), (object(), "object"), ("x", "str")])
def test_a_handle_that_is_no_store_fails_each_case(opened: Any, named: str) -> None:
    report = run(Counted(lambda **_: opened), only=["binding", "retry-table"])
    wanted = [f"{call} gave {named}, which has no call of StateStore" for call in OPENERS]
    assert [case.status for case in report.cases] == [SuiteStatus.FAIL] * 2
    assert {case.reason for case in report.cases} <= set(wanted)


OPENERS = ("open()", "open_with_clock()")
MEMBERS = "name (a text), open(), open_with_clock(), reopen(), url(), reset()"


@pytest.mark.parametrize(
    ("backend", "name", "missing"),
    [
        (None, "None", MEMBERS),
        (object(), "object", MEMBERS),
        (json, "module", MEMBERS),
        (SimpleNamespace(name=b"x", open=1, reset=print, url=print, reopen=print), None, None),
        (SimpleNamespace(name="half", reset=print, open=print), "half", None),
    ],
)
def test_a_backend_without_its_members_fails_every_case(
    backend: Any, name: str | None, missing: str | None
) -> None:
    report = run(backend)
    assert report.status == "refused" and not report.ok
    assert report.backend == (name or "SimpleNamespace")
    assert {case.status for case in report.cases} == {SuiteStatus.FAIL}
    assert {case.reason for case in report.cases} == {report.reason}
    assert report.reason is not None
    assert report.reason.endswith(f"has no {missing}" if missing else "")
    assert "open_with_clock()" in report.reason and "Error" not in report.to_text()
    assert len(report.cases) == 28 and report.to_text().endswith("0/28")


class Unresettable(Counted):
    """Cannot be emptied the first or the last time."""

    def __init__(self, fails_at: int) -> None:
        super().__init__()
        self._fails_at = fails_at

    def reset(self) -> None:
        super().reset()
        if self.calls.count("reset") == self._fails_at:
            raise OSError("read-only")


def test_a_case_on_storage_that_was_not_emptied_fails() -> None:
    report = run(Unresettable(1), only=["binding", "single-use"])
    assert [case.status for case in report.cases] == [SuiteStatus.FAIL, SuiteStatus.PASS]
    assert report.cases[0].reason == "reset() raised OSError: read-only"


def test_storage_that_is_left_behind_is_not_ok() -> None:
    report = run(Unresettable(2), only=["binding"])
    assert (report.status, report.ok) == ("refused", False)
    assert report.to_text().splitlines()[-2:] == [
        "memory: REFUSED - reset() raised OSError: read-only",
        "memory: 1/1",
    ]


# --- contests ------------------------------------------------------------------------------------


@contextmanager
def children_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """The processes that are started meanwhile."""
    started: list[subprocess.Popen[bytes]] = []
    start = contest._start

    def starting(*arguments: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments))
        return started[-1]

    with monkeypatch.context() as patched:
        patched.setattr(contest, "_start", starting)
        yield started


def test_an_interrupt_of_a_contest_ends_its_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(children: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
        assert [child.poll() for child in children] == [None, None]
        raise KeyboardInterrupt

    monkeypatch.setattr(contest, "_await", interrupted)
    with children_of(monkeypatch) as children, pytest.raises(KeyboardInterrupt):
        run(SQLiteBackend(tmp_path), only=["e1-cross-process"], processes=2)
    assert len(children) == 2 and all(child.returncode is not None for child in children)
    assert list(tmp_path.iterdir()) == []


def test_processes_that_do_not_come_back_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contest, "TIMEOUT", 0.0)
    with children_of(monkeypatch) as children:
        (result,) = run(SQLiteBackend(tmp_path), only=["e1-cross-process"], processes=2).cases
    assert result.reason is not None
    assert result.reason.startswith("2 of 2 processes did not come back within 0 s; 0 reached")
    assert len(children) == 2 and all(child.returncode is not None for child in children)


class Stuck(InMemoryStateStore):
    """Never lets the second one in."""

    def reserve_effect(
        self, effect_key: str, action_id: str, lease: timedelta = DEFAULT_LEASE
    ) -> Reservation:
        self._lock.acquire()
        return super().reserve_effect(effect_key, action_id, lease)


def test_threads_that_do_not_come_back_fail_the_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest, "TIMEOUT", 0.5)
    (result,) = run(Counted(Stuck), only=["e1-in-process"]).cases
    assert result.status is SuiteStatus.FAIL
    assert result.reason is not None and "did not come back" in result.reason


# --- values --------------------------------------------------------------------------------------


def case(status: SuiteStatus, reason: str | None = None, name: str = "c") -> CaseResult:
    return CaseResult(name, "a case", status, reason)


PASS = case(SuiteStatus.PASS)
FAIL = case(SuiteStatus.FAIL, "broken")
NOTHING = case(SuiteStatus.NOT_APPLICABLE, "nothing there")


@walk(
    ("cases", "status", "reason"),
    [
        ((PASS, PASS), SuiteStatus.PASS, None),
        ((PASS, NOTHING), SuiteStatus.PASS, None),
        ((NOTHING, NOTHING), SuiteStatus.NOT_APPLICABLE, "nothing there"),
        ((NOTHING, FAIL), SuiteStatus.FAIL, "broken"),
        ((PASS, FAIL, case(SuiteStatus.FAIL, "later")), SuiteStatus.FAIL, "broken"),
    ],
)
def test_what_a_suite_comes_to(
    cases: tuple[CaseResult, ...], status: SuiteStatus, reason: str | None
) -> None:
    suite = SuiteResult.of("s", cases)
    assert (suite.status, suite.reason) == (status, reason)
    report = StoreReport("b", "ok", None, (suite,))
    assert report.ok is (status is SuiteStatus.PASS)


@walk("status", [SuiteStatus.FAIL, SuiteStatus.NOT_APPLICABLE])
def test_a_case_that_did_not_pass_says_why(status: SuiteStatus) -> None:
    with pytest.raises(ValueError, match="without a reason"):
        case(status)


# --- backends ------------------------------------------------------------------------------------


def test_the_backends_are_backends(tmp_path: Path) -> None:
    assert isinstance(SQLiteBackend(tmp_path), StoreBackend)
    assert isinstance(InMemoryBackend(), StoreBackend)


def test_sqlite_keeps_to_a_folder_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("kept")
    backend = SQLiteBackend(tmp_path)
    backend.open().close()
    url = backend.url()
    assert url is not None and url.startswith(f"sqlite://{tmp_path}/")
    opened = store_from_url(url)
    assert isinstance(opened, SQLiteStateStore) and opened.path == backend.path
    opened.close()
    backend.reset()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert backend.url() != url


def test_an_address_that_is_not_ours_is_refused_without_what_it_holds() -> None:
    with pytest.raises(InvalidArgument, match=r"^redis:// is no store of ours") as caught:
        store_from_url("redis://ada:secret@host/0")
    assert "secret" not in str(caught.value)


def test_importing_ctrlrun_loads_no_suite() -> None:
    program = "import sys, ctrlrun; ctrlrun.Control; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in loaded if name.startswith("ctrlrun.conformance")] == []
