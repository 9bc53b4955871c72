"""Nothing that containment accepts permits what its parent refuses, in chains of any shape."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal
from ctrlrun.authority import (
    Authority,
    Grant,
    Subject,
    contained_dimension,
    grant_from_json,
    grant_to_json,
)
from ctrlrun.conditions import Condition, parse_conditions
from ctrlrun.errors import AuthorityEscalation
from tests.lib.authority.helpers import NOW, dlg, memory

AGENTS = ("bot", "leaf", "head")
USERS = ("ana@x", "bob@x")
SEGMENTS = ("s", "st", "r", "ref")
PLACES = ("p", "pay", "eu", "eu-1")
VALUES: tuple[Any, ...] = (0, 1, 2, 3, "a", True, None)
MOMENTS = tuple(NOW + timedelta(days=days) for days in (-1, 0, 1, 2))


def patterns(segments: tuple[str, ...], separator: str) -> st.SearchStrategy[str]:
    literal = st.sampled_from(segments)
    starred = st.one_of(literal, literal.map(lambda head: head + "*"), st.just("*"))
    return st.one_of(
        st.lists(starred, min_size=1, max_size=2),
        st.lists(literal, max_size=1).map(lambda head: [*head, "**"]),
    ).map(separator.join)


def some(items: st.SearchStrategy[str], most: int = 2) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(items, min_size=1, max_size=most, unique=True).map(tuple)


NUMBERS = st.integers(0, 3)
LIMITS = st.fixed_dictionaries(
    {},
    optional={
        "n_lt": NUMBERS,
        "n_lte": NUMBERS,
        "n_gt": NUMBERS,
        "n_gte": NUMBERS,
        "n_eq": st.sampled_from(VALUES),
        "m_neq": st.sampled_from(VALUES),
        "m_in": st.lists(st.sampled_from(VALUES), max_size=3),
    },
)
LIMITED = LIMITS.map(lambda limits: parse_conditions(limits, where="x"))

ACTIONS = some(patterns(SEGMENTS, "."))
RESOURCES = st.none() | some(patterns(PLACES, ":"))
ENVIRONMENTS = st.none() | some(st.sampled_from(("production", "staging")))
EXPIRIES = st.sampled_from(MOMENTS)


@st.composite
def roots(draw: st.DrawFn) -> Grant:
    subject = Subject("head", draw(st.sampled_from((None, None, "*", "ana@x", "ana*"))))
    return Grant(
        "root",
        subject,
        draw(ACTIONS),
        draw(RESOURCES),
        draw(LIMITED),
        draw(ENVIRONMENTS),
        draw(st.sampled_from(MOMENTS[1:])),
        delegable=True,
    )


def narrower_pattern(draw: st.DrawFn, pattern: str, segments: tuple[str, ...], sep: str) -> str:
    """Often inside the pattern, sometimes not: the verdict is not this test's."""
    parts = []
    for part in pattern.split(sep):
        if part == "**":
            parts += draw(st.sampled_from(([part], ["*"], [segments[0]], [segments[1], "**"])))
        elif part.endswith("*"):
            fitting = [item for item in segments if item.startswith(part[:-1])]
            parts.append(draw(st.sampled_from([part, *fitting])))
        else:
            parts.append(part)
    return sep.join(parts)


def narrower_limit(draw: st.DrawFn, limit: Condition) -> Any:
    value = limit.operand
    if limit.op in ("lt", "lte"):
        return value - draw(st.integers(0, 1))
    if limit.op in ("gt", "gte"):
        return value + draw(st.integers(0, 1))
    if limit.op == "in":
        return [item for item in value if draw(st.booleans())]
    return value


@st.composite
def parts_of(draw: st.DrawFn, parent: Grant) -> Grant:
    """A grant that is mostly part of its parent; now and then one dimension is anybody's."""
    wild = draw(st.sampled_from((None,) * 6 + ("actions", "resources", "limits", "rest")))
    user = parent.subject.user
    if user is None or "*" in user:
        user = draw(st.sampled_from((*USERS, user and "ana@x")))
    actions = tuple(narrower_pattern(draw, item, SEGMENTS, ".") for item in parent.actions)
    resources: tuple[str, ...] | None = None
    if parent.resources is not None:
        resources = tuple(narrower_pattern(draw, item, PLACES, ":") for item in parent.resources)
    limits: dict[str, Any] = {
        key: narrower_limit(draw, item) for key, item in parent.constraints.items()
    }
    limits |= {key: value for key, value in draw(LIMITS).items() if key not in limits}
    conditions = parse_conditions(limits, where="x")
    environments, expires_at = parent.environments, parent.expires_at
    if wild == "actions":
        actions = draw(ACTIONS)
    elif wild == "resources":
        resources = draw(RESOURCES)
    elif wild == "limits":
        conditions = draw(LIMITED)
    elif wild == "rest":
        environments, expires_at = draw(ENVIRONMENTS), draw(EXPIRIES)
    agent = draw(st.sampled_from(AGENTS))
    return Grant(
        "",
        Subject(agent, user),
        actions,
        resources,
        conditions,
        environments,
        expires_at,
        delegable=True,
    )


