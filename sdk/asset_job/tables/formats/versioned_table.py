"""Tables of a format that commits versions: a try replaces the files that earlier tries of its task instance added by its own."""

from __future__ import annotations

import json
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sql

from asset_job.data import SchemaEvolution
from asset_job.errors import TargetFailed
from asset_job.sources.arrow import arrow_schema, registered
from asset_job.sources.request import quoted
from asset_job.tables.columns import Columns
from asset_job.tables.layout import RUN, TargetTable, partition_aliases
from asset_job.tables.parquet.data_files import DataFile, DataFileWriter, TableStorage
from asset_job.tables.replacement import Done, Record, Replace, Rewritten, WritingTry, plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ATTEMPTS = 10
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0
"""Seconds before a commit that met a conflict is repeated."""


class CommitConflict(Exception):
    """Another commit follows the version that was loaded."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of a table."""

    columns: Columns
    record: Record | None
    """What the newest commit of the try's task instance recorded; None if there was none."""
    live: Collection[str]
    """The paths of the version's files."""
    is_whole: bool
    """Whether no file has rows that were deleted in place."""
    memory: int | None
    """The number of the file with what is remembered of merges; None: nothing was merged."""
    source: Any = field(repr=False)
    """The library's own object for this version."""


@dataclass(frozen=True, kw_only=True)
class VersionedTable(TargetTable):
    """A table that commits versions, through the library of its format.

    The libraries' own checks detect neither a repeated commit nor a superseded one; both are detected here.
    """

    writer: WritingTry
    evolution: SchemaEvolution
    check_not_superseded: Callable[[], None]
    """Asks the daemon; raises when the try was superseded."""
    warn: Callable[[str], None]
    """Takes a sentence that people should read with the run."""
    pause: Callable[[float], None] = time.sleep
    """Waits so many seconds."""

    @abstractmethod
    def load(self) -> Version | None:
        """The newest version; None if there is no such table yet. Raises `TargetFailed`."""

    @abstractmethod
    def create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """Create the table without rows. Raises `CommitConflict` if it exists by now."""

    @abstractmethod
    def types(self, schema: pa.Schema) -> Mapping[str, str]:
        """The types of a frame's columns as `Columns.types` has them. Raises `TargetFailed` for a type that the format lacks."""

    @abstractmethod
    def add_columns(self, version: Version, columns: pa.Schema) -> None:
        """Add columns to exactly this version. Raises `CommitConflict`."""

    @abstractmethod
    def row_schema(self, version: Version) -> pa.Schema:
        """The columns of the table's rows, with the types in which Spark exchanges rows with Python."""

    @abstractmethod
    def rows_by_file(self, version: Version) -> Iterator[tuple[str, pa.Table]]:
        """The path of each file, as `publish` removes it, and its rows in `row_schema`. Raises `TargetFailed`."""

    @abstractmethod
    def publish(
        self, version: Version, removed: Collection[str], files: Sequence[DataFile], *, memory: int | None = None
    ) -> str:
        """Commit on exactly this version: remove and add files, and record the try. Return the new version. Raises `CommitConflict`.

        A merge has a `memory`, and its files are not counted as those of the try.
        """

    @abstractmethod
    def has_rows_of_run(self, version: Version) -> bool:
        """Whether the table's column `run` names this run in any row."""

    @abstractmethod
    def data_storage(self, version: Version) -> TableStorage:
        """The folder of the table's data files."""

    def file_schema(self, version: Version) -> pa.Schema | None:  # noqa: ARG002 - one format needs it
        """The schema of the data files, if it must differ from the frame's."""
        return None

    def is_in_files(self, name: str, version: Version) -> bool:
        """Whether the data files hold a column. If not, the commit states its value for each file."""
        return name not in version.columns.partition_by

    def prepare(self) -> None:
        version = self.load()
        if version is not None:
            self._plan(version)

    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        empty = frame.sparkSession.createDataFrame([], frame.schema)  # using the frame itself would end its observation
        version = self.ready(arrow_schema(empty), partition_by)
        columns = _columns_in_files(self, frame.columns, version)
        folders = partition_aliases(frame.columns, partition_by)
        values = [_as_text(frame, name).alias(alias) for name, alias in zip(partition_by, folders, strict=True)]
        chosen = frame.select(*columns, *values)
        ordered = chosen.sortWithinPartitions(*folders) if folders else chosen
        writer = self.file_writer(version, len(columns))
        ordered.write.format(registered(frame.sparkSession, "datafiles", writer=writer)).mode("append").save()

    def file_writer(self, version: Version, columns: int) -> DataFileWriter:
        """The writer for Spark's tasks. `columns` is how many columns of data they write."""
        return DataFileWriter(
            storage=self.data_storage(version),
            prefix=self.writer.prefix,
            columns=columns,
            schema=self.file_schema(version),
            result=self._result,
        )

    def commit(self, rows: int) -> str | None:
        files = [DataFile.from_json(file) for file in json.loads(Path(self._result).read_text(encoding="utf-8"))]
        if sum(file.rows for file in files) != rows:
            raise TargetFailed(
                f"{self.location} was not changed, because files that were written for it are missing: retry the run"
            )
        published = self.replace(files)
        Path(self._result).unlink(missing_ok=True)
        return published

    def commit_empty(self) -> str | None:
        """Commit a try without rows: an earlier try that is still under way must meet that commit."""
        Path(self._result).unlink(missing_ok=True)
        return self.replace([])

    def replace(self, files: Sequence[DataFile]) -> str | None:
        """Make these files the rows of the task instance. Raises `Fenced` and `TargetFailed`; then nothing is changed.

        Return the new version; None if there is nothing to do.
        """
        for seconds in pauses():
            version = self.load()
            if version is None and files:
                raise TargetFailed(f"{self.location} was dropped while the run wrote to it: retry the run")
            if version is None:
                return None
            removed = self._plan(version)
            if removed is None:
                _check_files(self, version, files)
                return None
            _check_required(self, version, files)
            self.check_not_superseded()
            try:
                return self.publish(version, removed, files)
            except CommitConflict:
                self.pause(seconds)
        raise TargetFailed(
            f"{self.location} was changed by other writers at each of {_ATTEMPTS} attempts: retry the run"
        )

    def _plan(self, version: Version) -> Collection[str] | None:
        """The files that the commit removes; None if there is nothing to do. Raises `Fenced` and `TargetFailed`."""
        match plan(self.writer, version.record, version.live):
            case Done():
                return None
            case Replace(files):
                return files
            case Rewritten(remaining):
                _check_rewritten(self, version)
                return remaining

    def ready(self, schema: pa.Schema, partition_by: Sequence[str]) -> Version:
        """Create the table, or add the columns that it lacks. Returns the version that has them all. Raises `TargetFailed`."""
        for seconds in pauses():
            version = self.load()
            try:
                if version is None:
                    nullable = [field.with_nullable(True) for field in schema]
                    self.create(pa.schema([*nullable, pa.field(RUN, pa.string())]), partition_by)
                    continue
                added = version.columns.added_by(self.types(schema), partition_by, self.evolution, str(self.location))
                if not added:
                    return version
                self.add_columns(version, pa.schema([schema.field(name) for name in added]))
                self.warn(f"{self.location} got the new column{'s' * (len(added) > 1)} {', '.join(added)}")
            except CommitConflict:
                self.pause(seconds)
        raise TargetFailed(
            f"{self.location} was changed by other writers at each of {_ATTEMPTS} attempts to add its columns: retry the run"
        )

    @property
    def _result(self) -> str:
        """The file in which the tasks' writer lists what was written."""
        return str(Path(tempfile.gettempdir()) / f"asset_job-{self.attempt}.json")


