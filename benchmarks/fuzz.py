"""Any bytes at all into what reads text of others, guided by coverage: nothing but errors of ours.

    pip install 'ctrlrun[fuzz]'
    python benchmarks/fuzz.py [--seconds 60] [--only receipts]

Each target of `tests/fuzz/targets.py` runs in a process of its own under atheris, from the seeds
beside it. An exception that is none of ours, an input that takes ten seconds, or one that takes
2 GB ends it; the input is kept and named. A planted fault, which must be found, is run first.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.fuzz.targets import PLANTED, SEEDS, TARGETS  # noqa: E402

LONGEST_INPUT = 4096
HANG_S = 10
CONTROL_S = 30


def fuzzed(name: str, seconds: int, folder: Path) -> tuple[int, str]:
    """Drive one target; its exit status, and what libFuzzer said."""
    corpus = folder / name
    corpus.mkdir()
    for number, seed in enumerate(SEEDS.get(name, (b"",))):
        (corpus / f"seed-{number}").write_bytes(seed[:LONGEST_INPUT])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fuzz.drive",
            name,
            f"-max_total_time={seconds}",
            f"-timeout={HANG_S}",
            "-rss_limit_mb=2048",
            f"-max_len={LONGEST_INPUT}",
            f"-artifact_prefix={folder}/{name}-",
            "-print_final_stats=1",
            str(corpus),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        errors="replace",
    )
    return done.returncode, done.stdout + done.stderr


def figure(pattern: str, said: str) -> str:
    """The last figure of that kind that libFuzzer printed."""
    found = re.findall(pattern, said)
    return found[-1] if found else "-"


def main() -> int:
    """Run the control and the targets; 1 when one was ended, or the control was not found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--only", choices=sorted(TARGETS), action="append")
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print("atheris is not installed; run: pip install 'ctrlrun[fuzz]'", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    status, said = fuzzed(PLANTED, CONTROL_S, folder)
    found = status != 0 and "planted" in said
    print(f"control: the planted fault was {'found' if found else 'NOT FOUND'}", flush=True)
    failed = not found
    print(f"{'target':<12}{'inputs':>12}{'branches':>10}{'slowest':>9}  ended", flush=True)
    for name in options.only or TARGETS:
        status, said = fuzzed(name, options.seconds, folder)
        inputs = figure(r"stat::number_of_executed_units: +(\d+)", said)
        branches = figure(r" cov: (\d+)", said)
        slowest = figure(r"stat::slowest_unit_time_sec: +(\d+)", said)
        ended = "in time" if status == 0 else f"by itself; its input is in {folder}"
        print(f"{name:<12}{inputs:>12}{branches:>10}{slowest + ' s':>9}  {ended}", flush=True)
        if status:
            failed = True
            print(said[-3000:], file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
