"""What a reader may not ask: every store refuses the same, with InvalidArgument."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from ctrlrun.errors import InvalidArgument
from ctrlrun.state import UnitStateStore
from ctrlrun.state.tally import Stretch
from tests.cases import walk
from tests.lib.store_suite.helpers import KEY, START_TIME, FakeClock, event, receipt, request

NAIVE = datetime(2026, 9, 3)
LISTS = ("receipts_page", "events_page", "effects_page", "approvals_page", "delegations_page")
Ask = Callable[[Any], object]

NAIVE_TIMES: dict[str, Ask] = {
    "receipts_page": lambda store: store.receipts_page(limit=1, since=NAIVE),
    "receipts_count": lambda store: store.receipts_count(since=NAIVE),
    "effects_page": lambda store: store.effects_page(limit=1, lapsed_at=NAIVE),
    "effects_count": lambda store: store.effects_count(lapsed_at=NAIVE),
    "approvals_page": lambda store: store.approvals_page(limit=1, live_at=NAIVE),
    "approvals_count": lambda store: store.approvals_count(live_at=NAIVE),
    "receipts_place": lambda store: store.receipts_place(NAIVE),
    "receipts_tally": lambda store: store.receipts_tally(Stretch(since=NAIVE), limit=1),
    "receipts_ends": lambda store: store.receipts_ends(NAIVE, through="1"),
    "answers_tally": lambda store: store.answers_tally(START_TIME, since=NAIVE),
    "answers_tally until": lambda store: store.answers_tally(START_TIME, until=NAIVE),
    "answers_tally now": lambda store: store.answers_tally(NAIVE),
}
UNKNOWN_WORDS: dict[str, Ask] = {
    "list_effects": lambda store: store.list_effects("lost"),
    "effects_page": lambda store: store.effects_page(limit=1, state="lost"),
    "effects_count": lambda store: store.effects_count(state="lost"),
    "effects order": lambda store: store.effects_page(limit=1, order="lost"),
    "approvals_page": lambda store: store.approvals_page(limit=1, status="lost"),
    "approvals_count": lambda store: store.approvals_count(status="lost"),
    "approvals order": lambda store: store.approvals_page(limit=1, order="lost"),
}
BAD_CURSORS = (
    *("nonsense", "-1", "1.5", "[]", "[null]", "[1.5]", "[true]", "[[1]]", '["a"', "NaN", "\ud800"),
    *('["\\u0000","\\u0000"]', '[{"hex":"zz"},1]', '[{"x":"00"},1]', "9" * 30, "9" * 5_000),
    *(f"[{'9' * 30}]", f"[1,{'9' * 30}]", '["x",true]', '["x",null]', "[[[[", 5, b"1", [1]),
)


def fill(store: UnitStateStore, clock: FakeClock) -> None:
    store.reserve_effect(KEY, "act_1", timedelta(minutes=5))
    store.put_approval_request(request(clock))
    store.append_event(event())
    store.put_receipt(receipt())


@walk("ask", [*NAIVE_TIMES.values(), *UNKNOWN_WORDS.values()])
def check(store: UnitStateStore, ask: Ask) -> None:
    with pytest.raises(InvalidArgument):
        ask(store)


def test_a_time_without_an_offset_and_an_unknown_word_are_refused(
    store: UnitStateStore, clock: FakeClock
) -> None:
    check(store=store)  # an empty store refuses, too
    fill(store, clock)
    check(store=store)


def test_the_refusal_of_a_word_says_which_there_are(store: UnitStateStore) -> None:
    with pytest.raises(InvalidArgument, match=r"^no state 'lost'; there is: new, reserved, "):
        store.list_effects("lost")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"^no status 'lost'; there is: pending, granted, "):
        store.approvals_count(status="lost")  # type: ignore[arg-type]


def test_a_state_may_be_written_as_text(store: UnitStateStore, clock: FakeClock) -> None:
    fill(store, clock)
    assert store.effects_count(state="reserved") == 1  # type: ignore[arg-type]
    assert len(store.list_effects("reserved")) == 1  # type: ignore[arg-type]
    assert store.approvals_count(status="pending") == 1  # type: ignore[arg-type]


def test_a_cursor_that_no_page_gave_is_refused(store: UnitStateStore, clock: FakeClock) -> None:
    fill(store, clock)
    for name in LISTS:
        page = getattr(store, name)
        for cursor in BAD_CURSORS:
            for side in ("before", "after"):
                try:
                    with pytest.raises(InvalidArgument):
                        page(limit=1, **{side: cursor})
                except BaseException as error:
                    error.add_note(f"{name}({side}={cursor!r:.60})")
                    raise
    for cursor in BAD_CURSORS:
        with pytest.raises(InvalidArgument):
            store.receipt_rows(after=cursor, limit=1)  # type: ignore[arg-type]
