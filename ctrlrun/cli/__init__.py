"""The command line: parses, calls, prints; what may happen is decided in the rooms below.

`main` is the program. One module holds each group of commands and is loaded when one of them runs,
so that `ctrlrun --help` costs little more than click. What each command takes and prints is in
docs/commands.md.
"""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on these arguments (those of the process when None); its exit code."""
    try:
        from ctrlrun.cli.program import run

        return run(arguments)
    except KeyboardInterrupt:  # also while the program is being loaded
        return 130
