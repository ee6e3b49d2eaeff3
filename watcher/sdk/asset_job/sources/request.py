"""What is asked for when something is to be read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from ..errors import AssetJobError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FORMATS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".txt": "text", ".parquet": "parquet"}
_PACKED = {".gz", ".bz2", ".zst", ".lz4"}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How one thing is to be read. `schema` is Spark's DDL; `options` are those of Spark's reader of the format."""

    spark: SparkSession
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: str | None = None
    schema: Any = None
    connection: str | None = None
    missing: Literal["fail", "skip"] = "fail"
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tasks(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def format_of(self, names: Sequence[str]) -> str:
        """The one asked for, else the one that all the files' names say. Raises `AssetJobError`."""
        found = {self.format} if self.format else {format_by_name(name) for name in names}
        kind = found.pop()
        if found or kind not in _FORMATS.values():
            raise AssetJobError(f"say how to read {names[0]} by format=: json, csv, text or parquet")
        return str(kind)

    def nothing(self) -> DataFrame:
        if self.schema is None:
            raise AssetJobError(
                "there is nothing to read, and no schema to say of which columns: skip the run, or give one"
            )
        return self.spark.createDataFrame([], self.schema)

    def has_jar(self, name: str) -> bool:
        """Whether the job brings Spark's own way along, by `packages` or `jars`."""
        conf = self.spark.sparkContext.getConf()
        jars = ",".join(conf.get(key) or "" for key in ("spark.jars", "spark.jars.packages")).split(",")
        return any(name in PurePosixPath(jar).name for jar in jars)


def format_by_name(name: str) -> str | None:
    """None when the name does not say."""
    endings = [ending for ending in PurePosixPath(name.lower()).suffixes if ending not in _PACKED]
    return _FORMATS.get(endings[-1]) if endings else None


def quoted(name: str) -> str:
    """A column's name for Spark, whatever is in it."""
    return f"`{name.replace('`', '``')}`"
