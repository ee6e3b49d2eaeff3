from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asset_job.sources.arrow import lines_of_part
from asset_job.sources.lines import LinesParser
from asset_job.sources.options import ReadOptions
from tests.unit.sdk.in_memory import InMemory

TEXTS = st.lists(st.sampled_from(["a", "ä", "\n", "\r", "\r\n", "bc"])).map("".join)
CUTS = st.lists(st.integers(0, 12))


@dataclass(frozen=True)
class InPieces(InMemory):
    """A file in memory that comes in these pieces."""

    these: tuple[bytes, ...] = ()

    def pieces(self) -> Iterator[bytes]:
        return iter(self.these)


def lines(*pieces: bytes, has_start: bool = True) -> list[str]:
    parser = LinesParser(columns=pa.schema([("value", pa.string())]), options=ReadOptions())
    file = InPieces(b"".join(pieces), part=None if has_start else (1, 9), these=pieces)
    return [line for batch in parser.parse(file) for line in batch.column(0).to_pylist()]


def cut(content: bytes, cuts: Sequence[int]) -> list[tuple[int, int]]:
    return list(pairwise(sorted({min(cut, len(content)) for cut in cuts} | {0, len(content)})))


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
    ],
)
def test_lines_are_separated_as_in_spark(content, expected):
    assert lines(content) == expected


@given(TEXTS, CUTS)
def test_lines_do_not_depend_on_where_pieces_are_cut(text, cuts):
    content = text.encode()
    pieces = [content[start:end] for start, end in cut(content, cuts)]
    expected = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n") if text else []
    assert lines(*pieces) == lines(content) == expected


@given(TEXTS, CUTS, CUTS)
def test_each_line_is_in_the_part_in_which_it_begins(text, parts, pieces):
    content = text.encode()

    def of_part(begin: int, end: int) -> list[str]:
        rest = content[max(begin - 1, 0) :]
        given = (rest[start:stop] for start, stop in cut(rest, pieces))
        return lines(*lines_of_part(given, begin, end), has_start=begin == 0)

    assert [line for part in cut(content, parts) for line in of_part(*part)] == lines(content)


def test_after_the_end_of_a_part_only_its_last_line_is_fetched():
    def pieces() -> Iterator[bytes]:
        yield b"a\nb"
        yield b"b\nc"
        raise AssertionError

    assert b"".join(lines_of_part(pieces(), 0, 3)) == b"a\nbb\n"


def test_a_byte_order_mark_within_a_file_is_kept():
    content = b"a\n\xef\xbb\xbfb"
    assert lines(*lines_of_part([content[1:]], 2, len(content)), has_start=False) == ["\ufeffb"]
