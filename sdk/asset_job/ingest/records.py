"""Read records, and separate those that fit the schema from those that do not."""

from __future__ import annotations

import bz2
import csv
import gzip
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from pathlib import PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructField, StructType

from asset_job.errors import AssetJobError
from asset_job.ingest.plan import IngestInput, IngestJobOptions
from asset_job.sources.request import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from asset_job.runs import Run

RECORD = "_record"
"""The name of the column that holds the text of a record that does not fit, and is null for one that does."""
_SEPARATORS = ";\t|"
_OPENERS: Mapping[str, Callable[..., IO[Any]]] = {".gz": gzip.open, ".bz2": bz2.open}


def inferred(run: Run, inputs: Sequence[IngestInput], options: IngestJobOptions) -> str:
    """The schema of the first input, as Spark's DDL. Raises `AssetJobError`."""
    columns = _columns(run, inputs[0], options)
    if not columns:
        raise AssetJobError(
            "no record of these files can be parsed: name their format by input_format, or give a schema"
        )
    return StructType(columns).toDDL()


def widened(
    run: Run, inputs: Sequence[IngestInput], options: IngestJobOptions, schema: str
) -> tuple[str, list[IngestInput]]:
    """The schema with the columns that only the inputs have added at its end, and the inputs with their own columns."""
    fields, with_columns = list(_fields(run, schema)), []
    for each in inputs:
        own = _columns(run, each, options)
        known = {field.name.lower() for field in fields}
        fields += [field for field in own if field.name.lower() not in known]
        with_columns.append(replace(each, columns=tuple(field.name for field in own)))
    return StructType(fields).toDDL(), with_columns


def joined(run: Run, schema: str, stored: str | None) -> str:
    """A schema with the columns that only the stored schema has added at its end."""
    fields = list(_fields(run, schema))
    known = {field.name.lower() for field in fields}
    more = [field for field in _fields(run, stored) if field.name.lower() not in known] if stored else []
    return StructType(fields + more).toDDL()


def _fields(run: Run, schema: str) -> StructType:
    return run.spark.createDataFrame([], schema).schema


def _columns(run: Run, given: IngestInput, options: IngestJobOptions) -> list[StructField]:
    """The inferred columns of an input. Raises `AssetJobError`."""
    frame = _read(run, given, options, None)
    if given.format == "csv":
        _check_header(given.items, frame.columns)
    return [field for field in frame.schema if field.name != "_corrupt_record"]


def _check_header(files: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Raise `AssetJobError` if a name comes twice in a CSV header, or its fields are not separated by commas.

    `columns` are the inferred ones. In the columns of local files Spark renames names that come twice, so the first line of
    the file itself is checked.
    """
    for file in files:
        if "path" not in file and file.get("size"):
            return _check_names(columns, f"s3://{file['bucket']}/{file['key']}")
        with suppress(KeyError, OSError, EOFError):  # Spark reports it better
            if names := _header_names(file["path"]):
                return _check_names(names, file["path"])
    return None


def _check_names(names: Sequence[str], file: str) -> None:
    twice = [name for name, count in Counter(name.lower() for name in names).items() if count > 1]
    if twice:
        raise AssetJobError(f"{file} has the column {twice[0]!r} more than once: rename it in the first line")
    separator = next((mark for mark in _SEPARATORS if mark in "".join(names[:1])), None)
    if len(names) == 1 and separator:
        raise AssetJobError(
            f"{file} has the single column {names[0]!r}: write the file with commas, or read it in a job of your own by "
            f"r.read(…, sep={separator!r})"
        )


def _header_names(path: str) -> list[str]:
    """The names in a file's first line that is not blank; none if there is no such line."""
    opener = _OPENERS.get(PurePosixPath(path).suffix.lower(), open)
    with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as lines:
        line = next((line for line in lines if line.strip()), "")
    return [name.strip() for name in next(csv.reader([line.rstrip("\r\n")]), [])]


def check_schema(run: Run, schema: str) -> None:
    """Raise `AssetJobError` if a schema is not Spark's DDL."""
    try:
        run.spark.createDataFrame([], schema)
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        raise AssetJobError(
            f"the schema {schema!r} is not Spark's DDL, such as `id long, amount double`: {reason}"
        ) from None


def records(run: Run, inputs: Sequence[IngestInput], options: IngestJobOptions, schema: str) -> DataFrame:
    """All records, in the columns of the schema and `RECORD` as the last."""
    frames = [_read(run, each, options, _own_part(run, each, schema)) for each in inputs]
    names = [*_fields(run, schema).names, RECORD]
    whole = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    missing = {
        name: sql.lit(None).cast(kind) for name, kind in _types(run, schema).items() if name not in whole.columns
    }
    return whole.withColumns(missing).select(*(sql.col(quoted(name)) for name in names))


def _own_part(run: Run, given: IngestInput, schema: str) -> str:
    """The part of the schema that an input has itself. A JSON input takes the whole schema: its members may be missing."""
    if given.columns is None or given.format == "json":
        return schema
    fields = {field.name.lower(): field for field in _fields(run, schema)}
    return StructType([fields[name.lower()] for name in given.columns]).toDDL()


def _types(run: Run, schema: str) -> dict[str, DataType]:
    return {field.name: field.dataType for field in _fields(run, schema)}


def _read(run: Run, given: IngestInput, options: IngestJobOptions, schema: str | None) -> DataFrame:
    """An input with the columns of a schema and `RECORD`; without a schema, with the columns that are inferred."""
    if given.format is None:
        frame = run.read(given.items, schema=schema, connection=options.connection)
    elif schema is not None and given.format in {"json", "csv"}:
        return run.read(
            given.items,
            format=given.format,
            schema=f"{schema}, {RECORD} string",
            connection=options.connection,
            missing=options.missing,
            columnNameOfCorruptRecord=RECORD,
        )
    else:
        frame = run.read(
            given.items, format=given.format, schema=schema, connection=options.connection, missing=options.missing
        )
    return frame if schema is None else frame.withColumn(RECORD, sql.lit(None).cast("string"))


def valid(frame: DataFrame) -> tuple[DataFrame, Observation]:
    """The records that fit, and an observation that counts all `records` and the `bad` ones while the frame is written."""
    observation = Observation()
    bad = sql.count_if(sql.col(RECORD).isNotNull())
    counted = frame.observe(observation, sql.count(sql.lit(1)).alias("records"), bad.alias("bad"))
    return counted.where(sql.col(RECORD).isNull()).drop(RECORD), observation


def invalid(frame: DataFrame) -> DataFrame:
    """The records that do not fit, with all columns as far as they could be read, which shows what did not fit."""
    return frame.where(sql.col(RECORD).isNotNull())


def deduplicated(frame: DataFrame, existing: DataFrame | None, key: Sequence[str]) -> DataFrame:
    """One row for each key, and none whose key is among the `existing` rows. Two nulls are equal."""
    distinct = frame.dropDuplicates(list(key))
    if existing is None:
        return distinct
    same = [distinct[quoted(name)].eqNullSafe(existing[quoted(name)]) for name in key]
    return distinct.join(existing, reduce(lambda one, other: one & other, same), "left_anti")
