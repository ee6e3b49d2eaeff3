"""Answers that go on: counted while they do, and never silent for long."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest
from fastapi import HTTPException

from watcher.api.streams import COMMENT, Streams


async def events(*texts: str) -> AsyncIterator[str]:
    for text in texts:
        yield text
        await anyio.lowlevel.checkpoint()


async def test_what_is_empty_is_left_out_until_a_comment_is_due() -> None:
    assert [text async for text in Streams().commented(events("a", "", "", "b", ""))] == ["a", "b"]
    always = Streams(comment_every=0)
    assert [text async for text in always.commented(events("a", "", "b", ""))] == ["a", COMMENT, "b", COMMENT]


async def test_an_open_stream_has_its_place_until_it_ends_however_it_ends() -> None:
    streams = Streams(most=2)
    open_ones = [streams.commented(events("a", "b")) for _ in range(2)]
    for stream in open_ones:
        streams.check()
        assert await anext(stream) == "a"
    with pytest.raises(HTTPException) as refused:
        streams.check()
    assert refused.value.status_code == 503
    await open_ones[0].aclose()  # type: ignore[attr-defined]
    streams.check()
    assert [text async for text in open_ones[1]] == ["b"]
    streams.check()
