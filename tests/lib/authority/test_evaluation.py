"""Whether an action is covered: shapes, limits, times, and which refusal is told."""

from __future__ import annotations

import logging
from datetime import datetime
from typing import Any

import pytest

from ctrlrun.authority import Authority
from ctrlrun.errors import InvalidArgument
from tests.cases import walk
from tests.lib.authority.helpers import (
    NOW,
    TICK,
    action,
    authority,
    dlg,
    facts,
    grant,
    memory,
    parent_grant,
    record,
    verdict,
)

HEAD_OF_SUPPORT = grant(
    "hos",
    agent="head-of-support",
    user="dana@x",
    resources=("payment:EU-*",),
    constraints={"amount_gte": 0, "amount_lte": 200_000},
    environments=("production",),
)
READER = grant("reader", agent="read-*", actions=("crm.*",))
ADMIN = grant("admin", agent=None, user="root@x", actions=("**",))
OLD = grant("old", agent="temp", constraints={"amount_lte": 10}, expires_at=NOW)
COMPANY = authority(HEAD_OF_SUPPORT, READER, ADMIN, OLD)

DANA: dict[str, Any] = {
    "agent": "head-of-support",
    "user": "dana@x",
    "resource": "payment:EU-1",
    "amount": 100,
}


@walk(
    ("changes", "reason"),
    [
        ({}, "authority_grant"),
        ({"resource": "payment:EU-"}, "authority_grant"),
        ({"amount": 200_000}, "authority_grant"),
        ({"amount": 0}, "authority_grant"),
        ({"amount": 200_001}, "authority_constraint"),
        ({"amount": -1}, "authority_constraint"),
        ({"amount": "100"}, "authority_constraint"),
        ({"amount": True}, "authority_constraint"),
        ({"resource": "payment:US-1"}, "no_authority"),
        ({"resource": "payment:EU-1:leg2"}, "no_authority"),
        ({"resource": None}, "no_authority"),
        ({"environment": "staging"}, "no_authority"),
        ({"name": "Stripe.refund"}, "no_authority"),
        ({"user": None}, "no_authority"),
        ({"user": "bob"}, "no_authority"),
        ({"agent": "Head-of-support"}, "no_authority"),
    ],
)
def test_a_grant_with_everything(changes: dict[str, Any], reason: str) -> None:
    result = verdict(COMPANY, action(**{**DANA, **changes}))
    assert (result.passed, result.reason) == (reason == "authority_grant", reason)
    assert facts(result) == ({} if reason == "no_authority" else {"grant_id": "hos"})


def test_an_absent_argument_keeps_no_limit_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    asked = {key: value for key, value in DANA.items() if key != "amount"}
    assert verdict(COMPANY, action(**asked)).reason == "authority_constraint"
    (warning,) = caplog.records
    assert warning.levelno == logging.WARNING
    assert "'amount'" in warning.getMessage()


def test_an_argument_of_the_wrong_type_is_named(caplog: pytest.LogCaptureFixture) -> None:
    verdict(COMPANY, action(**{**DANA, "amount": "100"}))
    (warning,) = caplog.records
    assert "'amount'" in warning.getMessage()


@walk(
    ("asked", "now", "reason", "grant_id"),
    [
        (action("crm.read", agent="read-1"), NOW, "authority_grant", "reader"),
        (action("crm.read", agent="read-", resource="x:y"), NOW, "authority_grant", "reader"),
        (action("crm.read", agent="reader"), NOW, "no_authority", None),
        (action("crm.read.all", agent="read-1"), NOW, "no_authority", None),
        (
            action("any.thing", agent="anyone", user="root@x", environment="staging"),
            NOW,
            "authority_grant",
            "admin",
        ),
        (action(agent="temp", amount=5), NOW, "authority_grant", "old"),
        (action(agent="temp", amount=5), NOW + TICK, "authority_expired", "old"),
        (action(agent="temp", amount=50), NOW, "authority_constraint", "old"),
        (action(agent="temp", amount=50), NOW + TICK, "authority_expired", "old"),
    ],
)
def test_the_other_grants(asked: Any, now: datetime, reason: str, grant_id: str | None) -> None:
    result = verdict(COMPANY, asked, now=now)
    assert (result.reason, result.grant_id) == (reason, grant_id)


def test_no_grants_cover_nothing() -> None:
    assert verdict(authority(), action()).reason == "no_authority"


