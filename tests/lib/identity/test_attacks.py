"""Tokens that are refused, each beside the token that it would be without the attack."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlrun.errors import IdentityError
from ctrlrun.identity import IdentityContext
from tests.cases import walk

from .helpers import (
    ABSENT,
    AUDIENCE,
    ISSUER,
    NOW_SECONDS,
    SECRET,
    TYPE,
    admitted,
    b64,
    bearer,
    document,
    good_claims,
    jwk,
    provider,
    public_pem,
    refused,
    shown_to,
    signature,
    token,
)


def good() -> str:
    return bearer(token())


@dataclass(frozen=True)
class Attack:
    """Credentials that are refused for `cause`, where `control` is taken by the same provider."""

    name: str
    credentials: Callable[[], str]
    cause: str
    control: Callable[[], str] = good
    settings: Callable[[], dict[str, Any]] = field(default=dict)


def header(name: str, cause: str, /, **changes: Any) -> Attack:
    """A header that is wrong in these names, signed with the right key."""
    return Attack(name, lambda: bearer(token(changes)), cause)


def claims(name: str, cause: str, /, **changes: Any) -> Attack:
    """Claims that are wrong in these names, signed with the right key."""
    return Attack(name, lambda: bearer(token(claims=changes)), cause)


def raw_claims(name: str, cause: str, make: Callable[[bytes], bytes]) -> Attack:
    """A payload that is no good document, signed with the right key."""
    return Attack(name, lambda: bearer(token(claims=make(document(good_claims(), None)))), cause)


def raw_header(name: str, cause: str, make: Callable[[bytes], bytes]) -> Attack:
    """A header that is no good document, signed with the right key."""
    head = document({"alg": "RS256", "typ": TYPE, "kid": "rsa"}, None)
    return Attack(name, lambda: bearer(token(make(head))), cause)


def unsigned(alg: str) -> str:
    return bearer(token({"alg": alg}).rpartition(".")[0] + ".")


def parts(at: int, make: Callable[[str], str]) -> str:
    """The good token with one of its parts made into another text."""
    pieces = token().split(".")
    pieces[at] = make(pieces[at])
    return bearer(".".join(pieces))


def cut_bits(part: str) -> str:
    """Another spelling of the same bytes: bits beyond the last byte that are not zero."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    assert len(part) % 4 in (2, 3)
    return part[:-1] + alphabet[alphabet.index(part[-1]) + 1]


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


def with_es256() -> dict[str, Any]:
    return {"algorithms": ["RS256", "ES256"]}


def with_secret() -> dict[str, Any]:
    return {"secret": SECRET, "algorithms": ["HS256"]}


def elsewhere(name: str) -> Attack:
    """A key of the attacker's, which the header says where to fetch."""
    where = {name: "https://evil.example/k"}
    return Attack(
        f"its own key, behind {name}",
        lambda: bearer(token(where, key="rsa-attacker")),
        "signature is not the key",
        control=lambda: bearer(token(where)),
    )


def no_algorithm(alg: str) -> Attack:
    """A token without a signature, which says that it needs none."""
    return Attack(f"unsigned, alg {alg!r}", lambda: unsigned(alg), "alg is")


SCHEME = [
    Attack("tab after Bearer", lambda: f"Bearer\t{token()}", "no.* Bearer"),
    Attack("tab after the space", lambda: f"Bearer \t{token()}", "not base64url"),
    Attack("no space", lambda: f"Bearer{token()}", "Bearer credentials"),
    Attack("no-break space", lambda: f"Bearer\xa0{token()}", "Bearer credentials"),
    Attack("no token", lambda: "Bearer", "no token"),
    Attack("blank token", lambda: "Bearer    ", "no token"),
    Attack("no scheme", token, "Bearer credentials"),
    Attack("Basic", lambda: f"Basic {token()}", "Bearer credentials"),
    Attack("two tokens", lambda: f"Bearer {token()} {token()}", "parts"),
    Attack("token and comma", lambda: f"Bearer {token()},", "not base64url"),
    Attack("line break inside", lambda: f"Bearer {token()}\nX", "not base64url"),
]

