"""A SQLite store whose files are read, copied, moved, replaced or removed while programs work.

    python benchmarks/files.py [--rounds 200] [--control 50] [--kinds read,copied] [--folder DIR]

Seven things that happen to the folder in which an agent keeps its store, each so many rounds long:
no key that a program could know of is acted on twice. The control plays rounds without the locks
that stay and without a look at the files, and has to act twice, or break the file.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.proof.files import KINDS, Found, Scene, play  # noqa: E402


def rounds(folder: Path, kind: str, count: int, *, guarded: bool) -> Found:
    """So many rounds of one kind."""
    total = Found()
    for number in range(count):
        base = folder / f"{kind}{number}"
        total.add(play(Scene(base, kind, f"{kind} {number}", guarded)))
        shutil.rmtree(base)
    return total


def main() -> int:
    """Play all of it; 1 when a promise was broken, or the control kept all of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--control", type=int, default=50)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    names = ("acts", "twice", "forgotten", "unseen", "refused")
    print(f"{'':<10}{'':<10}{'rounds':>7}" + "".join(f"{name:>11}" for name in names) + "  broken")
    sound = True
    for kind in options.kinds.split(","):
        for guarded, count in ((True, options.rounds), (False, options.control)):
            began = time.monotonic()
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                found = rounds(Path(folder), kind, count, guarded=guarded)
            figures = "".join(f"{getattr(found, name):>11,}" for name in names)
            seconds = time.monotonic() - began
            what = "" if guarded else "control"
            print(
                f"{kind:<10}{what:<10}{found.rounds:>7}{figures}  {len(found.broken)}"
                f"  ({seconds:.0f} s)",
                flush=True,
            )
            for line, times in found.refusals.most_common(4):
                print(f"  refused {times} x {line}")
            if guarded:
                sound &= found.violations == 0
                for line, times in Counter(found.broken).most_common(10):
                    print(f"  {times} x {line}")
    return int(not sound)


if __name__ == "__main__":
    sys.exit(main())
