"""Who proposes: the identity provider, the context, and what stands when they say different things."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.authority import Authority, Grant, Subject
from ctrlrun.control import Control, context, protect, with_approval
from ctrlrun.control.ambient import presented_approval
from ctrlrun.errors import ActionDenied, ApprovalRequired, IdentityError, InvalidArgument
from ctrlrun.identity import IdentityContext, StaticIdentityProvider
from ctrlrun.policy import Policy
from ctrlrun.state import InMemoryStateStore
from tests.cases import walk

POLICY = Policy.from_yaml(
    "schema: ctrlrun.policy/v3\nactions: {x: {decision: allow}, ask: {decision: approve}}"
)
EVERYTHING = Authority({"all": Grant("all", Subject(agent="*"), ("**",))})
TOKEN = IdentityError("the credential was rejected")


class Provider:
    """Answers, or raises, what it is given; remembers what it was asked."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.asked: list[IdentityContext] = []

    def resolve(self, context: IdentityContext) -> Any:
        self.asked.append(context)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def build(provider: object = None, authority: Authority | None = None) -> Control:
    return Control(POLICY, InMemoryStateStore(), identity=provider, authority=authority)  # type: ignore[arg-type]


PRINCIPAL = Principal("bot", "dana", {"role": "ops"}, "https://issuer")
CONTEXT = Principal("ctx", "carl")


@walk(
    ("answer", "in_context", "authority", "expected"),
    [
        # no provider
        ("no provider", True, None, CONTEXT),
        ("no provider", True, EVERYTHING, CONTEXT),
        ("no provider", False, None, ActionDenied),
        # it answers
        (PRINCIPAL, True, None, PRINCIPAL),
        (PRINCIPAL, False, None, PRINCIPAL),
        (PRINCIPAL, True, EVERYTHING, PRINCIPAL),
        (PRINCIPAL, False, EVERYTHING, PRINCIPAL),
        # it has nothing to go by
        (None, True, None, CONTEXT),
        (None, False, None, ActionDenied),
        (None, True, EVERYTHING, ActionDenied),
        (None, False, EVERYTHING, ActionDenied),
        # it refuses, or breaks
        (TOKEN, True, None, TOKEN),
        (TOKEN, False, EVERYTHING, TOKEN),
        (ZeroDivisionError("s3cret"), True, None, IdentityError),
        (ActionDenied(reason="mine"), True, None, IdentityError),
        (KeyboardInterrupt(), True, None, KeyboardInterrupt),
        # it answers with something else
        ("bot", True, None, IdentityError),
        (False, True, None, IdentityError),
        (("bot", "dana"), True, EVERYTHING, IdentityError),
    ],
)
def test_who_it_is(
    answer: object, in_context: bool, authority: Authority | None, expected: object
) -> None:
    control = build(None if answer == "no provider" else Provider(answer), authority)

    def resolve() -> Principal:
        if not in_context:
            return control.resolve_principal("x")
        with context(CONTEXT.agent, CONTEXT.user):
            return control.resolve_principal("x")

    if isinstance(expected, Principal):
        assert resolve() is expected or resolve() == expected
    else:
        kind = expected if isinstance(expected, type) else type(expected)
        with pytest.raises(kind) as caught:
            resolve()
        if isinstance(expected, BaseException):
            assert caught.value is expected
        if isinstance(caught.value, ActionDenied):
            assert caught.value.reason == "no_principal"
        if isinstance(answer, Exception) and answer is not expected:
            assert caught.value.__cause__ is answer
            assert "s3cret" not in str(caught.value)
    assert control.store.events() == ()
    assert control.store.receipts() == ()


