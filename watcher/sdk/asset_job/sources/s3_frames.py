"""Files of S3 by `s3files`, with Spark's own parsers on top, so that a file means the same wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyspark

from ..errors import SourceFailed
from .arrow import arrow_schema, batches_of_lines, load
from .request import ReadRequest, S3File, connection_of
from .s3_objects import FileUnreadable, S3Access, errors_naming, pieces, s3_access
from .s3files import ReadFile, ReadLines, ReadParquet, S3FilesReader, first_content_line, header_of, parquet_columns
from .shares import split_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Found = TypeVar("Found")
_LARGEST_SHARE = 128 << 20
_PARSES_FRAMES = (4, 2)


def s3_files(request: ReadRequest, files: Sequence[S3File]) -> DataFrame:
    access = s3_access(connection_of(request.connections, "s3", request.connection))
    if str(request.options.get("multiLine")).lower() == "true":
        raise SourceFailed(
            "records of several lines are read by Spark only: give the job spark.packages with hadoop-aws"
        )
    match request.format_of([file.key for file in files]):
        case "parquet":
            return parquet_files(request, access, files)
        case "csv":
            return _csv(request, access, files)
        case "json":
            lines = _lines(request, access, files)
            return request.spark.read.options(**request.options).json(_parsable(lines), schema=request.schema)
        case _:
            return _lines(request, access, files)


def parquet_files(
    request: ReadRequest, access: S3Access, files: Sequence[S3File], *, from_path: Sequence[str] = ()
) -> DataFrame:
    """Columns `from_path` are not in the files: their folders tell their values."""
    if request.schema is None:
        columns = _first_of(request, files, lambda file: parquet_columns(access, file))
        if columns is None:
            raise SourceFailed("none of the files can be read: give a schema")
        empty = request.spark.createDataFrame(columns.empty_table())
    else:
        empty = request.spark.createDataFrame([], request.schema)
    return _loaded(request, access, files, ReadParquet(schema=arrow_schema(empty), from_path=from_path), empty.schema)


def _lines(request: ReadRequest, access: S3Access, files: Sequence[S3File], how: ReadLines | None = None) -> DataFrame:
    return _loaded(request, access, files, how or ReadLines(), "value string")


def _parsable(lines: DataFrame) -> Any:
    """What Spark's parsers take: before 4.2 an RDD, which brings each line through Python once more."""
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    return lines if version >= _PARSES_FRAMES else lines.rdd.map(itemgetter(0))


def _loaded(
    request: ReadRequest, access: S3Access, files: Sequence[S3File], read_file: ReadFile, columns: StructType | str
) -> DataFrame:
    shares = split_files(files, tasks=request.tasks, most=_LARGEST_SHARE)
    reader = S3FilesReader(access=access, shares=shares, read_file=read_file, skip=request.missing == "skip")
    return load(request.spark, "s3files", reader, columns)


def _csv(request: ReadRequest, access: S3Access, files: Sequence[S3File]) -> DataFrame:
    """The header is checked, file by file, where the lines are read; Spark sees none."""
    options = {**request.options, "header": False}
    has_header = str(request.options.get("header", True)).lower() == "true"
    names = _column_names(request, access, files) if has_header else None
    how = ReadLines(header=names, dialect=_dialect(request), comment=request.options.get("comment"))
    lines = _lines(request, access, files, how)
    if request.schema is not None:
        return request.spark.read.options(**options).csv(_parsable(lines), schema=request.schema)
    frame = request.spark.read.options(**{"inferSchema": True, **options}).csv(_parsable(lines))
    return frame.toDF(*names) if names else frame


def _dialect(request: ReadRequest) -> dict[str, Any]:
    """Spark's options as Python's csv has them."""
    options = request.options
    marks = {"delimiter": options.get("sep") or options.get("delimiter"), "quotechar": options.get("quote")}
    return {name: mark for name, mark in marks.items() if mark}


def _column_names(request: ReadRequest, access: S3Access, files: Sequence[S3File]) -> list[str]:
    """Of the schema, without the column for what does not fit; or else of the first file with a line."""
    if request.schema is not None:
        corrupt = request.options.get("columnNameOfCorruptRecord")
        return [name for name in request.spark.createDataFrame([], request.schema).columns if name != corrupt]
    comment = request.options.get("comment")
    line = _first_of(request, files, lambda file: _first_line(access, file, comment))
    if line is None:
        raise SourceFailed("none of the files has a line: give a schema, or skip empty files by the watcher's min_size")
    return header_of(line, _dialect(request))


def _first_line(access: S3Access, file: S3File, comment: str | None) -> str | None:
    for batch in batches_of_lines(pieces(access.store(file.bucket), file)):
        at = first_content_line(batch, comment)
        if at is not None:
            return str(batch.column(0)[at].as_py())
    return None


def _first_of(request: ReadRequest, files: Sequence[S3File], look: Callable[[S3File], Found | None]) -> Found | None:
    """What the first file has that has something."""
    for file in files:
        try:
            with errors_naming(file):
                result = look(file)
        except FileUnreadable:
            if request.missing == "fail":
                raise
        else:
            if result is not None:
                return result
    return None
