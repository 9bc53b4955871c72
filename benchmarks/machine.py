"""Random calls against a plain model, for as many games as wanted: equal verdicts, equal records.

    python benchmarks/machine.py [--examples 2000] [--steps 60] [--only sqlite]

It is the machine of `tests/lib/store_suite/test_machine.py`, which plays a few games in every run
of the tests. A game that ends in a difference is made as short as it can be and printed. SQLite and
Postgres play a tenth of the games: theirs cost that much more.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.lib.store_suite.conftest import BACKENDS  # noqa: E402
from tests.lib.store_suite.test_machine import play  # noqa: E402


def main() -> int:
    """Play on each store; 1 when one differed from the model."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--examples", type=int, default=2000, help="games on the store in memory")
    parser.add_argument("--steps", type=int, default=60, help="calls of a game, at most")
    parser.add_argument("--only", choices=BACKENDS, action="append")
    options = parser.parse_args()
    failed = False
    for backend in options.only or BACKENDS:
        games = options.examples if backend == "memory" else max(options.examples // 10, 1)
        began = time.monotonic()
        try:
            play(backend, games, options.steps)
        except AssertionError as difference:
            failed = True
            print(f"{backend}: differs from the model")
            print("\n".join([str(difference), *getattr(difference, "__notes__", ())]))
        else:
            seconds = time.monotonic() - began
            print(f"{backend}: {games} games of {options.steps} calls, equal, {seconds:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
