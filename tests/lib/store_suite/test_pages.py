"""Pages in every store: any page size, either direction, every filter, the whole list once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from ctrlrun.approval import ApprovalStatus
from ctrlrun.effect import EffectState
from ctrlrun.errors import InvalidArgument
from ctrlrun.receipt import EventType
from ctrlrun.state import Page, UnitStateStore
from ctrlrun.state.page import START
from tests.lib.store_suite.helpers import (
    HOLDER,
    LEASE,
    OTHER,
    SECOND,
    START_TIME,
    TICK,
    FakeClock,
    event,
    receipt,
    request,
)


@dataclass(frozen=True)
class Listing:
    """One kind of list: its page and count, how an item is told, and its filters' right answers."""

    page: str
    count: str
    name: Callable[[Any], object]
    cases: tuple[tuple[dict[str, Any], list[object]], ...]


RECEIPTS = Listing(
    "receipts_page",
    "receipts_count",
    lambda item: item.seq,
    (
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"action_id": "act_even"}, [2, 4, 6]),
        ({"effect_key": "key:three"}, [3, 6]),
        ({"effect_key": "key:three", "action_id": "act_even"}, [6]),
        ({"control": "SOX-1"}, [1, 4, 7]),
        ({"control": "SOX"}, []),
        ({"control": 'q"é'}, [4]),
        ({"since": START_TIME + 3 * SECOND}, [3, 4, 5, 6, 7]),
        ({"since": START_TIME + 3 * SECOND + TICK}, [4, 5, 6, 7]),
        ({"since": START_TIME + 3 * SECOND, "control": "SOX-1"}, [4, 7]),
        ({"since": START_TIME + timedelta(days=1)}, []),
        ({"action_id": "nobody"}, []),
    ),
)
EVENTS = Listing(
    "events_page",
    "events_count",
    lambda item: item.event_id,
    (
        ({}, [1, 2, 3, 4, 5, 6, 7]),
        ({"action_id": "act_even"}, [2, 4, 6]),
        ({"effect_key": "key:three"}, [3, 6]),
        ({"approval_id": "apr_5"}, [5]),
        ({"types": [EventType.EFFECT_RESERVED]}, [1, 4, 7]),
        ({"types": ["EFFECT_RESERVED", "RUN_STARTED"]}, [1, 2, 4, 7]),
        ({"types": ("RUN_STARTED",)}, [2]),
        ({"types": []}, []),
        ({"types": ["EFFECT_RESERVED"], "action_id": "act_even"}, [4]),
    ),
)
EFFECTS = Listing(
    "effects_page",
    "effects_count",
    lambda item: item.effect_key,
    (
        ({}, ["e1", "e2", "e3", "e4", "e5", "e6"]),
        ({"order": "updated"}, ["e2", "e4", "e6", "e1", "e5", "e3"]),
        ({"state": EffectState.AMBIGUOUS}, ["e1", "e3", "e5"]),
        ({"state": EffectState.AMBIGUOUS, "order": "updated"}, ["e1", "e5", "e3"]),
        ({"state": EffectState.COMMITTED}, []),
        ({"lapsed_at": START_TIME + LEASE}, []),
        ({"lapsed_at": START_TIME + LEASE + 2 * TICK}, ["e2"]),
        ({"lapsed_at": START_TIME + 9 * LEASE}, ["e2", "e4", "e6"]),
        ({"lapsed_at": START_TIME + 9 * LEASE, "state": EffectState.EXECUTING}, ["e4"]),
    ),
)
APPROVALS = Listing(
    "approvals_page",
    "approvals_count",
    lambda item: item.approval_id,
    (
        ({}, ["a1", "a2", "a3", "a4", "a5"]),
        ({"order": "expiry"}, ["a5", "a1", "a3", "a4", "a2"]),
        ({"status": ApprovalStatus.PENDING}, ["a2", "a4", "a5"]),
        ({"status": ApprovalStatus.PENDING, "order": "expiry"}, ["a5", "a4", "a2"]),
        ({"status": ApprovalStatus.DENIED}, ["a3"]),
        ({"action_hash": "sha256:other"}, ["a4"]),
        ({"live_at": START_TIME + LEASE}, ["a1", "a2", "a3", "a4"]),
        ({"live_at": START_TIME + LEASE + TICK}, ["a2"]),
        ({"live_at": START_TIME + LEASE, "status": ApprovalStatus.PENDING}, ["a2", "a4"]),
        ({"status": ApprovalStatus.CONSUMED}, []),
    ),
)


