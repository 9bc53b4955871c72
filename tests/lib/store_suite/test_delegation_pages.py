"""Pages of delegations: the same in every store, in either direction, under every filter."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlrun.errors import InvalidArgument
from ctrlrun.operator.pages import SingleCallReader
from ctrlrun.state import DelegationRecord, UnitStateStore
from ctrlrun.state.page import START
from tests.cases import walk
from tests.lib.store_suite.helpers import FakeClock

CASES: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["dlg_6", "dlg_4", "dlg_2"]),
    ({"include_revoked": True}, ["dlg_6", "dlg_5", "dlg_4", "dlg_3", "dlg_2", "dlg_1"]),
    ({"parent_id": "head"}, ["dlg_6", "dlg_4"]),
    ({"parent_id": "head", "include_revoked": True}, ["dlg_6", "dlg_4", "dlg_3"]),
    ({"parent_id": "nobody"}, []),
]


@pytest.fixture
def filled(store: UnitStateStore, clock: FakeClock) -> UnitStateStore:
    """Six delegations, stored in an order that is neither that of their ids nor of their times."""
    for number in (6, 5, 4, 3, 2, 1):
        parent = "head" if number % 3 == 0 or number == 4 else f"dlg_{number + 1}"
        clock.advance(-clock.now.resolution)
        store.put_delegation(
            DelegationRecord(f"dlg_{number}", parent, 1, "{}", "a", None, "api", clock())
        )
        if number % 2:
            store.revoke_delegation(f"dlg_{number}", by=None, at=clock())
    return store


@walk(("filters", "expected"), CASES)
@walk("limit", [1, 2, 3, 100])
@walk("single", [False, True])
def test_pages_are_the_list(
    backend: str,
    filled: UnitStateStore,
    filters: dict[str, Any],
    expected: list[str],
    limit: int,
    single: bool,
) -> None:
    if backend == "postgres":  # it lists by the times, which run backwards here
        expected = expected[::-1]
    reader: Any = SingleCallReader(filled) if single else filled

    def ids(page: Any) -> list[str]:
        assert page.damaged == ()
        return [record.delegation_id for record in page.items]

    assert reader.delegations_count(**filters) == len(expected)
    page = reader.delegations_page(limit=limit, **filters)
    assert ids(page) == expected[-limit:]
    backward: list[str] = []
    while page.items:
        backward[:0] = ids(page)
        page = reader.delegations_page(limit=limit, before=page.before, **filters)
    forward: list[str] = []
    page = reader.delegations_page(limit=limit, after=START, **filters)
    while page.items:
        forward += ids(page)
        page = reader.delegations_page(limit=limit, after=page.after, **filters)
    assert (backward, forward) == (expected, expected)


@walk(
    "wrong",
    [{"limit": 0}, {"limit": 1, "after": "nonsense"}, {"limit": 1, "before": "[1,2,3]"}],
)
def test_a_cursor_that_is_none_is_refused(filled: UnitStateStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        filled.delegations_page(**wrong)
