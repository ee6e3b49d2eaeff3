"""The task side of writing a Delta or Iceberg table: files at their final paths, which nobody reads before a commit names them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
from obstore.store import LocalStore
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from asset_job.errors import TargetFailed
from asset_job.sources.s3_objects import S3Access, first_line
from asset_job.tables.layout import TableLocation
from asset_job.tables.parquet.bounds import Bounds
from asset_job.tables.parquet.parquet_files import ParquetFile, parquet_files

_MOST_FILES = 100_000
"""The number of files that one task may write."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """A Parquet file that a task wrote for a table."""

    name: str
    """The file's name below the table's data folder."""
    size: int
    """Bytes."""
    rows: int
    values: Sequence[str | None]
    """The values of the columns that the table is partitioned by, in their order; None is null."""
    bounds: Mapping[str, Bounds]
    """Column -> its bounds. A decimal in them is a text when the file comes from JSON."""

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> DataFile:
        """The file that `asdict` made into JSON."""
        return cls(
            name=content["name"],
            size=content["size"],
            rows=content["rows"],
            values=content["values"],
            bounds={name: Bounds.from_json(each) for name, each in content["bounds"].items()},
        )


@dataclass(frozen=True, kw_only=True)
class TableStorage:
    """A folder on this machine or a prefix in a bucket, as driver and executors reach it."""

    location: TableLocation
    access: S3Access | None
    """None: `location` is a folder."""

    def put(self, name: str, content: Path | bytes, *, mode: str = "overwrite") -> None:
        obstore.put(self._store, self._key(name), content, mode=mode)  # type: ignore[arg-type]

    def get(self, name: str) -> bytes:
        return bytes(obstore.get(self._store, self._key(name)).bytes())

    def delete(self, name: str) -> None:
        obstore.delete(self._store, self._key(name))

    def names(self) -> list[str]:
        """The names directly inside the location."""
        if self.access is None and not Path(self.location.path).is_dir():
            return []
        listed = obstore.list_with_delimiter(self._store, self._key("") or None)
        keys = [*listed["common_prefixes"], *(item["path"] for item in listed["objects"])]
        return [key.rstrip("/").rpartition("/")[2] for key in keys]

    @property
    def _store(self) -> Any:
        if self.access is None:
            return LocalStore(self.location.path, mkdir=True)
        return self.access.store(str(self.location.bucket))

    def _key(self, name: str) -> str:
        return name if self.access is None else self.location.inside(name)


@dataclass
class WrittenDataFiles(WriterCommitMessage):
    """What one task reports to the driver: the files of its successful attempt."""

    files: Sequence[DataFile]


@dataclass(frozen=True, kw_only=True)
class DataFileWriter(DataSourceArrowWriter):
    """The writer that Spark sends to its tasks, for a table that commits versions.

    Batches hold the columns of the data first, then a text column for each column to partition by. They are sorted by
    these text columns.
    """

    storage: TableStorage
    prefix: str
    """How the names of this try's files begin."""
    columns: int
    """How many columns of data there are."""
    schema: pa.Schema | None
    """The schema of the files, if it differs from the frame's."""
    result: str
    """A file on the driver's machine; `commit` lists the written files there as JSON."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenDataFiles:
        context = TaskContext.get()
        first = _MOST_FILES * (context.taskAttemptId() if context else 0)
        files = parquet_files(iterator, self.columns, self.schema)
        return WrittenDataFiles([self._upload(file, number) for number, file in enumerate(files, start=first)])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """List the files for the driver. Spark calls this in another process on the driver's machine."""
        files = [
            asdict(file) for message in messages if isinstance(message, WrittenDataFiles) for file in message.files
        ]
        Path(self.result).write_text(json.dumps(files, default=str), encoding="utf-8")

    def _upload(self, file: ParquetFile, number: int) -> DataFile:
        name = f"{self.prefix}{number}.parquet"
        try:
            self.storage.put(name, file.path)
        except (obstore.exceptions.BaseError, OSError) as error:
            raise TargetFailed(f"{self.storage.location} cannot be written: {first_line(error)}") from None
        return DataFile(name=name, size=file.size, rows=file.rows, values=file.values, bounds=file.bounds)
