"""`python -m ctrlrun_tui`: the same program as `ctrlrun console`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from ctrlrun_tui.arguments import console


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the console on these arguments (those of the process when None), and exit."""
    given = None if arguments is None else list(arguments)
    sys.exit(console.main(args=given, prog_name="ctrlrun console"))


if __name__ == "__main__":
    main()
