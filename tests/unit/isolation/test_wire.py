"""Frames, and batches and positions that travel in parts."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triggers.base import Finding, Position, RowChanges, StoredPosition, TriggerBatch, TriggerEvent
from triggers.errors import ConfigurationError
from watcher.triggerer.isolation.batch_frames import PART, Parts, batch_contents, stored_contents
from watcher.triggerer.isolation.wire import BrokenFrame, Decoder, encode, framed
from watcher.triggerer.limits import BatchLimits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(st.text(max_size=5), JSON, max_size=3)
MEMBERS = st.integers(-(1 << 63), (1 << 63) - 1)
CHUNKS = st.dictionaries(MEMBERS, st.binary(max_size=5), max_size=3)
ROWS = st.builds(
    RowChanges,
    clear=st.booleans(),
    delete_below=st.none() | MEMBERS,
    delete=st.lists(MEMBERS, max_size=5),
    insert=st.dictionaries(MEMBERS, MEMBERS, max_size=5),
    delete_chunks_below=st.none() | MEMBERS,
    chunks=CHUNKS,
)
BATCHES = st.builds(
    TriggerBatch,
    events=st.lists(st.builds(TriggerEvent, count=st.integers(0, 9), watermark=OBJECTS, payload=OBJECTS), max_size=4),
    position=st.builds(Position, watermark=JSON, state=OBJECTS, rows=ROWS),
    caught_up=st.booleans(),
    whole_since=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    findings=st.none()
    | st.lists(
        st.builds(
            Finding, check=st.text(max_size=5), level=st.sampled_from(["ok", "warning"]), message=st.text(max_size=5)
        ),
        max_size=2,
    ),
)


def received(contents: Iterable[bytes]) -> tuple[Any, Parts]:
    """Return the last frame, and the parts before it, as the other side receives them."""
    parts = Parts(limits=BatchLimits())
    for content in contents:
        frame = json.loads(content)
        if "part" not in frame:
            return frame, parts
        parts.add(frame["part"], len(content))
    raise AssertionError("nothing but parts")


@given(BATCHES)
def test_a_batch_arrives_as_it_was(batch: TriggerBatch) -> None:
    frame, parts = received(batch_contents(batch, BatchLimits()))
    assert parts.batch(frame["answer"]) == batch


@pytest.mark.parametrize("findings", [None, [Finding.ok("rows", "")]])
def test_an_invalid_event_is_refused_in_a_sentence_with_and_without_findings(findings: list[Finding] | None) -> None:
    event: Any = TriggerEvent(count="1", watermark={}, payload={})  # plug-ins may do this
    batch = TriggerBatch(events=[event], position=Position(watermark=1, state={}), findings=findings)
    with pytest.raises(TypeError, match="the `count` of an event is str; it must be int"):
        [*batch_contents(batch, BatchLimits())]


@pytest.mark.parametrize(
    "position",
    [Position(watermark=1, state={}, silent=True), Position(watermark=1, state={}, is_final=True)],
    ids=["silent", "final"],
)
def test_a_position_arrives_as_it_was(position: Position) -> None:
    frame, parts = received(batch_contents(TriggerBatch(position=position), BatchLimits()))
    arrived = parts.batch(frame["answer"]).position
    assert arrived is not None
    assert (arrived.silent, arrived.is_final) == (position.silent, position.is_final)


@given(
    st.none()
    | st.builds(StoredPosition, state=OBJECTS, rows=st.dictionaries(MEMBERS, MEMBERS, max_size=5), chunks=CHUNKS)
)
def test_a_stored_position_arrives_as_it_was(position: StoredPosition | None) -> None:
    frame, parts = received(stored_contents({"do": "events"}, position))
    assert parts.stored(frame["position"]) == position


def test_large_batches_travel_in_parts() -> None:
    rows = RowChanges(insert=dict.fromkeys(range(25_000), 7), delete=range(25_000))
    events = [TriggerEvent(count=1, watermark={}, payload={"text": "x" * 100_000})] * 20
    batch = TriggerBatch(events=events, position=Position(watermark=1, state={}, rows=rows))
    contents = [*batch_contents(batch, BatchLimits())]
    assert max(map(len, contents)) < PART + 110_000
    frame, parts = received(contents)
    arrived = parts.batch(frame["answer"])
    assert arrived.position is not None
    assert arrived.position.rows.insert == rows.insert
    assert [*arrived.position.rows.delete] == [*rows.delete]
    assert arrived.events == events


@given(st.lists(OBJECTS, max_size=5), st.integers(1, 40))
def test_frames_are_decoded_wherever_the_stream_is_cut(objects: list[Any], step: int) -> None:
    stream = b"".join(framed(encode(each)) for each in objects)
    decoder = Decoder(1 << 20)
    pieces = [stream[at : at + step] for at in range(0, len(stream), step)]
    assert [frame for piece in pieces for frame, _ in decoder.feed(piece)] == objects


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[1]", b"{", b"[" * 100_000, b"1" * 5_000, b""])
def test_content_that_is_not_an_object_is_a_broken_frame(content: bytes) -> None:
    with pytest.raises(BrokenFrame):
        list(Decoder(1 << 20).feed(framed(content)))


def test_a_frame_over_the_limit_is_refused_before_its_content_arrives() -> None:
    with pytest.raises(BrokenFrame, match="101 bytes was announced; 100 is the limit"):
        list(Decoder(100).feed(framed(b" " * 101)[:4]))


@pytest.mark.parametrize(
    "part",
    [
        {"insert": [1]},
        {"insert": "12"},
        {"insert": [[1], 2]},
        {"delete": 3},
        {"events": [1]},
        {"events": [[1, {}]]},
        {"events": {"a": 1}},
    ],
)
def test_a_malformed_part_is_a_broken_frame(part: Any) -> None:
    with pytest.raises(BrokenFrame):
        Parts(limits=BatchLimits()).add(part, 10)


@pytest.mark.parametrize(
    "answer",
    [{}, {"events": 1, "caught_up": True, "position": None}, {"events": 0, "caught_up": True, "position": {}}],
)
def test_an_answer_that_is_not_a_batch_is_a_broken_frame(answer: Any) -> None:
    with pytest.raises(BrokenFrame):
        Parts().batch(answer)


def test_the_host_itself_checks_the_size_of_a_batch() -> None:
    event = [1, {}, {}, None, None]
    with pytest.raises(BrokenFrame, match="larger than its limits"):
        Parts(limits=BatchLimits(max_events=2)).add({"events": [event] * 3}, 30)
    with pytest.raises(BrokenFrame, match="larger than its limits"):
        Parts(limits=BatchLimits(max_bytes=10)).add({"events": [event]}, 100_000)


def test_an_error_about_a_limit_names_the_setting_to_raise() -> None:
    event = TriggerEvent(count=1, watermark={}, payload={"text": "x" * 100})
    batch = TriggerBatch(events=[event] * 3, position=Position(watermark=1, state={}))
    with pytest.raises(ConfigurationError, match=r"raise settings\.triggerer\.batch\.max_events"):
        list(batch_contents(batch, BatchLimits(max_events=2)))
    with pytest.raises(ConfigurationError, match=r"raise settings\.triggerer\.batch\.max_bytes"):
        list(batch_contents(batch, BatchLimits(max_bytes=300)))
