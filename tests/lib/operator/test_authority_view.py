"""Grants and delegations as a tree, where each stands, what hangs on it, and what ends soon."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority, DelegationRecord, Grant, Subject, grant_to_json
from ctrlrun.conditions import parse_conditions
from ctrlrun.errors import InvalidArgument
from ctrlrun.operator import (
    AuthorityShelf,
    AuthorityUnread,
    GrantState,
    NodeKind,
    Standings,
    parse,
    read_authority,
    read_policy,
    revoke,
)
from ctrlrun.operator.authority_tree import AuthorityTree, build_tree
from ctrlrun.operator.beneath import LOOKED_AT, beneath
from ctrlrun.operator.delegations import delegation_standing, grant_file
from ctrlrun.operator.endings import endings, still_ending
from ctrlrun.operator.falling import falling
from ctrlrun.operator.filter import RowKind
from ctrlrun.operator.grant_texts import GrantTexts
from ctrlrun.operator.grant_words import constraints_text, items_text, limits_texts, moment_text
from ctrlrun.operator.narrowing import FIELDS, Fit, form_of, literal_subject, read_form
from ctrlrun.receipt import Event, EventType
from ctrlrun.state import Damage, InMemoryStateStore, SQLiteStateStore
from ctrlrun.state.location import locate, open_reader
from tests.cases import walk

NOW = datetime(2026, 11, 29, 3, 12, 41, tzinfo=UTC)


def grant(agent: str = "bot", *, grant_id: str = "", hours: float | None = 2, **more: Any) -> Grant:
    """A grant of `crm.*`, that can be handed on where it ends."""
    parts: dict[str, Any] = {"actions": ("crm.*",), "delegable": hours is not None}
    ends_at = None if hours is None else NOW + timedelta(hours=hours)
    return Grant(grant_id, Subject(agent), expires_at=ends_at, **(parts | more))


def record(name: str, parent: str, given: Grant | None = None, **more: Any) -> DelegationRecord:
    """A row; its id is `dlg`'s."""
    text = grant_to_json(given or grant())
    parts: dict[str, Any] = {"created_at": NOW - timedelta(hours=1), "grant_json": text}
    columns = {"created_by_agent": "root", "created_by_user": None, "created_via": "api"}
    return DelegationRecord(dlg(name), parent, depth=1, **(parts | columns | more))


def dlg(name: str) -> str:
    return f"dlg_{'f' * 8}{name.encode().hex():0>24}"


def authority(*grants: Grant, depth: int = 3) -> Authority:
    return Authority({each.id: each for each in grants}, max_delegation_depth=depth, source="test")


def tree(*records: DelegationRecord, document: Authority | None = None) -> Standings:
    return Standings(build_tree(document, records), GrantTexts())


def drawn(standings: AuthorityTree) -> list[tuple[str, str]]:
    """Each line's branch and name."""
    names = {dlg(name): name for name in "abcdefgh"}
    return [(node.branch, names.get(node.node_id, node.node_id)) for node in standings.nodes]


# --- the tree ------------------------------------------------------------------------------------


def test_children_hang_under_their_parents_oldest_first() -> None:
    rows = (
        record("a", "root"),
        record("b", dlg("a")),
        record("c", "other"),
        record("d", dlg("a")),
        record("e", "root"),
        record("f", dlg("b")),
    )
    made = build_tree(authority(grant(grant_id="root"), grant(grant_id="other")), rows)
    assert drawn(made) == [
        ("", "root"),
        ("+", "a"),
        ("|+", "b"),
        ("||-", "f"),
        ("|-", "d"),
        ("-", "e"),
        ("", "other"),
        ("-", "c"),
    ]
    assert [node.depth for node in made.nodes] == [0, 1, 2, 3, 2, 1, 0, 1]
    assert [node.beneath for node in made.nodes] == [5, 3, 1, 0, 0, 0, 1, 0]


def test_what_has_no_parent_stands_under_its_bare_id_and_circles_under_their_first() -> None:
    rows = (
        record("a", "gone"),
        record("c", dlg("b")),
        record("b", dlg("d")),
        record("d", dlg("c")),
        record("e", dlg("d")),
        record("f", dlg("f")),
    )
    made = build_tree(None, rows)
    assert drawn(made) == [
        ("", "gone"),
        ("-", "a"),
        ("", "b"),
        ("-", "c"),
        (" -", "d"),
        ("  -", "e"),
        ("", "f"),
    ]
    circles = {node.node_id for node in made.nodes if node.in_cycle}
    assert circles == {dlg("b"), dlg("c"), dlg("d"), dlg("f")}


