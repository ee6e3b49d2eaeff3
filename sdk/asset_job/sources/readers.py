"""`r.read`: a DataFrame of what is new, by one reader wherever it lies, or by Spark's own readers where the job asks for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from asset_job.connections import JobConnections
from asset_job.errors import AssetJobError, FileUnreadable, require
from asset_job.missing import without_superseded
from asset_job.sources.postgres_sql import address
from asset_job.sources.request import (
    LocalSourceFile,
    OnUnrepresentable,
    Reader,
    ReadRequest,
    RowSelection,
    S3File,
    bad_column,
    connection_of,
    items_of,
    name_of_connection,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from asset_job.events import AssetEvent
    from asset_job.runs import Run
    from asset_job.sources.frames import FileFrames
    from asset_job.sources.row_frames import RowFrames


def read_for(
    run: Run,
    new: Any,
    *,
    format: str | None,  # noqa: A002 - as Spark's readers call it
    schema: Any,
    table: str | None,
    connection: str | None,
    missing: Literal["fail", "skip"],
    reader: Reader,
    on_unrepresentable: OnUnrepresentable,
    options: Mapping[str, Any],
) -> DataFrame:
    """A DataFrame of what is new to a run, as `Run.read` says."""
    request = ReadRequest(
        spark=run.spark,
        connections=run.connections,
        format=format,
        schema=schema,
        connection=connection,
        missing=missing,
        reader=reader,
        on_unrepresentable=on_unrepresentable,
        options=options,
    )
    events = [event for of_asset in run.triggering_asset_events.values() for event in of_asset]
    try:
        return read(request, new, events, table)
    except FileUnreadable:
        if not (names := run.leave_out_superseded()):
            raise
        return read(request, without_superseded(new, names), events, table)


def read(request: ReadRequest, given: Any, events: Sequence[AssetEvent], table: str | None) -> DataFrame:
    """A DataFrame of exactly what `given` names; `events` are the run's. Raises `AssetJobError`.

    An error that executors meet is raised when the DataFrame is used.
    """
    _check(request)
    items = items_of(given, events, table)
    if isinstance(items, RowSelection):
        return row_frames(request, items).frame()
    if request.reader == "spark":
        return by_spark(request, items)
    return file_frames(request, items).frame() if items else request.empty()


def _check(request: ReadRequest) -> None:
    """Raise `AssetJobError` for a word that has no meaning."""
    words = {
        "missing": (request.missing, ("fail", "skip")),
        "reader": (request.reader, get_args(Reader)),
        "on_unrepresentable": (request.on_unrepresentable, get_args(OnUnrepresentable)),
    }
    for name, (value, known) in words.items():
        if value not in known:
            raise AssetJobError(f"{name}={value!r} is unknown: use {' or '.join(map(repr, known))}")


def file_frames(request: ReadRequest, files: Sequence[S3File] | Sequence[LocalSourceFile]) -> FileFrames[Any]:
    """The frames of files that are all on S3 or all local. Raises `SourceFailed`."""
    require("pyarrow")
    from asset_job.sources.formats import FORMATS  # noqa: PLC0415 - needs the packages that were just required
    from asset_job.sources.frames import FileFrames  # noqa: PLC0415

    kind = FORMATS[request.format_of([file.name for file in files])]
    if isinstance(files[0], LocalSourceFile):
        from asset_job.sources.local_files import LocalAccess  # noqa: PLC0415

        return FileFrames(request, LocalAccess(), files, kind)
    require("obstore")
    from asset_job.sources.s3_objects import s3_access  # noqa: PLC0415

    access = s3_access(connection_of(request.connections, "s3", request.connection))
    return FileFrames(request, access, files, kind)


def by_spark(request: ReadRequest, files: Sequence[S3File] | Sequence[LocalSourceFile]) -> DataFrame:
    """The files through Spark's own reader of their format: any version of an object, and values as Spark reads them."""
    if not files:
        return request.empty()
    kind = request.format_of([file.name for file in files])
    options = request.options
    if kind == "csv":  # with a schema, a header that differs from it is an error and is not ignored
        by_schema = {"inferSchema": True} if request.schema is None else {"enforceSchema": False}
        options = {"header": True, **by_schema, **options}
    reader = request.spark.read.format(kind).options(**options)
    if request.schema is not None and kind != "text":
        reader = reader.schema(request.schema)
    names = [f"s3a://{file.bucket}/{file.key}" if isinstance(file, S3File) else file.path for file in files]
    return reader.load([literal_path(name) for name in names])


def literal_path(path: str) -> str:
    """The path with an escape before each character that Spark takes for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def row_frames(request: ReadRequest, rows: RowSelection) -> RowFrames:
    """The frames of rows of a table. Raises `AssetJobError`."""
    if request.reader == "spark" and rows.keys:
        raise AssetJobError("rows are named by their keys, which reader='spark' cannot read: leave it out")
    require("pyarrow", *([] if request.reader == "spark" else ["adbc_driver_postgresql"]))
    from asset_job.sources.row_frames import RowFrames  # noqa: PLC0415 - needs the packages that were just required

    connections = request.connections
    name = name_of_connection(connections, "postgres", request.connection)

    def renewed() -> str | None:
        is_another = isinstance(connections, JobConnections) and connections.renew(name)
        return address(connections[name]) if is_another else None

    return RowFrames(request, rows, address(connections[name]), renewed)


def read_with_bad(request: ReadRequest, given: Any, events: Sequence[AssetEvent] = ()) -> DataFrame:
    """Good rows and bad records of what `given` names, with the columns of the request's schema, which it must have.

    Two columns follow: a struct that tells what is wrong, with the fields of `file_reader.BAD`, which is null in good rows (and in
    bad records all others are null); and the number of the row's values that became null, because Spark has no value for them.
    Raises `AssetJobError`.
    """
    from pyspark.sql import functions as sql  # noqa: PLC0415 - this module is imported without Spark

    _check(request)
    items = items_of(given, events)
    if isinstance(items, RowSelection):
        return row_frames(request, items).with_bad()
    frame = file_frames(request, items).with_bad()
    return frame.withColumn(bad_column(frame.columns, "nulled"), sql.lit(0))


def inferred_schema(request: ReadRequest, given: Any, events: Sequence[AssetEvent] = ()) -> str:
    """The columns of what `given` names, as Spark's DDL. Raises `AssetJobError`."""
    items = items_of(given, events)
    if isinstance(items, RowSelection):
        return row_frames(request, items).inferred()
    return file_frames(request, items).schema.toDDL()
