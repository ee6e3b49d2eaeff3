"""What the tasks do that write into a Delta or Iceberg table: files at their final place, which nobody reads before a commit names them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
from obstore.store import LocalStore
from pyarrow import parquet
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from ..errors import TargetFailed
from ..sources.s3_objects import S3Access, first_line
from .layout import Place
from .parquet_files import ParquetFile, parquet_files

_MOST_FILES = 100_000
"""Of one task."""


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """`name` below the folder of the data; `values` of the columns that the table is partitioned by."""

    name: str
    size: int
    rows: int
    values: Sequence[str | None]
    with_nan: Sequence[str]
    footer: str = field(repr=False)
    """Parquet's own metadata, with the statistics of the columns; in Base64."""

    @cached_property
    def metadata(self) -> Any:
        return parquet.read_metadata(pa.BufferReader(base64.b64decode(self.footer)))


@dataclass(frozen=True, kw_only=True)
class Storage:
    """A folder of this machine, or a prefix of a bucket, as driver and executors reach it."""

    place: Place
    access: S3Access | None
    """None: a folder."""

    def put(self, name: str, content: Path | bytes, *, mode: str = "overwrite") -> None:
        obstore.put(self._store, self._key(name), content, mode=mode)  # type: ignore[arg-type]

    def delete(self, name: str) -> None:
        obstore.delete(self._store, self._key(name))

    def names(self) -> list[str]:
        """What is directly inside."""
        if self.access is None and not Path(self.place.path).is_dir():
            return []
        listed = obstore.list_with_delimiter(self._store, self._key("") or None)
        keys = [*listed["common_prefixes"], *(item["path"] for item in listed["objects"])]
        return [key.rstrip("/").rpartition("/")[2] for key in keys]

    @property
    def _store(self) -> Any:
        if self.access is None:
            return LocalStore(self.place.path, mkdir=True)
        return self.access.store(str(self.place.bucket))

    def _key(self, name: str) -> str:
        return name if self.access is None else self.place.inside(name)


@dataclass
class Written(WriterCommitMessage):
    """The files of one task's only attempt that counts."""

    files: Sequence[DataFile]


@dataclass(frozen=True, kw_only=True)
class DataFileWriter(DataSourceArrowWriter):
    """So many `columns` come first, then one of text for each to partition by, sorted by these."""

    storage: Storage
    prefix: str
    columns: int
    schema: pa.Schema | None
    """Of the files, where it is another than the frame's."""
    result: str
    """A file of the driver's machine, where it finds what was written."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        first = _MOST_FILES * (context.taskAttemptId() if context else 0)
        files = parquet_files(iterator, self.columns, self.schema)
        return Written([self._upload(file, number) for number, file in enumerate(files, start=first)])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Runs in a process beside the driver."""
        files = [asdict(file) for message in messages if isinstance(message, Written) for file in message.files]
        Path(self.result).write_text(json.dumps(files), encoding="utf-8")

    def _upload(self, file: ParquetFile, number: int) -> DataFile:
        name = f"{self.prefix}{number}.parquet"
        try:
            self.storage.put(name, file.path)
        except (obstore.exceptions.BaseError, OSError) as error:
            raise TargetFailed(f"{self.storage.place} cannot be written: {first_line(error)}") from None
        return data_file(file.path, name, file.values, sorted(file.with_nan))


def data_file(path: Path, name: str, values: Sequence[str | None], with_nan: Sequence[str] = ()) -> DataFile:
    """Of a complete Parquet file."""
    metadata, footer = parquet.read_metadata(path), pa.BufferOutputStream()
    metadata.write_metadata_file(footer)
    return DataFile(
        name=name,
        size=path.stat().st_size,
        rows=metadata.num_rows,
        values=list(values),
        with_nan=list(with_nan),
        footer=base64.b64encode(footer.getvalue()).decode(),
    )
