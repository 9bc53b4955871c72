"""An issuer's HTTPS server, real and local, whose answers a test chooses and whose questions it counts."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PATH = "/keys?set=1"


class Issuer:
    """Answers every question with `status`, `headers` and `body`; `asked` are the paths, in order."""

    def __init__(self, scheme: str, port: int) -> None:
        self.url = f"{scheme}://localhost:{port}{PATH}"
        self.port = port
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: bytes = b"{}"
        self.drip = False
        self.asked: list[str] = []
        self.came = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.over = threading.Event()

    def publish(self, *entries: Any) -> None:
        """Answer with a set of these entries from here on."""
        self.body = json.dumps({"keys": list(entries)}).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    issuer: Issuer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up, or does not trust us, is what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        issuer = self.server.issuer
        issuer.asked.append(self.path)
        issuer.came.set()
        issuer.may_answer.wait(30)
        body = issuer.body
        self.send_response(issuer.status)
        for name, value in {"Content-Length": str(len(body)), **issuer.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if not issuer.drip:
            self.wfile.write(body)
            return
        for byte in body:
            self.wfile.write(bytes([byte]))
            if issuer.over.wait(0.02):
                return

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: standard error is not the place."""


@contextmanager
def serving(certificate: Path | None) -> Iterator[Issuer]:
    """An issuer on a free port, over HTTPS with the certificate, or over HTTP without one."""
    server = _Server(("127.0.0.1", 0), _Handler)
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The handshake is the thread's that serves the client, not the one's that takes all.
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    issuer = Issuer("http" if certificate is None else "https", server.server_address[1])
    server.issuer = issuer
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield issuer
    finally:
        issuer.over.set()
        issuer.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()


@cache
def certificate_pem() -> bytes:
    """A certificate for `localhost` that signs itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)  # OpenSSL looks at the machine's clock
    public = key.public_key()
    usage = {
        "digital_signature": True,
        "key_cert_sign": True,
        "content_commitment": False,
        "key_encipherment": False,
        "data_encipherment": False,
        "key_agreement": False,
        "crl_sign": False,
        "encipher_only": False,
        "decipher_only": False,
    }
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**usage), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)
