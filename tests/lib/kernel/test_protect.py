"""`@protect`, `context` and `with_approval`: what a decorated call does, and what it refuses."""

from __future__ import annotations

import asyncio
import contextvars
import enum
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ctrlrun
from ctrlrun.control import Control, context, protect, protection, with_approval
from ctrlrun.errors import (
    ActionDenied,
    ApprovalMismatch,
    ApprovalRequired,
    ApprovalTimeout,
    EffectKeyError,
    InvalidArgument,
    PolicyError,
)
from ctrlrun.policy import Policy
from ctrlrun.providers import ScriptedApprovalProvider
from ctrlrun.state import InMemoryStateStore
from tests.cases import walk
from tests.lib.kernel.world import Clock

POLICY = """
schema: ctrlrun.policy/v2
actions:
  refund:
    effect: "refund:{payment_id}"
    resource: "payment:{payment_id}"
    rules:
      - when: {amount_gte: 0, amount_lte: 500}
        decision: allow
      - decision: approve
  note: {decision: allow}
"""


@pytest.fixture
def control(clock: Clock) -> Control:
    return Control(Policy.from_yaml(POLICY), InMemoryStateStore(clock=clock), clock=clock)


def last(control: Control) -> ctrlrun.Receipt:
    return control.store.receipts()[-1]


def async_generator() -> Callable[..., Any]:
    async def call(a: int) -> AsyncIterator[int]:
        yield a

    return call


def generator() -> Callable[..., Any]:
    def call(a: int) -> Iterator[int]:
        yield a

    return call


class GeneratorCall:
    def __call__(self, a: int) -> Iterator[int]:
        yield a


def star(*args: int) -> None: ...


def stars(**kwargs: int) -> None: ...


def scoped(data_scope: str) -> None: ...


def plain(a: int) -> int:
    return a


@walk(
    ("options", "function"),
    [
        ({"name": ""}, plain),
        ({"name": "x", "effect": "{"}, plain),
        ({"name": "x", "effect": ""}, plain),
        ({"name": "x", "effect": 5}, plain),
        ({"name": "x", "resource": "{a.b}"}, plain),
        ({"name": "x", "lease": timedelta(0)}, plain),
        ({"name": "x", "lease": 5}, plain),
        ({"name": "x", "reconcile": 5}, plain),
        ({"name": "x", "reconcile_eagerly": True}, plain),
        ({"name": "x", "reconcile_eagerly": 1, "reconcile": plain}, plain),
        ({"name": "x"}, async_generator()),
        ({"name": "x"}, functools.partial(generator(), a=1)),
        ({"name": "x"}, generator()),
        ({"name": "x"}, GeneratorCall()),
        ({"name": "x"}, star),
        ({"name": "x"}, stars),
        ({"name": "x"}, scoped),
        ({"name": "x"}, 5),
    ],
)
def test_what_can_never_work_is_refused_at_decoration(
    options: dict[str, Any], function: Any
) -> None:
    with pytest.raises(InvalidArgument) as caught:
        protect(**options)(function)
    if options["name"]:
        assert "'x'" in str(caught.value)
    if function in (star, stars, scoped):
        assert "x" in str(caught.value)


def test_a_bare_decorator_says_what_it_needs() -> None:
    with pytest.raises(InvalidArgument, match="name of the action"):
        protect(plain)  # type: ignore[arg-type]


def test_the_function_gets_the_canonical_arguments_and_its_value_comes_back(
    control: Control,
) -> None:
    marker = object()
    got: list[Any] = []

    @protect("note", control=control)
    def note(first: int, /, rows: Any, *, user: str = "u", resource: str = "r") -> object:
        """Take a note."""
        got.append((first, rows, user, resource))
        return marker

    rows = ({"b": 1, "a": (1, 2)},)
    with context(agent="a"):
        assert note(1, rows) is marker
        assert note(1, rows=rows, resource="r") is marker
    assert got[0] == (1, [{"a": [1, 2], "b": 1}], "u", "r")
    assert got[0][1] is not rows
    hashes = {receipt.action_hash for receipt in control.store.receipts()}
    assert len(hashes) == 1
    assert note.__name__ == "note"
    assert note.__doc__ == "Take a note."


