"""The history of a key: whole, in order, with the silences and the lost reply."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ctrlrun.operator import (
    Entry,
    EntryKind,
    Timeline,
    action_timeline,
    approve,
    deny,
    older_timeline,
    resolve,
)
from ctrlrun.operator.timeline import timeline
from tests.lib.operator.helpers import Scene


def told(entries: tuple[Entry, ...]) -> list[str]:
    """The entries in short words."""
    words = []
    for entry in entries:
        match entry.kind:
            case EntryKind.EVENT:
                assert entry.event is not None
                words.append(str(entry.event.type))
            case EntryKind.RECEIPT:
                assert entry.receipt is not None
                words.append(f"receipt {entry.receipt.result}")
            case EntryKind.SILENCE:
                assert entry.length is not None
                waiting = " waiting" if entry.waiting else ""
                open_end = " still" if entry.open_end else ""
                words.append(f"silence {entry.length.total_seconds():.0f}{waiting}{open_end}")
            case EntryKind.LOST:
                words.append(f"LOST {entry.detail}")
    return words


def of(scene: Scene, key: str = "refund:txn_1") -> Timeline:
    return timeline(scene.store, key, scene.clock())


def test_a_lost_reply_and_the_retries_refused_since(scene: Scene) -> None:
    scene.lose_reply(scene.refund(100), seconds=30)
    scene.clock.tick(14)
    scene.call(scene.refund(100))
    scene.clock.tick(8)
    resolve(scene.store, "refund:txn_1", "committed", "tui:a", clock=scene.clock)
    assert told(of(scene).entries) == [
        "ACTION_PROPOSED",
        "POLICY_EVALUATED",
        "EFFECT_RESERVED",
        "EXECUTION_STARTED",
        "silence 30 waiting",
        "LOST TimeoutError: no response",
        "receipt ambiguous",
        "silence 14",
        "ACTION_PROPOSED",
        "POLICY_EVALUATED",
        "EFFECT_RESERVATION_REFUSED",
        "receipt blocked",
        "silence 8",
        "EFFECT_RESOLVED",
    ]
    assert of(scene).complete


def test_answers_stand_among_the_events_though_they_have_no_key(scene: Scene) -> None:
    granted, denied = scene.ask(scene.refund(200000)), scene.ask(scene.refund(240000))
    scene.ask(scene.refund(240000, "txn_2"))
    deny(scene.store, denied, "tui:a", clock=scene.clock)
    approve(scene.store, granted, "tui:a", clock=scene.clock)
    scene.call(scene.refund(200000), approval=granted)
    words = told(of(scene).entries)
    assert words.index("APPROVAL_DENIED") < words.index("APPROVAL_GRANTED")
    assert words.index("APPROVAL_GRANTED") < words.index("APPROVAL_CONSUMED")
    assert words.count("APPROVAL_REQUESTED") == 2
    ids = [event.event_id or 0 for event in of(scene).events]
    assert ids == sorted(ids)


def test_a_death_is_lost_where_its_lease_ends(scene: Scene) -> None:
    key = scene.die(scene.refund(100), lease=timedelta(seconds=60))
    scene.clock.tick(20)
    assert told(of(scene, key).entries)[-2:] == ["EXECUTION_STARTED", "silence 20 waiting still"]
    scene.clock.tick(70)
    assert told(of(scene, key).entries)[-3:] == [
        "EXECUTION_STARTED",
        "silence 60 waiting",
        "LOST lease expired before an outcome was recorded",
    ]
    lost = of(scene, key).entries[-1]
    assert lost.at == scene.clock() - timedelta(seconds=30)
    scene.call(scene.refund(100))
    assert told(of(scene, key).entries)[-6:] == [
        "LOST lease expired before an outcome was recorded",
        "silence 30",
        "ACTION_PROPOSED",
        "POLICY_EVALUATED",
        "EFFECT_RESERVATION_REFUSED",
        "receipt blocked",
    ]


def test_a_late_outcome_of_a_lapsed_holder_is_no_loss(scene: Scene) -> None:
    def slow(*_: object) -> str:
        scene.clock.tick(3600)
        return "done"

    scene.call(scene.refund(100), slow)
    words = told(of(scene).entries)
    assert not any(word.startswith("LOST") for word in words)
    assert words[-3:] == ["silence 3600 waiting", "EXECUTION_COMMITTED", "receipt committed"]


def test_each_receipt_stands_behind_the_event_it_attests_even_at_one_moment(scene: Scene) -> None:
    action = scene.refund(100)
    scene.call(action)
    scene.call(action)
    words = told(of(scene).entries)
    assert words[words.index("EXECUTION_COMMITTED") + 1] == "receipt committed"
    assert words[words.index("EFFECT_RESERVATION_REFUSED") + 1] == "receipt blocked"


@pytest.mark.parametrize("limit", [1, 3, 7, 50])
def test_a_long_history_comes_in_pages_and_ends_up_the_same(scene: Scene, limit: int) -> None:
    granted = scene.ask(scene.refund(200000))
    scene.clock.tick(1)
    scene.lose_reply(scene.refund(100))
    for _ in range(4):
        scene.clock.tick(1)
        scene.call(scene.refund(100))
    approve(scene.store, granted, "tui:a", clock=scene.clock)
    whole = timeline(scene.store, "refund:txn_1", scene.clock(), limit=1000)
    read = timeline(scene.store, "refund:txn_1", scene.clock(), limit=limit)
    if limit < 10:
        assert not read.complete
    seen = 0
    while not read.complete:
        assert len(read.events) > seen
        seen = len(read.events)
        read = older_timeline(scene.store, read, scene.clock(), limit=limit)
    assert read.entries == whole.entries
    assert older_timeline(scene.store, read, scene.clock()) is read


def test_one_action_has_a_history_too(scene: Scene) -> None:
    asked, ran = scene.refund(200000), scene.refund(200000)
    request_id = scene.ask(asked)
    scene.clock.tick(10)
    approve(scene.store, request_id, "tui:a", clock=scene.clock)
    scene.call(ran, approval=request_id)
    assert told(action_timeline(scene.store, asked.action_id, scene.clock()).entries) == [
        "ACTION_PROPOSED",
        "POLICY_EVALUATED",
        "APPROVAL_REQUESTED",
        "silence 10",
        "APPROVAL_GRANTED",
    ]
    words = told(action_timeline(scene.store, ran.action_id, scene.clock()).entries)
    assert words[-2:] == ["EXECUTION_COMMITTED", "receipt committed"]
    assert "APPROVAL_GRANTED" in words


def test_nothing_is_known_of_a_key_that_nobody_touched(scene: Scene) -> None:
    assert of(scene, "refund:none").entries == ()
    assert of(scene, "refund:none").complete
