"""Effects in every store: the table of calls by record, and what each leaves behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from ctrlrun.effect import LEASE_EXPIRED, EffectRecord, EffectState, Reservation
from ctrlrun.errors import AmbiguousEffect, InvalidArgument
from ctrlrun.state import UnitStateStore
from tests.lib.store_suite.conftest import walk_stores
from tests.lib.store_suite.helpers import (
    CONDITIONS,
    HOLDER,
    KEY,
    LEASE,
    OTHER,
    SECOND,
    TICK,
    FakeClock,
    bring_about,
    effect,
    refused,
)

# One line a call, one column a condition of the record; "own / other" where it matters who calls.
# ok: done. ip, done: DuplicateEffect (in_progress, committed). AE: AmbiguousEffect. IA:
# InvalidArgument. lost: AE, and the lapsed record becomes ambiguous all the same.
TABLE = """
call             none  reserved live  reserved lapsed  executing live  executing lapsed  committed  failed  ambiguous
reserve_effect   ok    ip             lost             ip              lost              done       ok      AE
begin_execution  IA    ok/ip          ok/IA            IA/ip           IA                done       IA      AE
commit_effect    IA    IA/ip          IA               ok/ip           ok/IA             done       IA      AE
fail_effect      IA    IA/ip          IA               ok/ip           ok/IA             done       IA      AE
mark_ambiguous   IA    ok/ip          ok/IA            ok/ip           ok/IA             done       IA      ok/AE
extend_lease     AE    ip             AE               ok/ip           AE                done       AE      AE
resolve_effect   IA    IA             IA               IA              IA                IA         IA      ok
"""


def cells() -> list[tuple[str, str, str, str]]:
    """(call, condition, caller, what is expected) of every cell."""
    found = []
    for line in TABLE.strip().splitlines()[1:]:
        call, *columns = line.split()
        assert len(columns) == len(CONDITIONS)
        for condition, cell in zip(CONDITIONS, columns, strict=True):
            own, _, other = cell.partition("/")
            found.append((call, condition, HOLDER, own))
            found.append((call, condition, OTHER, other or own))
    return found


def call(store: UnitStateStore, clock: FakeClock, name: str, caller: str) -> Any:
    """Make a call of the table."""
    calls: dict[str, Callable[[], object]] = {
        "reserve_effect": lambda: store.reserve_effect(KEY, caller, LEASE),
        "begin_execution": lambda: store.begin_execution(KEY, caller),
        "commit_effect": lambda: store.commit_effect(KEY, caller, ("a", 1)),
        "fail_effect": lambda: store.fail_effect(KEY, caller, "newer"),
        "mark_ambiguous": lambda: store.mark_ambiguous(KEY, caller, "newer"),
        "extend_lease": lambda: store.extend_lease(KEY, caller, clock() + 2 * LEASE),
        "resolve_effect": lambda: store.resolve_effect(KEY, EffectState.FAILED, "cli:local"),
    }
    return calls[name]()


def written(before: EffectRecord | None, name: str, caller: str, now: datetime) -> EffectRecord:
    """The record that an accepted call leaves."""
    if before is None:
        return EffectRecord(KEY, EffectState.RESERVED, caller, 1, now, now, now + LEASE)
    changes: dict[str, dict[str, Any]] = {
        "reserve_effect": {
            "state": EffectState.RESERVED,
            "action_id": caller,
            "attempt": before.attempt + 1,
            "lease_expires_at": now + LEASE,
            "result": None,
            "error": None,
            "resolved_by": None,
        },
        "begin_execution": {"state": EffectState.EXECUTING},
        "commit_effect": {
            "state": EffectState.COMMITTED,
            "lease_expires_at": None,
            "result": ["a", 1],
        },
        "fail_effect": {"state": EffectState.FAILED, "lease_expires_at": None, "error": "newer"},
        "mark_ambiguous": {
            "state": EffectState.AMBIGUOUS,
            "lease_expires_at": None,
            "error": "newer",
        },
        "extend_lease": {"lease_expires_at": now + 2 * LEASE},
        "resolve_effect": {
            "state": EffectState.FAILED,
            "error": "resolved failed by cli:local (was: TimeoutError: no reply)",
            "resolved_by": "cli:local",
        },
    }
    return replace(before, updated_at=now, **changes[name])


@walk_stores(("name", "condition", "caller", "expected"), cells())
def test_call_by_record(
    store: UnitStateStore, clock: FakeClock, name: str, condition: str, caller: str, expected: str
) -> None:
    bring_about(store, clock, condition)
    before = store.get_effect(KEY)
    now = clock.advance()
    if expected == "ok":
        call(store, clock, name, caller)
        assert effect(store) == written(before, name, caller, now)
        return
    error = refused(
        "AE" if expected == "lost" else expected, lambda: call(store, clock, name, caller)
    )
    assert KEY in str(error)
    if isinstance(error, AmbiguousEffect):
        assert (error.effect_key, error.action_id) == (KEY, before and before.action_id)
    if expected == "lost":
        assert before is not None
        assert effect(store) == replace(
            before,
            state=EffectState.AMBIGUOUS,
            updated_at=now,
            lease_expires_at=None,
            error=LEASE_EXPIRED,
        )
    else:
        assert store.get_effect(KEY) == before


@walk_stores("condition", CONDITIONS)
def test_an_effect_is_never_removed_and_reads_change_nothing(
    store: UnitStateStore, clock: FakeClock, condition: str
) -> None:
    bring_about(store, clock, condition)
    before = store.get_effect(KEY)
    clock.advance(10 * LEASE)
    store.list_effects()
    store.effects_page(limit=5, lapsed_at=clock())
    assert store.get_effect(KEY) == before


# --- reserving -----------------------------------------------------------------------------------


def test_a_reservation_says_what_was_stored(store: UnitStateStore, clock: FakeClock) -> None:
    reservation = store.reserve_effect(KEY, HOLDER, 2 * LEASE)
    assert reservation == Reservation(KEY, HOLDER, 1, clock() + 2 * LEASE)
    assert effect(store).lease_expires_at == reservation.lease_expires_at


def test_a_lease_lives_at_its_last_moment(store: UnitStateStore, clock: FakeClock) -> None:
    store.reserve_effect(KEY, HOLDER, LEASE)
    clock.advance(LEASE)
    refused("ip", lambda: store.reserve_effect(KEY, OTHER))
    clock.advance(TICK)
    refused("AE", lambda: store.reserve_effect(KEY, OTHER))
    assert effect(store).state is EffectState.AMBIGUOUS


def test_a_default_lease_is_five_minutes(store: UnitStateStore, clock: FakeClock) -> None:
    assert store.reserve_effect(KEY, HOLDER).lease_expires_at == clock() + timedelta(minutes=5)


def test_refusals_say_whose_it_is_and_how_to_go_on(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "reserved live")
    assert HOLDER in str(refused("ip", lambda: store.reserve_effect(KEY, OTHER)))
    clock.advance(2 * LEASE)
    for _ in range(2):  # the lapsed record, then the ambiguous one
        message = str(refused("AE", lambda: store.reserve_effect(KEY, OTHER)))
        assert HOLDER in message
        assert f"ctrlrun resolve {KEY}" in message


def test_a_refused_transition_says_the_state(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "failed")
    assert "failed" in str(refused("IA", lambda: store.commit_effect(KEY, HOLDER, None)))


@walk_stores("lease", [timedelta(0), -SECOND, timedelta.max, 5, None])
def test_a_lease_that_is_none_is_refused(store: UnitStateStore, lease: Any) -> None:
    refused("IA", lambda: store.reserve_effect(KEY, HOLDER, lease))
    assert store.list_effects() == ()


@walk_stores(("key", "action_id"), [("", HOLDER), (KEY, ""), ("\ud800", HOLDER)])
@walk_stores(
    "name", ["reserve_effect", "begin_execution", "commit_effect", "fail_effect", "mark_ambiguous"]
)
def test_names_that_are_none_are_refused(
    store: UnitStateStore, name: str, key: str, action_id: str
) -> None:
    method = getattr(store, name)
    values = {"commit_effect": (None,), "fail_effect": ("e",), "mark_ambiguous": ("e",)}
    refused("IA", lambda: method(key, action_id, *values.get(name, ())))
    assert store.list_effects() == ()


def test_a_retry_after_a_failure_starts_clean(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "ambiguous")
    store.resolve_effect(KEY, EffectState.FAILED, "tui:alice")
    created = effect(store).created_at
    for attempt in (2, 3):
        now = clock.advance()
        assert store.reserve_effect(KEY, HOLDER).attempt == attempt
        assert effect(store) == EffectRecord(
            KEY, EffectState.RESERVED, HOLDER, attempt, created, now, now + LEASE
        )
        store.begin_execution(KEY, HOLDER)
        store.fail_effect(KEY, HOLDER, "no")


# --- outcomes ------------------------------------------------------------------------------------


def test_a_newer_error_replaces_the_older(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "ambiguous")
    store.mark_ambiguous(KEY, HOLDER, "second")
    assert effect(store).error == "second"


def test_an_outcome_is_recorded_whatever_its_text(
    backend: str, store: UnitStateStore, clock: FakeClock
) -> None:
    bring_about(store, clock, "executing live")
    store.mark_ambiguous(KEY, HOLDER, "café \ud800 \x00 \u202e")
    nul = "\\u0000" if backend == "postgres" else "\x00"  # no text there holds one
    assert effect(store).error == f"café \\ud800 {nul} \u202e"


@walk_stores(
    ("result", "read"),
    [
        (None, None),
        ({"a": (1, 2), 3: None, True: "x"}, {"a": [1, 2], "3": None, "true": "x"}),
        ([float("nan"), float("inf")], ["nan", "inf"]),
        ("café ☃", "café ☃"),
        ({"when": datetime(2026, 1, 1)}, {"when": "datetime.datetime(2026, 1, 1, 0, 0)"}),
        ({(1, 2): "x"}, {"repr": "{(1, 2): 'x'}"}),
        (b"raw", "b'raw'"),
    ],
)
def test_a_result_reads_back_as_stored(
    store: UnitStateStore, clock: FakeClock, result: Any, read: Any
) -> None:
    bring_about(store, clock, "executing live")
    store.commit_effect(KEY, HOLDER, result)
    assert effect(store).result == read
    assert store.list_effects()[0].result == read
    assert store.effects_page(limit=1).items[0].result == read


def test_a_stored_result_is_nobodys_object(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "executing live")
    mine = {"charges": [1]}
    store.commit_effect(KEY, HOLDER, mine)
    mine["charges"].append(2)
    effect(store).result["charges"].append(3)
    assert effect(store).result == {"charges": [1]}


# --- answers -------------------------------------------------------------------------------------


@walk_stores("state", [EffectState.COMMITTED, EffectState.FAILED])
def test_an_answer_names_its_giver_and_keeps_the_cause(
    store: UnitStateStore, clock: FakeClock, state: EffectState
) -> None:
    bring_about(store, clock, "ambiguous")
    before = effect(store)
    now = clock.advance()
    answered = store.resolve_effect(KEY, state, "tui:alice")
    assert answered == effect(store)
    assert answered == replace(
        before,
        state=state,
        updated_at=now,
        error=f"resolved {state} by tui:alice (was: TimeoutError: no reply)",
        resolved_by="tui:alice",
    )


@walk_stores(
    "name", ["", " ", "two\nlines", "tab\t", "\u202ecli", "zero\u200bwidth", "para\u2029", 7, None]
)
def test_an_answer_needs_a_visible_name(store: UnitStateStore, clock: FakeClock, name: Any) -> None:
    bring_about(store, clock, "ambiguous")
    before = effect(store)
    refused("IA", lambda: store.resolve_effect(KEY, EffectState.FAILED, name))
    assert effect(store) == before


def test_a_name_with_a_lone_surrogate_is_stored_escaped(
    store: UnitStateStore, clock: FakeClock
) -> None:
    bring_about(store, clock, "ambiguous")
    store.resolve_effect(KEY, EffectState.FAILED, "cli:\udcff")
    assert effect(store).resolved_by == "cli:\\udcff"


@walk_stores("state", ["new", "reserved", "executing", "ambiguous", "gone"])
def test_an_answer_is_committed_or_failed(
    store: UnitStateStore, clock: FakeClock, state: Any
) -> None:
    bring_about(store, clock, "ambiguous")
    before = effect(store)
    refused("IA", lambda: store.resolve_effect(KEY, state, "cli:local"))
    assert effect(store) == before


@walk_stores(
    ("seen", "is_taken"),
    [
        ({}, True),
        ({"attempt": 2, "action_id": OTHER}, True),
        ({"attempt": 1}, False),
        ({"action_id": HOLDER}, False),
        ({"attempt": 2, "action_id": HOLDER}, False),
        ({"attempt": 0}, False),
        ({"action_id": ""}, False),
    ],
)
def test_an_answer_is_bound_to_the_attempt_that_was_seen(
    store: UnitStateStore, clock: FakeClock, seen: dict[str, Any], is_taken: bool
) -> None:
    bring_about(store, clock, "failed")
    store.reserve_effect(KEY, OTHER)
    store.mark_ambiguous(KEY, OTHER, "lost again")
    before = effect(store)
    if is_taken:
        assert store.resolve_effect(KEY, EffectState.FAILED, "cli:local", **seen).attempt == 2
        return
    error = refused(
        "IA", lambda: store.resolve_effect(KEY, EffectState.FAILED, "cli:local", **seen)
    )
    assert "attempt 2" in str(error)
    assert OTHER in str(error)
    assert effect(store) == before


# --- leases --------------------------------------------------------------------------------------


def test_a_lease_is_never_cut(store: UnitStateStore, clock: FakeClock) -> None:
    bring_about(store, clock, "executing live")
    held = effect(store).lease_expires_at
    assert held is not None
    refused("IA", lambda: store.extend_lease(KEY, HOLDER, held - TICK))
    assert effect(store).lease_expires_at == held
    store.extend_lease(KEY, HOLDER, held)
    store.extend_lease(KEY, HOLDER, held + TICK)
    assert effect(store).lease_expires_at == held + TICK


def test_a_lease_can_be_extended_in_its_last_moment(
    store: UnitStateStore, clock: FakeClock
) -> None:
    bring_about(store, clock, "executing live")
    held = effect(store).lease_expires_at
    assert held is not None
    clock.now = held
    store.extend_lease(KEY, HOLDER, held + TICK)
    clock.now = held + 2 * TICK
    refused("AE", lambda: store.extend_lease(KEY, HOLDER, held + LEASE))


def test_an_extension_needs_a_time_to_come(store: UnitStateStore, clock: FakeClock) -> None:
    for condition in ("none", "executing live"):
        bring_about(store, clock, condition)
        for until in (clock(), clock() - TICK, (clock() + LEASE).replace(tzinfo=None)):
            refused("IA", partial(store.extend_lease, KEY, HOLDER, until))
        refused("IA", lambda: store.extend_lease(KEY, "", clock() + LEASE))


# --- lists ---------------------------------------------------------------------------------------


def test_effects_are_listed_by_age(backend: str, store: UnitStateStore, clock: FakeClock) -> None:
    later = clock() + LEASE
    for key, at in [("late", later), ("b", clock()), ("a", clock())]:
        clock.now = at
        store.reserve_effect(key, HOLDER)
    store.begin_execution("a", HOLDER)
    store.fail_effect("a", HOLDER, "no")
    store.reserve_effect("a", OTHER)
    # Of one time: by insertion, in Postgres by key.
    expected = ["a", "b", "late"] if backend == "postgres" else ["b", "a", "late"]
    assert [record.effect_key for record in store.list_effects()] == expected
    assert [r.effect_key for r in store.list_effects(EffectState.RESERVED)] == expected
    assert store.list_effects(EffectState.NEW) == ()
    assert store.get_effect("nobody") is None


def test_a_clock_without_an_offset_is_refused(store: UnitStateStore, clock: FakeClock) -> None:
    clock.now = clock.now.replace(tzinfo=None)
    with pytest.raises(InvalidArgument, match="offset"):
        store.reserve_effect(KEY, HOLDER)
