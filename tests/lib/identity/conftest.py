"""Fixtures of the identity tests: issuers that are asked over real HTTPS."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from .helpers import jwk
from .issuer import Issuer, certificate_pem, serving


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The file of the issuers' certificate, which the process does not trust by itself."""
    path = tmp_path / "issuer.pem"
    path.write_bytes(certificate_pem())
    return path


@pytest.fixture
def trusted(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process trusts the issuers' certificate, as an operator would tell it to."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))


@pytest.fixture
def issuer(certificate: Path, trusted: None) -> Iterator[Issuer]:
    """A trusted issuer that publishes the key `rsa`."""
    with serving(certificate) as served:
        served.publish(jwk("rsa", "RS256"))
        yield served