FORM = [
    Attack("one part", lambda: bearer("abc"), "1 parts"),
    Attack("two parts", lambda: bearer(token().rpartition(".")[0]), "2 parts"),
    Attack("five parts, as encrypted", lambda: bearer("a.b.c.d.e"), "5 parts"),
    Attack("four parts", lambda: bearer(token() + ".x"), "4 parts"),
    Attack("only dots", lambda: bearer(".."), "header is not JSON"),
    Attack("padding", lambda: parts(1, lambda part: part + "="), "payload is not base64url"),
    Attack("standard base64", lambda: parts(2, lambda part: "+/" + part[2:]), "signature is not"),
    Attack(
        "length of no bytes",
        lambda: parts(1, lambda part: part + "A" * ((1 - len(part)) % 4)),
        "payload is not base64url",
    ),
    Attack("unused bits", lambda: parts(2, cut_bits), "signature is not base64url"),
    Attack(
        "letters that only look Latin",
        lambda: parts(0, lambda p: "\u0435" + p[1:]),
        "header is not",
    ),
    Attack(
        "fullwidth digits", lambda: parts(2, lambda part: "\uff11" + part[1:]), "signature is not"
    ),
    Attack("a megabyte", lambda: bearer("A" * 1_000_000), "1000000 characters"),
    Attack("a megabyte of dots", lambda: bearer("." * 1_000_000), "1000000 characters"),
    claims("a token too long by its claims", "characters", pad="x" * 16_384),
    raw_header("header is no JSON", "header is not JSON", lambda _: b"{"),
    raw_header("header is a list", "header is no JSON object", lambda text: b"[" + text + b"]"),
    raw_header(
        "header is no UTF-8", "header is not JSON", lambda text: text[:-1] + b',"x":"\xff"}'
    ),
    raw_header(
        "header in UTF-16", "header is not JSON", lambda text: text.decode().encode("utf-16")
    ),
    raw_header("header with a BOM", "header is not JSON", lambda text: b"\xef\xbb\xbf" + text),
    raw_header(
        "header says alg twice", "repeats a name", lambda text: text[:-1] + b',"alg":"RS256"}'
    ),
    raw_header(
        "header says kid twice, spelled apart",
        "repeats a name",
        lambda text: text[:-1] + b',"\\u006bid":"rsa"}',
    ),
    raw_header(
        "deep header",
        "header is nested too deeply",
        lambda text: text[:-1] + b',"x":' + nested(4000).encode() + b"}",
    ),
    raw_claims("payload is no JSON", "payload is not JSON", lambda text: text[:-1]),
    raw_claims("payload is empty", "payload is not JSON", lambda _: b""),
    raw_claims("payload is a string", "payload is no JSON object", lambda _: b'"sub"'),
    raw_claims(
        "payload is no UTF-8", "payload is not JSON", lambda text: text[:-1] + b',"x":"\xff"}'
    ),
    raw_claims("payload has two documents", "payload is not JSON", lambda text: text + text),
    raw_claims(
        "deep payload",
        "payload is nested too deeply",
        lambda text: text[:-1] + b',"x":' + nested(4000).encode() + b"}",
    ),
    raw_claims("sub twice", "repeats a name", lambda text: text[:-1] + b',"sub":"root"}'),
    raw_claims(
        "sub twice, the same", "repeats a name", lambda text: text[:-1] + b',"sub":"agent-7"}'
    ),
    raw_claims(
        "a name twice, deep inside",
        "repeats a name",
        lambda text: text[:-1] + b',"x":[{"a":1,"a":1}]}',
    ),
    raw_claims("NaN", "payload is not JSON", lambda text: text[:-1] + b',"x":NaN}'),
    raw_claims("Infinity", "payload is not JSON", lambda text: text[:-1] + b',"x":-Infinity}'),
]

