"""What Postgres's SQL spells in its own way: the fragments that the relational store leaves open."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from ctrlrun.effect import escape_surrogates
from ctrlrun.state.dialect import Filter, Order
from ctrlrun.state.postgres_schema import HOLDERS_TABLE
from ctrlrun.state.schema import FORMAT_TABLES

_BY_BYTES = ' COLLATE "C"'
_STORED = MappingProxyType(
    {
        "approvals": Order(f"created_at{_BY_BYTES}", "approval_id"),
        "delegations": Order(f"created_at{_BY_BYTES}", "delegation_id"),
        "effects": Order(f"created_at{_BY_BYTES}", "effect_key"),
        "receipts": Order("seq", "receipt_id"),
    }
)
_JSON_CHECKED_SINCE = 160000  # server version; before it nothing asks whether a text is JSON

_PATHS = (
    "decision",
    "would_have,blocked_reason",
    "result",
    "execution",
    "would_have,decision",
    "action",
    "principal,agent",
    "decision_reason",
    "would_have,reason",
)
_EXTRACTED = ", ".join(f"json::jsonb #> '{{{path}}}'" for path in _PATHS)
_FACTS = (
    "CASE WHEN pg_input_is_valid(json, 'jsonb') THEN "
    f"jsonb_build_array({_EXTRACTED})::text "
    "|| COALESCE(substr(json::jsonb ->> 'policy_hash', 1, 23), '') || '@' END"
)
_MOMENT = (
    r"'^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3])(:[0-5][0-9]){2}"
    r"([.][0-9]{1,6}|)[+]00:00$'"
)

_TABLES = "|".join(sorted({*FORMAT_TABLES, HOLDERS_TABLE}))
_NAMED = re.compile(rf"\b(FROM|INTO|UPDATE|JOIN) ({_TABLES})\b")


@lru_cache(maxsize=2_000)
def spelled(sql: str, schema: str) -> str:
    """A statement of the relational store in Postgres's spelling, its tables in `schema`."""
    named = _NAMED.sub(rf'\1 "{schema}".\2', sql)
    parts = named.split("?")
    numbered = [f"{part}${number}" for number, part in enumerate(parts[:-1], start=1)]
    return "".join(numbered) + parts[-1]


@dataclass(frozen=True, slots=True)
class PostgresDialect:
    """The SQL fragments of Postgres: it locks rows, and orders text as the database was told to."""

    server_version: int
    for_update: str = " FOR UPDATE"
    byte_order: str = _BY_BYTES
    approval_id: str = "json::jsonb ->> 'approval_id'"
    is_observed: str = "json::jsonb ->> 'result' = 'observed'"
    tally_index: str = ""
    tally_source: str = "receipts"
    whole: str = " OFFSET 0"
    first_tie: str = ""
    last_tie: str = "\U0010ffff"

    @property
    def stored(self) -> Mapping[str, Order]:
        return _STORED

    @property
    def tally_facts(self) -> str:
        # An old server reads none by itself: then each document is read singly.
        return _FACTS if self.server_version >= _JSON_CHECKED_SINCE else "NULL::text"

    def moving_head(self, put: str) -> str | None:
        return (
            f"WITH put AS ({put} ON CONFLICT (receipt_id) DO NOTHING RETURNING seq, hash) "
            "UPDATE receipt_chain SET seq = put.seq, hash = put.hash FROM put WHERE id = 1"
        )

    def storable(self, text: str) -> str:
        return escape_surrogates(text).replace("\0", "\\u0000")

    def as_bytes(self, expression: str) -> str:
        return f"convert_to({expression}, 'UTF8')"

    def seconds_between(self, start: str, end: str) -> str:
        seconds = f"EXTRACT(EPOCH FROM ({end}::timestamptz - {start}::timestamptz))"
        return f"CASE WHEN {start} ~ {_MOMENT} AND {end} ~ {_MOMENT} THEN {seconds} END"

    def has_control(self, control: str) -> Filter:
        if self.server_version < _JSON_CHECKED_SINCE:
            # Every program of the format writes the list last, and flat.
            listed = f'"controls": ?[[][^]]*{re.escape(json.dumps(control, ensure_ascii=False))}'
            return Filter("COALESCE(json ~ ?, TRUE)", (listed,))
        # A NUL in some argument is JSON, but not for this database: it stands for nothing here.
        document = r"replace(json, '\u0000', '\ufffd')"
        named = f"jsonb_exists({document}::jsonb -> 'controls', ?)"
        return Filter(
            f"CASE WHEN pg_input_is_valid({document}, 'jsonb') THEN COALESCE({named}, FALSE) "
            "ELSE TRUE END",
            (control,),
        )
