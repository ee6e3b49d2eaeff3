"""What the tasks do that write a table on S3: Parquet files, uploaded under names that no other attempt has."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import uuid4

import obstore
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..errors import SourceFailed
from ..sources.s3_objects import S3Access, first_line
from .layout import StagedFile, partition_folder

MANIFEST = "_manifest.json"
_LARGEST_FILE = 256 << 20
_GROUP_ROWS = 1 << 17
_GROUP_BYTES = 64 << 20


@dataclass
class Written(WriterCommitMessage):
    """The files of one task's only attempt that counts."""

    files: Sequence[StagedFile]


@dataclass(frozen=True, kw_only=True)
class S3Writer(DataSourceArrowWriter):
    """Columns come as `data`, then one of text for each of `partition_by`, sorted by these."""

    access: S3Access
    bucket: str
    staging: str
    data: Sequence[str]
    partition_by: Sequence[str]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """At most one file is open; it is on the local disk until it is complete."""
        done: list[StagedFile] = []
        current: _File | None = None
        with tempfile.TemporaryDirectory() as folder, ExitStack() as open_files:
            for batch in iterator:
                for values, rows in _runs(batch, len(self.data)):
                    if current is not None and (current.values != values or current.size >= _LARGEST_FILE):
                        done.append(self._upload(current))
                        current = None
                    if current is None:
                        current = _File(Path(folder), values, rows.schema)
                        open_files.callback(current.close)
                    current.add(rows)
            if current is not None:
                done.append(self._upload(current))
        return Written(done)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs in a process beside the driver, which reads the result from a file."""
        files = [asdict(file) for message in messages if isinstance(message, Written) for file in message.files]
        obstore.put(self.access.store(self.bucket), f"{self.staging}/{MANIFEST}", json.dumps(files).encode())

    def _upload(self, file: _File) -> StagedFile:
        file.close()
        folder = partition_folder(self.partition_by, file.values)
        path = f"{folder}/{file.path.name}" if folder else file.path.name
        try:
            obstore.put(self.access.store(self.bucket), f"{self.staging}/{path}", file.path)
        except (obstore.exceptions.BaseError, OSError) as error:
            fault = f"s3://{self.bucket}/{self.staging} cannot be written: {first_line(error)}"
            raise SourceFailed(fault) from None
        file.path.unlink()
        return StagedFile(path=path, rows=file.rows)


class _File:
    """A Parquet file that is being written, in row groups that are worth having."""

    def __init__(self, folder: Path, values: tuple[str | None, ...], schema: pa.Schema) -> None:
        self.values = values
        self.path = folder / f"part-{uuid4().hex}.parquet"
        self.rows = 0
        self._writer = parquet.ParquetWriter(self.path, schema, store_schema=False)
        self._waiting: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
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
        return self.path.stat().st_size

    def _flush(self) -> None:
        self._writer.write_table(pa.Table.from_batches(self._waiting), row_group_size=self.rows)
        self._waiting = []


def _runs(batch: pa.RecordBatch, data: int) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """Pieces of a batch whose rows belong to one partition, with its values."""
    values = batch.columns[data:]
    rows = batch.select(range(data))
    ends = {end for column in values for end in pc.run_end_encode(column).run_ends.to_pylist()} | {batch.num_rows}
    start = 0
    for end in sorted(ends - {0}):
        yield tuple(column[start].as_py() for column in values), rows.slice(start, end - start)
        start = end
