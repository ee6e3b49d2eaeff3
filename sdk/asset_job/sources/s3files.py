"""`s3files`: a data source for exactly the given versions of objects on S3, as lines of text or as columns of Parquet files."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa
from obstore.store import ObjectStore
from pyspark.sql.datasource import DataSourceReader, InputPartition

from asset_job.errors import FileUnreadable
from asset_job.sources.arrow import LINES, array_of_lines, whole_lines
from asset_job.sources.csv_header import Header, first_content
from asset_job.sources.request import S3File
from asset_job.sources.s3_objects import PinnedObject, S3Access, errors_naming, fetched_ahead, pieces
from asset_job.tables.layout import partition_values

log = logging.getLogger("asset_job")

ReadFile: TypeAlias = Callable[[ObjectStore, S3File], Iterator[pa.RecordBatch]]
_BATCH_ROWS = 65_536
_TOGETHER = 32 << 20
"""Bytes of a Parquet file that are fetched at once, unless a single row group is larger."""


@dataclass(frozen=True, kw_only=True)
class S3FilesReader(DataSourceReader):
    """Reads one share of the files in each task."""

    access: S3Access
    shares: Sequence[Sequence[S3File]]
    read_file: ReadFile
    skip: bool
    """Whether a file of which nothing can be read is skipped, with a warning in the log."""

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(share) for share in self.shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for file, locate in fetched_ahead(self.access, partition.value):
            begun = False
            try:
                with errors_naming(file):
                    for batch in self.read_file(*locate()):
                        begun = True
                        yield batch
            except FileUnreadable as error:
                if begun or not self.skip:
                    raise
                log.warning("skipped: %s", error)


@dataclass(frozen=True, kw_only=True)
class ReadLines:
    """Reads lines of text."""

    header: Header | None = None
    """The header of CSV files, which is dropped."""

    def __call__(self, store: ObjectStore, file: S3File) -> Iterator[pa.RecordBatch]:
        texts = whole_lines(pieces(store, file), has_start=file.has_start)
        for lines in texts if self.header is None else self.header.after(texts, file):
            yield pa.record_batch([array_of_lines(lines)], schema=LINES)


def first_line_of(access: S3Access, file: S3File, comment: str | None) -> str | None:
    """The first line that is neither blank nor a comment; None if there is no such line."""
    for lines in whole_lines(pieces(access.store(file.bucket), file)):
        if (content := first_content(lines, comment)) is not None:
            return content[0]
    return None


@dataclass(frozen=True, kw_only=True)
class ReadParquet:
    """Reads columns of Parquet files by name, and casts them to `schema` if that loses nothing. Missing columns are null."""

    schema: pa.Schema
    from_path: Sequence[str] = ()
    """The columns whose values are in the file's path, as in a table's partitions, and not in the file."""

    def __call__(self, store: ObjectStore, file: S3File) -> Iterator[pa.RecordBatch]:
        parquet = open_parquet(store, file)
        constants = {name: value for name, value in partition_values(file.key).items() if name in self.from_path}
        names = _names_in(parquet.schema_arrow, [name for name in self.schema.names if name not in constants])
        for groups in _read_together(_groups_of(parquet.metadata, file)):
            for batch in parquet.iter_batches(
                batch_size=_BATCH_ROWS,
                row_groups=groups,
                columns=list(names.values()),
                use_threads=False,  # a task has one core
            ):
                columns = [
                    _repeated(constants[field.name], field.type, batch.num_rows)
                    if field.name in constants
                    else _column(batch, names.get(field.name), field)
                    for field in self.schema
                ]
                yield pa.record_batch(columns, schema=self.schema)


def _read_together(groups: Iterator[tuple[int, int]]) -> Iterator[list[int]]:
    """Group row groups, given with their sizes in bytes, into those that are fetched at once and share memory until all are read."""
    together: list[int] = []
    room = _TOGETHER
    for group, size in groups:
        if together and size > room:
            yield together
            together, room = [], _TOGETHER
        together.append(group)
        room -= size
    if together:
        yield together


def _groups_of(metadata: Any, file: S3File) -> Iterator[tuple[int, int]]:
    """The row groups of a file's part, each with its size in bytes. As in Spark, a group belongs to the part with its middle."""
    begins = [_begin_of(metadata.row_group(group)) for group in range(metadata.num_row_groups)]
    for group, (begin, end) in enumerate(pairwise([*begins, file.size])):
        middle = min(begin + end, 2 * file.size - 1) // 2
        if file.part is None or file.part[0] <= middle < file.part[1]:
            yield group, end - begin


def _begin_of(group: Any) -> int:
    if group.num_columns == 0:
        return 0
    chunk = group.column(0)
    return int(chunk.dictionary_page_offset or chunk.data_page_offset)


def _names_in(schema: pa.Schema, columns: Sequence[str]) -> dict[str, str]:
    """The columns' names in a file. As in Spark, case does not matter unless it distinguishes two columns."""
    by_lower = {name.lower(): name for name in schema.names}
    names = {name: name if name in schema.names else by_lower.get(name.lower()) for name in columns}
    return {name: in_file for name, in_file in names.items() if in_file is not None}


def _repeated(value: str | None, kind: pa.DataType, count: int) -> pa.Array:
    return pa.array([value], pa.string()).take(pa.repeat(0, count)).cast(kind)


def _column(batch: pa.RecordBatch, name: str | None, field: pa.Field) -> pa.Array:
    if name is None:
        return pa.nulls(batch.num_rows, field.type)
    column = batch.column(name)
    moments = pa.types.is_timestamp(column.type) and pa.types.is_timestamp(field.type)
    try:
        return column.cast(field.type, safe=not moments)  # Spark has no nanoseconds, so they may be lost
    except pa.ArrowException as error:
        raise ValueError(f"its column {field.name} does not fit the schema: {error}") from error


def open_parquet(store: ObjectStore, file: S3File) -> Any:
    from pyarrow import parquet  # noqa: PLC0415 - a large module, of no use to lines

    return parquet.ParquetFile(pa.PythonFile(PinnedObject(store, file), mode="r"), pre_buffer=True)


def parquet_columns(access: S3Access, file: S3File) -> pa.Schema:
    """A Parquet file's columns. Columns that Arrow stores as dictionaries become plain values, because Spark has no dictionaries."""
    schema = open_parquet(access.store(file.bucket), file).schema_arrow
    plain = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    return pa.schema(plain)