ALGORITHM = [
    *(no_algorithm(alg) for alg in ("none", "None", "NONE", "nOnE", " none", "")),
    *(
        header(f"alg {alg!r}", "alg is", alg=alg)
        for alg in (ABSENT, None, ["RS256"], {"RS256": 1}, True, "rs256", "RS256 ", "RS512", "RSA")
    ),
    Attack("RS512 of the right key", lambda: bearer(token(alg="RS512")), "alg is"),
    Attack(
        "HS256 with the PEM as its secret",
        lambda: bearer(token(alg="HS256", key=public_pem("rsa"))),
        "alg is",
    ),
    Attack(
        "HS256 with the PEM, without its last line break",
        lambda: bearer(token(alg="HS256", key=public_pem("rsa").strip())),
        "alg is",
    ),
    Attack(
        "HS256 with the key's JWK as its secret",
        lambda: bearer(token(alg="HS256", key=json.dumps(jwk("rsa", "RS256")))),
        "alg is",
    ),
    Attack("HS256 with an empty secret", lambda: bearer(token(alg="HS256", key="")), "alg is"),
    Attack(
        "called RS256, signed with the PEM as a secret",
        lambda: bearer(token({"alg": "RS256"}, alg="HS256", key=public_pem("rsa"))),
        "signature is not the key",
    ),
    Attack(
        "called RS256, signed as PS256",
        lambda: bearer(token({"alg": "RS256"}, alg="PS256")),
        "signature is not the key",
    ),
    Attack(
        "a configured algorithm that the key is not for",
        lambda: bearer(token(alg="ES256", key="ec")),
        "does not serve",
        settings=with_es256,
    ),
    Attack(
        "HS512 where HS256 is configured",
        lambda: bearer(token(alg="HS512", key=SECRET)),
        "alg is",
        control=lambda: bearer(token(alg="HS256", key=SECRET)),
        settings=with_secret,
    ),
    Attack(
        "another secret",
        lambda: bearer(token(alg="HS256", key=SECRET + "x")),
        "signature is not the key",
        control=lambda: bearer(token(alg="HS256", key=SECRET)),
        settings=with_secret,
    ),
]

HEADER = [
    *(
        header(f"typ {typ!r}", "typ is", typ=typ)
        for typ in (
            ABSENT,
            None,
            "",
            "JWT",
            "at",
            "at+jwt+x",
            "id+jwt",
            "text/at+jwt",
            "application/application/at+jwt",
            ["at+jwt"],
            5,
        )
    ),
    *(
        header(f"kid {kid!r}", "kid is no string", kid=kid)
        for kid in (None, 5, ["rsa"], {"k": 1}, True)
    ),
    *(
        header(f"crit {crit!r}", "critical", crit=crit)
        for crit in (["exp"], ["b64"], ["http://example/unknown"], [], None, "b64", {"b64": 1}, [5])
    ),
    header("a critical extension that is there", "critical", crit=["x"], x=1),
    header("an unencoded payload", "critical", crit=["b64"], b64=False),
]

SIGNATURE = [
    Attack("another key", lambda: bearer(token(key="rsa-attacker")), "signature is not the key"),
    Attack(
        "no signature", lambda: bearer(token().rpartition(".")[0] + "."), "signature is not the key"
    ),
    Attack(
        "another's claims",
        lambda: parts(1, lambda _: b64(document(good_claims(), {"sub": "root"}))),
        "signature is not the key",
    ),
    Attack(
        "another's header",
        lambda: parts(0, lambda _: b64(document({"alg": "RS256", "typ": TYPE}, None))),
        "signature is not the key",
    ),
    Attack(
        "its own key, embedded",
        lambda: bearer(token({"jwk": jwk("rsa-attacker", "RS256")}, key="rsa-attacker")),
        "signature is not the key",
        control=lambda: bearer(token({"jwk": jwk("rsa-attacker", "RS256")})),
    ),
    *(elsewhere(name) for name in ("jku", "x5u")),
    Attack(
        "its own certificate",
        lambda: bearer(token({"x5c": ["MIIB"]}, key="rsa-attacker")),
        "signature is not the key",
        control=lambda: bearer(token({"x5c": ["MIIB"]})),
    ),
]

