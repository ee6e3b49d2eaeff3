"""Records as they come, separated into those that fit the schema and those that do not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructField, StructType

from ..errors import AssetJobError
from ..sources.request import quoted
from .headers import check_header
from .plan import IngestOptions, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..runs import Run

RECORD = "_record"
"""The column of a record that does not fit, as it came; null of one that does."""


def inferred(run: Run, inputs: Sequence[Source], options: IngestOptions) -> str:
    """The schema of the first source, as Spark's DDL. Raises `AssetJobError`."""
    columns = _columns(run, inputs[0], options)
    if not columns:
        raise AssetJobError("no record of these files can be understood: say how by input_format, or give a schema")
    return StructType(columns).toDDL()


def widened(run: Run, inputs: Sequence[Source], options: IngestOptions, schema: str) -> tuple[str, list[Source]]:
    """The schema and, behind it, the columns that only the sources have; and the sources, each with what it has itself."""
    fields, sources = list(_fields(run, schema)), []
    for source in inputs:
        there = _columns(run, source, options)
        known = {field.name.lower() for field in fields}
        fields += [field for field in there if field.name.lower() not in known]
        sources.append(replace(source, columns=tuple(field.name for field in there)))
    return StructType(fields).toDDL(), sources


def joined(run: Run, schema: str, kept: str | None) -> str:
    """A schema and, behind it, what only the one that was kept has."""
    fields = list(_fields(run, schema))
    known = {field.name.lower() for field in fields}
    more = [field for field in _fields(run, kept) if field.name.lower() not in known] if kept else []
    return StructType(fields + more).toDDL()


def _fields(run: Run, schema: str) -> StructType:
    return run.spark.createDataFrame([], schema).schema


def _columns(run: Run, source: Source, options: IngestOptions) -> list[StructField]:
    frame = _read(run, source, options, None)
    if source.format == "csv":
        check_header(source.given, frame.columns)
    return [field for field in frame.schema if field.name != "_corrupt_record"]


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
    frames = [_read(run, source, options, _own_part(run, source, schema)) for source in inputs]
    names = [*_fields(run, schema).names, RECORD]
    whole = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    lacking = {
        name: sql.lit(None).cast(kind) for name, kind in _types(run, schema).items() if name not in whole.columns
    }
    return whole.withColumns(lacking).select(*(sql.col(quoted(name)) for name in names))


def _own_part(run: Run, source: Source, schema: str) -> str:
    """What can be asked of a source that was looked at; JSON has no order and may lack what it likes."""
    if source.columns is None or source.format == "json":
        return schema
    fields = {field.name.lower(): field for field in _fields(run, schema)}
    return StructType([fields[name.lower()] for name in source.columns]).toDDL()


def _types(run: Run, schema: str) -> dict[str, DataType]:
    return {field.name: field.dataType for field in _fields(run, schema)}


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
