"""Parse lines of JSON with Arrow, as Spark's parser would read them.

Arrow rejects a value that does not fit its column, single quotes, a duplicate name and a lone surrogate. Lines that it accepts
but reads differently, or that exceed Spark's limits, are recognized by a few bytes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json
from pyspark.sql import DataFrame, types
from pyspark.sql import functions as sql

from asset_job.sources.by_arrow import KINDS, LINE, MOMENT, ZONE, LineSchema, ReadByArrow, arrow_columns, as_text

SHORT: Final = 1_000
"""Bytes of a line that cannot exceed the limits of Spark's parser of a thousand levels and a thousand digits."""
LONG: Final = 50_000
"""Bytes of a line that cannot exceed the limits of Spark's parser for names and texts."""

_NUMBERS: Final = bytes.maketrans(b"123456789.+-eE", b"0" * 14)
_OTHER_ZERO: Final = re.compile(rb"-0[\s,}\]]")
_NOT_FINITE: Final = re.compile(rb"[\[:,]\s*-?(Inf|NaN)")


@dataclass(frozen=True, kw_only=True)
class ReadJson(ReadByArrow):
    """Reads lines of JSON."""

    blank: ClassVar[bytes] = b" \t"

    @classmethod
    def of(cls, rows: LineSchema) -> ReadJson | None:
        """The reader; None if only Spark's parser can read a column's type."""
        columns = arrow_columns(rows.fields, _kind)
        return None if columns is None else cls(columns=columns)

    def parsed(self, lines: bytes) -> pa.Table | None:
        if not _are_objects(lines) or not _within_limits(lines):
            return None
        texts = pa.schema([field.with_type(as_text(field.type)) for field in self.columns])
        table = json.read_json(
            pa.BufferReader(lines),
            json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            json.ParseOptions(explicit_schema=texts, unexpected_field_behavior="ignore"),
        )
        return table.cast(self.columns) if _moments_are_alike(table, self.columns) else None


def _kind(kind: types.DataType) -> pa.DataType:
    """The Arrow type of a column. Raises KeyError if only Spark's parser reads it.

    That includes timestamps inside of other columns, because the form of each timestamp must be checked.
    """
    if isinstance(kind, types.StructType) and kind.fields:
        return pa.struct([pa.field(field.name, _kind(field.dataType)) for field in kind.fields])
    return pa.list_(_kind(kind.elementType)) if isinstance(kind, types.ArrayType) else KINDS[kind]


def _moments_are_alike(table: pa.Table, columns: pa.Schema) -> bool:
    """Whether all timestamps of a table that was read `as_text` are written in the form that both parsers read alike."""
    return all(
        pc.all(pc.match_substring_regex(table[name], f"^{MOMENT}{ZONE if kind.tz else ''}$"), min_count=0).as_py()
        for name, kind in zip(columns.names, columns.types, strict=True)
        if pa.types.is_timestamp(kind)
    )


def _are_objects(lines: bytes) -> bool:
    """Whether no object spans two lines; a line may hold two objects.

    Each line begins with `{` and ends with `}`, and no object continues with `{` after `}` and a line end.
    """
    return lines.startswith(b"{") and lines.endswith(b"}") and lines.count(b"}\n{") == lines.count(b"\n")


def _within_limits(lines: bytes) -> bool:
    """Whether the lines hold nothing that Arrow accepts and Spark rejects or reads as another value."""
    if b"\0" in lines or _OTHER_ZERO.search(lines):
        return False
    if any(word[:1] in lines and word in lines for word in (b"Inf", b"NaN")) and _NOT_FINITE.search(lines):
        return False
    if _has_none_longer(lines, SHORT):
        return True
    levels = (line.count(b"{") + line.count(b"[") for line in lines.split(b"\n"))
    return _has_none_longer(lines, LONG) and max(levels) <= SHORT and b"0" * SHORT not in lines.translate(_NUMBERS)


def _has_none_longer(lines: bytes, most: int) -> bool:
    """Whether no line is longer than `most` bytes. Each step skips to the last line end within that length."""
    begin = 0
    while len(lines) - begin > most:
        end = lines.rfind(b"\n", begin, begin + most + 1)
        if end < 0:
            return False
        begin = end + 1
    return True


def rows_of(mixed: DataFrame, rows: LineSchema) -> DataFrame:
    """The rows from what `ReadJson` yielded. Lines that were left to Spark become the rows that its reader makes of them."""
    line, schema = sql.col(LINE), rows.schema
    many = sql.coalesce(sql.from_json(line, types.ArrayType(schema)), sql.array(sql.lit(None).cast(schema)))
    parsed = sql.when(line.rlike(r"^\s*\["), many).otherwise(sql.array(sql.from_json(line, schema)))
    whole = mixed.where(line.isNull() | (sql.size(parsed) > 0))
    whole = whole.withColumn("parsed", sql.explode_outer(sql.when(line.isNotNull(), parsed)))
    return rows.of(whole, sql.col("parsed"))
