"""What holds for these tests: nothing here is about power cuts, so the disk may lag."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Sequence
from types import SimpleNamespace
from typing import IO, Any, NoReturn

import pytest

from ctrlrun.conformance.store import contest, worker


@pytest.fixture(autouse=True)
def _a_disk_that_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTRLRUN_DURABILITY", "normal")


class ForkedWorker:
    """A contender that is forked off this process instead of importing everything again.

    A process of its own with files of its own; only its imports are not. One test contends in
    whole interpreters, as a contest has it.
    """

    def __init__(
        self, arguments: Sequence[str], *, stdin: IO[bytes], stdout: IO[bytes], **_: Any
    ) -> None:
        assert arguments[1:] == ["-m", worker.__name__]
        self.returncode: int | None = None
        self._pid = os.fork()
        if not self._pid:
            _work(stdin.fileno(), stdout.fileno())

    def poll(self) -> int | None:
        return self._waited(os.WNOHANG)

    def wait(self) -> int | None:
        return self._waited(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self._pid, signal.SIGKILL)

    def _waited(self, how: int) -> int | None:
        if self.returncode is None and (ended := os.waitpid(self._pid, how))[0]:
            self.returncode = os.waitstatus_to_exitcode(ended[1])
        return self.returncode


def _work(stdin: int, stdout: int) -> NoReturn:
    """What `python -m` would do."""
    status = 1
    try:
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stdout, 2)
        sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
        sys.stderr = sys.stdout
        worker.main()
        status = 0
    except BaseException as error:
        print(error) if isinstance(error, SystemExit) else traceback.print_exc()
    finally:
        sys.stdout.flush()
        os._exit(status)


@pytest.fixture
def forked_contenders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contenders of a contest are forked off this process."""
    forking = SimpleNamespace(Popen=ForkedWorker, STDOUT=subprocess.STDOUT)
    monkeypatch.setattr(contest, "subprocess", forking)