def test_a_grant_beats_a_delegation_of_its_id() -> None:
    name = dlg("a")
    document = authority(Grant(name, Subject("x"), ("crm.*",)))
    made = build_tree(document, (record("a", "gone"), record("b", name)))
    assert [(node.kind.value, node.branch) for node in made.nodes] == [
        ("grant", ""),
        ("delegation", "-"),
        ("missing", ""),
        ("delegation", "-"),
    ]
    assert made.holder(name) is made.nodes[0]
    assert made.delegation(name) is made.nodes[3]
    assert made.find(f"delegation:{name}") is made.nodes[3]
    assert made.find(f"grant:{name}") is made.nodes[0]
    assert made.find("delegation:nothing") is None


def test_damaged_rows_are_lines_and_hold_what_hangs_on_them() -> None:
    damaged = (Damage("delegations", dlg("d"), "created_at is missing"),)
    made = build_tree(None, (record("a", dlg("d")),), damaged)
    assert [node.kind for node in made.nodes] == [NodeKind.DAMAGED, NodeKind.DELEGATION]
    standings = Standings(made, GrantTexts())
    assert standings.at(made.nodes[0], NOW).state is GrantState.UNREADABLE
    assert standings.at(made.nodes[1], NOW).state is GrantState.CUT_OFF


def test_a_chain_as_long_as_the_store_is_walked() -> None:
    rows = [record("a", "root")]
    rows += [
        DelegationRecord(
            f"dlg_{number:032x}",
            rows[-1].delegation_id if number == 1 else f"dlg_{number - 1:032x}",
            1,
            rows[0].grant_json,
            "x",
            None,
            "api",
            NOW,
        )
        for number in range(1, 10_000)
    ]
    standings = tree(*rows, document=authority(grant(grant_id="root")))
    last = standings.tree.nodes[-1]
    assert last.depth == 10_000
    assert len(last.branch) == 8
    assert standings.at(last, NOW).state is GrantState.TOO_DEEP
    assert len(standings.tree.subtree(standings.tree.nodes[0])) == 10_001


IDS = [dlg(name) for name in "abcdefg"]


@given(parents=st.lists(st.sampled_from(["root", "gone", *IDS]), min_size=7, max_size=7))
@settings(deadline=None)
def test_every_row_is_one_line_however_parents_are_written(parents: list[str]) -> None:
    rows = [record(name, parent) for name, parent in zip("abcdefg", parents, strict=True)]
    made = build_tree(authority(grant(grant_id="root")), rows)
    lines = [node.node_id for node in made.nodes if node.kind is NodeKind.DELEGATION]
    assert sorted(lines) == sorted(IDS)
    for node in made.nodes:
        parent = made.parent_of(node)
        assert parent is None or parent.place < node.place <= parent.place + parent.beneath
        assert [each.place for each in made.subtree(node)] == list(
            range(node.place, node.place + 1 + node.beneath)
        )


# --- where each stands ---------------------------------------------------------------------------


def test_each_state_has_its_reason() -> None:
    wide = grant(actions=("**",))
    rows = (
        record("a", "root"),
        record("b", "root", revoked_at=NOW, revoked_by="cli:bob"),
        record("c", dlg("b")),
        record("d", "root", grant_json="{"),
        record("e", "root", wide),
        record("f", "root", grant(hours=-1)),
        record("g", "gone"),
        record("h", dlg("h")),
    )
    standings = tree(*rows, document=authority(grant(grant_id="root")))
    states = {
        name: standings.at(node, NOW)
        for name in "abcdefgh"
        if (node := standings.tree.delegation(dlg(name))) is not None
    }
    assert {name: each.state.value for name, each in states.items()} == {
        "a": "live",
        "b": "revoked",
        "c": "cut-off",
        "d": "unreadable",
        "e": "not-contained",
        "f": "expired",
        "g": "no-parent",
        "h": "cycle",
    }
    assert states["b"].why == "revoked by cli:bob"
    assert states["c"].why == f"{dlg('b')}, above it, is revoked"
    assert "actions" in str(states["e"].why)


def test_a_revoked_row_that_cannot_be_read_is_only_revoked() -> None:
    standings = tree(record("a", "root", grant_json="{", revoked_at=NOW))
    assert standings.at(standings.tree.nodes[-1], NOW).state is GrantState.REVOKED