@walk(
    ("answer", "warned"),
    [
        (Principal("bot", CONTEXT.user), True),
        (Principal(CONTEXT.agent, "dana"), True),
        (Principal(CONTEXT.agent), True),
        (Principal(CONTEXT.agent, CONTEXT.user, issuer="https://issuer"), False),
    ],
)
def test_a_difference_is_said_once_for_each_control(
    answer: Principal, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        caplog.clear()
        control = build(Provider(answer))
        with context(CONTEXT.agent, CONTEXT.user), caplog.at_level(logging.WARNING, "ctrlrun"):
            for _ in range(3):
                control.resolve_principal("x")
        assert len(caplog.records) == int(warned)
        if warned:
            names = caplog.messages[0]
            assert all(name in names for name in (answer.agent, CONTEXT.agent, "carl"))


def test_a_provider_that_breaks_is_said_each_time(caplog: pytest.LogCaptureFixture) -> None:
    control = build(Provider(ZeroDivisionError("s3cret")))
    with caplog.at_level(logging.WARNING, "ctrlrun"):
        for _ in range(2):
            with pytest.raises(IdentityError):
                control.resolve_principal("x")
    assert len(caplog.records) == 2
    assert "ZeroDivisionError" in caplog.text
    assert "s3cret" not in caplog.text


def test_hostile_names_are_shown_inert(caplog: pytest.LogCaptureFixture) -> None:
    control = build(Provider(Principal("bot\x1b[2J\nforged")))
    with context("ctx"), caplog.at_level(logging.WARNING, "ctrlrun"):
        control.resolve_principal("x")
    assert "\x1b" not in caplog.messages[0]
    assert "\n" not in caplog.messages[0]


def test_what_a_provider_is_told() -> None:
    provider = Provider(PRINCIPAL)
    control = Control(POLICY, InMemoryStateStore(), identity=provider, environment="staging")
    control.resolve_principal("x")
    with context("ctx", "carl"):
        control.resolve_principal("y")
    assert provider.asked == [
        IdentityContext("x", "staging"),
        IdentityContext("y", "staging", agent="ctx", user="carl"),
    ]
    assert dict(provider.asked[1].headers) == {}


def test_a_decorated_call_is_made_by_the_providers_principal() -> None:
    control = build(StaticIdentityProvider("bot", "dana", {"role": "ops"}, "https://issuer"))

    @protect("x", control=control)
    def x(amount: int) -> int:
        return amount

    assert x(5) == 5
    (receipt,) = control.store.receipts()
    assert receipt.principal == PRINCIPAL
    with context("ctx"):
        x(6)
    assert control.store.receipts()[1].principal == PRINCIPAL


def test_nobody_comes_before_bad_arguments_and_leaves_nothing() -> None:
    control = build(Provider(None), EVERYTHING)

    @protect("x", control=control)
    def x(amount: int) -> None: ...

    with context("ctx"), pytest.raises(ActionDenied, match="no_principal"):
        x()  # type: ignore[call-arg]
    assert control.store.events() == ()


def test_no_approval_is_presented_while_a_provider_runs() -> None:
    seen: list[str | None] = []

    class Looks:
        def resolve(self, context: IdentityContext) -> Principal:
            seen.append(presented_approval())
            return PRINCIPAL

    control = build(Looks())

    @protect("ask", control=control)
    def ask() -> None: ...

    with pytest.raises(ApprovalRequired) as required:
        ask()
    control.store.grant_approval(required.value.request_id, "cli:local")
    with with_approval(required.value.request_id):
        ask()
    assert seen == [None, None]


@walk(
    ("changes", "word"),
    [
        ({"identity": object()}, "identity"),
        ({"identity": "bot"}, "identity"),
        ({"authority": {}}, "authority"),
        ({"authority": "policy.yaml"}, "authority"),
    ],
)
def test_a_part_of_the_wrong_kind_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidArgument, match=word):
        Control(POLICY, InMemoryStateStore(), **changes)


def test_what_it_was_built_with_is_readable() -> None:
    provider = Provider(None)
    control = build(provider, EVERYTHING)
    assert control.identity is provider
    assert control.authority is EVERYTHING
    bare = build()
    assert (bare.identity, bare.authority) == (None, None)
    change: Callable[[], None] = lambda: setattr(bare, "authority", EVERYTHING)  # noqa: E731
    with pytest.raises(AttributeError):
        change()
