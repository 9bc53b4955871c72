"""Answers: what they write, what they refuse, and who hears of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.effect import EffectState
from ctrlrun.errors import ApprovalMismatch, InvalidArgument
from ctrlrun.operator import approve, deny, keep_unknown, resolve
from ctrlrun.receipt import Event
from tests.lib.operator.helpers import Hears, Scene, SingleCalls

Verb = Callable[..., Any]


def newest(scene: Scene) -> Event:
    event: Event = scene.store.events_page(limit=1).items[0]
    return event


def snapshot(scene: Scene) -> list[str]:
    """Everything that an answer could change."""
    store = scene.store
    approvals = store.approvals_page(limit=1000).items
    return [repr(item) for item in (*store.events(), *store.list_effects(), *approvals)]


# --- approve and deny ----------------------------------------------------------------------------


def test_a_grant_lets_exactly_that_action_run_once(scene: Scene) -> None:
    action = scene.refund(200000)
    request_id = scene.ask(action)
    granted = approve(scene.store, request_id, "cli:local", clock=scene.clock)
    assert (granted.approval_id, granted.action_hash) == (request_id, action.action_hash)
    event = newest(scene)
    assert event.to_dict() | {"event_id": 0, "ts": ""} == {
        "event_id": 0,
        "ts": "",
        "type": "APPROVAL_GRANTED",
        "action_id": action.action_id,
        "effect_key": None,
        "approval_id": request_id,
        "data": {"approver": "cli:local", "action_hash": action.action_hash},
    }
    again = scene.refund(200000)
    assert getattr(scene.call(again, approval=request_id), "approver", None) == "cli:local"
    assert isinstance(scene.call(again, approval=request_id), ApprovalMismatch)


def test_a_denial_is_recorded_with_who_said_so(scene: Scene) -> None:
    action = scene.refund(200000)
    request_id = scene.ask(action)
    deny(scene.store, request_id, "tui:alice", clock=scene.clock)
    event = newest(scene)
    assert (event.type, event.action_id, event.approval_id) == (
        "APPROVAL_DENIED",
        action.action_id,
        request_id,
    )
    assert dict(event.data) == {"approver": "tui:alice"}
    assert scene.store.get_approval(request_id).status is ApprovalStatus.DENIED


def test_what_a_person_adds_stands_in_the_data_and_blanks_do_not(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    approve(
        scene.store,
        request_id,
        "tui:alice",
        clock=scene.clock,
        note="rang the customer\nat 03:10 \ud800",
        source="  ",
        reason="refund agreed",
        via="mcp",
    )
    data = dict(newest(scene).data)
    assert list(data) == ["approver", "action_hash", "note", "reason", "via"]
    assert data["note"] == "rang the customer\nat 03:10 \\ud800"


@pytest.mark.parametrize("verb", [approve, deny])
@pytest.mark.parametrize("request_id", ["", "apr_0"])
def test_an_unknown_request_is_named(scene: Scene, verb: Verb, request_id: str) -> None:
    with pytest.raises(ApprovalMismatch, match=repr(request_id)) as refused:
        verb(scene.store, request_id, "cli:local", clock=scene.clock)
    assert refused.value.reason == "unknown"
    assert scene.store.events() == ()


@pytest.mark.parametrize("first", [approve, deny])
@pytest.mark.parametrize("second", [approve, deny])
def test_a_request_is_answered_once(scene: Scene, first: Verb, second: Verb) -> None:
    request_id = scene.ask(scene.refund(200000))
    first(scene.store, request_id, "cli:bob", clock=scene.clock)
    before = snapshot(scene)
    sink = Hears()
    with pytest.raises(ApprovalMismatch) as refused:
        second(scene.store, request_id, "cli:local", clock=scene.clock, sinks=[sink])
    assert refused.value.reason == ("granted" if first is approve else "denied")
    assert (snapshot(scene), sink.events) == (before, [])


@pytest.mark.parametrize("verb", [approve, deny])
def test_at_its_expiry_a_request_is_answerable_and_after_it_marked(
    scene: Scene, verb: Verb
) -> None:
    at_the_end, too_late = (scene.ask(scene.refund(200000, key)) for key in ("txn_1", "txn_2"))
    scene.clock.now = scene.store.get_approval(at_the_end).expires_at
    verb(scene.store, at_the_end, "cli:local", clock=scene.clock)

    scene.clock.tick(0.001)
    sink = Hears()
    with pytest.raises(ApprovalMismatch, match="expired") as refused:
        verb(scene.store, too_late, "cli:local", clock=scene.clock, sinks=[sink])
    assert refused.value.reason == "expired"
    assert scene.store.get_approval(too_late).status is ApprovalStatus.EXPIRED
    event = newest(scene)
    assert (event.type, event.approval_id, dict(event.data)) == ("APPROVAL_EXPIRED", too_late, {})
    assert sink.events == [event]

    before = snapshot(scene)
    with pytest.raises(ApprovalMismatch) as refused:
        verb(scene.store, too_late, "cli:local", clock=scene.clock, sinks=[sink])
    assert refused.value.reason == "expired"
    assert (snapshot(scene), sink.events) == (before, [event])


@pytest.mark.parametrize("verb", [approve, deny])
@pytest.mark.parametrize("late", [False, True])
def test_another_action_than_the_one_that_was_seen_is_not_answered(
    scene: Scene, verb: Verb, late: bool
) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.clock.tick(3600 if late else 0)
    before = snapshot(scene)
    with pytest.raises(ApprovalMismatch) as refused:
        seen = scene.refund(240000).action_hash
        verb(scene.store, request_id, "cli:local", action_hash=seen, clock=scene.clock)
    assert refused.value.reason == "mismatch"
    assert snapshot(scene) == before


@pytest.mark.parametrize("verb", [approve, deny])
def test_the_action_that_was_seen_is_answered(scene: Scene, verb: Verb) -> None:
    action = scene.refund(200000)
    request_id = scene.ask(action)
    verb(scene.store, request_id, "tui:a", action_hash=action.action_hash, clock=scene.clock)
    assert newest(scene).approval_id == request_id


class Altered:
    """A store in which somebody wrote another amount into a stored request."""

    def __init__(self, scene: Scene) -> None:
        self._store = scene.store
        self._action = scene.refund(900000)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get_approval(self, request_id: str) -> Any:
        record = self._store.get_approval(request_id)
        return replace(record, request=replace(record.request, action=self._action))


def test_an_altered_request_cannot_be_granted_but_denied(scene: Scene) -> None:
    action = scene.refund(200000)
    request_id = scene.ask(action)
    altered: Any = Altered(scene)
    before = snapshot(scene)
    with pytest.raises(ApprovalMismatch, match="altered") as refused:
        approve(altered, request_id, "tui:a", action_hash=action.action_hash, clock=scene.clock)
    assert refused.value.reason == "mismatch"
    assert snapshot(scene) == before
    deny(altered, request_id, "tui:a", clock=scene.clock)
    assert scene.store.get_approval(request_id).status is ApprovalStatus.DENIED


@pytest.mark.parametrize("name", ["", " ", "a\tb", "a\nb", "a\u202eb", "\u2028"])
@pytest.mark.parametrize("verb", [approve, deny])
def test_a_name_is_one_line_of_visible_text(scene: Scene, verb: Verb, name: str) -> None:
    request_id = scene.ask(scene.refund(200000))
    before = snapshot(scene)
    with pytest.raises(InvalidArgument, match="approver"):
        verb(scene.store, request_id, name, clock=scene.clock)
    assert snapshot(scene) == before


def test_a_note_that_is_no_text_is_refused(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    with pytest.raises(InvalidArgument, match="note"):
        approve(scene.store, request_id, "cli:local", clock=scene.clock, note=5)  # type: ignore[arg-type]
    assert scene.store.get_approval(request_id).status is ApprovalStatus.PENDING


# --- resolve -------------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["committed", "failed"])
def test_a_resolution_stands_in_the_record_and_in_its_event(scene: Scene, outcome: Any) -> None:
    action = scene.refund(100)
    scene.lose_reply(action)
    record = resolve(
        scene.store,
        "refund:txn_1",
        outcome,
        "tui:alice",
        attempt=1,
        action_id=action.action_id,
        source="dashboard",
        clock=scene.clock,
    )
    assert (record.state, record.resolved_by) == (EffectState(outcome), "tui:alice")
    assert record.error == f"resolved {outcome} by tui:alice (was: TimeoutError: no response)"
    event = newest(scene)
    assert (event.type, event.action_id, event.effect_key, event.approval_id) == (
        "EFFECT_RESOLVED",
        action.action_id,
        "refund:txn_1",
        None,
    )
    assert list(event.data.items()) == [
        ("state", outcome),
        ("resolver", "tui:alice"),
        ("resolved_by", "human"),
        ("source", "dashboard"),
    ]


def test_another_attempt_than_the_one_that_was_seen_is_not_resolved(scene: Scene) -> None:
    first, second = scene.refund(100), scene.refund(100)
    scene.lose_reply(first)
    resolve(scene.store, "refund:txn_1", "failed", "cli:bob", clock=scene.clock)
    scene.lose_reply(second)
    before = snapshot(scene)
    for seen in ({"attempt": 1}, {"action_id": first.action_id}):
        for verb in (_resolve_failed, keep_unknown):
            with pytest.raises(InvalidArgument, match=f"attempt 2 of {second.action_id}"):
                verb(scene.store, "refund:txn_1", "tui:a", clock=scene.clock, **seen)
    assert snapshot(scene) == before


def _resolve_failed(store: Any, key: str, who: str, **options: Any) -> object:
    return resolve(store, key, "failed", who, **options)


def test_only_an_ambiguous_effect_is_resolved(scene: Scene) -> None:
    scene.call(scene.refund(100, "done"))
    scene.die(scene.refund(100, "held"))
    before = snapshot(scene)
    for verb in (_resolve_failed, keep_unknown):
        for key, named in (
            ("refund:done", "committed"),
            ("refund:held", "executing"),
            ("refund:none", "refund:none"),
        ):
            with pytest.raises(InvalidArgument, match=named):
                verb(scene.store, key, "cli:local", clock=scene.clock)
    assert snapshot(scene) == before


def test_an_effect_is_resolved_to_one_of_two_outcomes(scene: Scene) -> None:
    scene.lose_reply(scene.refund(100))
    for outcome in ("unknown", "ambiguous", "FAILED", ""):
        with pytest.raises(InvalidArgument, match="committed or failed"):
            resolve(scene.store, "refund:txn_1", outcome, "cli:a", clock=scene.clock)  # type: ignore[arg-type]


def test_still_unknown_leaves_a_note_and_nothing_else(scene: Scene) -> None:
    action = scene.refund(100)
    scene.lose_reply(action)
    record = scene.store.get_effect("refund:txn_1")
    sink = Hears()
    event = keep_unknown(
        scene.store,
        "refund:txn_1",
        "tui:alice",
        attempt=1,
        action_id=action.action_id,
        note="provider is down",
        sinks=[sink],
        clock=scene.clock,
    )
    assert scene.store.get_effect("refund:txn_1") == record
    assert [newest(scene), *sink.events] == [event, event]
    assert (event.type, event.effect_key) == ("RECONCILIATION_RESOLVED", "refund:txn_1")
    assert dict(event.data) == {
        "outcome": "unknown",
        "by": "tui:alice",
        "note": "provider is down",
    }


# --- units and sinks -----------------------------------------------------------------------------


class FailsToAppend:
    """A store on which the event of an answer cannot be written."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def append_event(self, event: Event) -> Event:
        raise OSError("disk full")


