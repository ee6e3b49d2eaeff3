"""A file of CSV is divided only behind records, and its parts have the rows and bad records of the whole."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from asset_job.sources.arrow import lines_of_part
from asset_job.sources.csv.parser import CsvParser
from asset_job.sources.formats import CsvFormat
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord, OpenFile
from tests.unit.sdk.in_memory import InMemory

COLUMNS = pa.schema([("a", pa.string()), ("b", pa.string())])


@dataclass(frozen=True)
class InMemoryPart(InMemory):
    """A part of a file in memory, which gives out whole lines."""

    def pieces(self) -> Iterator[bytes]:
        if self.part is None:
            return super().pieces()
        begin = max(self.part[0] - 1, 0)
        return lines_of_part(replace(self, body=self.body[begin:], part=None).pieces(), *self.part)


def read(file: OpenFile, options: ReadOptions) -> tuple[list[Any], list[tuple[str, int]]]:
    rows: list[Any] = []
    bad: list[tuple[str, int]] = []
    for parsed in CsvParser(columns=COLUMNS, options=options).parse(file):
        if isinstance(parsed, BadRecord):
            bad.append((parsed.record, parsed.count))
        else:
            rows += [tuple(row.values()) for row in parsed.to_pylist()]
    return rows, sorted(bad)


def in_parts(file: InMemoryPart, ends: Sequence[int], options: ReadOptions) -> tuple[list[Any], list[tuple[str, int]]]:
    parts = [read(replace(file, part=part), options) for part in pairwise([0, *ends, len(file.body)])]
    return [row for rows, _ in parts for row in rows], sorted(record for _, bad in parts for record in bad)


def check(seed: int) -> int:
    """Compare a file with its parts. Return in how many parts it was read."""
    draw = random.Random(seed)
    line_end = draw.choice([b"\n", b"\r\n"])
    options = ReadOptions.of(
        "csv",
        draw.choice([{}, {"header": False}, {"comment": "#"}, {"escape": "\\"}, {"quote": ""}])
        | draw.choice([{}, {"multiLine": False}]),
    )
    some = [b",", b"a", b"b", "é".encode(), line_end, line_end, b'"', b'"', b'""', b"\n", b"\r", b"#", b"\\", b"\xff"]
    weights = [6, 4, 4, 1, 4, 4, *([3, 3, 1] if draw.random() < 0.7 else [0.05, 0.05, 0]), 0.3, 0.3, 0.5, 0.5, 0.2]
    body = b"".join(draw.choices(some, weights, k=draw.randint(0, 120)))
    mark = draw.choice([b"", b"\xef\xbb\xbf"])
    file = InMemoryPart(mark + b"a,b" + line_end + body, seed, draw.choice([1, 10, 60]))
    places = sorted(draw.sample(range(1, len(file.body) + 1), draw.randint(1, 4)))
    ends = CsvFormat().places(options, file, places)
    assert list(ends) == sorted(set(ends)), file.body
    assert in_parts(file, ends, options) == read(file, options), (file.body, ends)
    return len(ends) + 1


@pytest.mark.parametrize("seed", range(10))
def test_parts_have_the_rows_and_bad_records_of_the_whole(seed: int) -> None:
    parts = [check(seed * 100 + at) for at in range(100)]
    assert sum(parts) > 150


def test_no_place_is_inside_quotes() -> None:
    file = InMemory(b'a,b\n1,"x\ny\n"\n2,"' + b"z\n" * 20 + b'"\n3,c\n', longest=1)
    first, second = file.body.index(b'2,"'), file.body.index(b"3,c")
    assert CsvFormat().places(ReadOptions(), file, [8, 20, 30]) == [first, second]


def test_files_that_cannot_be_divided_are_not() -> None:
    assert CsvFormat().places(ReadOptions(), InMemory(b"a,b\r1,2\r3,4\r"), [5]) == []
    assert CsvFormat().places(ReadOptions(), InMemory(b'a,b\n1,"2\n3,4\n'), [8]) == []
    assert CsvFormat().places(ReadOptions(), InMemory(b""), [5]) == []


def test_a_part_has_the_line_end_of_the_first_line_of_its_file() -> None:
    file = InMemoryPart(b"a,b\n1,x\n2,y\r\n3,z\n")
    assert in_parts(file, [8], ReadOptions()) == read(file, ReadOptions()) == ([("1", "x"), ("3", "z")], [("2,y\r", 1)])


def test_a_part_knows_the_end_of_a_first_line_of_any_length() -> None:
    header = b"a" * 100_000 + b",b\r\n"
    file = InMemoryPart(header + b'1,x\r\n2,"y"\r\n')
    columns = pa.schema([("a" * 100_000, pa.string()), ("b", pa.string())])
    part = replace(file, part=(len(header) + 5, len(file.body)))
    (rows,) = CsvParser(columns=columns, options=ReadOptions()).parse(part)
    assert isinstance(rows, pa.RecordBatch)
    assert [tuple(row.values()) for row in rows.to_pylist()] == [("2", "y")]


def test_a_line_end_of_another_kind_divides_no_bad_record() -> None:
    file, options = InMemoryPart(b"a\n1\n2\rno\n3\n"), ReadOptions.of("csv", {"multiLine": False})
    ends = CsvFormat().places(options, file, [6])
    assert list(ends) == [file.body.index(b"3")]
    assert list(CsvFormat().places(options, InMemoryPart(b"a\r1\r2\r"), [4])) == []
