"""Lines of JSON by Arrow, as Spark's parser would read them.

Arrow refuses whatever does not fit its column, single quotes, a duplicate name, a lone surrogate; what it takes otherwise, or
beyond Spark's limits, a few bytes tell.
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

from .by_arrow import KINDS, LINE, MOMENT, ZONE, ReadByArrow, Rows, arrow_columns, as_text

SHORT: Final = 1_000
"""Bytes of a line that breaks no limit of Spark's parser, which are a thousand levels and a thousand digits."""
LONG: Final = 50_000
"""Bytes of a line that also breaks none of its limits for names and texts."""

_NUMBERS: Final = bytes.maketrans(b"123456789.+-eE", b"0" * 14)
_OTHER_ZERO: Final = re.compile(rb"-0[\s,}\]]")
_NOT_FINITE: Final = re.compile(rb"[\[:,]\s*-?(Inf|NaN)")


@dataclass(frozen=True, kw_only=True)
class ReadJson(ReadByArrow):
    blank: ClassVar[bytes] = b" \t"

    @classmethod
    def of(cls, rows: Rows) -> ReadJson | None:
        """None where a column is of a kind that only Spark's parser reads."""
        columns = arrow_columns(rows.fields, _kind)
        return None if columns is None else cls(columns=columns)

    def parsed(self, lines: bytes) -> pa.Table | None:
        if not _is_an_object_each(lines) or not _within_limits(lines):
            return None
        texts = pa.schema([field.with_type(as_text(field.type)) for field in self.columns])
        table = json.read_json(
            pa.BufferReader(lines),
            json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            json.ParseOptions(explicit_schema=texts, unexpected_field_behavior="ignore"),
        )
        return table.cast(self.columns) if _moments_are_alike(table, self.columns) else None


def _kind(kind: types.DataType) -> pa.DataType:
    """Raises KeyError, also for moments in other columns: how they are written is to be looked at."""
    if isinstance(kind, types.StructType) and kind.fields:
        return pa.struct([pa.field(field.name, _kind(field.dataType)) for field in kind.fields])
    return pa.list_(_kind(kind.elementType)) if isinstance(kind, types.ArrayType) else KINDS[kind]


def _moments_are_alike(table: pa.Table, columns: pa.Schema) -> bool:
    """Of a table that was read `as_text`: whether each is written as both read it."""
    return all(
        pc.all(pc.match_substring_regex(table[name], f"^{MOMENT}{ZONE if kind.tz else ''}$"), min_count=0).as_py()
        for name, kind in zip(columns.names, columns.types, strict=True)
        if pa.types.is_timestamp(kind)
    )


def _is_an_object_each(lines: bytes) -> bool:
    """As no object goes on behind `}` and a line's end with `{`, none is in two lines; in one there may be two."""
    return lines.startswith(b"{") and lines.endswith(b"}") and lines.count(b"}\n{") == lines.count(b"\n")


def _within_limits(lines: bytes) -> bool:
    """Nothing that Arrow takes and Spark refuses, or reads as something else."""
    if b"\0" in lines or _OTHER_ZERO.search(lines):
        return False
    if any(word[:1] in lines and word in lines for word in (b"Inf", b"NaN")) and _NOT_FINITE.search(lines):
        return False
    if _has_none_longer(lines, SHORT):
        return True
    levels = (line.count(b"{") + line.count(b"[") for line in lines.split(b"\n"))
    return _has_none_longer(lines, LONG) and max(levels) <= SHORT and b"0" * SHORT not in lines.translate(_NUMBERS)


def _has_none_longer(lines: bytes, most: int) -> bool:
    """Without a look at each: the last end within that length is as far as one step goes."""
    begin = 0
    while len(lines) - begin > most:
        end = lines.rfind(b"\n", begin, begin + most + 1)
        if end < 0:
            return False
        begin = end + 1
    return True


def rows_of(mixed: DataFrame, rows: Rows) -> DataFrame:
    """Of what `ReadJson` gave; lines that were left to Spark give the rows that its reader gives."""
    line, schema = sql.col(LINE), rows.schema
    many = sql.coalesce(sql.from_json(line, types.ArrayType(schema)), sql.array(sql.lit(None).cast(schema)))
    found = sql.when(line.rlike(r"^\s*\["), many).otherwise(sql.array(sql.from_json(line, schema)))
    whole = mixed.where(line.isNull() | (sql.size(found) > 0))
    whole = whole.withColumn("parsed", sql.explode_outer(sql.when(line.isNotNull(), found)))
    return rows.of(whole, sql.col("parsed"))
