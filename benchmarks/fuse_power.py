"""Cuts the power under whole programs, on a disk that forgets what was not synced.

python -m benchmarks.fuse_power --cuts 50 --control 5
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.proof.fuse_power import CALLS, Life, Tally, lacking, live, lives

CONTROLS: dict[str, dict[str, Any]] = {
    "durability=normal": {"durability": "normal"},
    "a disk that syncs no content": {"syncs_content": False},
    "a disk that syncs no names": {"syncs_names": False},
}


def run(planned: Iterable[Life], folder: Path) -> Tally:
    """Live them all, in folders below `folder`."""
    tally = Tally()
    for life in planned:
        live(life, folder / str(life.seed), tally)
    return tally


def line(name: str, tally: Tally, seconds: float) -> str:
    """What a run came to, in one line."""
    return (
        f"{name}: {tally.lives} lives, {tally.cuts} cuts at work ({tally.unborn} before the store "
        f"was whole), {sum(tally.steps):,} steps, {tally.acts:,} acts, {tally.lost} forgotten, "
        f"{tally.twice} keys acted twice, {tally.unknown} keys unknown and not acted, "
        f"{len(tally.violations)} violations, {seconds:.0f} s\n  calls: {dict(tally.ends)}"
    )


def main() -> int:
    """Print a line for each kind of disk; 1 when a promise broke, or a control broke none."""
    parser = argparse.ArgumentParser(prog="fuse_power", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cuts", type=int, default=50, help="cuts as shipped")
    parser.add_argument("--control", type=int, default=5, help="cuts of each control")
    parser.add_argument("--calls", type=int, default=CALLS, help="protected calls of each start")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--folder", type=Path, help="where to work; its runs are kept")
    given = parser.parse_args()
    reason = lacking()
    if reason is not None:
        print(f"not run: {reason}")
        return 2
    sound = True
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        for name, fault in {"as shipped": {}, **CONTROLS}.items():
            began = time.monotonic()
            cuts = given.control if fault else given.cuts
            planned = lives(cuts, calls=given.calls, first=given.seed)
            tally = run(
                (replace(life, **fault) for life in planned), folder / name.replace(" ", "-")
            )
            print(line(name, tally, time.monotonic() - began), flush=True)
            if not fault:
                print("".join(f"  {said}\n" for said in tally.violations[:50]), end="")
            sound &= bool(tally.twice) if fault else not (tally.twice or tally.violations)
    print("sound, and each control acted twice" if sound else "NOT SOUND")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
