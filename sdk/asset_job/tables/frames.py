"""Refuse what a table of a format cannot hold as it is: types and names before anything is written, values while it is staged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, UserDefinedType

from asset_job.errors import TargetFailed
from asset_job.sources.partition_folders import NO_VALUE
from asset_job.sources.request import quoted
from asset_job.tables.layout import UNSAFE, TargetTable, check_columns, check_names

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EVERYWHERE = frozenset({"string", "byte", "short", "integer", "long", "date", "boolean"})
_TYPES = _EVERYWHERE | {"float", "double", "decimal", "binary", "timestamp", "timestamp_ntz"}
"""The types that tables of all formats hold, besides nested ones."""
_OF_PARTITIONS: Mapping[str, frozenset[str]] = {
    "delta": _EVERYWHERE,
    "parquet": _EVERYWHERE | {"decimal", "timestamp_ntz"},
    "iceberg": _EVERYWHERE | {"decimal", "timestamp_ntz", "timestamp"},
}
"""The types of columns to partition by: a text says which value it is, in every time zone."""
_HIDDEN = ("_", ".")
_HIDDEN_END = "._COPYING_"
_LONGEST_FOLDER = 255
"""How the names of folders begin or end that readers skip, and how many bytes they have at most."""


def check_frame(schema: StructType, partition_by: Sequence[str], table: TargetTable) -> None:
    """Raise `AssetJobError` if a table could not hold the columns of a frame, or not be read back."""
    target = table.location
    check_columns(schema.names, partition_by)
    for column in schema:
        for kind in _parts(column.dataType):
            if isinstance(kind, StructType) and kind.fields:
                check_names(kind.names, f"fields of the column {column.name}")
            elif kind.typeName() not in _TYPES:
                raise TargetFailed(
                    f"{target} cannot hold the column {column.name}, because tables have no type for "
                    f"{kind.simpleString()}: cast it, for example to a string"
                )
    for column in _partitioning(schema, partition_by):
        if column.dataType.typeName() not in _OF_PARTITIONS[table.format]:
            raise TargetFailed(
                f"{target} cannot be partitioned by {column.name} of the type {column.dataType.simpleString()}: "
                "partition by a date or a text"
            )
        if table.format == "parquet" and column.name.startswith(_HIDDEN):
            raise TargetFailed(
                f"{target} cannot be partitioned by {column.name}, because readers skip folders whose names begin like "
                "that: rename the column"
            )


def _partitioning(schema: StructType, partition_by: Sequence[str]) -> list[StructField]:
    return [column for name in partition_by for column in schema if column.name.lower() == name.lower()]


def _parts(kind: DataType) -> Iterator[DataType]:
    """The types that a type consists of, but for the arrays and maps between them. A struct without fields is none."""
    match kind:
        case StructType() if kind.fields:
            yield kind
            for field in kind:
                yield from _parts(field.dataType)
        case ArrayType():
            yield from _parts(kind.elementType)
        case MapType():
            yield from _parts(kind.keyType)
            yield from _parts(kind.valueType)
        case UserDefinedType():
            yield from _parts(kind.sqlType())
        case _:
            yield kind


def guarded(frame: DataFrame, partition_by: Sequence[str], table: TargetTable) -> DataFrame:
    """The frame, which fails with a sentence at a value that would be another one, or be skipped, in a partition."""
    guards = {column.name: _guard(column, table) for column in _partitioning(frame.schema, partition_by)}
    return frame.select(*(guards.get(name, sql.col(quoted(name))) for name in frame.columns)) if guards else frame


def _guard(field: StructField, table: TargetTable) -> Column:
    column = sql.col(quoted(field.name))
    match field.dataType.typeName():
        case "string" if table.format == "parquet":
            folder = sql.concat(sql.lit(f"{field.name}="), sql.regexp_replace(column, UNSAFE.pattern, "%00"))
            too_long = sql.octet_length(folder) > _LONGEST_FOLDER if table.location.bucket is None else sql.lit(False)
            lost = column.isin("", NO_VALUE) | column.endswith(_HIDDEN_END) | too_long
            reason = "has a text that is empty, too long for a folder's name, or a folder's name that readers skip"
        case "string" if table.format == "delta":
            lost, reason = column == "", "has an empty text, which would be null"
        case "date" | "timestamp_ntz" | "timestamp":
            lost, reason = ~sql.year(column).between(1, 9999), "has a value outside of the years 1 to 9999"
        case _:
            return column
    sentence = (
        f"{table.location} cannot be partitioned by {field.name}, which {reason}: replace it, or partition otherwise"
    )
    return sql.when(lost, sql.raise_error(sql.lit(f"TargetFailed: {sentence}"))).otherwise(column).alias(field.name)