CLAIMS = [
    claims("no iss", "iss is nothing", iss=ABSENT),
    *(
        claims(f"iss {iss!r}", "iss is", iss=iss)
        for iss in (
            None,
            "",
            ISSUER + "/",
            ISSUER + ".evil.example",
            ISSUER[:-1],
            ISSUER.upper(),
            f" {ISSUER}",
            [ISSUER],
            {"is": ISSUER},
            5,
            True,
        )
    ),
    claims("no exp", "exp is nothing", exp=ABSENT),
    *(
        claims(f"exp {exp!r}", "exp is", exp=exp)
        for exp in (
            None,
            NOW_SECONDS + 300.0,
            NOW_SECONDS + 0.5,
            True,
            False,
            str(NOW_SECONDS + 300),
            [NOW_SECONDS + 300],
            1e300,
        )
    ),
    *(
        claims(f"exp {name}", "expired", exp=exp)
        for name, exp in (
            ("an hour ago", NOW_SECONDS - 3600),
            ("a second beyond the leeway", NOW_SECONDS - 61),
            ("0", 0),
            ("-1", -1),
            ("hugely negative", -(10**400)),
        )
    ),
    *(
        claims(f"exp later than any date, {digits} digits", "later than any date", exp=10**digits)
        for digits in (12, 20, 400)
    ),
    raw_claims(
        "exp of more digits than are read",
        "payload is not JSON",
        lambda text: text.replace(b'"exp": ', b'"exp": ' + b"9" * 5000),
    ),
    *(
        claims(f"nbf {nbf!r}", "nbf is", nbf=nbf)
        for nbf in (float(NOW_SECONDS), True, False, str(NOW_SECONDS), [NOW_SECONDS])
    ),
    claims("nbf beyond the leeway", "not hold yet", nbf=NOW_SECONDS + 61),
    claims("nbf in the remotest future", "not hold yet", nbf=10**400),
    *(
        claims(f"iat {iat!r}", "iat is .*not a number", iat=iat)
        for iat in (None, str(NOW_SECONDS), True, [NOW_SECONDS])
    ),
    claims("iat beyond the leeway", "iat is in the future", iat=NOW_SECONDS + 60.5),
    claims("iat in the remotest future", "iat is in the future", iat=10**400),
    raw_claims(
        "iat infinite",
        "iat is in the future",
        lambda text: text.replace(b'"iat": ', b'"iat": 1e999, "x": '),
    ),
    raw_claims(
        "iat infinitely long ago",
        "iat is in the future",
        lambda text: text.replace(b'"iat": ', b'"iat": -1e999, "x": '),
    ),
    *(claims(f"sub {sub!r}", "sub is", sub=sub) for sub in (None, 7, ["agent-7"], {"a": 1}, True)),
    *(claims(f"sub {sub!r}", "names no agent", sub=sub) for sub in (ABSENT, "", "  \t")),
    *(claims(f"jti {jti!r}", "jti is", jti=jti) for jti in (None, 7, ["t-1"], False)),
    claims("sub with a lone surrogate", "no principal", sub="bot\ud800"),
    claims("no aud", "aud is nothing", aud=ABSENT),
    *(
        claims(f"aud {aud!r}", "aud is", aud=aud)
        for aud in (
            None,
            "",
            AUDIENCE + "2",
            AUDIENCE[:-1],
            AUDIENCE.upper(),
            f"{AUDIENCE} other",
            {AUDIENCE: 1},
            {"aud": AUDIENCE},
            5,
        )
    ),
    *(
        claims(f"aud {aud!r}", "aud lists others", aud=aud)
        for aud in ([], ["other"], [AUDIENCE + "2"], [[AUDIENCE]], [{AUDIENCE: 1}], [None, 5])
    ),
    Attack(
        "an agent that is no string",
        lambda: bearer(token(claims={"azp": ["bot"]})),
        "names no agent",
        control=lambda: bearer(token(claims={"azp": "bot"})),
        settings=lambda: {"agent_claim": "azp"},
    ),
    Attack(
        "a nested agent",
        lambda: bearer(token(claims={"act": {"sub": "bot"}})),
        "names no agent",
        control=lambda: bearer(token(claims={"act.sub": "bot"})),
        settings=lambda: {"agent_claim": "act.sub"},
    ),
    Attack(
        "a kept claim with a lone surrogate",
        lambda: bearer(token(claims={"role": "\udcff"})),
        "no principal",
        control=lambda: bearer(token(claims={"role": "ops"})),
        settings=lambda: {"claim_names": ["role"]},
    ),
]

ATTACKS = [*SCHEME, *FORM, *ALGORITHM, *HEADER, *SIGNATURE, *CLAIMS]


@walk("attack", ATTACKS)
def test_an_attack_is_refused_and_the_same_without_it_is_not(
    attack: Attack, caplog: pytest.LogCaptureFixture
) -> None:
    asked = provider(**attack.settings())
    cause = refused(asked, attack.credentials(), caplog)
    assert_matches(attack.cause, cause)
    assert admitted(asked, attack.control())


def assert_matches(pattern: str, cause: str) -> None:
    assert re.search(pattern, cause), f"{cause!r} is not for {pattern!r}"


# --- several at once -----------------------------------------------------------------------------


