"""Taking a delegation back: once, for good, also where nothing else can be read."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority, DelegationRecord
from ctrlrun.control import Control
from ctrlrun.errors import AuthorityDenied, InvalidArgument
from ctrlrun.operator import RevokeOutcome, revoke
from ctrlrun.policy import Policy
from ctrlrun.state import SQLiteStateStore
from tests.cases import walk
from tests.lib.operator.helpers import START_OF_SHIFT, Clock, Hears, Scene
from tests.lib.operator.test_delegate import grant, hand_on
from tests.lib.sqlite_helpers import at_once


def test_the_first_time_is_written_and_told(scene: Scene) -> None:
    made = hand_on(scene)
    sink = Hears()
    at = scene.clock.tick(60)
    outcome = revoke(
        scene.store,
        made.delegation_id,
        by="cli:bob",
        sinks=[sink],
        clock=scene.clock,
        note="left the team",
        via="mail",
    )
    assert outcome == RevokeOutcome(made.delegation_id, at, "cli:bob", repeated=False)
    record = scene.store.get_delegation(made.delegation_id)
    assert (record.revoked_at, record.revoked_by) == (at, "cli:bob")
    event = scene.store.events()[-1]
    assert event.type == "DELEGATION_REVOKED"
    assert dict(event.data) == {
        "delegation_id": made.delegation_id,
        "revoked_by": "cli:bob",
        "note": "left the team",
        "via": "mail",
    }
    assert (event.action_id, event.effect_key, event.approval_id, event.ts) == (
        None,
        None,
        None,
        at,
    )
    assert sink.events == [event]


def test_a_repetition_tells_of_the_first_time_and_only_logs(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    made = hand_on(scene)
    at = scene.clock.tick(60)
    revoke(scene.store, made.delegation_id, by="cli:bob", clock=scene.clock)
    before = scene.store.events()
    sink = Hears()
    scene.clock.tick(60)
    with caplog.at_level(logging.INFO, "ctrlrun"):
        outcome = revoke(
            scene.store, made.delegation_id, by="cli:eve", sinks=[sink], clock=scene.clock
        )
    assert outcome == RevokeOutcome(made.delegation_id, at, "cli:bob", repeated=True)
    assert scene.store.events() == before
    assert sink.events == []
    assert made.delegation_id in caplog.text
    assert scene.store.get_delegation(made.delegation_id).revoked_by == "cli:bob"


def test_nobody_may_be_named(scene: Scene) -> None:
    made = hand_on(scene)
    assert revoke(scene.store, made.delegation_id, by=None).revoked_by is None
    assert scene.store.events()[-1].data["revoked_by"] is None
    assert scene.store.get_delegation(made.delegation_id).is_revoked
    assert revoke(scene.store, made.delegation_id, by="cli:bob").revoked_by is None


@pytest.mark.parametrize("by", ["", " ", "a\nb", "a\u202eb", "a\ud800", 5])
def test_a_name_that_no_person_could_read_is_refused(scene: Scene, by: Any) -> None:
    made = hand_on(scene)
    with pytest.raises(InvalidArgument):
        revoke(scene.store, made.delegation_id, by=by)
    assert not scene.store.get_delegation(made.delegation_id).is_revoked


@pytest.mark.parametrize("delegation_id", ["root", "dlg_" + "0" * 32, "", "a\ud800", None, 5])
def test_what_is_no_delegation_is_refused_without_a_trace(scene: Scene, delegation_id: Any) -> None:
    sink = Hears()
    with pytest.raises(InvalidArgument):
        revoke(scene.store, delegation_id, by="cli:bob", sinks=[sink])
    assert scene.store.events() == ()
    assert sink.events == []


# --- rows that cannot be read --------------------------------------------------------------------

ID = "dlg_" + "1" * 32
EVERYBODY = Authority({"all": grant("all", "*", actions=("**",), constraints={})})


def put(path: Path, **columns: object) -> None:
    """A row written past us: its columns may hold anything."""
    facts: dict[str, object] = {
        "delegation_id": ID,
        "parent_id": "all",
        "depth": 1,
        "grant_json": "{}",
        "created_by_agent": "head",
        "created_by_user": None,
        "created_via": "api",
        "created_at": START_OF_SHIFT.isoformat(),
        "revoked_at": None,
        "revoked_by": None,
        **columns,
    }
    with closing(sqlite3.connect(path)) as db, db:
        names = ", ".join(facts)
        marks = ", ".join("?" for _ in facts)
        db.execute(f"INSERT INTO delegations ({names}) VALUES ({marks})", tuple(facts.values()))


@walk(
    "columns",
    [
        {"grant_json": "not json"},
        {"created_at": "yesterday"},
        {"depth": "deep"},
        {"created_by_agent": b"\xff"},
        {"created_via": b"\x00"},
        {"grant_json": b"\xff\xfe"},
        {"parent_id": b"\xff"},
        {"delegation_id": "dlg_1"},
        {"delegation_id": "nonsense"},
    ],
)
def test_one_command_restores_service_after_a_damaged_row(
    tmp_path: Path, columns: dict[str, object]
) -> None:
    clock = Clock()
    path = tmp_path / "state.db"
    policy = Policy.from_yaml("schema: ctrlrun.policy/v3\nactions: {x: {decision: allow}}")
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        control = Control(policy, store, clock=clock, authority=EVERYBODY)
        action = Action("x", {}, Principal("a"))
        assert control.execute(action, lambda: None).result == "committed"
        put(path, **columns)
        damaged = str(columns.get("delegation_id", ID))
        with pytest.raises(AuthorityDenied) as denied:
            control.execute(action, lambda: None)
        assert (denied.value.reason, denied.value.delegation_id) == (
            "authority_unreadable",
            damaged,
        )
        assert store.receipts()[-1].decision_reason == "authority_unreadable"
        told = [event for event in store.events() if event.type == "AUTHORITY_DENIED"]
        assert [dict(event.data) for event in told] == [
            {"reason": "authority_unreadable", "delegation_id": damaged, "depth": 0}
        ]
        outcome = revoke(store, damaged, by="cli:bob", clock=clock)
        assert outcome == RevokeOutcome(damaged, clock(), "cli:bob", repeated=False)
        assert control.execute(action, lambda: None).result == "committed"
        again = revoke(store, damaged, by="cli:bob", clock=clock)
        assert again.repeated
        assert again.revoked_at in (clock(), None)


def test_a_time_of_revocation_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with closing(SQLiteStateStore(path)) as store:
        put(path, revoked_at="long ago")
        assert revoke(store, ID, by="cli:bob") == RevokeOutcome(ID, None, None, repeated=True)
        assert store.events() == ()


def test_one_of_eight_processes_revokes(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    clock = Clock()
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        store.put_delegation(
            DelegationRecord(ID, "all", 1, "{}", "head", None, "api", START_OF_SHIFT)
        )

    def work(number: int) -> None:
        with closing(SQLiteStateStore(path, clock=clock)) as store:
            revoke(store, ID, by=f"cli:{number}", clock=clock)

    assert at_once(8, work) == [0] * 8
    with closing(SQLiteStateStore(path, clock=clock)) as store:
        (event,) = store.events()
        record = store.get_delegation(ID)
        assert record is not None
        assert event.data["revoked_by"] == record.revoked_by
