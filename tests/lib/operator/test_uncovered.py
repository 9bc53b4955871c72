"""Why no grant covered an action, as operators are told."""

from __future__ import annotations

import pytest

from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority, DelegationRecord, Grant, Subject, grant_to_json
from ctrlrun.control import Control
from ctrlrun.errors import AuthorityDenied
from ctrlrun.operator import uncovered_text
from ctrlrun.operator.authority_source import AuthorityUnread
from ctrlrun.operator.pages import paged
from ctrlrun.receipt import Receipt
from tests.lib.operator.helpers import Scene

ROOT = Grant("head", Subject(user="dana"), ("stripe.*",))


def denied(scene: Scene, *grants: Grant, user: str | None = None) -> Receipt:
    """The receipt of a refund that none of the grants covers."""
    authority = Authority({grant.id: grant for grant in grants})
    control = Control(scene.policy, scene.store, clock=scene.clock, authority=authority)
    action = scene.refund(100)
    if user is not None:
        principal = Principal("refund-agent", user)
        action = Action(action.name, action.arguments, principal, environment=action.environment)
    with pytest.raises(AuthorityDenied) as refused:
        control.execute(action, lambda: None, "refund:txn_1")
    assert refused.value.reason == "no_authority"
    receipt: Receipt = scene.store.receipts()[-1]
    return receipt


def told(scene: Scene, receipt: Receipt, *grants: Grant) -> str | None:
    authority = Authority({grant.id: grant for grant in grants})
    return uncovered_text(paged(scene.store), receipt, authority, scene.clock())


@pytest.mark.parametrize(
    ("grant", "fails"),
    [
        (Grant("g", Subject("other-agent"), ("stripe.refund",)), "subject"),
        (Grant("g", Subject("refund-agent"), ("stripe.payout",)), "actions"),
        (Grant("g", Subject("refund-agent"), ("stripe.*",), resources=("eu:*",)), "resources"),
        (
            Grant("g", Subject("refund-agent"), ("stripe.*",), environments=("production",)),
            "environments",
        ),
        (
            Grant("g", Subject("other-agent"), ("stripe.*",), environments=("production",)),
            "subject, environments",
        ),
    ],
)
def test_the_dimensions_that_fail_are_named(scene: Scene, grant: Grant, fails: str) -> None:
    receipt = denied(scene, grant)
    assert told(scene, receipt, grant) == (
        "no grant covers refund-agent for stripe.refund; the nearest grant, g, fails in " + fails
    )


def test_of_several_the_nearest_is_named_and_of_these_the_principals_own(scene: Scene) -> None:
    grants = (
        Grant("a", Subject("other-agent"), ("email.send",)),
        Grant("b", Subject("other-agent"), ("stripe.refund",)),
        Grant("c", Subject("refund-agent"), ("stripe.payout",)),
    )
    receipt = denied(scene, *grants, user="ada")
    said = told(scene, receipt, *grants)
    assert said == (
        "no grant covers refund-agent for ada for stripe.refund; the nearest grant, c, fails in "
        "actions"
    )


def test_delegations_count_too(scene: Scene) -> None:
    delegation_id = f"dlg_{1:032x}"
    given = Grant(delegation_id, Subject("refund-agent"), ("stripe.payout",))
    grant = grant_to_json(given)
    made = DelegationRecord(delegation_id, "head", 1, grant, "head", "dana", "api", scene.clock())
    scene.store.put_delegation(made)
    receipt = denied(scene, ROOT)
    assert str(told(scene, receipt, ROOT)).endswith(
        f"the nearest grant, dlg_{1:032x}, fails in actions"
    )


def test_what_there_is_to_say_without_a_nearest_grant(scene: Scene) -> None:
    receipt = denied(scene)
    assert told(scene, receipt) == (
        "no grant covers refund-agent for stripe.refund; there are no grants"
    )
    covers = Grant("g", Subject("refund-agent"), ("**",))
    assert str(told(scene, receipt, covers)).endswith("then; a grant of now does")
    unread = AuthorityUnread("no such file")
    said = uncovered_text(paged(scene.store), receipt, unread, scene.clock())
    assert str(said).endswith("; the grants were not read: no such file")
    scene.call(scene.refund(100))
    assert told(scene, scene.store.receipts()[-1], covers) is None
