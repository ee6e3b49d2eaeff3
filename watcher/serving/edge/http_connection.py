"""The connection of a client: uvicorn's protocol on httptools, within limits.

httptools puts a header together from the pieces it is fed and copies what it has each time. Neither it nor uvicorn counts
bytes or seconds before a request is complete. So it is fed no more of a head than a head may have, and each phase of a
connection has a time limit, which `Connections` enforces.
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
"""Bytes of the request line's address: it may hold an asset's uri and a key of 512 characters, both percent-encoded."""
_MOST_DISCARDED: Final = 32_000_000
"""Bytes of an unwanted body that are read and discarded. After more than that the connection is cut without an answer."""


class LimitedConfig(uvicorn.Config):
    """uvicorn's configuration, with the connections of the server."""

    connections: Connections


class _RequestsRead:
    """How far the connection's requests have been read and answered. A request has a head and a body that may be empty."""

    def __init__(self, head_limit: int) -> None:
        self._head_limit = head_limit
        self.in_head = True
        """Whether the next byte belongs to a head. It also means that no part of a body is outstanding."""
        self.head_bytes = 0
        self.bytes_without_result = 0
        """Bytes since the parser last made something of what it was fed."""
        self._complete, self._answered = 0, 0

    @property
    def phase(self) -> Phase:
        """The phase of the connection, by what has been read and answered."""
        if self._complete > self._answered:
            return Phase.ANSWER
        if not self.in_head:
            return Phase.BODY
        return Phase.HEADER if self.head_bytes or not self._complete else Phase.IDLE

    @property
    def is_answered_early(self) -> bool:
        """Whether the last answer has ended before the body of its request."""
        return self._answered > self._complete

    @property
    def room(self) -> int:
        """Bytes that may be fed to the parser before its progress is checked again."""
        return self._head_limit - self.head_bytes

    def feed(self, size: int) -> None:
        self.bytes_without_result += size
        if self.in_head:
            self.head_bytes += size

    def end_head(self) -> None:
        self.in_head, self.head_bytes, self.bytes_without_result = False, 0, 0

    def end_body(self) -> None:
        self.in_head, self.bytes_without_result = True, 0
        self._complete += 1

    def end_answer(self) -> None:
        self._answered += 1

    def excess(self) -> tuple[HTTPStatus, str] | None:
        """Return the refusal of a head that is too large, or of a body whose chunks hold no data."""
        if self.in_head and self.head_bytes >= self._head_limit:
            sentence = f"the request line and its headers are larger than {self._head_limit} bytes; send less"
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, sentence
        if not self.in_head and self.bytes_without_result > self._head_limit:
            return HTTPStatus.BAD_REQUEST, "the body's chunks hold no data; send data in each of them"
        return None