def test_without_a_document_what_is_stored_decides() -> None:
    rows = (record("a", "root"), record("b", dlg("a"), grant(actions=("**",))))
    standings = tree(*rows)
    states = [standings.at(node, NOW).state.value for node in standings.tree.nodes]
    assert states == ["not-read", "live", "not-contained"]


def test_the_end_of_a_parent_cuts_off_what_hangs_on_it() -> None:
    document = authority(grant(grant_id="root", hours=1))
    standings = tree(record("a", "root", grant(hours=1)), document=document)
    node = standings.tree.nodes[1]
    end = NOW + timedelta(hours=1)
    assert standings.at(node, end).is_live
    late = standings.at(node, end + timedelta(microseconds=1))
    assert late.state is GrantState.CUT_OFF and late.cause == "root"
    assert standings.outlook(node).next_end(NOW) == end
    assert standings.outlook(node).next_end(end + timedelta(seconds=1)) is None


@dataclass
class Store:
    """Rows as an evaluation reads them."""

    rows: dict[str, DelegationRecord]

    def get_delegation(self, delegation_id: str) -> DelegationRecord | None:
        return self.rows.get(delegation_id)

    def delegations_for(self, parent_id: str) -> tuple[DelegationRecord, ...]:
        return tuple(row for row in self.rows.values() if row.parent_id == parent_id)

    def delegations(self, *, include_revoked: bool = False) -> tuple[DelegationRecord, ...]:
        return tuple(row for row in self.rows.values() if include_revoked or not row.is_revoked)


@st.composite
def forests(draw: st.DrawFn) -> tuple[Authority, list[DelegationRecord]]:
    """A document and rows beneath it: some wide, revoked, expired, not delegable; no circle."""
    root_hours = draw(st.sampled_from([1.0, 3.0]))
    roots = grant("root-agent", grant_id="root", hours=root_hours)
    rows: list[DelegationRecord] = []
    for name in "abcdefg"[: draw(st.integers(1, 7))]:
        parents = ["root", "gone", *(row.delegation_id for row in rows)]
        given = grant(
            f"agent-{name}",
            hours=draw(st.sampled_from([-0.5, 0.5, 1.0, 2.0])),
            actions=draw(st.sampled_from([("crm.*",), ("crm.read",), ("**",)])),
            delegable=draw(st.booleans()),
        )
        more = {"revoked_at": NOW} if draw(st.integers(0, 4)) == 0 else {}
        rows.append(record(name, draw(st.sampled_from(parents)), given, **more))
    return authority(roots, depth=draw(st.integers(0, 3))), rows


@given(forest=forests(), minutes=st.sampled_from([0, 45, 75, 200]))
@settings(deadline=None, max_examples=80)
def test_live_is_what_an_evaluation_lets_pass(
    forest: tuple[Authority, list[DelegationRecord]], minutes: int
) -> None:
    document, rows = forest
    now = NOW + timedelta(minutes=minutes)
    standings = tree(*rows, document=document)
    store = Store({row.delegation_id: row for row in rows})
    for row in rows:
        node = standings.tree.delegation(row.delegation_id)
        assert node is not None
        agent = json.loads(row.grant_json)["subject"]["agent"]
        action = Action("crm.read", {}, Principal(agent), environment="production")
        verdict = document.evaluate(action, now=now, store=store)
        assert standings.is_live(node, now) is verdict.passed, (standings.at(node, now), verdict)


# --- read from a store ---------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStateStore]:
    with closing(SQLiteStateStore(tmp_path / "state.db", clock=lambda: NOW)) as made:
        yield made


