"""What loading a large policy costs: seconds and memory, by size, shape and YAML parser.

    python benchmarks/policy.py [--megabytes 6]

Three shapes: many actions with twenty rules each, one rule with a list of ids, and many grants. Each
is loaded in a process of its own. PyYAML's own parser, which reads where libyaml is not compiled
in, gets a tenth of the size. The figures are of this machine and its load, printed above them.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import yaml

from ctrlrun import documents
from ctrlrun.policy import Policy

KILOBYTES_IN_A_MEGABYTE = 1024


def actions() -> Iterator[str]:
    """Actions with twenty bands of amounts each."""
    yield "schema: ctrlrun.policy/v2\nactions:\n"
    number = 0
    while True:
        rules = "".join(
            f"      - when: {{amount_gte: 0, amount_lte: {band}00, country_in: [DE, FR]}}\n"
            "        decision: allow\n"
            for band in range(1, 21)
        )
        yield f"  service_{number}.pay:\n    effect: pay:{{order_id}}\n    rules:\n{rules}"
        yield "      - decision: deny\n"
        number += 1


def ids() -> Iterator[str]:
    """One action whose rule lists ids."""
    yield "schema: ctrlrun.policy/v2\nactions:\n  pay:\n    rules:\n    - decision: allow\n"
    yield "      when:\n        account_in:\n"
    number = 0
    while True:
        yield f"        - acc_{number:06}\n"
        number += 1


def grants() -> Iterator[str]:
    """Grants of one agent each."""
    yield "schema: ctrlrun.policy/v3\nactions: {}\nauthority:\n  grants:\n"
    number = 0
    while True:
        yield (
            f"  - id: grant-{number}\n    subject: {{agent: bot-{number}}}\n    actions: [pay.*]\n"
            "    constraints: {amount_lte: 5000}\n    expires_at: 2099-01-01T00:00:00Z\n"
        )
        number += 1


SHAPES: dict[str, Callable[[], Iterator[str]]] = {"actions": actions, "ids": ids, "grants": grants}


def write(path: Path, shape: str, size: int) -> None:
    """A policy of about `size` bytes."""
    with path.open("w", encoding="utf-8") as file:
        for piece in SHAPES[shape]():
            file.write(piece)
            if file.tell() >= size:
                return


def load(path: Path, *, slow: bool) -> None:
    """Load the policy and print seconds and the megabytes that the process grew by."""
    if slow:
        documents._LOADER = yaml.SafeLoader
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    Policy.from_file(path)
    seconds = time.perf_counter() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{seconds:8.2f} s{grown / KILOBYTES_IN_A_MEGABYTE:8.0f} MB")


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=6)
    parser.add_argument("--load", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--slow", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        load(options.load, slow=options.slow)
        return
    shown = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{os.cpu_count()} processors, load {shown}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ctrlrun.yaml"
        for shape in SHAPES:
            for part, slow in ((1.0, False), (0.1, False), (0.1, True)):
                write(path, shape, int(options.megabytes * part * 1_000_000))
                command = [sys.executable, __file__, "--load", str(path)]
                ended = subprocess.run(
                    [*command, *(["--slow"] if slow else [])],
                    check=True,
                    capture_output=True,
                    text=True,
                )
                reader = "PyYAML's own" if slow else "libyaml"
                size = path.stat().st_size / 1_000_000
                print(f"  {shape:<9}{size:5.1f} MB  {reader:<14}{ended.stdout.rstrip()}")


if __name__ == "__main__":
    main()