def fill_receipts(store: UnitStateStore, clock: FakeClock) -> None:
    for number in range(1, 8):
        controls = ("SOX-1",) if number % 3 == 1 else ("SOX-10", "a,SOX-1")
        store.put_receipt(
            receipt(
                number,
                action_id="act_even" if number % 2 == 0 else "act_odd",
                effect_key="key:three" if number % 3 == 0 else None,
                controls=(*controls, 'q"é') if number == 4 else controls,
            )
        )


def fill_events(store: UnitStateStore, clock: FakeClock) -> None:
    for number in range(1, 8):
        kind: str = EventType.EFFECT_RESERVED if number % 3 == 1 else EventType.ACTION_PROPOSED
        store.append_event(
            event(
                "RUN_STARTED" if number == 2 else kind,
                action_id="act_even" if number % 2 == 0 else None,
                effect_key="key:three" if number % 3 == 0 else None,
                approval_id=f"apr_{number}",
                ts=START_TIME - number * SECOND,  # the id is the order, not the time
            )
        )


def fill_effects(store: UnitStateStore, clock: FakeClock) -> None:
    for number in range(1, 7):  # two of each moment: of these the first stored comes first
        clock.now = START_TIME + (number // 2) * TICK
        store.reserve_effect(f"e{number}", HOLDER, LEASE if number == 2 else number * LEASE)
    store.begin_execution("e4", HOLDER)
    for key in ("e1", "e5"):
        clock.now = START_TIME + 10 * TICK
        store.mark_ambiguous(key, HOLDER, "lost")
    clock.advance()
    store.mark_ambiguous("e3", HOLDER, "lost")
    clock.now = START_TIME + 3 * TICK


def fill_approvals(store: UnitStateStore, clock: FakeClock) -> None:
    store.put_approval_request(request(clock, "a1"))
    store.put_approval_request(request(clock, "a2", ttl=9 * LEASE))
    store.put_approval_request(request(clock, "a3"))
    store.put_approval_request(request(clock, "a4", action_hash="sha256:other"))
    store.put_approval_request(request(clock, "a5", ttl=SECOND))
    store.grant_approval("a1", "cli:ada")
    store.deny_approval("a3", "cli:ada")


FILL = {
    RECEIPTS.page: fill_receipts,
    EVENTS.page: fill_events,
    EFFECTS.page: fill_effects,
    APPROVALS.page: fill_approvals,
}


class Reader:
    """One list with its filters."""

    def __init__(self, store: UnitStateStore, listing: Listing, filters: dict[str, Any]) -> None:
        self._page = getattr(store, listing.page)
        self._count = getattr(store, listing.count)
        # Any iterable will do; one that is used up by a read shows where a store reads it twice.
        types = filters.get("types")
        self._types = None if types is None else list(types)
        self._filters = {key: value for key, value in filters.items() if key != "types"}

    def _all(self) -> dict[str, Any]:
        return (
            self._filters if self._types is None else self._filters | {"types": iter(self._types)}
        )

    def page(self, **cursors: Any) -> Page[Any]:
        page: Page[Any] = self._page(**cursors, **self._all())
        assert page.damaged == ()
        assert (page.before is None) is (page.after is None) is (page.items == ())
        return page

    def count(self) -> int:
        filters = {key: value for key, value in self._all().items() if key != "order"}
        counted: int = self._count(**filters)
        return counted


LISTINGS = pytest.mark.parametrize(
    "listing", [RECEIPTS, EVENTS, EFFECTS, APPROVALS], ids=lambda item: item.page
)


@LISTINGS
def test_pages_are_the_list_in_either_direction(
    store: UnitStateStore, clock: FakeClock, listing: Listing
) -> None:
    FILL[listing.page](store, clock)
    for filters, answer in listing.cases:
        reader, expected = Reader(store, listing, dict(filters)), list(answer)
        assert reader.count() == len(expected), filters
        for limit in (1, 2, 3, 100):
            case = (filters, limit)
            assert names(listing, reader.page(limit=limit)) == expected[-limit:], case
            assert walk(listing, reader, limit, forward=True) == expected, case
            assert walk(listing, reader, limit, forward=False) == expected, case


def names(listing: Listing, page: Page[Any]) -> list[object]:
    return [listing.name(item) for item in page.items]


def walk(listing: Listing, reader: Reader, limit: int, *, forward: bool) -> list[object]:
    """The whole list by pages, from its start or from its end."""
    found: list[object] = []
    page = reader.page(limit=limit, after=START) if forward else reader.page(limit=limit)
    while page.items:
        assert len(page.items) <= limit
        if forward:
            found += names(listing, page)
            page = reader.page(limit=limit, after=page.after)
        else:
            found[:0] = names(listing, page)
            page = reader.page(limit=limit, before=page.before)
    return found


@LISTINGS
def test_a_cursor_that_is_none_is_refused(
    store: UnitStateStore, clock: FakeClock, listing: Listing
) -> None:
    FILL[listing.page](store, clock)
    page = getattr(store, listing.page)
    cursor = page(limit=1).after
    for wrong in (
        {"limit": 0},
        {"limit": -1},
        {"limit": True},
        {"limit": 1, "after": cursor, "before": cursor},
        {"limit": 1, "after": "nonsense"},
        {"limit": 1, "before": "nonsense"},
        {"limit": 1, "before": START},
        {"limit": 1, "after": "-1"},
    ):
        with pytest.raises(InvalidArgument):
            page(**wrong)


@pytest.mark.parametrize("name", ["effects_page", "approvals_page"])
def test_an_unknown_order_is_refused(store: UnitStateStore, name: str) -> None:
    with pytest.raises(InvalidArgument, match="newest"):
        getattr(store, name)(limit=1, order="newest")


def test_an_events_cursor_is_its_id(store: UnitStateStore, clock: FakeClock) -> None:
    fill_events(store, clock)
    page = store.events_page(limit=3)
    assert (page.before, page.after) == ("5", "7")
    assert [item.event_id for item in store.events_page(after="2", limit=2).items] == [3, 4]
    assert store.events_page(after="99", limit=2).items == ()
    assert [item.event_id for item in store.events_page(before="99", limit=1).items] == [7]


def test_a_cursor_holds_its_place_while_the_list_grows(
    store: UnitStateStore, clock: FakeClock
) -> None:
    fill_effects(store, clock)
    page = store.effects_page(limit=2)
    store.reserve_effect("new", OTHER)
    assert [r.effect_key for r in store.effects_page(after=page.after, limit=9).items] == ["new"]
    assert [r.effect_key for r in store.effects_page(before=page.before, limit=2).items] == [
        "e3",
        "e4",
    ]


def test_an_empty_store_has_empty_pages(store: UnitStateStore) -> None:
    for listing in (RECEIPTS, EVENTS, EFFECTS, APPROVALS):
        assert getattr(store, listing.page)(limit=5) == Page(())
        assert getattr(store, listing.page)(limit=5, after=START) == Page(())
        assert getattr(store, listing.count)() == 0
    assert store.receipt_rows(limit=5) == ()


def test_the_change_token_moves_with_every_write_and_only_then(
    backend: str, store: UnitStateStore, clock: FakeClock
) -> None:
    token = store.change_token()
    if backend != "postgres":  # there it tells of the whole server, and other tests write to that
        assert store.change_token() == token
        store.list_effects()
        store.events_page(limit=1)
        assert store.change_token() == token
    for write in (
        lambda: store.reserve_effect("k", HOLDER),
        lambda: store.append_event(event()),
        lambda: store.put_receipt(receipt()),
        lambda: store.put_approval_request(request(clock)),
    ):
        write()
        assert store.change_token() != token
        token = store.change_token()
