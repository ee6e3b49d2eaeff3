"""What a host and a child say to each other: frames of a length and a JSON object, on a socket of their own.

The host asks and the child answers, one request at a time; `wake` and `stop` may come between, and are not answered. What
may be large travels ahead of the frame it belongs to, in parts: the events of a batch and the rows of a position. Records
of the child's log, and its signs of life, come at any time.
"""

from __future__ import annotations

import json
import math
import socket
import struct
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

from triggers.base import Finding, Position, RejectedItem, RowChanges, StoredPosition, TriggerBatch, TriggerEvent
from triggers.errors import ConfigurationError

Frame: TypeAlias = dict[str, Any]

PART: Final = 250_000
"""Bytes of events after which a part is full; an event is never divided."""
MEMBERS: Final = 10_000
"""Rows of a large set in one part."""
MOST_MEMBERS: Final = 1_000_000
"""Rows by which one position may differ from the one before."""
SLACK: Final = 64_000
"""Bytes by which a frame may exceed the limit of a batch."""

_LENGTH: Final = struct.Struct("!I")


class BrokenFrame(Exception):
    """What came is no frame, or not the one that was due: the other side is not to be trusted any more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchLimits:
    """How much one batch may hold: `settings.triggerer.batch`."""

    max_events: int = 10_000
    max_bytes: int = 16_000_000

    @property
    def frame_bytes(self) -> int:
        return self.max_bytes + SLACK

    def check_events(self, number: int) -> None:
        """Raises `ConfigurationError` when a batch has more events than it may."""
        if number > self.max_events:
            raise ConfigurationError(
                f"the trigger yielded a batch of {number} events, and {self.max_events} is the limit; let it yield "
                "smaller batches, or raise settings.triggerer.batch.max_events"
            )

    def check_bytes(self, size: int) -> None:
        """Likewise, of the JSON of its events."""
        if size > self.max_bytes:
            raise ConfigurationError(
                f"the trigger yielded a batch of more than {self.max_bytes} bytes; let it yield smaller batches, or raise "
                "settings.triggerer.batch.max_bytes"
            )


class Decoder:
    """Cuts a stream of bytes into frames. Raises `BrokenFrame` as soon as one is announced that is too long."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[Frame, int]]:
        """The frames that `data` completes, each with its length."""
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
        raise BrokenFrame(f"a frame is no JSON: {error}") from None
    if not isinstance(frame, dict):
        raise BrokenFrame("a frame is no JSON object")
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
        self._frames: list[Frame] = []
        self._sending = threading.Lock()

    def send(self, frame: Mapping[str, Any]) -> None:
        self.send_content(encode(frame))

    def send_content(self, content: bytes) -> None:
        with self._sending:
            self.socket.sendall(framed(content))

    def receive(self, flags: int = 0) -> Sequence[Frame]:
        """The frames that come next, at least one unless `flags` say not to wait for more. Raises `EOFError` at the end."""
        while True:
            data = self.socket.recv(1 << 18, flags)
            if not data:
                raise EOFError("the other side is gone")
            frames = [frame for frame, _ in self._decoder.feed(data)]
            if frames or flags:
                return frames


def batch_contents(batch: TriggerBatch, limits: BatchLimits, **more: bool) -> Iterator[bytes]:
    """The frames of a batch: parts, and then the answer with `more`. Raises `ConfigurationError` when it is over the limits.

    And TypeError or ValueError when it is no batch, or holds what is no JSON.
    """
    _check_batch(batch)
    limits.check_events(len(batch.events))
    position = batch.position
    answer: Frame = {"events": len(batch.events), "caught_up": batch.caught_up, "position": None, **more}
    if batch.whole_since is not None:
        answer["whole_since"] = batch.whole_since
    if batch.up_to is not None:
        answer["up_to"] = batch.up_to
    if batch.findings is not None:
        answer["findings"] = [vars(finding) for finding in batch.findings]
    for name, items in (("rejected", batch.rejected), ("settled", batch.settled)):
        if items:
            answer[name] = [vars(item) for item in items]
    if position is not None:
        answer["position"] = _position_json(position)
        yield from _row_parts("delete", ([member] for member in position.rows.delete), len(position.rows.delete))
        yield from _row_parts("insert", position.rows.insert.items(), len(position.rows.insert))
    last = encode({"answer": answer})
    total = len(last)
    part: list[bytes] = []
    size = 0
    for event in batch.events:
        text = encode([event.count, event.watermark, event.payload])
        total += len(text)
        limits.check_bytes(total)
        part.append(text)
        size += len(text)
        if size > PART:
            yield _events_part(part)
            part, size = [], 0
    if part:
        yield _events_part(part)
    yield last


def _check_batch(batch: object) -> None:
    check_type(batch, TriggerBatch, "what `events` yields")
    assert isinstance(batch, TriggerBatch)  # noqa: S101  just checked, for mypy
    check_type(batch.position, Position | None, "the position of a batch")
    for event in batch.events:
        check_type(event, TriggerEvent, "an event of a batch")
        check_type(event.count, int, "the `count` of an event")
        check_type(event.payload, Mapping, "the `payload` of an event")
    for finding in batch.findings or ():
        check_type(finding, Finding, "a finding of a batch")
    for item in (*batch.rejected, *batch.settled):
        check_type(item, RejectedItem, "what a batch rejects or settles")


