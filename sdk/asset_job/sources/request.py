"""What is to be read, how, and through which of the job's connections. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ..errors import AssetJobError
from ..events import AssetEvent

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FORMATS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".txt": "text", ".parquet": "parquet"}
_PACKED = {".gz", ".bz2", ".zst", ".lz4"}


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
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
        """The requested format, else the one that the names of all files imply. Raises `AssetJobError`."""
        formats = {self.format} if self.format else {format_by_name(name) for name in names}
        kind = formats.pop()
        if formats or kind not in _FORMATS.values():
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


@dataclass(frozen=True, kw_only=True)
class S3File:
    """One version of one object. `etag` None: whichever version is there."""

    bucket: str
    key: str
    size: int
    etag: str | None
    part: tuple[int, int] | None = None
    """Of a large file, what one task reads of it: what begins at one of these bytes, the second excluded. None: all."""

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    @property
    def has_start(self) -> bool:
        """Whether what is read of it begins where the file does."""
        return self.part is None or self.part[0] == 0


@dataclass(frozen=True, kw_only=True)
class LocalFile:
    path: str
    size: int | None


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Rows of one table: by ranges of ids, both ends inclusive, or by primary keys (a list each when it has several columns)."""

    table: str
    column: str
    ranges: tuple[tuple[int, int], ...] = ()
    keys: tuple[Any, ...] = ()


Items: TypeAlias = "Sequence[S3File] | Sequence[LocalFile] | Rows"


def items_of(given: Any, events: Iterable[AssetEvent], table: str | None = None) -> Items:
    """Of what `r.read` is given: files, ranges, or events. `events` are the run's, which know the table of bare ranges.

    Raises `AssetJobError` where it is not one kind of one place.
    """
    if isinstance(given, Mapping):
        given = [event for of_asset in given.values() for event in of_asset]
    given = list(given)
    if all(isinstance(item, AssetEvent) for item in given):
        return _of_events(given, table)
    if all(isinstance(item, Mapping) for item in given):
        return _files(given)
    if all(_is_range(item) for item in given):
        name, column = _place([event for event in events if "ranges" in event.extra], table)
        return Rows(table=name, column=column, ranges=tuple((int(low), int(high)) for low, high in given))
    raise AssetJobError("r.read takes files, ranges of ids, or events of this run: r.triggering_asset_events.files()")


def _of_events(events: Sequence[AssetEvent], table: str | None) -> Items:
    files = [file for event in events for file in event.extra.get("files", ())]
    of_rows = [event for event in events if "ranges" in event.extra or "keys" in event.extra]
    if files and of_rows:
        raise AssetJobError("these events tell of files and of rows: read one asset's events at a time")
    if files or not of_rows:
        return _files(files)
    name, column = _place(of_rows, table)
    return Rows(
        table=name,
        column=column,
        ranges=tuple((low, high) for event in of_rows for low, high in event.extra.get("ranges", ())),
        keys=tuple(
            tuple(key) if isinstance(key, list) else key for event in of_rows for key in event.extra.get("keys", ())
        ),
    )


def _place(events: Sequence[AssetEvent], table: str | None) -> tuple[str, str]:
    places = {(event.extra["table"], event.extra["column"]) for event in events}
    if table is not None:
        places = {place for place in places if place[0] == table} or {(table, "id")}
    if len(places) != 1:
        tables = ", ".join(sorted(table for table, _ in places)) or "none"
        raise AssetJobError(
            f"say which table is meant, as in r.read(…, table='public.orders'): the events name {tables}"
        )
    return places.pop()


def _files(given: Sequence[Mapping[str, Any]]) -> Sequence[S3File] | Sequence[LocalFile]:
    if all("path" in file for file in given):
        return [LocalFile(path=file["path"], size=file.get("size")) for file in given]
    if all("key" in file for file in given):
        files = (
            S3File(bucket=file["bucket"], key=file["key"], size=int(file.get("size") or 0), etag=file.get("etag"))
            for file in given
        )
        return list(dict.fromkeys(files))
    raise AssetJobError("these files are partly local, partly on S3: read one asset's files at a time")


def _is_range(item: Any) -> bool:
    return isinstance(item, Sequence) and len(item) == 2 and all(isinstance(end, int) for end in item)  # noqa: PLR2004


_WORDS = {"s3": "S3", "postgres": "PostgreSQL", "iceberg": "Iceberg"}


def connection_of(connections: Mapping[str, Mapping[str, Any]], kind: str, name: str | None) -> Mapping[str, Any]:
    """The one called `name`, or else the only one of its kind (`s3`, `postgres`). Raises `AssetJobError`."""
    fitting = {known: values for known, values in connections.items() if values.get("type") == kind}
    if name is None and len(fitting) == 1:
        return next(iter(fitting.values()))
    if name in fitting:
        return fitting[name]
    if not fitting:
        raise AssetJobError(f"the job has no {_WORDS[kind]} connection: name one in its spark.connections")
    names = ", ".join(fitting)
    raise AssetJobError(f"say which of the job's {_WORDS[kind]} connections is meant by connection=: {names}")
