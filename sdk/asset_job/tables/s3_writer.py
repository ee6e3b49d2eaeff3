"""What the tasks do that write a table on S3: Parquet files, uploaded under names that no other attempt has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import obstore
import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..errors import SourceFailed
from ..sources.s3_objects import S3Access, first_line
from .layout import StagedFile, partition_folder
from .parquet_files import ParquetFile, parquet_files

MANIFEST = "_manifest.json"


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
        return Written([self._upload(file) for file in parquet_files(iterator, len(self.data))])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs in a process beside the driver, which reads the result from a file."""
        files = [asdict(file) for message in messages if isinstance(message, Written) for file in message.files]
        obstore.put(self.access.store(self.bucket), f"{self.staging}/{MANIFEST}", json.dumps(files).encode())

    def _upload(self, file: ParquetFile) -> StagedFile:
        folder = partition_folder(self.partition_by, file.values)
        path = f"{folder}/{file.path.name}" if folder else file.path.name
        try:
            obstore.put(self.access.store(self.bucket), f"{self.staging}/{path}", file.path)
        except (obstore.exceptions.BaseError, OSError) as error:
            fault = f"s3://{self.bucket}/{self.staging} cannot be written: {first_line(error)}"
            raise SourceFailed(fault) from None
        return StagedFile(path=path, rows=file.rows)
