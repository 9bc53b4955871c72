"""Databases as other programs leave them, and processes that end when a test says so."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ctrlrun.canonical import canonical_bytes
from ctrlrun.receipt import Event, EventType
from ctrlrun.state.sqlite import SQLiteStateStore

GENESIS = "sha256:" + "0" * 64
MIGRATION_IDS = (
    "0001_baseline",
    "0002_receipt_chain",
    "0003_resolved_by",
    "0004_policy_provenance",
)

# Format 0.6.1 as its own program wrote it, step by step: not read from the code under test.
FORMAT: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE effects (effect_key TEXT PRIMARY KEY, state TEXT NOT NULL, "
        "action_id TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 1, lease_expires_at TEXT, "
        "result_json TEXT, error TEXT, created_at TEXT, updated_at TEXT)",
        "CREATE TABLE continuations (effect_key TEXT PRIMARY KEY, action_id TEXT NOT NULL, "
        "action_json TEXT NOT NULL, continuation TEXT NOT NULL, rounds INTEGER NOT NULL DEFAULT 0, "
        "updated_at TEXT)",
        "CREATE UNIQUE INDEX continuations_by_value ON continuations (continuation) "
        "WHERE continuation <> ''",
        "CREATE TABLE approvals (approval_id TEXT PRIMARY KEY, action_hash TEXT NOT NULL, "
        "status TEXT NOT NULL, action_json TEXT NOT NULL, approver TEXT, created_at TEXT, "
        "granted_at TEXT, expires_at TEXT, consumed_at TEXT)",
        "CREATE TABLE receipts (receipt_id TEXT PRIMARY KEY, action_id TEXT, effect_key TEXT, "
        "result TEXT, json TEXT, ts TEXT)",
        "CREATE TABLE events (event_id INTEGER PRIMARY KEY AUTOINCREMENT, ts TEXT, type TEXT, "
        "action_id TEXT, effect_key TEXT, approval_id TEXT, data_json TEXT)",
        "CREATE TABLE delegations (delegation_id TEXT PRIMARY KEY, parent_id TEXT NOT NULL, "
        "depth INTEGER NOT NULL, grant_json TEXT NOT NULL, created_by_agent TEXT NOT NULL, "
        "created_by_user TEXT, created_via TEXT NOT NULL, created_at TEXT NOT NULL, "
        "revoked_at TEXT, revoked_by TEXT)",
        "CREATE INDEX delegations_by_parent ON delegations (parent_id)",
    ),
    (
        "ALTER TABLE receipts ADD COLUMN seq INTEGER",
        "ALTER TABLE receipts ADD COLUMN prev_hash TEXT",
        "ALTER TABLE receipts ADD COLUMN hash TEXT",
        "CREATE UNIQUE INDEX receipts_by_seq ON receipts (seq) WHERE seq IS NOT NULL",
        "CREATE TABLE receipt_chain (id INTEGER PRIMARY KEY CHECK (id = 1), "
        "seq INTEGER NOT NULL, hash TEXT NOT NULL)",
        f"INSERT INTO receipt_chain VALUES (1, 0, '{GENESIS}')",
    ),
    ("ALTER TABLE effects ADD COLUMN resolved_by TEXT",),
    ("ALTER TABLE approvals ADD COLUMN policy_hash_at_approval TEXT",),
)
LEDGER = (
    "CREATE TABLE schema_version (migration_id TEXT PRIMARY KEY, applied_at TEXT NOT NULL, "
    "ctrlrun_version TEXT NOT NULL)"
)
STAMP = "2026-06-01T09:00:00+00:00"


def plain(path: Path) -> sqlite3.Connection:
    """A connection of another program."""
    return sqlite3.connect(path, isolation_level=None, timeout=5)


def make_format(path: Path, steps: int = 4, *, ledger: bool = True, wal: bool = True) -> None:
    """A database after so many migrations of format 0.6.1; without its record if so wished."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with closing(plain(path)) as db:
        if wal:
            db.execute("PRAGMA journal_mode=WAL")
        if ledger:
            db.execute(LEDGER)
        for name, statements in zip(MIGRATION_IDS[:steps], FORMAT, strict=False):
            for statement in statements:
                db.execute(statement)
            if ledger:
                db.execute("INSERT INTO schema_version VALUES (?, ?, '0.6.1')", (name, STAMP))


def execute(path: Path, *statements: str) -> None:
    """Statements of another program, each by itself."""
    with closing(plain(path)) as db:
        for statement in statements:
            db.execute(statement)


def select(path: Path, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Rows, as another program sees them."""
    with closing(plain(path)) as db:
        return db.execute(sql, values).fetchall()


def fill(path: Path, table: str, **columns: Any) -> None:
    """One row, as another program writes it."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    with closing(plain(path)) as db:
        db.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(columns.values()))


