"""Pages over stores that have none, and walks over long lists."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.effect import EffectState
from ctrlrun.errors import DamagedRow, InvalidArgument
from ctrlrun.operator import approve, is_indexed, newest_first, oldest_first, paged
from ctrlrun.state import Damage, Page
from ctrlrun.state.page import START
from tests.cases import walk
from tests.lib.operator.helpers import Scene, SingleCalls


def busy(scene: Scene) -> None:
    for number in range(4):
        scene.call(scene.refund(100, f"done{number}"))
        scene.clock.tick(1)
        scene.ask(scene.refund(200000, f"ask{number % 2}"))
        scene.clock.tick(1)
    scene.lose_reply(scene.refund(100, "lost"))
    scene.die(scene.refund(100, "gone"), lease=timedelta(seconds=1))
    approve(scene.store, scene.ask(scene.refund(300000)), "cli:a", clock=scene.clock)
    scene.clock.tick(5)


def cases(scene: Scene) -> list[tuple[str, dict[str, Any]]]:
    now = scene.clock()
    event = scene.store.events()[0]
    asked = scene.store.approvals_page(limit=1).items[0]
    return [
        ("receipts", {}),
        ("receipts", {"action_id": event.action_id}),
        ("receipts", {"effect_key": "refund:done1"}),
        ("receipts", {"control": "PAY-4EYES"}),
        ("receipts", {"since": now - timedelta(seconds=40)}),
        ("events", {}),
        ("events", {"effect_key": "refund:done1"}),
        ("events", {"types": ("EXECUTION_STARTED", "ACTION_PROPOSED")}),
        ("events", {"approval_id": asked.approval_id}),
        ("effects", {}),
        ("effects", {"state": EffectState.COMMITTED}),
        ("effects", {"lapsed_at": now, "order": "updated"}),
        ("effects", {"order": "updated"}),
        ("approvals", {}),
        ("approvals", {"status": ApprovalStatus.GRANTED}),
        ("approvals", {"action_hash": asked.action_hash}),
        ("approvals", {"live_at": now, "order": "expiry"}),
    ]


def test_pages_over_single_calls_are_those_of_our_stores(scene: Scene) -> None:
    busy(scene)
    single = paged(SingleCalls(scene.store))
    assert not is_indexed(single)
    for name, filters in cases(scene):
        ours, made = (getattr(reader, f"{name}_page") for reader in (scene.store, single))
        for limit in (2, 100):
            last, made_last = ours(limit=limit, **filters), made(limit=limit, **filters)
            first = ours(after=START, limit=limit, **filters)
            made_first = made(after=START, limit=limit, **filters)
            assert made_last.items == last.items, (name, filters)
            assert made_first.items == first.items, (name, filters)
            if last.items:
                before = ours(before=last.before, limit=limit, **filters)
                after = ours(after=first.after, limit=limit, **filters)
                assert made(before=made_last.before, limit=limit, **filters).items == before.items
                assert made(after=made_first.after, limit=limit, **filters).items == after.items
        counted = {key: value for key, value in filters.items() if key != "order"}
        count = getattr(scene.store, f"{name}_count")(**counted)
        assert getattr(single, f"{name}_count")(**counted) == count


def test_a_store_of_ours_is_its_own_reader(scene: Scene) -> None:
    assert paged(scene.store) is scene.store
    assert is_indexed(scene.store)


def test_pages_over_single_calls_check_their_cursors(scene: Scene) -> None:
    single = paged(SingleCalls(scene.store))
    with pytest.raises(InvalidArgument):
        single.events_page(before="1", after="1", limit=1)
    with pytest.raises(InvalidArgument):
        single.events_page(limit=0)


def test_the_rows_of_single_calls_and_their_token(scene: Scene) -> None:
    busy(scene)
    single = paged(SingleCalls(scene.store))
    rows = single.receipt_rows(limit=3)
    rest = single.receipt_rows(after=rows[-1].cursor, limit=100)
    assert [row.seq for row in (*rows, *rest)] == [r.seq for r in scene.store.receipts()]
    token = single.change_token()
    assert single.change_token() == token
    scene.call(scene.refund(100, "more"))
    assert single.change_token() != token


@pytest.mark.parametrize("limit", [1, 3, 1000])
def test_walks_see_every_row_once(scene: Scene, limit: int) -> None:
    busy(scene)
    events = list(scene.store.events())
    assert list(oldest_first(scene.store.events_page, limit=limit)) == events
    assert list(newest_first(scene.store.events_page, limit=limit)) == events[::-1]


@walk("walk", [oldest_first, newest_first])
def test_a_walk_stops_at_a_row_that_cannot_be_read(walk: Any) -> None:
    def read(**_: Any) -> Page[int]:
        return Page((1,), "1", "2", (Damage("events", "2", "no JSON"),))

    with pytest.raises(DamagedRow, match="events 2 cannot be read: no JSON"):
        list(walk(read))
