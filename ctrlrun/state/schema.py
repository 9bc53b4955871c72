"""Which format a store is in: the ids of migrations and extensions, and what to make of those found.

Migrations are the persisted format, shared with every program of format 0.6.1; extensions are our
own indexes, recorded in a ledger of their own, without which everything works, slower. The
statements belong to a dialect. Rules: docs/format.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ctrlrun._version import __version__
from ctrlrun.errors import SchemaMismatch


class Classification(StrEnum):
    """What a database is, by its tables and its recorded migrations."""

    EMPTY = "empty"
    BASELINE = "baseline"
    FOREIGN = "foreign"
    UP_TO_DATE = "up_to_date"
    FORWARD = "forward"
    GAPPED = "gapped"
    BACKWARD = "backward"
    DIVERGENT = "divergent"


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the persisted format, or one extension: its id, and its statements."""

    id: str
    statements: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    """The columns (`table.column`) without which an extension is left out."""


MIGRATION_IDS = (
    "0001_baseline",
    "0002_receipt_chain",
    "0003_resolved_by",
    "0004_policy_provenance",
)
HEAD = MIGRATION_IDS[-1]

BASELINE_COLUMNS = ("effect_key", "state", "action_id", "attempt")
"""What `effects` must have for a database without a record of migrations to be taken for ours."""

FORMAT_TABLES = frozenset(
    {
        "approvals",
        "continuations",
        "delegations",
        "effects",
        "events",
        "receipt_chain",
        "receipts",
    }
)
_LEDGER_COLUMNS = frozenset({"migration_id", "applied_at", "ctrlrun_version"})


def ctrlrun_version() -> str:
    """The version of this build, as it is recorded beside what it applies."""
    return __version__


def classify(applied: Iterable[str]) -> Classification:
    """What a set of recorded migration ids means for this build."""
    recorded = frozenset(applied)
    known = frozenset(MIGRATION_IDS)
    missing, unknown = known - recorded, recorded - known
    if unknown:
        return Classification.DIVERGENT if missing else Classification.BACKWARD
    if not missing:
        return Classification.UP_TO_DATE
    prefix = frozenset(MIGRATION_IDS[: len(recorded)])
    return Classification.FORWARD if recorded == prefix else Classification.GAPPED


@dataclass(frozen=True, slots=True)
class Found:
    """What a database holds: the columns of its tables, and the migrations it records."""

    columns: Mapping[str, Sequence[str]]
    recorded: Mapping[str, str]
    """Migration id -> the version that applied it."""

    def suits(self, extension: Migration) -> bool:
        """Whether the database has every column that an extension is about."""
        needed = (name.partition(".") for name in extension.needs)
        return all(column in self.columns.get(table, ()) for table, _, column in needed)

    @property
    def has_ledger(self) -> bool:
        """Whether there is a table of migrations, and it is one of ours."""
        return frozenset(self.columns.get("schema_version", ())) >= _LEDGER_COLUMNS


def judge(found: Found, where: str) -> Classification:
    """What the database is; SchemaMismatch when this build must not touch it."""
    if found.has_ledger:
        kind = classify(found.recorded)
        if kind in (Classification.GAPPED, Classification.BACKWARD, Classification.DIVERGENT):
            raise _mismatch(_reason(kind, found), found, where)
        if kind is Classification.UP_TO_DATE:
            lost = sorted(FORMAT_TABLES - frozenset(found.columns))
            if lost:
                raise _mismatch(f"its table {', '.join(lost)} is gone", found, where)
        return kind
    if not found.columns:
        return Classification.EMPTY
    if "effects" not in found.columns or "schema_version" in found.columns:
        tables = ", ".join(sorted(found.columns))
        raise _mismatch(
            f"it is another application's database, with the tables {tables}", found, where
        )
    lacking = [name for name in BASELINE_COLUMNS if name not in found.columns["effects"]]
    if lacking:
        raise _mismatch(f"its table effects has no column {', '.join(lacking)}", found, where)
    return Classification.BASELINE


def require_ready(found: Found, where: str) -> None:
    """SchemaMismatch unless the database is at this build's head."""
    kind = judge(found, where)
    if kind is not Classification.UP_TO_DATE:
        missing = ", ".join(pending(found.recorded))
        why = "it holds no tables yet" if kind is Classification.EMPTY else "it is behind"
        raise _mismatch(
            f"{why}: {missing} not applied; a process that writes applies them", found, where
        )


def pending(recorded: Iterable[str]) -> tuple[str, ...]:
    """The migrations that are still to be applied, in order."""
    applied = frozenset(recorded)
    return tuple(name for name in MIGRATION_IDS if name not in applied)


def failed(step: str, error: BaseException, recorded: Iterable[str], where: str) -> SchemaMismatch:
    """The error about a migration or extension that failed and left the store as it was."""
    return SchemaMismatch(
        f"{where}: {step} failed, the store is unchanged by it: {error}",
        applied=tuple(sorted(recorded)),
        known=MIGRATION_IDS,
        running=ctrlrun_version(),
    )


def _reason(kind: Classification, found: Found) -> str:
    missing = pending(found.recorded)
    unknown = sorted(frozenset(found.recorded) - frozenset(MIGRATION_IDS))
    newer = ", ".join(f"{name} (written by ctrlrun {found.recorded[name]})" for name in unknown)
    if kind is Classification.GAPPED:
        return f"{', '.join(missing[:-1] or missing)} is missing among the migrations it records"
    if kind is Classification.BACKWARD:
        return f"it has {newer}, which this build does not know; upgrade ctrlrun"
    return f"it has {newer}, which this build does not know, and lacks {', '.join(missing)}"


def _mismatch(reason: str, found: Found, where: str) -> SchemaMismatch:
    running = ctrlrun_version()
    return SchemaMismatch(
        f"{where} cannot be opened: {reason} (this is ctrlrun {running})",
        applied=tuple(sorted(found.recorded)),
        known=MIGRATION_IDS,
        running=running,
    )