def test_templates_of_the_policy_hold_unless_the_decorator_has_its_own(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    @protect("refund", control=control)
    def by_policy(payment_id: str, amount: int) -> None: ...

    with caplog.at_level(logging.WARNING, "ctrlrun"):

        @protect("refund", effect="mine:{payment_id}", control=control)
        def by_decorator(payment_id: str, amount: int) -> None: ...

        warned = [r.getMessage() for r in caplog.records]
        with context(agent="a"):
            by_policy("p1", 1)
            assert (last(control).effect_key, last(control).resource) == ("refund:p1", "payment:p1")
            by_decorator("p1", 1)
            by_decorator("p2", 1)
        assert (last(control).effect_key, last(control).resource) == ("mine:p2", "payment:p2")
    assert len(warned) == len(caplog.records) == 1
    assert "mine:{payment_id}" in warned[0]
    assert "refund:{payment_id}" in warned[0]


def test_without_a_principal_nothing_is_read_or_recorded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, control: Control, caplog: Any
) -> None:
    monkeypatch.setenv("CTRLRUN_CONFIG", str(tmp_path / "missing.yaml"))

    @protect("refund")
    def refund(payment_id: str) -> None: ...

    with pytest.raises(ActionDenied) as caught:
        refund()  # type: ignore[call-arg]
    assert caught.value.reason == "no_principal"
    assert "refund" in caplog.text

    @protect("refund", control=control)
    def controlled(payment_id: str, amount: int) -> None: ...

    with pytest.raises(ActionDenied):
        controlled("p1", 1)
    assert control.store.events() == ()


def test_bad_calls_leave_no_trace(control: Control) -> None:
    @protect("refund", control=control)
    def refund(payment_id: str, amount: int) -> None: ...

    with context(agent="a"):
        with pytest.raises(TypeError):
            refund("p1")  # type: ignore[call-arg]
        with pytest.raises(InvalidArgument, match=r"arguments\.amount"):
            refund("p1", 1.5)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="payment_id"):
            refund("", 1)
    assert control.store.events() == ()


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_an_unresolvable_key_is_refused_before_policy_in_either_mode(
    clock: Clock, mode: str
) -> None:
    text = POLICY.replace("policy/v2", "policy/v3").replace(
        "actions:", f"mode: {mode}\nactions:", 1
    )
    control = Control(Policy.from_yaml(text), InMemoryStateStore(clock=clock), clock=clock)

    @protect("note", effect="note:{id}", control=control)
    def note(id: str | None = None) -> None: ...

    with context(agent="a"), pytest.raises(EffectKeyError) as caught:
        note()
    events = control.store.events()
    assert [event.type for event in events] == ["ACTION_PROPOSED", "ACTION_DENIED"]
    assert events[1].data == {
        "reason": "effect_key_error",
        "effect": "note:{id}",
        "error": str(caught.value),
    }
    receipt = last(control)
    assert (receipt.decision, receipt.decision_reason, receipt.result, receipt.error) == (
        "deny",
        "effect_key_error",
        "denied",
        str(caught.value),
    )
    assert (receipt.execution, receipt.would_have, receipt.effect_key) == (None, None, None)


def test_a_resource_shows_canonical_values(control: Control) -> None:
    class Kind(int, enum.Enum):
        ONE = 1

    @protect("note", resource="r:{kind}", effect="k:{kind}", control=control)
    def note(kind: Kind) -> None: ...

    with context(agent="a"):
        note(Kind.ONE)
    assert (last(control).resource, last(control).effect_key) == ("r:1", "k:1")


def test_waiting_presents_the_answer_of_the_same_action(clock: Clock) -> None:
    store = InMemoryStateStore(clock=clock)
    provider = ScriptedApprovalProvider(store, ["pending", "grant", "deny"], clock=clock)
    control = Control(Policy.from_yaml(POLICY), store, provider, clock=clock)
    ran: list[int] = []

    @protect("refund", wait=True, control=control)
    def refund(payment_id: str, amount: int) -> str:
        ran.append(amount)
        return "done"

    with context(agent="a"):
        assert refund("p1", 1000) == "done"
        assert provider.polls == 2
        with pytest.raises(ActionDenied) as caught:
            refund("p2", 1000)
        assert caught.value.reason == "approval_denied"
        assert last(control).result == "denied"
        with pytest.raises(ApprovalTimeout):
            refund("p3", 1000)
    assert ran == [1000]
    proposed = [e.action_id for e in store.events() if e.type == "ACTION_PROPOSED"]
    assert proposed[0] == proposed[1]


def test_waiting_is_for_ones_own_request_only(clock: Clock) -> None:
    store = InMemoryStateStore(clock=clock)
    provider = ScriptedApprovalProvider(store, [], clock=clock)
    control = Control(Policy.from_yaml(POLICY), store, provider, clock=clock)

    @protect("refund", control=control)
    def inner(payment_id: str, amount: int) -> None: ...

    @protect("note", wait=True, control=control)
    def outer() -> None:
        inner("p1", 1000)

    with context(agent="a"), pytest.raises(ApprovalRequired):
        outer()
    assert provider.polls == 0


