"""Random calls against a plain model, for as many games as wanted: equal verdicts, equal records.

    python benchmarks/machine.py [--games 2000] [--steps 40] [--only sqlite] [--seed N] [--calls]

They are the games of `tests/lib/store_suite/machine.py`, of which each run of the tests plays a
few. One that ends in a difference is made as short as it can be and printed. SQLite and Postgres
play a tenth of the games: theirs cost that much more. The seed is printed; it plays the same again.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.lib.store_suite.conftest import BACKENDS  # noqa: E402
from tests.lib.store_suite.machine import ROUND, play  # noqa: E402
from tests.lib.store_suite.test_machine import LATE, REACHED, not_reached  # noqa: E402

ENOUGH = 100
"""Games that meet all that is wanted; fewer may not."""

GROUPS = (
    ("outcomes of attempts that were replaced", " by an earlier attempt", "taken"),
    ("answers about them", "resolve, of an earlier attempt", "invalid"),
    ("answers of hooks about them", "reconcile about an earlier attempt", "invalid"),
    ("suspensions of them", "suspend an earlier attempt", ""),
    ("fences of them", "fence of an earlier attempt", "taken"),
    ("fences on a lapsed lease", "fence of the attempt that stands", "lapsed"),
    ("tokens of attempts that hold nothing", "take", "ambiguous"),
    ("approvals spent", "consume", "ok"),
    ("approvals presented once more", "consume", "consumed"),
    ("denied approvals presented", "consume", "approval_denied"),
    ("openings after a crash", "open after a crash", "ok"),
)


def met(seen: Counter[tuple[str, str]]) -> list[str]:
    """How often the games got to what matters."""
    return [
        f"{sum(n for (call, said), n in seen.items() if part in call and verdict in ('', said)):>9,}"
        f" {name}"
        for name, part, verdict in GROUPS
    ]


def main() -> int:
    """Play on each store; 1 when one differed from the model, or the games met too little."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--games", type=int, default=2000, help="on the store in memory")
    parser.add_argument("--steps", type=int, default=40, help="of a game, at most")
    parser.add_argument("--only", choices=BACKENDS, action="append")
    parser.add_argument("--seed", type=int, default=random.randrange(10**9))
    parser.add_argument("--calls", action="store_true", help="each call and how often it said what")
    options = parser.parse_args()
    logging.disable(logging.WARNING)  # refused outcomes and answers are most of what happens here
    failed = False
    for backend in options.only or BACKENDS:
        games = options.games if backend == "memory" else max(options.games // 10, ROUND)
        print(f"{backend}: {games} games of {options.steps} steps, seed {options.seed}", flush=True)
        began = time.monotonic()
        try:
            seen = play(backend, games, options.seed, options.steps)
        except AssertionError as difference:
            failed = True
            print(f"{backend}: differs from the model")
            print("\n".join([str(difference), *getattr(difference, "__notes__", ())]))
            continue
        missed = not_reached(seen, REACHED if games >= ENOUGH else LATE)
        failed |= bool(missed)
        print(f"{backend}: {seen.total():,} calls, equal, {time.monotonic() - began:.0f} s")
        print("\n".join([*met(seen), *(f"never met: {call}" for call in missed)]))
        for (call, verdict), number in sorted(seen.items() if options.calls else ()):
            print(f"{number:>9,} {call}: {verdict}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
