"""Cuts the power under a store many times, as shipped and, for control, with fewer syncs.

python -m benchmarks.powercut --cuts 600
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.proof.powercut import cuts


def main() -> None:
    """Print a line for each durability."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cuts", type=int, default=600)
    count = parser.parse_args().cuts
    logging.disable(logging.CRITICAL)
    for durability in (None, "normal"):
        with tempfile.TemporaryDirectory() as folder:
            sys.stdout.write(
                f"durability={durability or 'as shipped'}: {cuts(Path(folder), count, durability)}\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
