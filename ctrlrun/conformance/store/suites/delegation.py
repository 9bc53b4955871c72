"""Suite `delegation`: a delegation is written once, and stays revoked."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ctrlrun.conformance.store.bench import Bench, Case
from ctrlrun.conformance.store.checking import refused, require, same, there
from ctrlrun.conformance.store.contest import among_threads
from ctrlrun.conformance.store.samples import HOUR, NOON, sample_delegation
from ctrlrun.errors import InvalidArgument
from ctrlrun.state import DelegationRecord, StateStore

_ID = "dlg_1"
_THREADS = 8


def _of(store: StateStore, delegation_id: str) -> DelegationRecord:
    return there(f"delegation {delegation_id}", store.get_delegation(delegation_id))


def insert_not_upsert(bench: Bench) -> None:
    store = bench.open()
    record = sample_delegation()
    store.put_delegation(record)
    store.revoke_delegation(_ID, by="cli:ada", at=NOON + HOUR)
    before = _of(store, _ID)
    what = "putting a delegation whose id is taken"
    wider = replace(record, grant_json='{"id":"wider"}', depth=9)
    for again in (record, wider):
        refused(what, partial(store.put_delegation, again), InvalidArgument)
        same("revoked_at after that", _of(store, _ID).revoked_at, before.revoked_at)
        same("the delegation after that", _of(store, _ID), before)


def revoke_atomic_idempotent(bench: Bench) -> None:
    store = bench.open()
    for delegation_id in (_ID, "dlg_2"):
        store.put_delegation(sample_delegation(delegation_id))
    answers: dict[str, bool] = {}

    def revoke(name: str) -> None:
        answers[name] = store.revoke_delegation(_ID, by=name, at=NOON + HOUR)

    names = [f"cli:{number}" for number in range(_THREADS)]
    for outcome in among_threads({name: partial(revoke, name) for name in names}):
        require(outcome.won, f"revoking from a thread raised {outcome.shown}")
    first = [name for name, answer in answers.items() if answer is True]
    require(len(first) == 1, f"{len(first)} of {_THREADS} threads revoked one delegation")
    revoked = _of(store, _ID)
    same("revoked_by", revoked.revoked_by, first[0])
    same("revoked_at", revoked.revoked_at, NOON + HOUR)
    again = store.revoke_delegation(_ID, by="cli:late", at=NOON + 2 * HOUR)
    same("what revoking again returns", again, False)
    same("the delegation after that", _of(store, _ID), revoked)
    unknown = partial(store.revoke_delegation, "dlg_none", by="cli:ada", at=NOON)
    refused("revoking an unknown delegation", unknown, InvalidArgument)
    same("those that stand", [each.delegation_id for each in store.delegations()], ["dlg_2"])
    everything = [each.delegation_id for each in store.delegations(include_revoked=True)]
    same("all delegations", everything, [_ID, "dlg_2"])
    beneath = [each.delegation_id for each in store.delegations_for("grant-head")]
    same("those of one parent", beneath, [_ID, "dlg_2"])


def grant_json_round_trip(bench: Bench) -> None:
    store = bench.open()
    for record in (
        sample_delegation(),
        sample_delegation("dlg_2", _ID, depth=2, created_by_user=None, created_via="cli"),
    ):
        store.put_delegation(record)
        found = _of(store, record.delegation_id)
        same("grant_json, byte for byte", found.grant_json, record.grant_json)
        same("the delegation", found, record)
        require(found.created_at.utcoffset() is not None, "created_at lost its offset from UTC")
    same("those beneath a delegation", len(store.delegations_for(_ID)), 1)


CASES = (
    Case("insert-not-upsert", "an id is written once", insert_not_upsert),
    Case("revoke-atomic-idempotent", "it is revoked once, and stays so", revoke_atomic_idempotent),
    Case("grant-json-round-trip", "the grant keeps its text", grant_json_round_trip),
)
