"""Format 0.6.1: what its programs wrote is all here, what we write is theirs to read, both at once."""

from __future__ import annotations

import json
import re
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.approval import ApprovalRequest, ApprovalStatus
from ctrlrun.effect import EffectState
from ctrlrun.receipt import Event, EventType, Receipt
from ctrlrun.receipt.chain import verify_chain
from ctrlrun.state import DelegationRecord, SQLiteReader, SQLiteStateStore
from tests.lib import sqlite_helpers as old
from tests.lib.store_suite.helpers import FakeClock, receipt

GRANT = '{ "agent": "support",\t"actions": ["stripe.refund"],  "note": "caf\\u00e9 é" }'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.db"


def fill_baseline(path: Path) -> None:
    """One row of each kind that the first format already had."""
    old.fill(
        path,
        "effects",
        effect_key="refund:1",
        state="committed",
        action_id="act_1",
        attempt=2,
        result_json='{"id":"ré","at":[1,NaN]}',
        created_at="2026-06-01T09:00:00+00:00",
        updated_at="2026-06-01T09:00:01.250000+00:00",
    )
    old.fill(
        path,
        "effects",
        effect_key="refund:2",
        state="executing",
        action_id="act_2",
        attempt=1,
        lease_expires_at="2026-06-01T09:05:00.000001+00:00",
        created_at="2026-06-01T09:00:00+00:00",
        updated_at="2026-06-01T09:00:00+00:00",
    )
    old.fill(
        path,
        "approvals",
        approval_id="apr_1",
        action_hash=old.ACTION_HASH,
        status="granted",
        action_json=old.ACTION_JSON,
        approver="cli:local",
        created_at="2026-06-01T09:00:00+00:00",
        granted_at="2026-06-01T09:01:00+00:00",
        expires_at="2026-06-01T09:15:00+00:00",
    )
    old.fill(
        path,
        "continuations",
        effect_key="refund:2",
        action_id="act_2",
        action_json=old.ACTION_JSON.replace("act_1", "act_2"),
        continuation="tok-é",
        rounds=2,
        updated_at="2026-06-01T09:00:00+00:00",
    )
    old.fill(
        path,
        "events",
        ts="2026-06-01T09:00:00.123456+00:00",
        type="ACTION_PROPOSED",
        action_id="act_1",
        effect_key="refund:1",
        data_json='{"action_hash":"sha256:é"}',
    )
    old.fill(
        path,
        "delegations",
        delegation_id="dlg_1",
        parent_id="head",
        depth=1,
        grant_json=GRANT,
        created_by_agent="head",
        created_by_user="dana",
        created_via="cli",
        created_at="2026-06-01T09:00:00+00:00",
    )
    document = old.receipt_document(0)
    for name in ("execution", "would_have", "seq", "prev_hash", "policy_hash", "policy_version"):
        del document[name]
    del document["controls"]
    document |= {"schema": "ctrlrun.receipt/v1", "principal": {"agent": "bot", "user": None}}
    old.fill(
        path,
        "receipts",
        receipt_id="ctr_0",
        action_id="act_0",
        effect_key="ns:café",
        result="committed",
        json=json.dumps(document, ensure_ascii=False, separators=(",", ":")),
        ts="2026-01-01T12:00:01.999000+00:00",
    )


