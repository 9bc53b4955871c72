"""The evidence documents: keys, order, and what is selected."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest

from ctrlrun.errors import DamagedRow
from ctrlrun.operator import approve, request_document, resolve
from ctrlrun.reporting import INSPECTION_SCHEMA, inspection_for
from tests.lib.operator.helpers import Scene, SingleCalls, sqlite_store

EFFECT_KEYS = (
    "effect_key state action_id attempt created_at updated_at lease_expires_at error resolved_by "
    "holder"
)
APPROVAL_KEYS = (
    "approval_id action_hash status approver created_at expires_at granted_at consumed_at"
)
EVENT_KEYS = "event_id ts type action_id effect_key approval_id data"


def found(scene: Scene, action_id: str) -> dict[str, Any]:
    document = inspection_for(scene.store, action_id)
    assert document is not None
    return document


def test_the_document_has_its_keys_in_order(scene: Scene) -> None:
    asked, ran = scene.refund(200000), scene.refund(200000)
    request_id = scene.ask(asked)
    approve(scene.store, request_id, "cli:local", clock=scene.clock)
    receipt = scene.call(ran, approval=request_id)
    document = found(scene, ran.action_id)
    assert list(document) == ["schema", "action_id", "receipt", "effect", "approvals", "events"]
    assert (document["schema"], document["action_id"]) == (INSPECTION_SCHEMA, ran.action_id)
    assert document["receipt"] == receipt.to_dict()  # type: ignore[union-attr]
    assert list(document["effect"]) == EFFECT_KEYS.split()
    assert [list(item) for item in document["approvals"]] == [APPROVAL_KEYS.split()]
    assert all(list(event) == EVENT_KEYS.split() for event in document["events"])
    assert json.loads(json.dumps(document)) == document
    assert document["approvals"][0]["status"] == "consumed"
    assert document["approvals"][0]["consumed_at"] == "2026-11-29T03:00:00.000Z"


def test_nothing_is_found_by_the_id_of_an_effect_record_alone(scene: Scene) -> None:
    scene.store.reserve_effect("refund:txn_1", "act_lonely")
    assert inspection_for(scene.store, "act_lonely") is None
    assert inspection_for(scene.store, "act_") is None


def test_a_proposal_that_waits_shows_every_request_of_its_action(scene: Scene) -> None:
    first, second = scene.refund(200000), scene.refund(200000)
    ids = [scene.ask(first), scene.ask(second)]
    document = found(scene, first.action_id)
    assert document["receipt"] is document["effect"] is None
    assert [item["approval_id"] for item in document["approvals"]] == ids
    assert [event["type"] for event in document["events"]] == [
        "ACTION_PROPOSED",
        "POLICY_EVALUATED",
        "APPROVAL_REQUESTED",
    ]
    assert document["approvals"][0]["granted_at"] is None


def test_a_blocked_retry_shows_the_record_of_its_rival_as_it_stands_now(scene: Scene) -> None:
    holder, retry = scene.refund(100), scene.refund(100)
    scene.lose_reply(holder)
    scene.call(retry)
    resolve(scene.store, "refund:txn_1", "committed", "cli:local", clock=scene.clock)
    document = found(scene, retry.action_id)
    assert document["receipt"]["result"] == "blocked"
    assert document["effect"]["action_id"] == holder.action_id
    assert document["effect"]["state"] == "committed"
    assert document["effect"]["lease_expires_at"] is None


def test_an_action_that_ran_twice_shows_its_first_receipt_and_all_events(scene: Scene) -> None:
    action = scene.refund(100)
    scene.call(action)
    scene.call(action)
    document = found(scene, action.action_id)
    assert document["receipt"]["result"] == "committed"
    assert [event["type"] for event in document["events"]].count("ACTION_PROPOSED") == 2


def test_an_execution_without_outcome_shows_the_key_of_its_events(scene: Scene) -> None:
    action = scene.refund(100)
    scene.die(action)
    document = found(scene, action.action_id)
    assert document["receipt"] is None
    assert document["effect"]["state"] == "executing"
    assert document["effect"]["lease_expires_at"] == "2026-11-29T03:05:00.000Z"


def test_a_long_history_is_whole_and_in_order(scene: Scene) -> None:
    action = scene.refund(100)
    for _ in range(120):
        scene.call(action)
    ids = [event["event_id"] for event in found(scene, action.action_id)["events"]]
    assert len(ids) > 350
    assert ids == sorted(ids)


def test_a_store_of_single_calls_gives_the_same_document(scene: Scene) -> None:
    action = scene.refund(200000)
    scene.ask(action)
    scene.ask(scene.refund(200000))
    scene.lose_reply(scene.refund(100, "txn_2"))
    single: Any = SingleCalls(scene.store)
    assert inspection_for(single, action.action_id) == inspection_for(scene.store, action.action_id)


def test_a_request_in_a_list_says_what_was_asked(scene: Scene) -> None:
    scene.ask(scene.refund(200000))
    record = scene.store.approvals_page(limit=1).items[0]
    document = request_document(record)
    assert list(document) == [*APPROVAL_KEYS.split(), "action", "agent", "resource", "arguments"]
    assert document["arguments"] == {"amount": 200000, "currency": "EUR", "payment_id": "txn_1"}
    assert (document["action"], document["agent"]) == ("stripe.refund", "refund-agent")


def test_a_damaged_row_is_named(tmp_path: Any) -> None:
    from tests.lib.operator.helpers import Clock

    clock = Clock()
    scene = Scene(sqlite_store(clock, tmp_path), clock)
    action = scene.refund(100)
    scene.call(action)
    with sqlite3.connect(tmp_path / "state.db") as raw:
        raw.execute("UPDATE events SET data_json = '{' WHERE event_id = 3")
    raw.close()
    with pytest.raises(DamagedRow) as refused:
        inspection_for(scene.store, action.action_id)
    assert (refused.value.table, refused.value.row_id) == ("events", "3")
    scene.store.close()