def check_type(value: object, expected: Any, what: str) -> None:
    """Raises TypeError with a sentence for the author of a plug-in."""
    if not isinstance(value, expected):
        raise TypeError(f"{what} is {type(value).__name__}; it must be {getattr(expected, '__name__', expected)}")


def _events_part(events: Iterable[bytes]) -> bytes:
    return b'{"part":{"events":[' + b",".join(events) + b"]}}"


def _row_parts(kind: str, rows: Iterable[Sequence[int]], number: int) -> Iterator[bytes]:
    """Members one after the other, each followed by its value where it has one."""
    if number > MOST_MEMBERS:
        raise ConfigurationError(
            f"the trigger changed {number} rows of its position at once, and {MOST_MEMBERS} is the limit; let it yield "
            "positions between them"
        )
    remaining = iter(rows)
    while part := [number for row in islice(remaining, MEMBERS) for number in row]:
        yield encode({"part": {kind: part}})


def _position_json(position: Position) -> Frame:
    rows = position.rows
    return {
        "watermark": position.watermark,
        "state": position.state,
        "silent": position.silent,
        "clear": rows.clear,
        "delete_below": rows.delete_below,
    }


def rewound_contents(position: Position) -> Iterator[bytes]:
    """The frames that answer where a rewind leads."""
    return batch_contents(TriggerBatch(position=position), BatchLimits(max_bytes=PART))


def stored_contents(request: Mapping[str, Any], position: StoredPosition | None) -> Iterator[bytes]:
    """The frames of a request that goes on from a stored position: its rows in parts, then the request."""
    if position is not None:
        remaining = iter(position.rows.items())
        while part := [number for row in islice(remaining, MEMBERS) for number in row]:
            yield encode({"part": {"insert": part}})
    yield encode({**request, "position": None if position is None else _stored_json(position)})


def _stored_json(position: StoredPosition) -> Frame:
    rejected, retried = ([vars(item) for item in items] for items in (position.rejected, position.retried))
    return {"state": position.state, "rejected": rejected, "retried": retried}


@dataclass
class Parts:
    """What came ahead of a frame, until that one comes and makes something of it. Raises `BrokenFrame`."""

    limits: BatchLimits | None = None
    """None: whatever comes, from a host."""
    _events: list[TriggerEvent] = field(default_factory=list)
    _insert: dict[int, int] = field(default_factory=dict)
    _delete: list[int] = field(default_factory=list)
    _bytes: int = 0

    def add(self, part: Frame, length: int) -> None:
        numbers, members = part.get("insert", []), part.get("delete", [])
        try:
            if not all(type(number) is int for number in (*numbers, *members)):
                raise TypeError("rows are whole numbers")  # noqa: TRY301  named below, as all else
            self._insert.update(zip(numbers[::2], numbers[1::2], strict=True))
            self._delete += members
            for count, watermark, payload in part.get("events", []):
                self._events.append(TriggerEvent(count=count, watermark=watermark, payload=payload))
        except (TypeError, ValueError, AttributeError) as error:
            raise BrokenFrame(f"a part is not what it should be: {error}") from None
        if "events" in part:
            self._bytes += length
        if self.limits is not None and (
            self._bytes > self.limits.frame_bytes
            or len(self._events) > self.limits.max_events
            or max(len(self._insert), len(self._delete)) > MOST_MEMBERS
        ):
            raise BrokenFrame("a batch is larger than its limits")

    def batch(self, answer: Frame) -> TriggerBatch:
        try:
            if answer["events"] != len(self._events):
                raise BrokenFrame("a batch came without some of its events")
            position = answer["position"]
            return TriggerBatch(
                events=self._events,
                caught_up=bool(answer["caught_up"]),
                position=None if position is None else self._position(position),
                whole_since=_moment(answer.get("whole_since")),
                up_to=answer.get("up_to"),
                findings=_findings(answer.get("findings")),
                rejected=_items(answer.get("rejected", ())),
                settled=_items(answer.get("settled", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenFrame(f"an answer is no batch: {error!r}") from None

    def _position(self, position: Frame) -> Position:
        rows = RowChanges(
            clear=position["clear"], delete_below=position["delete_below"], delete=self._delete, insert=self._insert
        )
        silent = bool(position["silent"])
        return Position(watermark=position["watermark"], state=position["state"], rows=rows, silent=silent)

    def stored(self, position: Frame | None) -> StoredPosition | None:
        if position is None:
            return None
        rejected, retried = _items(position["rejected"]), _items(position["retried"])
        return StoredPosition(state=position["state"], rows=self._insert, rejected=rejected, retried=retried)


def _findings(values: Any) -> list[Finding] | None:
    return None if values is None else [Finding(**value) for value in values]


def _items(values: Any) -> tuple[RejectedItem, ...]:
    return tuple(RejectedItem(**value) for value in values)


def _moment(value: Any) -> float | None:
    """Of the clock that all processes of a machine share."""
    return value if isinstance(value, float) and math.isfinite(value) else None
