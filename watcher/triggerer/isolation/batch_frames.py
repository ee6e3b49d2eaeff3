"""Batches and positions as frames: large data in parts, then the frame that the parts belong to."""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from triggers.base import Finding, Position, RejectedItem, RowChanges, StoredPosition, TriggerBatch, TriggerEvent
from triggers.errors import ConfigurationError
from watcher.triggerer.isolation.wire import BrokenFrame, Frame, encode
from watcher.triggerer.limits import BatchLimits

PART: Final = 250_000
"""Bytes of events after which a part is full. An event is never divided."""
MEMBERS: Final = 10_000
"""Rows of a large position in one part."""
MOST_MEMBERS: Final = 1_000_000
"""Rows by which one position may differ from the one before."""


def batch_contents(batch: TriggerBatch, limits: BatchLimits, *, retold: bool | None = None) -> Iterator[bytes]:
    """Yield the frames of a batch: its parts, then the answer. `retold`: what the trigger says of the batch, if it does.

    Raise `ConfigurationError` if the batch is over the limits, and TypeError or ValueError if it is not a batch or holds
    values that are not JSON.
    """
    _check_batch(batch)
    limits.check_events(len(batch.events))
    answer = _batch_json(batch)
    if retold is not None:
        answer["retold"] = retold
    if batch.position is not None:
        rows = batch.position.rows
        yield from _row_parts("delete", ([member] for member in rows.delete), len(rows.delete))
        yield from _row_parts("insert", rows.insert.items(), len(rows.insert))
        yield from _chunk_parts(rows.chunks)
    last = encode({"answer": answer})
    yield from _event_parts(batch.events, limits, len(last))
    yield last


def _check_batch(batch: object) -> None:
    check_type(batch, TriggerBatch, "what `events` yields")
    assert isinstance(batch, TriggerBatch)  # noqa: S101  just checked, for mypy
    check_type(batch.position, Position | None, "the position of a batch")
    for event in batch.events:
        check_type(event, TriggerEvent, "an event of a batch")
        check_type(event.count, int, "the `count` of an event")
        check_type(event.payload, Mapping, "the `payload` of an event")
        check_type(event.partition_key, str | None, "the `partition_key` of an event")
        check_type(event.asset, str | None, "the `asset` of an event")
    for finding in batch.findings or ():
        check_type(finding, Finding, "a finding of a batch")
    for item in (*batch.rejected, *batch.settled):
        check_type(item, RejectedItem, "what a batch rejects or settles")


def check_type(value: object, expected: Any, what: str) -> None:
    """Raise TypeError, with a sentence for the author of a plug-in, if `value` is not of the `expected` type."""
    if not isinstance(value, expected):
        raise TypeError(f"{what} is {type(value).__name__}; it must be {getattr(expected, '__name__', expected)}")


def _batch_json(batch: TriggerBatch) -> Frame:
    """Return the batch without what travels in parts."""
    answer: Frame = {"events": len(batch.events), "caught_up": batch.caught_up, "position": None}
    if batch.whole_since is not None:
        answer["whole_since"] = batch.whole_since
    if batch.up_to is not None:
        answer["up_to"] = batch.up_to
    if batch.findings is not None:
        answer["findings"] = [vars(finding) for finding in batch.findings]
    for name, items in (("rejected", batch.rejected), ("settled", batch.settled)):
        if items:
            answer[name] = [vars(item) for item in items]
    if batch.position is not None:
        answer["position"] = _position_json(batch.position)
    return answer


def _event_parts(events: Iterable[TriggerEvent], limits: BatchLimits, total: int) -> Iterator[bytes]:
    """Yield the parts with the events of a batch. `total`: bytes of the batch's other frames, which count too."""
    part: list[bytes] = []
    size = 0
    for event in events:
        text = encode([event.count, event.watermark, event.payload, event.partition_key, event.asset])
        total += len(text)
        limits.check_bytes(total)
        part.append(text)
        size += len(text)
        if size > PART:
            yield _events_part(part)
            part, size = [], 0
    if part:
        yield _events_part(part)


def _events_part(events: Iterable[bytes]) -> bytes:
    return b'{"part":{"events":[' + b",".join(events) + b"]}}"


def _row_parts(kind: str, rows: Iterable[Sequence[int]], number: int) -> Iterator[bytes]:
    """Yield the parts with these rows: one member after the other, each followed by its value if it has one."""
    if number > MOST_MEMBERS:
        raise ConfigurationError(
            f"the trigger changed {number} rows of its position at once, and {MOST_MEMBERS} is the limit; let it yield "
            "positions between them"
        )
    remaining = iter(rows)
    while part := [number for row in islice(remaining, MEMBERS) for number in row]:
        yield encode({"part": {kind: part}})


def _chunk_parts(chunks: Mapping[int, bytes]) -> Iterator[bytes]:
    for number, data in chunks.items():
        yield encode({"part": {"chunks": [[number, b64encode(data).decode()]]}})


def _position_json(position: Position) -> Frame:
    rows = position.rows
    return {
        "watermark": position.watermark,
        "state": position.state,
        "silent": position.silent,
        "is_final": position.is_final,
        "clear": rows.clear,
        "delete_below": rows.delete_below,
        "delete_chunks_below": rows.delete_chunks_below,
    }


