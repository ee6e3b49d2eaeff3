"""What a job asks to read, how, and through which of its connections. Importing this needs no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from asset_job.errors import AssetJobError
from asset_job.events import AssetEvent
from asset_job.sources.packing import without_packing
from asset_job.sources.table_names import table_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from asset_job.sources.options import ReadOptions


_FORMATS = {".json": "json", ".jsonl": "json", ".ndjson": "json", ".csv": "csv", ".txt": "text", ".parquet": "parquet"}
Reader = Literal["asset_job", "spark"]
PUT_BACK = "put it back and retry the run, or read with missing='skip'"
"""What to do about a file that is not the version that was detected."""
OnUnrepresentable = Literal["fail", "bad", "null", "text"]


@dataclass(frozen=True, kw_only=True)
class ReadRequest:
    """How something is to be read."""

    spark: SparkSession
    connections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    format: str | None = None
    """None: as the files' names imply."""
    schema: Any = None
    """Spark's DDL; None: inferred."""
    connection: str | None = None
    """The name of the connection; None: the only one of its kind."""
    missing: Literal["fail", "skip"] = "fail"
    reader: Reader = "asset_job"
    """What reads: this package, or Spark's own readers (s3a, JDBC), whose values may differ from the source's."""
    on_unrepresentable: OnUnrepresentable = "fail"
    """What becomes of a value of PostgreSQL that Spark has no value for."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options by Spark's names, see `options.NAMES`."""

    @property
    def tasks(self) -> int:
        """How many tasks run at the same time."""
        return self.spark.sparkContext.defaultParallelism

    def format_of(self, names: Sequence[str]) -> str:
        """The requested format, or else the format that the names of all files imply. Raises `AssetJobError`."""
        formats = {self.format} if self.format else {format_by_name(name) for name in names}
        kind = formats.pop()
        if formats or kind not in _FORMATS.values():
            raise AssetJobError(f"name the format of {names[0]} by format=: json, csv, text or parquet")
        return str(kind)

    def corrupt_column(self, options: ReadOptions) -> str | None:
        """The name of the column for the texts of bad records; None: no schema can have it, because there is none."""
        if self.schema is None:
            return None
        return options.corrupt_column or str(self.spark.conf.get("spark.sql.columnNameOfCorruptRecord"))

    def empty(self) -> DataFrame:
        """A DataFrame without rows. Raises `AssetJobError` if there is no schema to name its columns."""
        if self.schema is None:
            raise AssetJobError(
                "there is nothing to read, and no schema that names the columns: skip the run, or give a schema"
            )
        return self.spark.createDataFrame([], self.schema)


def format_by_name(name: str) -> str | None:
    """The format that a file's name implies; None if it implies none."""
    return _FORMATS.get(PurePosixPath(without_packing(name)).suffix)


def bad_column(names: Sequence[str], name: str = "bad") -> str:
    """The name of the column that tells what is wrong with a bad record, or of another, beside columns with these names."""
    taken = {each.lower() for each in names}
    while name in taken:
        name += "_"
    return name


def quoted(name: str) -> str:
    """A column's name, quoted for Spark."""
    return f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, kw_only=True)
class S3File:
    """One version of one object on S3, or the part of it that one task reads."""

    bucket: str
    key: str
    size: int
    etag: str | None
    """None: any version."""
    part: tuple[int, int] | None = None
    """The bytes, the second excluded, at which the lines or row groups of the part begin. None: the whole file."""
    moved_from: str | None = None
    """The URL at which it was detected, if it was moved since."""

    @property
    def name(self) -> str:
        """The URL at which it was detected."""
        return self.moved_from or self.address

    @property
    def address(self) -> str:
        """The URL at which it is read."""
        return f"s3://{self.bucket}/{self.key}"

    @property
    def is_pinned(self) -> bool:
        """Whether all requests get the same version, so that tasks may read parts of it."""
        return self.etag is not None


@dataclass(frozen=True, kw_only=True)
class LocalSourceFile:
    """A file on this machine, or in a folder that driver and executors share."""

    path: str
    size: int
    modified: int | None = None
    """When it was changed, in microseconds since 1970; None: any time."""
    inode: int | None = None
    """None: any, as in events of earlier versions."""
    part: tuple[int, int] | None = None
    """The bytes that one task reads, as of `S3File`."""
    moved_from: str | None = None
    """The path at which it was detected, if it was moved since."""

    @property
    def name(self) -> str:
        """The path at which it was detected."""
        return self.moved_from or self.path

    @property
    def address(self) -> str:
        """The path at which it is read."""
        return self.path

    @property
    def is_pinned(self) -> bool:
        """Whether each task checks that it reads the same version."""
        return self.modified is not None


SourceFile: TypeAlias = S3File | LocalSourceFile


@dataclass(frozen=True, kw_only=True)
class RowSelection:
    """Rows of one table, selected by ranges of ids or by primary keys."""

    table: str
    """`schema.table` or `"schema"."table"`, as the watcher writes it."""
    column: str
    """The column of the ids."""
    ranges: tuple[tuple[int, int], ...] = ()
    """Ranges of ids, both ends inclusive."""
    keys: tuple[Any, ...] = ()
    """Primary keys; a key of several columns is a tuple."""