@pytest.mark.parametrize("late", [False, True])
def test_an_answer_and_its_event_are_written_together_or_not_at_all(
    scene: Scene, late: bool
) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.lose_reply(scene.refund(100, "txn_2"))
    scene.clock.tick(3600 if late else 0)
    before = snapshot(scene)
    failing: Any = FailsToAppend(scene.store)
    sink = Hears()
    for answer in (
        lambda: approve(failing, request_id, "cli:a", clock=scene.clock, sinks=[sink]),
        lambda: deny(failing, request_id, "cli:a", clock=scene.clock, sinks=[sink]),
        lambda: resolve(
            failing, "refund:txn_2", "failed", "cli:a", clock=scene.clock, sinks=[sink]
        ),
    ):
        with pytest.raises(OSError, match="disk full"):
            answer()
    assert (snapshot(scene), sink.events) == (before, [])


class WatchesUnits:
    """A store that says how its units were asked for, and runs each twice."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.durable: list[bool] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def unit(self, work: Callable[[], Any], *, durable: bool) -> Any:
        self.durable.append(durable)

        def undone() -> None:
            work()
            raise _Undo

        with pytest.raises(_Undo):
            self._store.unit(undone, durable=durable)
        return self._store.unit(work, durable=durable)


class _Undo(Exception):
    pass


def test_an_answer_is_one_durable_unit_that_may_run_twice(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.lose_reply(scene.refund(100, "txn_2"))
    scene.lose_reply(scene.refund(100, "txn_3"))
    store: Any = WatchesUnits(scene.store)
    sink = Hears()
    before = len(scene.store.events())
    approve(store, request_id, "cli:a", clock=scene.clock, sinks=[sink])
    resolve(store, "refund:txn_2", "failed", "cli:a", clock=scene.clock, sinks=[sink])
    keep_unknown(store, "refund:txn_3", "cli:a", clock=scene.clock, sinks=[sink])
    assert store.durable == [True, True, True]
    assert sink.events == list(scene.store.events()[before:])
    assert len(sink.events) == 3


def test_a_store_of_single_calls_is_answered_in_the_same_order(scene: Scene) -> None:
    request_id, denied, late = (scene.ask(scene.refund(200000, key)) for key in "abc")
    scene.lose_reply(scene.refund(100, "txn_2"))
    single: Any = SingleCalls(scene.store)
    approve(single, request_id, "cli:a", clock=scene.clock)
    deny(single, denied, "cli:a", clock=scene.clock)
    with pytest.raises(InvalidArgument, match="attempt 1"):
        resolve(single, "refund:txn_2", "failed", "cli:a", attempt=2, clock=scene.clock)
    resolve(single, "refund:txn_2", "failed", "cli:a", attempt=1, clock=scene.clock)
    scene.clock.tick(3600)
    with pytest.raises(ApprovalMismatch):
        approve(single, late, "cli:a", clock=scene.clock)
    assert scene.types()[-4:] == [
        "APPROVAL_GRANTED",
        "APPROVAL_DENIED",
        "EFFECT_RESOLVED",
        "APPROVAL_EXPIRED",
    ]


class LooksBack:
    """A sink that looks into the store when it hears something, then fails."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.saw: list[ApprovalStatus] = []

    def on_event(self, event: Event) -> None:
        seen: list[ApprovalStatus] = []
        thread = threading.Thread(
            target=lambda: seen.append(self._scene.store.get_approval(event.approval_id).status)
        )
        thread.start()
        thread.join()
        self.saw += seen
        raise RuntimeError("a sink's own trouble")

    def on_receipt(self, receipt: object) -> None: ...


def test_sinks_hear_after_the_commit_and_their_trouble_is_their_own(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    request_id = scene.ask(scene.refund(200000))
    first, second = LooksBack(scene), Hears()
    approve(scene.store, request_id, "cli:a", clock=scene.clock, sinks=[first, second])
    assert first.saw == [ApprovalStatus.GRANTED]
    assert [event.type for event in second.events] == ["APPROVAL_GRANTED"]
    assert "LooksBack" in caplog.text


def test_eight_people_answer_and_one_answer_counts(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    verdicts: list[str] = []
    barrier = threading.Barrier(8)

    def answer(number: int) -> None:
        verb: Verb = approve if number % 2 else deny
        barrier.wait()
        try:
            verb(scene.store, request_id, f"tui:{number}", clock=scene.clock)
            verdicts.append("written")
        except ApprovalMismatch as refused:
            verdicts.append(refused.reason)

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert verdicts.count("written") == 1
    assert len(verdicts) == 8
    answers = [kind for kind in scene.types() if kind in ("APPROVAL_GRANTED", "APPROVAL_DENIED")]
    assert len(answers) == 1
