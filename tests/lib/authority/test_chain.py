"""The chain above a delegation: which failure is told, and how far it is walked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from ctrlrun.authority import AuthorityResult, DelegationRecord, Grant
from tests.cases import walk
from tests.lib.authority.helpers import (
    LATER,
    NOW,
    TICK,
    PlainStore,
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

ROOT = parent_grant()
REVOKED: dict[str, Any] = {"revoked_at": NOW, "revoked_by": "cli:local"}
OVER = {"expires_at": (NOW - TICK).isoformat()}
LONGER = {"expires_at": (LATER + TICK).isoformat()}


def chain(length: int, **changes: dict[str, Any]) -> list[DelegationRecord]:
    """Rows 1 to `length`, each beneath the one before; `r2` changes row 2."""
    parents = ["root", *(dlg(number) for number in range(1, length))]
    return [
        record(number, **{"parent_id": parent, **changes.get(f"r{number}", {})})
        for number, parent in enumerate(parents, 1)
    ]


def judged(
    records: list[DelegationRecord], root: Grant = ROOT, depth: int = 3, **grants: Grant
) -> AuthorityResult:
    """The verdict about the last row alone, which is for an agent of its own; in two stores."""
    *above, last = records
    held = record(
        int(last.delegation_id[4:], 16),
        last.parent_id,
        grant_json=last.grant_json.replace('"bot"', '"leaf"'),
        revoked_at=last.revoked_at,
        revoked_by=last.revoked_by,
    )
    document = authority(root, *grants.values(), depth=depth)
    results = [
        verdict(document, action(agent="leaf"), store)
        for store in (memory(*above, held), PlainStore(held, *above))
    ]
    assert results[0] == results[1]
    return results[0]


E = "authority_escalation"


@walk("length", [1, 2, 3])
def test_a_chain_that_holds(length: int) -> None:
    result = judged(chain(length))
    assert result.passed
    assert facts(result) == {"grant_id": dlg(length), "delegation_id": dlg(length), "depth": length}


@walk(
    ("records", "root", "reason", "more"),
    [
        (chain(2, r1={"parent_id": "gone"}), ROOT, E, {"missing_parent_id": "gone"}),
        (chain(1), parent_grant("other"), E, {"missing_parent_id": "root"}),
        (chain(2, r1=REVOKED), ROOT, "authority_revoked", {}),
        (chain(3, r1=REVOKED), ROOT, "authority_revoked", {}),
        (chain(2, r2=REVOKED), ROOT, "authority_revoked", {}),
        (chain(2, r1={"grant": OVER}), ROOT, E, {"expired_parent_id": dlg(1)}),
        (chain(1), parent_grant(expires_at=NOW - TICK), E, {"expired_parent_id": "root"}),
        (chain(2, r1={"grant": {"actions": ["stripe.void"]}}), ROOT, E, {"dimension": "actions"}),
        (chain(1, r1={"grant": LONGER}), ROOT, E, {"dimension": "expires_at"}),
        (chain(1), parent_grant(delegable=False), E, {}),
        (chain(2, r1={"grant": {"delegable": False}}), ROOT, E, {}),
        # The first failure wins: missing before revoked, revoked before expired, ...
        (
            chain(2, r1={"parent_id": "gone"}, r2=REVOKED),
            ROOT,
            E,
            {"missing_parent_id": "gone"},
        ),
        (chain(2, r1={"grant": OVER}, r2=REVOKED), ROOT, "authority_revoked", {}),
        (
            chain(2, r1={"grant": OVER}, r2={"grant": {"actions": ["**"]}}),
            ROOT,
            E,
            {"expired_parent_id": dlg(1)},
        ),
        (
            chain(2, r2={"grant": {"actions": ["**"]}}),
            parent_grant(delegable=False),
            E,
            {"dimension": "actions"},
        ),
        # Both root first.
        (
            chain(3, r1={"grant": OVER}, r2={"grant": OVER}),
            ROOT,
            E,
            {"expired_parent_id": dlg(1)},
        ),
        (
            chain(2, r1={"grant": LONGER}, r2={"grant": {"actions": ["**"], **LONGER}}),
            ROOT,
            E,
            {"dimension": "expires_at"},
        ),
    ],
)
def test_what_is_wrong_above(
    records: list[DelegationRecord], root: Grant, reason: str, more: dict[str, Any]
) -> None:
    result = judged(records, root)
    assert result.reason == reason
    last = records[-1].delegation_id
    depth = len(records)
    assert facts(result) == {"grant_id": last, "delegation_id": last, "depth": depth, **more}


@walk(
    ("length", "depth", "exceeded"),
    [(3, 3, None), (3, 2, 3), (3, 1, 2), (3, 0, 2), (2, 1, 2), (1, 0, 1), (1, 1, None)],
)
def test_how_far_a_chain_is_walked(length: int, depth: int, exceeded: int | None) -> None:
    result = judged(chain(length), depth=depth)
    assert result.passed is (exceeded is None)
    assert result.depth_exceeded == exceeded
    assert result.reason == ("authority_grant" if exceeded is None else E)


def test_containment_comes_before_depth_and_depth_before_delegable() -> None:
    wider = chain(2, r2={"grant": {"actions": ["**"]}})
    assert judged(wider, depth=1).dimension == "actions"
    fixed = chain(2, r1={"grant": {"delegable": False}})
    assert judged(fixed, depth=1).depth_exceeded == 2


def test_what_stands_above_the_limit_is_not_looked_at() -> None:
    assert judged(chain(3, r1=REVOKED), depth=1).depth_exceeded == 2


def test_the_grant_of_an_expiry_is_the_one_of_now() -> None:
    document = authority(parent_grant(expires_at=NOW))
    store = memory(record(1, grant={"expires_at": NOW.isoformat()}))
    assert verdict(document, action(), store).passed
    late = verdict(document, action(), store, now=NOW + TICK)
    assert (late.reason, late.expired_parent_id) == (E, "root")


def test_a_chain_is_judged_at_each_moment_anew() -> None:
    """A later call with an earlier time is not answered from what was found meanwhile."""
    document = authority(parent_grant(expires_at=NOW))
    store = memory(record(1, grant={"expires_at": NOW.isoformat()}))
    for now, passes in ((NOW, True), (NOW + TICK, False), (NOW - timedelta(1), True)):
        assert verdict(document, action(), store, now=now).passed is passes


def test_an_edited_document_stops_everything_beneath_it() -> None:
    store = memory(*chain(3))
    assert verdict(authority(ROOT), action(), store).passed
    for edited in (
        parent_grant(actions=("crm.**",)),
        parent_grant(delegable=False),
        parent_grant("renamed"),
    ):
        assert verdict(authority(edited), action(), store).reason == E


def test_one_revocation_stops_everything_below() -> None:
    document, store = authority(ROOT), memory(*chain(3))
    assert verdict(document, action(), store).passed
    store.revoke_delegation(dlg(1), by="cli:local", at=NOW)
    assert verdict(document, action(), store).reason == "authority_revoked"


def test_a_grant_of_the_document_stands_before_a_row_of_its_name() -> None:
    document = authority(parent_grant(dlg(1), actions=("stripe.void",)))
    store = memory(record(1, parent_id=dlg(1)), record(2, parent_id=dlg(1)))
    result = verdict(document, action(), store)
    assert (result.reason, result.grant_id, result.dimension) == (E, dlg(2), "actions")
    assert not result.passed


# --- circles -------------------------------------------------------------------------------------


def circle(*numbers: int, **fields: Any) -> list[DelegationRecord]:
    """Rows in a ring: each beneath the next."""
    following = (*numbers[1:], numbers[0])
    return [record(one, dlg(two), **fields) for one, two in zip(numbers, following, strict=True)]


@walk("numbers", [(1,), (1, 2), (1, 2, 3, 4, 5)])
@walk("depth", [0, 3])
def test_a_circle_denies_whatever_else_passes(numbers: tuple[int, ...], depth: int) -> None:
    document = authority(ROOT, grant("a"), depth=depth)
    result = verdict(document, action(), memory(*circle(*numbers)))
    assert (result.passed, result.reason) == (False, "authority_unreadable")
    assert (result.grant_id, result.cycle_at) == (dlg(1), dlg(1))


def test_what_hangs_on_a_circle_is_in_it() -> None:
    hanging = record(9, dlg(1), grant={"subject": {"agent": "leaf", "user": None}})
    result = verdict(
        authority(ROOT, grant("a", agent="leaf")),
        action(agent="leaf"),
        memory(*circle(1, 2), hanging),
    )
    assert (result.reason, result.cycle_at) == ("authority_unreadable", dlg(1))
    assert (result.grant_id, result.depth) == (dlg(9), 3)


def test_a_circle_of_others_harms_nobody_else() -> None:
    rows = circle(1, 2, grant={"actions": ["crm.read"]})
    assert verdict(authority(grant("a")), action(), memory(*rows)).passed


def test_a_wider_step_does_not_hide_a_circle() -> None:
    rows = [record(1, dlg(2)), record(2, dlg(1), grant={"actions": ["stripe.void"]})]
    assert verdict(authority(grant("a")), action(), memory(*rows)).cycle_at == dlg(1)


def test_revoking_a_row_of_a_circle_restores_the_service() -> None:
    document, store = authority(ROOT, grant("a")), memory(*circle(1, 2))
    assert not verdict(document, action(), store).passed
    store.revoke_delegation(dlg(2), by="cli:local", at=NOW)
    assert verdict(document, action(), store).grant_id == "a"
    alone = verdict(authority(ROOT), action(), store)
    assert (alone.reason, alone.cycle_at) == ("authority_revoked", None)
