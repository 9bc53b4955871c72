"""What is found by the limit at its gate is whatever may pass, and little else."""

from __future__ import annotations

from typing import Any

import pytest

from ctrlrun.authority import gates
from ctrlrun.authority.gates import MANY, Gates
from tests.cases import walk
from tests.lib.authority.helpers import (
    action,
    authority,
    dlg,
    grant,
    memory,
    parent_grant,
    put,
    record,
    verdict,
)

VALUES: tuple[Any, ...] = (0, 1, 2, 3, True, False, "1", "", None, (1,), 10**30)
GRANTS = {
    f"{op}-{limit!r}": grant(constraints={f"n_{op}": limit})
    for op in ("lt", "lte", "gt", "gte", "eq")
    for limit in ((0, 1, 2, 10**30) if op != "eq" else (0, 1, 2, True, "1", ""))
}


@walk("arguments", [{}, {"m": 1}, *({"n": value} for value in VALUES)])
def test_one_gate_lets_pass_what_its_limit_lets_pass(arguments: dict[str, Any]) -> None:
    found = Gates()
    for name, made in GRANTS.items():
        found.add(made, name)
    holding = {
        name
        for name, made in GRANTS.items()
        if all(one.matches("x", arguments) for one in made.constraints.values())
    }
    assert found.passed_by(arguments) == holding
    for name, made in GRANTS.items():
        found.remove(made, name)
    assert found.passed_by(arguments) == set()


def test_an_equality_is_the_gate_before_a_number_and_the_rest_is_open() -> None:
    found = Gates()
    found.add(grant(constraints={"n_lte": 5, "kind_eq": "a"}), "pinned")
    found.add(grant(constraints={"n_in": [1], "kind_neq": "a"}), "open")
    found.add(grant(constraints={"labels_eq": ["a"]}), "list")
    assert found.passed_by({"n": 99, "kind": "a"}) == {"pinned", "open", "list"}
    assert found.passed_by({"n": 1, "kind": "b"}) == {"open", "list"}


@walk("constraints", [{}, {"n_lte": 5}, {"n_eq": 5}])
def test_too_many_are_no_answer(constraints: dict[str, Any]) -> None:
    found = Gates()
    for number in range(MANY + 1):
        assert found.passed_by({"n": 5}) is not None
        found.add(grant(constraints=constraints), dlg(number))
    assert found.passed_by({"n": 5}) is None


def test_many_delegations_each_pinned_to_an_order() -> None:
    numbers = range(1, 4 * gates.MANY)
    store, grants = memory(), authority(parent_grant())
    put(store, (record(one, grant={"constraints": {"order_eq": f"o{one}"}}) for one in numbers))
    for one in numbers:
        assert verdict(grants, action(order=f"o{one}"), store).grant_id == dlg(one)
    refused = verdict(grants, action(order="o0"), store)
    assert (refused.reason, refused.grant_id) == ("authority_constraint", dlg(1))


def test_of_many_that_are_asked_without_the_argument_one_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = memory()
    numbers = range(1, 2 * gates.MANY)
    put(store, (record(one, grant={"constraints": {"order_eq": f"o{one}"}}) for one in numbers))
    assert not verdict(authority(parent_grant()), action(), store).passed
    (warning,) = caplog.records
    assert "'order'" in warning.getMessage()
