"""Open a file of CSV up to the record behind its header, and split what the grammar has approved into texts."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from asset_job.errors import FileInvalid
from asset_job.sources.csv.dialect import Dialect, line_end_of
from asset_job.sources.csv.grammar import GoodRecords, Grammar
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import LONGEST_RECORD, OpenFile
from asset_job.sources.texts.encodings import is_utf8, text_of_file

_FIRST_LINE: Final = 1 << 16
"""Bytes in which the first line of a file that was divided is looked for at a time."""


@dataclass(frozen=True, kw_only=True)
class OpenCsv:
    """A file whose header was read."""

    header: list[str] | None
    grammar: Grammar
    pieces: Iterator[bytes]
    """The text behind the header, in UTF-8."""

    @classmethod
    def of(cls, file: OpenFile, options: ReadOptions, fields: int | None) -> OpenCsv | None:
        """The file, whose records have so many fields (None: as many as the first). None for a file without a record.

        Raises `FileInvalid` for a header that is no record.
        """
        begin = file.part[0] if file.part else 0
        dialect, texts = _dialect(file, options)
        grammar = Grammar(dialect=dialect, fields=fields, name=file.name, part=file.part is not None, byte=begin)
        if fields is not None and not (options.header and begin == 0):
            return cls(header=None, grammar=grammar, pieces=texts)
        text, first = _first_record(grammar, texts)
        record = text[slice(*first)]
        if not is_utf8(record):
            raise FileInvalid(
                f"the first line of {file.name} holds bytes that are no text: name its encoding by the option encoding"
            )
        values = replace(dialect, options=replace(options, null_value="")).split(record)
        if not values:
            return None
        grammar.fields = len(values) if fields is None else fields
        if not options.header:
            return cls(header=None, grammar=grammar, pieces=chain([text], texts))
        header = [(name or "").strip() or f"_c{at}" for at, name in enumerate(values)]
        return cls(header=header, grammar=grammar, pieces=chain([grammar.behind(text, first[1])], texts))


def _dialect(file: OpenFile, options: ReadOptions) -> tuple[Dialect, Iterator[bytes]]:
    """The dialect of a file, whose line end is that of its first line, and the text of the file or part."""
    if file.part and file.part[0]:
        line_end = stored_line_end(file, options)
        return Dialect(options=options, line_end=line_end), text_of_file(file, options.encoding)
    texts = text_of_file(file, options.encoding)
    text, line_end = _line_end(texts, options)
    return Dialect(options=options, line_end=line_end), chain([text], texts)


def stored_line_end(file: OpenFile, options: ReadOptions) -> bytes:
    """The end of the first line of a file that may be divided, in whatever part."""
    stored = file.seekable()
    return _line_end(iter(lambda: stored.read(_FIRST_LINE), b""), options)[1]


def _line_end(texts: Iterator[bytes], options: ReadOptions) -> tuple[bytes, bytes]:
    """The beginning of a text that shows where its first line ends, and that end."""
    text, piece = b"", next(texts, None)
    while piece is not None:
        text += piece
        if line_end := line_end_of(text, options, final=False):
            return text, line_end
        piece = next(texts, None)
    return text, line_end_of(text, options, final=True) or b"\n"


def _first_record(grammar: Grammar, texts: Iterator[bytes]) -> tuple[bytes, tuple[int, int]]:
    """The beginning of a text, and where in it the first record begins and ends. Raises `FileInvalid`."""
    text, final = b"", False
    while (first := grammar.first(text, final=final)) is None:
        if len(text) > 2 * LONGEST_RECORD:
            raise FileInvalid(f"{grammar.name} has a first record of more than 16 MB: close its quotes")
        piece = next(texts, None)
        text, final = text + (piece or b""), piece is None
    return text, first


def single_records(run: GoodRecords, grammar: Grammar) -> Iterator[GoodRecords]:
    """Each record of a run as a run of its own."""
    line, byte, end = 0, 0, grammar.dialect.line_end
    for match in grammar.record.finditer(run.content):
        line, byte = run.places.get(match.start(), (line, byte))
        if grammar.fields == 1 or match[0] != end:
            yield GoodRecords(content=match[0], places={0: (line, byte)})
        line += match[0].count(end[-1:])
        byte += len(match[0])


def by_encoding(run: GoodRecords, grammar: Grammar) -> tuple[GoodRecords, list[GoodRecords]]:
    """The records of a run that are texts, as one run, and each of those that hold bytes that are none."""
    if is_utf8(run.content):
        return run, []
    texts: list[bytes] = []
    places: dict[int, tuple[int, int]] = {}
    others, size = [], 0
    for single in single_records(run, grammar):
        if is_utf8(single.content):
            texts.append(single.content)
            places[size] = single.places[0]
            size += len(single.content)
        else:
            others.append(single)
    return GoodRecords(content=b"".join(texts), places=places), others


def texts_of(run: GoodRecords, grammar: Grammar) -> pa.RecordBatch:
    """The values of a run as texts, null for a field with nothing in it. The columns are named by number."""
    names = [str(at) for at in range(grammar.fields or 0)]
    marked = run.content.startswith(codecs.BOM_UTF8)  # Arrow would drop the mark, and refuses what is empty
    if not run.content or marked or not grammar.dialect.is_plain:
        rows = [
            grammar.dialect.split(single.content.removesuffix(grammar.dialect.line_end)) or [None]
            for single in single_records(run, grammar)
        ]
        columns = zip(*rows, strict=True) if rows else [[] for _ in names]
        return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names)
    return _split_by_arrow(run.content, grammar.dialect.options, names)


def _split_by_arrow(content: bytes, options: ReadOptions, names: list[str]) -> pa.RecordBatch:
    table = csv.read_csv(
        pa.BufferReader(content),
        csv.ReadOptions(use_threads=False, block_size=len(content) + 1, column_names=names),
        csv.ParseOptions(
            delimiter=options.separator,
            quote_char=options.quote or False,
            newlines_in_values=True,
            ignore_empty_lines=len(names) > 1,
        ),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            check_utf8=False,
            null_values=list({"", options.null_value}),
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).combine_chunks()
    batch = table.to_batches()[0] if len(table) else pa.RecordBatch.from_pylist([], table.schema)
    if not options.empty_value:
        return batch
    columns = [pc.if_else(pc.equal(column, ""), options.empty_value, column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names)