@pytest.mark.parametrize(
    ("steps", "ledger"), [(1, False), (1, True), (2, True), (3, True), (4, True)]
)
def test_nothing_is_lost_from_any_earlier_prefix(steps: int, ledger: bool, path: Path) -> None:
    old.make_format(path, steps, ledger=ledger)
    fill_baseline(path)
    if steps >= 2:
        old.chain_receipt(path, 1)
        old.chain_receipt(path, 2, error='line1\nline2 "q" \x07')
    clock = FakeClock(datetime(2026, 6, 1, 9, 3, tzinfo=UTC))
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        done, running = store.list_effects()
        assert (done.state, done.attempt, done.resolved_by) == (EffectState.COMMITTED, 2, None)
        assert done.updated_at == datetime(2026, 6, 1, 9, 0, 1, 250000, tzinfo=UTC)
        assert done.result["id"] == "ré"
        assert running.lease_expires_at == datetime(2026, 6, 1, 9, 5, 0, 1, tzinfo=UTC)

        record = store.get_approval("apr_1")
        assert record is not None
        assert record.request.action.action_hash == record.action_hash == old.ACTION_HASH
        assert record.status is ApprovalStatus.GRANTED
        assert record.policy_hash_at_approval is None
        assert store.consume_approval("apr_1", old.ACTION_HASH).approver == "cli:local"

        assert store.continuation_rounds("refund:2") == 2
        held = store.take_continuation("tok-é")
        assert (held.effect_key, held.action.action_id, held.rounds) == ("refund:2", "act_2", 2)

        (event,) = store.events()
        assert event.ts == datetime(2026, 6, 1, 9, 0, 0, 123456, tzinfo=UTC)
        assert event.data == {"action_hash": "sha256:é"}

        delegation = store.get_delegation("dlg_1")
        assert delegation is not None
        assert delegation.grant_json == GRANT

        found = store.receipts()
        assert [item.receipt_id for item in found] == ["ctr_0", "ctr_1", "ctr_2"][: len(found)]
        assert (found[0].seq, found[0].hash, found[0].controls) == (None, None, ())
        new = store.put_receipt(receipt(9))
        report = verify_chain(store)
        assert (report.chained, report.unchained) == (2 * (steps >= 2) + 1, 1)
        assert [item.name for item in report.breaks] == ["unchained"]
        assert (report.head_seq, report.head_hash) == (new.seq, new.hash)


def test_the_golden_chain_is_stored_and_hashed_as_it_always_was(path: Path) -> None:
    """Three receipts whose hashes are fixed for every implementation."""
    first = old.receipt_document(
        1,
        action_id="act_1",
        principal={
            "agent": "bot",
            "user": "ada",
            "claims": {"team": "infra", "level": 3, "oncall": True},
            "issuer": "https://idp",
            "expires_at": "2026-01-01T16:00:00.000Z",
        },
        arguments={"name": "café", "labels": ["z", "a"], "opts": {"b": None, "a": -1}},
        result="blocked",
        error='line1\nline2 "q" \x07',
    )
    second = first | {
        "receipt_id": "ctr_2",
        "approval_id": "apr_3",
        "attempt": 3,
        "result": "committed",
        "error": None,
    }
    third = first | {
        "receipt_id": "ctr_3",
        "decision": "deny",
        "decision_reason": "unknown_action",
        "result": "observed",
        "execution": "failed",
        "would_have": {
            "decision": "deny",
            "reason": "unknown_action",
            "blocked_reason": "unknown_action",
        },
        "policy_hash": None,
        "policy_version": None,
        "controls": [],
    }
    with closing(SQLiteStateStore(path)) as store:
        hashes = [
            store.put_receipt(Receipt.from_dict(item)).hash for item in (first, second, third)
        ]
    assert hashes == [
        "sha256:36ca3223db0af4fd3df26ebab59cf4f2a6b5f20a4871705ddbc5e3b55bc3c2b7",
        "sha256:d8636b169dfca1799d6361950065979f080b59a872ae652404f1b661654b7e88",
        "sha256:21c8b9c1f22d2d5ea38e0e78fe4f406c5d61a94b258beff7763d5281e5aaaa57",
    ]
    rows = old.select(path, "SELECT json, ts, seq, prev_hash, hash FROM receipts ORDER BY seq")
    place = {"seq": 1, "prev_hash": old.GENESIS}
    assert rows[0][0] == json.dumps(first | place, ensure_ascii=False, separators=(",", ":"))
    assert rows[0][1:] == ("2026-01-01T12:00:01.999000+00:00", 1, old.GENESIS, hashes[0])
    assert old.select(path, "SELECT * FROM receipt_chain") == [(1, 3, hashes[2])]


