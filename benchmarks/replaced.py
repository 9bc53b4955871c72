"""The files of a SQLite store are read, copied, moved, replaced and deleted while agents run.

    python benchmarks/replaced.py [--rounds 200] [--control 20] [--folder DIR]

`forgotten` counts keys that were acted on again because what was put in the store's place does not
know them: an older backup, or a store without its write-ahead log. The control has the guard switched
off, and has to break a promise of each kind.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.proof.replaced import KINDS, Course, Found, play  # noqa: E402


def measured(kind: str, rounds: int, folder: Path | None, *, guarded: bool) -> Found:
    """Play the rounds of one kind and print a line of what they showed."""
    began, found = time.monotonic(), Found()
    for seed in range(rounds):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            found.add(play(Course(Path(place), guarded=guarded, seed=seed), kind))
    refused = ", ".join(f"{count} {name}" for name, count in sorted(found.refused.items()))
    print(
        f"{kind:<13}{rounds:>7}{found.calls:>8}{found.acts:>7}{found.forgotten:>11}"
        f"{len(found.violations):>12}  {refused} ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    return found


def main() -> int:
    """Run all of it; 1 when a promise was broken, or the control kept them all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--control", type=int, default=20)
    parser.add_argument("--folder", type=Path, help="where the stores are written")
    options = parser.parse_args()
    sound = True
    for guarded, rounds in ((True, options.rounds), (False, options.control)):
        print("guarded" if guarded else "control: the guard is switched off")
        print(f"{'':<13}{'rounds':>7}{'calls':>8}{'acts':>7}{'forgotten':>11}{'violations':>12}")
        for kind in KINDS:
            found = measured(kind, rounds, options.folder, guarded=guarded)
            for line in sorted(set(found.violations)) if guarded else ():
                print(f"  {line}")
            sound &= guarded is not bool(found.violations)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
