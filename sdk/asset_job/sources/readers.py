"""`r.read`: a DataFrame of what is new, through our data sources or, where the job brings jars, through Spark's own readers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from asset_job.errors import AssetJobError, SourceFailed, require
from asset_job.sources.postgres_sql import address, jdbc, predicates, table_sql
from asset_job.sources.request import (
    LocalSourceFile,
    ReadRequest,
    RowSelection,
    S3File,
    connection_of,
    items_of,
    quoted,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField

    from asset_job.events import AssetEvent


def read(request: ReadRequest, given: Any, events: Sequence[AssetEvent], table: str | None) -> DataFrame:
    """A DataFrame of exactly what `given` names; `events` are the run's. Raises `AssetJobError`.

    An error that executors meet is raised when the DataFrame is used.
    """
    if request.missing not in {"fail", "skip"}:
        raise AssetJobError(f"missing={request.missing!r} is unknown: use 'fail' or 'skip'")
    items = items_of(given, events, table)
    if isinstance(items, RowSelection):
        return _from_postgres(request, items)
    if not items:
        return request.empty()
    if isinstance(items[0], LocalSourceFile):
        return local_files(request, [file for file in items if isinstance(file, LocalSourceFile)])
    return _from_s3(request, [file for file in items if isinstance(file, S3File)])


def _from_s3(request: ReadRequest, files: Sequence[S3File]) -> DataFrame:
    if request.has_jar("hadoop-aws"):
        return by_spark(request, [f"s3a://{file.bucket}/{file.key}" for file in files])
    require("pyarrow", "obstore")
    from asset_job.sources.s3_frames import S3Frames  # noqa: PLC0415 - needs the packages that were just required
    from asset_job.sources.s3_objects import s3_access  # noqa: PLC0415

    access = s3_access(connection_of(request.connections, "s3", request.connection))
    return S3Frames(request=request, access=access, files=files).frame()


def local_files(request: ReadRequest, files: Sequence[LocalSourceFile]) -> DataFrame:
    """Check each file once, then let Spark read them: local files have no versions that could be pinned."""
    paths = []
    for file in dict.fromkeys(files):
        fault = _fault_of(file)
        if fault is None:
            paths.append(file.path)
        elif request.missing == "fail":
            raise SourceFailed(f"{file.path} {fault}; put it back and retry the run, or read with missing='skip'")
    return by_spark(request, paths)


def by_spark(request: ReadRequest, paths: Sequence[str]) -> DataFrame:
    """The files through Spark's own reader of their format."""
    if not paths:
        return request.empty()
    kind = request.format_of(paths)
    options = request.options
    if kind == "csv":  # with a schema, a header that differs from it is an error and is not ignored
        by_schema = {"inferSchema": True} if request.schema is None else {"enforceSchema": False}
        options = {"header": True, **by_schema, **options}
    reader = request.spark.read.format(kind).options(**options)
    if request.schema is not None and kind != "text":
        reader = reader.schema(request.schema)
    return reader.load([_visible_path(path) for path in paths])


def _visible_path(path: str) -> str:
    """A path for Spark. Raises `SourceFailed` for a file that Spark takes for hidden, and would skip without a word."""
    if PurePosixPath(path).name.startswith(("_", ".")):
        raise SourceFailed(
            f"{path} cannot be read, because Spark skips names that begin with _ or . as hidden: rename the file"
        )
    return literal_path(path)


def literal_path(path: str) -> str:
    """The path with an escape before each character that Spark takes for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _fault_of(file: LocalSourceFile) -> str | None:
    """Why the file cannot be read as its event names it; None if it can."""
    try:
        size = Path(file.path).stat().st_size
    except FileNotFoundError:
        return "was deleted since it was detected"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "was overwritten since it was detected" if file.size not in {None, size} else None


def _from_postgres(request: ReadRequest, rows: RowSelection) -> DataFrame:
    uri = address(connection_of(request.connections, "postgres", request.connection))
    if request.has_jar("postgresql") and not rows.keys:
        frame = rows_by_jdbc(request, rows, uri)
    else:
        require("pyarrow", "adbc_driver_postgresql")
        from asset_job.sources.pgrows import rows_by_adbc  # noqa: PLC0415 - needs the packages that were just required

        frame = rows_by_adbc(request, rows, uri)
    return frame if request.schema is None else _with_schema(frame, request, rows)


def rows_by_jdbc(request: ReadRequest, rows: RowSelection, uri: str) -> DataFrame:
    """The rows of the selected ranges through Spark's JDBC reader."""
    url, properties = jdbc(uri)
    conditions = predicates(rows, tasks=request.tasks) or ["false"]
    properties = {"driver": "org.postgresql.Driver", **properties, **request.options}
    return request.spark.read.jdbc(url, table_sql(rows.table), predicates=conditions, properties=properties)


def _with_schema(frame: DataFrame, request: ReadRequest, rows: RowSelection) -> DataFrame:
    """The columns that the request's schema names, in its types. A value that does not fit fails the job."""
    columns = {field.name.lower(): field for field in frame.schema}
    schema = request.spark.createDataFrame([], request.schema).schema
    missing = [field.name for field in schema if field.name.lower() not in columns]
    if missing:
        raise SourceFailed(f"the table {rows.table} has no column {', '.join(missing)}: correct the schema")
    return frame.select(*(_fitting(columns[field.name.lower()], field, rows.table) for field in schema))


def _fitting(column: StructField, field: StructField, table: str) -> Column:
    """A column cast to a field's type; a value that cannot be cast raises an error in the task."""
    from pyspark.sql import functions as sql  # noqa: PLC0415 - this module is imported without Spark

    value = sql.col(quoted(column.name))
    if column.dataType == field.dataType:
        return value.alias(field.name)
    fault = sql.concat(
        sql.lit(f"SourceFailed: a value of the table {table} does not fit the schema: in {field.name} there is "),
        value.cast("string"),
    )
    cast = value.try_cast(field.dataType)
    raised = sql.raise_error(fault).cast(field.dataType)
    return sql.when(value.isNull() | cast.isNotNull(), cast).otherwise(raised).alias(field.name)
