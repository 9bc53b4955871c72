"""What lies inside a parent, dimension by dimension."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from ctrlrun.authority import DIMENSIONS, Grant, contained_dimension, judge_dimensions
from tests.cases import walk
from tests.lib.authority.helpers import LATER, TICK, grant

LIMITS: dict[str, Any] = {
    "amount_gte": 0,
    "amount_lte": 1000,
    "tier_eq": "std",
    "region_neq": "us",
    "cluster_in": ["a", "b", 1],
}
SHARED: dict[str, Any] = {
    "user": "cfo@x",
    "actions": ("stripe.**",),
    "resources": ("payment:EU-*",),
    "constraints": LIMITS,
    "environments": ("production", "staging"),
    "expires_at": LATER,
}
PARENT = grant("p", agent="cfo", **SHARED, delegable=True)


def child(**changes: Any) -> Grant:
    return grant("", **{"agent": "bot", **SHARED, **changes})


def limits(*without: str, **changes: Any) -> dict[str, Any]:
    kept = {key: value for key, value in LIMITS.items() if key not in without}
    return {"constraints": {**kept, **changes}}


@walk(
    ("changes", "expected"),
    [
        ({}, None),
        ({"agent": "*"}, "subject"),
        ({"agent": "bot-*"}, "subject"),
        ({"agent": None}, "subject"),
        ({"user": None}, "subject"),
        ({"user": "x"}, "subject"),
        ({"user": "cfo@*"}, "subject"),
        ({"agent": "cfo"}, None),
        ({"actions": ("stripe.**",)}, None),
        ({"actions": ("**",)}, "actions"),
        ({"actions": ("stripe",)}, "actions"),
        ({"actions": ("stripe.**", "crm.read")}, "actions"),
        ({"resources": None}, "resources"),
        ({"resources": ("payment:*",)}, "resources"),
        ({"resources": ("payment:EU-1:x",)}, "resources"),
        ({"resources": ("payment:EU-1", "payment:EU-2*")}, None),
        (limits(batch_lte=4), None),
        (limits(amount_lte=1000), None),
        (limits(amount_lte=1001), "constraints"),
        (limits(amount_gte=1), None),
        (limits(amount_gte=-1), "constraints"),
        (limits("amount_lte"), "constraints"),
        (limits("amount_lte", amount_lt=5), "constraints"),
        (limits(amount_lte=500, amount_lt=5), None),
        (limits(tier_eq="prem"), "constraints"),
        (limits(region_neq="eu"), "constraints"),
        (limits(cluster_in=[1, "b", "a"]), None),
        (limits(cluster_in=[]), None),
        (limits(cluster_in=[True]), "constraints"),
        (limits(cluster_in=["a", "z"]), "constraints"),
        (limits("cluster_in", cluster_eq="a"), "constraints"),
        ({"environments": None}, "environments"),
        ({"environments": ("production", "dev")}, "environments"),
        ({"environments": ("staging",)}, None),
        ({"expires_at": datetime(2027, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))}, None),
        ({"expires_at": None}, "expires_at"),
        ({"expires_at": LATER + TICK}, "expires_at"),
        ({"expires_at": LATER - TICK}, None),
        ({"agent": "*", "actions": ("**",), "environments": None}, "subject"),
        ({"resources": None, "expires_at": None}, "resources"),
    ],
)
def test_containment(changes: dict[str, Any], expected: str | None) -> None:
    assert contained_dimension(PARENT, child(**changes)) == expected


@walk(
    ("user", "expected"),
    [(None, None), ("ana@x", None), ("*", "subject"), ("ana@*", "subject")],
)
def test_a_parent_for_any_user_may_name_one(user: str | None, expected: str | None) -> None:
    parent = grant(agent="cfo", expires_at=LATER, delegable=True)
    assert contained_dimension(parent, child(user=user, actions=("stripe.refund",))) == expected


@walk(("user", "fits"), [("cfo@x", True), ("cfo@y", True), ("ceo@x", False)])
def test_a_parent_for_users_of_a_pattern(user: str, fits: bool) -> None:
    parent = grant(agent="cfo", user="cfo@*")
    assert (contained_dimension(parent, grant(agent="bot", user=user)) is None) is fits


def test_a_parent_without_limits_takes_any() -> None:
    parent = grant(agent="cfo", actions=("**",))
    assert contained_dimension(parent, child()) is None


@walk(("limit", "own", "fits"), [(5, 4, True), (5, 5, True), (5, 6, False)])
def test_strict_limits(limit: int, own: int, fits: bool) -> None:
    below = [grant(constraints={"amount_lt": value}) for value in (limit, own)]
    above = [grant(constraints={"amount_gt": value}) for value in (own, limit)]
    assert (contained_dimension(*below) is None) is fits
    assert (contained_dimension(*above) is None) is fits


def test_each_dimension_is_judged_by_the_same_rule() -> None:
    wide = grant(
        "",
        agent="*",
        actions=("**",),
        resources=None,
        constraints={},
        environments=None,
        expires_at=LATER + TICK,
    )
    verdicts = judge_dimensions(PARENT, wide)
    assert tuple(item.dimension for item in verdicts) == DIMENSIONS
    assert not any(item.fits for item in verdicts)
    assert all(item.problem and "\n" not in item.problem for item in verdicts)
    assert all(item.fits and item.problem is None for item in judge_dimensions(PARENT, child()))


@walk("dimension", DIMENSIONS)
def test_one_wider_dimension_leaves_the_others(dimension: str) -> None:
    wider: dict[str, dict[str, Any]] = {
        "subject": {"agent": "*"},
        "actions": {"actions": ("**",)},
        "resources": {"resources": None},
        "constraints": {"constraints": {}},
        "environments": {"environments": None},
        "expires_at": {"expires_at": datetime(2030, 1, 1, tzinfo=UTC)},
    }
    made = child(**wider[dimension])
    assert [item.dimension for item in judge_dimensions(PARENT, made) if not item.fits] == [
        dimension
    ]
    assert contained_dimension(PARENT, made) == dimension
