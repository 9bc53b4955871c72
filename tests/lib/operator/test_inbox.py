"""The lanes: what stands in which, in which order, and where it went."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ctrlrun.operator import (
    InboxRow,
    Lane,
    RowKind,
    Standing,
    approve,
    deny,
    effect_standing,
    inbox_counts,
    inbox_row,
    lane_page,
    parse,
    request_standing,
    resolve,
)
from ctrlrun.operator.inbox import hidden_count
from ctrlrun.operator.pages import paged
from tests.lib.operator.helpers import Scene, SingleCalls


def ids(scene: Scene, lane: Lane, limit: int = 50) -> list[str]:
    page = lane_page(scene.store, lane, scene.clock(), limit=limit)
    return [row.item_id for row in page.rows]


def counts(scene: Scene) -> tuple[int, ...]:
    found = inbox_counts(scene.store, scene.clock())
    return found.waiting, found.expired, found.ambiguous, found.lapsed, found.unspent


def test_waiting_requests_stand_soonest_expiry_first(scene: Scene) -> None:
    asked = []
    for number in range(5):
        asked.append(scene.ask(scene.refund(200000, f"txn_{number}")))
        scene.clock.tick(10)
    assert ids(scene, Lane.WAITING) == asked
    row = lane_page(scene.store, Lane.WAITING, scene.clock(), limit=1).rows[0]
    assert (row.effect_key, row.since, row.until) == (
        "refund:txn_0",
        scene.clock() - timedelta(seconds=50),
        scene.clock() + timedelta(seconds=850),
    )
    assert row.action is not None
    assert row.action.principal.agent == "refund-agent"


def test_a_lane_is_read_on_in_both_directions(scene: Scene) -> None:
    asked = []
    for number in range(7):
        asked.append(scene.ask(scene.refund(200000, f"txn_{number}")))
        scene.clock.tick(1)
    read: list[str] = []
    cursor = None
    while True:
        page = lane_page(scene.store, Lane.WAITING, scene.clock(), after=cursor, limit=3)
        if not page.rows:
            break
        read += [row.item_id for row in page.rows]
        first, cursor = page.before, page.after
    assert read == asked
    back = lane_page(scene.store, Lane.WAITING, scene.clock(), before=first, limit=2)
    assert [row.item_id for row in back.rows] == asked[4:6]


def test_a_request_past_its_time_is_expired_whatever_its_table_says(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.clock.tick(900)
    assert ids(scene, Lane.WAITING) == [request_id]  # exactly at its end it can be answered
    scene.clock.tick(1)
    assert (ids(scene, Lane.WAITING), ids(scene, Lane.EXPIRED)) == ([], [request_id])
    assert counts(scene) == (0, 1, 0, 0, 0)
    scene.clock.tick(600)
    assert ids(scene, Lane.EXPIRED) == []
    assert counts(scene) == (0, 0, 0, 0, 0)


def test_expired_requests_of_every_kind_stand_latest_first(scene: Scene) -> None:
    unanswered = scene.ask(scene.refund(200000, "a"))
    scene.clock.tick(1)
    granted = scene.ask(scene.refund(200000, "b"))
    approve(scene.store, granted, "cli:a", clock=scene.clock)
    scene.clock.tick(1)
    marked = scene.ask(scene.refund(200000, "c"))
    scene.clock.tick(1)
    denied = scene.ask(scene.refund(200000, "d"))
    deny(scene.store, denied, "cli:a", clock=scene.clock)
    scene.clock.tick(1)
    later = scene.ask(scene.refund(200000, "e"))
    scene.clock.tick(899)
    with pytest.raises(Exception, match="expired"):
        approve(scene.store, marked, "cli:a", clock=scene.clock)
    assert ids(scene, Lane.EXPIRED) == [marked, granted, unanswered]
    assert ids(scene, Lane.EXPIRED, limit=2) == [marked, granted]
    assert ids(scene, Lane.WAITING) == [later]
    assert counts(scene) == (1, 3, 0, 0, 0)


def test_ambiguous_effects_and_lapsed_leases_stand_apart(scene: Scene) -> None:
    scene.lose_reply(scene.refund(100, "old"))
    scene.die(scene.refund(100, "gone"), lease=timedelta(seconds=60))
    scene.die(scene.refund(100, "alive"), lease=timedelta(minutes=30))
    scene.lose_reply(scene.refund(100, "new"))
    scene.clock.tick(120)
    assert ids(scene, Lane.AMBIGUOUS) == ["refund:old", "refund:new"]
    assert ids(scene, Lane.LAPSED) == ["refund:gone"]
    assert counts(scene) == (0, 0, 2, 1, 0)
    assert inbox_counts(scene.store, scene.clock()).needs_answer == 3
    lapsed = lane_page(scene.store, Lane.LAPSED, scene.clock(), limit=5).rows[0]
    assert lapsed.action is None  # nobody wrote its arguments down
    assert lapsed.until is not None
    old = lane_page(scene.store, Lane.AMBIGUOUS, scene.clock(), limit=1).rows[0]
    assert old.action is not None
    assert (old.action.arguments["amount"], old.until) == (100, None)


def test_a_grant_is_unspent_until_it_is_spent_and_says_who_came_in_vain(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.call(scene.refund(200000), approval=request_id)  # too early: it is still pending
    scene.clock.tick(1)
    approve(scene.store, request_id, "cli:a", clock=scene.clock)
    row = lane_page(scene.store, Lane.UNSPENT, scene.clock(), limit=5).rows[0]
    assert (row.item_id, row.refused) == (request_id, None)

    scene.clock.tick(5)
    scene.call(scene.refund(400000), approval=request_id)
    row = lane_page(scene.store, Lane.UNSPENT, scene.clock(), limit=5).rows[0]
    assert row.refused is not None
    assert (row.refused.reason, row.refused.at) == ("mismatch", scene.clock())

    scene.call(scene.refund(200000), approval=request_id)
    assert ids(scene, Lane.UNSPENT) == []
    assert request_standing(scene.store, request_id, scene.clock()) == Standing(
        "spent", "cli:a", scene.clock(), "committed"
    )


def test_the_outcome_of_a_spent_grant_is_followed(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    approve(scene.store, request_id, "cli:a", clock=scene.clock)

    def lost(*_: object) -> None:
        standing = request_standing(scene.store, request_id, scene.clock())
        assert (standing.word, standing.outcome) == ("spent", "executing")
        raise TimeoutError

    scene.call(scene.refund(200000), lost, approval=request_id)
    assert request_standing(scene.store, request_id, scene.clock()).outcome == "AMBIGUOUS"
    resolve(scene.store, "refund:txn_1", "failed", "cli:b", clock=scene.clock)
    assert request_standing(scene.store, request_id, scene.clock()).outcome == "failed"
    assert effect_standing(scene.store, "refund:txn_1", scene.clock()) == Standing(
        "failed", "cli:b", scene.clock()
    )


def test_what_became_of_a_request_names_who_and_when(scene: Scene) -> None:
    assert request_standing(scene.store, "apr_0", scene.clock()).word == "gone"
    assert effect_standing(scene.store, "refund:none", scene.clock()).word == "gone"
    asked, denied = scene.ask(scene.refund(200000, "a")), scene.ask(scene.refund(200000, "b"))
    assert request_standing(scene.store, asked, scene.clock()).word == "waiting"
    at = scene.clock.tick(3)
    deny(scene.store, denied, "tui:bob", clock=scene.clock)
    scene.clock.tick(3)
    scene.call(scene.refund(200000, "b"), approval=denied)  # leaves an event of the same type
    standing = request_standing(scene.store, denied, scene.clock())
    assert standing == Standing("denied", "tui:bob", at)
    scene.clock.tick(900)
    standing = request_standing(scene.store, asked, scene.clock())
    assert (standing.word, standing.at) == (
        "EXPIRED",
        scene.store.get_approval(asked).expires_at,
    )


def test_the_same_effect_asked_about_with_other_arguments_is_marked(scene: Scene) -> None:
    scene.ask(scene.refund(200000, "txn_8"))
    scene.ask(scene.refund(200000, "txn_8"))
    assert [row.asked_again for row in _waiting(scene)] == [False, False]
    scene.ask(scene.refund(240000, "txn_8"))
    scene.ask(scene.refund(240000, "txn_9"))
    assert [row.asked_again for row in _waiting(scene)] == [True, True, True, False]


def _waiting(scene: Scene) -> tuple[InboxRow, ...]:
    return lane_page(scene.store, Lane.WAITING, scene.clock(), limit=50).rows


def test_one_item_is_read_again_only_where_it_stands(scene: Scene) -> None:
    request_id = scene.ask(scene.refund(200000))
    scene.lose_reply(scene.refund(100, "txn_2"))
    now = scene.clock()
    row = inbox_row(scene.store, Lane.WAITING, request_id, now)
    assert row == lane_page(scene.store, Lane.WAITING, now, limit=1).rows[0]
    assert inbox_row(scene.store, Lane.UNSPENT, request_id, now) is None
    assert inbox_row(scene.store, Lane.AMBIGUOUS, "refund:txn_2", now) is not None
    assert inbox_row(scene.store, Lane.LAPSED, "refund:txn_2", now) is None
    assert inbox_row(scene.store, Lane.WAITING, "apr_0", now) is None


def test_the_inbox_of_a_store_of_single_calls_is_the_same(scene: Scene) -> None:
    scene.ask(scene.refund(200000, "a"))
    granted = scene.ask(scene.refund(200000, "b"))
    approve(scene.store, granted, "cli:a", clock=scene.clock)
    scene.lose_reply(scene.refund(100, "txn_2"))
    single = paged(SingleCalls(scene.store))
    now = scene.clock()
    assert inbox_counts(single, now) == inbox_counts(scene.store, now)
    for lane in Lane:
        ours = lane_page(scene.store, lane, now, limit=9).rows
        assert lane_page(single, lane, now, limit=9).rows == ours


def test_a_lane_is_filtered_read_on_and_counted(scene: Scene) -> None:
    asked = [scene.ask(scene.refund(200000 + number % 2, f"txn_{number}")) for number in range(6)]
    scene.lose_reply(scene.refund(100, "lost"))
    now = scene.clock()
    wanted = parse("200001", RowKind.INBOX, now=now)
    page = lane_page(scene.store, Lane.WAITING, now, limit=50, wanted=wanted)
    assert [row.item_id for row in page.rows] == asked[1::2]
    assert page.ends
    assert hidden_count(scene.store, wanted, now) == (4, False)
    last = lane_page(scene.store, Lane.WAITING, now, limit=2, from_end=True)
    assert ([row.item_id for row in last.rows], last.ends) == (asked[4:], False)
    nothing = parse("agent:nobody", RowKind.INBOX, now=now)
    assert lane_page(scene.store, Lane.WAITING, now, limit=5, wanted=nothing).rows == ()
    assert hidden_count(scene.store, nothing, now) == (7, False)
