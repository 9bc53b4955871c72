"""Every write and sync of six programs on a SQLite store, each once the last, each once refused.

    python benchmarks/kills.py [--only call,resolve] [--folder DIR]

Needs strace and leave to trace. Prints a row for each program, system call and fault: at how many
calls it was put, and how many of those broke a promise (tests/proof/kills.py says which promises).
Ends with 1 if any did.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.proof.kills import CALLS, FAULTS, SCENARIOS, Scenario, why_not


def run(names: list[str], folder: Path) -> int:
    """All faults at all calls of the named scenarios; how many trials broke something."""
    bad = total = 0
    for name in names:
        scenario = Scenario(name, folder)
        counts = scenario.count()
        for fault in FAULTS:
            for call in CALLS:
                started = time.monotonic()
                wrong = 0
                for number in range(1, counts[call] + 1):
                    if broken := scenario.trial(fault, call, number):
                        wrong += 1
                        print(
                            f"  {name} {call} {fault} at {number}: {'; '.join(broken)}", flush=True
                        )
                bad += wrong
                total += counts[call]
                took = time.monotonic() - started
                print(
                    f"{name:9} {call:9} {fault!s:8} {counts[call]:4} {wrong:4} {took:6.1f} s",
                    flush=True,
                )
    print(f"{total} trials, {bad} with a broken promise")
    return bad


def main() -> None:
    """Parse, run, and say it with the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios, comma separated")
    parser.add_argument("--folder", type=Path, help="on which disk (default: the temporary folder)")
    options = parser.parse_args()
    if reason := why_not():
        sys.exit(reason)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        sys.exit(1 if run(options.only.split(","), Path(folder)) else 0)


if __name__ == "__main__":
    main()