def test_rows_are_written_as_the_format_says(path: Path) -> None:
    whole = datetime(2026, 9, 3, 10, 12, 1, tzinfo=UTC)
    clock = FakeClock(whole)
    principal = Principal(
        "bot",
        "ädä",
        claims={"team": "x", "level": 3},
        issuer="https://idp",
        expires_at=datetime(2026, 9, 3, 20, tzinfo=timezone(timedelta(hours=2))),
    )
    action = Action("pay", {"b": 1, "a": "é"}, principal, "r:1", "staging", "act_1")
    request = ApprovalRequest(
        "apr_1", action.action_hash, action, whole, whole + timedelta(minutes=15), "sha256:pp"
    )
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        store.put_approval_request(request)
        store.reserve_effect("k", "act_1", timedelta(seconds=90))
        clock.advance(timedelta(microseconds=120))
        store.begin_execution("k", "act_1")
        store.hold_continuation(action, "k", "tok", whole + timedelta(minutes=9))
        store.append_event(
            Event(EventType.EXECUTION_STARTED, "act_1", clock(), {"é": [1, None]}, "k", "apr_1")
        )
        store.put_delegation(
            DelegationRecord("dlg_1", "head", 1, GRANT, "head", None, "api", clock())
        )

    def one(table: str) -> dict[str, Any]:
        with closing(old.plain(path)) as db:
            cursor = db.execute(f"SELECT * FROM {table}")
            (row,) = cursor.fetchall()
            return dict(zip([column[0] for column in cursor.description], row, strict=True))

    action_json = (
        '{"action_id":"act_1","name":"pay","arguments":{"a":"é","b":1},"principal":{"agent":"bot",'
        '"user":"ädä","claims":{"team":"x","level":3},"issuer":"https://idp",'
        '"expires_at":"2026-09-03T20:00:00+02:00"},"resource":"r:1","environment":"staging"}'
    )
    assert one("effects") == {
        "effect_key": "k",
        "state": "executing",
        "action_id": "act_1",
        "attempt": 1,
        "lease_expires_at": "2026-09-03T10:21:01+00:00",
        "result_json": None,
        "error": None,
        "created_at": "2026-09-03T10:12:01+00:00",
        "updated_at": "2026-09-03T10:12:01.000120+00:00",
        "resolved_by": None,
    }
    assert one("approvals") == {
        "approval_id": "apr_1",
        "action_hash": action.action_hash,
        "status": "pending",
        "action_json": action_json,
        "approver": None,
        "created_at": "2026-09-03T10:12:01+00:00",
        "granted_at": None,
        "expires_at": "2026-09-03T10:27:01+00:00",
        "consumed_at": None,
        "policy_hash_at_approval": "sha256:pp",
    }
    assert one("continuations") == {
        "effect_key": "k",
        "action_id": "act_1",
        "action_json": action_json,
        "continuation": "tok",
        "rounds": 1,
        "updated_at": "2026-09-03T10:12:01.000120+00:00",
    }
    assert one("events") == {
        "event_id": 1,
        "ts": "2026-09-03T10:12:01.000120+00:00",
        "type": "EXECUTION_STARTED",
        "action_id": "act_1",
        "effect_key": "k",
        "approval_id": "apr_1",
        "data_json": '{"é":[1,null]}',
    }
    assert one("delegations")["grant_json"] == GRANT
    assert one("delegations")["created_at"] == "2026-09-03T10:12:01.000120+00:00"


def test_times_in_columns_never_depend_on_the_clocks_zone(path: Path) -> None:
    zone = timezone(timedelta(hours=-7))
    clock = FakeClock(datetime(2026, 9, 3, 3, 0, tzinfo=zone))
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        store.reserve_effect("k", "a")
    times = old.select(path, "SELECT created_at, lease_expires_at FROM effects")
    assert times == [("2026-09-03T10:00:00+00:00", "2026-09-03T10:05:00+00:00")]


@pytest.mark.parametrize(
    "missing", [["claims"], ["issuer", "expires_at"], ["claims", "issuer", "expires_at"]]
)
def test_an_action_of_older_rows_lacks_what_they_did_not_have(
    missing: list[str], path: Path
) -> None:
    old.make_format(path)
    document = json.loads(old.ACTION_JSON)
    for name in missing:
        del document["principal"][name]
    old.fill(
        path,
        "approvals",
        approval_id="apr_1",
        action_hash=old.ACTION_HASH,
        status="pending",
        action_json=json.dumps(document, sort_keys=True),  # as found: spaced, sorted, escaped
        created_at=old.STAMP,
        expires_at="2026-06-01T09:15:00+00:00",
    )
    with closing(SQLiteReader(path)) as reader:
        record = reader.get_approval("apr_1")
        assert record is not None
        principal = record.request.action.principal
        assert (dict(principal.claims), principal.issuer, principal.expires_at) == ({}, None, None)
        assert record.request.action.action_hash == old.ACTION_HASH


# --- side by side --------------------------------------------------------------------------------


