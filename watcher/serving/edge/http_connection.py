"""One client's connection: uvicorn's with httptools, which reads on without end, within limits of ours.

httptools puts a header together from the pieces it is fed, each time copying what it has, and neither it nor uvicorn counts
bytes or seconds before a request is complete. So it is fed no more of a head than may be there, and each phase of a
connection has its time, which `Connections` keeps.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from watcher.serving.edge.connections import LINGERS_FOR, Connections, Phase
from watcher.serving.edge.headers import SECURITY_HEADERS

MOST_HEADERS: Final = 100
LONGEST_TARGET: Final = 32_000
"""Bytes of the request line's address: an asset's uri and a key of 512 characters may each be in it, percent-encoded."""
_THROWN_AWAY: Final = 32_000_000
"""Bytes of a body that nobody wants, after which its client is not worth an answer."""


class LimitedConfig(uvicorn.Config):
    """uvicorn's configuration, with what all connections of the server share."""

    connections: Connections


class HttpConnection(HttpToolsProtocol):
    """A connection of a client; each request has a head, then a body that may be empty, then its answer."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._others = cast("LimitedConfig", config).connections
        self._head_limit = self._others.limits.header_bytes
        self.phase = Phase.HEADER
        self.address: str | None = None
        self._in_head, self._head_bytes = True, 0
        self._complete, self._answered = 0, 0
        """Requests whose body has ended, and requests whose answer has."""
        self._unread = 0
        """Bytes since the parser made something of what it was fed."""
        self._refusal: tuple[HTTPStatus, str] | None = None
        self._stalled_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        super().connection_made(transport)
        self.address = self.client[0] if self.client else None
        if not self._others.admit(self, self.loop.time()):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered; try again later")
            self.loop.call_later(LINGERS_FOR.total_seconds(), self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._others.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingers():
            self._unread += len(data)
            if self._unread > _THROWN_AWAY:
                self.transport.abort()
            return
        while data and not self.transport.is_closing() and not self._lingers():
            room = self._head_limit - self._head_bytes
            piece, data = (data, b"") if len(data) <= room else (data[:room], data[room:])
            self._feed(piece)

    def _lingers(self) -> bool:
        return self.phase is Phase.LINGER

    def _feed(self, piece: bytes) -> None:
        self._unread += len(piece)
        if self._in_head:
            self._head_bytes += len(piece)
        self._look()
        super().data_received(piece)
        if self._refusal is None and self._in_head and self._head_bytes >= self._head_limit:
            limit = f"the request line and its headers are larger than {self._head_limit} bytes; send less"
            self._refusal = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, limit)
        if self._refusal is None and not self._in_head and self._unread > self._head_limit:
            self._refusal = (HTTPStatus.BAD_REQUEST, "the body is chunked in a way that holds no data; send data")
        if self._refusal is not None and not self.transport.is_closing():
            self._refuse(*self._refusal)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_TARGET:
            limit = f"the address is longer than {LONGEST_TARGET} bytes; shorten it"
            self._refusal = (HTTPStatus.REQUEST_URI_TOO_LONG, limit)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            self._refusal = (HTTPStatus.BAD_REQUEST, "trailers after a body are not supported; send them as headers")
        elif len(self.headers) >= MOST_HEADERS:
            limit = f"there are more than {MOST_HEADERS} headers; send fewer"
            self._refusal = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, limit)
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._refusal is not None:
            raise ValueError("refused before anybody answers")  # ends the parsing; `_feed` tells the client why
        self._in_head, self._head_bytes, self._unread = False, 0, 0
        super().on_headers_complete()
        if not self.cycle.keep_alive:
            self.cycle.transport = _LastAnswer(self)
        self._look()

    @property
    def has_whole_request(self) -> bool:
        """Nothing of the body is still to come."""
        return self._in_head

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_head, self._unread = True, 0
        self._complete += 1
        self._look()

    def on_response_complete(self) -> None:
        self._answered += 1
        super().on_response_complete()
        if self._answered > self._complete and not self.transport.is_closing():
            self._linger()  # nobody wants the rest of the body
        else:
            self._look()

    def _look(self) -> None:
        """Whom the connection waits for, by what is complete."""
        if self._complete > self._answered:
            phase = Phase.ANSWER
        elif not self._in_head:
            phase = Phase.BODY
        elif self._head_bytes or not self._complete:
            phase = Phase.HEADER
        else:
            phase = Phase.IDLE
        if phase is not self.phase:
            self._move(phase)

    @property
    def _is_asked(self) -> bool:
        """Whether the application has begun with a request and not ended."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is not None and not cycle.response_complete

    def _move(self, phase: Phase) -> None:
        self.phase = phase
        if phase is Phase.ANSWER:
            self._others.is_answered(self)
        else:
            self._others.waits(self, self.loop.time())

    def send_400_response(self, msg: str) -> None:
        """Uvicorn calls it for what its parser refuses."""
        if self._refusal is None:
            self._refusal = (HTTPStatus.BAD_REQUEST, f"{msg.removesuffix('.')}; send HTTP/1.1")

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        """The last answer of the connection; none where another one has begun."""
        if self.phase is Phase.ANSWER or (self._is_asked and self.cycle.response_started):
            self.transport.close()
            return
        body = json.dumps({"detail": sentence}).encode()
        headers = {
            b"content-type": b"application/json",
            b"content-length": str(len(body)).encode(),
            b"connection": b"close",
            **SECURITY_HEADERS,
        }
        lines = (b"%s: %s\r\n" % header for header in headers.items())
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        self._linger()

    def _linger(self) -> None:
        """No more answers: wait for the client to close, and throw away what it still sends."""
        self._unread = 0
        self._unset_keepalive_if_required()
        if self._is_asked:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._move(Phase.LINGER)

    def make_room(self) -> None:
        self.transport.abort()

    def expire(self) -> None:
        if self.phase is Phase.LINGER or self.transport.is_closing():
            self.transport.abort()
        elif self.phase is Phase.IDLE or (self.phase is Phase.HEADER and not self._head_bytes):
            self.transport.close()
        else:
            part = "the headers" if self.phase is Phase.HEADER else "the body"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, f"{part} took too long; send them in time")

    def drop_if_stalled(self, seconds: float) -> None:
        if self._stalled_since is not None and self.loop.time() - self._stalled_since > seconds:
            self.transport.abort()

    def pause_writing(self) -> None:
        self._stalled_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._stalled_since = None
        super().resume_writing()


class _LastAnswer(asyncio.Transport):
    """The transport as uvicorn uses it for the last answer of a connection, which it would close at once.

    A client that is still sending would then lose the answer: what arrives for a closed socket is answered by a reset.
    """

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self._connection = connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._connection.transport.write(data)

    def is_closing(self) -> bool:
        return self._connection.transport.is_closing()

    def close(self) -> None:
        if self._connection.has_whole_request:
            self._connection.transport.close()
