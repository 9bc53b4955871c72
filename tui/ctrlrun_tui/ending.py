"""How a sitting ends early: its exit code, and one line on standard error."""

from __future__ import annotations

import contextlib
import sys

from ctrlrun.text import inert

REFUSED, UNUSABLE, INTERNAL, HUNG_UP, INTERRUPTED = 1, 2, 3, 129, 130
"""Exit codes, as of every command (docs/commands.md)."""


def failed(message: str, code: int) -> int:
    """Say why in one line that nothing in the message can break out of; the exit code."""
    with contextlib.suppress(OSError):  # a terminal that is gone reads nothing
        print(f"Error: {inert(message)}", file=sys.stderr, flush=True)  # noqa: T201
    return code


def internal(error: BaseException) -> str:
    """An error of ours, for one line."""
    return f"internal error, please report it: {type(error).__name__}: {error}"
