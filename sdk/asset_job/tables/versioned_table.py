"""A table of a format that commits versions: a try takes out what earlier tries of its task instance added and puts its own in."""

from __future__ import annotations

import json
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql import functions as sql

from ..errors import TargetFailed
from ..sources.arrow import arrow_schema, registered
from ..sources.request import quoted
from .columns import Columns, SchemaEvolution
from .data_files import DataFile, DataFileWriter, Storage
from .layout import RUN, Table
from .replacement import Done, Record, Replace, Rewritten, Writer, plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ATTEMPTS = 10
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0


class Conflict(Exception):
    """Somebody else committed since the version that was loaded."""


@dataclass(frozen=True, kw_only=True)
class Version:
    """What one version of the table tells a try."""

    columns: Columns
    record: Record | None
    live: Collection[str]
    """Paths of its files."""
    source: Any = field(repr=False)
    """As the library has it."""


@dataclass(frozen=True, kw_only=True)
class VersionedTable(Table):
    """The library's own checks tell neither a repeated commit nor a superseded one: these are made here."""

    format: ClassVar[str]

    writer: Writer
    evolution: SchemaEvolution
    still_ours: Callable[[], None]
    """Raises when the try was superseded."""
    warn: Callable[[str], None]
    """Told of what people should know of the run."""
    pause: Callable[[float], None] = time.sleep

    @abstractmethod
    def load(self) -> Version | None:
        """The newest version; None when there is no such table yet. Raises `TargetFailed`."""

    @abstractmethod
    def create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        """A table without rows. Raises `Conflict` when there is one by now."""

    @abstractmethod
    def types(self, schema: pa.Schema) -> Mapping[str, str]:
        """As `Columns` has them. Raises `TargetFailed` for what the format does not have."""

    @abstractmethod
    def add_columns(self, version: Version, columns: pa.Schema) -> None:
        """Raises `Conflict`."""

    @abstractmethod
    def publish(self, version: Version, removed: Collection[str], files: Sequence[DataFile]) -> None:
        """One commit on exactly this version, which records the try. Raises `Conflict`."""

    @abstractmethod
    def has_rows_of_run(self, version: Version) -> bool:
        """By the column of that name."""

    @abstractmethod
    def data_storage(self, version: Version) -> Storage:
        """Where the files of the table's rows are."""

    def file_schema(self, version: Version) -> pa.Schema | None:  # noqa: ARG002 - of one format
        """Of the files, where it must be another than the frame's."""
        return None

    def is_in_files(self, name: str, version: Version) -> bool:
        """Whether the files hold the column; else the commit tells its value."""
        return name not in version.columns.partition_by

    def prepare(self) -> None:
        version = self.load()
        if version is not None:
            self._plan(version)

    def stage(self, frame: DataFrame, partition_by: Sequence[str]) -> None:
        alike = frame.sparkSession.createDataFrame([], frame.schema)  # the frame itself is observed once it is used
        version = self.ready(arrow_schema(alike), partition_by)
        columns = self._in_files(frame.columns, version)
        folders = [f"_partition_{at}" for at in range(len(partition_by))]
        values = [
            sql.col(quoted(name)).cast("string").alias(alias) for name, alias in zip(partition_by, folders, strict=True)
        ]
        chosen = frame.select(*columns, *values)
        ordered = chosen.sortWithinPartitions(*folders) if folders else chosen
        writer = self.file_writer(version, len(columns))
        ordered.write.format(registered(frame.sparkSession, "datafiles", writer=writer)).mode("append").save()

    def file_writer(self, version: Version, columns: int) -> DataFileWriter:
        return DataFileWriter(
            storage=self.data_storage(version),
            prefix=self.writer.prefix,
            columns=columns,
            schema=self.file_schema(version),
            result=self._result,
        )

    def _in_files(self, names: Sequence[str], version: Version) -> list[Column]:
        """The frame's columns by the table's names, but those of which the commit tells the value; and the run."""
        own = {name.lower(): name for name in version.columns.types}
        columns = [
            sql.col(quoted(name)).alias(own[name.lower()])
            for name in names
            if self.is_in_files(own[name.lower()], version)
        ]
        return [*columns, sql.lit(self.owner.run_id).alias(RUN)] if version.columns.tells_runs else columns

    def commit(self, rows: int) -> None:
        files = [DataFile(**file) for file in json.loads(Path(self._result).read_text(encoding="utf-8"))]
        if sum(file.rows for file in files) != rows:
            raise TargetFailed(f"{self.place} is as it was: what was written for it is not all there; repeat the run")
        self.replace(files)
        Path(self._result).unlink(missing_ok=True)

    def withdraw(self) -> None:
        """A try without rows commits, too: an earlier one that is still under way must meet it."""
        Path(self._result).unlink(missing_ok=True)
        self.replace([])

    def replace(self, files: Sequence[DataFile]) -> None:
        """These are the task instance's rows from now on. Raises `Fenced` and `TargetFailed`; then nothing is changed."""
        for wait in _pauses():
            version = self.load()
            if version is None and files:
                raise TargetFailed(f"{self.place} was dropped while the run wrote to it: repeat the run")
            if version is None:
                return
            removed = self._plan(version)
            if removed is None:
                self._check_files(version, files)
                return
            self.still_ours()
            try:
                self.publish(version, removed, files)
            except Conflict:
                self.pause(wait)
            else:
                return
        raise TargetFailed(f"{self.place} was changed by others each of {_ATTEMPTS} times; repeat the run")

    def _plan(self, version: Version) -> Collection[str] | None:
        """The files that the commit takes out; None when there is nothing to do. Raises `Fenced` and `TargetFailed`."""
        match plan(self.writer, version.record, version.live):
            case Done():
                return None
            case Replace(files):
                return files
            case Rewritten(left):
                self._check_rewritten(version)
                return left

    def _check_files(self, version: Version, files: Sequence[DataFile]) -> None:
        """A try is started once only; but who repeats a local run by hand may give two the same names."""
        live = {path.rpartition("/")[2] for path in version.live}
        if lacking := [file.name for file in files if file.name not in live]:
            raise TargetFailed(
                f"{self.place} has rows of try {self.writer.try_number} of the run {self.owner.run_id} already, and "
                f"{lacking[0]} is none of them: start a new run"
            )

    def _check_rewritten(self, version: Version) -> None:
        """Once the run's rows were deleted, there is nothing left to replace."""
        run = self.owner.run_id
        rewritten = f"rows of the run {run} in {self.place} were rewritten by others (OPTIMIZE, MERGE, DELETE)"
        if not version.columns.tells_runs:
            raise TargetFailed(
                f"{rewritten}, and without a column `{RUN}` nobody can tell which they are: restore the version before "
                "that, or delete them and start a new run instead of this one"
            )
        if self.has_rows_of_run(version):
            raise TargetFailed(f"{rewritten}: delete them (DELETE … WHERE {RUN} = '{run}'), then clear the run")

    def ready(self, schema: pa.Schema, partition_by: Sequence[str]) -> Version:
        """The table with all columns that the rows have."""
        for wait in _pauses():
            version = self.load()
            try:
                if version is None:
                    self.create(schema.append(pa.field(RUN, pa.string())), partition_by)
                    continue
                added = version.columns.added_by(self.types(schema), partition_by, self.evolution, str(self.place))
                if not added:
                    return version
                self.add_columns(version, pa.schema([schema.field(name) for name in added]))
                self.warn(f"{self.place} got the new column{'s' * (len(added) > 1)} {', '.join(added)}")
            except Conflict:
                self.pause(wait)
        raise TargetFailed(f"the columns of {self.place} were changed by others all the time; repeat the run")

    @property
    def _result(self) -> str:
        return str(Path(tempfile.gettempdir()) / f"asset_job-{self.attempt}.json")


def _pauses() -> list[float]:
    return [min(_FIRST_PAUSE * 2**attempt, _LONGEST_PAUSE) for attempt in range(_ATTEMPTS)]
