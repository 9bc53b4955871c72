"""`Control.delegate` and `Control.revoke`: what they write, and that the next call sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import ctrlrun
from ctrlrun.action import Action, Principal
from ctrlrun.authority import Authority, Grant, Subject
from ctrlrun.conditions import parse_conditions
from ctrlrun.control import Control, context, protect
from ctrlrun.errors import (
    AuthorityDenied,
    AuthorityEscalation,
    IdentityError,
    InvalidArgument,
    PolicyError,
)
from ctrlrun.policy import Policy
from ctrlrun.state import SQLiteStateStore
from tests.cases import walk
from tests.lib.kernel.grants import DANA, authority, grant, handed_on
from tests.lib.kernel.world import START, Clock, World
from tests.lib.sqlite_helpers import in_child

Make = Callable[..., World]

ROOT = authority(grant())


def test_a_delegation_covers_from_the_next_call_on_and_until_it_is_revoked(world: Make) -> None:
    w = world(authority=ROOT)
    assert isinstance(w.caught(), AuthorityDenied)
    made = w.control.delegate("root", handed_on(), by=DANA)
    assert w.run().result == "committed"
    w.control.revoke(made.delegation_id)
    error = w.caught(key="pay:p2")
    assert isinstance(error, AuthorityDenied)
    assert (error.reason, error.delegation_id) == ("authority_revoked", made.delegation_id)
    codes = "PROP AUTH- DENY DCRE PROP AUTH+ EVAL RES START COM DREV PROP AUTH- DENY"
    assert w.codes() == codes


def test_what_is_written_of_them(world: Make) -> None:
    w = world(authority=ROOT)
    made = w.control.delegate("root", handed_on(), by=DANA)
    w.control.revoke(made.delegation_id)
    w.control.revoke(made.delegation_id, by="cli:later")
    created, revoked = w.store.events()
    assert dict(created.data) == {
        "delegation_id": made.delegation_id,
        "parent_id": "root",
        "depth": 1,
        "created_by_agent": "head",
        "created_by_user": "dana",
        "created_via": "api",
    }
    assert dict(revoked.data) == {"delegation_id": made.delegation_id, "revoked_by": None}
    for event in (created, revoked):
        assert (event.action_id, event.effect_key, event.approval_id) == (None, None, None)
    assert w.sink.heard == [created, revoked]
    assert made.grant.id == made.delegation_id
    assert re.fullmatch("dlg_[0-9a-f]{32}", made.delegation_id)
    record = w.store.get_delegation(made.delegation_id)
    assert (record.revoked_at, record.revoked_by) == (START, None)
    assert record.created_at == START


def test_two_equal_calls_make_two(world: Make) -> None:
    w = world(authority=ROOT)
    first, second = (w.control.delegate("root", handed_on(), by=DANA) for _ in range(2))
    assert first.delegation_id != second.delegation_id
    w.control.revoke(first.delegation_id)
    assert w.run().result == "committed"


def test_a_revoked_parent_takes_all_beneath_with_it(world: Make) -> None:
    w = world(authority=ROOT)
    middle = w.control.delegate("root", handed_on("mid", delegable=True), by=DANA)
    w.control.delegate(middle.delegation_id, handed_on(), by=Principal("mid"))
    assert w.run().result == "committed"
    w.control.revoke(middle.delegation_id)
    assert isinstance(w.caught(key="pay:p2"), AuthorityDenied)
    with pytest.raises(AuthorityEscalation) as refused:
        w.control.delegate(middle.delegation_id, handed_on(), by=Principal("mid"))
    assert refused.value.reason == "unknown_parent"


NARROWER = parse_conditions({"amount_gte": 0, "amount_lte": 20000}, where="test")


@walk(
    ("parent_id", "changes", "by", "grants", "facts"),
    [
        ("nowhere", {}, DANA, ROOT, {"reason": "unknown_parent"}),
        (
            "root",
            {},
            DANA,
            authority(grant(delegable=False)),
            {"reason": "parent_not_delegable"},
        ),
        (
            "root",
            {"expires_at": START},
            DANA,
            authority(grant(expires_at=START - timedelta(1))),
            {"reason": "parent_not_valid"},
        ),
        ("root", {}, Principal("other"), ROOT, {"reason": "not_the_subject"}),
        ("root", {}, DANA, authority(grant(), depth=0), {"reason": "max_depth"}),
        (
            "root",
            {"constraints": NARROWER},
            DANA,
            ROOT,
            {"reason": "containment", "dimension": "constraints"},
        ),
    ],
)
def test_what_may_not_exist_is_recorded_and_raised(
    world: Make,
    parent_id: str,
    changes: dict[str, Any],
    by: Principal,
    grants: Authority,
    facts: dict[str, str],
) -> None:
    w = world(authority=grants)
    with pytest.raises(AuthorityEscalation) as refused:
        w.control.delegate(parent_id, handed_on(**changes), by=by)
    assert (refused.value.reason, refused.value.parent_id) == (facts["reason"], parent_id)
    assert refused.value.dimension == facts.get("dimension")
    (event,) = w.store.events()
    assert event.type == "DELEGATION_REJECTED"
    assert dict(event.data) == {"parent_id": parent_id, **facts}
    assert w.sink.heard == [event]
    assert w.store.delegations(include_revoked=True) == ()


def test_who_has_expired_hands_nothing_on(world: Make) -> None:
    w = world(authority=ROOT)
    by = Principal("head", expires_at=START - timedelta(microseconds=1))
    with pytest.raises(IdentityError):
        w.control.delegate("nowhere", handed_on(), by=by)
    (event,) = w.store.events()
    assert event.type == "DELEGATION_REJECTED"
    assert dict(event.data) == {"reason": "principal_expired", "parent_id": "nowhere"}
    good = Principal("head", expires_at=START)
    assert w.control.delegate("root", handed_on(), by=good).depth == 1


@walk(
    "call",
    [
        lambda control: control.delegate("root", handed_on(), by="head"),
        lambda control: control.delegate(5, handed_on(), by=DANA),
        lambda control: control.delegate(None, handed_on(), by=DANA),
        lambda control: control.delegate("root", grant("named", "a"), by=DANA),
        lambda control: control.delegate("root", "a grant", by=DANA),
        lambda control: control.revoke("root"),
        lambda control: control.revoke("dlg_" + "0" * 32),
        lambda control: control.revoke(""),
        lambda control: control.revoke(None),
        lambda control: control.revoke("dlg_" + "0" * 32, by=""),
        lambda control: control.revoke("dlg_" + "0" * 32, by="a\nb"),
    ],
)
def test_wiring_that_cannot_be_right_leaves_nothing(
    world: Make, call: Callable[[Control], object]
) -> None:
    w = world(authority=ROOT)
    with pytest.raises(InvalidArgument):
        call(w.control)
    assert w.store.events() == ()
    assert w.sink.heard == []
    assert w.store.delegations(include_revoked=True) == ()


def test_without_grants_there_is_nothing_to_hand_on_or_take_back(world: Make) -> None:
    w = world()
    with pytest.raises(InvalidArgument, match="delegate"):
        w.control.delegate("root", handed_on(), by=DANA)
    with pytest.raises(InvalidArgument, match="revoke"):
        w.control.revoke("dlg_" + "0" * 32)
    assert w.store.events() == ()


def test_observing_refuses_a_delegation_all_the_same(world: Make) -> None:
    w = world("observe", authority=ROOT)
    with pytest.raises(AuthorityEscalation):
        w.control.delegate("root", handed_on(constraints=NARROWER), by=DANA)


def test_a_delegation_that_is_rolled_back_covers_nothing(world: Make) -> None:
    w = world(authority=ROOT)
    if not hasattr(w.store, "unit"):
        pytest.skip("a store of single calls")

    class Undone(Exception):
        pass

    def work() -> None:
        w.control.delegate("root", handed_on(), by=DANA)
        assert w.control.evaluate(w.action()).decision == "allow"
        raise Undone

    with pytest.raises(Undone):
        w.store.unit(work, durable=True)
    assert w.control.evaluate(w.action()).reason == "no_authority"


def test_a_revocation_that_is_rolled_back_takes_nothing_back(world: Make) -> None:
    w = world(authority=ROOT)
    made = w.control.delegate("root", handed_on(), by=DANA)
    if not hasattr(w.store, "unit"):
        pytest.skip("a store of single calls")

    class Undone(Exception):
        pass

    def work() -> None:
        w.control.revoke(made.delegation_id)
        assert w.control.evaluate(w.action()).reason == "authority_revoked"
        raise Undone

    with pytest.raises(Undone):
        w.store.unit(work, durable=True)
    assert w.control.evaluate(w.action()).decision == "allow"


# --- several processes ---------------------------------------------------------------------------


@pytest.fixture
def shared(tmp_path: Path, clock: Clock) -> Any:
    store = SQLiteStateStore(tmp_path / "state.db", clock=clock)
    yield World(store, clock, authority=ROOT)
    store.close()


def elsewhere(folder: Path, work: Callable[[Control], object]) -> None:
    """Do it in another process, on a store of its own."""

    def child() -> None:
        with closing(SQLiteStateStore(folder / "state.db", clock=Clock())) as store:
            work(Control(Policy.from_yaml(POLICY), store, clock=Clock(), authority=ROOT))

    assert in_child(child) == 0


POLICY = "schema: ctrlrun.policy/v3\nactions: {pay: {decision: allow}}"


def test_a_parent_that_another_process_revoked_is_seen_at_the_next_call(
    shared: World, tmp_path: Path
) -> None:
    middle = shared.control.delegate("root", handed_on("mid", delegable=True), by=DANA)
    leaf = shared.control.delegate(middle.delegation_id, handed_on(), by=Principal("mid"))
    assert shared.run().result == "committed"
    elsewhere(tmp_path, lambda control: control.revoke(middle.delegation_id, by="cli:other"))
    error = shared.caught(key="pay:p2")
    assert isinstance(error, AuthorityDenied)
    assert (error.reason, error.delegation_id) == ("authority_revoked", leaf.delegation_id)


def test_a_delegation_that_another_process_made_is_seen_at_the_next_call(
    shared: World, tmp_path: Path
) -> None:
    assert isinstance(shared.caught(), AuthorityDenied)
    elsewhere(tmp_path, lambda control: control.delegate("root", handed_on(), by=DANA))
    assert shared.run().result == "committed"


def test_a_revocation_while_suspended_is_seen_by_whoever_resumes(
    shared: World, tmp_path: Path
) -> None:
    from ctrlrun.errors import Suspended

    made = shared.control.delegate("root", handed_on(), by=DANA)

    def suspends() -> object:
        raise Suspended("tok")

    shared.caught(executor=suspends)
    elsewhere(tmp_path, lambda control: control.revoke(made.delegation_id))
    receipt = shared.control.resume("tok", lambda: None)
    assert (receipt.decision_reason, receipt.result) == ("authority_revoked", "committed")


# --- documents -----------------------------------------------------------------------------------

DOCUMENT = """
schema: ctrlrun.policy/v3
authority:
  grants:
    - {id: support, subject: {agent: support-*}, actions: [x]}
