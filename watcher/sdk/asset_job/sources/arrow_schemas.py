"""How a data source of ours and Spark agree on columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def load(spark: SparkSession, source: Any) -> DataFrame:
    """Registered under its name only to be loaded at once: a DataFrame keeps its own source."""
    spark.dataSource.register(source)
    return spark.read.format(source.name()).load()


def arrow_schema(empty: DataFrame) -> Any:
    """As Spark hands Arrow batches to Python and takes them back; no job runs."""
    schema = empty.limit(0).toArrow().schema
    return pa.schema([field.with_type(_in_utc(field.type)) for field in schema])


def _in_utc(kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", "UTC") if kind.tz else kind
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), kind.item_field.with_type(_in_utc(kind.item_type)))
    return kind
