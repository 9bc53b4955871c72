"""What is written to the terminal besides frames: its title, its bell."""

from __future__ import annotations

BELL = "\a"


def title_sequence(waiting: int) -> str:
    """OSC 2: the terminal's title, with the number that waits and nothing from data."""
    return f"\x1b]2;ctrlrun: {waiting} waiting\x07" if waiting else "\x1b]2;ctrlrun\x07"


PUSH_TITLE = "\x1b[22;2t"
"""Keep the title that the terminal had."""

POP_TITLE = "\x1b[23;2t"
"""Give the terminal its title back."""