@walk("turn", [1, -1])
def test_the_lowest_id_that_passes_is_reported_whatever_the_order(turn: int) -> None:
    grants = [grant(name) for name in ("b", "B", "a")][::turn]
    assert verdict(authority(*grants), action()).grant_id == "B"


def test_one_that_passes_is_enough() -> None:
    grants = authority(grant("a", constraints={"amount_lte": 1}), grant("z"))
    assert verdict(grants, action(amount=5)).grant_id == "z"


PAST = NOW - TICK


@walk(
    ("present", "reason", "grant_id"),
    [
        (["escalation", "revoked", "expired", "constraint"], "authority_escalation", dlg(4)),
        (["revoked", "expired", "constraint"], "authority_revoked", dlg(3)),
        (["expired", "constraint"], "authority_expired", "b"),
        (["constraint"], "authority_constraint", "a"),
        ([], "no_authority", None),
    ],
)
def test_the_gravest_refusal_is_told(present: list[str], reason: str, grant_id: str | None) -> None:
    grants = [parent_grant()]
    if "constraint" in present:
        grants += [grant(name, constraints={"amount_lte": 1}) for name in ("z", "a")]
    if "expired" in present:
        grants += [grant(name, expires_at=PAST) for name in ("y", "b")]
    store = memory()
    for number in (5, 3) if "revoked" in present else ():
        store.put_delegation(record(number, revoked_at=NOW, revoked_by="cli:local"))
    for number in (6, 4) if "escalation" in present else ():
        store.put_delegation(record(number, parent_id="gone"))
    for order in (grants, grants[::-1]):
        result = verdict(authority(*order), action(amount=5), store)
        assert (result.reason, result.grant_id) == (reason, grant_id)


def test_a_grant_for_another_action_says_nothing() -> None:
    store = memory(record(1, parent_id="gone", grant={"actions": ["crm.read"]}))
    assert verdict(authority(parent_grant()), action(), store).reason == "no_authority"


def test_a_moment_needs_an_offset() -> None:
    with pytest.raises(InvalidArgument, match="offset"):
        verdict(COMPANY, action(), now=datetime(2030, 1, 1))


# --- delegations ---------------------------------------------------------------------------------


def test_a_delegation_covers_what_it_says() -> None:
    store = memory(record(1, grant={"constraints": {"amount_lte": 5}}))
    grants = authority(parent_grant())
    passed = verdict(grants, action(amount=5), store)
    assert passed.passed
    assert facts(passed) == {"grant_id": dlg(1), "delegation_id": dlg(1), "depth": 1}
    refused = verdict(grants, action(amount=6), store)
    assert refused.reason == "authority_constraint"
    assert facts(refused) == facts(passed)


def test_a_stored_depth_is_not_believed() -> None:
    store = memory(record(1, depth=99))
    assert verdict(authority(parent_grant()), action(), store).depth == 1


def test_a_delegation_that_is_over_has_expired_itself() -> None:
    store = memory(record(1, grant={"expires_at": NOW.isoformat()}))
    grants = authority(parent_grant())
    assert verdict(grants, action(), store).passed
    result = verdict(grants, action(), store, now=NOW + TICK)
    assert (result.reason, result.grant_id) == ("authority_expired", dlg(1))


def test_many_patterns_are_found_like_few() -> None:
    names = tuple(f"svc{number}.run" for number in range(40))
    places = tuple(f"db:{number}-*" for number in range(40))
    grants = authority(grant(actions=names, resources=places))
    assert verdict(grants, action("svc39.run", resource="db:39-x")).passed
    assert not verdict(grants, action("svc40.run", resource="db:39-x")).passed


def test_heads_of_many_lengths_are_all_found() -> None:
    grants = authority(*(grant(f"g{size}", actions=("a" * size + "b*",)) for size in range(1, 30)))
    for size in range(1, 30):
        assert verdict(grants, action("a" * size + "bcd")).grant_id == f"g{size}"


def test_an_authority_serves_several_stores_apart() -> None:
    grants = authority(parent_grant())
    first, second = memory(record(1)), memory()
    for _ in range(2):
        assert verdict(grants, action(), first).passed
        assert not verdict(grants, action(), second).passed


def test_an_authority_can_be_built_of_nothing_but_its_grants() -> None:
    assert verdict(Authority({"g": grant()}), action()).grant_id == "g"
