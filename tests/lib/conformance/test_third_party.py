"""A store that is not ours can get full marks, and one that only looks like it cannot."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.conformance.store import StoreBackend, SuiteStatus, run
from ctrlrun.state import StateStore, UnitStateStore
from tests.cases import walk
from tests.lib.conformance.json_store import SCHEME, JSONFileBackend, JSONFileStore

pytestmark = pytest.mark.usefixtures("forked_contenders")


@pytest.mark.timeout(300)
def test_a_store_with_single_calls_alone_gets_full_marks(tmp_path: Path) -> None:
    backend = JSONFileBackend(tmp_path)
    store = backend.open()
    assert isinstance(backend, StoreBackend) and isinstance(store, StateStore)
    assert not isinstance(store, UnitStateStore)
    report = run(backend, processes=3)
    assert report.to_text().splitlines()[-1] == "jsonfile: 28/28"
    assert report.ok
    assert list(tmp_path.iterdir()) == []


# --- without its lock ----------------------------------------------------------------------------


class Unlocked(JSONFileStore):
    """Looks, and writes a moment later, whatever came in between."""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        yield

    def _save(self, tables: dict[str, Any]) -> None:
        time.sleep(0.3)
        mine = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        mine.write_text(json.dumps(tables), "utf-8")
        mine.replace(self._path)


def open_unlocked(url: str) -> StateStore:
    return Unlocked(Path(url.removeprefix(SCHEME)))


class UnlockedElsewhere(JSONFileBackend):
    """The lock is a thing of this process: only others show that there is none."""

    def opener(self) -> str:
        return f"{__name__}:open_unlocked"


@walk(
    ("case", "words"),
    [
        ("e1-cross-process", "(had reserved|2 of 2 won)"),
        ("consume-cross-process", "2 of 2 won, and exactly one may"),
        ("answered-once", "2 of 2 won, and exactly one may"),
        ("taken-once-cross-process", "2 of 2 won, and exactly one may"),
    ],
)
def test_processes_that_race_are_caught(case: str, words: str, tmp_path: Path) -> None:
    (result,) = run(UnlockedElsewhere(tmp_path), only=[case], processes=2).cases
    assert result.status is SuiteStatus.FAIL
    assert result.reason is not None and re.search(words, result.reason), result.reason


# --- backends that cannot be graded, or say that they need not be --------------------------------


class Volatile(JSONFileBackend):
    """Durable, and says that it is not."""

    def reopen(self) -> StateStore | None:
        return None


class NoURL(JSONFileBackend):
    """Durable, and says that no process finds it; each handle of `open` looks elsewhere."""

    def open(self) -> StateStore:
        self._path = self._path.with_name(f"{self._path.name}x")
        return super().open()

    def reopen(self) -> StateStore | None:
        return JSONFileStore(self._path)

    def url(self) -> str | None:
        return None


class NoOpener(JSONFileBackend):
    opener = None  # type: ignore[assignment]


class WrongOpener(JSONFileBackend):
    def opener(self) -> str:
        return "tests.lib.conformance.json_store:no_such_function"


class NoFunction(JSONFileBackend):
    def opener(self) -> str:
        return "tests.lib.conformance.json_store"


class SameHandle(JSONFileBackend):
    def open(self) -> StateStore:
        self._last = super().open()
        return self._last

    def reopen(self) -> StateStore | None:
        return self._last


class DyingOpener(JSONFileBackend):
    """Opens in this process alone."""

    def url(self) -> str | None:
        return f"{super().url()}?{os.getpid()}"

    def opener(self) -> str:
        return f"{__name__}:open_or_die"


def open_or_die(url: str) -> StateStore:
    path, _, pid = url.removeprefix(SCHEME).partition("?")
    if os.getpid() != int(pid):
        raise SystemExit("the disk is on fire")
    return JSONFileStore(Path(path))


@walk(
    ("kind", "case", "words"),
    [
        (Volatile, "ambiguous-survives", ["reopen() is None", "two independent handles"]),
        (NoURL, "e1-cross-process", ["url() is None", "two independent handles", "opener()"]),
        (NoOpener, "e1-cross-process", ["jsonfile:// is no store of ours", "opener()"]),
        (WrongOpener, "e1-cross-process", ["no_such_function", "cannot be imported"]),
        (NoFunction, "e1-cross-process", ["'module:function'"]),
        (SameHandle, "ambiguous-survives", ["reopen() gave the handle that was closed"]),
        (DyingOpener, "e1-cross-process", ["0 of 2 had reached the barrier", "on fire"]),
    ],
)
def test_what_a_backend_lacks_fails_a_case(
    kind: type[JSONFileBackend], case: str, words: list[str], tmp_path: Path
) -> None:
    (result,) = run(kind(tmp_path), only=[case], processes=2).cases
    assert result.status is SuiteStatus.FAIL
    assert result.reason is not None
    assert [word for word in words if word not in result.reason] == []
