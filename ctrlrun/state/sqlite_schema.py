"""SQLite's statements of the persisted format, and of our extensions to it."""

from __future__ import annotations

from ctrlrun.receipt import GENESIS_HASH
from ctrlrun.state import sqlite_tally
from ctrlrun.state.schema import Migration

LEDGER = (
    "CREATE TABLE IF NOT EXISTS schema_version (migration_id TEXT PRIMARY KEY, "
    "applied_at TEXT NOT NULL, ctrlrun_version TEXT NOT NULL)"
)
EXTENSION_LEDGER = (
    "CREATE TABLE IF NOT EXISTS schema_extensions (extension_id TEXT PRIMARY KEY, "
    "applied_at TEXT NOT NULL, ctrlrun_version TEXT NOT NULL)"
)

_BASELINE = (
    """CREATE TABLE IF NOT EXISTS effects (
        effect_key TEXT PRIMARY KEY,
        state TEXT NOT NULL,
        action_id TEXT NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 1,
        lease_expires_at TEXT,
        result_json TEXT,
        error TEXT,
        created_at TEXT,
        updated_at TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS continuations (
        effect_key TEXT PRIMARY KEY,
        action_id TEXT NOT NULL,
        action_json TEXT NOT NULL,
        continuation TEXT NOT NULL,
        rounds INTEGER NOT NULL DEFAULT 0,
        updated_at TEXT
    )""",
    """CREATE UNIQUE INDEX IF NOT EXISTS continuations_by_value
        ON continuations (continuation) WHERE continuation <> ''""",
    """CREATE TABLE IF NOT EXISTS approvals (
        approval_id TEXT PRIMARY KEY,
        action_hash TEXT NOT NULL,
        status TEXT NOT NULL,
        action_json TEXT NOT NULL,
        approver TEXT,
        created_at TEXT,
        granted_at TEXT,
        expires_at TEXT,
        consumed_at TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS receipts (
        receipt_id TEXT PRIMARY KEY,
        action_id TEXT,
        effect_key TEXT,
        result TEXT,
        json TEXT,
        ts TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS events (
        event_id INTEGER PRIMARY KEY AUTOINCREMENT,
        ts TEXT,
        type TEXT,
        action_id TEXT,
        effect_key TEXT,
        approval_id TEXT,
        data_json TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS delegations (
        delegation_id TEXT PRIMARY KEY,
        parent_id TEXT NOT NULL,
        depth INTEGER NOT NULL,
        grant_json TEXT NOT NULL,
        created_by_agent TEXT NOT NULL,
        created_by_user TEXT,
        created_via TEXT NOT NULL,
        created_at TEXT NOT NULL,
        revoked_at TEXT,
        revoked_by TEXT
    )""",
    "CREATE INDEX IF NOT EXISTS delegations_by_parent ON delegations (parent_id)",
)

_RECEIPT_CHAIN = (
    "ALTER TABLE receipts ADD COLUMN seq INTEGER",
    "ALTER TABLE receipts ADD COLUMN prev_hash TEXT",
    "ALTER TABLE receipts ADD COLUMN hash TEXT",
    "CREATE UNIQUE INDEX IF NOT EXISTS receipts_by_seq ON receipts (seq) WHERE seq IS NOT NULL",
    """CREATE TABLE IF NOT EXISTS receipt_chain (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        seq INTEGER NOT NULL,
        hash TEXT NOT NULL
    )""",
    f"INSERT INTO receipt_chain (id, seq, hash) VALUES (1, 0, '{GENESIS_HASH}') "
    "ON CONFLICT (id) DO NOTHING",
)

MIGRATIONS = (
    Migration("0001_baseline", _BASELINE),
    Migration("0002_receipt_chain", _RECEIPT_CHAIN),
    Migration("0003_resolved_by", ("ALTER TABLE effects ADD COLUMN resolved_by TEXT",)),
    Migration(
        "0004_policy_provenance",
        ("ALTER TABLE approvals ADD COLUMN policy_hash_at_approval TEXT",),
    ),
)


def _index(extension_id: str, definition: str, *needs: str) -> Migration:
    return Migration(extension_id, (f"CREATE INDEX IF NOT EXISTS {definition}",), needs)


CHANGES_TABLE = "x_delegation_changes"


