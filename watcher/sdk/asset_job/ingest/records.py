"""Records as they come, separated into those that fit the schema and those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import StructType

from ..errors import AssetJobError
from ..sources.request import quoted
from .plan import IngestOptions, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..runs import Run

RECORD = "_record"
"""The column of a record that does not fit, as it came; null of one that does."""


def inferred(run: Run, inputs: Sequence[Source], options: IngestOptions) -> str:
    """The schema of the first source, as Spark's DDL. Raises `AssetJobError`."""
    frame = _read(run, inputs[0], options, None)
    columns = [field for field in frame.schema if field.name != "_corrupt_record"]
    if not columns:
        raise AssetJobError("no record of these files can be understood: say how by input_format, or give a schema")
    return StructType(columns).toDDL()


def check_schema(run: Run, schema: str) -> None:
    """Raises `AssetJobError`."""
    try:
        run.spark.createDataFrame([], schema)
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        raise AssetJobError(
            f"the schema {schema!r} is not Spark's DDL, such as `id long, amount double`: {reason}"
        ) from None


def records(run: Run, inputs: Sequence[Source], options: IngestOptions, schema: str) -> DataFrame:
    """All records in the columns of the schema and, last, `RECORD`."""
    return reduce(lambda one, other: one.unionByName(other), [_read(run, one, options, schema) for one in inputs])


def _read(run: Run, source: Source, options: IngestOptions, schema: str | None) -> DataFrame:
    how: dict[str, Any] = {"schema": schema, "connection": options.connection}
    if source.format is not None:
        how |= {"format": source.format, "missing": options.missing}
    if schema is not None and source.format in {"json", "csv"}:
        how |= {"schema": f"{schema}, {RECORD} string", "columnNameOfCorruptRecord": RECORD}
        return run.read(source.given, **how)
    frame = run.read(source.given, **how)
    return frame if schema is None else frame.withColumn(RECORD, sql.lit(None).cast("string"))


def valid(frame: DataFrame) -> tuple[DataFrame, Observation]:
    """The records that fit; the numbers of all `records` and of the `bad` ones are known once the frame was written."""
    observation = Observation()
    bad = sql.count_if(sql.col(RECORD).isNotNull())
    counted = frame.observe(observation, sql.count(sql.lit(1)).alias("records"), bad.alias("bad"))
    return counted.where(sql.col(RECORD).isNull()).drop(RECORD), observation


def invalid(frame: DataFrame) -> DataFrame:
    """With all columns as far as they could be read, which shows what did not fit."""
    return frame.where(sql.col(RECORD).isNotNull())


def deduplicated(frame: DataFrame, others: DataFrame | None, key: Sequence[str]) -> DataFrame:
    """One row of each key, and none whose key is among `others`; nulls are as equal as other values."""
    distinct = frame.dropDuplicates(list(key))
    if others is None:
        return distinct
    same = [distinct[quoted(name)].eqNullSafe(others[quoted(name)]) for name in key]
    return distinct.join(others, reduce(lambda one, other: one & other, same), "left_anti")
