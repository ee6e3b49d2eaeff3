"""Write Parquet files in tasks: each holds rows of one partition and is complete on the local disk before it is uploaded."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from asset_job.tables.parquet.bounds import Bounds, bounds_of

_LARGEST_FILE = 256 << 20
"""Bytes after which a new file begins."""
_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20
"""Rows and bytes, the one or the other, after which a row group is written."""
Values = tuple[str | None, ...]
"""The values of a partition, one for each column to partition by."""


class ParquetFile:
    """A Parquet file that is being written, with row groups of a useful size."""

    def __init__(self, folder: Path, values: Values, schema: pa.Schema) -> None:
        self.values = values
        self.path = folder / f"part-{uuid4().hex}.parquet"
        self.rows = 0
        self.bounds: dict[str, Bounds] = {}
        """The bounds of each column."""
        plain = _without_floats(schema)
        self._writer = parquet.ParquetWriter(
            self.path, schema, store_schema=False, write_statistics=plain, use_dictionary=plain
        )
        self._waiting: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """Take rows, and write a row group once enough of them wait."""
        self.rows += rows.num_rows
        self._waiting.append(rows)
        waiting = sum(batch.num_rows for batch in self._waiting), sum(batch.nbytes for batch in self._waiting)
        if waiting[0] >= _GROUP_ROWS or waiting[1] >= _GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()

    @property
    def size(self) -> int:
        """Bytes that are on the disk so far."""
        return self.path.stat().st_size

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        for name, column in zip(table.column_names, table.columns, strict=True):
            bounds = bounds_of(column)
            self.bounds[name] = self.bounds[name].joined(bounds) if name in self.bounds else bounds
        self._writer.write_table(table, row_group_size=self.rows)
        self._waiting = []


def parquet_files(
    batches: Iterable[pa.RecordBatch], columns: int, schema: pa.Schema | None = None
) -> Iterator[ParquetFile]:
    """Write batches into files of one partition each, and yield every file when it is complete.

    A batch has so many `columns` of data, then a text column for each column to partition by; batches are sorted by these
    text columns. With a `schema`, files have its columns, by name, and columns that a batch lacks are null. A file is
    removed when the next one is asked for.
    """
    current: ParquetFile | None = None
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_files:
        for batch in batches:
            for values, part in _runs(batch, columns):
                rows = part if schema is None else _aligned(part, schema)
                if current is not None and (current.values != values or current.size >= _LARGEST_FILE):
                    yield from _finished(current)
                    current = None
                if current is None:
                    current = ParquetFile(Path(folder), values, rows.schema)
                    open_files.callback(current.close)
                current.add(rows)
        if current is not None:
            yield from _finished(current)


def _without_floats(schema: pa.Schema) -> list[str]:
    """The paths of the columns that may have statistics and a dictionary.

    Statistics ignore NaN, which readers put above all numbers, and Spark looks for 0.0 in a dictionary that has -0.0 only.
    """
    sink = pa.BufferOutputStream()
    parquet.write_table(schema.empty_table(), sink)
    columns = parquet.read_metadata(pa.BufferReader(sink.getvalue())).schema
    return [column.path for column in columns if column.physical_type not in {"FLOAT", "DOUBLE"}]


def _finished(file: ParquetFile) -> Iterator[ParquetFile]:
    file.close()
    yield file
    file.path.unlink()


def _aligned(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    names = set(rows.schema.names)
    arrays = [
        rows.column(field.name).cast(field.type) if field.name in names else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _runs(batch: pa.RecordBatch, data: int) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Cut a batch, whose first `data` columns are data, where the partition changes. Yields each partition's values and rows."""
    values = batch.columns[data:]
    rows = batch.select(range(data))
    ends = {end for column in values for end in pc.run_end_encode(column).run_ends.to_pylist()} | {batch.num_rows}
    start = 0
    for end in sorted(ends - {0}):
        yield tuple(column[start].as_py() for column in values), rows.slice(start, end - start)
        start = end
