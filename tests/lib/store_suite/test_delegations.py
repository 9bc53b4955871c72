"""Delegations in every store: kept byte for byte, revoked once."""

from __future__ import annotations

from dataclasses import replace

from ctrlrun.state import DelegationRecord, UnitStateStore
from tests.lib.store_suite.helpers import FakeClock, refused

GRANT = '{"agent":"café", "actions" : ["stripe.*"],\t"constraints":{}}'


def delegation(clock: FakeClock, name: str = "dlg_1", **changes: object) -> DelegationRecord:
    made = DelegationRecord(name, "head", 1, GRANT, "finance", "dana", "api", clock())
    return replace(made, **changes)  # type: ignore[arg-type]


def test_a_delegation_reads_back_byte_for_byte(store: UnitStateStore, clock: FakeClock) -> None:
    record = delegation(clock, created_by_user=None)
    store.put_delegation(record)
    assert store.get_delegation("dlg_1") == record
    assert not record.is_revoked
    assert store.get_delegation("nobody") is None


def test_a_used_id_is_refused_and_nothing_is_overwritten(
    store: UnitStateStore, clock: FakeClock
) -> None:
    store.put_delegation(delegation(clock))
    store.revoke_delegation("dlg_1", by="cli:local", at=clock())
    before = store.get_delegation("dlg_1")
    refused("IA", lambda: store.put_delegation(delegation(clock, grant_json="{}")))
    assert store.get_delegation("dlg_1") == before


def test_a_revocation_stands_as_it_was_first_made(store: UnitStateStore, clock: FakeClock) -> None:
    store.put_delegation(delegation(clock))
    first = clock.advance()
    assert store.revoke_delegation("dlg_1", by="tui:alice", at=first) is True
    assert store.revoke_delegation("dlg_1", by="tui:bob", at=clock.advance()) is False
    record = store.get_delegation("dlg_1")
    assert record == delegation(FakeClock(), revoked_at=first, revoked_by="tui:alice")
    assert record is not None and record.is_revoked
    refused("IA", lambda: store.revoke_delegation("nobody", by="tui:bob", at=clock()))


def test_delegations_are_listed_as_they_came(
    backend: str, store: UnitStateStore, clock: FakeClock
) -> None:
    for name, parent in [("dlg_b", "head"), ("dlg_a", "head"), ("dlg_c", "dlg_a")]:
        # Postgres lists by the times, so they must not run backwards there.
        clock.advance(clock.now.resolution * (1 if backend == "postgres" else -1))
        store.put_delegation(delegation(clock, name, parent_id=parent))
    store.revoke_delegation("dlg_a", by="cli:local", at=clock())

    def names(records: tuple[DelegationRecord, ...]) -> list[str]:
        return [record.delegation_id for record in records]

    assert names(store.delegations()) == ["dlg_b", "dlg_c"]
    assert names(store.delegations(include_revoked=True)) == ["dlg_b", "dlg_a", "dlg_c"]
    assert names(store.delegations_for("head")) == ["dlg_b", "dlg_a"]
    assert store.delegations_for("nobody") == ()
