"""Whether a grant may be handed on, or taken back: the checks in their order, nothing written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.authority import (
    CONTAINMENT,
    MAX_DEPTH,
    NOT_THE_SUBJECT,
    PARENT_NOT_DELEGABLE,
    PARENT_NOT_VALID,
    UNKNOWN_PARENT,
    Authority,
    Delegation,
    DelegationReader,
    Grant,
    Subject,
)
from ctrlrun.conditions import Condition
from ctrlrun.errors import (
    ActionDenied,
    AuthorityEscalation,
    DamagedRow,
    IdentityError,
    InvalidArgument,
)
from tests.cases import walk
from tests.lib.authority.helpers import (
    NOW,
    TICK,
    PlainStore,
    action,
    authority,
    dlg,
    grant,
    memory,
    parent_grant,
    record,
    verdict,
)

HEAD = Principal("head")
BOT = Principal("bot")
EXPIRED = Principal("head", expires_at=NOW - TICK)
ROOT = parent_grant()
UNTIL = datetime(2026, 12, 1, tzinfo=UTC)


def part(**fields: Any) -> Grant:
    return grant("", **{"agent": "bot", "expires_at": UNTIL, **fields})


def plan(
    store: DelegationReader | None = None,
    *,
    document: Authority | None = None,
    parent_id: str = "root",
    made: Grant | None = None,
    by: Principal = HEAD,
    now: datetime = NOW,
) -> Delegation:
    return (document or authority(ROOT)).plan_delegation(
        parent_id,
        part() if made is None else made,
        by=by,
        store=memory() if store is None else store,
        now=now,
    )


def refusal(*args: Any, **kwargs: Any) -> AuthorityEscalation:
    with pytest.raises(AuthorityEscalation) as caught:
        plan(*args, **kwargs)
    error = caught.value
    assert not isinstance(error, ActionDenied)
    assert str(error).startswith(f"{error.reason}: ")
    assert "\n" not in str(error)
    return error


def test_what_is_planned() -> None:
    by = Principal("head", "ana@x", claims={"team": "x"})
    made = plan(by=by)
    assert made.delegation_id == made.grant.id
    assert made.delegation_id.startswith("dlg_") and len(made.delegation_id) == 36
    assert (made.parent_id, made.depth, made.created_via) == ("root", 1, "api")
    assert (made.created_by, made.created_at) == (by, NOW)
    assert (made.revoked_at, made.revoked_by, made.is_revoked) == (None, None, False)
    assert made.grant.actions == ("stripe.refund",)


def test_planning_writes_nothing_and_two_plans_are_two() -> None:
    store = memory()
    assert plan(store).delegation_id != plan(store).delegation_id
    assert store.delegations(include_revoked=True) == ()
    assert store.events() == ()


def test_what_was_planned_covers_once_it_is_stored() -> None:
    store, document = memory(), authority(ROOT)
    made = plan(store, document=document)
    store.put_delegation(made.to_record())
    assert verdict(document, action(), store).delegation_id == made.delegation_id
    beneath = plan(store, document=document, parent_id="root", made=part(agent="leaf"))
    assert beneath.depth == 1


@walk("offset", [0, 2, -11])
def test_a_time_of_any_offset_is_recorded_in_utc(offset: int) -> None:
    now = NOW.astimezone(timezone(timedelta(hours=offset)))
    assert plan(now=now).to_record().created_at.isoformat() == NOW.isoformat()


def mid(**fields: Any) -> Any:
    """The row of `bot`, which may hand it on."""
    return record(1, **fields)


LEAF = part(agent="leaf")
REVOKED: dict[str, Any] = {"revoked_at": NOW, "revoked_by": "x"}


@walk("kind", [memory, PlainStore])
@walk(
    ("rows", "reason"),
    [
        ([mid()], None),
        ([], UNKNOWN_PARENT),
        ([mid(**REVOKED)], UNKNOWN_PARENT),
        ([mid(grant={"delegable": False})], PARENT_NOT_DELEGABLE),
        ([mid(grant={"expires_at": (NOW - TICK).isoformat()})], PARENT_NOT_VALID),
        ([mid(grant_json="{}")], PARENT_NOT_VALID),
        ([mid(parent_id="gone")], PARENT_NOT_VALID),
        ([mid(parent_id=dlg(2)), record(2, dlg(1))], PARENT_NOT_VALID),
        ([mid(parent_id=dlg(1))], PARENT_NOT_VALID),
        ([mid(parent_id=dlg(2)), record(2, **REVOKED)], PARENT_NOT_VALID),
        ([mid(parent_id=dlg(2)), record(2, grant_json="{}")], PARENT_NOT_VALID),
        ([mid(parent_id=dlg(2)), record(2, grant={"delegable": False})], PARENT_NOT_VALID),
        (
            [mid(parent_id=dlg(2)), record(2, grant={"expires_at": (NOW - TICK).isoformat()})],
            PARENT_NOT_VALID,
        ),
        # The parent's own chain is looked at anew: it is wider than what it stands on.
        ([mid(parent_id=dlg(2)), record(2, grant={"actions": ["stripe.void"]})], PARENT_NOT_VALID),
        ([mid(grant={"actions": ["**"]})], PARENT_NOT_VALID),
        ([mid(grant={"subject": {"agent": "other", "user": None}})], NOT_THE_SUBJECT),
        ([mid(grant={"subject": {"agent": "bot", "user": "ana@x"}})], NOT_THE_SUBJECT),
    ],
)
def test_what_may_be_handed_on_from_a_delegation(
    kind: Any, rows: list[Any], reason: str | None
) -> None:
    store = kind(*rows)
    if reason is None:
        assert plan(store, parent_id=dlg(1), made=LEAF, by=BOT).depth == 2
        return
    error = refusal(store, parent_id=dlg(1), made=LEAF, by=BOT)
    assert (error.reason, error.parent_id, error.dimension) == (reason, dlg(1), None)


@walk(
    ("root", "by", "reason"),
    [
        (parent_grant(delegable=False), HEAD, PARENT_NOT_DELEGABLE),
        (parent_grant(expires_at=NOW - TICK), HEAD, PARENT_NOT_VALID),
        (parent_grant(), BOT, NOT_THE_SUBJECT),
        (parent_grant(user="ana@x"), HEAD, NOT_THE_SUBJECT),
        (parent_grant("other"), HEAD, UNKNOWN_PARENT),
    ],
)
def test_what_may_be_handed_on_from_a_grant(root: Grant, by: Principal, reason: str) -> None:
    error = refusal(document=authority(root), by=by)
    assert (error.reason, error.parent_id) == (reason, "root")


@walk(("depth", "allowed"), [(0, False), (1, False), (2, True), (3, True)])
def test_the_depth_is_walked_and_not_read(depth: int, allowed: bool) -> None:
    store, document = memory(mid(depth=77)), authority(ROOT, depth=depth)
    if allowed:
        assert plan(store, document=document, parent_id=dlg(1), made=LEAF, by=BOT).depth == 2
    else:
        error = refusal(store, document=document, parent_id=dlg(1), made=LEAF, by=BOT)
        assert error.reason == MAX_DEPTH


def test_depth_zero_hands_nothing_on() -> None:
    assert refusal(document=authority(ROOT, depth=0)).reason == MAX_DEPTH


@walk(
    ("changes", "dimension"),
    [
        ({"agent": "bot-*"}, "subject"),
        ({"actions": ("**",)}, "actions"),
        ({"expires_at": None}, "expires_at"),
    ],
)
def test_a_wider_grant_is_refused_with_its_dimension(
    changes: dict[str, Any], dimension: str
) -> None:
    error = refusal(made=part(**changes))
    assert (error.reason, error.dimension) == (CONTAINMENT, dimension)
    assert dimension in str(error)


# --- the order of the checks ---------------------------------------------------------------------

WIDE = part(actions=("**",))


def test_the_first_check_that_fails_is_told() -> None:
    """Each step mends one thing more; the refusal moves on by one."""
    fixed = parent_grant(delegable=False, expires_at=NOW - TICK)
    steps: list[tuple[Grant, Principal, int, str]] = [
        (fixed, BOT, 0, PARENT_NOT_DELEGABLE),
        (parent_grant(expires_at=NOW - TICK), BOT, 0, PARENT_NOT_VALID),
        (ROOT, BOT, 0, NOT_THE_SUBJECT),
        (ROOT, HEAD, 0, MAX_DEPTH),
        (ROOT, HEAD, 1, CONTAINMENT),
    ]
    for root, by, depth, reason in steps:
        found = refusal(document=authority(root, depth=depth), by=by, made=WIDE)
        assert found.reason == reason


def test_an_expired_principal_comes_first() -> None:
    with pytest.raises(IdentityError):
        plan(by=EXPIRED, parent_id="gone", made=grant("named"))
    assert plan(by=Principal("head", expires_at=NOW)).depth == 1


def test_a_grant_with_an_id_comes_before_the_parent() -> None:
    with pytest.raises(InvalidArgument, match="assigned"):
        plan(parent_id="gone", made=grant("named"))


@walk(
    "changes",
    [{"by": "head"}, {"parent_id": 5}, {"made": {"actions": []}}, {"now": datetime(2030, 1, 1)}],
)
def test_wiring_that_can_never_be_right(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        plan(**changes)


def test_a_root_is_looked_up_first() -> None:
    document = authority(parent_grant(dlg(1)))
    made = plan(memory(mid(**REVOKED)), document=document, parent_id=dlg(1))
    assert made.depth == 1


def test_rows_of_others_that_nobody_can_read_do_not_matter() -> None:
    assert plan(memory(record(9, grant_json="{}"))).depth == 1


def test_no_grant_can_be_built_that_a_store_would_not_give_back() -> None:
    """Nested operands, other scripts, odd offsets: planned, stored, read, and still the same."""
    odd = timezone(timedelta(hours=5, minutes=45, seconds=30))
    made = Grant(
        "",
        Subject("bôt"),
        ("stripe.réfund",),
        constraints={"a_eq": Condition("a_eq", "a", "eq", {"x": [1, {"y": None}], "é": True})},
        expires_at=UNTIL.astimezone(odd),
    )
    store, document = memory(), authority(ROOT)
    planned = plan(store, document=document, made=made)
    store.put_delegation(planned.to_record())
    again = document.plan_revocation(planned.delegation_id, by="x", store=store, now=NOW)
    assert again.grant == planned.grant
    assert again.to_record() == planned.to_record()


# --- taking back ---------------------------------------------------------------------------------


@walk("kind", [memory, PlainStore])
def test_a_revocation_is_planned_on_what_stands(kind: Any) -> None:
    document, store = authority(ROOT), kind(mid())
    found = document.plan_revocation(dlg(1), by="cli:local", store=store, now=NOW)
    assert found.to_record().delegation_id == dlg(1)
    assert not found.is_revoked
    assert store.get_delegation(dlg(1)) == mid()


def test_a_revoked_one_is_told_as_it_is() -> None:
    store = memory(mid(**REVOKED))
    found = authority(ROOT).plan_revocation(dlg(1), by=None, store=store, now=NOW)
    assert (found.is_revoked, found.revoked_by) == (True, "x")


@walk("delegation_id", ["root", "gone", dlg(2)])
def test_only_delegations_can_be_taken_back(delegation_id: str) -> None:
    with pytest.raises(InvalidArgument, match=delegation_id):
        authority(ROOT).plan_revocation(delegation_id, by="x", store=memory(mid()), now=NOW)


@walk("kind", [memory, PlainStore])
def test_a_row_that_nobody_can_read_is_named(kind: Any) -> None:
    with pytest.raises(DamagedRow) as caught:
        authority(ROOT).plan_revocation(dlg(1), by="x", store=kind(mid(grant_json="")), now=NOW)
    assert caught.value.row_id == dlg(1)


@walk("by", ["", "  ", 5])
def test_whoever_takes_back_has_a_name_or_none(by: Any) -> None:
    with pytest.raises(InvalidArgument, match="by"):
        authority(ROOT).plan_revocation(dlg(1), by=by, store=memory(mid()), now=NOW)
