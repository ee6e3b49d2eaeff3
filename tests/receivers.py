"""A web server and a mail server that keep what they receive."""

from __future__ import annotations

import ipaddress
import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from watcher.shared.servers import free_port


@dataclass
class Hook:
    """A web server. It answers with `statuses` one after the other, then with 204."""

    url: str = ""
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


@contextmanager
def web_hook() -> Iterator[Hook]:
    kept = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            kept.headers.append(dict(self.headers))
            self.send_response(kept.statuses.pop(0) if kept.statuses else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        kept.url = f"http://127.0.0.1:{server.server_port}/hook"
        try:
            yield kept
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Mailbox:
    port: int = 0
    mails: list[Message] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    encrypted: list[bool] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    """The first answers, in order. After them every mail is accepted."""

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802  aiosmtpd's name
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("250"):
            self.mails.append(message_from_bytes(envelope.content or b""))
            self.recipients += envelope.rcpt_tos
            self.encrypted.append(session.ssl is not None)
        return answer


@contextmanager
def mail_server(certificate: Path | None = None) -> Iterator[Mailbox]:
    """Run a mail server. With a certificate, whose file also has the key, it accepts mail only over TLS."""
    kept = Mailbox()
    kept.port = free_port()
    tls: dict[str, Any] = {}
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
        tls = {"tls_context": context, "require_starttls": True}
    controller = Controller(kept, hostname="127.0.0.1", port=kept.port, **tls)
    controller.start()
    try:
        yield kept
    finally:
        controller.stop()


def write_certificate(file: Path) -> Path:
    """Write a self-signed certificate, with its key, of a server on the loopback. Clients may trust the file."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(pem + certificate.public_bytes(Encoding.PEM))
    return file
