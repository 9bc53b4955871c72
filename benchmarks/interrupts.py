"""Interrupts one protected call at every place where Python runs a signal handler, and by a timer.

python -m benchmarks.interrupts --every 1 --strikes 500
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.proof.interrupts import PLACES, interrupted, struck


def main() -> None:
    """Print a line for each store, and what was found wrong."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--every", type=int, default=1, help="every n-th place")
    parser.add_argument("--strikes", type=int, default=500, help="interrupts by a timer")
    parser.add_argument("--stores", nargs="+", default=list(PLACES), choices=list(PLACES))
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for name in given.stores:
        with tempfile.TemporaryDirectory() as folder, PLACES[name](Path(folder)) as scene:
            places = scene.places()
            interrupted(scene, given.every, seed=0)
            found = struck(scene, given.strikes, seed=0)
        ends = ", ".join(f"{end}: {count}" for end, count in sorted(found.ends.items()))
        sys.stdout.write(
            f"{name}: {places} places, {found.tried} interrupts, {len(found.wrong)} wrong; {ends}\n"
        )
        for wrong in found.wrong:
            sys.stdout.write(f"  {wrong}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
