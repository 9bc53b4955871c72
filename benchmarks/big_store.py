"""Makes a store of any size in minutes, with a chain that verifies.

    python benchmarks/big_store.py FILE [--receipts 1000000] [--approvals 10000] [--ambiguous 10000]

Each receipt is of one protected call with its five events. Rows are written by plain SQL in the
persisted format, because going through a Control a million times would measure the disk.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.clock import column_timestamp, iso_timestamp
from ctrlrun.conditions import Decision
from ctrlrun.receipt import Receipt, ReceiptResult
from ctrlrun.receipt.chain import GENESIS_HASH, link
from ctrlrun.state.sqlite import SQLiteStateStore

BATCH = 20_000
EVENTS_A_CALL = 5
AGENTS = ("refund-agent", "ops-bot", "mail-agent", "billing-agent")

Row = tuple[Any, ...]


def make(path: Path, *, receipts: int, approvals: int, ambiguous: int) -> None:
    """Write the store; its newest row is of now."""
    SQLiteStateStore(path).close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA synchronous=OFF")
    db.execute("PRAGMA cache_size=-200000")
    now = datetime.now(UTC)
    _write_calls(db, receipts, now - timedelta(milliseconds=receipts * 80))
    _write_ambiguous(db, ambiguous, now - timedelta(hours=6))
    _write_approvals(db, approvals, now)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.execute("PRAGMA synchronous=FULL")
    db.close()


def _write_calls(db: sqlite3.Connection, count: int, start: datetime) -> None:
    head = (0, GENESIS_HASH)
    rows = _calls(count, start)
    while batch := list(islice(rows, BATCH)):
        stored: list[Row] = []
        events: list[Row] = []
        effects: list[Row] = []
        for receipt, key in batch:
            chained, text = link(head, receipt)
            assert chained.seq is not None and chained.hash is not None
            stored.append(_receipt_row(chained, text, head[1]))
            events += _events_of(receipt, key)
            effects.append(_effect_row(receipt, key))
            head = (chained.seq, chained.hash)
        db.execute("BEGIN")
        db.executemany(
            "INSERT INTO receipts (receipt_id, action_id, effect_key, result, json, ts, seq,"
            " prev_hash, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            stored,
        )
        _insert_events(db, events)
        _insert_effects(db, effects)
        db.execute("UPDATE receipt_chain SET seq = ?, hash = ? WHERE id = 1", head)
        db.execute("COMMIT")


def _calls(count: int, start: datetime) -> Iterator[tuple[Receipt, str]]:
    for number in range(count):
        ended = start + timedelta(milliseconds=80 * number)
        key = f"refund:txn_{number}"
        yield (
            Receipt(
                receipt_id=f"ctr_{number:032x}",
                action_id=f"act_{number:032x}",
                action="stripe.refund",
                action_hash=f"sha256:{number:064x}",
                principal=Principal(AGENTS[number % len(AGENTS)], "dana@example.com"),
                resource=f"payment:txn_{number}",
                arguments={"amount": 100 + number % 50_000, "payment_id": f"txn_{number}"},
                environment="production",
                decision=Decision.ALLOW,
                decision_reason="rule[0]",
                effect_key=key,
                result=ReceiptResult.COMMITTED,
                started_at=ended - timedelta(milliseconds=40),
                finished_at=ended,
                policy_hash="sha256:" + "a4" * 32,
                policy_version="2026-11",
            ),
            key,
        )


def _receipt_row(receipt: Receipt, text: str, prev_hash: str) -> Row:
    return (
        receipt.receipt_id,
        receipt.action_id,
        receipt.effect_key,
        receipt.result.value,
        text,
        column_timestamp(receipt.finished_at),
        receipt.seq,
        prev_hash,
        receipt.hash,
    )


def _events_of(receipt: Receipt, key: str) -> list[Row]:
    data = (
        ("ACTION_PROPOSED", {"action_hash": receipt.action_hash}),
        ("POLICY_EVALUATED", {"decision": "allow", "reason": "rule[0]"}),
        (
            "EFFECT_RESERVED",
            {"attempt": 1, "lease_expires_at": iso_timestamp(receipt.finished_at)},
        ),
        ("EXECUTION_STARTED", {}),
        ("EXECUTION_COMMITTED", {}),
    )
    ts = column_timestamp(receipt.finished_at)
    return [
        (ts, kind, receipt.action_id, key, None, json.dumps(facts, separators=(",", ":")))
        for kind, facts in data
    ]


def _effect_row(receipt: Receipt, key: str) -> Row:
    ts = column_timestamp(receipt.finished_at)
    return (key, "committed", receipt.action_id, None, ts, ts)


def _insert_events(db: sqlite3.Connection, rows: list[Row]) -> None:
    db.executemany(
        "INSERT INTO events (ts, type, action_id, effect_key, approval_id, data_json)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        rows,
    )


def _insert_effects(db: sqlite3.Connection, rows: list[Row]) -> None:
    db.executemany(
        "INSERT INTO effects (effect_key, state, action_id, attempt, error, created_at, updated_at)"
        " VALUES (?, ?, ?, 1, ?, ?, ?)",
        rows,
    )


def _write_ambiguous(db: sqlite3.Connection, count: int, start: datetime) -> None:
    effects: list[Row] = []
    events: list[Row] = []
    for number in range(count):
        ts = column_timestamp(start + timedelta(seconds=number))
        key, action = f"refund:lost_{number}", f"act_a{number:031x}"
        error = "TimeoutError: no response from api.stripe.com after 30s"
        effects.append((key, "ambiguous", action, error, ts, ts))
        lost = json.dumps({"error": error})
        events += [
            (ts, "ACTION_PROPOSED", action, key, None, "{}"),
            (ts, "EXECUTION_STARTED", action, key, None, "{}"),
            (ts, "EXECUTION_AMBIGUOUS", action, key, None, lost),
        ]
    db.execute("BEGIN")
    _insert_effects(db, effects)
    _insert_events(db, events)
    db.execute("COMMIT")


def _write_approvals(db: sqlite3.Connection, count: int, now: datetime) -> None:
    approvals: list[Row] = []
    events: list[Row] = []
    for number in range(count):
        asked = now - timedelta(milliseconds=50 * number)
        approval = f"apr_{number:032x}"
        action = Action(
            "stripe.refund",
            {"amount": 60_000 + number, "currency": "EUR", "payment_id": f"txn_w{number}"},
            Principal("refund-agent", "dana@example.com"),
            action_id=f"act_b{number:031x}",
        )
        expires = column_timestamp(asked + timedelta(hours=12))
        ts = column_timestamp(asked)
        approvals.append((approval, action.action_hash, _action_json(action), ts, expires))
        key = f"refund:txn_w{number}"
        facts = json.dumps({"action_hash": action.action_hash, "expires_at": expires})
        events.append((ts, "APPROVAL_REQUESTED", action.action_id, key, approval, facts))
    db.execute("BEGIN")
    db.executemany(
        "INSERT INTO approvals (approval_id, action_hash, status, action_json, created_at,"
        " expires_at) VALUES (?, ?, 'pending', ?, ?, ?)",
        approvals,
    )
    _insert_events(db, events)
    db.execute("COMMIT")


def _action_json(action: Action) -> str:
    return json.dumps(
        {
            "action_id": action.action_id,
            "name": action.name,
            "arguments": action.canonical_arguments,
            "principal": {
                "agent": action.principal.agent,
                "user": action.principal.user,
                "claims": {},
                "issuer": None,
                "expires_at": None,
            },
            "resource": None,
            "environment": action.environment,
        },
        separators=(",", ":"),
    )


def main() -> None:
    """Make one, and say how long it took."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--receipts", type=int, default=1_000_000)
    parser.add_argument("--approvals", type=int, default=10_000)
    parser.add_argument("--ambiguous", type=int, default=10_000)
    options = parser.parse_args()
    started = time.perf_counter()
    make(
        options.file,
        receipts=options.receipts,
        approvals=options.approvals,
        ambiguous=options.ambiguous,
    )
    size = options.file.stat().st_size / 1e6
    print(f"{options.file}: {size:,.0f} MB in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
