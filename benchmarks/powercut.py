"""Cuts the power under a store many times, as shipped and, for control, with fewer syncs.

python -m benchmarks.powercut --cuts 500 --control 100
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
    parser.add_argument("--cuts", type=int, default=500, help="cuts as shipped")
    parser.add_argument("--control", type=int, default=100, help="cuts with durability=normal")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for durability, count in ((None, given.cuts), ("normal", given.control)):
        with tempfile.TemporaryDirectory() as folder:
            tally = cuts(Path(folder), count, durability)
        sys.stdout.write(f"durability={durability or 'as shipped'}: {tally}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