def rewound_contents(position: Position) -> Iterator[bytes]:
    """Yield the frames that answer a rewind: the position to which it leads."""
    return batch_contents(TriggerBatch(position=position), BatchLimits(max_bytes=PART))


def stored_contents(request: Mapping[str, Any], position: StoredPosition | None) -> Iterator[bytes]:
    """Yield the frames of a request that starts from a stored position: the position's rows in parts, then the request."""
    if position is not None:
        remaining = iter(position.rows.items())
        while part := [number for row in islice(remaining, MEMBERS) for number in row]:
            yield encode({"part": {"insert": part}})
        yield from _chunk_parts(position.chunks)
    yield encode({**request, "position": None if position is None else _stored_json(position)})


def _stored_json(position: StoredPosition) -> Frame:
    rejected, retried = ([vars(item) for item in items] for items in (position.rejected, position.retried))
    return {"state": position.state, "rejected": rejected, "retried": retried}


@dataclass
class Parts:
    """Collects parts until their frame comes, and then makes a batch or a position. All methods may raise `BrokenFrame`."""

    limits: BatchLimits | None = None
    """None accepts any size: parts that come from a host."""
    _events: list[TriggerEvent] = field(default_factory=list)
    _insert: dict[int, int] = field(default_factory=dict)
    _delete: list[int] = field(default_factory=list)
    _chunks: dict[int, bytes] = field(default_factory=dict)
    _bytes: int = 0

    def add(self, part: Frame, length: int) -> None:
        numbers, members = part.get("insert", []), part.get("delete", [])
        try:
            if not all(type(number) is int for number in (*numbers, *members)):
                raise TypeError("rows are whole numbers")  # noqa: TRY301  reported below, as every other mistake
            self._insert.update(zip(numbers[::2], numbers[1::2], strict=True))
            self._delete += members
            self._chunks.update((int(number), b64decode(data)) for number, data in part.get("chunks", []))
            self._events += [
                TriggerEvent(count=count, watermark=watermark, payload=payload, partition_key=key, asset=asset)
                for count, watermark, payload, key, asset in part.get("events", [])
            ]
        except (TypeError, ValueError, AttributeError) as error:
            raise BrokenFrame(f"a part is malformed: {error}") from None
        if "events" in part or "chunks" in part:
            self._bytes += length
        if self.limits is not None and (
            self._bytes > self.limits.frame_bytes
            or len(self._events) > self.limits.max_events
            or max(len(self._insert), len(self._delete)) > MOST_MEMBERS
        ):
            raise BrokenFrame("a batch is larger than its limits")

    def batch(self, answer: Frame) -> TriggerBatch:
        """Make a batch of the parts and of the answer that follows them."""
        try:
            if answer["events"] != len(self._events):
                raise BrokenFrame("a batch came without some of its events")
            position, findings = answer["position"], answer.get("findings")
            return TriggerBatch(
                events=self._events,
                caught_up=bool(answer["caught_up"]),
                position=None if position is None else self._position(position),
                whole_since=_monotonic_time(answer.get("whole_since")),
                up_to=answer.get("up_to"),
                findings=None if findings is None else findings_from_json(findings),
                rejected=_items_from_json(answer.get("rejected", ())),
                settled=_items_from_json(answer.get("settled", ())),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenFrame(f"an answer is not a batch: {error!r}") from None

    def _position(self, position: Frame) -> Position:
        rows = RowChanges(
            clear=position["clear"],
            delete_below=position["delete_below"],
            delete=self._delete,
            insert=self._insert,
            delete_chunks_below=position.get("delete_chunks_below"),
            chunks=self._chunks,
        )
        silent, is_final = bool(position["silent"]), bool(position["is_final"])
        return Position(
            watermark=position["watermark"], state=position["state"], rows=rows, silent=silent, is_final=is_final
        )

    def stored(self, position: Frame | None) -> StoredPosition | None:
        """Make a stored position of the parts and of the `position` in the request that follows them."""
        if position is None:
            return None
        rejected, retried = _items_from_json(position["rejected"]), _items_from_json(position["retried"])
        return StoredPosition(
            state=position["state"], rows=self._insert, rejected=rejected, retried=retried, chunks=self._chunks
        )


def findings_from_json(findings: Iterable[Frame]) -> list[Finding]:
    """Make findings of their JSON, which was `vars(finding)`. Raise KeyError or TypeError if it is something else."""
    return [
        Finding(check=each["check"], level=each["level"], message=each["message"], remedy=each["remedy"])
        for each in findings
    ]


def _items_from_json(items: Iterable[Frame]) -> tuple[RejectedItem, ...]:
    return tuple(
        RejectedItem(
            key=item["key"], version=item["version"], column=item["column"], code=item["code"], reason=item["reason"]
        )
        for item in items
    )


def _monotonic_time(value: Any) -> float | None:
    """Return a time by `time.monotonic`, a clock that all processes of a machine share; None if it is not a time."""
    return value if isinstance(value, float) and math.isfinite(value) else None
