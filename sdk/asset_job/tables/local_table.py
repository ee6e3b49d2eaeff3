"""A table in a folder of this machine, or one that driver and executors share: Spark writes, a rename commits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TargetFailed
from ..sources.readers import literal_path
from ..sources.request import quoted
from .columns import check_format
from .layout import OWNER, RUN, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class LocalTable(Table):
    def prepare(self) -> None:
        try:
            check_format([path.name for path in Path(self.place.path).glob("*")], "parquet", str(self.place))
            self.owner.check(_owner_in(Path(self.part)), str(self.place))
            shutil.rmtree(self.attempts, ignore_errors=True)
        except OSError as error:
            raise TargetFailed(f"{self.place} cannot be written: {error.strerror}") from None

    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        frame.write.partitionBy(*partition_by).parquet(f"file://{self.staged}")  # as it is: Hadoop decodes nothing

    def others(self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]) -> DataFrame | None:  # noqa: ARG002 - Spark finds them
        parts = [
            part
            for part in Path(self.place.path).glob(f"{RUN}=*")
            if part.name != self.owner.part and any(part.rglob("*.parquet"))
        ]
        if not parts:
            return None
        ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in columns.items())
        paths = [f"file://{literal_path(str(part))}" for part in parts]
        return spark.read.schema(ddl).option("basePath", f"file://{self.place.path}").parquet(*paths)

    def commit(self, rows: int) -> None:
        """Two renames when the run has a part already: between them a reader sees none of it."""
        staged = Path(self.staged)
        if rows and not any(staged.rglob("*.parquet")):
            raise TargetFailed(f"{self.place} is on the executors' disks, not on the driver's: share it, or use s3:")
        (staged / OWNER).write_text(json.dumps(asdict(self.owner)), encoding="utf-8")
        self._set_aside()
        staged.rename(self.part)
        shutil.rmtree(self.attempts, ignore_errors=True)

    def withdraw(self) -> None:
        self._set_aside()
        shutil.rmtree(self.attempts, ignore_errors=True)

    def _set_aside(self) -> None:
        """The part that the run has already, if it has one."""
        part, attempts = Path(self.part), Path(self.attempts)
        if part.exists():
            attempts.mkdir(parents=True, exist_ok=True)
            part.rename(attempts / f"{self.attempt}.replaced")


def _owner_in(part: Path) -> dict[str, Any] | None:
    try:
        owner: dict[str, Any] = json.loads((part / OWNER).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return owner
