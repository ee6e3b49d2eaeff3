"""Parse files of CSV: the grammar approves records, Arrow splits them, and the forms of texts decide which are values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import FileInvalid, SourceInvalid
from asset_job.sources.csv.grammar import GoodRecords, Grammar
from asset_job.sources.csv.opening import OpenCsv, by_encoding, single_records, texts_of
from asset_job.sources.options import ReadOptions
from asset_job.sources.records import BadRecord, OpenFile, Parsed
from asset_job.sources.texts.encodings import shown
from asset_job.sources.texts.forms import Values, converted, reason

_NO_TEXT = "it holds bytes that are no text in its encoding"


@dataclass(frozen=True, kw_only=True)
class CsvParser:
    """Makes columns of CSV."""

    columns: pa.Schema
    options: ReadOptions

    def __post_init__(self) -> None:
        for field in self.columns:
            if pa.types.is_nested(field.type):
                raise SourceInvalid(
                    f"the column {field.name} has the type {field.type}, which CSV has no values of: read it as string"
                )

    def parse(self, file: OpenFile) -> Iterator[Parsed]:
        opened = OpenCsv.of(file, self.options, len(self.columns))
        if opened is None:
            return
        if opened.header is not None:
            self._check(opened.header, file.name)
        for segment in opened.grammar.segments(opened.pieces):
            if isinstance(segment, BadRecord):
                yield segment
            else:
                yield from self._rows(segment, opened.grammar)

    def _check(self, header: list[str], name: str) -> None:
        expected = [column.lower() for column in self.columns.names]
        if [column.lower() for column in header] != expected:
            raise FileInvalid(
                f"{name} has the columns {', '.join(header)} where {', '.join(self.columns.names)} are expected: "
                "correct the file, its separator (sep) or the schema"
            )

    def _rows(self, run: GoodRecords, grammar: Grammar) -> Iterator[Parsed]:
        """The good rows of a run, and the records with a text that is no value of its column."""
        run, others = by_encoding(run, grammar)
        for single in others:
            record = shown(single.content.removesuffix(grammar.dialect.line_end))
            yield BadRecord(record=record, at=grammar.place(*single.places[0]), reason=_NO_TEXT)
        texts = texts_of(run, grammar)
        if not len(texts):
            return
        pairs = [self._values(text, field) for text, field in zip(texts.columns, self.columns, strict=True)]
        good = reduce(pc.and_, (fits for _, fits in pairs))
        rows = pa.RecordBatch.from_arrays([values for values, _ in pairs], schema=self.columns)
        if pc.all(good).as_py():
            yield rows
            return
        yield rows.filter(good)
        fitting = good.to_pylist()
        for at, single in enumerate(single_records(run, grammar)):
            if not fitting[at]:
                wrong = next(column for column, (_, fits) in enumerate(pairs) if not fits[at].as_py())
                field = self.columns.field(wrong)
                record = single.content.removesuffix(grammar.dialect.line_end).decode()
                why = reason(field.name, field.type, texts.column(wrong)[at].as_py(), self.options)
                yield BadRecord(record=record, at=grammar.place(*single.places[0]), reason=why)

    def _values(self, texts: pa.Array, field: pa.Field) -> Values:
        values, fits = converted(texts, field.type, self.options)
        return values, fits if field.nullable else pc.is_valid(values)
