"""Tokens that are taken, and what they become."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ctrlrun.action import Principal
from ctrlrun.identity import IdentityContext, IdentityProvider
from tests.cases import walk

from .helpers import (
    ABSENT,
    AUDIENCE,
    ISSUER,
    NOW,
    NOW_SECONDS,
    SECRET,
    Clock,
    admitted,
    bearer,
    provider,
    public_pem,
    refused,
    shown_to,
    token,
)

EXPIRY = NOW + timedelta(seconds=300)


@walk(
    ("alg", "key", "settings"),
    [
        ("RS256", "rsa", lambda: {"public_key": public_pem("rsa")}),
        ("PS384", "rsa", lambda: {"public_key": public_pem("rsa")}),
        ("ES256", "ec", lambda: {"public_key": public_pem("ec")}),
        ("ES384", "ec384", lambda: {"public_key": public_pem("ec384")}),
        ("EdDSA", "ed", lambda: {"public_key": public_pem("ed")}),
        ("HS256", SECRET, lambda: {"secret": SECRET}),
        ("HS512", SECRET, lambda: {"secret": SECRET.encode()}),
    ],
)
def test_a_signed_token_names_the_principal(
    alg: str, key: str, settings: Callable[[], dict[str, Any]]
) -> None:
    asked = provider(algorithms=[alg], **settings())
    expected = Principal("agent-7", issuer=ISSUER, expires_at=EXPIRY)
    assert admitted(asked, bearer(token(alg=alg, key=key))) == expected


def test_a_public_key_is_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_text(public_pem("rsa"))
    for source in (path, str(path), f"\n{public_pem('rsa')}"):
        assert admitted(provider(public_key=source), bearer(token())).agent == "agent-7"


def test_one_key_serves_the_algorithms_that_it_can() -> None:
    asked = provider(algorithms=("RS256", "PS256", "ES256"))
    for alg in ("RS256", "PS256"):
        assert admitted(asked, bearer(token(alg=alg))).agent == "agent-7"


def test_no_credentials_are_no_principal(caplog: pytest.LogCaptureFixture) -> None:
    asked = provider()
    assert isinstance(asked, IdentityProvider)
    for credentials in (None, "", "  \t "):
        assert shown_to(asked, credentials) is None
    assert asked.resolve(IdentityContext("a.b", "production", agent="bot")) is None
    assert caplog.records == []


@walk("spelling", ["Bearer {}", "bearer {}", "BEARER {}", "  Bearer   {}  ", "\tBearer {}\t"])
def test_the_scheme_has_no_case_and_blanks_around_do_not_count(spelling: str) -> None:
    assert admitted(provider(), spelling.format(token())).agent == "agent-7"


def test_another_header_can_hold_the_token() -> None:
    asked = provider(header="X-Agent-Token")
    assert shown_to(asked, bearer(token()), "x-agent-token") is not None
    assert shown_to(asked, bearer(token()), "Authorization") is None


@walk("typ", ["at+jwt", "AT+JWT", "application/at+jwt", " Application/At+Jwt "])
@walk("configured", ["at+jwt", "application/AT+JWT", " at+jwt"])
def test_a_type_has_no_case_and_may_say_that_it_is_an_application(
    typ: str, configured: str
) -> None:
    assert admitted(provider(token_type=configured), bearer(token({"typ": typ})))


@walk("typ", [ABSENT, "JWT", "anything", 5])
def test_without_a_configured_type_any_is_taken(typ: Any) -> None:
    assert admitted(provider(token_type=None), bearer(token({"typ": typ})))


@walk(
    "claims",
    [
        {"aud": ["other", AUDIENCE]},
        {"aud": [5, None, ["x"], AUDIENCE]},
        {"sub": ABSENT, "azp": "agent-7"},
        {"iat": ABSENT, "jti": ABSENT},
        {"iat": NOW_SECONDS - 0.5},
        {"iat": 0},
        {"nbf": None},
        {"nbf": NOW_SECONDS},
        {"nbf": -(10**400)},
        {"scope": {"deep": [{"x": [1.5, None]}]}},
        {"name": "Zoë 🦊 \ud83e"},
    ],
)
def test_claims_that_are_in_order(claims: dict[str, Any]) -> None:
    agent_claim = "azp" if "azp" in claims else "sub"
    asked = provider(agent_claim=agent_claim)
    assert admitted(asked, bearer(token(claims=claims))).agent == "agent-7"


def test_a_kid_is_not_looked_at_when_one_key_is_configured() -> None:
    for kid in (ABSENT, "", "../../etc/passwd", "somebody else"):
        assert admitted(provider(), bearer(token({"kid": kid}))).agent == "agent-7"


# --- what a principal takes over -----------------------------------------------------------------


@walk(
    ("user", "expected"),
    [("dana@x", "dana@x"), ("  dana ", "dana"), (" ", None), (ABSENT, None), (5, None), ([], None)],
)
def test_the_user_is_a_claim_that_may_be_missing(user: Any, expected: str | None) -> None:
    asked = provider(user_claim="email")
    assert admitted(asked, bearer(token(claims={"email": user}))).user == expected


def test_names_are_trimmed_and_claims_are_flat(caplog: pytest.LogCaptureFixture) -> None:
    asked = provider(agent_claim="act.sub", claim_names=["act.sub"])
    claims = {"act.sub": " bot ", "act": {"sub": "root"}}
    principal = admitted(asked, bearer(token(claims=claims)))
    assert (principal.agent, dict(principal.claims)) == ("bot", {"act.sub": " bot "})


def test_only_named_claims_of_plain_types_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    values: dict[str, Any] = {
        "role": "ops",
        "level": 3,
        "admin": False,
        "unasked": "x",
        "rate": 0.5,
        "groups": ["a"],
        "nothing": None,
        "deep": {"a": 1},
    }
    names = [*(name for name in values if name != "unasked"), "missing"]
    asked = provider(claim_names=names)
    with caplog.at_level("DEBUG", "ctrlrun"):
        principal = admitted(asked, bearer(token(claims=values)))
    assert dict(principal.claims) == {"role": "ops", "level": 3, "admin": False}
    assert type(principal.claims["admin"]) is bool
    assert {record.levelname for record in caplog.records} == {"DEBUG"}
    dropped = [record.getMessage().split()[1] for record in caplog.records]
    assert dropped == ["rate", "groups", "nothing", "deep"]


def test_a_principal_expires_with_its_token_whatever_the_leeway() -> None:
    exp = NOW_SECONDS - 30
    principal = admitted(provider(), bearer(token(claims={"exp": exp})))
    assert principal.expires_at == NOW - timedelta(seconds=30)
    assert principal.is_expired(NOW)


# --- moments -------------------------------------------------------------------------------------


@walk(
    ("claim", "at_the_edge", "beyond"),
    [("exp", -60, 1), ("nbf", 60, -1), ("iat", 60, -1)],
)
@walk("leeway", [timedelta(seconds=60), 60, 60.0])
def test_at_the_leeway_exactly_a_token_holds(
    claim: str, at_the_edge: int, beyond: int, leeway: Any, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    asked = provider(clock=clock, leeway=leeway)
    credentials = bearer(token(claims={claim: NOW_SECONDS + at_the_edge}))
    assert admitted(asked, credentials)
    clock.move(microseconds=beyond)
    refused(asked, credentials, caplog)
    clock.move(microseconds=-beyond)
    assert admitted(asked, credentials)


def test_the_leeway_can_be_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    asked = provider(clock=clock, leeway=0)
    credentials = bearer(token(claims={"exp": NOW_SECONDS}))
    assert admitted(asked, credentials)
    clock.move(microseconds=1)
    assert "expired" in refused(asked, credentials, caplog)


def test_the_default_settings() -> None:
    """Leeway is a minute, the header Authorization, the agent `sub`; no user, no claims."""
    principal = admitted(provider(), bearer(token(claims={"exp": NOW_SECONDS - 60, "role": "x"})))
    assert (principal.agent, principal.user, dict(principal.claims)) == ("agent-7", None, {})