def sql(store: SQLiteStateStore, tmp_path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection, connection:
        connection.execute(statement, values)


@pytest.mark.parametrize("number", [5, 400])
def test_the_shelf_sees_what_is_made_and_revoked(
    store: SQLiteStateStore, tmp_path: Path, number: int
) -> None:
    shelf = AuthorityShelf()
    for each in range(number):
        store.put_delegation(
            DelegationRecord(
                f"dlg_{each:032x}", "root", 1, grant_to_json(grant()), "x", None, "api", NOW
            )
        )
    with closing(
        open_reader(locate(f"sqlite://{tmp_path}/state.db", {}), clock=lambda: NOW)
    ) as reader:
        first = shelf.read(reader, None, NOW)
        assert len(first.tree.nodes) == number + 1
        assert shelf.read(reader, None, NOW) is first
        store.put_delegation(record("z", "root"))
        second = shelf.read(reader, None, NOW)
        assert second.tree.delegation(dlg("z")) is not None
        store.revoke_delegation(dlg("z"), by="x", at=NOW)
        third = shelf.read(reader, None, NOW)
        node = third.tree.delegation(dlg("z"))
        assert node is not None and third.at(node, NOW).state is GrantState.REVOKED
        sql(
            store,
            tmp_path,
            "UPDATE delegations SET grant_json = '{' WHERE delegation_id = ?",
            f"dlg_{0:032x}",
        )
        fourth = shelf.read(reader, None, NOW + timedelta(seconds=40))
        damaged = fourth.tree.delegation(f"dlg_{0:032x}")
        assert damaged is not None and fourth.at(damaged, NOW).state is GrantState.UNREADABLE
        shelf.forget()
        assert shelf.read(reader, None, NOW) is not fourth


def test_a_revoked_row_that_cannot_be_read_at_all_says_nothing(
    store: SQLiteStateStore, tmp_path: Path
) -> None:
    store.put_delegation(record("a", "root"))
    store.put_delegation(record("b", "root"))
    store.revoke_delegation(dlg("b"), by="x", at=NOW)
    sql(store, tmp_path, "UPDATE delegations SET created_at = 'never'")
    standings = AuthorityShelf().read(store, None, NOW)
    assert [node.node_id for node in standings.tree.nodes] == [dlg("a")]


def resolved(store: SQLiteStateStore, action_id: str, grant_id: str) -> None:
    data = {"reason": "authority_grant", "grant_id": grant_id}
    store.append_event(Event(EventType.AUTHORITY_RESOLVED, action_id, NOW, data))


def test_beneath_counts_what_a_grant_let_pass(store: SQLiteStateStore) -> None:
    rows = (record("a", "root"), record("b", dlg("a")), record("c", "root"))
    for number, (grant_id, again) in enumerate(
        [(dlg("a"), None), (dlg("b"), None), (dlg("c"), None), ("root", None), (dlg("b"), "root")]
    ):
        store.reserve_effect(f"key:{number}", f"act_{number}")
        resolved(store, f"act_{number}", grant_id)
        if again is not None:
            resolved(store, f"act_{number}", again)
    store.reserve_effect("nothing told", "act_x")
    standings = tree(*rows, document=authority(grant(grant_id="root")))
    found = {node.node_id: beneath(store, standings, node, NOW) for node in standings.tree.nodes}
    assert {name: each.effects.count for name, each in found.items()} == {
        "root": 5,
        dlg("a"): 2,
        dlg("b"): 1,
        dlg("c"): 1,
    }
    assert found["root"].grants == 4
    assert [node.node_id for node in found[dlg("a")].live] == [dlg("b")]
    assert not found["root"].effects.more


def test_many_effects_are_looked_at_up_to_a_number(store: SQLiteStateStore) -> None:
    def fill() -> None:
        for number in range(LOOKED_AT + 50):
            store.reserve_effect(f"key:{number}", f"act_{number}")
            resolved(store, f"act_{number}", "root")

    store.unit(fill, durable=False)
    standings = tree(document=authority(grant(grant_id="root")))
    below = beneath(store, standings, standings.tree.nodes[0], NOW)
    assert below.effects.more
    assert LOOKED_AT <= below.effects.count < LOOKED_AT + 50


def test_a_lapsed_lease_runs_no_more(store: SQLiteStateStore) -> None:
    store.reserve_effect("key", "act_1", timedelta(seconds=5))
    resolved(store, "act_1", "root")
    standings = tree(document=authority(grant(grant_id="root")))
    node = standings.tree.nodes[0]
    assert beneath(store, standings, node, NOW).effects.count == 1
    late = beneath(store, standings, node, NOW + timedelta(minutes=1))
    assert late.effects.count == 0


def test_falling_is_what_nobody_revoked_and_hangs_on_an_id() -> None:
    rows = (
        record("a", "root"),
        record("b", dlg("a")),
        record("c", dlg("b"), revoked_at=NOW),
        record("d", dlg("c")),
        record("e", dlg("e")),
        record("f", dlg("e")),
    )
    assert falling("root", rows) == {dlg("a"), dlg("b")}
    assert falling(dlg("e"), rows) == {dlg("f")}
    assert falling("nothing", rows) == set()


@pytest.mark.parametrize("kind", ["sqlite", "memory"])
def test_a_revocation_is_bound_to_what_falls(store: SQLiteStateStore, kind: str) -> None:
    target = store if kind == "sqlite" else InMemoryStateStore(clock=lambda: NOW)
    target.put_delegation(record("a", "root"))
    target.put_delegation(record("b", dlg("a")))
    with pytest.raises(InvalidArgument, match="1 came and 0 went since; nothing was written"):
        revoke(target, dlg("a"), by="tui:x", clock=lambda: NOW, seen_beneath=frozenset())
    assert not target.events()
    outcome = revoke(
        target, dlg("a"), by="tui:x", clock=lambda: NOW, seen_beneath=frozenset({dlg("b")})
    )
    assert not outcome.repeated
    assert [event.type for event in target.events()] == [EventType.DELEGATION_REVOKED]


# --- what ends -----------------------------------------------------------------------------------


def test_endings_are_what_counts_now_and_not_in_an_hour() -> None:
    document = authority(
        grant(grant_id="root", hours=5),
        grant("ends", grant_id="ends", hours=1),
        grant("never", grant_id="never", hours=None),
    )
    rows = (
        record("a", "root", grant("late", hours=1.01)),
        record("b", "root", grant("soon", hours=0.5)),
        record("c", "root", grant("over", hours=-0.1)),
        record("d", "root", grant("revoked", hours=0.4), revoked_at=NOW),
        record("e", dlg("d"), grant("cut", hours=0.3)),
        record("f", "root", grant("wide", hours=0.2, actions=("**",))),
    )
    standings = tree(*rows, document=document)
    found = endings(standings, NOW)
    assert [each.row.node.node_id for each in found] == [dlg("b"), "ends"]
    assert found[0].since == NOW - timedelta(minutes=30)
    assert found[1].since == NOW
    assert still_ending(standings, "grant:ends", NOW) == found[1]
    assert still_ending(standings, "grant:root", NOW) is None
    assert still_ending(standings, "grant:ends", NOW + timedelta(hours=1, seconds=1)) is None
    assert endings(standings, NOW + timedelta(hours=1))[0].row.node.node_id == "ends"


# --- documents -----------------------------------------------------------------------------------


def test_the_grants_are_the_policys_or_those_beside_it(tmp_path: Path) -> None:
    section = 'authority: {"grants": [{"id": "g", "subject": {"agent": "a"}, "actions": ["x"]}]}\n'
    policy = tmp_path / "ctrlrun.yaml"
    beside = tmp_path / "grants.yaml"
    head = "schema: ctrlrun.policy/v4\n"
    policy.write_text(f"{head}actions: {{}}\n{section}")
    beside.write_text(head + section)
    own = read_authority(read_policy(policy))
    assert isinstance(own, Authority) and list(own.grants) == ["g"]
    both = read_authority(read_policy(policy), beside)
    assert isinstance(both, AuthorityUnread)
    assert str(policy) in both.reason and str(beside) in both.reason
    policy.write_text(f"{head}actions: {{}}\n")
    other = read_authority(read_policy(policy), beside)
    assert isinstance(other, Authority) and other.source == str(beside)
    none = read_authority(read_policy(policy))
    assert isinstance(none, AuthorityUnread) and "no authority section" in none.reason
    missing = read_authority(read_policy(policy), tmp_path / "nowhere.yaml")
    assert isinstance(missing, AuthorityUnread) and "nowhere.yaml" in missing.reason
    unread = read_authority(read_policy(tmp_path / "nothing.yaml"))
    assert isinstance(unread, AuthorityUnread) and unread.reason.startswith("policy not read: ")
    alone = read_authority(read_policy(tmp_path / "nothing.yaml"), beside)
    assert isinstance(alone, Authority)


# --- the form ------------------------------------------------------------------------------------

texts = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters="\u27e8\u27e9<>"),
    min_size=1,
    max_size=12,
)
segments = st.text("abcXYZ-_ ,\"'[]{}ä漢".replace("[", "").replace("]", ""), min_size=1, max_size=6)
operands = st.one_of(st.integers(-(10**9), 10**9), texts, st.booleans())
limits = st.dictionaries(
    st.builds(lambda name, op: f"{name}_{op}", segments, st.sampled_from(["eq", "neq"])),
    operands,
    max_size=4,
)


