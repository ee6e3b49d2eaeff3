"""A table on S3 without extra jars: executors upload what they write where readers do not look, the driver commits by copying."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import obstore
from obstore import exceptions

from ..errors import TargetFailed
from ..sources.arrow import registered
from ..sources.request import ReadRequest, S3File, quoted
from ..sources.s3_objects import S3Access, first_line
from .columns import check_format
from .data_files import Storage
from .layout import OWNER, StagedFile, Table, is_of_another_run
from .s3_writer import MANIFEST, S3Writer

if TYPE_CHECKING:
    from obstore.store import S3Store
    from pyspark.sql import DataFrame, SparkSession

_AT_ONCE = 16


@dataclass(frozen=True, kw_only=True)
class S3Table(Table):
    access: S3Access

    def prepare(self) -> None:
        with self._write_errors():
            check_format(Storage(place=self.place, access=self.access).names(), "parquet", str(self.place))
            recorded = self._read(f"{self.part}/{OWNER}")
            self.owner.check(None if recorded is None else json.loads(recorded), str(self.place))
            self._delete(self._keys(self.attempts))

    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        from pyspark.sql.functions import col  # noqa: PLC0415 - kept out of what executors import

        lower = {name.lower() for name in partition_by}
        data = [name for name in frame.columns if name.lower() not in lower]
        folders = [f"_partition_{at}" for at in range(len(partition_by))]
        chosen = frame.select(
            *(col(quoted(name)) for name in data),
            *(col(quoted(name)).cast("string").alias(alias) for name, alias in zip(partition_by, folders, strict=True)),
        )
        ordered = chosen.sortWithinPartitions(*folders) if folders else chosen
        writer = S3Writer(
            access=self.access, bucket=self._bucket, staging=self.staged, data=data, partition_by=list(partition_by)
        )
        ordered.write.format(registered(frame.sparkSession, "s3table", writer=writer)).mode("append").save()

    def others(self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]) -> DataFrame | None:
        from ..sources.s3_frames import S3Frames  # noqa: PLC0415 - kept out of what executors import

        with self._write_errors():
            files = [
                S3File(bucket=self._bucket, key=listed["path"], size=listed["size"], etag=tag.strip('"'))
                for page in obstore.list(self._store, self.place.path)
                for listed in page
                for tag in [listed["e_tag"] or ""]
                if is_of_another_run(listed["path"].removeprefix(self.place.path).lstrip("/"), self.owner.part)
            ]
        if not files:
            return None
        ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        frames = S3Frames(request=ReadRequest(spark=spark, schema=ddl), access=self.access, files=files)
        return frames.parquet(from_path=[name for name in partition_by if name in columns])

    def commit(self, rows: int) -> None:
        """Only the copy of each file is atomic: readers see the part grow. The owner's file is written after the rows."""
        with self._write_errors():
            files = [StagedFile(**file) for file in json.loads(self._read(f"{self.staged}/{MANIFEST}") or b"[]")]
            if sum(file.rows for file in files) != rows:
                raise TargetFailed(
                    f"{self.place} is as it was: what was written for it is not all there; repeat the run"
                )
            # Deletes first, then copies: a reader may miss rows in between, but never sees one twice.
            self._delete(self._keys(self.part))
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                list(threads.map(self._publish, files))
            obstore.put(self._store, f"{self.part}/{OWNER}", json.dumps(asdict(self.owner)).encode())
            self._delete(self._keys(self.attempts))

    def withdraw(self) -> None:
        with self._write_errors():
            self._delete([*self._keys(self.part), *self._keys(self.attempts)])

    @property
    def _bucket(self) -> str:
        return str(self.place.bucket)

    @property
    def _store(self) -> S3Store:
        return self.access.store(self._bucket)

    def _keys(self, prefix: str) -> list[str]:
        """Obstore takes a prefix for a folder: `run=a` does not find `run=ab`."""
        return [listed["path"] for page in obstore.list(self._store, prefix) for listed in page]

    def _publish(self, file: StagedFile) -> None:
        obstore.copy(self._store, f"{self.staged}/{file.path}", f"{self.part}/{file.path}")

    def _delete(self, keys: Iterable[str]) -> None:
        if doomed := list(keys):
            obstore.delete(self._store, doomed)

    def _read(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._store, key).bytes())
        except FileNotFoundError:
            return None

    @contextmanager
    def _write_errors(self) -> Iterator[None]:
        try:
            yield
        except (exceptions.BaseError, OSError, ValueError) as error:
            raise TargetFailed(f"{self.place} cannot be written: {first_line(error)}") from None
