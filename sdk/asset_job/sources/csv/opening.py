"""Open a file of CSV up to the record behind its header, and split what the grammar has approved into texts."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from asset_job.errors import FileInvalid
from asset_job.sources.csv.grammar import Dialect, Grammar, Run, line_end_of
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import LONGEST_RECORD, OpenFile
from asset_job.sources.texts.encodings import is_utf8, text_of_file


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
        pieces, text, begin = text_of_file(file, options.encoding), b"", file.part[0] if file.part else 0
        while True:
            piece = next(pieces, None)
            text += piece or b""
            line_end = line_end_of(text, options, final=piece is None)
            if line_end is not None:
                dialect = Dialect(options=options, line_end=line_end)
                grammar = Grammar(
                    dialect=dialect, fields=fields, name=file.name, part=file.part is not None, byte=begin
                )
                first = grammar.first(text, final=piece is None)
                if first is not None:
                    break
            if len(text) > 2 * LONGEST_RECORD:
                raise FileInvalid(f"{file.name} has a first record of more than 16 MB: close its quotes")
        values = replace(dialect, options=replace(options, null_value="")).split(text[slice(*first)])
        if not values and (fields != 1 or options.header):
            return None
        grammar.fields = len(values) if fields is None else fields
        if options.header and begin == 0:
            header = [(name or "").strip() or f"_c{at}" for at, name in enumerate(values)]
            return cls(header=header, grammar=grammar, pieces=chain([grammar.behind(text, first[1])], pieces))
        return cls(header=None, grammar=grammar, pieces=chain([text], pieces))


def single_records(run: Run, grammar: Grammar) -> Iterator[Run]:
    """Each record of a run as a run of its own."""
    line, byte, end = 0, 0, grammar.dialect.line_end
    for match in grammar.record.finditer(run.content):
        line, byte = run.places.get(match.start(), (line, byte))
        if grammar.fields == 1 or match[0] != end:
            yield Run(content=match[0], places={0: (line, byte)})
        line += match[0].count(end[-1:])
        byte += len(match[0])


def by_encoding(run: Run, grammar: Grammar) -> tuple[Run, list[Run]]:
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
    return Run(content=b"".join(texts), places=places), others


def texts_of(run: Run, grammar: Grammar) -> pa.RecordBatch:
    """The values of a run as texts, null for a field with nothing in it. The columns are named by number."""
    options, names = grammar.dialect.options, [str(at) for at in range(grammar.fields or 0)]
    marked = run.content.startswith(codecs.BOM_UTF8)  # Arrow would drop the mark, and refuses what is empty
    if not run.content or marked or not grammar.dialect.is_plain:
        rows = [
            grammar.dialect.split(single.content.removesuffix(grammar.dialect.line_end)) or [None]
            for single in single_records(run, grammar)
        ]
        columns = zip(*rows, strict=True) if rows else [[] for _ in names]
        return pa.RecordBatch.from_arrays([pa.array(column, pa.string()) for column in columns], names)
    table = csv.read_csv(
        pa.BufferReader(run.content),
        csv.ReadOptions(use_threads=False, block_size=len(run.content) + 1, column_names=names),
        csv.ParseOptions(
            delimiter=grammar.dialect.options.separator,
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