Items: TypeAlias = "Sequence[S3File] | Sequence[LocalSourceFile] | RowSelection"


def items_of(given: Any, events: Iterable[AssetEvent], table: str | None = None) -> Items:
    """The files or rows that `given` names: files, ranges, or events. `events` are the run's; they name the table of ranges.

    Raises `AssetJobError` unless all are of one kind and in one place.
    """
    if isinstance(given, Mapping):
        given = [event for of_asset in given.values() for event in of_asset]
    given = list(given)
    if all(isinstance(item, AssetEvent) for item in given):
        return _items_of_events(given, table)
    if all(isinstance(item, Mapping) for item in given):
        return _files(given)
    if all(_is_range(item) for item in given):
        name, column = _table_and_column([event for event in events if "ranges" in event.extra], table)
        return RowSelection(table=name, column=column, ranges=tuple((int(low), int(high)) for low, high in given))
    raise AssetJobError(
        "r.read takes files, ranges of ids, or events of this run: pass r.triggering_asset_events.files(), for example"
    )


def _items_of_events(events: Sequence[AssetEvent], table: str | None) -> Items:
    files = [file for event in events for file in event.data_files]
    row_events = [event for event in events if "ranges" in event.extra or "keys" in event.extra]
    if files and row_events:
        raise AssetJobError("these events name both files and rows: read one asset's events at a time")
    return _rows_of_events(row_events, table) if row_events else _files(files)


def _rows_of_events(events: Sequence[AssetEvent], table: str | None) -> RowSelection:
    name, column = _table_and_column(events, table)
    ranges = [limits for event in events for limits in event.extra.get("ranges", ())]
    keys = [key for event in events for key in event.extra.get("keys", ())]
    return RowSelection(
        table=name,
        column=column,
        ranges=tuple((low, high) for low, high in ranges),
        keys=tuple(tuple(key) if isinstance(key, list) else key for key in keys),
    )


def _table_and_column(events: Sequence[AssetEvent], table: str | None) -> tuple[str, str]:
    """The only table that events name, or `table`, and its column of ids. Raises `AssetJobError`."""
    named = {(event.extra["table"], event.extra.get("column", "")) for event in events}  # changes have no column
    if table is not None:
        named = {each for each in named if table_sql(each[0]) == table_sql(table)} or {(table, "id")}
    if len(named) != 1:
        tables = ", ".join(sorted(name for name, _ in named)) or "none"
        raise AssetJobError(f"name the table, as in r.read(…, table='public.orders'): the events name {tables}")
    return named.pop()


def _files(given: Sequence[Mapping[str, Any]]) -> Sequence[S3File] | Sequence[LocalSourceFile]:
    if all("path" in file for file in given):
        return list(dict.fromkeys(map(_local_file, given)))
    if all("key" in file for file in given):
        files = (
            S3File(
                bucket=file["bucket"],
                key=file["key"],
                size=int(file.get("size") or 0),
                etag=file.get("etag"),
                moved_from=file.get("moved_from"),
            )
            for file in given
        )
        return list(dict.fromkeys(files))
    raise AssetJobError("some of these files are local and some are on S3: read one asset's files at a time")


def _local_file(given: Mapping[str, Any]) -> LocalSourceFile:
    """The file as it was detected; without a size, as it is now."""
    path, size = str(given["path"]), given.get("size")
    modified = None if given.get("last_modified") is None else _microseconds(str(given["last_modified"]))
    if size is None:
        try:
            size = Path(path).stat().st_size
        except OSError:
            size = 0
    return LocalSourceFile(
        path=path, size=int(size), modified=modified, inode=given.get("inode"), moved_from=given.get("moved_from")
    )


def _microseconds(moment: str) -> int:
    since = datetime.fromisoformat(moment) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def _is_range(item: Any) -> bool:
    return isinstance(item, Sequence) and len(item) == 2 and all(isinstance(end, int) for end in item)  # noqa: PLR2004


_PRODUCTS = {"s3": "S3", "postgres": "PostgreSQL", "iceberg": "Iceberg"}


def connection_of(connections: Mapping[str, Mapping[str, Any]], kind: str, name: str | None) -> Mapping[str, Any]:
    """The connection called `name`, or else the only one of its kind (`s3`, `postgres`, `iceberg`). Raises `AssetJobError`."""
    return connections[name_of_connection(connections, kind, name)]


def name_of_connection(connections: Mapping[str, Mapping[str, Any]], kind: str, name: str | None) -> str:
    """The name of that connection. Raises `AssetJobError`."""
    fitting = {known: values for known, values in connections.items() if values.get("type") == kind}
    if name is None and len(fitting) == 1:
        return next(iter(fitting))
    if name in fitting:
        return str(name)
    if not fitting:
        raise AssetJobError(f"the job has no {_PRODUCTS[kind]} connection: name one in its spark.connections")
    names = ", ".join(fitting)
    raise AssetJobError(f"name one of the job's {_PRODUCTS[kind]} connections by connection=: {names}")
