"""A table in a folder of this machine, or one that driver and executors share: Spark writes, a rename commits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import TargetFailed
from ..sources.readers import literal_path
from ..sources.request import quoted
from .layout import OWNER, RUN, STAGING, Owner, Place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, kw_only=True)
class LocalTable:
    place: Place
    owner: Owner
    attempt: str
    """Unique to this try."""

    def prepare(self) -> None:
        """What earlier tries of the run left behind is removed. Raises `TargetFailed`."""
        try:
            self.owner.check(_owner_in(self._part), str(self.place))
            shutil.rmtree(self._attempts, ignore_errors=True)
        except OSError as error:
            raise TargetFailed(f"{self.place} cannot be written: {error.strerror}") from None

    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        frame.write.partitionBy(*partition_by).parquet(f"file://{self._staged}")  # as it is: Hadoop decodes nothing

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
        if rows and not any(self._staged.rglob("*.parquet")):
            raise TargetFailed(f"{self.place} is on the executors' disks, not on the driver's: share it, or use s3:")
        (self._staged / OWNER).write_text(json.dumps(asdict(self.owner)), encoding="utf-8")
        if self._part.exists():
            self._part.rename(self._attempts / f"{self.attempt}.replaced")
        self._staged.rename(self._part)
        shutil.rmtree(self._attempts, ignore_errors=True)

    def withdraw(self) -> None:
        """Without rows: the run has no part, whatever it had before."""
        if self._part.exists():
            self._attempts.mkdir(parents=True, exist_ok=True)
            self._part.rename(self._attempts / f"{self.attempt}.replaced")
        shutil.rmtree(self._attempts, ignore_errors=True)

    @property
    def _part(self) -> Path:
        return Path(self.place.path) / self.owner.part

    @property
    def _attempts(self) -> Path:
        return Path(self.place.path) / STAGING / self.owner.part

    @property
    def _staged(self) -> Path:
        return self._attempts / self.attempt


def _owner_in(part: Path) -> dict[str, Any] | None:
    try:
        owner: dict[str, Any] = json.loads((part / OWNER).read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return owner
