"""Parse lines of CSV with Arrow, as Spark's parser would read them.

A pattern that is made from the columns decides which lines Arrow parses: they have as many values as there are columns, each
written in a form that both parsers read alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import ObjectStore
from pyarrow import csv
from pyspark.sql import DataFrame, types
from pyspark.sql import functions as sql

from asset_job.sources.arrow import array_of_lines
from asset_job.sources.by_arrow import KINDS, LINE, MOMENT, ZONE, LineSchema, ReadByArrow, arrow_columns, as_text
from asset_job.sources.csv_header import Header
from asset_job.sources.request import S3File

MOST_COLUMNS: Final = 1_000
NOT_BLANK: Final = r"[^\x00-\x20]"
"""Matches a line that Spark does not skip as blank."""
_TRUE, _FALSE = ("true", "TRUE", "True"), ("false", "FALSE", "False")
_NUMBER: Final = r"-?\d+"


@dataclass(frozen=True, kw_only=True)
class ReadCsv(ReadByArrow):
    """Reads lines of CSV."""

    separator: str
    header: Header | None
    blank: ClassVar[bytes] = bytes(range(ord(" ") + 1))

    @classmethod
    def of(cls, rows: LineSchema, separator: str, header: Header | None) -> ReadCsv | None:
        """The reader; None if only Spark's parser can read a column's type, the separator, or that many columns."""
        columns = arrow_columns(rows.fields, _kind)
        if columns is None or len(columns) > MOST_COLUMNS or len(separator) != 1 or not separator.isascii():
            return None
        return cls(columns=columns, separator=separator, header=header) if separator not in '"\\\r\n\0' else None

    def lines(self, store: ObjectStore, file: S3File) -> Iterator[bytes]:
        lines = super().lines(store, file)
        return lines if self.header is None else self.header.after(lines, file)

    def parsed(self, lines: bytes) -> pa.Table | None:
        each = array_of_lines(lines)
        if b"\0" in lines or not all(pc.all(pc.match_substring_regex(each, form)).as_py() for form in self._forms()):
            return None
        names = [str(at) for at in range(len(self.columns))]
        kinds = dict(zip(names, map(as_text, self.columns.types), strict=True))
        table = csv.read_csv(
            pa.BufferReader(lines),
            csv.ReadOptions(use_threads=False, block_size=len(lines) + 1, column_names=names),
            csv.ParseOptions(delimiter=self.separator, double_quote=False),
            csv.ConvertOptions(
                column_types=kinds,
                check_utf8=False,
                null_values=[""],
                strings_can_be_null=True,
                true_values=_TRUE,
                false_values=_FALSE,
            ),
        )
        return table.rename_columns(self.columns.names).cast(self.columns)

    def _forms(self) -> Iterator[str]:
        """The patterns that all lines must match."""
        between = f"\\x{ord(self.separator):02x}"
        yield f"^{between.join(f'(?:{_written(kind, between)})?' for kind in self.columns.types)}$"
        if len(self.columns) == 1 or self.separator <= " ":
            yield NOT_BLANK


def _kind(kind: types.DataType) -> pa.DataType:
    """The Arrow type of a column. Raises KeyError if only Spark's parser reads it."""
    return pa.decimal128(kind.precision, kind.scale) if isinstance(kind, types.DecimalType) else KINDS[kind]


def _written(kind: pa.DataType, between: str) -> str:
    """The pattern of values that both parsers read alike. An empty value is null to both."""
    if pa.types.is_string(kind):
        return rf'"[^"\\]*"|[^"{between}][^{between}]*'
    if pa.types.is_timestamp(kind):
        plain = MOMENT + (ZONE if kind.tz else "")
    elif pa.types.is_date(kind):
        plain = r"\d{4}-\d\d-\d\d"
    elif pa.types.is_boolean(kind):
        plain = "|".join([*_TRUE, *_FALSE])
    elif pa.types.is_decimal(kind):
        whole, part = rf"\d{{1,{kind.precision - kind.scale}}}", rf"(?:\.\d{{1,{kind.scale}}})?"
        plain = f"-?{whole if kind.precision > kind.scale else '0'}{part if kind.scale else ''}"
    elif pa.types.is_floating(kind):
        plain = _NUMBER + r"(?:\.\d+)?(?:[eE][+-]?\d+)?"
    else:
        plain = _NUMBER
    return f'"(?:{plain})"|{plain}'


def rows_of(mixed: DataFrame, rows: LineSchema, options: Mapping[str, Any]) -> DataFrame:
    """The rows from what `ReadCsv` yielded. Lines that were left to Spark become the rows that its reader makes of them."""
    line = sql.col(LINE)
    return rows.of(
        mixed,
        sql.when(
            line.isNotNull(),
            sql.from_csv(line, rows.schema.toDDL(), {name: str(value) for name, value in options.items()}),
        ),
    )
