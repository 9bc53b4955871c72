"""What the SQL of a SQLite store spells in its own way."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ctrlrun.effect import escape_surrogates
from ctrlrun.state.dialect import Filter, Order
from ctrlrun.state.sqlite_tally import FACTS, TALLY_INDEX

_PLAIN_ID = re.compile(r"[A-Za-z0-9 ._:+-]+")

_STORED = MappingProxyType(
    {
        "approvals": Order(None, "rowid"),
        "delegations": Order(None, "rowid"),
        "effects": Order("created_at", "rowid"),
        "receipts": Order("seq", "rowid"),
    }
)


@dataclass(frozen=True, slots=True)
class SQLiteDialect:
    """The SQL fragments of SQLite: its write lock is the whole database's, its order is by bytes."""

    for_update: str = ""
    byte_order: str = ""
    tally_facts: str = FACTS
    approval_id: str = "json_extract(json, '$.approval_id')"
    is_observed: str = "json_extract(json, '$.result') = 'observed'"
    tally_index: str = TALLY_INDEX
    tally_source: str = f"receipts INDEXED BY {TALLY_INDEX}"
    whole: str = " LIMIT -1"
    first_tie: int = 0
    last_tie: int = 2**63 - 1

    def moving_head(self, put: str) -> str | None:
        return None

    def storable(self, text: str) -> str:
        return escape_surrogates(text)

    def as_bytes(self, expression: str) -> str:
        return f"CAST({expression} AS BLOB)"

    def seconds_between(self, start: str, end: str) -> str:
        return f"(julianday({end}) - julianday({start})) * 86400.0"

    @property
    def stored(self) -> Mapping[str, Order]:
        return _STORED

    def has_control(self, control: str) -> Filter:
        named = "EXISTS (SELECT 1 FROM json_each(receipts.json, '$.controls') WHERE value = ?)"
        values: tuple[Any, ...] = (control,)
        if _PLAIN_ID.fullmatch(control):
            # Such an id has one spelling in JSON: most documents need not be parsed to be ruled out.
            named = f"instr(json, ?) > 0 AND {named}"
            values = (json.dumps(control), control)
        return Filter(f"CASE WHEN json_valid(json) THEN ({named}) ELSE 1 END", values)
