"""Cuts the power under whole programs, on a disk that forgets what was not synced.

python -m benchmarks.fuse_power --cuts 50 --opening 80 --control 5
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.proof.fuse_power import CALLS, Life, Tally, lacking, live, lives, openings

CONTROLS: dict[str, dict[str, Any]] = {
    "control, durability=normal": {"durability": "normal"},
    "control, a disk that syncs no content": {"syncs_content": False},
    "control, a disk that syncs no names": {"syncs_names": False},
}


def run(name: str, planned: Iterator[Life], folder: Path) -> Tally:
    """Live them all in folders below `folder`, and print what they came to."""
    began = time.monotonic()
    tally = Tally()
    for number, life in enumerate(planned):
        live(life, folder / name.replace(" ", "-") / str(number), tally)
    print(
        f"{name}: {tally.lives} lives, {tally.cuts} cuts at work ({tally.unborn} before the store "
        f"was whole), {tally.steps:,} steps, {tally.acts:,} acts, {tally.lost} forgotten, "
        f"{tally.twice} keys acted twice, {tally.unknown} keys unknown and not acted, "
        f"{len(tally.violations)} violations, {time.monotonic() - began:.0f} s\n"
        f"  calls: {dict(tally.ends)}",
        flush=True,
    )
    return tally


def is_sound(tally: Tally) -> bool:
    """Print what is not, and say whether all is well."""
    for said in tally.violations[:50]:
        print(f"  {said}")
    return not (tally.twice or tally.lost or tally.violations)


def main() -> int:
    """0 when nothing was acted twice but in the controls; 1 when not; 2 where it can't be run."""
    parser = argparse.ArgumentParser(prog="fuse_power", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cuts", type=int, default=50, help="cuts at random steps, as shipped")
    parser.add_argument("--opening", type=int, default=80, help="cuts at each of the first steps")
    parser.add_argument("--control", type=int, default=5, help="cuts of each control")
    parser.add_argument("--calls", type=int, default=CALLS, help="protected calls of each start")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--folder", type=Path, help="where to work; what is left is kept")
    given = parser.parse_args()
    reason = lacking()
    if reason is not None:
        print(f"not run: {reason}")
        return 2

    def planned(cuts: int) -> Iterator[Life]:
        return lives(cuts, calls=given.calls, first=given.seed)

    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        sound = is_sound(run("at random steps", planned(given.cuts), folder))
        sound &= is_sound(run("at each of the first steps", openings(given.opening), folder))
        for name, fault in CONTROLS.items():
            faulty = (replace(life, **fault) for life in planned(given.control))
            sound &= bool(run(name, faulty, folder).twice)
    print("sound, and each control acted twice" if sound else "NOT SOUND")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
