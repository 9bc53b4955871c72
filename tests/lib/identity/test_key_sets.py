"""Keys that an issuer publishes: when it is asked, what it may answer, and how long that holds."""

from __future__ import annotations

import json
import socket
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from ctrlrun.jwt_identity import JWTIdentityProvider

from .helpers import (
    ABSENT,
    Clock,
    admitted,
    bearer,
    jwk,
    private_key,
    provider,
    public_pem,
    refused,
    token,
)
from .issuer import PATH, Issuer, serving

UNKNOWN = {"kid": "nobody's"}


def asking(issuer: Issuer, **settings: Any) -> JWTIdentityProvider:
    """A provider that asks this issuer, for RS256 and ES256."""
    return provider(**{"jwks_url": issuer.url, "algorithms": ["RS256", "ES256"], **settings})


def signed_by(name: str, alg: str = "RS256", **header: Any) -> str:
    """Credentials of a token signed with the key of this name, which its `kid` names."""
    return bearer(token({"kid": name, **header}, alg=alg, key=name))


# --- when the issuer is asked --------------------------------------------------------------------


def test_the_issuer_is_asked_when_the_first_token_comes(issuer: Issuer) -> None:
    asked = asking(issuer)
    assert issuer.asked == []
    for _ in range(3):
        assert admitted(asked, signed_by("rsa"))
    assert issuer.asked == [PATH]


def test_a_key_of_another_algorithm_is_found_by_its_kid(issuer: Issuer) -> None:
    issuer.publish(jwk("rsa", "RS256"), jwk("ec", "ES256"))
    asked = asking(issuer)
    assert admitted(asked, signed_by("ec", "ES256"))
    assert admitted(asked, signed_by("rsa"))
    assert issuer.asked == [PATH]


def test_an_edwards_key_is_published_too(issuer: Issuer) -> None:
    issuer.publish(jwk("ed", "EdDSA"))
    assert admitted(asking(issuer, algorithms=["EdDSA"]), signed_by("ed", "EdDSA"))