class HttpConnection(HttpToolsProtocol):
    """A connection of a client, whose requests are read, limited and answered one after the other."""

    def __init__(
        self,
        config: uvicorn.Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._connections = cast("LimitedConfig", config).connections
        self._requests = _RequestsRead(self._connections.limits.header_bytes)
        self.phase = Phase.HEADER
        self.address: str | None = None
        self._refusal: tuple[HTTPStatus, str] | None = None
        self._stalled_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        super().connection_made(transport)
        self.address = self.client[0] if self.client else None
        if not self._connections.admit(self, self.loop.time()):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "too many requests are being answered; try again later")
            self.loop.call_later(LINGERS_FOR.total_seconds(), self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.phase is Phase.LINGER:
            self._requests.bytes_without_result += len(data)
            if self._requests.bytes_without_result > _MOST_DISCARDED:
                self.transport.abort()
            return
        while data and self._refusal is None and not self.transport.is_closing():
            room = self._requests.room
            piece, data = (data, b"") if len(data) <= room else (data[:room], data[room:])
            self._feed(piece)

    def _feed(self, piece: bytes) -> None:
        self._requests.feed(len(piece))
        self._enter(self._requests.phase)
        super().data_received(piece)
        if self._refusal is None:
            self._refusal = self._requests.excess()
        if self._refusal is not None and not self.transport.is_closing():
            self._refuse(*self._refusal)

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > LONGEST_TARGET:
            limit = f"the address is longer than {LONGEST_TARGET} bytes; shorten it"
            self._refusal = (HTTPStatus.REQUEST_URI_TOO_LONG, limit)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._requests.in_head:
            self._refusal = (HTTPStatus.BAD_REQUEST, "trailers after a body are not supported; send them as headers")
        elif len(self.headers) >= MOST_HEADERS:
            limit = f"there are more than {MOST_HEADERS} headers; send fewer"
            self._refusal = (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, limit)
        else:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._refusal is not None:
            raise ValueError("the request is refused")  # ends the parsing; `_feed` sends the client the reason
        self._requests.end_head()
        super().on_headers_complete()
        if not self.cycle.keep_alive:
            self.cycle.transport = _LastAnswer(self.transport, self._requests)
        self._enter(self._requests.phase)

    def on_body(self, body: bytes) -> None:
        self._requests.bytes_without_result = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._requests.end_body()
        self._enter(self._requests.phase)

    def on_response_complete(self) -> None:
        self._requests.end_answer()
        super().on_response_complete()
        if self._requests.is_answered_early and not self.transport.is_closing():
            self._linger()  # the rest of the body is not needed
        else:
            self._enter(self._requests.phase)

    def _enter(self, phase: Phase) -> None:
        if phase is self.phase:
            return
        self.phase = phase
        if phase is Phase.ANSWER:
            self._connections.is_answered(self)
        else:
            self._connections.waits(self, self.loop.time())

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser refused; uvicorn calls this."""
        if self._refusal is None:
            self._refusal = (HTTPStatus.BAD_REQUEST, f"{msg.removesuffix('.')}; send HTTP/1.1")

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        """Send the connection's last answer, or close it if another answer has begun."""
        if self.phase is Phase.ANSWER or (_is_being_answered(self.cycle) and self.cycle.response_started):
            self.transport.close()
            return
        self.transport.write(_refusal_bytes(status, sentence))
        self._linger()

    def _linger(self) -> None:
        """Send no more answers: wait for the client to close, and discard what it still sends."""
        self._requests.bytes_without_result = 0
        self._unset_keepalive_if_required()
        if _is_being_answered(self.cycle):
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self.phase = Phase.LINGER
        self._connections.waits(self, self.loop.time())

    def make_room(self) -> None:
        self.transport.abort()

    def expire(self) -> None:
        if self.phase is Phase.LINGER or self.transport.is_closing():
            self.transport.abort()
        elif self.phase is Phase.IDLE or (self.phase is Phase.HEADER and not self._requests.head_bytes):
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


def _is_being_answered(cycle: RequestResponseCycle | None) -> bool:
    """Whether the application has begun with a request and has not ended its answer."""
    return cycle is not None and not cycle.response_complete


def _refusal_bytes(status: HTTPStatus, sentence: str) -> bytes:
    body = json.dumps({"detail": sentence}).encode()
    headers = {
        b"content-type": b"application/json",
        b"content-length": str(len(body)).encode(),
        b"connection": b"close",
        **SECURITY_HEADERS,
    }
    lines = (b"%s: %s\r\n" % header for header in headers.items())
    return b"".join([STATUS_LINE[status], *lines, b"\r\n", body])


class _LastAnswer(asyncio.Transport):
    """The transport that uvicorn uses for a connection's last answer, which it would close at once.

    A client that is still sending would then lose the answer: data that arrives at a closed socket is answered by a reset.
    So `close` does nothing until the whole request is read.
    """

    def __init__(self, transport: asyncio.Transport, requests: _RequestsRead) -> None:
        super().__init__()
        self._transport = transport
        self._requests = requests

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._transport.write(data)

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def close(self) -> None:
        if self._requests.in_head:
            self._transport.close()
