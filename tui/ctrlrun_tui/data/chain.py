"""The console's end of the process that walks over the chain of receipts."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass

from ctrlrun.state.location import StoreLocation

_STOP_S = 2.0


@dataclass(frozen=True, slots=True)
class ChainState:
    """How far the chain was verified, and the first thing that is wrong with it.

    `head` is the place of the newest receipt; `why` says why nothing could be read.
    """

    seq: int = 0
    head: int | None = None
    done: bool = False
    broken: str | None = None
    broken_at: int | None = None
    unchained: int = 0
    why: str = ""


class ChainChild:
    """Starts the process at the first walk; `walk` blocks and belongs in a worker."""

    def __init__(self, location: StoreLocation) -> None:
        self._url = f"sqlite://{location.path}"
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    def walk(self, tell: Callable[[ChainState], object]) -> None:
        """Have it walk over what is new; `tell` hears its progress, the last with `done`."""
        process = self._started()
        if process is None or process.stdin is None or process.stdout is None:
            return
        with contextlib.suppress(BrokenPipeError, ValueError):
            process.stdin.write("go\n")
            process.stdin.flush()
            for line in iter(process.stdout.readline, ""):
                state = _state(line)
                tell(state)
                if state.done:
                    return
        if not self._stopped:
            tell(ChainState(done=True, why="the process that verifies the chain has ended"))

    def _started(self) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._process is None and not self._stopped:
                self._process = subprocess.Popen(
                    [sys.executable, "-m", "ctrlrun_tui.data.chain_child", self._url],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    text=True,
                    encoding="utf-8",
                )
            return self._process

    def stop(self) -> None:
        """End the process; a walk that is under way returns."""
        with self._lock:
            self._stopped = True
            process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait(_STOP_S)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError, ValueError):
                    pipe.close()


def _state(line: str) -> ChainState:
    said = json.loads(line)
    broken = said["broken"]
    return ChainState(
        seq=said["seq"],
        head=said["head"],
        done=said["done"],
        broken=None if broken is None else broken["name"],
        broken_at=None if broken is None else broken["seq"],
        unchained=said["unchained"],
        why=said["why"],
    )
