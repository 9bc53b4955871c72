"""What a person reads before answering: each fact, and what makes a grant high."""

from __future__ import annotations

import json
import sqlite3
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.errors import ApprovalMismatch
from ctrlrun.operator import (
    ApprovalFacts,
    PolicyStand,
    PolicyUnread,
    PolicyView,
    Sign,
    approval_facts,
    approve,
    deny,
    differing,
    effect_facts,
    keep_unknown,
    mutation_facts,
    resolve,
)
from ctrlrun.policy import Policy
from ctrlrun.receipt import Event, EventType, Receipt
from tests.lib.operator.helpers import POLICY, Clock, Scene, sqlite_store

PLAIN_POLICY = """
schema: ctrlrun.policy/v4
environment: staging
actions:
  stripe.refund: {decision: approve, effect: "refund:{payment_id}"}
"""


def facts(
    scene: Scene, request_id: str, policy: PolicyView | PolicyUnread | None = None
) -> ApprovalFacts:
    record = scene.store.get_approval(request_id)
    assert record is not None
    return approval_facts(scene.store, record, policy or PolicyView(scene.policy), scene.clock())


def under(scene: Scene, text: str, **control: str) -> Scene:
    """The same store under another policy."""
    return Scene(scene.store, scene.clock, text, **control)


# --- a request -----------------------------------------------------------------------------------


def test_the_facts_of_a_request(scene: Scene) -> None:
    scene.lose_reply(scene.refund(100))
    resolve(scene.store, "refund:txn_1", "failed", "cli:a", clock=scene.clock)
    action = scene.refund(200000)
    found = facts(scene, scene.ask(action))
    assert found.action.name == "stripe.refund"
    assert list(found.action.arguments) == ["amount", "currency", "payment_id"]
    assert (found.actual_hash, found.hash_matches) == (action.action_hash, True)
    assert found.money == {"amount": "EUR 2,000.00"}
    assert found.effect_key == "refund:txn_1"
    assert [receipt.result for receipt in found.receipts] == ["ambiguous"]
    assert (found.reason, found.rule_text) == ("rule[1]", "amount 0 to 500000")
    assert found.controls == ("PAY-4EYES",)
    assert found.policy is PolicyStand.UNCHANGED
    assert found.others == ()


def test_requests_about_the_same_effect_say_what_differs_and_who_answered(scene: Scene) -> None:
    denied, same = scene.ask(scene.refund(240000)), scene.ask(scene.refund(200000))
    deny(scene.store, denied, "tui:bob", clock=scene.clock)
    scene.clock.tick(20)
    asked = scene.ask(scene.refund(200000))
    scene.clock.tick(20)
    later = scene.ask(scene.refund(240000, agent="other-agent"))
    scene.ask(scene.refund(240000, "txn_2"))
    others = facts(scene, asked).others
    assert (others[0].record.approval_id, others[0].is_later) == (later, True)
    assert {(item.record.approval_id, str(item.status)) for item in others[1:]} == {
        (denied, "denied"),
        (same, "pending"),
    }
    by_id = {item.record.approval_id: item for item in others}
    assert by_id[denied].record.approver == "tui:bob"
    assert by_id[same].differences == ()
    assert [(field.name, field.left, field.right) for field in by_id[later].differences] == [
        ("amount", "200000", "240000"),
        ("agent", "refund-agent", "other-agent"),
    ]


def test_an_altered_request_is_seen(tmp_path: Path) -> None:
    clock = Clock()
    scene = Scene(sqlite_store(clock, tmp_path), clock)
    request_id = scene.ask(scene.refund(200000))
    with sqlite3.connect(tmp_path / "state.db") as raw:
        (text,) = raw.execute("SELECT action_json FROM approvals").fetchone()
        document = json.loads(text)
        document["arguments"]["amount"] = 900000
        raw.execute("UPDATE approvals SET action_json = ?", (json.dumps(document),))
    raw.close()
    found = facts(scene, request_id)
    assert (found.hash_matches, found.action.arguments["amount"]) == (False, 900000)
    assert found.action.action_hash != found.actual_hash
    with pytest.raises(ApprovalMismatch, match="altered"):
        approve(scene.store, request_id, "tui:a", clock=clock)
    scene.store.close()


def test_a_request_without_an_effect_has_no_history(scene: Scene) -> None:
    first = scene.ask(scene.action("email.send", to="cfo@example.com"))
    second = scene.ask(scene.action("email.send", to="cfo@example.com"))
    scene.ask(scene.action("email.send", to="ceo@example.com"))
    found = facts(scene, first)
    assert (found.effect_key, found.receipts) == (None, ())
    assert [item.record.approval_id for item in found.others] == [second]
    assert (found.reason, found.rule_text) == ("decision", "every call")


