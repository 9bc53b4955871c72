"""Eight processes on one key, one approval, one continuation, round after round: one winner each.

    python benchmarks/races.py [--rounds 50] [--processes 8]

On SQLite in a temporary folder, and on a Postgres server that it starts (or the one that
$CTRL_TESTS_POSTGRES names). `together` is how many calls of a round had begun before its winner's
ended: what a figure of one would show is a queue. The control has no store, and must fail.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.pg.server import a_schema, server_url  # noqa: E402
from tests.proof.races import KINDS, UNGUARDED, Course, let_go, nearness, violations  # noqa: E402


def measured(name: str, course: Course, rounds: int, processes: int) -> bool:
    """Run one store's races and print a line for each kind; whether all of it was sound."""
    began = time.monotonic()
    calls = let_go(course, KINDS, rounds, processes)
    found = violations(course, calls, KINDS, rounds, processes)
    for kind in KINDS:
        ended = Counter(call.ended for call in calls if call.kind == kind)
        won = ended.pop("won", 0)
        lost = ", ".join(f"{count} {word}" for word, count in sorted(ended.items()))
        together = nearness(calls, kind)
        print(f"{name:<10}{kind:<14}{rounds:>7}{won:>6}{together:>10.0f}  {lost}", flush=True)
    print(f"{name}: {len(found)} violations, {time.monotonic() - began:.0f} s", flush=True)
    for line in found:
        print(f"  {line}")
    return not found


def main() -> int:
    """Run all of it; 1 when a promise was broken, or the control kept one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--processes", type=int, default=8)
    options = parser.parse_args()
    rounds, processes = options.rounds, options.processes
    with tempfile.TemporaryDirectory() as folder:
        calls = let_go(Course(Path(folder)), (UNGUARDED,), rounds, processes)
        won = Counter(call.round for call in calls if call.ended == "won")
        several = sum(count > 1 for count in won.values())
    print(f"control: without a store more than one acted in {several} of {rounds} rounds")
    print(f"{'store':<10}{'on one':<14}{'rounds':>7}{'won':>6}{'together':>10}  lost")
    sound = several > 0
    with tempfile.TemporaryDirectory() as folder:
        sound &= measured("sqlite", Course(Path(folder)), rounds, processes)
    with tempfile.TemporaryDirectory() as folder, a_schema() as schema:
        sound &= measured("postgres", Course(Path(folder), server_url(), schema), rounds, processes)
    return int(not sound)


if __name__ == "__main__":
    sys.exit(main())
