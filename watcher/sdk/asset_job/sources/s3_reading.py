"""Files of S3 by `s3files`, with Spark's own parsers on top, so that a file means the same wherever it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import pyspark

from ..errors import SourceFailed
from .arrow_schemas import arrow_schema, load
from .connections import connection_of
from .items import S3File
from .lines import batches_of_lines
from .objects import FileUnreadable, pieces, told_of
from .request import Reading
from .s3access import S3Access, s3_access
from .s3files import (
    ReadFile,
    ReadLines,
    ReadParquet,
    S3FilesReader,
    first_saying,
    header_of,
    parquet_columns,
    s3files,
)
from .splitting import split_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

Found = TypeVar("Found")
_LARGEST_SHARE = 128 << 20
_PARSES_FRAMES = (4, 2)


def s3_files(reading: Reading, files: Sequence[S3File]) -> DataFrame:
    access = s3_access(connection_of(reading.connections, "s3", reading.connection))
    if str(reading.options.get("multiLine")).lower() == "true":
        raise SourceFailed(
            "records of several lines are read by Spark only: give the job spark.packages with hadoop-aws"
        )
    match reading.format_of([file.key for file in files]):
        case "parquet":
            return parquet_files(reading, access, files)
        case "csv":
            return _csv(reading, access, files)
        case "json":
            lines = _lines(reading, access, files)
            return reading.spark.read.options(**reading.options).json(_parsable(lines), schema=reading.schema)
        case _:
            return _lines(reading, access, files)


def parquet_files(
    reading: Reading, access: S3Access, files: Sequence[S3File], *, from_path: Sequence[str] = ()
) -> DataFrame:
    """Columns `from_path` are not in the files: their folders tell their values."""
    if reading.schema is None:
        found = _first_of(reading, files, lambda file: parquet_columns(access, file))
        if found is None:
            raise SourceFailed("none of the files can be read: give a schema")
        empty = reading.spark.createDataFrame(found.empty_table())
    else:
        empty = reading.spark.createDataFrame([], reading.schema)
    return _loaded(reading, access, files, ReadParquet(schema=arrow_schema(empty), from_path=from_path), empty.schema)


def _lines(reading: Reading, access: S3Access, files: Sequence[S3File], how: ReadLines | None = None) -> DataFrame:
    return _loaded(reading, access, files, how or ReadLines(), "value string")


def _parsable(lines: DataFrame) -> Any:
    """What Spark's parsers take: before 4.2 an RDD, which brings each line through Python once more."""
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    return lines if version >= _PARSES_FRAMES else lines.rdd.map(itemgetter(0))


def _loaded(
    reading: Reading, access: S3Access, files: Sequence[S3File], read_file: ReadFile, columns: StructType | str
) -> DataFrame:
    shares = split_files(files, tasks=reading.tasks, most=_LARGEST_SHARE)
    reader = S3FilesReader(access=access, shares=shares, read_file=read_file, skip=reading.missing == "skip")
    return load(reading.spark, s3files(reader, columns))


def _csv(reading: Reading, access: S3Access, files: Sequence[S3File]) -> DataFrame:
    """The header is checked, file by file, where the lines are read; Spark sees none."""
    options = {**reading.options, "header": False}
    names = _column_names(reading, access, files) if _has_header(reading) else None
    how = ReadLines(header=names, dialect=_dialect(reading), comment=reading.options.get("comment"))
    lines = _lines(reading, access, files, how)
    if reading.schema is not None:
        return reading.spark.read.options(**options).csv(_parsable(lines), schema=reading.schema)
    found = reading.spark.read.options(**{"inferSchema": True, **options}).csv(_parsable(lines))
    return found.toDF(*names) if names else found


def _has_header(reading: Reading) -> bool:
    return str(reading.options.get("header", True)).lower() == "true"


def _dialect(reading: Reading) -> dict[str, Any]:
    """Spark's options as Python's csv has them."""
    options = reading.options
    marks = {"delimiter": options.get("sep") or options.get("delimiter"), "quotechar": options.get("quote")}
    return {name: mark for name, mark in marks.items() if mark}


def _column_names(reading: Reading, access: S3Access, files: Sequence[S3File]) -> list[str]:
    """Of the schema, without the column for what does not fit; or else of the first file with a line."""
    if reading.schema is not None:
        corrupt = reading.options.get("columnNameOfCorruptRecord")
        return [name for name in reading.spark.createDataFrame([], reading.schema).columns if name != corrupt]
    comment = reading.options.get("comment")
    found = _first_of(reading, files, lambda file: _first_line(access, file, comment))
    if found is None:
        raise SourceFailed("none of the files has a line: give a schema, or skip empty files by the watcher's min_size")
    return header_of(found, _dialect(reading))


def _first_line(access: S3Access, file: S3File, comment: str | None) -> str | None:
    for batch in batches_of_lines(pieces(access.store(file.bucket), file)):
        at = first_saying(batch, comment)
        if at is not None:
            return str(batch.column(0)[at].as_py())
    return None


def _first_of(reading: Reading, files: Sequence[S3File], look: Callable[[S3File], Found | None]) -> Found | None:
    """What the first file has that has something."""
    for file in files:
        try:
            with told_of(file):
                found = look(file)
        except FileUnreadable:
            if reading.missing == "fail":
                raise
        else:
            if found is not None:
                return found
    return None