def test_no_approval_is_presented_inside_an_executor(control: Control) -> None:
    @protect("refund", control=control)
    def inner(payment_id: str, amount: int) -> None: ...

    @protect("note", control=control)
    def outer() -> None:
        inner("p1", 1000)

    with context(agent="a"), with_approval("apr_outer"), pytest.raises(ApprovalRequired):
        outer()


def test_a_presented_approval_is_not_asked_about_again(control: Control) -> None:
    @protect("refund", control=control)
    def refund(payment_id: str, amount: int) -> None: ...

    with context(agent="a"), with_approval("apr_unknown"), pytest.raises(ApprovalMismatch) as e:
        refund("p1", 1000)
    assert e.value.reason == "unknown"


def test_a_hook_without_a_key_is_warned_about_once(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    @protect("note", reconcile=lambda key: "unknown", control=control)
    def note() -> None: ...

    with context(agent="a"):
        note()
        note()
    assert len([r for r in caplog.records if "reconcile" in r.getMessage()]) == 1


def test_names_that_are_no_parameter_are_warned_about(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    @protect("refund", control=control)
    def refund(payment: str) -> None: ...

    text = caplog.text
    assert "'amount'" in text
    assert "'payment_id'" in text


@walk("template", ["{a}{b}", "x:{a}:{b}", "{amount}:{a}:{b}"])
def test_a_template_whose_keys_can_collide_is_warned_about(
    template: str, control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    protect("refund", effect=template, control=control)(lambda amount, a, b: None)
    assert (
        f"different arguments can make one value of the decorator's effect template {template!r}"
        in (caplog.text)
    )


@walk("blank", ["", " ", 5, None])
def test_context_refuses_blank_values(blank: Any) -> None:
    with pytest.raises(InvalidArgument), context(agent=blank):
        pass


@walk("bad", ["", 5, None])
def test_with_approval_refuses_no_id(bad: Any) -> None:
    with pytest.raises(InvalidArgument), with_approval(bad):
        pass


def test_context_takes_no_environment() -> None:
    with pytest.raises(TypeError):
        context(agent="a", environment="x")  # type: ignore[call-arg]


def test_blocks_nest_restore_and_decorate(control: Control) -> None:
    @protect("note", control=control)
    def note() -> None: ...

    @context(agent="outer", user="ana")
    def run() -> None:
        note()
        with pytest.raises(ValueError, match="x"), context(agent="inner"):
            note()
            raise ValueError("x")
        note()

    run()
    run()
    agents = [receipt.principal.agent for receipt in control.store.receipts()]
    assert agents == ["outer", "inner", "outer"] * 2


def test_threads_and_tasks(control: Control) -> None:
    @protect("note", control=control)
    def note() -> None: ...

    async def task(agent: str) -> None:
        with context(agent=agent):
            await asyncio.sleep(0)
            await asyncio.to_thread(note)

    async def main() -> None:
        await asyncio.gather(task("a"), task("b"))

    asyncio.run(main())
    assert {r.principal.agent for r in control.store.receipts()} == {"a", "b"}
    with context(agent="c"), ThreadPoolExecutor(1) as pool:
        with pytest.raises(ActionDenied):
            pool.submit(note).result()
        pool.submit(contextvars.copy_context().run, note).result()
    assert last(control).principal.agent == "c"


def test_one_default_control_is_built_and_a_failed_one_is_not_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(protection, "_default", protection._DefaultControl())
    policy = tmp_path / "ctrlrun.yaml"
    monkeypatch.setenv("CTRLRUN_CONFIG", str(policy))
    monkeypatch.delenv("CTRLRUN_STATE", raising=False)
    built: list[Control] = []
    real = Control.from_file.__func__  # type: ignore[attr-defined]

    def from_file(cls: type[Control]) -> Control:
        made: Control = real(cls)
        built.append(made)
        return made

    monkeypatch.setattr(Control, "from_file", classmethod(from_file))

    @protect("note")
    def note() -> int:
        return 1

    with context(agent="a"), pytest.raises(PolicyError):
        note()
    assert not (tmp_path / ".ctrlrun").exists()
    policy.write_text(POLICY)
    barrier = threading.Barrier(8)

    def call() -> int:
        barrier.wait()
        with context(agent="a"):
            return note()

    with ThreadPoolExecutor(8) as pool:
        assert [f.result() for f in [pool.submit(call) for _ in range(8)]] == [1] * 8
    assert len(built) == 1
    assert len((tmp_path / ".ctrlrun" / "receipts.jsonl").read_text().splitlines()) == 8
    built[0].store.close()  # type: ignore[attr-defined]
