"""Lines of text as columns, by Arrow: several times as quick as Spark's parsers, and used where both read the same.

Where they may not, the line itself goes to Spark, in a column of its own beside those that are empty then, and is parsed
there. Which lines those are is decided by what Arrow refuses (it is the stricter one) and by what it takes otherwise, which
each format looks for. Arrow reads a piece of the file at a time; one that it refuses is halved, until few lines are left.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, Final

import pyarrow as pa
from obstore.store import ObjectStore
from pyspark.sql import Column, DataFrame, types
from pyspark.sql import functions as sql

from .arrow import whole_lines
from .request import S3File
from .s3_objects import pieces

LINE: Final = "line"
FEW: Final = 16
"""Lines that are not halved any more."""
PATIENCE: Final = 100
"""Refusals in a piece after which the rest of it is left to Spark: it is not as the columns say."""
KINDS: Final[Mapping[types.DataType, pa.DataType]] = {
    types.ByteType(): pa.int8(),
    types.ShortType(): pa.int16(),
    types.IntegerType(): pa.int32(),
    types.LongType(): pa.int64(),
    types.DoubleType(): pa.float64(),
    types.BooleanType(): pa.bool_(),
    types.StringType(): pa.string(),
    types.DateType(): pa.date32(),
}
MOMENTS: Final[Mapping[types.DataType, pa.DataType]] = {
    types.TimestampType(): pa.timestamp("us", "UTC"),
    types.TimestampNTZType(): pa.timestamp("us"),
}
MOMENT: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?"
ZONE: Final = r"(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)"


@dataclass(frozen=True, kw_only=True)
class ReadByArrow(ABC):
    """`columns` of the lines that Arrow reads as Spark would, called 0, 1, …; of the others the text, as `LINE`."""

    columns: pa.Schema
    blank: ClassVar[bytes]
    """What a line consists of that is none to Spark."""

    @abstractmethod
    def parsed(self, lines: bytes) -> pa.Table | None:
        """None where Spark may read these lines otherwise, or another number of rows of them. Raises `pa.ArrowException` too."""

    def lines(self, store: ObjectStore, file: S3File) -> Iterator[bytes]:
        return whole_lines(pieces(store, file), has_start=file.has_start)

    def __call__(self, store: ObjectStore, file: S3File) -> Iterator[pa.RecordBatch]:
        for lines in self.lines(store, file):
            yield from self.batches(lines)

    def batches(self, lines: bytes) -> Iterator[pa.RecordBatch]:
        """Of lines in UTF-8, without the end of the last one."""
        parts, refused = [lines], 0
        while parts:
            part = parts.pop()
            table = self._read(part) if refused < PATIENCE else None
            if table is not None:
                named = table.rename_columns([str(at) for at in range(table.num_columns)])
                yield from named.append_column(LINE, pa.nulls(len(table), pa.string())).to_batches()
                continue
            refused += 1
            if refused < PATIENCE and part.count(b"\n") >= FEW:
                middle = part.find(b"\n", len(part) // 2)
                middle = part.rfind(b"\n") if middle < 0 else middle
                parts += [part[middle + 1 :], part[:middle]]
            elif texts := [line for line in part.split(b"\n") if line.strip(self.blank)]:
                empty = {str(at): pa.nulls(len(texts), field.type) for at, field in enumerate(self.columns)}
                yield pa.record_batch({**empty, LINE: pa.array(texts).cast(pa.string())})

    def _read(self, lines: bytes) -> pa.Table | None:
        try:
            table = self.parsed(lines)
        except pa.ArrowException:
            return None
        return table if table is not None and len(table) == lines.count(b"\n") + 1 else None


def as_text(kind: pa.DataType) -> pa.DataType:
    """Arrow takes numbers for dates, a time without its zone for UTC; its cast does not."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(as_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(as_text(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def arrow_columns(
    fields: Iterable[types.StructField], kind: Callable[[types.DataType], pa.DataType]
) -> pa.Schema | None:
    """None where there is no column, or one for which `kind` raises KeyError: only Spark's parser reads it."""
    try:
        columns = pa.schema([(field.name, MOMENTS.get(field.dataType) or kind(field.dataType)) for field in fields])
    except KeyError:
        return None
    return columns if len(columns) else None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """What a file's lines mean to Spark: columns of `schema`, of which `corrupt` has the lines that do not fit."""

    schema: types.StructType
    corrupt: str

    @property
    def fields(self) -> list[types.StructField]:
        return [field for field in self.schema if field.name != self.corrupt]

    @property
    def mixed(self) -> types.StructType:
        """What `ReadByArrow` gives."""
        return _numbered(self.fields).add(LINE, types.StringType())

    def of(self, mixed: DataFrame, parsed: Column) -> DataFrame:
        """`parsed` is the row of a line that was left to Spark. By number, for a name may come twice."""
        number = count()
        ours = (sql.lit(None) if name == self.corrupt else sql.col(str(next(number))) for name in self.schema.names)
        whole = mixed.withColumn("parsed", parsed.cast(_numbered(self.schema.fields)))
        return whole.select(
            *(
                sql.when(sql.col(LINE).isNull(), own).otherwise(sql.col("parsed")[str(at)]).alias(self.schema.names[at])
                for at, own in enumerate(ours)
            )
        )


def _numbered(fields: Sequence[types.StructField]) -> types.StructType:
    return types.StructType([types.StructField(str(at), field.dataType) for at, field in enumerate(fields)])
