"""What a token provider is made with, and what it refuses to be made with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from ctrlrun.errors import CTRLRunError, InvalidArgument, MissingDependency
from ctrlrun.jwt_identity import JWTIdentityProvider
from tests.cases import walk

from .helpers import (
    SECRET,
    admitted,
    bearer,
    jwk,
    private_pem,
    provider,
    public_pem,
    token,
)
from .issuer import certificate_pem

URL = "https://id.example/keys"


def certificate() -> str:
    found = x509.load_pem_x509_certificates(certificate_pem())
    assert found
    return certificate_pem().decode().partition("-----END PRIVATE KEY-----\n")[2]


# --- names that have to be said ------------------------------------------------------------------


@walk("missing", ["algorithms", "issuer", "audience", "token_type"])
def test_four_settings_have_no_default(missing: str) -> None:
    settings: dict[str, Any] = {
        "algorithms": ["HS256"],
        "issuer": "i",
        "audience": "a",
        "token_type": "at+jwt",
    }
    assert JWTIdentityProvider(secret=SECRET, **settings)
    del settings[missing]
    with pytest.raises(TypeError, match=missing):
        JWTIdentityProvider(secret=SECRET, **settings)


def test_settings_are_said_by_name() -> None:
    with pytest.raises(TypeError):
        JWTIdentityProvider(URL)  # type: ignore[call-arg]


# --- settings that can never be right ------------------------------------------------------------

Settings = Callable[[], dict[str, Any]]

WRONG: dict[str, tuple[dict[str, Any] | Settings, str]] = {
    "no algorithms": ({"algorithms": []}, "at least one"),
    "no algorithms, a tuple": ({"algorithms": ()}, "at least one"),
    "algorithms a string": ({"algorithms": "RS256"}, "list"),
    "algorithms bytes": ({"algorithms": b"RS256"}, "list"),
    "algorithms None": ({"algorithms": None}, "list"),
    "an algorithm that is no string": ({"algorithms": ["RS256", 5]}, "strings"),
    "none": ({"algorithms": ["none"]}, "none"),
    "None": ({"algorithms": ["RS256", "None"]}, "none"),
    "NONE, with blanks": ({"algorithms": [" NONE "]}, "none"),
    "an unknown algorithm": ({"algorithms": ["RS257"]}, "'RS257'"),
    "an algorithm in lower case": ({"algorithms": ["rs256"]}, "'rs256'"),
    "an encryption": ({"algorithms": ["RSA-OAEP"]}, "'RSA-OAEP'"),
    "no source": (lambda: {"public_key": None}, "exactly one"),
    "two sources": (lambda: {"public_key": public_pem("rsa"), "jwks_url": URL}, "public_key"),
    "a secret and an address": (
        {"secret": SECRET, "jwks_url": URL, "algorithms": ["HS256"]},
        "exactly one",
    ),
    "three sources": (
        lambda: {"public_key": public_pem("rsa"), "jwks_url": URL, "secret": SECRET},
        "exactly one",
    ),
    "HS256 with a public key": ({"algorithms": ["HS256"]}, "key confusion"),
    "HS256 among others with a public key": ({"algorithms": ["RS256", "HS256"]}, "key confusion"),
    "HS512 with an address": ({"jwks_url": URL, "algorithms": ["HS512"]}, "key confusion"),
    "RS256 with a secret": ({"secret": SECRET}, "RS256"),
    "both families with a secret": ({"secret": SECRET, "algorithms": ["HS256", "ES256"]}, "ES256"),
    **{
        f"{name} {value!r}": ({name: value}, name)
        for name in ("issuer", "audience", "header", "agent_claim")
        for value in ("", "  ", None, 5, ["x"], "x\ud800")
    },
    **{
        f"{name} {value!r}": ({name: value}, name)
        for name in ("token_type", "user_claim")
        for value in ("", " ", 5)
    },
    "claim_names a string": ({"claim_names": "role"}, "claim_names"),
    "claim_names None": ({"claim_names": None}, "claim_names"),
    "a blank claim name": ({"claim_names": ["role", " "]}, "claim_names"),
    "a claim name that is none": ({"claim_names": [5]}, "claim_names"),
    **{
        f"{name} {value!r:.40}": ({name: value}, name)
        for name in ("leeway", "jwks_min_refresh_interval", "jwks_max_age", "http_timeout")
        for value in (
            timedelta(microseconds=-1),
            -1,
            None,
            "60",
            True,
            float("nan"),
            float("inf"),
            timedelta.max,
            10**400,
        )
    },
    "no time to answer": ({"http_timeout": 0}, "http_timeout"),
    "all day to answer": ({"http_timeout": timedelta(hours=24)}, "http_timeout"),
    "an empty secret": ({"secret": "", "algorithms": ["HS256"]}, "secret"),
    "empty bytes": ({"secret": b"", "algorithms": ["HS256"]}, "secret"),
    "a secret that is no text": ({"secret": "\ud800", "algorithms": ["HS256"]}, "secret"),
    "a secret of another type": ({"secret": 5, "algorithms": ["HS256"]}, "secret"),
    "a public key as the secret": (
        lambda: {"secret": public_pem("rsa"), "algorithms": ["HS256"]},
        "no secret",
    ),
    "a JWK as the secret": (
        lambda: {"secret": str(jwk("rsa", "RS256")).replace("'", '"'), "algorithms": ["HS256"]},
        "no secret",
    ),
    "a path where nothing is": ({"public_key": "/nowhere/key.pem"}, "cannot be read"),
    "a folder": ({"public_key": Path("/")}, "cannot be read"),
    "a path that is none": ({"public_key": "\0"}, "cannot be read"),
    "an empty path": ({"public_key": ""}, "cannot be read"),
    "a key that is neither text nor path": ({"public_key": 5}, "PEM text or the path"),
    "PEM of nothing": (
        {"public_key": "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n"},
        "no public key",
    ),
    "PEM cut short": (lambda: {"public_key": public_pem("rsa")[:200]}, "no public key"),
    "a private key": (lambda: {"public_key": private_pem("rsa")}, "no public key"),
    "a certificate": (lambda: {"public_key": certificate()}, "no public key"),
    "a file that is no PEM": ({"public_key": Path(__file__)}, "no public key"),
    "a key of another kind": (lambda: {"public_key": public_pem("ec")}, "serves none of RS256"),
    "a key of another curve": (
        lambda: {"public_key": public_pem("ec384"), "algorithms": ["ES256"]},
        "serves none",
    ),
    **{
        f"jwks_url {url!r}": ({"jwks_url": url}, "jwks_url")
        for url in (
            "",
            "http://id.example/keys",
            "HTTP://id.example",
            "file:///etc/keys",
            "ftp://id.example/",
            "id.example/keys",
            "//id.example/keys",
            "https:///keys",
            "https://",
            "https:id.example",
            "https://id.example:99999/",
            "https://id.example:0/",
            "https://id.example:x/",
            "https://user:pass@id.example/",
            "https://user@id.example/",
            "https://id example/keys",
            "https://id.example/\r\nX: y",
            " https://id.example/",
            "https://[::1/",
            "https://id.exämple/",
            "data:application/json,{}",
            b"https://id.example/",
            5,
        )
    },
}


@walk("name", WRONG)
def test_a_setting_that_can_never_be_right_is_refused(name: str) -> None:
    wrong, says = WRONG[name]
    settings = wrong() if callable(wrong) else dict(wrong)
    with pytest.raises(InvalidArgument, match=says) as caught:
        provider(**settings)
    said = str(caught.value)
    assert "\n" not in said
    assert SECRET not in said
    assert "BEGIN" not in said
    assert "pass@" not in said


RIGHT: dict[str, Settings] = {
    "an address": lambda: {"jwks_url": URL},
    "an address with port and query": lambda: {"jwks_url": "HTTPS://id.example:8443/keys?v=1"},
    "an address that is a number": lambda: {"jwks_url": "https://[::1]:8443"},
    "a set of algorithms": lambda: {"algorithms": {"RS256", "PS512"}},
    "durations in seconds": lambda: {
        "leeway": 0,
        "jwks_min_refresh_interval": 0,
        "jwks_max_age": 0.5,
        "http_timeout": 0.1,
    },
    "bytes as the secret": lambda: {"secret": b"\xff" * 64, "algorithms": ["HS256", "HS512"]},
    "claims in a tuple": lambda: {"claim_names": ("a", "b")},
}


@walk("name", RIGHT)
def test_a_setting_that_can_be_right_is_silent(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert provider(**RIGHT[name]())
    assert caplog.records == []


# --- warnings ------------------------------------------------------------------------------------


def test_taking_any_type_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    asked = provider(token_type=None)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ctrlrun", "WARNING")
    assert "ID token" in record.getMessage()
    assert "RFC 8725" in record.getMessage()
    assert admitted(asked, bearer(token()))
    assert len(caplog.records) == 1


def test_a_short_secret_is_warned_of_and_works(caplog: pytest.LogCaptureFixture) -> None:
    asked = provider(secret="short", algorithms=["HS256"])
    (record,) = caplog.records
    assert "HS256 is weak: The HMAC key is 5 bytes long" in record.getMessage()
    assert "short" not in record.getMessage()
    assert admitted(asked, bearer(token(alg="HS256", key="short")))


# --- PyJWT ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["jwt", "cryptography"])
@pytest.mark.parametrize("settings", [{}, {"algorithms": []}, {"issuer": ""}])
def test_without_pyjwt_the_extra_is_named_before_anything_else(
    module: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"secret": SECRET, "algorithms": ["HS256"], **settings}
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependency) as caught:
        provider(**settings)
    assert isinstance(caught.value, CTRLRunError)
    assert "pip install 'ctrlrun[identity]'" in str(caught.value)
    assert caught.value.extra == "identity"


@walk(
    ("program", "loaded"),
    [
        ("import ctrlrun", ""),
        ("from ctrlrun import *", "ctrlrun.identity"),
        ("import ctrlrun.jwt_identity", "ctrlrun.identity ctrlrun.jwt_identity"),
    ],
)
def test_pyjwt_is_loaded_when_a_provider_is_made_and_not_before(program: str, loaded: str) -> None:
    watched = ("jwt", "cryptography", "ctrlrun.identity", "ctrlrun.jwt_identity")
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{program}\nimport sys\nprint(*(m for m in {watched} if m in sys.modules))",
        ],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == loaded
