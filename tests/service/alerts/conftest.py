"""A web server and a mail server that keep what they get."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from watcher.demo.servers import free_port


@dataclass
class Hook:
    """`statuses` are answered one after the other, then 204."""

    url: str = ""
    bodies: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)


@pytest.fixture
def hook() -> Iterator[Hook]:
    kept = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            kept.headers.append(dict(self.headers))
            self.send_response(kept.statuses.pop(0) if kept.statuses else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        kept.url = f"http://127.0.0.1:{server.server_port}/hook"
        yield kept
        server.shutdown()
        thread.join()


@dataclass
class Mailbox:
    port: int = 0
    mails: list[Message] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    """One after the other, then all is taken."""

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802  aiosmtpd's name
        answer = self.answers.pop(0) if self.answers else "250 OK"
        if answer.startswith("250"):
            self.mails.append(message_from_bytes(envelope.content or b""))
            self.recipients += envelope.rcpt_tos
        return answer


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    kept = Mailbox()
    kept.port = free_port()
    controller = Controller(kept, hostname="127.0.0.1", port=kept.port)
    controller.start()
    try:
        yield kept
    finally:
        controller.stop()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with mail_server() as kept:
        yield kept