def receipt_document(number: int, **changes: Any) -> dict[str, Any]:
    """A document of schema v3 as a program of format 0.6.1 writes it, but for its place."""
    document = {
        "schema": "ctrlrun.receipt/v3",
        "receipt_id": f"ctr_{number}",
        "action_id": f"act_{number}",
        "action": "k8s.delete_namespace",
        "action_hash": "sha256:b2",
        "principal": {
            "agent": "bot",
            "user": "ada",
            "claims": {"team": "infra", "level": 3},
            "issuer": None,
            "expires_at": None,
        },
        "resource": "ns:café",
        "arguments": {"name": "café", "labels": ["z", "a"]},
        "environment": "staging",
        "decision": "approve",
        "decision_reason": "rule[1]",
        "approval_id": "apr_2",
        "approver": "cli:local",
        "effect_key": "ns:café",
        "attempt": 2,
        "result": "committed",
        "execution": None,
        "would_have": None,
        "error": None,
        "started_at": "2026-01-01T12:00:01.000Z",
        "finished_at": "2026-01-01T12:00:01.999Z",
        "seq": None,
        "prev_hash": None,
        "policy_hash": "sha256:f0",
        "policy_version": "2026-01",
        "controls": ["SOX-1", "PCI"],
    }
    return document | changes


def chain_receipt(path: Path, number: int, **changes: Any) -> str:
    """Append a receipt to the chain by plain SQL, the head first; returns its hash."""
    with closing(plain(path)) as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("UPDATE receipt_chain SET seq = seq + 1 WHERE id = 1")
        seq, prev_hash = db.execute("SELECT seq, hash FROM receipt_chain").fetchone()
        document = receipt_document(number, **changes) | {"seq": seq, "prev_hash": prev_hash}
        digest = "sha256:" + hashlib.sha256(canonical_bytes(document)).hexdigest()
        values = (
            document["receipt_id"],
            document["action_id"],
            document["effect_key"],
            document["result"],
            json.dumps(document, ensure_ascii=False, separators=(",", ":")),
            "2026-01-01T12:00:01.999000+00:00",
            seq,
            prev_hash,
            digest,
        )
        db.execute(
            "INSERT INTO receipts (receipt_id, action_id, effect_key, result, json, ts, seq, "
            "prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            values,
        )
        db.execute("UPDATE receipt_chain SET hash = ? WHERE id = 1", (digest,))
        db.execute("COMMIT")
    return digest


ACTION_JSON = (
    '{"action_id":"act_1","name":"pay","arguments":{"amount":1000,"payment_id":"p1"},'
    '"principal":{"agent":"a","user":null,"claims":{},"issuer":null,"expires_at":null},'
    '"resource":null,"environment":"production"}'
)
ACTION_HASH = "sha256:7f95dbec4441a544a50c88eb61c196135eca5581b74522d8889a4002b2c1cabf"


# --- files ---------------------------------------------------------------------------------------


@cache
def _new_store() -> bytes:
    with TemporaryDirectory() as folder:
        SQLiteStateStore(Path(folder) / "state.db").close()
        return (Path(folder) / "state.db").read_bytes()


def new_store(path: Path, **options: Any) -> SQLiteStateStore:
    """A new store, copied from one that was made once: for tests that are not about its making."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_bytes(_new_store())
    return SQLiteStateStore(path, **options)


def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: for tests that open hundreds of stores."""
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        yield Path(folder)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by name."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def journal_mode(path: Path) -> str:
    """How the file is journalled, read from its header."""
    return "wal" if path.read_bytes()[18:20] == b"\x02\x02" else "rollback"


def open_files() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


# --- processes -----------------------------------------------------------------------------------


def start_child(work: Callable[[], object], *, gate: int | None = None) -> int:
    """Fork a child that works, once `gate` has been closed at its other end; its process id."""
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        if gate is not None:
            os.read(gate, 1)
        work()
        status = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(status)


def wait_for(child: int) -> int:
    """The exit status of a child, 0 when all was well; negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def in_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked child and wait for its exit status."""
    return wait_for(start_child(work))


def at_once(count: int, work: Callable[[int], object]) -> list[int]:
    """Run `work(n)` in so many processes that begin together; their exit statuses."""
    reading, writing = os.pipe()

    def behind_gate(number: int) -> Callable[[], object]:
        def run() -> object:
            return work(number)

        return run

    # Children inherit the writing end as well: a byte for each opens the gate.
    children = [start_child(behind_gate(number), gate=reading) for number in range(count)]
    os.write(writing, b"x" * count)
    statuses = [wait_for(child) for child in children]
    os.close(reading)
    os.close(writing)
    return statuses


def kill_self() -> None:
    """The end without any clean-up."""
    os.kill(os.getpid(), signal.SIGKILL)


def event(number: int = 1) -> Event:
    """An event of its own action."""
    moment = datetime(2026, 6, 1, 9, tzinfo=UTC)
    return Event(EventType.ACTION_PROPOSED, f"act_{number}", moment, {"n": number})


class Watched(sqlite3.Connection):
    """A connection that tells somebody before each statement."""

    step: Callable[[], object]

    @classmethod
    def open(cls, uri: str, step: Callable[[], object]) -> Watched:
        """Like the connections of a store."""
        connection = sqlite3.connect(
            uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False, factory=cls
        )
        connection.step = step
        return connection

    def execute(self, *values: Any) -> sqlite3.Cursor:
        """The statement, after its announcement."""
        self.step()
        return super().execute(*values)