def test_checks_come_in_their_order(caplog: pytest.LogCaptureFixture) -> None:
    """What is checked first is what is said, so nothing of a token is read before its turn."""
    bad_header = {"alg": "none", "typ": "JWT", "kid": 5}
    bad_claims: dict[str, Any] = {
        "iss": "x",
        "sub": 5,
        "exp": 0,
        "nbf": 10**10,
        "aud": "x",
        "azp": 5,
    }
    expected: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("kid", {"kid": "rsa"}, {}),
        ("alg", {"alg": "RS256"}, {}),
        ("typ", {"typ": TYPE}, {}),
        ("iss", {}, {"iss": ISSUER}),
        ("sub", {}, {"sub": "s"}),
        ("expired", {}, {"exp": NOW_SECONDS + 9}),
        ("not hold yet", {}, {"nbf": NOW_SECONDS}),
        ("aud", {}, {"aud": AUDIENCE}),
        ("azp", {}, {"azp": "bot"}),
    ]
    asked = provider(agent_claim="azp")
    for cause, header_mended, claims_mended in expected:
        assert cause in refused(asked, bearer(token(bad_header, bad_claims)), caplog)
        bad_header |= header_mended
        bad_claims |= claims_mended
    assert admitted(asked, bearer(token(bad_header, bad_claims))).agent == "bot"


def test_nothing_of_an_unsigned_payload_is_read(caplog: pytest.LogCaptureFixture) -> None:
    forged = parts(1, lambda _: b64(b"{"))
    assert "signature" in refused(provider(), forged, caplog)


def test_two_headers_of_one_name_are_refused_like_a_token(caplog: pytest.LogCaptureFixture) -> None:
    smuggled = IdentityContext(
        "a.b", "production", {"Authorization": good(), "authorization": good()}
    )
    with pytest.raises(IdentityError) as caught:
        provider().resolve(smuggled)
    assert str(caught.value) == "the bearer token was refused"
    assert "2 headers authorization" in caplog.text


def test_a_failure_that_nobody_foresaw_is_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> datetime:
        raise RuntimeError(f"text that holds {SECRET}")

    cause = refused(provider(clock=broken), good(), caplog)
    assert "unforeseen RuntimeError" in cause
    assert SECRET not in cause

    calls = iter([KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt):
        shown_to(provider(clock=lambda: (_ for _ in ()).throw(next(calls))), good())


def test_hostile_text_reaches_the_log_inert(caplog: pytest.LogCaptureFixture) -> None:
    hostile = "\x1b[2J\u202eevil\n" + "x" * 500
    cause = refused(provider(), bearer(token({"typ": hostile})), caplog)
    assert "␛[2J⟨U+202E⟩evil⏎" in cause
    assert len(cause) < 300


def test_a_bad_signature_says_nothing_of_the_secret(caplog: pytest.LogCaptureFixture) -> None:
    asked = provider(**with_secret())
    cause = refused(asked, bearer(token(alg="HS256", key="guess")), caplog)
    assert SECRET not in cause + repr(asked) + caplog.text


# --- whatever is sent ----------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def outcome(credentials: str) -> str:
    try:
        principal = shown_to(provider(token_type=TYPE), credentials)
    except IdentityError as error:
        return str(error)
    return "nobody" if principal is None else principal.agent


@given(st.text() | st.text().map(lambda text: f"Bearer {text}"))
def test_any_text_is_refused_or_no_credentials(credentials: str) -> None:
    assert outcome(credentials) in ("the bearer token was refused", "nobody")


@given(st.dictionaries(st.sampled_from(["alg", "typ", "kid", "crit", "b64", "jwk"]), JSON))
def test_any_header_under_a_forged_signature_is_refused(changes: dict[str, Any]) -> None:
    head = b64(document({"alg": "RS256", "typ": TYPE}, changes))
    signed = f"{head}.{b64(document(good_claims(), None))}"
    forged = f"{signed}.{b64(signature(signed.encode(), 'RS256', 'rsa-attacker'))}"
    assert outcome(bearer(forged)) == "the bearer token was refused"


@given(
    st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "jti", "x"]), JSON)
)
def test_signed_claims_of_any_shape_name_their_sub_or_nobody(changes: dict[str, Any]) -> None:
    said = outcome(bearer(token(claims=changes)))
    assert said in ("the bearer token was refused", str(changes.get("sub", "agent-7")).strip())
