"""Answers that continue are counted while they do, and are never silent for long."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import anyio.lowlevel
import pytest
from fastapi import HTTPException

from watcher.serving.api.streams.open_streams import COMMENT, Streams


async def events(*texts: str) -> AsyncIterator[str]:
    for text in texts:
        yield text
        await anyio.lowlevel.checkpoint()


async def may_listen() -> bool:
    return True


async def test_empty_texts_are_omitted_until_a_comment_is_due() -> None:
    assert [text async for text in Streams().commented(events("a", "", "", "b", ""), may_listen)] == ["a", "b"]
    always = Streams(comment_every=0)
    texts = [text async for text in always.commented(events("a", "", "b", ""), may_listen)]
    assert texts == ["a", COMMENT, "b", COMMENT]


async def test_a_stream_is_counted_until_it_ends_in_any_way() -> None:
    streams = Streams(most=2)
    open_ones = [streams.commented(events("a", "b"), may_listen) for _ in range(2)]
    for stream in open_ones:
        streams.check()
        assert await anext(stream) == "a"
    with pytest.raises(HTTPException) as refused:
        streams.check()
    assert refused.value.status_code == 503
    await open_ones[0].aclose()
    streams.check()
    assert [text async for text in open_ones[1]] == ["b"]
    streams.check()


async def test_a_stream_ends_when_its_client_may_no_longer_listen() -> None:
    answers = iter([True, False])

    async def may_still_listen() -> bool:
        return next(answers)

    streams = Streams(most=1, ask_every=0)
    assert [text async for text in streams.commented(events("a", "b", "c"), may_still_listen)] == ["a"]
    streams.check()