def test_a_new_key_is_asked_for_not_before_the_interval_is_over(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    asked = asking(issuer, clock=clock)
    assert admitted(asked, signed_by("rsa"))
    issuer.publish(jwk("rsa", "RS256"), jwk("rsa-2", "RS256"))
    clock.move(seconds=30, microseconds=-1)
    assert "too early to ask" in refused(asked, signed_by("rsa-2"), caplog)
    assert admitted(asked, signed_by("rsa"))
    assert len(issuer.asked) == 1
    clock.move(microseconds=1)
    assert admitted(asked, signed_by("rsa-2"))
    assert len(issuer.asked) == 2


def test_a_rotated_key_goes_with_the_set_it_was_in(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    asked = asking(issuer, clock=clock, jwks_min_refresh_interval=10)
    assert admitted(asked, signed_by("rsa"))
    issuer.publish(jwk("rsa-2", "RS256"))
    clock.move(seconds=10)
    assert admitted(asked, signed_by("rsa-2"))
    assert "too early" in refused(asked, signed_by("rsa"), caplog)


def test_an_unknown_kid_costs_one_question_an_interval(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    asked = asking(issuer, clock=clock)
    for number in range(20):
        refused(asked, signed_by("rsa-attacker", kid=f"guess-{number}"), caplog)
    assert len(issuer.asked) == 1
    clock.move(seconds=30)
    assert "not in the key set" in refused(asked, signed_by("rsa-attacker"), caplog)
    refused(asked, signed_by("rsa-attacker"), caplog)
    assert len(issuer.asked) == 2


@pytest.mark.parametrize("kid", [ABSENT, None, 5, ["rsa"]])
def test_a_token_that_names_no_key_asks_nobody(
    kid: Any, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asking(issuer)
    assert "kid" in refused(asked, signed_by("rsa", kid=kid), caplog)
    assert issuer.asked == []
    assert admitted(asked, signed_by("rsa"))


@pytest.mark.parametrize(
    "header", [{"alg": "none"}, {"alg": "PS256"}, {"typ": "JWT"}, {"crit": ["x"]}]
)
def test_a_header_that_is_refused_asks_nobody(
    header: dict[str, Any], issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asking(issuer)
    refused(asked, signed_by("rsa", **header), caplog)
    assert issuer.asked == []
    assert admitted(asked, signed_by("rsa"))


@pytest.mark.parametrize(
    "kid",
    [
        "../../dev/null",
        "/etc/passwd",
        "' OR '1'='1",
        "rsa' UNION SELECT 'k",
        "rsa\x00",
        "https://evil.example/keys",
        "RSA",
        " rsa",
        "",
        "k" * 4000,
    ],
)
def test_a_kid_is_a_name_and_nothing_else(
    kid: str, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asking(issuer)
    assert "kid" in refused(asked, signed_by("rsa", kid=kid), caplog)
    assert issuer.asked == [PATH]
    assert admitted(asked, signed_by("rsa"))


def test_a_clock_that_was_set_back_does_not_stop_the_asking(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    clock.move(minutes=4)
    asked = asking(issuer, clock=clock)
    refused(asked, signed_by("rsa-2"), caplog)
    issuer.publish(jwk("rsa-2", "RS256"))
    clock.move(minutes=-4)
    assert admitted(asked, signed_by("rsa-2"))


def test_a_clock_that_was_set_back_makes_an_answer_old(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    """How long ago the keys were given cannot be told any more."""
    clock = Clock()
    asked = asking(issuer, clock=clock)
    assert admitted(asked, signed_by("rsa"))
    issuer.publish(jwk("rsa-2", "RS256"))
    clock.move(microseconds=-1)
    assert "not in the key set" in refused(asked, signed_by("rsa"), caplog)
    assert len(issuer.asked) == 2


# --- how long an answer holds --------------------------------------------------------------------


def test_withdrawn_keys_stop_verifying(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    asked = asking(issuer, clock=clock)
    lasting = bearer(token(claims={"exp": int(clock().timestamp()) + 86_400}))
    assert admitted(asked, lasting)
    issuer.publish(jwk("rsa-2", "RS256"))
    clock.move(hours=1)
    assert admitted(asked, lasting)
    assert len(issuer.asked) == 1
    clock.move(microseconds=1)
    assert "not in the key set" in refused(asked, lasting, caplog)
    assert len(issuer.asked) == 2


def test_keys_that_are_published_still_go_on_after_their_age(issuer: Issuer) -> None:
    clock = Clock()
    asked = asking(issuer, clock=clock, jwks_max_age=timedelta(minutes=2))
    for questions in (1, 2):
        assert admitted(asked, signed_by("rsa"))
        assert len(issuer.asked) == questions
        clock.move(minutes=2, microseconds=1)


def test_an_issuer_that_is_down_does_not_keep_old_keys_alive(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    asked = asking(issuer, clock=clock, jwks_max_age=60)
    assert admitted(asked, signed_by("rsa"))
    issuer.status = 503
    clock.move(seconds=61)
    assert "503" in refused(asked, signed_by("rsa"), caplog)
    assert "too early" in refused(asked, signed_by("rsa"), caplog)
    issuer.status = 200
    clock.move(seconds=30)
    assert admitted(asked, signed_by("rsa"))


# --- answers that are no key set -----------------------------------------------------------------


def redirect(to: str) -> Callable[[Issuer], None]:
    def answer(issuer: Issuer) -> None:
        issuer.status, issuer.headers = 302, {"Location": to}

    return answer


def body(text: bytes, **headers: str) -> Callable[[Issuer], None]:
    def answer(issuer: Issuer) -> None:
        issuer.body, issuer.headers = text, headers

    return answer


def status(code: int) -> Callable[[Issuer], None]:
    def answer(issuer: Issuer) -> None:
        issuer.status = code

    return answer


def key_set(*entries: Any) -> bytes:
    return json.dumps({"keys": entries}).encode()


BAD_ANSWERS: dict[str, tuple[Callable[[], Callable[[Issuer], None]], str]] = {
    "404": (lambda: status(404), "answered 404"),
    "500": (lambda: status(500), "answered 500"),
    "201": (lambda: status(201), "answered 201"),
    "nothing": (lambda: body(b""), "not JSON"),
    "HTML": (lambda: body(b"<html>"), "not JSON"),
    "a list": (lambda: body(b"[]"), "no JSON object"),
    "null": (lambda: body(b"null"), "no JSON object"),
    "no keys": (lambda: body(b"{}"), "no list of keys"),
    "keys are an object": (lambda: body(b'{"keys": {"rsa-2": {}}}'), "no list of keys"),
    "keys twice": (
        lambda: body(b'{"keys": [], ' + key_set(jwk("rsa-2", "RS256"))[1:]),
        "repeats a name",
    ),
    "no UTF-8": (lambda: body(b'{"keys": [], "x": "\xff"}'), "not JSON"),
    "deep": (lambda: body(b'{"keys":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "too deeply"),
    "huge": (
        lambda: body(key_set(jwk("rsa-2", "RS256"), {"pad": "x" * 1_048_576})),
        "more than 1048576 bytes",
    ),
    "cut short": (
        lambda: body(key_set(jwk("rsa-2", "RS256"))[:-9], **{"Content-Length": "9999"}),
        "not JSON|could not be asked",
    ),
    "compressed": (lambda: body(b"\x1f\x8b\x08\x00", **{"Content-Encoding": "gzip"}), "not JSON"),
    "no length": (lambda: body(b"", **{"Content-Length": "many"}), "not JSON|could not be asked"),
    "one kid twice": (
        lambda: body(key_set(jwk("rsa-2", "RS256"), jwk("rsa-3", "RS256", kid="rsa-2"))),
        "more than once",
    ),
    "one kid twice, one unreadable": (
        lambda: body(key_set(jwk("rsa-2", "RS256"), {"kid": "rsa-2", "kty": "?"})),
        "more than once",
    ),
    "another kid twice": (
        lambda: body(key_set(jwk("rsa-2", "RS256"), *[jwk("ec", "ES256")] * 2)),
        "more than once",
    ),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_bad_answer_counts_and_leaves_the_old_keys(
    name: str, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    make, cause = BAD_ANSWERS[name]
    clock = Clock()
    asked = asking(issuer, clock=clock)
    assert admitted(asked, signed_by("rsa"))
    clock.move(seconds=30)
    make()(issuer)
    said = refused(asked, signed_by("rsa-2"), caplog)
    assert any(part in said for part in cause.split("|")), said
    assert "too early" in refused(asked, signed_by("rsa-2"), caplog)
    assert len(issuer.asked) == 2
    assert admitted(asked, signed_by("rsa"))
    # And the control: the same question, well answered.
    issuer.status, issuer.headers = 200, {}
    issuer.publish(jwk("rsa-2", "RS256"))
    clock.move(seconds=30)
    assert admitted(asked, signed_by("rsa-2"))


def test_the_largest_answer_is_taken(issuer: Issuer) -> None:
    entries = [jwk("rsa", "RS256"), {"pad": ""}]
    entries[1]["pad"] = "x" * (1_048_576 - len(key_set(*entries)))
    issuer.body = key_set(*entries)
    assert len(issuer.body) == 1_048_576
    assert admitted(asking(issuer), signed_by("rsa"))


def test_an_answer_in_chunks_is_taken(issuer: Issuer) -> None:
    whole = issuer.body
    issuer.headers = {"Transfer-Encoding": "chunked", "Connection": "close"}
    issuer.body = f"{len(whole):x}\r\n".encode() + whole + b"\r\n0\r\n\r\n"
    issuer.headers["Content-Length"] = ""
    assert admitted(asking(issuer), signed_by("rsa"))


# --- entries -------------------------------------------------------------------------------------


def oct_entry(text: str, **more: Any) -> dict[str, Any]:
    material = urlsafe_b64encode(text.encode()).rstrip(b"=").decode()
    return {"kty": "oct", "kid": "rsa", "k": material, **more}


def private_entry(name: str, alg: str) -> dict[str, Any]:
    entry = json.loads(jwt.get_algorithm_by_name(alg).to_jwk(private_key(name)))
    return {**entry, "kid": name, "key_ops": ["verify"]}


TAKEN = {
    "all said": lambda: jwk("rsa", "RS256", key_ops=["verify"]),
    "as little as can be": lambda: jwk("rsa", "RS256", alg=ABSENT, use=ABSENT),
    "verify among others": lambda: jwk("rsa", "RS256", key_ops=["sign", "verify"]),
    "members that say nothing here": lambda: jwk("rsa", "RS256", x5c=["MIIB"], x5u="http://x"),
}
NOT_TAKEN: dict[str, Callable[[], Any]] = {
    "use enc": lambda: jwk("rsa", "RS256", use="enc"),
    "use in upper case": lambda: jwk("rsa", "RS256", use="SIG"),
    "use null": lambda: jwk("rsa", "RS256", use=None),
    "key_ops sign": lambda: jwk("rsa", "RS256", key_ops=["sign"]),
    "key_ops encrypt": lambda: jwk("rsa", "RS256", key_ops=["encrypt", "wrapKey"]),
    "no key_ops": lambda: jwk("rsa", "RS256", key_ops=[]),
    "key_ops a string": lambda: jwk("rsa", "RS256", key_ops="verify"),
    "no kid": lambda: jwk("rsa", "RS256", kid=ABSENT),
    "kid a number": lambda: jwk("rsa", "RS256", kid=5),
    "another's alg": lambda: jwk("rsa", "RS256", alg="PS256"),
    "alg for encryption": lambda: jwk("rsa", "RS256", alg="RSA-OAEP"),
    "alg none": lambda: jwk("rsa", "RS256", alg="none"),
    "alg a list": lambda: jwk("rsa", "RS256", alg=["RS256"]),
    "another kind of key": lambda: jwk("ec", "ES256", kid="rsa", alg=ABSENT),
    "another kind of key, called RS256": lambda: jwk("ec", "ES256", kid="rsa", alg="RS256"),
    "no kty": lambda: jwk("rsa", "RS256", kty=ABSENT),
    "unknown kty": lambda: jwk("rsa", "RS256", kty="AKP"),
    "no modulus": lambda: jwk("rsa", "RS256", n=ABSENT),
    "modulus that is none": lambda: jwk("rsa", "RS256", n="!"),
    "modulus of another type": lambda: jwk("rsa", "RS256", n=[5]),
    "modulus 0": lambda: jwk("rsa", "RS256", n="AA"),
    "a secret": lambda: oct_entry("x" * 32),
    "a secret that is the PEM": lambda: oct_entry(public_pem("rsa")),
    "a secret that is the PEM, called RS256": lambda: oct_entry(public_pem("rsa"), alg="RS256"),
    "a private key": lambda: private_entry("rsa", "RS256"),
    "a string": lambda: "rsa",
    "null": lambda: None,
    "a list": lambda: [jwk("rsa", "RS256")],
}


@pytest.mark.parametrize("name", TAKEN)
def test_an_entry_that_may_verify_does(name: str, issuer: Issuer) -> None:
    issuer.publish(TAKEN[name]())
    assert admitted(asking(issuer), signed_by("rsa"))


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_an_entry_that_may_not_verify_is_passed_over_alone(
    name: str, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.publish(NOT_TAKEN[name](), jwk("ec", "ES256"))
    asked = asking(issuer)
    assert admitted(asked, signed_by("ec", "ES256"))
    refused(asked, signed_by("rsa"), caplog)
    # The control: the key, as it should be published.
    issuer.publish(jwk("rsa", "RS256"))
    assert admitted(asking(issuer), signed_by("rsa"))


def test_skipped_entries_do_not_count_as_repeated(issuer: Issuer) -> None:
    issuer.publish(jwk("rsa-2", "RS256", kid="rsa", use="enc"), jwk("rsa", "RS256"))
    assert admitted(asking(issuer), signed_by("rsa"))


def test_a_curve_is_the_algorithms(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    issuer.publish(jwk("ec384", "ES384", alg=ABSENT))
    asked = asking(issuer, algorithms=["ES256", "ES384"])
    assert admitted(asked, signed_by("ec384", "ES384"))
    # Signed as it says, SHA-256 and all, by a key of the other curve.
    assert "does not serve" in refused(asked, signed_by("ec384", "ES256"), caplog)


@pytest.mark.parametrize(("name", "alg"), [("rsa", "RS256"), ("ec", "ES256"), ("ed", "EdDSA")])
def test_a_published_private_key_verifies_nothing(
    name: str, alg: str, issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.publish(private_entry(name, alg))
    refused(asking(issuer, algorithms=[alg]), signed_by(name, alg), caplog)
    issuer.publish(jwk(name, alg))
    assert admitted(asking(issuer, algorithms=[alg]), signed_by(name, alg))


def test_what_is_published_is_no_secret(issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    asked = asking(issuer)
    material = (
        public_pem("rsa"),
        issuer.body.decode(),
        json.dumps(jwk("rsa", "RS256")),
        jwk("rsa", "RS256")["n"],
    )
    for secret in material:
        confused = bearer(token(alg="HS256", key=secret))
        assert "alg is" in refused(asked, confused, caplog)
        called = bearer(token({"alg": "RS256"}, alg="HS256", key=secret))
        assert "signature" in refused(asked, called, caplog)
    assert admitted(asked, signed_by("rsa"))


def test_a_weak_published_key_is_named_in_the_log(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    entry = json.loads(jwt.get_algorithm_by_name("RS256").to_jwk(weak))
    issuer.publish({**entry, "kid": "weak\x1b"}, jwk("rsa", "RS256"))
    assert admitted(asking(issuer), signed_by("rsa"))
    (record,) = caplog.records
    assert '"weak␛" is weak: The RSA key is 1024 bits long' in record.getMessage()


# --- the way there -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_redirect_is_not_followed(
    scheme: str, code: int, issuer: Issuer, certificate: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(certificate if scheme == "https" else None) as other:
        other.publish(jwk("rsa", "RS256"))
        issuer.status, issuer.headers = code, {"Location": other.url}
        asked = asking(issuer)
        assert f"answered {code}" in refused(asked, signed_by("rsa"), caplog)
        assert (issuer.asked, other.asked) == ([PATH], [])
        # The control: asked itself, the other would have answered.
        if scheme == "https":
            assert admitted(asking(other), signed_by("rsa"))


def test_a_redirect_to_itself_is_not_followed(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.status, issuer.headers = 302, {"Location": issuer.url}
    assert "answered 302" in refused(asking(issuer), signed_by("rsa"), caplog)
    assert len(issuer.asked) == 1


def test_an_untrusted_certificate_is_refused(
    certificate: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(certificate) as issuer:
        issuer.publish(jwk("rsa", "RS256"))
        clock = Clock()
        asked = asking(issuer, clock=clock)
        assert "CERTIFICATE_VERIFY_FAILED" in refused(asked, signed_by("rsa"), caplog)
        assert issuer.asked == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        clock.move(seconds=30)
        assert admitted(asked, signed_by("rsa"))


def test_a_certificate_of_another_name_is_refused(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asking(issuer, jwks_url=issuer.url.replace("localhost", "127.0.0.1"))
    assert "CERTIFICATE_VERIFY_FAILED" in refused(asked, signed_by("rsa"), caplog)
    assert issuer.asked == []


def test_a_server_without_tls_is_refused(trusted: None, caplog: pytest.LogCaptureFixture) -> None:
    with serving(None) as plain:
        plain.publish(jwk("rsa", "RS256"))
        asked = asking(plain, jwks_url=plain.url.replace("http:", "https:"))
        assert "could not be asked: SSLError" in refused(asked, signed_by("rsa"), caplog)
        assert plain.asked == []


def test_a_server_that_is_not_there_is_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        url = f"https://127.0.0.1:{taken.getsockname()[1]}/keys"
        cause = refused(provider(jwks_url=url), signed_by("rsa"), caplog)
    assert "could not be asked: ConnectionRefusedError" in cause


def test_no_proxy_of_the_environment_is_between(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(None) as proxy:
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://localhost:{proxy.port}")
        assert admitted(asking(issuer), signed_by("rsa"))
        assert proxy.asked == []


def test_a_slow_body_has_one_time_for_all_of_it(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    """Each byte comes in time, all of them would take a minute."""
    issuer.drip = True
    issuer.body += b" " * 3000
    clock = Clock()
    asked = asking(issuer, clock=clock, http_timeout=timedelta(seconds=0.3))
    assert "could not be asked: TimeoutError" in refused(asked, signed_by("rsa"), caplog)
    assert issuer.asked == [PATH]
    issuer.drip = False
    clock.move(seconds=30)
    assert admitted(asking(issuer, clock=clock), signed_by("rsa"))


def test_a_server_that_never_answers_is_a_refusal(
    issuer: Issuer, caplog: pytest.LogCaptureFixture
) -> None:
    issuer.may_answer.clear()
    asked = asking(issuer, http_timeout=0.2)
    assert "could not be asked: TimeoutError" in refused(asked, signed_by("rsa"), caplog)


def test_a_server_that_never_shakes_hands_is_a_refusal(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"https://localhost:{silent.getsockname()[1]}/keys"
        asked = provider(jwks_url=url, http_timeout=0.2)
        assert "could not be asked: TimeoutError" in refused(asked, signed_by("rsa"), caplog)


# --- threads -------------------------------------------------------------------------------------


def test_many_threads_ask_once(issuer: Issuer) -> None:
    asked = asking(issuer)
    together = threading.Barrier(8)

    def call() -> str:
        together.wait()
        return admitted(asked, signed_by("rsa")).agent

    with ThreadPoolExecutor(8) as pool:
        agents = [future.result() for future in [pool.submit(call) for _ in range(8)]]
    assert agents == ["agent-7"] * 8
    assert issuer.asked == [PATH]


def test_a_known_key_does_not_wait_for_a_question(issuer: Issuer) -> None:
    clock = Clock()
    asked = asking(issuer, clock=clock)
    assert admitted(asked, signed_by("rsa"))
    issuer.publish(jwk("rsa", "RS256"), jwk("rsa-2", "RS256"))
    issuer.may_answer.clear()
    issuer.came.clear()
    clock.move(seconds=30)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(admitted, asked, signed_by("rsa-2"))
        assert issuer.came.wait(10)
        assert admitted(asked, signed_by("rsa"))
        assert not waiting.done()
        issuer.may_answer.set()
        assert waiting.result(10).agent == "agent-7"


# --- other sources open no socket ----------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"secret": "s" * 64, "algorithms": ["HS256"]}])
def test_a_configured_key_opens_no_socket(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a socket was opened")

    asked = provider(**settings)
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    alg, key = ("HS256", "s" * 64) if settings else ("RS256", "rsa")
    assert admitted(asked, bearer(token(UNKNOWN, alg=alg, key=key)))
    assert "signature" in refused(asked, bearer(token(UNKNOWN, alg=alg, key=key + "-2")), caplog)