@given(items=st.lists(segments.map(str.strip).filter(bool), min_size=1, max_size=4), limit=limits)
@settings(deadline=None)
def test_what_a_form_shows_reads_back_as_it_was(items: list[str], limit: dict[str, Any]) -> None:
    """Typed anew, letter for letter, the parent's own texts mean the parent's own values."""
    parent = Grant(
        "p",
        Subject("a"),
        tuple(items),
        tuple(items),
        parse_conditions(limit, where="test"),
        tuple(items),
        NOW + timedelta(hours=1),
    )
    typed = form_of(parent)
    again = read_form(parent, typed, dict.fromkeys(FIELDS, "\0"), NOW)
    wrong = [mark for mark in again.marks.values() if mark.fit is Fit.WRONG]
    if wrong:  # characters that a field shows by name alone
        assert all("cannot be typed" in str(mark.problem) for mark in wrong)
        return
    assert again.grant is not None
    assert again.grant.actions == parent.actions
    assert again.grant.resources == parent.resources
    assert again.grant.environments == parent.environments
    assert dict(again.grant.constraints) == dict(parent.constraints)
    assert again.grant.expires_at == parent.expires_at


def test_words_for_limits() -> None:
    made = parse_conditions(
        {
            "amount_gte": 0,
            "amount_lte": 25000,
            "currency_in": ["EUR", "USD", "1"],
            "tier_eq": "std",
            "region_neq": "us",
            "count_lt": 5,
            "flag_eq": True,
        },
        where="test",
    )
    found = limits_texts(Grant("g", Subject("a"), ("x",), ("payment:EU-*",), made))
    assert found == (
        "amount 0..25000",
        'currency in EUR,USD,"1"',
        "tier std",
        "region not us",
        "count under 5",
        "flag true",
        "payment:EU-*",
    )
    assert constraints_text({}) == ""
    assert items_text(None) == ""
    assert items_text(["a,b", "c"]) == '["a,b", "c"]'
    assert moment_text(None) == ""
    assert moment_text(NOW + timedelta(microseconds=1500)) == "2026-11-29T03:12:41.001Z"


