"""How long counting takes, and what its index costs a protected call.

    python benchmarks/stats.py [--receipts 1000000] [--days 1] [--calls 4000] [--folder DIR]

Makes a store of so many receipts over so many days by plain SQL (their chain is not one that
verifies), counts it with and without the index, and deletes it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.clock import column_timestamp, iso_timestamp, utc_now
from ctrlrun.control import Control
from ctrlrun.operator.stats import StatsCount
from ctrlrun.operator.stats_report import StatsReport, Window
from ctrlrun.policy import Policy
from ctrlrun.state import SQLiteReader, SQLiteStateStore
from ctrlrun.state.sqlite_tally import TALLY_INDEX

POLICY = """
schema: ctrlrun.policy/v2
actions:
  stripe.refund:
    effect: "refund:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 50000}
        decision: allow
"""
ACTIONS = ("stripe.refund", "email.send", "k8s.delete_namespace", "customer.read")
AGENTS = ("refund-agent", "ops-bot", "mail-agent", "billing-agent")
# How a call ended, with its share of a hundred.
ENDS = (
    (80, "allow", "rule[0]", "committed"),
    (8, "approve", "rule[1]", "committed"),
    (6, "deny", "rule[2]", "denied"),
    (3, "allow", "rule[0]", "blocked"),
    (2, "allow", "rule[0]", "failed"),
    (1, "allow", "rule[0]", "ambiguous"),
)
BATCH = 20_000
BLOCK = 200


def fill(path: Path, receipts: int, days: float) -> None:
    """Write the receipts; the newest is of now."""
    SQLiteStateStore(path).close()
    start = datetime.now(UTC) - timedelta(days=days)
    step = timedelta(days=days) / receipts
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA synchronous=OFF")
        db.execute(f"DROP INDEX {TALLY_INDEX}")
        db.execute("DELETE FROM schema_extensions WHERE extension_id = 'x20_receipts_tally'")
        rows = _rows(receipts, start, step)
        for _ in range(0, receipts, BATCH):
            db.execute("BEGIN")
            batch = [row for row, _ in zip(rows, range(BATCH), strict=False)]
            db.executemany("INSERT INTO receipts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", batch)
            db.execute("COMMIT")
        db.execute("UPDATE receipt_chain SET seq = ?, hash = 'sha256:head'", (receipts,))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _rows(receipts: int, start: datetime, step: timedelta) -> Iterator[tuple[Any, ...]]:
    chance = random.Random(7)
    ends = chance.choices(ENDS, [share for share, *_ in ENDS], k=receipts)
    for number, (_, decision, reason, result) in enumerate(ends, 1):
        finished = start + number * step
        stamp = iso_timestamp(finished)
        document = {
            "schema": "ctrlrun.receipt/v3",
            "receipt_id": f"ctr_{number:032x}",
            "action_id": f"act_{number:032x}",
            "action": chance.choice(ACTIONS),
            "action_hash": f"sha256:{number:064x}",
            "principal": {
                "agent": chance.choice(AGENTS),
                "user": "dana@example.com",
                "claims": {},
                "issuer": None,
                "expires_at": None,
            },
            "resource": f"payment:txn_{number}",
            "arguments": {"amount": number % 50_000, "payment_id": f"txn_{number}"},
            "environment": "production",
            "decision": decision,
            "decision_reason": reason,
            "approval_id": f"apr_{number:032x}" if decision == "approve" else None,
            "approver": None,
            "effect_key": f"refund:txn_{number}",
            "attempt": 1,
            "result": result,
            "execution": None,
            "would_have": None,
            "error": None,
            "started_at": stamp,
            "finished_at": stamp,
            "seq": number,
            "prev_hash": "sha256:" + "0" * 64,
            "policy_hash": "sha256:" + "a4" * 32,
            "policy_version": "2026-11",
            "controls": [],
        }
        yield (
            document["receipt_id"],
            document["action_id"],
            document["effect_key"],
            result,
            json.dumps(document, separators=(",", ":")),
            column_timestamp(finished),
            number,
            document["prev_hash"],
            "sha256:" + "0" * 64,
        )


def counted(
    path: Path, window: Window | None, *, panels: bool = True
) -> tuple[float, float, float, StatsReport]:
    """Seconds, of processor time too, the longest step, and the report."""
    count = StatsCount(window, mode="enforce", panels=panels)
    longest = 0.0
    with closing(SQLiteReader(path)) as reader:
        began, worked = time.perf_counter(), time.process_time()
        done = False
        while not done:
            step = time.perf_counter()
            done = count.advance(reader, utc_now())
            longest = max(longest, time.perf_counter() - step)
        spent = time.perf_counter() - began
        return spent, time.process_time() - worked, longest, count.report()


def refreshed(path: Path) -> float:
    """Seconds that a count of a day needs for ten new receipts."""
    count = StatsCount(Window.DAY, mode="enforce")
    with closing(SQLiteReader(path)) as reader, closing(SQLiteStateStore(path)) as store:
        while not count.advance(reader, utc_now()):
            pass
        control = Control(Policy.from_yaml(POLICY), store)
        for number in range(10):
            _call(control, f"new_{number}")
        began = time.perf_counter()
        while not count.advance(reader, utc_now()):
            pass
        count.report()
        return time.perf_counter() - began


def _call(control: Control, payment: str) -> None:
    arguments = {"payment_id": payment, "amount": 100}
    action = Action("stripe.refund", arguments, Principal("refund-agent", "dana@example.com"))
    control.execute(action, lambda: None, f"refund:{payment}")


def calls(folder: Path, count: int) -> tuple[float, float]:
    """The median of a protected call, with the index and without, in alternating blocks."""
    runs: list[Callable[[str], None]] = []
    for indexed in (True, False):
        path = folder / f"calls_{indexed}.db"
        store = SQLiteStateStore(path)
        if not indexed:
            with closing(sqlite3.connect(path)) as db:
                db.execute(f"DROP INDEX {TALLY_INDEX}")
        control = Control(Policy.from_yaml(POLICY), store)
        runs.append(lambda payment, control=control: _call(control, payment))  # type: ignore[misc]
    times: list[list[float]] = [[], []]
    for block in range(0, count + BLOCK, BLOCK):
        for index, run in enumerate(runs):
            for number in range(BLOCK):
                began = time.perf_counter()
                run(f"txn_{block + number}")
                if block:  # the first one warms up
                    times[index].append(time.perf_counter() - began)
    return statistics.median(times[0]), statistics.median(times[1])


def report(folder: Path, receipts: int, days: float, call_count: int) -> Iterator[str]:
    """The lines."""
    with_index, without = calls(folder, call_count)
    share = with_index / without - 1
    yield (
        f"a protected call          {with_index * 1e3:.3f} ms, without the index "
        f"{without * 1e3:.3f} ms: {share:+.1%} (≤ 5 %)"
    )
    path = folder / "stats.db"
    fill(path, receipts, days)
    yield f"{receipts:,} receipts over {days:g} days, {os.path.getsize(path) / 1e6:,.0f} MB"
    spent, worked, _, without_index = counted(path, None, panels=False)
    yield f"all, from the documents   {spent:.2f} s ({worked:.2f} s of processor)"
    size, began = os.path.getsize(path), time.perf_counter()
    SQLiteStateStore(path).close()
    made = time.perf_counter() - began
    yield f"making the index          {made:.1f} s, {(os.path.getsize(path) - size) / 1e6:,.0f} MB"
    spent, worked, _, told = counted(path, None, panels=False)
    assert told.document == without_index.document
    yield f"all, for `ctrlrun stats`  {spent:.2f} s ({worked:.2f} s of processor)"
    for window in Window:
        spent, worked, longest, told = counted(path, window)
        yield (
            f"console, {window.value:4}             {spent:.2f} s ({worked:.2f} s of processor), "
            f"longest step {longest * 1e3:.0f} ms, {told.calls.count:,} receipts"
        )
    yield f"ten new receipts          {refreshed(path) * 1e3:.0f} ms"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--receipts", type=int, default=1_000_000)
    parser.add_argument("--days", type=float, default=1.0)
    parser.add_argument("--calls", type=int, default=4_000)
    parser.add_argument("--folder", type=Path, help="where the stores are written (a real disk)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(f"SQLite {sqlite3.sqlite_version}")
        for line in report(Path(folder), options.receipts, options.days, options.calls):
            print(line, flush=True)


if __name__ == "__main__":
    main()
