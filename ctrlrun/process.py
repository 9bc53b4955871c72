"""Which process this is, and whether another one of this host still runs.

Owns what the operating system is asked about processes, and nothing of what it means for an
effect. Where the system does not tell, the answer is "unknown", never a guess (docs/slow-executors.md).
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"
_LONGEST = 255
_MOST_PID = 2**31 - 1
_STATE, _START_TICKS = 0, 19  # places behind the name, which is the second field of a `stat` line
_DEAD = frozenset("ZXx")


@dataclass(frozen=True, slots=True)
class Process:
    """A process as others can recognise it.

    `boot_id` names the boot of the kernel and the namespace that `pid` counts in, empty where the
    system does not tell. `started_at` is the process's start in seconds since that boot: no step
    of the clock moves it, so a pid that was given out again is told apart.
    """

    host: str
    pid: int
    boot_id: str
    started_at: str | None


class Life(StrEnum):
    """What a look at a pid of this host found."""

    RUNS = "runs"
    GONE = "gone"
    UNKNOWN = "unknown"


def this_process() -> Process:
    """The process that asks."""
    return _process(os.getpid())


working_for: ContextVar[str | None] = ContextVar("ctrlrun_working_for", default=None)
"""The name of the thread that a worker thread does something for."""


def asking_thread() -> str:
    """The name of the thread that asks, or that it works for."""
    return working_for.get() or threading.current_thread().name


def this_thread() -> str:
    """The name of the thread that asks, or that it works for, fit to be stored."""
    return _storable(asking_thread())


def look(pid: int, started_at: str | None) -> Life:
    """Whether the process of that pid and start still runs on this host, in this namespace.

    A process that is stopped runs, a zombie does not. Where its start cannot be read, whatever
    has the pid is taken for it: a process is never called gone on a doubt.
    """
    if not 0 < pid <= _MOST_PID:
        return Life.UNKNOWN
    fields = _stat(pid)
    if fields is None:
        return _signalled(pid)
    if fields[_STATE] in _DEAD:
        return Life.GONE
    if started_at is None or _start(fields) == started_at:
        return Life.RUNS
    return Life.GONE


@lru_cache(maxsize=1)
def _process(pid: int) -> Process:
    """Read once in each process: a child that was forked has another pid, and reads anew."""
    fields = _stat(pid)
    started_at = None if fields is None else _start(fields)
    return Process(_storable(_host()), pid, _boot_id(), started_at)


def _host() -> str:
    """The name of this host: without `socket`, which every command would load for it."""
    if hasattr(os, "uname"):
        return os.uname().nodename
    return os.environ.get("COMPUTERNAME", "")


def _boot_id() -> str:
    try:
        boot = _BOOT_ID.read_text("ascii").strip()
        # Containers share the boot of their host, and count pids each for itself.
        namespace = os.stat(_PROC / "self/ns/pid").st_ino
    except (OSError, ValueError):
        return ""
    return f"{boot}/{namespace}"


def _stat(pid: int) -> list[str] | None:
    """The fields of a process behind its name, which may hold blanks and brackets."""
    try:
        text = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return fields if len(fields) > _START_TICKS else None


def _start(fields: list[str]) -> str | None:
    try:
        return f"{int(fields[_START_TICKS]) / os.sysconf('SC_CLK_TCK'):.2f}"
    except (ValueError, OSError):
        return None


def _signalled(pid: int) -> Life:
    """Without a `stat` to read, because there is none or because it is hidden: ask the kernel."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Life.GONE
    except PermissionError:
        return Life.RUNS
    except OSError:
        return Life.UNKNOWN
    return Life.RUNS


def _storable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:_LONGEST]
