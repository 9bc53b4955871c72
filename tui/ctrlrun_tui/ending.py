"""How a sitting ends early: its exit code, and one line on standard error."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time

from ctrlrun.errors import CTRLRunError
from ctrlrun.text import inert

REFUSED, UNUSABLE, INTERNAL, HUNG_UP, INTERRUPTED = 1, 2, 3, 129, 130
"""Exit codes, as of every command (docs/commands.md)."""


WORKERS = "ctrlrun-console"
"""What the names of the threads begin with that read and write for the console."""

_PATIENCE_S = 6.0  # longer than an answer waits for a lock


def leave(code: int) -> int:
    """The exit code, once the console's threads have ended.

    Where one of them waits for a store that does not answer, the process ends here without it:
    whoever leaves a console gets the shell back, whatever the database does.
    """
    deadline = time.monotonic() + _PATIENCE_S
    with contextlib.suppress(KeyboardInterrupt):  # somebody does not want to wait for it
        for thread in _working():
            thread.join(max(0.0, deadline - time.monotonic()))
    if not _working():
        return code
    failed("the store did not answer any more; what was on its way to it may have arrived", code)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(code)


def _working() -> list[threading.Thread]:
    """The threads that are at work still: those that wait for work end with the interpreter."""
    return [thread for thread in threading.enumerate() if thread.name.startswith(WORKERS)]


def failed(message: str, code: int) -> int:
    """Say why in one line that nothing in the message can break out of; the exit code."""
    with contextlib.suppress(OSError):  # a terminal that is gone reads nothing
        print(f"Error: {inert(message)}", file=sys.stderr, flush=True)  # noqa: T201
    return code


def internal(error: BaseException) -> str:
    """An error of ours, for one line."""
    return f"internal error, please report it: {type(error).__name__}: {error}"


def reason_of(error: Exception) -> str:
    """One line about what went wrong: ours are written for people, others name their class."""
    text = " ".join(str(error).split())
    return text if isinstance(error, CTRLRunError) else f"{type(error).__name__}: {text}"
