"""Lines of JSON as columns, by Arrow: several times as quick as Spark's parser, and used where both read the same.

Where they may not, the line itself goes to Spark, in a column of its own beside those that are empty then, and is parsed
there. Which lines those are is decided by what Arrow refuses (it is the stricter one: whatever does not fit its column, single
quotes, a duplicate name, a lone surrogate) and by a few bytes that Arrow takes otherwise, or beyond Spark's limits. Arrow
reads a piece of the file at a time; one that it refuses is halved, until few lines are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from obstore.store import ObjectStore
from pyarrow import json
from pyspark.sql import DataFrame, types
from pyspark.sql import functions as sql

from .arrow import whole_lines
from .request import S3File
from .s3_objects import pieces

LINE: Final = "line"
FEW: Final = 16
"""Lines that are not halved any more."""
PATIENCE: Final = 100
"""Refusals in a piece after which the rest of it is left to Spark: it is not as the columns say."""
SHORT: Final = 1_000
"""Bytes of a line that breaks no limit of Spark's parser, which are a thousand levels and a thousand digits."""
LONG: Final = 50_000
"""Bytes of a line that also breaks none of its limits for names and texts."""

_KINDS: Final[Mapping[types.DataType, pa.DataType]] = {
    types.ByteType(): pa.int8(),
    types.ShortType(): pa.int16(),
    types.IntegerType(): pa.int32(),
    types.LongType(): pa.int64(),
    types.DoubleType(): pa.float64(),
    types.BooleanType(): pa.bool_(),
    types.StringType(): pa.string(),
    types.DateType(): pa.date32(),
}
_MOMENTS: Final[Mapping[types.DataType, pa.DataType]] = {
    types.TimestampType(): pa.timestamp("us", "UTC"),
    types.TimestampNTZType(): pa.timestamp("us"),
}
"""Not in other columns: how they are written is to be looked at."""
_WALL: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?"
_WRITTEN: Final = {
    pa.timestamp("us", "UTC"): _WALL + r"(Z|[+-](0\d|1[0-7]):[0-5]\d)$",
    pa.timestamp("us"): _WALL + "$",
}
"""As both read it."""
_NUMBERS: Final = bytes.maketrans(b"123456789.+-eE", b"0" * 14)
_OTHER_ZERO: Final = re.compile(rb"-0[\s,}\]]")
_NOT_FINITE: Final = re.compile(rb"[\[:,]\s*-?(Inf|NaN)")


def _kind(kind: types.DataType) -> pa.DataType:
    """Raises KeyError."""
    if isinstance(kind, types.StructType) and kind.fields:
        return pa.struct([pa.field(field.name, _kind(field.dataType)) for field in kind.fields])
    return pa.list_(_kind(kind.elementType)) if isinstance(kind, types.ArrayType) else _KINDS[kind]


@dataclass(frozen=True, kw_only=True)
class ReadJson:
    """`columns` of the lines that Arrow reads as Spark would, called 0, 1, …; of the others the text, as `LINE`."""

    columns: pa.Schema

    @classmethod
    def of(cls, schema: types.StructType) -> ReadJson | None:
        """None where a column is of a kind that only Spark's parser reads."""
        try:
            columns = pa.schema(
                [(field.name, _MOMENTS.get(field.dataType) or _kind(field.dataType)) for field in schema]
            )
        except KeyError:
            return None
        return cls(columns=columns) if len(columns) else None

    def mixed(self, schema: types.StructType) -> types.StructType:
        """What it gives, of lines for this schema."""
        columns = [types.StructField(str(at), field.dataType) for at, field in enumerate(schema)]
        return types.StructType([*columns, types.StructField(LINE, types.StringType())])

    def __call__(self, store: ObjectStore, file: S3File) -> Iterator[pa.RecordBatch]:
        for lines in whole_lines(pieces(store, file), has_start=file.has_start):
            yield from self.batches(lines)

    def batches(self, lines: bytes) -> Iterator[pa.RecordBatch]:
        """Of lines in UTF-8, without the end of the last one."""
        parts, refused = [lines], 0
        while parts:
            part = parts.pop()
            table = self._parsed(part) if refused < PATIENCE else None
            if table is not None:
                named = table.rename_columns([str(at) for at in range(table.num_columns)])
                yield from named.append_column(LINE, pa.nulls(len(table), pa.string())).to_batches()
                continue
            refused += 1
            if refused < PATIENCE and part.count(b"\n") >= FEW:
                middle = part.find(b"\n", len(part) // 2)
                middle = part.rfind(b"\n") if middle < 0 else middle
                parts += [part[middle + 1 :], part[:middle]]
            elif texts := [line for line in part.split(b"\n") if line.strip(b" \t")]:
                empty = {str(at): pa.nulls(len(texts), field.type) for at, field in enumerate(self.columns)}
                yield pa.record_batch({**empty, LINE: pa.array(texts).cast(pa.string())})

    def _parsed(self, lines: bytes) -> pa.Table | None:
        """None where Spark may read these lines otherwise, or another number of rows of them."""
        ends = lines.count(b"\n")
        if not _is_an_object_each(lines, ends) or not _within_limits(lines):
            return None
        as_text = pa.schema([field.with_type(_with_moments_as_text(field.type)) for field in self.columns])
        try:
            table = json.read_json(
                pa.BufferReader(lines),
                json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
                json.ParseOptions(explicit_schema=as_text, unexpected_field_behavior="ignore"),
            )
            for field in self.columns:
                if pa.types.is_timestamp(field.type) and not _all_match(table[field.name], _WRITTEN[field.type]):
                    return None
            table = table.cast(self.columns)
        except pa.ArrowException:
            return None
        return table if len(table) == ends + 1 else None


def _with_moments_as_text(kind: pa.DataType) -> pa.DataType:
    """Arrow takes numbers for dates, and a time without its zone for UTC; its cast does not."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_moments_as_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_with_moments_as_text(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _all_match(texts: pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern), min_count=0).as_py())


def _is_an_object_each(lines: bytes, ends: int) -> bool:
    """As no object goes on behind `}` and a line's end with `{`, none is in two lines; in one there may be two."""
    return lines.startswith(b"{") and lines.endswith(b"}") and lines.count(b"}\n{") == ends


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


def rows_of(mixed: DataFrame, schema: types.StructType) -> DataFrame:
    """Of what `ReadJson` gave: the columns of `schema`; lines that were left to Spark give the rows that its reader gives."""
    line, parsed = sql.col(LINE), sql.col("parsed")
    many = sql.coalesce(sql.from_json(line, types.ArrayType(schema)), sql.array(sql.lit(None).cast(schema)))
    rows = sql.when(line.rlike(r"^\s*\["), many).otherwise(sql.array(sql.from_json(line, schema)))
    whole = mixed.where(line.isNull() | (sql.size(rows) > 0))
    whole = whole.select("*", sql.explode_outer(sql.when(line.isNotNull(), rows)).alias("parsed"))
    return whole.select(
        *(
            sql.when(line.isNull(), sql.col(str(at))).otherwise(parsed.getField(field.name)).alias(field.name)
            for at, field in enumerate(schema)
        )
    )
