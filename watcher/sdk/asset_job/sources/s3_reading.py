"""Files of S3 by `s3files`, with Spark's own parsers on top, so that a file means the same wherever it lies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .arrow_schemas import arrow_schema, ddl, load
from .connections import connection_of
from .failures import SourceFailed
from .items import S3File
from .lines import batches_of_lines
from .objects import pieces, told_of
from .request import Reading
from .s3access import S3Access, s3_access
from .s3files import ReadFile, ReadLines, ReadParquet, S3FilesReader, header_of, open_parquet, s3files
from .splitting import split_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LARGEST_SHARE = 128 << 20


def s3_files(reading: Reading, files: Sequence[S3File]) -> DataFrame:
    access = s3_access(connection_of(reading.connections, "s3", reading.connection))
    match reading.format_of([file.key for file in files]):
        case "parquet":
            return parquet_files(reading, access, files)
        case "csv":
            return _csv(reading, access, files)
        case "json":
            return reading.spark.read.json(_lines(reading, access, files), schema=reading.schema, **reading.options)
        case _:
            return _lines(reading, access, files)


def parquet_files(
    reading: Reading, access: S3Access, files: Sequence[S3File], *, from_path: Sequence[str] = ()
) -> DataFrame:
    """Columns `from_path` are not in the files: their folders tell their values."""
    if reading.schema is None:
        with told_of(files[0]):
            found = open_parquet(access, files[0]).schema_arrow
        empty = reading.spark.createDataFrame(found.empty_table())
    else:
        empty = reading.spark.createDataFrame([], reading.schema)
    return _loaded(reading, access, files, ReadParquet(schema=arrow_schema(empty), from_path=from_path), ddl(empty))


def _lines(reading: Reading, access: S3Access, files: Sequence[S3File], how: ReadLines | None = None) -> DataFrame:
    return _loaded(reading, access, files, how or ReadLines(), "value string")


def _loaded(
    reading: Reading, access: S3Access, files: Sequence[S3File], read_file: ReadFile, columns: str
) -> DataFrame:
    shares = split_files(files, tasks=reading.tasks, most=_LARGEST_SHARE)
    reader = S3FilesReader(access=access, shares=shares, read_file=read_file, skip=reading.missing == "skip")
    return load(reading.spark, s3files(reader, columns))


def _csv(reading: Reading, access: S3Access, files: Sequence[S3File]) -> DataFrame:
    options = {**reading.options}
    header = str(options.pop("header", True)).lower() == "true"
    marks = {"delimiter": options.get("sep") or options.get("delimiter"), "quotechar": options.get("quote")}
    dialect = {name: mark for name, mark in marks.items() if mark}
    if reading.schema is not None:
        names = _names_in_files(reading) if header else None
        lines = _lines(reading, access, files, ReadLines(header=names, dialect=dialect))
        return reading.spark.read.csv(lines, schema=reading.schema, header=False, **options)
    names = header_of(_first_line(access, files), dialect) if header else None
    lines = _lines(reading, access, files, ReadLines(header=names, dialect=dialect))
    found = reading.spark.read.csv(lines, header=False, **{"inferSchema": True, **options})
    return found.toDF(*names) if names else found


def _names_in_files(reading: Reading) -> list[str]:
    """Without the column for what does not fit."""
    corrupt = reading.options.get("columnNameOfCorruptRecord")
    return [name for name in reading.spark.createDataFrame([], reading.schema).columns if name != corrupt]


def _first_line(access: S3Access, files: Sequence[S3File]) -> str:
    for file in files:
        with told_of(file):
            for batch in batches_of_lines(pieces(access.store(file.bucket), file)):
                found = [line for line in batch.column(0).to_pylist() if line.strip()]
                if found:
                    return str(found[0])
    raise SourceFailed("none of the files has a line: give a schema, or skip empty files by the watcher's min_size")
