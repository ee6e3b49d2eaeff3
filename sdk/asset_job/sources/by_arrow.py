"""Parse lines of text into columns with Arrow, which is several times as fast as Spark's parsers, where both read the same.

Where they may not, the line itself goes to Spark in a column of its own, beside columns that are null in that row, and is
parsed there. Spark gets the lines that Arrow rejects (it is the stricter parser) and those that it accepts but reads
differently, which each format detects. Arrow reads a piece of the file at a time. A piece that it rejects is halved, until
few lines are left.
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

from asset_job.sources.arrow import whole_lines
from asset_job.sources.request import S3File
from asset_job.sources.s3_objects import pieces

LINE: Final = "line"
"""The name of the column with the text of a line that Spark is to parse."""
FEW: Final = 16
"""The number of lines in a part that is not halved any more."""
PATIENCE: Final = 100
"""The number of rejected parts of a piece after which Spark gets the rest of it: the lines do not fit the columns."""
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
    """Reads a file's lines: values from Arrow where it reads as Spark would, and the line's text as `LINE` where it may not.

    The columns of the result are named 0, 1, … and `LINE`.
    """

    columns: pa.Schema
    blank: ClassVar[bytes]
    """The bytes of which a line consists that Spark skips as blank."""

    @abstractmethod
    def parsed(self, lines: bytes) -> pa.Table | None:
        """The lines as a table; None, or a raised `pa.ArrowException`, if Spark may read other values or another number of rows."""

    def lines(self, store: ObjectStore, file: S3File) -> Iterator[bytes]:
        """The file's lines that hold records, many at a time."""
        return whole_lines(pieces(store, file), has_start=file.has_start)

    def __call__(self, store: ObjectStore, file: S3File) -> Iterator[pa.RecordBatch]:
        for lines in self.lines(store, file):
            yield from self.batches(lines)

    def batches(self, lines: bytes) -> Iterator[pa.RecordBatch]:
        """The batches for lines in UTF-8, which are separated by LF."""
        parts, rejected = [lines], 0
        while parts:
            part = parts.pop()
            table = self._read(part) if rejected < PATIENCE else None
            if table is not None:
                named = table.rename_columns([str(at) for at in range(table.num_columns)])
                yield from named.append_column(LINE, pa.nulls(len(table), pa.string())).to_batches()
                continue
            rejected += 1
            if rejected < PATIENCE and part.count(b"\n") >= FEW:
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
    """The type in which values are parsed before they are cast: text for dates and times, otherwise the type itself.

    Arrow's parser accepts numbers as dates, and times without their zone as UTC; its cast does not.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(as_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(as_text(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def arrow_columns(
    fields: Iterable[types.StructField], kind: Callable[[types.DataType], pa.DataType]
) -> pa.Schema | None:
    """The Arrow schema of the fields; None if only Spark's parser can read them.

    That is so without columns, and with a column for whose type `kind` raises KeyError.
    """
    try:
        columns = pa.schema([(field.name, MOMENTS.get(field.dataType) or kind(field.dataType)) for field in fields])
    except KeyError:
        return None
    return columns if len(columns) else None


@dataclass(frozen=True, kw_only=True)
class LineSchema:
    """The columns that Spark makes of a file's lines."""

    schema: types.StructType
    corrupt: str
    """The name of the column with the text of lines that do not fit the schema."""

    @property
    def fields(self) -> list[types.StructField]:
        """The columns without `corrupt`."""
        return [field for field in self.schema if field.name != self.corrupt]

    @property
    def mixed(self) -> types.StructType:
        """The columns that `ReadByArrow` yields."""
        return _numbered(self.fields).add(LINE, types.StringType())

    def of(self, mixed: DataFrame, parsed: Column) -> DataFrame:
        """The rows in the columns of the schema, from what `ReadByArrow` yielded.

        `parsed` is the row that Spark parsed from a line. Columns are matched by number, because a name may come twice.
        """
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
