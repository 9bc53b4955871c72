"""How a sitting ends early: its exit code, and one line on standard error."""

from __future__ import annotations

import sys

from ctrlrun.text import inert

REFUSED, UNUSABLE, INTERNAL, INTERRUPTED = 1, 2, 3, 130
"""Exit codes, as of every command (docs/commands.md)."""


def failed(message: str, code: int) -> int:
    """Say why in one line that nothing in the message can break out of; the exit code."""
    print(f"Error: {inert(message)}", file=sys.stderr)  # noqa: T201
    return code


def internal(error: BaseException) -> str:
    """An error of ours, for one line."""
    return f"internal error, please report it: {type(error).__name__}: {error}"
