"""What the tests of grants are made of: moments, actions, documents, and rows as a store has them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ctrlrun.action import Action, Principal
from ctrlrun.authority import (
    Authority,
    AuthorityResult,
    DelegationReader,
    DelegationRecord,
    Grant,
    Subject,
)
from ctrlrun.conditions import parse_conditions
from ctrlrun.state import InMemoryStateStore, SQLiteStateStore, UnitStateStore
from tests.lib.sqlite_helpers import new_store

NOW = datetime(2026, 9, 3, 10, 0, tzinfo=UTC)
LATER = datetime(2027, 1, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def dlg(number: int) -> str:
    """The id of a delegation of a test."""
    return f"dlg_{number:032x}"


def grant(grant_id: str = "g", **fields: Any) -> Grant:
    """A grant from short forms: `agent`, `user`, and constraints as a `when:` writes them."""
    agent, user = fields.pop("agent", "bot"), fields.pop("user", None)
    limits = parse_conditions(fields.pop("constraints", {}), where="constraints")
    values = {"actions": ("stripe.refund",), **fields, "constraints": limits}
    return Grant(grant_id, Subject(agent, user), **values)


def parent_grant(grant_id: str = "root", **fields: Any) -> Grant:
    """One that may be handed on."""
    values = {"agent": "head", "actions": ("stripe.**",), "expires_at": LATER, "delegable": True}
    return grant(grant_id, **{**values, **fields})


def authority(*grants: Grant, depth: int = 3) -> Authority:
    return Authority({item.id: item for item in grants}, max_delegation_depth=depth)


def action(
    name: str = "stripe.refund",
    *,
    agent: str = "bot",
    user: str | None = None,
    resource: str | None = None,
    environment: str = "production",
    **arguments: Any,
) -> Action:
    return Action(name, arguments, Principal(agent, user), resource, environment)


def text(**changes: Any) -> str:
    """The stored text of a grant; a change to `...` leaves a key out."""
    document: dict[str, Any] = {
        "actions": ["stripe.refund"],
        "constraints": {},
        "delegable": True,
        "environments": None,
        "expires_at": "2026-12-31T00:00:00+00:00",
        "resources": None,
        "subject": {"agent": "bot", "user": None},
    }
    merged = {**document, **changes}
    return json.dumps({key: value for key, value in merged.items() if value is not ...})


def record(number: int = 1, parent_id: str = "root", **fields: Any) -> DelegationRecord:
    """A row; `grant` changes what its text says."""
    stored = text(**fields.pop("grant", {}))
    made = DelegationRecord(dlg(number), parent_id, 1, stored, "head", None, "api", NOW)
    return replace(made, **fields)


def memory(*records: DelegationRecord) -> InMemoryStateStore:
    store = InMemoryStateStore()
    put(store, records)
    return store


def sqlite(folder: Path, *records: DelegationRecord) -> SQLiteStateStore:
    store = new_store(folder / "state.db", durability="normal")
    put(store, records)
    return store


def put(store: UnitStateStore, records: Iterable[DelegationRecord]) -> None:
    for item in records:
        store.put_delegation(item)


def verdict(
    grants: Authority,
    asked: Action,
    store: DelegationReader | None = None,
    now: datetime = NOW,
) -> AuthorityResult:
    return grants.evaluate(asked, now=now, store=memory() if store is None else store)


class PlainStore:
    """A store of somebody else's: the calls of the protocol and nothing more."""

    def __init__(self, *records: DelegationRecord) -> None:
        self.rows: dict[str, DelegationRecord] = {item.delegation_id: item for item in records}

    def get_delegation(self, delegation_id: str) -> DelegationRecord | None:
        return self.rows.get(delegation_id)

    def delegations_for(self, parent_id: str) -> tuple[DelegationRecord, ...]:
        return tuple(row for row in self.rows.values() if row.parent_id == parent_id)

    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]:
        return tuple(row for row in self.rows.values() if include_revoked or not row.is_revoked)


def facts(result: AuthorityResult) -> Mapping[str, Any]:
    """What a result says beyond its defaults."""
    plain = AuthorityResult(result.passed, result.reason)
    names = ("grant_id", "delegation_id", "depth", "dimension", "missing_parent_id")
    names += ("expired_parent_id", "depth_exceeded", "cycle_at")
    return {
        name: getattr(result, name)
        for name in names
        if getattr(result, name) != getattr(plain, name)
    }