@walk(
    ("agent", "user", "found"),
    [
        ("a", None, ("a", None)),
        ("a", "u", ("a", "u")),
        ("a*", "u", None),
        ("a", "u*", None),
        (None, "u", None),
    ],
)
def test_a_literal_subject_says_who_hands_on(
    agent: str | None, user: str | None, found: object
) -> None:
    assert literal_subject(Grant("g", Subject(agent, user), ("x",))) == found


# --- rows and filters ----------------------------------------------------------------------------


def test_a_grant_file_holds_what_a_file_may_hold() -> None:
    row = record("a", "root", grant(environments=("production",)))
    text = grant_file(row)
    assert text is not None
    document = json.loads(text)
    assert document["subject"] == {"agent": "bot"}
    assert "constraints" not in document and "resources" not in document
    assert None not in document.values()
    assert grant_file(record("b", "root", grant_json="{")) is None


def test_what_became_of_a_delegation(store: SQLiteStateStore, tmp_path: Path) -> None:
    store.put_delegation(record("a", "root"))
    assert delegation_standing(store, dlg("a"), NOW).word == "in force"
    assert delegation_standing(store, dlg("a"), NOW + timedelta(hours=3)).word == "expired"
    store.revoke_delegation(dlg("a"), by="cli:bob", at=NOW)
    assert delegation_standing(store, dlg("a"), NOW).by == "cli:bob"
    assert delegation_standing(store, dlg("z"), NOW).word == "gone"
    sql(store, tmp_path, "UPDATE delegations SET created_at = 'never'")
    assert delegation_standing(store, dlg("a"), NOW).word == "unreadable"


def test_filters_of_grants_name_their_states() -> None:
    standings = tree(
        record("a", "root", grant("night", hours=0.5)),
        record("b", "root", revoked_at=NOW, revoked_by="cli:bob"),
        document=authority(grant("head", grant_id="root", hours=5)),
    )
    rows = {node.node_id: standings.row(node) for node in standings.tree.nodes}

    def found(text: str) -> set[str]:
        wanted = parse(text, RowKind.AUTHORITY, now=NOW)
        return {name for name, row in rows.items() if wanted.matches(row, now=NOW)}

    assert found("state:revoked") == {dlg("b")}
    assert found("state:ending") == {dlg("a")}
    assert found("-state:live") == {dlg("b")}
    assert found("agent:n*") == {dlg("a")}
    assert found("parent:root") == {dlg("a"), dlg("b")}
    assert found("action:crm.*") == set(rows)
    assert found("since:2h") == {dlg("a"), dlg("b")}
    assert found("until:2h") == {"root"}
    assert found("via:api") == {dlg("a"), dlg("b")}
