"""The console's end of the process that walks over the chain of receipts."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ctrlrun.state.location import STORE_URL_VARIABLE, StoreLocation

STOP_SECONDS = 2.0

ENDED = "the process that verifies the chain has ended"


@dataclass(frozen=True, slots=True)
class ChainState:
    """How far the chain was verified, and the first thing that is wrong with it.

    `head` is the place of the newest receipt, None while nothing is known of it; `broken` is a name
    of CHAIN_BREAKS and `broken_at` its place, if it has one; `outside` counts receipts that are not
    in the chain; `why` says why nothing could be read.
    """

    seq: int = 0
    head: int | None = None
    done: bool = False
    broken: str | None = None
    broken_at: int | None = None
    breaks: int = 0
    outside: int = 0
    why: str = ""


class ChainChild:
    """One walk over one store's chain, in a process that starts when it is first asked to walk."""

    def __init__(self, location: StoreLocation) -> None:
        self._url = location.store_url
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._stopped = False

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        process = self._process
        return None if process is None else process.pid

    def walk(self, tell: Callable[[ChainState], object]) -> None:
        """Have it walk over what is new; `tell` hears its progress, the last with `done`.

        Blocks until then, so it belongs in a worker; returns at once when `stop` ends the process,
        and nothing more is told.
        """
        try:
            process = self._started()
        except OSError as error:
            tell(ChainState(done=True, why=f"its process cannot be started: {error.strerror}"))
            return
        if process is None or process.stdin is None or process.stdout is None:
            return
        with self._reading, contextlib.suppress(OSError, ValueError):
            process.stdin.write("go\n")
            process.stdin.flush()
            for line in iter(process.stdout.readline, ""):
                state = ChainState(**json.loads(line))
                tell(state)
                if state.done:
                    return
        if not self._stopped:
            self._let_go()
            tell(ChainState(done=True, why=ENDED))

    def stop(self) -> None:
        """End the process; a walk that is under way returns. Once is enough."""
        self._stopped = True
        self._let_go()

    def _started(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._process is None and not self._stopped:
                self._process = subprocess.Popen(
                    # -P: a program of the folder that the console was started in is not run.
                    [sys.executable, "-P", "-m", "ctrlrun_tui.data.chain_child"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    encoding="utf-8",
                    # Not an argument: everybody on this machine sees those.
                    env={
                        **os.environ,
                        "PYTHONPATH": _modules_path(),
                        STORE_URL_VARIABLE: self._url,
                    },
                    start_new_session=True,  # ctrl+c in the shell of a suspended console is not for it
                )
            return self._process

    def _let_go(self) -> None:
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
        with self._reading:  # a walk sees the end of its output first
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError, ValueError):
                        pipe.close()


def _modules_path() -> str:
    """Where this process finds its modules, for one that has to find the same."""
    return os.pathsep.join(place or os.getcwd() for place in sys.path)