actions: {x: {decision: allow}, y: {decision: allow}}
"""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CTRLRUN_STATE", "CTRLRUN_ENVIRONMENT", "CTRLRUN_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("alone")
def test_from_file_enforces_the_documents_section(tmp_path: Path) -> None:
    (tmp_path / "ctrlrun.yaml").write_text(DOCUMENT)
    control = Control.from_file(tmp_path / "ctrlrun.yaml")
    assert control.authority is control.policy.authority
    assert control.evaluate(Action("x", {}, Principal("support-1"))).decision == "allow"
    for name, agent in (("x", "other"), ("y", "support-1")):
        action = Action(name, {}, Principal(agent))
        assert control.evaluate(action).reason == "no_authority"
        with pytest.raises(AuthorityDenied):
            control.execute(action, lambda: None)
    assert '"AUTHORITY_DENIED"' in (tmp_path / ".ctrlrun" / "events.jsonl").read_text()
    control.store.close()


@pytest.mark.usefixtures("alone")
@walk("section", ["authority:", "authority: null", "authority: {grants: null}"])
def test_a_null_section_is_refused_and_makes_no_store(tmp_path: Path, section: str) -> None:
    text = f"schema: ctrlrun.policy/v3\n{section}\nactions: {{x: {{decision: allow}}}}"
    with pytest.raises(PolicyError, match="<string>"):
        Policy.from_yaml(text)
    (tmp_path / "ctrlrun.yaml").write_text(text)
    with pytest.raises(PolicyError):
        Control.from_file(tmp_path / "ctrlrun.yaml")
    assert list(tmp_path.iterdir()) == [tmp_path / "ctrlrun.yaml"]


@pytest.mark.usefixtures("alone")
def test_the_example_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[3] / "docs" / "control.md").read_text("utf-8")
    _, _, example = text.partition("<!-- protected by grants -->")
    document = re.search(r"```yaml\n(.*?)```", example, re.DOTALL)
    program = re.search(r"```python\n(.*?)```", example, re.DOTALL)
    assert document is not None and program is not None
    (tmp_path / "ctrlrun.yaml").write_text(document[1])
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"ctrlrun": ctrlrun, "datetime": datetime, "UTC": UTC}
    exec(program[1], names)
    results = [receipt.result for receipt in names["control"].store.receipts()]
    assert results == ["committed", "denied", "committed"]
    with context("night-bot", "dana@example.com"), pytest.raises(AuthorityDenied) as denied:
        names["refund"]("EU-4", 1500)
    assert denied.value.reason == "authority_revoked"
    names["control"].store.close()


def test_environments_of_grants_are_those_of_the_control(clock: Clock) -> None:
    from ctrlrun.state import InMemoryStateStore

    only = Authority({"g": Grant("g", Subject("a"), ("x",), environments=("staging",))})
    policy = Policy.from_yaml("schema: ctrlrun.policy/v3\nactions: {x: {decision: allow}}")
    for environment, allowed in (("staging", True), ("production", False)):
        store = InMemoryStateStore(clock=clock)
        control = Control(policy, store, authority=only, environment=f" {environment} ")

        @protect("x", control=control)
        def x() -> str:
            return "done"

        with context("a"):
            if allowed:
                assert x() == "done"
            else:
                with pytest.raises(AuthorityDenied):
                    x()
        other = "production" if allowed else "staging"
        foreign = Action("x", {}, Principal("a"), environment=other)
        before = len(store.events())
        with pytest.raises(InvalidArgument, match=other):
            control.evaluate(foreign)
        with pytest.raises(InvalidArgument, match=other):
            control.execute(foreign, lambda: None)
        assert len(store.events()) == before


def test_context_takes_no_environment() -> None:
    with pytest.raises(TypeError):
        context("a", environment="staging")  # type: ignore[call-arg]