def _noting(event: str, *ids: str) -> tuple[str, str]:
    """A trigger that notes the ids of the rows that changed; its name and its text."""
    name = f"x_delegations_{event.lower()}"
    notes = " ".join(
        f"INSERT INTO {CHANGES_TABLE} (delegation_id, stamp) SELECT {which};" for which in ids
    )
    return name, f"CREATE TRIGGER {name} AFTER {event} ON delegations BEGIN {notes} END"


CHANGES_TRIGGERS = dict(
    (
        _noting("INSERT", "NEW.delegation_id, random()"),
        _noting(
            "UPDATE",
            "NEW.delegation_id, random()",
            "OLD.delegation_id, random() WHERE OLD.delegation_id IS NOT NEW.delegation_id",
        ),
        _noting("DELETE", "OLD.delegation_id, random()"),
    )
)
"""What notes every change of a delegation, by whatever program: see `sqlite_delegations`.

Whoever writes delegations runs these too, an agent of format 0.6.1 as well: they refuse nothing.
"""

_CHANGES = (
    f"CREATE TABLE IF NOT EXISTS {CHANGES_TABLE} "
    "(change_id INTEGER PRIMARY KEY AUTOINCREMENT, delegation_id, stamp INTEGER)",
    f"INSERT INTO {CHANGES_TABLE} (delegation_id, stamp) VALUES (NULL, random())",
    *(f"DROP TRIGGER IF EXISTS {name}" for name in CHANGES_TRIGGERS),
    *CHANGES_TRIGGERS.values(),
)

HOLDERS_TABLE = "holders"

_HOLDERS = (
    f"""CREATE TABLE IF NOT EXISTS {HOLDERS_TABLE} (
        effect_key TEXT NOT NULL,
        action_id TEXT NOT NULL,
        attempt INTEGER NOT NULL,
        host TEXT NOT NULL,
        pid INTEGER NOT NULL,
        boot_id TEXT NOT NULL,
        thread TEXT NOT NULL,
        started_at TEXT,
        seen_at TEXT NOT NULL,
        PRIMARY KEY (effect_key, attempt)
    ) WITHOUT ROWID""",
)
"""Which process made which attempt: see `holders`."""

# One index each: on a large store an index takes seconds, and the write lock is free in between.
EXTENSIONS = (
    _index("x01_events_by_action", "x_events_by_action ON events (action_id)"),
    _index(
        "x02_events_by_effect",
        "x_events_by_effect ON events (effect_key) WHERE effect_key IS NOT NULL",
    ),
    _index(
        "x03_events_by_approval",
        "x_events_by_approval ON events (approval_id) WHERE approval_id IS NOT NULL",
    ),
    _index("x04_receipts_by_action", "x_receipts_by_action ON receipts (action_id, seq)"),
    _index(
        "x05_receipts_by_effect",
        "x_receipts_by_effect ON receipts (effect_key, seq) WHERE effect_key IS NOT NULL",
    ),
    _index("x06_receipts_by_time", "x_receipts_by_time ON receipts (ts, seq)"),
    _index("x07_receipts_unchained", "x_receipts_unchained ON receipts (seq) WHERE seq IS NULL"),
    # The earliest table of effects knew no times.
    _index(
        "x08_effects_by_creation",
        "x_effects_by_creation ON effects (created_at)",
        "effects.created_at",
    ),
    # Without the many that are done: a call that commits leaves no entry behind.
    _index(
        "x09_effects_open",
        "x_effects_open ON effects (state, created_at) WHERE state <> 'committed'",
        "effects.created_at",
    ),
    _index(
        "x10_effects_ambiguous",
        "x_effects_ambiguous ON effects (updated_at) WHERE state = 'ambiguous'",
        "effects.updated_at",
    ),
    _index("x11_approvals_by_status", "x_approvals_by_status ON approvals (status)"),
    _index("x12_approvals_by_expiry", "x_approvals_by_expiry ON approvals (status, expires_at)"),
    _index("x13_approvals_by_action", "x_approvals_by_action ON approvals (action_hash)"),
    Migration("x14_delegation_changes", _CHANGES),
    _index("x20_receipts_tally", sqlite_tally.DEFINITION),
    _index("x21_approvals_by_creation", "x_approvals_by_creation ON approvals (created_at)"),
    Migration("x30_holders", _HOLDERS),
)
