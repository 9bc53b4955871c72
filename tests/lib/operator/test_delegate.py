"""Handing a grant on: one unit, its event, and who is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.authority import Authority, Grant, Subject
from ctrlrun.conditions import parse_conditions
from ctrlrun.errors import AuthorityEscalation, CTRLRunError, IdentityError, InvalidArgument
from ctrlrun.operator import Desk, delegate, revoke
from ctrlrun.state.location import locate
from tests.lib.operator.helpers import START_OF_SHIFT, Clock, Hears, Scene, SingleCalls

UNTIL = START_OF_SHIFT + timedelta(days=30)
HEAD = Principal("head", "dana")


def grant(grant_id: str = "", agent: str = "bot", limit: int = 100, **changes: Any) -> Grant:
    facts: dict[str, Any] = {
        "actions": ("stripe.refund",),
        "constraints": parse_conditions({"amount_lte": limit}, where="test"),
        "expires_at": UNTIL,
        **changes,
    }
    return Grant(grant_id, Subject(agent), **facts)


AUTHORITY = Authority({"root": grant("root", "head", delegable=True)})


def hand_on(scene: Scene, given: Grant | None = None, **changes: Any) -> Any:
    options: dict[str, Any] = {"by": HEAD, "via": "cli", "clock": scene.clock, **changes}
    parent_id = options.pop("parent_id", "root")
    store = options.pop("store", scene.store)
    return delegate(store, AUTHORITY, parent_id, given or grant(), **options)


@pytest.mark.parametrize("via", ["api", "cli"])
@pytest.mark.parametrize("by", [HEAD, Principal("head")])
def test_row_and_event_say_the_same(scene: Scene, via: str, by: Principal) -> None:
    sink = Hears()
    made = hand_on(scene, via=via, by=by, sinks=[sink])
    assert (made.parent_id, made.depth, made.created_via, made.created_by) == ("root", 1, via, by)
    assert made.grant == grant(made.delegation_id)
    assert scene.store.get_delegation(made.delegation_id) == made.to_record()
    (event,) = scene.store.events()
    assert dict(event.data) == {
        "delegation_id": made.delegation_id,
        "parent_id": "root",
        "depth": 1,
        "created_by_agent": by.agent,
        "created_by_user": by.user,
        "created_via": via,
    }
    assert (event.type, event.ts) == ("DELEGATION_CREATED", scene.clock())
    assert (event.action_id, event.effect_key, event.approval_id) == (None, None, None)
    assert sink.events == [event]


def test_texts_go_into_the_event_where_they_are_not_blank(scene: Scene) -> None:
    hand_on(scene, note="for the night", source=" ", reason=None, recorded_by="tui:alice")
    (event,) = scene.store.events()
    assert {key: event.data.get(key) for key in ("note", "source", "reason", "by", "via")} == {
        "note": "for the night",
        "source": None,
        "reason": None,
        "by": "tui:alice",
        "via": None,
    }
    assert event.data["created_via"] == "cli"


def test_a_refusal_leaves_its_event_and_no_row(scene: Scene) -> None:
    sink = Hears()
    with pytest.raises(AuthorityEscalation) as refused:
        hand_on(
            scene,
            grant(limit=101),
            sinks=[sink],
            note="n",
            reason="mine",
            recorded_by="tui:alice",
        )
    assert (refused.value.reason, refused.value.dimension) == ("containment", "constraints")
    (event,) = scene.store.events()
    assert event.type == "DELEGATION_REJECTED"
    assert dict(event.data) == {
        "reason": "containment",
        "parent_id": "root",
        "dimension": "constraints",
        "note": "n",
        "by": "tui:alice",
    }
    assert sink.events == [event]
    assert scene.store.delegations(include_revoked=True) == ()


def test_an_expired_principal_is_rejected_first(scene: Scene) -> None:
    by = Principal("head", expires_at=scene.clock() - timedelta(microseconds=1))
    with pytest.raises(IdentityError):
        hand_on(scene, by=by, parent_id="nowhere")
    (event,) = scene.store.events()
    assert dict(event.data) == {"reason": "principal_expired", "parent_id": "nowhere"}


def test_a_parent_that_is_no_text_a_store_takes_is_said_all_the_same(scene: Scene) -> None:
    with pytest.raises(CTRLRunError):
        hand_on(scene, parent_id="a\ud800")
    for event in scene.store.events():
        assert json.loads(event.to_json())["data"]["parent_id"] == "a\\ud800"


@pytest.mark.parametrize(
    "changes",
    [
        {"given": grant("named")},
        {"by": "head"},
        {"by": None},
        {"via": "tui"},
        {"via": None},
        {"parent_id": None},
        {"note": 5},
        {"recorded_by": ""},
        {"recorded_by": "tui:a\nb"},
    ],
)
def test_what_can_never_be_right_leaves_nothing(scene: Scene, changes: dict[str, Any]) -> None:
    sink = Hears()
    with pytest.raises(InvalidArgument):
        hand_on(scene, sinks=[sink], **changes)
    assert scene.store.events() == ()
    assert sink.events == []
    assert scene.store.delegations(include_revoked=True) == ()


class Late:
    """A store on which somebody acts just before the unit opens, as another process could."""

    def __init__(self, inner: Any, act: Callable[[], object]) -> None:
        self.inner = inner
        self.act = act

    def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
        self.act()
        return self.inner.unit(work, durable=durable)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def test_a_parent_that_is_revoked_meanwhile_is_seen(scene: Scene) -> None:
    middle = hand_on(scene, grant("", "mid", delegable=True))
    late = Late(scene.store, lambda: revoke(scene.store, middle.delegation_id, by="cli:other"))
    with pytest.raises(AuthorityEscalation) as refused:
        hand_on(scene, by=Principal("mid"), parent_id=middle.delegation_id, store=late)
    assert refused.value.reason == "unknown_parent"
    assert scene.types() == ["DELEGATION_CREATED", "DELEGATION_REVOKED", "DELEGATION_REJECTED"]


class NoEvents:
    """A store that takes a delegation and then no event."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def append_event(self, event: object) -> None:
        raise OSError("disk full")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("limit", [100, 101])