def test_programs_of_the_format_and_ours_work_on_one_store(path: Path) -> None:
    """Neither notices the other: one chain, one log, one set of reservations."""
    old.make_format(path)
    clock = FakeClock()
    with (
        closing(SQLiteStateStore(path, clock=clock)) as store,
        closing(SQLiteReader(path)) as reader,
    ):
        for number in range(1, 9, 2):
            old.chain_receipt(path, number)
            assert store.put_receipt(receipt(number + 1)).seq == number + 1
        assert verify_chain(store).ok
        assert verify_chain(reader).verified == 8

        old.fill(path, "events", ts=old.STAMP, type="ACTION_PROPOSED", data_json="{}")
        assert store.append_event(old.event()).event_id == 2
        old.fill(path, "events", ts=old.STAMP, type="NEWER_THING", data_json='{"x":1}')
        assert [str(event.type) for event in reader.events()][1:] == [
            "ACTION_PROPOSED",
            "NEWER_THING",
        ]

        # Their reservation of a failed effect, over ours: a retry of theirs.
        store.reserve_effect("k", "ours")
        store.begin_execution("k", "ours")
        store.fail_effect("k", "ours", "declined")
        old.execute(
            path,
            "UPDATE effects SET state = 'executing', action_id = 'theirs', attempt = 2, "
            "lease_expires_at = '2026-09-03T10:20:00+00:00', error = NULL WHERE effect_key = 'k'",
        )
        record = reader.get_effect("k")
        assert record is not None
        assert (record.action_id, record.attempt, record.lease_is_live(clock())) == (
            "theirs",
            2,
            True,
        )
        store.mark_ambiguous("k", "theirs", "lost")
        store.resolve_effect("k", EffectState.COMMITTED, "tui:alice", attempt=2)
        assert old.select(path, "SELECT state, resolved_by, lease_expires_at FROM effects") == [
            ("committed", "tui:alice", None)
        ]


def test_a_program_of_the_format_opens_a_store_of_ours(path: Path) -> None:
    """It looks at the ledger of migrations alone, and finds its own four."""
    SQLiteStateStore(path).close()
    assert [row[0] for row in old.select(path, "SELECT migration_id FROM schema_version")] == list(
        old.MIGRATION_IDS
    )
    for number in range(1, 4):
        old.chain_receipt(path, number)
    old.fill(
        path, "effects", effect_key="k", state="reserved", action_id="a", created_at=old.STAMP,
        updated_at=old.STAMP, lease_expires_at="2026-06-01T09:05:00+00:00",
    )  # fmt: skip
    old.execute(path, "UPDATE effects SET state = 'ambiguous', lease_expires_at = NULL")
    with closing(SQLiteReader(path)) as reader:
        assert reader.effects_count(state=EffectState.AMBIGUOUS) == 1
        assert reader.receipts_count(action_id="act_2") == 1
        assert verify_chain(reader).ok
    assert old.select(path, "PRAGMA integrity_check") == [("ok",)]


def test_a_renewal_of_theirs_does_not_revive_an_old_token(path: Path) -> None:
    """Their retry leaves our token in its row: it belongs to an attempt that is over."""
    clock = FakeClock()
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        action = Action("pay", {}, Principal("a"), action_id="first")
        until = clock() + timedelta(minutes=9)
        store.reserve_effect("k", "first")
        store.begin_execution("k", "first")
        assert store.hold_continuation(action, "k", "tok", until) == 1
        store.fail_effect("k", "first", "declined")
        old.execute(
            path,
            "UPDATE effects SET state = 'executing', action_id = 'second', attempt = 2, "
            "lease_expires_at = '2026-09-03T11:00:00+00:00'",
        )
        with pytest.raises(Exception, match="no live attempt"):
            store.take_continuation("tok")
        second = Action("pay", {}, Principal("a"), action_id="second")
        later = datetime(2026, 9, 3, 12, tzinfo=UTC)
        assert store.hold_continuation(second, "k", "tok2", later) == 1


def test_column_times_are_always_one_form() -> None:
    """Text compares like time only as long as every column is written so."""
    form = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?\+00:00")
    from ctrlrun.state.rows import column_time

    moments = [
        datetime(2026, 9, 3, 10, 0, 0, micros, tzinfo=zone)
        for micros in (0, 1, 999_999)
        for zone in (UTC, timezone(timedelta(hours=5, minutes=30)))
    ]
    texts = [column_time(moment) for moment in moments]
    assert all(form.fullmatch(text) for text in texts)
    assert sorted(texts) == [column_time(moment) for moment in sorted(moments)]
