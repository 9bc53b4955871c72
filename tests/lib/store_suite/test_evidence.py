"""Events and receipts in every store: numbered, chained, and read back as they were stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from ctrlrun.action import Principal
from ctrlrun.receipt import (
    GENESIS_HASH,
    Event,
    EventType,
    Receipt,
    ReceiptResult,
    WouldHave,
    verify_chain,
)
from ctrlrun.state import UnitStateStore
from tests.lib.store_suite.conftest import walk_stores
from tests.lib.store_suite.helpers import START_TIME, FakeClock, event, receipt, refused

# --- events --------------------------------------------------------------------------------------


def test_events_are_numbered_from_one(store: UnitStateStore) -> None:
    stored = [store.append_event(event(event_id=77)) for _ in range(3)]
    assert [item.event_id for item in stored] == [1, 2, 3]
    assert list(store.events()) == stored


@walk_stores("kind", EventType)
def test_every_type_of_event_reads_back(store: UnitStateStore, kind: EventType) -> None:
    stored = store.append_event(
        event(kind, action_id=None, effect_key="café:1", approval_id="apr_1", data={})
    )
    assert store.events() == (stored,)
    assert type(store.events()[0].type) is EventType


def test_a_type_of_a_newer_build_is_kept_as_text(store: UnitStateStore) -> None:
    store.append_event(event("RUN_STARTED"))
    store.append_event(event())
    assert [item.type for item in store.events()] == ["RUN_STARTED", EventType.ACTION_PROPOSED]


@walk_stores(
    ("data", "read"),
    [
        ({"a": (1, 2), "b": {"c": None}}, {"a": [1, 2], "b": {"c": None}}),
        ({1: "x"}, {"1": "x"}),
        ({"text": "café \u2028 \x00 \ud800"}, {"text": "café \u2028 \x00 \ud800"}),
        (MappingProxyType({"z": 1, "a": True}), {"z": 1, "a": True}),
    ],
)
def test_data_reads_back_as_json(
    store: UnitStateStore, data: Mapping[str, Any], read: dict[str, Any]
) -> None:
    store.append_event(event(data=data))
    assert store.events()[0].data == read
    assert list(store.events()[0].data) == list(read)
    assert store.events_page(limit=1).items == store.events()


@walk_stores("value", [{1}, b"x", datetime(2026, 1, 1), float("nan"), object()])
def test_data_without_a_json_form_is_refused(store: UnitStateStore, value: object) -> None:
    refused("IA", lambda: store.append_event(event(data={"value": value})))
    assert store.events() == ()
    assert store.append_event(event()).event_id == 1


@walk_stores("field", ["action_id", "effect_key", "approval_id"])
def test_ids_that_are_no_text_are_refused(store: UnitStateStore, field: str) -> None:
    refused("IA", lambda: store.append_event(event(**{field: "\ud800"})))
    refused("IA", lambda: store.append_event(event(ts=datetime(2026, 1, 1))))
    assert store.events() == ()


def test_stored_data_is_nobodys_object(store: UnitStateStore) -> None:
    mine: dict[str, Any] = {"list": [1]}
    store.append_event(event(data=mine))
    mine["list"].append(2)
    held: Any = store.events()[0].data
    held["list"].append(3)
    assert store.events()[0].data == {"list": [1]}


def test_the_time_of_an_event_keeps_its_microseconds(store: UnitStateStore) -> None:
    elsewhere = START_TIME.astimezone(UTC) + timedelta(microseconds=1)
    store.append_event(event(ts=elsewhere))
    assert store.events()[0].ts == elsewhere


def test_the_json_of_an_event_has_its_keys_in_order(store: UnitStateStore) -> None:
    written = Event(
        EventType.EFFECT_RESERVED,
        "act_00000000000000000000000000000001",
        datetime(2026, 9, 3, 10, 12, 1, tzinfo=UTC),
        {"attempt": 1, "lease_expires_at": "2026-09-03T10:17:01.000Z"},
        "pay:p1",
    )
    store.append_event(event())
    store.append_event(event())
    line = (
        '{"event_id":3,"ts":"2026-09-03T10:12:01.000Z","type":"EFFECT_RESERVED",'
        '"action_id":"act_00000000000000000000000000000001","effect_key":"pay:p1",'
        '"approval_id":null,"data":{"attempt":1,"lease_expires_at":"2026-09-03T10:17:01.000Z"}}'
    )
    assert store.append_event(written).to_json() == line
    assert store.events()[2].to_json() == line


# --- receipts ------------------------------------------------------------------------------------


def test_receipts_are_chained(store: UnitStateStore) -> None:
    assert store.chain_head() == (0, GENESIS_HASH)
    given = {"seq": 99, "prev_hash": "sha256:forged", "hash": "sha256:forged"}
    stored = [store.put_receipt(receipt(number, **given)) for number in (1, 2, 3)]
    assert [item.seq for item in stored] == [1, 2, 3]
    assert stored[0].prev_hash == GENESIS_HASH
    assert [item.prev_hash for item in stored[1:]] == [item.hash for item in stored[:2]]
    assert all(item.chain_hash() == item.hash for item in stored)
    assert store.chain_head() == (3, stored[2].hash)
    assert verify_chain(store).ok


def test_a_receipt_reads_back_but_for_its_microseconds(store: UnitStateStore) -> None:
    written = receipt(
        principal=Principal(
            "café",
            None,
            claims={"team": "zürich", "level": -3, "oncall": False},
            issuer="https://idp",
            expires_at=START_TIME,
        ),
        arguments={"nested": {"list": [1, {"a": None}]}, "☃": "x\u2028\x07"},
        resource="ns:café",
        result=ReceiptResult.OBSERVED,
        execution=ReceiptResult.FAILED,
        would_have=WouldHave(
            {"decision": "deny", "reason": "unknown_action", "blocked_reason": None}
        ),
        error='line1\nline2 "q"',
        approval_id="apr_1",
        approver="cli:local",
        attempt=3,
        policy_version="2026-01",
        controls=("SOX-1", "PCI"),
    )
    stored = store.put_receipt(written)
    (read,) = store.receipts()
    cut = START_TIME.microsecond // 1000 * 1000
    assert read == replace(
        stored,
        started_at=stored.started_at.replace(microsecond=cut),
        finished_at=stored.finished_at.replace(microsecond=cut),
        principal=replace(stored.principal, expires_at=START_TIME.replace(microsecond=cut)),
    )
    assert read.chain_hash() == stored.hash
    assert store.receipts_page(limit=1).items == (read,)


def test_frozen_arguments_are_stored_as_plain_json(store: UnitStateStore) -> None:
    frozen = MappingProxyType({"list": (1, MappingProxyType({"a": "b"}))})
    store.put_receipt(receipt(arguments=frozen))
    assert store.receipts()[0].arguments == {"list": [1, {"a": "b"}]}
    assert verify_chain(store).ok


def test_a_used_id_is_refused_and_the_head_stays(store: UnitStateStore) -> None:
    stored = store.put_receipt(receipt(1))
    head = store.chain_head()
    for same in (receipt(1, error="another"), receipt(1), stored):
        error = refused("IA", lambda same=same: store.put_receipt(same))  # type: ignore[misc]
        assert str(error) == f"receipt {stored.receipt_id} already exists"
    assert store.chain_head() == head
    assert store.put_receipt(receipt(2)).seq == 2
    assert verify_chain(store).ok


@walk_stores(
    "changes",
    [
        {"arguments": {"amount": 1.5}},
        {"error": "\ud800"},
        {"arguments": {"x": {1, 2}}},
        {"finished_at": datetime(2026, 1, 1)},
    ],
)
def test_a_receipt_without_a_canonical_form_leaves_no_gap(
    store: UnitStateStore, changes: dict[str, Any]
) -> None:
    store.put_receipt(receipt(1))
    refused("IA", lambda: store.put_receipt(receipt(2, **changes)))
    assert store.put_receipt(receipt(3)).seq == 2
    assert verify_chain(store).ok


def test_rows_are_what_was_stored(store: UnitStateStore, clock: FakeClock) -> None:
    stored = [store.put_receipt(receipt(number)) for number in (1, 2, 3)]
    rows = store.receipt_rows(limit=2)
    assert [(row.receipt_id, row.seq, row.hash) for row in rows] == [
        (item.receipt_id, item.seq, item.hash) for item in stored[:2]
    ]
    first = stored[0]
    assert rows[0].json == Receipt.from_json(first.to_json()).to_json()
    assert (rows[0].action_id, rows[0].effect_key, rows[0].result, rows[0].prev_hash) == (
        first.action_id,
        first.effect_key,
        "committed",
        GENESIS_HASH,
    )
    assert rows[0].ts == first.finished_at.isoformat()
    rest = store.receipt_rows(after=rows[-1].cursor, limit=2)
    assert [row.seq for row in rest] == [3]
    assert store.receipt_rows(after=rest[-1].cursor, limit=2) == ()