def literal_of(draw: st.DrawFn, pattern: str, segments: tuple[str, ...], sep: str) -> str:
    """A value that the pattern matches."""
    parts = []
    for part in pattern.split(sep):
        if part == "**":
            parts += draw(st.lists(st.sampled_from(segments), min_size=1, max_size=2))
        else:
            tails = ("t", "-1", "") if part.endswith("*") and part != "*" else ("x",)
            tail = draw(st.sampled_from(tails)) if part.endswith("*") else ""
            parts.append(part.removesuffix("*") + tail)
    return sep.join(parts)


def value_for(draw: st.DrawFn, grant: Grant, name: str) -> Any:
    """A value of an argument that mostly keeps the limits."""
    limits = [item for item in grant.constraints.values() if item.argument == name]
    fitting = [
        value for value in VALUES if all(item.matches("x", {name: value}) for item in limits)
    ]
    return draw(st.sampled_from(fitting or VALUES)) if draw(st.booleans()) else 1


@st.composite
def actions_about(draw: st.DrawFn, grant: Grant) -> Action:
    """An action that a grant mostly permits."""
    name = literal_of(draw, draw(st.sampled_from(grant.actions)), SEGMENTS, ".")
    resource = None
    if grant.resources is not None:
        resource = literal_of(draw, draw(st.sampled_from(grant.resources)), PLACES, ":")
    arguments = {name: value_for(draw, grant, name) for name in ("n", "m")}
    environment = draw(st.sampled_from(grant.environments or ("production",)))
    agent = grant.subject.agent or "anyone"
    return Action(name, arguments, Principal(agent, grant.subject.user), resource, environment)


def permits(grant: Grant, action: Action, now: datetime) -> bool:
    """The verdict about one grant alone, asked as somebody whom its subject names."""
    subject = Subject(action.principal.agent, grant.subject.user)
    alone = replace(grant, id="g", subject=subject)
    return Authority({"g": alone}).evaluate(action, now=now, store=memory()).passed


@st.composite
def families(draw: st.DrawFn) -> tuple[list[Grant], Action, datetime]:
    """A grant, what was handed on of it, and of that; and an action about the last."""
    line = [draw(roots())]
    for _ in range(draw(st.integers(1, 4))):
        line.append(draw(parts_of(line[-1])))
    now = draw(st.sampled_from((NOW, NOW, NOW, *MOMENTS)))
    return line, draw(actions_about(line[-1])), now


def is_chain(line: list[Grant]) -> bool:
    return all(contained_dimension(parent, child) is None for parent, child in pairwise(line))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(families())
def test_what_is_contained_permits_nothing_more(
    family: tuple[list[Grant], Action, datetime],
) -> None:
    line, action, now = family
    accepted, permitted = is_chain(line), permits(line[-1], action, now)
    event(f"chain of {len(line) - 1}: accepted={accepted} permitted={permitted}")
    if accepted and permitted:
        for parent in line:
            assert permits(parent, action, now), parent


def test_the_examples_are_worth_it() -> None:
    """The property would hold of nothing: chains are accepted, and actions permitted, often."""
    seen: Counter[tuple[int, bool, bool]] = Counter()

    @settings(
        max_examples=200,
        derandomize=True,
        database=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    @given(families())
    def count(family: tuple[list[Grant], Action, datetime]) -> None:
        line, action, now = family
        seen[(len(line) - 1, is_chain(line), permits(line[-1], action, now))] += 1

    count()
    both = sum(times for (_, accepted, permitted), times in seen.items() if accepted and permitted)
    refused = sum(times for (_, accepted, _), times in seen.items() if not accepted)
    deep = sum(times for (depth, accepted, _), times in seen.items() if depth >= 3 and accepted)
    assert both >= 20, seen
    assert refused >= 15, seen
    assert deep >= 15, seen


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(families())
def test_the_whole_room_keeps_what_the_rule_promises(
    family: tuple[list[Grant], Action, datetime],
) -> None:
    """Planned, stored and evaluated: a covered action is one that every grant above permits."""
    line, action, now = family
    document = Authority({"root": line[0]}, max_delegation_depth=4)
    store = memory()
    parent_id, above = "root", [line[0]]
    for made in line[1:]:
        holder = Principal(above[-1].subject.agent or "x", made.subject.user)
        try:
            planned = document.plan_delegation(parent_id, made, by=holder, store=store, now=NOW)
        except AuthorityEscalation as refusal:
            event(f"refused: {refusal.reason}")
            return
        store.put_delegation(planned.to_record())
        parent_id = planned.delegation_id
        above.append(planned.grant)
    event(f"planned {len(above) - 1}")
    result = document.evaluate(action, now=now, store=store)
    if result.delegation_id == parent_id and result.passed:
        event("covered by the last")
        assert all(permits(grant, action, now) for grant in above)


@settings(max_examples=40)
@given(families())
def test_containment_is_reflexive_and_transitive(
    family: tuple[list[Grant], Action, datetime],
) -> None:
    line = family[0]
    for made in line[1:]:
        assert contained_dimension(made, made) is None
    for first in line:
        for second in line[1:]:
            for third in line[1:]:
                if is_chain([first, second, third]):
                    assert contained_dimension(first, third) is None


@settings(max_examples=50)
@given(families())
def test_whatever_is_a_grant_reads_back(family: tuple[list[Grant], Action, datetime]) -> None:
    for made in family[0]:
        again = grant_from_json(grant_to_json(made), delegation_id=dlg(1))
        assert again == replace(made, id=dlg(1))