def test_many_receipts_are_cut_and_say_so(scene: Scene) -> None:
    scene.call(scene.refund(100))
    for _ in range(25):
        scene.call(scene.refund(100))
    found = facts(scene, scene.ask(scene.refund(200000)))
    assert (len(found.receipts), found.more_receipts) == (20, True)
    assert found.receipts[0].seq == 26


# --- risk ----------------------------------------------------------------------------------------


def test_a_known_policy_without_controls_in_a_harmless_place_is_low(scene: Scene) -> None:
    plain = under(scene, PLAIN_POLICY)
    risk = facts(plain, plain.ask(plain.refund(200000))).risk
    assert (risk.high, risk.why) == (False, ())


@pytest.mark.parametrize(
    ("environment", "high"),
    [("staging", False), ("Test", False), ("production", True), ("prod-eu", True), ("x", True)],
)
def test_what_is_not_known_to_be_harmless_is_high(
    scene: Scene, environment: str, high: bool
) -> None:
    plain = under(scene, PLAIN_POLICY, environment=environment)
    found = facts(plain, plain.ask(plain.refund(200000)))
    assert (found.policy, found.risk.high) == (PolicyStand.UNCHANGED, high)
    assert not high or environment in found.risk.why[0]


def test_a_cited_control_is_high(scene: Scene) -> None:
    risk = facts(scene, scene.ask(scene.refund(200000))).risk
    assert (risk.high, risk.why) == (True, ("cites PAY-4EYES",))


def test_a_policy_that_changed_or_is_not_read_is_high_and_its_rule_is_not_told(
    scene: Scene,
) -> None:
    plain = under(scene, PLAIN_POLICY)
    request_id = plain.ask(plain.refund(200000))
    for policy, stand in (
        (PolicyView(Policy.from_yaml(POLICY)), PolicyStand.CHANGED),
        (PolicyUnread("ctrlrun.yaml", "missing"), PolicyStand.UNREAD),
    ):
        found = facts(plain, request_id, policy)
        assert (found.policy, found.risk.high, found.rule_text) == (stand, True, None)
        assert found.reason == "decision"


def test_a_request_from_nobody_s_policy_is_high(scene: Scene) -> None:
    from ctrlrun.providers import LocalApprovalProvider

    provider = LocalApprovalProvider(scene.store, clock=scene.clock)
    request = provider.request(scene.refund(200000), timedelta(minutes=5))
    found = facts(scene, request.request_id)
    assert (found.policy, found.reason) == (PolicyStand.UNRECORDED, None)
    assert found.risk.high


def test_a_reason_that_no_event_holds_is_high(scene: Scene) -> None:
    from ctrlrun.approval import ApprovalRequest

    now = scene.clock()
    action = scene.refund(200000)
    scene.store.put_approval_request(
        ApprovalRequest(
            "apr_1",
            action.action_hash,
            action,
            now,
            now + timedelta(minutes=5),
            scene.policy.policy_hash,
        )
    )
    found = facts(scene, "apr_1")
    assert found.policy is PolicyStand.UNCHANGED
    assert found.risk.why == ("the rule that asked is not known",)


# --- an effect -----------------------------------------------------------------------------------


def test_the_facts_of_an_ambiguous_effect(scene: Scene) -> None:
    action = scene.refund(50000, "txn_9")
    scene.lose_reply(action)
    for _ in range(2):
        scene.clock.tick(60)
        scene.call(scene.refund(50000, "txn_9"))
    keep_unknown(scene.store, "refund:txn_9", "tui:a", note="asked them", clock=scene.clock)
    record = scene.store.get_effect("refund:txn_9")
    found = effect_facts(scene.store, record, scene.clock())
    assert found.action is not None
    assert (found.action.action_id, found.money) == (action.action_id, {"amount": "EUR 500.00"})
    assert (found.refusals.count, found.refusals.more) == (2, False)
    assert found.refusals.last_at == scene.clock()
    assert [(item.outcome, item.by, item.note) for item in found.answers] == [
        ("unknown", "tui:a", "asked them")
    ]
    assert "until a person" in found.retry_now
    assert found.timeline.complete


