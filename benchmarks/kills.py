"""Every write and sync of seven programs on a SQLite store: once their last, once refused by the disk.

    python benchmarks/kills.py [--only call,resolve] [--folder DIR]

Needs strace and leave to trace. Prints a row for each program and fault: at how many system calls it was
put, how many of those broke a promise (tests/proof/killed.py has the promises), and each of these. Then
the same for programs that are made to break one, each of which has to be found. Ends with 1 if a promise
was broken or a control was not found.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.proof.injection import CHANGES, Nursery, Trials, calls_for, why_not
from tests.proof.kills import CONTROLS, FAULTS, SCENARIOS, Fault


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _walk(trials: Trials, faults: Sequence[Fault], *, telling: bool) -> tuple[int, int]:
    """The faults at every call of a program: how many there were, and how many broke something."""
    counts = trials.count()
    calls = ", ".join(f"{counts[call]} {call}" for call in CHANGES if counts[call])
    _say(f"{trials.name}: {calls}")
    total = wrong = 0
    for fault in faults:
        started, before = time.monotonic(), wrong
        places = [(call, n + 1) for call in calls_for(fault) for n in range(counts[call])]
        for call, number in places:
            if broken := trials.trial(fault, call, number):
                wrong += 1
                if telling:
                    _say(f"    {call} {fault} at {number}: {'; '.join(broken)}")
        total += len(places)
        took = time.monotonic() - started
        _say(f"    {fault!s:8} {len(places):4} trials {wrong - before:4} broken {took:6.1f} s")
    return total, wrong


def run(names: Sequence[str], folder: Path) -> int:
    """All faults at all calls of the named scenarios, then the controls; 1 where something is wrong."""
    total = bad = 0
    lost = []
    with Nursery() as nursery:
        for name in names:
            made, wrong = _walk(Trials(nursery, name, folder), FAULTS, telling=True)
            total, bad = total + made, bad + wrong
        _say(f"{total} trials, {bad} with a broken promise")
        for name, control in CONTROLS.items():
            if control.scenario in names:
                trials = Trials(nursery, name, folder)
                made, wrong = _walk(trials, (control.fault,), telling=False)
                lost += [] if wrong else [name]
                _say(f"    found by {wrong} of {made}")
    if lost:
        _say(f"not found: {', '.join(lost)}")
    return 1 if bad or lost else 0


def main() -> None:
    """Parse, run, and say it with the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios, comma separated")
    parser.add_argument("--folder", type=Path, help="on which disk (default: the temporary folder)")
    options = parser.parse_args()
    names = options.only.split(",")
    if unknown := set(names) - set(SCENARIOS):
        parser.error(f"no scenario is called {', '.join(sorted(unknown))}")
    if reason := why_not():
        sys.exit(reason)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        sys.exit(run(names, Path(folder)))


if __name__ == "__main__":
    main()
