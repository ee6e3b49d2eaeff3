"""The protocol between a host and a child: frames on a socket of their own, each a length and a JSON object.

The host sends one request at a time, and the child answers it. `wake` and `stop` may come between requests and are not
answered. Large data precedes its frame in parts: the events of a batch and the rows of a position (`batch_frames`). Log
records of the child and its signs of life come at any time.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

Frame: TypeAlias = dict[str, Any]

_LENGTH: Final = struct.Struct("!I")


class BrokenFrame(Exception):
    """What arrived is not a frame, or not the expected one. The other side can no longer be trusted."""


class Decoder:
    """Cuts a stream of bytes into frames. Raises `BrokenFrame` as soon as a frame announces a length over the limit."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Frame, int]]:
        """Yield the frames that `data` completes, each with its length."""
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > self._limit:
                raise BrokenFrame(f"a frame of {length} bytes was announced; {self._limit} is the limit")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            content = bytes(memoryview(self._buffer)[_LENGTH.size : end])
            del self._buffer[:end]
            yield _object(content), length


def _object(content: bytes) -> Frame:
    try:
        frame = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise BrokenFrame(f"a frame is not JSON: {error}") from None
    if not isinstance(frame, dict):
        raise BrokenFrame("a frame is not a JSON object")
    return frame


def encode(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def framed(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


class Wire:
    """A blocking end of the socket: the child's, and the host's while it reads its configuration. Any thread may send."""

    def __init__(self, end: socket.socket, limit: int) -> None:
        self.socket = end
        self._decoder = Decoder(limit)
        self._send_lock = threading.Lock()

    def send(self, frame: Mapping[str, Any]) -> None:
        self.send_content(encode(frame))

    def send_content(self, content: bytes) -> None:
        with self._send_lock:
            self.socket.sendall(framed(content))

    def receive(self, flags: int = 0) -> Sequence[Frame]:
        """Return the next frames, at least one unless `flags` say not to wait. Raise `EOFError` when the socket is closed."""
        while True:
            data = self.socket.recv(1 << 18, flags)
            if not data:
                raise EOFError("the other side is gone")
            frames = [frame for frame, _ in self._decoder.feed(data)]
            if frames or flags:
                return frames
