"""What reading costs on stores of 1,000, 100,000 and 1,000,000 receipts.

    python benchmarks/reads.py [--sizes 1000,100000,1000000] [--folder DIR]

Stores are made once in DIR and kept (benchmarks/big_store.py). Commands are timed as whole
processes, minimum and median of several runs; each ratio is against the smallest store of the
same run.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from big_store import make

from ctrlrun.clock import utc_now
from ctrlrun.operator import inspection_for
from ctrlrun.operator.timeline import timeline
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state.sqlite import SQLiteReader

RUNS = 7


def store_of(folder: Path, size: int) -> Path:
    """The store of that size, made when it is not there."""
    path = folder / f"{size}.db"
    if not path.exists():
        waiting = min(10_000, size // 10)
        make(path, receipts=size, approvals=waiting, ambiguous=waiting)
    return path


def command(path: Path, *arguments: str) -> float:
    """Seconds of a whole `ctrlrun` process."""
    environment = {**os.environ, "CTRLRUN_STATE": str(path)}
    environment.pop("CTRLRUN_STORE_URL", None)
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "ctrlrun", *arguments],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return time.perf_counter() - started


def repeated(call: Callable[[], object], runs: int = RUNS) -> tuple[float, float]:
    """Minimum and median seconds; the first run, which warms the caches, is not counted."""
    call()
    times: list[float] = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return min(times), statistics.median(times)


def measured(path: Path, size: int) -> dict[str, tuple[float, float]]:
    """Every reading on one store."""
    reader = SQLiteReader(path, clock=utc_now)
    middle = size // 2
    action, key = f"act_{middle:032x}", f"refund:txn_{middle}"
    results = {
        "receipts --last 20 (process)": repeated(lambda: command(path, "receipts", "--last", "20")),
        "inspect (process)": repeated(lambda: command(path, "inspect", action)),
        "inspect": repeated(lambda: inspection_for(reader, action)),
        "timeline of a key": repeated(lambda: timeline(reader, key, utc_now())),
        "newest 200 receipts": repeated(lambda: reader.receipts_page(limit=200)),
        "newest 200 events": repeated(lambda: reader.events_page(limit=200)),
        "200 waiting, soonest expiry": repeated(
            lambda: reader.approvals_page(limit=200, order="expiry")
        ),
    }
    reader.close()
    return results


def chain(path: Path) -> tuple[float, float]:
    """Receipts a second of `verify_chain`, and the growth of memory in MB while it ran."""
    reader = SQLiteReader(path, clock=utc_now)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    report = verify_chain(reader)
    seconds = time.perf_counter() - started
    reader.close()
    assert report.ok, report.breaks
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return report.verified / seconds, grown


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", default="1000,100000,1000000")
    parser.add_argument("--folder", type=Path, default=Path("bench-stores"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    first: dict[str, tuple[float, float]] = {}
    for size in map(int, options.sizes.split(",")):
        path = store_of(options.folder, size)
        results = measured(path, size)
        first = first or results
        print(f"\n{size:,} receipts ({path.stat().st_size / 1e6:,.0f} MB)")
        for what, (least, median) in results.items():
            ratio = median / first[what][1]
            print(f"  {what:32}{least * 1e3:9.2f} ms{median * 1e3:10.2f} ms  x {ratio:.2f}")
        rate, grown = chain(path)
        print(f"  {'verify_chain':32}{rate:9,.0f} receipts/s, memory +{grown:.0f} MB (≥ 60,000/s)")


if __name__ == "__main__":
    main()
