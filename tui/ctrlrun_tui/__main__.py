"""`python -m ctrlrun_tui`: the same program as `ctrlrun console`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ctrlrun_tui.arguments import console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the console on these arguments (those of the process when None); its exit code."""
    return int(
        console.main(
            args=None if arguments is None else list(arguments),
            prog_name="ctrlrun console",
            standalone_mode=True,
        )
        or 0
    )


if __name__ == "__main__":
    sys.exit(main())
