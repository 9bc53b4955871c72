"""Postgres's statements of the persisted format, and of our extensions to it.

`{s}` stands for the schema's name, quoted. Keys, ids and hashes compare by bytes whatever the
database's own order is; times are text, and are compared by bytes where they are read.
"""

from __future__ import annotations

from ctrlrun.receipt import GENESIS_HASH
from ctrlrun.state.schema import Migration

LOCK_KEY = 74029437441358
"""What every program of the format locks while it migrates: part of the format."""

LEDGER = (
    "CREATE TABLE IF NOT EXISTS {s}.schema_version (migration_id TEXT PRIMARY KEY, "
    "applied_at TEXT NOT NULL, ctrlrun_version TEXT NOT NULL)"
)
EXTENSION_LEDGER = (
    "CREATE TABLE IF NOT EXISTS {s}.schema_extensions (extension_id TEXT PRIMARY KEY, "
    "applied_at TEXT NOT NULL, ctrlrun_version TEXT NOT NULL)"
)

_BASELINE = (
    """CREATE TABLE IF NOT EXISTS {s}.effects (
        effect_key TEXT COLLATE "C" PRIMARY KEY,
        state TEXT NOT NULL,
        action_id TEXT COLLATE "C" NOT NULL,
        attempt INTEGER NOT NULL DEFAULT 1,
        lease_expires_at TEXT,
        result_json TEXT,
        error TEXT,
        created_at TEXT,
        updated_at TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS {s}.continuations (
        effect_key TEXT COLLATE "C" PRIMARY KEY,
        action_id TEXT COLLATE "C" NOT NULL,
        action_json TEXT NOT NULL,
        continuation TEXT COLLATE "C" NOT NULL,
        rounds INTEGER NOT NULL DEFAULT 0,
        updated_at TEXT
    )""",
    """CREATE UNIQUE INDEX IF NOT EXISTS continuations_by_value
        ON {s}.continuations (continuation) WHERE continuation <> ''""",
    """CREATE TABLE IF NOT EXISTS {s}.approvals (
        approval_id TEXT COLLATE "C" PRIMARY KEY,
        action_hash TEXT COLLATE "C" NOT NULL,
        status TEXT NOT NULL,
        action_json TEXT NOT NULL,
        approver TEXT,
        created_at TEXT,
        granted_at TEXT,
        expires_at TEXT,
        consumed_at TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS {s}.receipts (
        receipt_id TEXT COLLATE "C" PRIMARY KEY,
        action_id TEXT COLLATE "C",
        effect_key TEXT COLLATE "C",
        result TEXT,
        json TEXT,
        ts TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS {s}.events (
        event_id BIGSERIAL PRIMARY KEY,
        ts TEXT,
        type TEXT,
        action_id TEXT COLLATE "C",
        effect_key TEXT COLLATE "C",
        approval_id TEXT COLLATE "C",
        data_json TEXT
    )""",
    """CREATE TABLE IF NOT EXISTS {s}.delegations (
        delegation_id TEXT COLLATE "C" PRIMARY KEY,
        parent_id TEXT COLLATE "C" NOT NULL,
        depth INTEGER NOT NULL,
        grant_json TEXT NOT NULL,
        created_by_agent TEXT NOT NULL,
        created_by_user TEXT,
        created_via TEXT NOT NULL,
        created_at TEXT NOT NULL,
        revoked_at TEXT,
        revoked_by TEXT
    )""",
    "CREATE INDEX IF NOT EXISTS delegations_by_parent ON {s}.delegations (parent_id)",
)

_RECEIPT_CHAIN = (
    "ALTER TABLE {s}.receipts ADD COLUMN IF NOT EXISTS seq BIGINT",
    'ALTER TABLE {s}.receipts ADD COLUMN IF NOT EXISTS prev_hash TEXT COLLATE "C"',
    'ALTER TABLE {s}.receipts ADD COLUMN IF NOT EXISTS hash TEXT COLLATE "C"',
    "CREATE UNIQUE INDEX IF NOT EXISTS receipts_by_seq ON {s}.receipts (seq) WHERE seq IS NOT NULL",
    """CREATE TABLE IF NOT EXISTS {s}.receipt_chain (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        seq BIGINT NOT NULL,
        hash TEXT COLLATE "C" NOT NULL
    )""",
    f"INSERT INTO {{s}}.receipt_chain (id, seq, hash) VALUES (1, 0, '{GENESIS_HASH}') "
    "ON CONFLICT (id) DO NOTHING",
)

MIGRATIONS = (
    Migration("0001_baseline", _BASELINE),
    Migration("0002_receipt_chain", _RECEIPT_CHAIN),
    Migration(
        "0003_resolved_by",
        ('ALTER TABLE {s}.effects ADD COLUMN IF NOT EXISTS resolved_by TEXT COLLATE "C"',),
    ),
    Migration(
        "0004_policy_provenance",
        (
            "ALTER TABLE {s}.approvals ADD COLUMN IF NOT EXISTS "
            'policy_hash_at_approval TEXT COLLATE "C"',
        ),
    ),
)


