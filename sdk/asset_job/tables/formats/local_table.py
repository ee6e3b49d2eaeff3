"""Parquet tables in a folder of this machine, or one that driver and executors share. Spark writes, a rename commits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, cast

from asset_job.errors import TargetFailed
from asset_job.sources.readers import literal_path
from asset_job.sources.request import quoted
from asset_job.tables.columns import check_format
from asset_job.tables.layout import OWNER, RUN, TargetTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_EXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # not INT96, which some read as another moment
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
}
_SETTINGS_CHANGE = Lock()
"""Held while a frame is written, because the settings are those of all threads of a session."""


class LocalTable(TargetTable):
    """A Parquet table in a folder."""

    def prepare(self) -> None:
        try:
            check_format([path.name for path in Path(self.location.path).glob("*")], "parquet", str(self.location))
            self.owner.check(_owner_in(Path(self.part)), str(self.location))
            shutil.rmtree(self.attempts, ignore_errors=True)
        except OSError as error:
            raise TargetFailed(f"{self.location} cannot be written: {error.strerror}") from None

    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        # Spark looks for 0.0 in a dictionary that has -0.0 only, and skips the rows.
        options = {f"parquet.enable.dictionary#{path}": "false" for path in _floats(frame.schema)}
        with _exact(frame.sparkSession):  # the path is not quoted: Hadoop decodes nothing
            frame.write.partitionBy(*partition_by).options(**options).parquet(f"file://{self.staged}")

    def rows_of_other_runs(
        self,
        spark: SparkSession,
        columns: Mapping[str, str],
        partition_by: Sequence[str],  # noqa: ARG002 - Spark finds the partitions
    ) -> DataFrame | None:
        parts = [
            part
            for part in Path(self.location.path).glob(f"{RUN}=*")
            if part.name != self.owner.part and any(part.rglob("*.parquet"))
        ]
        if not parts:
            return None
        ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        paths = [f"file://{literal_path(str(part))}" for part in parts]
        return spark.read.schema(ddl).option("basePath", f"file://{self.location.path}").parquet(*paths)

    def commit(self, rows: int) -> None:
        """Rename what was staged. If the run has a part already, that takes two renames, and between them readers see no part."""
        staged = Path(self.staged)
        if rows and not any(staged.rglob("*.parquet")):
            raise TargetFailed(
                f"{self.location} is on the executors' disks, not on the driver's: share the folder between them, or use s3:"
            )
        (staged / OWNER).write_text(json.dumps(asdict(self.owner)), encoding="utf-8")
        self._set_aside()
        staged.rename(self.part)
        shutil.rmtree(self.attempts, ignore_errors=True)

    def commit_empty(self) -> None:
        self._set_aside()
        shutil.rmtree(self.attempts, ignore_errors=True)

    def _set_aside(self) -> None:
        """Move the part that the run has already, if any, to where readers do not look."""
        part, attempts = Path(self.part), Path(self.attempts)
        if part.exists():
            attempts.mkdir(parents=True, exist_ok=True)
            part.rename(attempts / f"{self.attempt}.replaced")


def _floats(schema: StructType, prefix: str = "") -> Iterator[str]:
    """The paths of the columns of floating-point numbers by which Spark skips rows."""
    for field in schema:
        if field.dataType.typeName() == "struct":
            yield from _floats(cast("StructType", field.dataType), f"{prefix}{field.name}.")
        elif field.dataType.typeName() in {"float", "double"}:
            yield f"{prefix}{field.name}"


@contextmanager
def _exact(spark: SparkSession) -> Iterator[None]:
    """Let Spark write moments and days as other readers read them, whatever the session's settings."""
    with _SETTINGS_CHANGE:
        before = {name: spark.conf.get(name) for name in _EXACT}
        try:
            for name, value in _EXACT.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, earlier in before.items():
                spark.conf.set(name, str(earlier))


def _owner_in(part: Path) -> dict[str, Any] | None:
    """The owner that a part names; None if it names none."""
    try:
        owner: dict[str, Any] = json.loads((part / OWNER).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return owner
