"""Convert between Spark and Arrow: data sources, Arrow schemas of DataFrames, and the lines of a part of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def load(spark: SparkSession, kind: str, reader: DataSourceReader, columns: StructType | str) -> DataFrame:
    """A DataFrame of what `reader` yields, with these columns."""
    return spark.read.format(registered(spark, kind, reader=reader, columns=columns)).load()


def registered(spark: SparkSession, kind: str, *, reader: Any = None, writer: Any = None, columns: Any = None) -> str:
    """Register a data source for one use, and return its name.

    The reader or writer travels inside of the source's class, because plan and UI would show options.
    """
    unique = f"{kind}_{id(reader or writer):x}"  # Spark warns when a name is registered again

    class OneUseSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return unique

        def schema(self) -> Any:
            return columns

        def reader(self, schema: Any) -> Any:  # noqa: ARG002 - Spark's interface
            return reader

        def writer(self, schema: Any, overwrite: bool) -> Any:  # noqa: ARG002 - Spark's interface
            return writer

    spark.dataSource.register(OneUseSource)  # the name is used once; a DataFrame keeps its own source
    return unique


def arrow_schema(empty: DataFrame) -> Any:
    """The Arrow schema in which Spark exchanges the DataFrame's rows with Python. No Spark job runs."""
    schema = empty.limit(0).toArrow().schema
    return pa.schema([field.with_type(_in_utc(field.type)) for field in schema])


def _in_utc(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC") if kind.tz else kind
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)).with_nullable(True) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)).with_nullable(True))
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), kind.item_field.with_type(_in_utc(kind.item_type)).with_nullable(True))
    return kind


def with_small_offsets(kind: pa.DataType) -> pa.DataType:
    """The same type with offsets of 32 bits, as Spark exchanges it."""
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(with_small_offsets(kind.value_type)))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(with_small_offsets(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(with_small_offsets(kind.key_type), kind.item_field.with_type(with_small_offsets(kind.item_type)))
    return kind


def lines_of_part(pieces: Iterable[bytes], begin: int, end: int) -> Iterator[bytes]:
    """The lines that begin at a byte from `begin` to before `end`, so that each line of a file is in one of its parts.

    `pieces` are the file's bytes, starting with the byte before `begin`. Pieces after `end` are only consumed as far as the
    last line reaches.
    """
    place, first = max(begin - 1, 0), None if begin else 0
    for piece in _ends_whole(pieces):
        if first is None:
            first = _line_after(piece, 0)
            if place + (len(piece) if first is None else first) >= end:
                return
        if first is not None:
            behind = _line_after(piece, max(end - 1 - place, 0)) if place + len(piece) >= end else None
            yield piece[first:behind]
            if behind is not None:
                return
            first = 0
        place += len(piece)


def _line_after(piece: bytes, at: int) -> int | None:
    """Where a line begins after the first line end at or after `at`; None if there is no line end."""
    ends = [end for end in (piece.find(b"\n", at), piece.find(b"\r", at)) if end >= 0]
    return min(ends) + (2 if piece.startswith(b"\r\n", min(ends)) else 1) if ends else None


def _ends_whole(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, in pieces that do not end between CR and LF."""
    carried = b""
    for piece in pieces:
        joined = carried + piece if carried else piece
        carried = b"\r" if joined.endswith(b"\r") else b""
        if whole := joined.removesuffix(carried):
            yield whole
    if carried:
        yield carried