def _index(extension_id: str, name: str, rest: str, *needs: str) -> Migration:
    statement = f"CREATE INDEX IF NOT EXISTS {name} ON {{s}}.{rest}"
    return Migration(extension_id, (statement,), needs)


KEY_INDEXES = (
    "x_events_by_action",
    "x_events_by_effect",
    "x_events_by_approval",
    "x_receipts_by_action",
    "x_receipts_by_effect",
)

HOLDERS_TABLE = "holders"

_HOLDERS = (
    f"""CREATE TABLE IF NOT EXISTS {{s}}.{HOLDERS_TABLE} (
        effect_key TEXT COLLATE "C" NOT NULL,
        action_id TEXT COLLATE "C" NOT NULL,
        attempt INTEGER NOT NULL,
        host TEXT NOT NULL,
        pid BIGINT NOT NULL,
        boot_id TEXT NOT NULL,
        thread TEXT NOT NULL,
        started_at TEXT,
        seen_at TEXT NOT NULL,
        PRIMARY KEY (effect_key, attempt)
    )""",
)
"""Which process made which attempt: see `holders`."""

TOLD_BY = "x_events_told"
"""The trigger, and its function, that tell listeners of commits."""

# A commit that notifies holds one lock of the whole cluster until it is done, its wait for the disk
# and for replicas included. So only those tell that do not wait: a call's second transaction, and
# what is asked and refused, but not the one that an executor waits for. The statement needs no
# privilege, and says the same each time: Postgres sends it once a transaction.
NOTIFICATIONS = Migration(
    "x40_events_told",
    (
        f"""CREATE OR REPLACE FUNCTION {{s}}.{TOLD_BY}() RETURNS trigger LANGUAGE plpgsql
            AS 'BEGIN NOTIFY {{channel}}; RETURN NULL; END'""",
        f"""CREATE OR REPLACE TRIGGER {TOLD_BY} AFTER INSERT ON {{s}}.events FOR EACH STATEMENT
            WHEN (pg_catalog.current_setting('synchronous_commit') = 'off')
            EXECUTE FUNCTION {{s}}.{TOLD_BY}()""",
    ),
)
NEEDS_MORE = frozenset({"42501", "42601", "42704", "0A000"})
"""What a server says that lacks a privilege, a language or a statement of an extension."""


def channel_of(schema: str) -> str:
    """The channel of a store's notifications; two long names may share one, which wakes too often."""
    return f"ctrlrun:{schema}"[:63]


# One index each, as in SQLite, and by the same ids. What SQLite counts receipts by is no index
# here: an entry may not be longer than a third of a page, and no insert of an agent may fail for it.
EXTENSIONS = (
    _index("x01_events_by_action", "x_events_by_action", "events (action_id, event_id)"),
    _index(
        "x02_events_by_effect",
        "x_events_by_effect",
        "events (effect_key, event_id) WHERE effect_key IS NOT NULL",
    ),
    _index(
        "x03_events_by_approval",
        "x_events_by_approval",
        "events (approval_id, event_id) WHERE approval_id IS NOT NULL",
    ),
    _index("x04_receipts_by_action", "x_receipts_by_action", "receipts (action_id, seq)"),
    _index(
        "x05_receipts_by_effect",
        "x_receipts_by_effect",
        "receipts (effect_key, seq) WHERE effect_key IS NOT NULL",
    ),
    _index("x06_receipts_by_time", "x_receipts_by_time", 'receipts (ts COLLATE "C", seq)'),
    _index(
        "x07_receipts_unchained",
        "x_receipts_unchained",
        "receipts (receipt_id) WHERE seq IS NULL",
    ),
    _index(
        "x08_effects_by_creation",
        "x_effects_by_creation",
        'effects (created_at COLLATE "C", effect_key)',
        "effects.created_at",  # the earliest table of effects knew no times
    ),
    _index(
        "x09_effects_open",
        "x_effects_open",
        "effects (state, created_at COLLATE \"C\") WHERE state <> 'committed'",
        "effects.created_at",
    ),
    _index(
        "x10_effects_ambiguous",
        "x_effects_ambiguous",
        "effects (updated_at COLLATE \"C\", effect_key) WHERE state = 'ambiguous'",
        "effects.updated_at",
    ),
    _index("x11_approvals_by_status", "x_approvals_by_status", "approvals (status)"),
    _index(
        "x12_approvals_by_expiry",
        "x_approvals_by_expiry",
        'approvals (status, expires_at COLLATE "C")',
    ),
    _index("x13_approvals_by_action", "x_approvals_by_action", "approvals (action_hash)"),
    _index(
        "x21_approvals_by_creation",
        "x_approvals_by_creation",
        'approvals (created_at COLLATE "C", approval_id)',
    ),
    Migration("x30_holders", _HOLDERS),
    NOTIFICATIONS,
)
