from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher.sdk.asset_job.sources.arrow import batches_of_lines


def lines(*pieces: bytes) -> list[str]:
    return [line for batch in batches_of_lines(pieces) for line in batch.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"\n", [""]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\rc\n", ["a", "b", "c"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb", ["a", "\ufeffb"]),
        (b"\xff\n\xc3\xa4", ["\ufffd", "ä"]),
    ],
)
def test_lines_are_cut_as_spark_cuts_them(content, expected):
    assert lines(content) == expected


@given(st.lists(st.sampled_from(["a", "ä", "\n", "\r", "\r\n", "bc"])).map("".join), st.lists(st.integers(0, 12)))
def test_where_the_pieces_are_cut_makes_no_difference(text, cuts):
    content = text.encode()
    places = sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})
    pieces = [content[start:end] for start, end in pairwise(places)]
    expected = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []
    assert lines(*pieces) == lines(content) == expected
