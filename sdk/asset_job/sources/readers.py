"""`r.read`: what is new as a DataFrame, by the way that the job has: our data sources, or Spark's own readers with jars."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from ..errors import AssetJobError, SourceFailed, require
from .postgres_frames import rows_of_postgres
from .request import LocalFile, ReadRequest, Rows, S3File, connection_of, items_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from ..events import AssetEvent


def read(request: ReadRequest, given: Any, events: Sequence[AssetEvent], table: str | None) -> DataFrame:
    """Raises `AssetJobError`, for what executors meet only when the DataFrame is used."""
    if request.missing not in {"fail", "skip"}:
        raise AssetJobError(f"missing={request.missing!r} is unknown: use 'fail' or 'skip'")
    items = items_of(given, events, table)
    if isinstance(items, Rows):
        return rows_of_postgres(request, items)
    if not items:
        return request.nothing()
    if isinstance(items[0], LocalFile):
        return local_files(request, [file for file in items if isinstance(file, LocalFile)])
    return _from_s3(request, [file for file in items if isinstance(file, S3File)])


def _from_s3(request: ReadRequest, files: Sequence[S3File]) -> DataFrame:
    if request.has_jar("hadoop-aws"):
        return by_spark(request, [f"s3a://{file.bucket}/{file.key}" for file in files])
    require("pyarrow", "obstore")
    from .s3_frames import S3Frames  # noqa: PLC0415 - needs what was just required
    from .s3_objects import s3_access  # noqa: PLC0415

    access = s3_access(connection_of(request.connections, "s3", request.connection))
    return S3Frames(request=request, access=access, files=files).frame()


def local_files(request: ReadRequest, files: Sequence[LocalFile]) -> DataFrame:
    """Each file is checked once, before Spark reads it: local files have no versions to pin."""
    paths = []
    for file in dict.fromkeys(files):
        fault = _fault_of(file)
        if fault is None:
            paths.append(file.path)
        elif request.missing == "fail":
            raise SourceFailed(f"{file.path} {fault}; put it back and retry the run, or read with missing='skip'")
    return by_spark(request, paths)


def by_spark(request: ReadRequest, paths: Sequence[str]) -> DataFrame:
    if not paths:
        return request.nothing()
    kind = request.format_of(paths)
    options = request.options
    if kind == "csv":  # with a schema a header that says otherwise is an error, not ignored
        by_schema = {"inferSchema": True} if request.schema is None else {"enforceSchema": False}
        options = {"header": True, **by_schema, **options}
    reader = request.spark.read.format(kind).options(**options)
    if request.schema is not None and kind != "text":
        reader = reader.schema(request.schema)
    return reader.load([_visible_path(path) for path in paths])


def _visible_path(path: str) -> str:
    """Spark silently skips files that it takes for hidden."""
    if PurePosixPath(path).name.startswith(("_", ".")):
        raise SourceFailed(f"{path} cannot be read: to Spark names that begin with _ or . are hidden; rename the file")
    return literal_path(path)


def literal_path(path: str) -> str:
    """Spark takes some characters for patterns."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)


def _fault_of(file: LocalFile) -> str | None:
    try:
        size = Path(file.path).stat().st_size
    except FileNotFoundError:
        return "was deleted since it was detected"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "was overwritten since it was detected" if file.size not in {None, size} else None
