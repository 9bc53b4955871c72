"""What a protected call costs, against a hand-written sqlite3 program of the same durability.

    python benchmarks/calls.py [--calls 2000] [--folder DIR]

The bare program writes the same rows in the same two transactions (the first with
`synchronous=FULL`, the second with NORMAL), with no value to work out but the random ids, which
decide how many pages of the indexes are touched: what it needs is the price of the disk and of
SQLite, and the rest is ours. Both run in the same
process, alternating in blocks, so that a slow moment of the machine hits both.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from refunds import POLICY, a_receipt
from side_by_side import paired, timed

from ctrlrun.action import Action, Principal
from ctrlrun.clock import new_id
from ctrlrun.control import Control
from ctrlrun.errors import ActionDenied
from ctrlrun.policy import Policy
from ctrlrun.state.sqlite import SQLiteStateStore


def policy_of(actions: int, rules: int) -> Policy:
    """A policy of some size, whose last rule of each action matches."""
    lines = ["schema: ctrlrun.policy/v2", "actions:"]
    for number in range(actions):
        lines += [f"  action.number_{number}:", "    rules:"]
        lines += [
            f"      - when: {{ amount_gte: {1000 + rule}, kind_eq: kind-{rule} }}\n"
            "        decision: approve"
            for rule in range(rules - 1)
        ]
        lines.append("      - decision: allow")
    return Policy.from_yaml("\n".join(lines))


class Ours:
    """Protected calls through a Control on its own store."""

    def __init__(self, folder: Path) -> None:
        self.store = SQLiteStateStore(folder / "ours.db")
        self.control = Control(POLICY, self.store)
        self.numbers = itertools.count()

    def allowed(self) -> None:
        """One call with an effect key."""
        number = next(self.numbers)
        action = Action(
            "stripe.refund",
            {"payment_id": f"txn_{number}", "amount": 10_000},
            Principal("refund-agent"),
        )
        self.control.execute(action, lambda: {"id": "re_1"}, f"refund:txn_{number}")

    def denied(self) -> None:
        """One call that the policy denies."""
        action = Action(
            "stripe.refund",
            {"payment_id": f"txn_{next(self.numbers)}", "amount": 9_000_000},
            Principal("refund-agent"),
        )
        try:
            self.control.execute(action, lambda: None, "refund:denied")
        except ActionDenied:
            return


class Bare:
    """The same rows, written by hand on the same schema with the same indexes."""

    def __init__(self, folder: Path) -> None:
        path = folder / "bare.db"
        SQLiteStateStore(path).close()
        self.db = sqlite3.connect(path, isolation_level=None)
        self.db.execute("PRAGMA busy_timeout=5000")
        self.numbers = itertools.count()
        self.action_id = ""
        self.seq, self.head = self.db.execute("SELECT seq, hash FROM receipt_chain").fetchone()
        self.document = a_receipt().to_json()
        self.now = "2026-11-29T03:12:41.123456+00:00"

    def _event(self, kind: str, number: int, data: str) -> None:
        self.db.execute(
            "INSERT INTO events (ts, type, action_id, effect_key, approval_id, data_json)"
            " VALUES (?, ?, ?, ?, NULL, ?)",
            (self.now, kind, self.action_id, f"refund:txn_{number}", data),
        )

    def _receipt(self, number: int, result: str) -> None:
        self.seq += 1
        head = f"sha256:{self.seq:064x}"
        self.db.execute("UPDATE receipt_chain SET seq = seq + 1 WHERE id = 1")
        self.db.execute(
            "INSERT INTO receipts (receipt_id, action_id, effect_key, result, json, ts, seq,"
            " prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                new_id("ctr_"),
                self.action_id,
                f"refund:txn_{number}",
                result,
                self.document,
                self.now,
                self.seq,
                self.head,
                head,
            ),
        )
        self.db.execute("UPDATE receipt_chain SET hash = ? WHERE id = 1", (head,))
        self.head = head

    def allowed(self) -> None:
        """The two transactions of a call with an effect key."""
        number = next(self.numbers)
        key, action = f"refund:txn_{number}", new_id("act_")
        self.action_id = action
        db = self.db
        db.execute("PRAGMA synchronous=FULL")
        db.execute("BEGIN IMMEDIATE")
        self._event("ACTION_PROPOSED", number, '{"action_hash":"sha256:' + "0" * 64 + '"}')
        self._event("POLICY_EVALUATED", number, '{"decision":"allow","reason":"rule[0]"}')
        db.execute(
            "INSERT INTO effects (effect_key, state, action_id, attempt, lease_expires_at,"
            " created_at, updated_at) VALUES (?, 'reserved', ?, 1, ?, ?, ?)",
            (key, action, self.now, self.now, self.now),
        )
        self._event("EFFECT_RESERVED", number, '{"attempt":1,"lease_expires_at":"2026"}')
        db.execute(
            "INSERT INTO holders (effect_key, action_id, attempt, host, pid, boot_id, thread,"
            " started_at, seen_at) VALUES (?, ?, 1, 'web-3', 4121, ?, 'MainThread', ?, ?)",
            (key, action, "3f1c8a52-0000-4000-8000-000000000000/4026531836", "48211.37", self.now),
        )
        db.execute(
            "UPDATE effects SET state = 'executing', updated_at = ? WHERE effect_key = ?",
            (self.now, key),
        )
        self._event("EXECUTION_STARTED", number, "{}")
        db.execute("COMMIT")
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("BEGIN IMMEDIATE")
        db.execute(
            "UPDATE effects SET state = 'committed', lease_expires_at = NULL, result_json = ?,"
            " updated_at = ? WHERE effect_key = ?",
            ('{"id":"re_1"}', self.now, key),
        )
        self._event("EXECUTION_COMMITTED", number, "{}")
        self._receipt(number, "committed")
        db.execute("COMMIT")

    def denied(self) -> None:
        """The one transaction of a denied call."""
        number = next(self.numbers)
        self.action_id = new_id("act_")
        db = self.db
        db.execute("PRAGMA synchronous=NORMAL")
        db.execute("BEGIN IMMEDIATE")
        self._event("ACTION_PROPOSED", number, '{"action_hash":"sha256:' + "0" * 64 + '"}')
        self._event("POLICY_EVALUATED", number, '{"decision":"deny","reason":"rule[2]"}')
        self._event("ACTION_DENIED", number, '{"reason":"rule[2]"}')
        self._receipt(number, "denied")
        db.execute("COMMIT")


def _worker(folder: Path, number: int, seconds: float, gate: Any, results: Any) -> None:
    store = SQLiteStateStore(folder / "many.db")
    control = Control(POLICY, store)
    gate.wait()
    ends = time.perf_counter() + seconds
    done = errors = 0
    while time.perf_counter() < ends:
        payment = f"txn_{number}_{done}"
        action = Action(
            "stripe.refund", {"payment_id": payment, "amount": 100}, Principal("refund-agent")
        )
        try:
            control.execute(action, lambda: None, f"refund:{payment}")
        except sqlite3.OperationalError:
            errors += 1
        done += 1
    results.put((done, errors))
    store.close()


def many(folder: Path, processes: int, seconds: float) -> tuple[float, int, int]:
    """Calls a second of so many processes on one store, errors, and receipts missing at the end."""
    for leftover in folder.glob("many.db*"):
        leftover.unlink()
    SQLiteStateStore(folder / "many.db").close()
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=_worker, args=(folder, number, seconds, gate, results))
        for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    counted = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    done = sum(count for count, _ in counted)
    store = SQLiteStateStore(folder / "many.db")
    missing = done - store.receipts_count()
    store.close()
    return done / seconds, sum(errors for _, errors in counted), missing


def guard_cost(folder: Path, calls: int) -> tuple[str, str, str, str]:
    """What it costs that the files are guarded: with and without, in alternating blocks.

    On one store: of two, either may lie on the disk so that its syncs take a tenth longer.
    """
    (folder / "guard").mkdir()
    ours = Ours(folder / "guard")
    session = ours.store._sessions.current()
    guard, seen, holds = session._guard, session._seen, session._place.holds

    def unguarded() -> None:
        session._guard = session._seen = None
        session._place.holds = lambda files: True
        ours.allowed()
        session._guard, session._seen, session._place.holds = guard, seen, holds

    on, off = (statistics.median(times) for times in paired(ours.allowed, unguarded, calls))
    return (
        "files guarded (bare: not), median",
        f"{on * 1e3:.3f} ms",
        f"{off * 1e3:.3f} ms",
        f"{on / off - 1:+.1%} (≤ 5 %)",
    )


def rows(folder: Path, calls: int, seconds: float) -> Iterator[tuple[str, str, str, str]]:
    """The table: what, ours, bare, and the ratio or difference beside its target."""
    ours, bare = Ours(folder), Bare(folder)
    mine, theirs = paired(ours.allowed, bare.allowed, calls)
    a, b = statistics.median(mine), statistics.median(theirs)
    yield (
        "protected call, median",
        f"{a * 1e3:.3f} ms",
        f"{b * 1e3:.3f} ms",
        (f"own time {(a - b) * 1e3:.3f} ms (≤ 0.25)"),
    )
    rate, bare_rate = len(mine) / sum(mine), len(theirs) / sum(theirs)
    yield (
        "protected calls a second",
        f"{rate:,.0f}",
        f"{bare_rate:,.0f}",
        (f"{rate / bare_rate:.0%} (≥ 60 %)"),
    )
    yield guard_cost(folder, calls)
    mine, theirs = paired(ours.denied, bare.denied, calls)
    rate, bare_rate = len(mine) / sum(mine), len(theirs) / sum(theirs)
    yield (
        "denied calls a second",
        f"{rate:,.0f}",
        f"{bare_rate:,.0f}",
        (f"{rate / bare_rate:.0%} (≥ 80 %)"),
    )
    single = 0.0
    for processes in (1, 4, 8):
        rate, errors, missing = many(folder, processes, seconds)
        single = single or rate
        yield (
            f"{processes} processes, calls a second",
            f"{rate:,.0f}",
            f"{errors} errors",
            (f"{rate / single:.0%} of one (≥ 80 %), {missing} lost"),
        )
    policy = policy_of(100, 20)
    action = Action("action.number_50", {"amount": 100, "kind": "other"}, Principal("a"))
    times = timed(lambda: policy.evaluate(action) and None, 20_000)
    yield (
        "policy decision, 100 actions of 20 rules",
        (f"{statistics.median(times) * 1e6:.1f} µs"),
        "",
        "≤ 20 µs",
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run with processes")
    parser.add_argument("--folder", type=Path, help="where the stores are written (a real disk)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        print(f"SQLite {sqlite3.sqlite_version}, {options.calls:,} calls each, in {folder}")
        print(f"{'':42}{'ours':>12}{'bare':>12}   ratio")
        for what, mine, theirs, ratio in rows(Path(folder), options.calls, options.seconds):
            print(f"{what:42}{mine:>12}{theirs:>12}   {ratio}", flush=True)


if __name__ == "__main__":
    main()
