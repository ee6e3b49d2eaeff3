"""Parquet tables on S3 without extra jars: executors upload files to where readers do not look, the driver commits by copying."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import obstore
import pyarrow as pa
from obstore import exceptions
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from asset_job.errors import SourceFailed, TargetFailed
from asset_job.sources.arrow import registered
from asset_job.sources.request import ReadRequest, S3File, quoted
from asset_job.sources.s3_objects import S3Access, first_line
from asset_job.tables.columns import check_format
from asset_job.tables.layout import (
    OWNER,
    StagedFile,
    TargetTable,
    is_of_another_run,
    partition_aliases,
    partition_folder,
)
from asset_job.tables.parquet.data_files import TableStorage
from asset_job.tables.parquet.parquet_files import ParquetFile, parquet_files

if TYPE_CHECKING:
    from obstore.store import S3Store
    from pyspark.sql import DataFrame, SparkSession

_MANIFEST = "_manifest.json"
_AT_ONCE = 16
"""How many files are copied at a time."""


@dataclass
class WrittenStagedFiles(WriterCommitMessage):
    """What one task reports to the driver: the files of its successful attempt."""

    files: Sequence[StagedFile]


@dataclass(frozen=True, kw_only=True)
class S3Writer(DataSourceArrowWriter):
    """The writer that Spark sends to its tasks, for a Parquet table on S3.

    Batches hold the columns `data` first, then a text column for each of `partition_by`. They are sorted by these text
    columns.
    """

    access: S3Access
    bucket: str
    staging: str
    data: Sequence[str]
    partition_by: Sequence[str]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write files to the local disk, one at a time, and upload each when it is complete."""
        return WrittenStagedFiles([self._upload(file) for file in parquet_files(iterator, len(self.data))])

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """List the files for the driver in an object. Spark calls this in another process on the driver's machine."""
        files = [
            asdict(file) for message in messages if isinstance(message, WrittenStagedFiles) for file in message.files
        ]
        obstore.put(self.access.store(self.bucket), f"{self.staging}/{_MANIFEST}", json.dumps(files).encode())

    def _upload(self, file: ParquetFile) -> StagedFile:
        folder = partition_folder(self.partition_by, file.values)
        path = f"{folder}/{file.path.name}" if folder else file.path.name
        try:
            obstore.put(self.access.store(self.bucket), f"{self.staging}/{path}", file.path)
        except (exceptions.BaseError, OSError) as error:
            fault = f"s3://{self.bucket}/{self.staging} cannot be written: {first_line(error)}"
            raise SourceFailed(fault) from None
        return StagedFile(path=path, rows=file.rows)


@dataclass(frozen=True, kw_only=True)
class S3Table(TargetTable):
    """A Parquet table on S3."""

    access: S3Access

    def prepare(self) -> None:
        with self._write_errors():
            check_format(
                TableStorage(location=self.location, access=self.access).names(), "parquet", str(self.location)
            )
            recorded = self._read(f"{self.part}/{OWNER}")
            self.owner.check(None if recorded is None else json.loads(recorded), str(self.location))
            self._delete(self._keys(self.attempts))

    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        from pyspark.sql.functions import col  # noqa: PLC0415 - kept out of what executors import

        lower = {name.lower() for name in partition_by}
        data = [name for name in frame.columns if name.lower() not in lower]
        folders = partition_aliases(frame.columns, partition_by)
        chosen = frame.select(
            *(col(quoted(name)) for name in data),
            *(col(quoted(name)).cast("string").alias(alias) for name, alias in zip(partition_by, folders, strict=True)),
        )
        ordered = chosen.sortWithinPartitions(*folders) if folders else chosen
        writer = S3Writer(
            access=self.access, bucket=self._bucket, staging=self.staged, data=data, partition_by=list(partition_by)
        )
        ordered.write.format(registered(frame.sparkSession, "s3table", writer=writer)).mode("append").save()

    def rows_of_other_runs(
        self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]
    ) -> DataFrame | None:
        from asset_job.sources.formats import ParquetFormat  # noqa: PLC0415 - kept out of what executors import
        from asset_job.sources.frames import FileFrames  # noqa: PLC0415

        with self._write_errors():
            files = [
                S3File(bucket=self._bucket, key=listed["path"], size=listed["size"], etag=tag.strip('"'))
                for page in obstore.list(self._store, self.location.path)
                for listed in page
                for tag in [listed["e_tag"] or ""]
                if is_of_another_run(listed["path"].removeprefix(self.location.path).lstrip("/"), self.owner.part)
            ]
        if not files:
            return None
        ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        parquet = ParquetFormat(from_path=tuple(name for name in partition_by if name in columns))
        return FileFrames(ReadRequest(spark=spark, schema=ddl), self.access, files, parquet).frame()

    def commit(self, rows: int) -> None:
        """Copy what was staged to the run's part.

        Only the copy of each file is atomic: readers see the part grow. The owner's file is written after the rows.
        """
        with self._write_errors():
            listed = json.loads(self._read(f"{self.staged}/{_MANIFEST}") or b"[]")
            files = [StagedFile(path=file["path"], rows=file["rows"]) for file in listed]
            if sum(file.rows for file in files) != rows:
                raise TargetFailed(
                    f"{self.location} was not changed, because files that were written for it are missing: retry the run"
                )
            # Deletes first, then copies: a reader may miss rows in between, but never sees one twice.
            self._delete(self._keys(self.part))
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(self._publish, files))
            obstore.put(self._store, f"{self.part}/{OWNER}", json.dumps(asdict(self.owner)).encode())
            self._delete(self._keys(self.attempts))

    def commit_empty(self) -> None:
        with self._write_errors():
            self._delete([*self._keys(self.part), *self._keys(self.attempts)])

    @property
    def _bucket(self) -> str:
        return str(self.location.bucket)

    @property
    def _store(self) -> S3Store:
        return self.access.store(self._bucket)

    def _keys(self, prefix: str) -> list[str]:
        """The keys below a prefix. Obstore takes a prefix for a folder: `run=a` does not match `run=ab`."""
        return [listed["path"] for page in obstore.list(self._store, prefix) for listed in page]

    def _publish(self, file: StagedFile) -> None:
        obstore.copy(self._store, f"{self.staged}/{file.path}", f"{self.part}/{file.path}")

    def _delete(self, keys: Iterable[str]) -> None:
        if to_delete := list(keys):
            obstore.delete(self._store, to_delete)

    def _read(self, key: str) -> bytes | None:
        """The content of an object; None if there is none."""
        try:
            return bytes(obstore.get(self._store, key).bytes())
        except FileNotFoundError:
            return None

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise TargetFailed(f"{self.location} cannot be written: {first_line(error)}") from None
