"""The bench of one case: the handles it opened, its contests, and what it may leave out.

That a backend has no second process or no second life is believed only after a look: two handles
that see each other's writes say otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

from ctrlrun.clock import Clock
from ctrlrun.conformance.store.backends import StoreBackend, open_at, opener_of
from ctrlrun.conformance.store.checking import CheckFailed, NotApplicable, a_store, require
from ctrlrun.conformance.store.contest import Contest, ContestResult, among_processes
from ctrlrun.conformance.store.samples import LEASE, MovableClock
from ctrlrun.state import StateStore

NO_OTHER_PROCESS = "this backend's storage cannot be opened from another process"
NO_OTHER_LIFE = "this backend's storage does not outlive the object that holds it"

_PROBE = "probe:conformance"


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that a store must do; `check` raises when it does not."""

    id: str
    title: str
    check: Callable[[Bench], None]


class Bench:
    """What one case works with. `detail` is for what it counts; `processes` contend."""

    def __init__(self, backend: StoreBackend, processes: int) -> None:
        self._backend = backend
        self._opened: list[StateStore] = []
        self.processes = processes
        self.detail: dict[str, Any] = {}

    def open(self) -> StateStore:
        """A handle on the storage."""
        return self._kept(self._backend.open(), "open()")

    def open_with(self, clock: MovableClock | Clock) -> StateStore:
        """A handle with this clock."""
        return self._kept(self._backend.open_with_clock(clock), "open_with_clock()")

    def reopened(self, write: Callable[[StateStore], None]) -> StateStore:
        """Write through a handle, close it, and give another one on what was written."""
        first = self.open()
        write(first)
        first.close()
        again = self._backend.reopen()
        if again is None:
            self._believe(NO_OTHER_LIFE, "reopen()")
        require(again is not first, "reopen() gave the handle that was closed, not another one")
        return self._kept(again, "reopen()")

    def contest(self, task: str, rounds: Sequence[Sequence[Mapping[str, Any]]]) -> ContestResult:
        """Let processes contend on the storage, which a handle of `open` has made."""
        url, opener = self.need_processes(), opener_of(self._backend)
        a_store(
            open_at(url, opener), "the opener"
        ).close()  # refused here once, not in each process
        self.detail["processes"] = len(rounds[0])
        self.detail["rounds"] = len(rounds)
        return among_processes(Contest(url, opener, task, rounds))

    def need_processes(self) -> str:
        """The address for other processes; NotApplicable when there is none, and that is so."""
        url = self._backend.url()
        if url is None:
            self._believe(NO_OTHER_PROCESS, "url()")
        return url

    def _believe(self, reason: str, what: str) -> NoReturn:
        """NotApplicable, unless a write of one handle is seen by another."""
        self.open().reserve_effect(_PROBE, "act_probe", LEASE)
        seen = [source for source, other in self._others() if other.get_effect(_PROBE) is not None]
        if seen:
            raise CheckFailed(
                f"{what} is None, but two independent handles see each other's writes (through "
                f"{seen[0]}): such storage needs reopen() and url(), and an opener() where url() "
                "has a scheme of its own"
            )
        raise NotApplicable(reason)

    def _others(self) -> list[tuple[str, StateStore]]:
        """Every other way in that the backend has; `open` last, which may begin something new."""
        others: list[tuple[str, StateStore]] = []
        again = self._backend.reopen()
        if again is not None:
            others.append(("reopen()", self._kept(again, "reopen()")))
        url = self._backend.url()
        if url is not None:
            opened = open_at(url, opener_of(self._backend))
            others.append(("url()", self._kept(opened, "the opener")))
        return [*others, ("open()", self.open())]

    def _kept(self, opened: object, source: str) -> StateStore:
        store = a_store(opened, source)
        self._opened.append(store)
        return store

    def close(self) -> None:
        """Close every handle; twice, as the rule about closing says."""
        for store in reversed(self._opened):
            store.close()
            store.close()

    def abandon(self) -> None:
        """Close what can be closed, on the way out of something that failed."""
        for store in reversed(self._opened):
            with suppress(Exception):
                store.close()