def test_refusals_of_an_earlier_attempt_do_not_count(scene: Scene) -> None:
    scene.lose_reply(scene.refund(100))
    scene.call(scene.refund(100))
    resolve(scene.store, "refund:txn_1", "failed", "cli:a", clock=scene.clock)
    scene.lose_reply(scene.refund(100))
    record = scene.store.get_effect("refund:txn_1")
    found = effect_facts(scene.store, record, scene.clock())
    assert (found.refusals.count, found.refusals.last_at) == (0, None)


def test_an_agent_that_retries_all_night_makes_no_card_slow(scene: Scene) -> None:
    scene.lose_reply(scene.refund(100))
    for number in range(1_100):
        refused = Event(
            EventType.EFFECT_RESERVATION_REFUSED,
            f"act_{number}",
            scene.clock(),
            {"reason": "ambiguous"},
            "refund:txn_1",
        )
        scene.store.append_event(refused)
    counting = CountsRows(scene.store)
    record = scene.store.get_effect("refund:txn_1")
    found = effect_facts(counting, record, scene.clock())
    assert (found.refusals.count, found.refusals.more) == (1_000, True)
    assert not found.timeline.complete
    assert counting.rows < 1_500
    request = scene.store.get_approval(scene.ask(scene.refund(200000)))
    counting.rows = 0
    approval_facts(counting, request, PolicyView(scene.policy), scene.clock())
    assert counting.rows < 1_500


class CountsRows:
    """A reader that counts the rows that its pages hand out."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.rows = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return partial(self._page, found) if name.endswith("_page") else found

    def _page(self, read: Any, **options: Any) -> Any:
        page = read(**options)
        self.rows += len(page.items)
        return page


def test_the_answer_of_a_hook_is_told(scene: Scene) -> None:
    scene.lose_reply(scene.refund(100))
    outcome = None
    try:
        scene.control.execute(
            scene.refund(100), lambda *_, **__: None, "refund:txn_1", reconcile=lambda key: "maybe"
        )
    except Exception as error:
        outcome = error
    assert outcome is not None
    record = scene.store.get_effect("refund:txn_1")
    (answer,) = effect_facts(scene.store, record, scene.clock()).answers
    assert (answer.outcome, answer.by, answer.reason) == ("unknown", None, "invalid_return")
    assert answer.error == "'maybe'"


def test_what_a_retry_would_do_is_what_it_does(scene: Scene) -> None:
    scene.call(scene.refund(100, "done"))
    scene.lose_reply(scene.refund(100, "failed"))
    resolve(scene.store, "refund:failed", "failed", "cli:a", clock=scene.clock)
    scene.die(scene.refund(100, "lapsed"), lease=timedelta(seconds=1))
    scene.die(scene.refund(100, "alive"))
    scene.clock.tick(2)
    said = {
        name: effect_facts(
            scene.store, scene.store.get_effect(f"refund:{name}"), scene.clock()
        ).retry_now
        for name in ("done", "failed", "lapsed", "alive")
    }
    assert said["failed"] == "runs, as attempt 2"
    assert "AMBIGUOUS" in said["lapsed"]
    assert said["done"].startswith("is refused")
    assert "in progress" in said["alive"]
    results = {name: scene.call(scene.refund(100, name)) for name in said}
    assert isinstance(results["failed"], Receipt)
    assert results["failed"].attempt == 2
    assert scene.store.get_effect("refund:lapsed").state == "ambiguous"
    assert all(isinstance(results[name], Exception) for name in ("done", "lapsed", "alive"))


# --- a refused mutation --------------------------------------------------------------------------


def test_a_refused_mutation_stands_beside_what_was_approved(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000, "txn_2"))
    at = scene.clock.tick(5)
    approve(scene.store, request_id, "tui:bob", clock=scene.clock)
    scene.clock.tick(5)
    scene.call(scene.refund(500000, "txn_2"), approval=request_id)
    receipt = scene.store.receipts_page(limit=1).items[0]
    found = mutation_facts(scene.store, receipt)
    assert found is not None
    assert (found.record.approver, found.answered_at) == ("tui:bob", at)
    (difference,) = differing(found.fields)
    assert (difference.name, difference.sign) == ("amount", Sign.DIFFERS)
    assert (difference.left, difference.right) == ("200000", "500000")
    assert found.fields[-1].left != found.fields[-1].right  # the hashes


def test_other_refusals_are_no_mutations(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    approve(scene.store, request_id, "cli:a", clock=scene.clock)
    scene.call(scene.refund(200000), approval=request_id)
    scene.call(scene.refund(200000), approval=request_id)  # replayed
    scene.call(scene.refund(100))  # a duplicate
    assert [mutation_facts(scene.store, receipt) for receipt in scene.store.receipts()] == [
        None,
        None,
        None,
    ]
