"""The context of a call, and the two providers that verify nothing."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ctrlrun import (
    HeaderIdentityProvider,
    IdentityContext,
    IdentityError,
    IdentityProvider,
    InvalidArgument,
    Principal,
    StaticIdentityProvider,
)
from tests.cases import walk

LATER = datetime(2030, 1, 1, tzinfo=UTC)


def context(headers: dict[str, str] | None = None, **more: Any) -> IdentityContext:
    return IdentityContext("stripe.refund", "production", headers or {}, **more)


# --- the context ---------------------------------------------------------------------------------


@walk(
    ("headers", "name", "value"),
    [
        ({"X-Agent": "bot"}, "x-agent", "bot"),
        ({"x-agent": "bot"}, "X-AGENT", "bot"),
        ({"X-Agent": " \tbot\r\n "}, "X-Agent", "bot"),
        ({"X-Agent": ""}, "X-Agent", None),
        ({"X-Agent": " \t "}, "X-Agent", None),
        ({"X-Agents": "bot"}, "X-Agent", None),
        ({}, "X-Agent", None),
        # The Kelvin sign is a `k` in lower case, and no letter of a header's name.
        ({"X-To\u212aen": "bot"}, "x-token", None),
    ],
)
def test_a_header_is_found_whatever_its_case(
    headers: dict[str, str], name: str, value: str | None
) -> None:
    assert context(headers).header(name) == value


def test_headers_that_differ_in_case_alone_are_refused() -> None:
    smuggled = context({"X-Agent": "bot", "x-agent": "root", "x-other": "fine"})
    with pytest.raises(IdentityError, match="2 headers X-AGENT"):
        smuggled.header("X-AGENT")
    assert smuggled.header("X-Other") == "fine"


def test_a_context_is_a_snapshot_that_shows_no_credentials() -> None:
    headers = {"Authorization": "Bearer abc"}
    asked = IdentityContext("a.b", "staging", headers, agent="bot", user="dana")
    headers["Authorization"] = "Bearer changed"
    assert asked.header("authorization") == "Bearer abc"
    assert "abc" not in repr(asked)
    with pytest.raises(AttributeError):
        asked.agent = "root"  # type: ignore[misc]
    with pytest.raises(TypeError):
        asked.headers["X"] = "y"  # type: ignore[index]
    assert hash(asked) == hash(IdentityContext("a.b", "staging", {}, agent="bot", user="dana"))
    plain = IdentityContext("a.b", "staging")
    assert (dict(plain.headers), plain.agent, plain.user) == ({}, None, None)


@walk("headers", [None, "X-Agent: bot", [("X-Agent", "bot")], {"X": 1}, {1: "x"}])
def test_headers_are_a_mapping_of_text_to_text(headers: Any) -> None:
    with pytest.raises(InvalidArgument, match="headers must"):
        IdentityContext("a.b", "production", headers)


# --- the protocol --------------------------------------------------------------------------------


def test_a_provider_is_whatever_resolves() -> None:
    class Own:
        def resolve(self, context: IdentityContext) -> Principal | None:
            return None

    assert isinstance(Own(), IdentityProvider)
    assert isinstance(StaticIdentityProvider("bot"), IdentityProvider)
    assert isinstance(HeaderIdentityProvider("X-Agent"), IdentityProvider)
    assert not isinstance(object(), IdentityProvider)


# --- static --------------------------------------------------------------------------------------


def test_a_static_provider_answers_the_one_principal() -> None:
    provider = StaticIdentityProvider("bot", "dana", {"tier": 2}, "corp", LATER)
    expected = Principal("bot", "dana", {"tier": 2}, "corp", LATER)
    assert provider.resolve(context({"X-Agent": "root"}, agent="other")) == expected
    assert StaticIdentityProvider("bot").resolve(context()) == Principal("bot")


@walk(
    "wrong",
    [{"agent": " "}, {"agent": 5}, {"claims": {"rate": 0.5}}, {"expires_at": datetime(2030, 1, 1)}],
)
def test_a_static_principal_is_checked_when_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        StaticIdentityProvider(**{"agent": "bot", **wrong})


# --- headers -------------------------------------------------------------------------------------


@walk(
    ("headers", "expected"),
    [
        ({"x-agent": " bot ", "X-USER": "dana"}, Principal("bot", "dana", issuer="proxy")),
        ({"X-Agent": "bot"}, Principal("bot", issuer="proxy")),
        ({"X-Agent": "bot", "X-User": " "}, Principal("bot", issuer="proxy")),
        ({"X-Agent": " ", "X-User": "dana"}, None),
        ({"X-User": "dana"}, None),
        ({}, None),
    ],
)
def test_headers_name_the_principal(headers: dict[str, str], expected: Principal | None) -> None:
    provider = HeaderIdentityProvider(" X-Agent ", "X-User", issuer="proxy")
    assert provider.resolve(context(headers, agent="hint", user="hint")) == expected


def test_a_user_header_that_is_not_configured_is_not_believed() -> None:
    provider = HeaderIdentityProvider("X-Agent")
    assert provider.resolve(context({"X-Agent": "bot", "X-User": "dana"})) == Principal("bot")


def test_a_value_that_is_no_name_is_refused() -> None:
    provider = HeaderIdentityProvider("X-Agent")
    with pytest.raises(IdentityError, match="no principal"):
        provider.resolve(context({"X-Agent": "bot\ud800"}))


@walk(
    "wrong",
    [
        {"agent_header": ""},
        {"agent_header": " "},
        {"agent_header": None},
        {"user_header": " "},
        {"user_header": 5},
        {"issuer": 5},
    ],
)
def test_names_of_headers_are_checked_when_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        HeaderIdentityProvider(**{"agent_header": "X-Agent", **wrong})


# --- warnings ------------------------------------------------------------------------------------


@walk(
    ("make", "named"),
    [
        (lambda: StaticIdentityProvider("bot\x1b[2J"), "agent bot␛[2J"),
        (lambda: HeaderIdentityProvider("X-Agent\x1b[2J", "X-User"), "header X-Agent␛[2J"),
    ],
)
def test_a_provider_that_believes_says_so_once(
    make: Any, named: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("DEBUG", "ctrlrun"):
        provider = make()
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("ctrlrun", "WARNING")
        assert named in record.getMessage()
        for _ in range(3):
            provider.resolve(context({"X-Agent\x1b[2J": "bot"}))
    assert len(caplog.records) == 1