def _columns_in_files(table: VersionedTable, names: Sequence[str], version: Version) -> list[Column]:
    """The frame's columns that the data files hold, under the table's names, and the run if the table has it."""
    own = {name.lower(): name for name in version.columns.types}
    columns = [
        sql.col(quoted(name)).alias(own[name.lower()])
        for name in names
        if table.is_in_files(own[name.lower()], version)
    ]
    return [*columns, sql.lit(table.owner.run_id).alias(RUN)] if version.columns.has_run_column else columns


def _as_text(frame: DataFrame, name: str) -> Column:
    """A column's values as texts. Moments are told apart by their microseconds, because a clock repeats an hour in autumn."""
    column = sql.col(quoted(name))
    return (sql.unix_micros(column) if frame.schema[name].dataType.typeName() == "timestamp" else column).cast("string")


def _check_rewritten(table: VersionedTable, version: Version) -> None:
    """Raise `TargetFailed` unless the rewritten rows of the run were deleted: then there is nothing left to replace."""
    run = table.owner.run_id
    rewritten = f"rows of the run {run} in {table.location} were rewritten by others (OPTIMIZE, MERGE, DELETE)"
    if version.memory is not None:
        raise TargetFailed(
            f"{rewritten}, and a merge may have updated or deleted some of them by their keys: start a new run instead of this one"
        )
    if not version.columns.has_run_column:
        raise TargetFailed(
            f"{rewritten}, and the table has no column `{RUN}` that tells which they are: restore the version before "
            "that, or delete the rows and start a new run instead of this one"
        )
    if table.has_rows_of_run(version):
        raise TargetFailed(f"{rewritten}: delete them (DELETE … WHERE {RUN} = '{run}'), then clear the run")


def _check_files(table: VersionedTable, version: Version, files: Sequence[DataFile]) -> None:
    """Raise `TargetFailed` if the try is recorded with other files.

    The daemon starts a try once only, but whoever repeats a local run by hand may start two tries of the same number.
    """
    live = {path.rpartition("/")[2] for path in version.live}
    if missing := [file.name for file in files if file.name not in live]:
        raise TargetFailed(
            f"{table.location} has rows of try {table.writer.try_number} of the run {table.owner.run_id} already, and "
            f"{missing[0]} is not among their files: start a new run"
        )


def _check_required(table: VersionedTable, version: Version, files: Sequence[DataFile]) -> None:
    """Raise `TargetFailed` if a column that may not be null is null in a file."""
    for name in version.columns.required:
        if any(name in file.bounds and file.bounds[name].nulls for file in files):
            raise TargetFailed(f"{table.location} requires the column {name}, which is null in some rows: fill it")


def pauses() -> list[float]:
    """The seconds to wait after each attempt that met a conflict."""
    return [min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) for attempt in range(_ATTEMPTS)]