def test_row_and_event_stand_or_fall_together(scene: Scene, limit: int) -> None:
    sink = Hears()
    with pytest.raises(OSError, match="disk full"):
        hand_on(scene, grant(limit=limit), store=NoEvents(scene.store), sinks=[sink])
    assert scene.store.delegations(include_revoked=True) == ()
    assert sink.events == []


def test_a_store_of_single_calls_takes_it_too(scene: Scene) -> None:
    single = SingleCalls(scene.store)
    made = hand_on(scene, store=single)
    revoke(single, made.delegation_id, by=None, clock=scene.clock)
    assert scene.types() == ["DELEGATION_CREATED", "DELEGATION_REVOKED"]


def test_the_desk_records_who_sat_there(tmp_path: Path) -> None:
    from tests.lib.operator.helpers import sqlite_store

    clock = Clock()
    store: Any = sqlite_store(clock, tmp_path)
    desk = Desk(locate(f"sqlite://{tmp_path / 'state.db'}", {}), "tui:alice", clock=clock)
    made = desk.delegate(AUTHORITY, "root", grant(), by=HEAD, note="n")
    with pytest.raises(AuthorityEscalation):
        desk.delegate(AUTHORITY, "root", grant(limit=101), by=HEAD)
    outcome = desk.revoke(made.delegation_id, source="ticket 7")
    created, rejected, revoked = store.events()
    assert (created.data["by"], created.data["created_via"], created.data["note"]) == (
        "tui:alice",
        "cli",
        "n",
    )
    assert created.data["created_by_agent"] == "head"
    assert rejected.data["by"] == "tui:alice"
    assert dict(revoked.data) == {
        "delegation_id": made.delegation_id,
        "revoked_by": "tui:alice",
        "source": "ticket 7",
    }
    assert (outcome.revoked_by, outcome.repeated) == ("tui:alice", False)
    written = (tmp_path / "events.jsonl").read_text().splitlines()
    assert written == [event.to_json() for event in store.events()]
    store.close()
