"""Merge changes by key into a table that commits versions: the files with rows that change are replaced, in one commit.

The driver does all of it. It reads the key of each row of the table, and writes the other rows of a file that changes again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from uuid import uuid4

import obstore
import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import Fenced, NoRetry, TargetFailed
from asset_job.sources.s3_objects import first_line
from asset_job.tables.formats.versioned_table import CommitConflict, Version, VersionedTable, pauses
from asset_job.tables.layout import RUN, partition_aliases
from asset_job.tables.merge.changes import Key, NetChange
from asset_job.tables.merge.key_search import TypedKey, places_of, staying, typed_keys
from asset_job.tables.merge.merge_plan import MergeMemory, MergePlan, plan_merge
from asset_job.tables.merge.merge_rows import MergeRows, typed_values
from asset_job.tables.parquet.data_files import DataFile


def merge(table: VersionedTable, rows: MergeRows, partition_by: Sequence[str]) -> tuple[pa.Table, str | None]:
    """Apply the changes in one commit, and return the rows that were written and the new version. Raises `AssetJobError`; then nothing is changed.

    A repeated merge changes nothing, and one that a later try has superseded is `Fenced`.
    """
    table.prepare()
    for seconds in pauses():
        try:
            version = _ready(table, rows, partition_by)
            if version is None:
                return pa.table({}), None
            merged = Merge(table=table, version=version, rows=rows).prepared()
            table.check_not_superseded()
            new = table.publish(version, merged.removed, merged.files, memory=merged.memory)
        except CommitConflict:
            table.pause(seconds)
        else:
            _forget(table, version)
            return merged.written, new
    raise TargetFailed(f"{table.location} was changed by other writers at each attempt to merge into it: retry the run")


def _ready(table: VersionedTable, rows: MergeRows, partition_by: Sequence[str]) -> Version | None:
    """The version with all columns that the rows need; None if there is no table and there are no rows. Raises `AssetJobError`."""
    version = table.load()
    if version is None and not any(change.row is not None for change in rows.changes.of_keys.values()):
        return None
    if version is not None and not version.is_whole:
        raise TargetFailed(
            f"{table.location} has files of which rows were deleted in place (deletion vectors, delete files), which a merge does not "
            "read: rewrite them (Delta: REORG TABLE … APPLY (PURGE), Iceberg: rewrite_data_files), then retry the run"
        )
    own = [] if version is None else list(table.row_schema(version))
    known = {column.name.lower() for column in own}
    missing = [name for name in rows.names if name.lower() not in known]
    more = list(rows.types_of(missing)) if missing else []
    return table.ready(pa.schema([*own, *more]), partition_by)


@dataclass(frozen=True, kw_only=True)
class MergedFiles:
    """What a merge publishes."""

    removed: Collection[str]
    files: Sequence[DataFile]
    memory: int
    """The number of the file with what the table remembers from now on."""
    written: pa.Table
    """The rows that were inserted or updated."""


@dataclass(kw_only=True)
class _FileScan:
    """What reading the table's files finds."""

    removed: list[str] = field(default_factory=list)
    files: list[DataFile] = field(default_factory=list)
    """The files with the rows that stay of those that are removed."""
    bases: dict[TypedKey, pa.Table] = field(default_factory=dict)
    """The rows from which others take values."""


@dataclass(frozen=True, kw_only=True)
class Merge:
    """One attempt to merge into one version of a table."""

    table: VersionedTable
    version: Version
    rows: MergeRows

    def prepared(self) -> MergedFiles:
        """Write all files, which nobody reads before they are published. Raises `AssetJobError`."""
        record, writer = self.version.record, self.table.writer
        if record is not None and record.try_number > writer.try_number:
            raise Fenced(
                f"try {record.try_number} of this run has merged into the table already; this is try {writer.try_number}"
            )
        memory = self._memory()
        plan = plan_merge(self.rows.changes, memory, recorded=record is not None, target=str(self.table.location))
        scan = self._scanned(plan)
        written = self._upserted(plan, scan.bases)
        number = time.time_ns()
        self._put(_memory_name(number), plan.memory.to_bytes())
        return MergedFiles(
            removed=scan.removed, files=[*scan.files, *self._written(written)], memory=number, written=written
        )

    def _memory(self) -> MergeMemory:
        """What the table remembers. Raises `TargetFailed` if its file was deleted."""
        number = self.version.memory
        if number is None:
            return MergeMemory()
        storage = self.table.data_storage(self.version)
        try:
            return MergeMemory.from_bytes(storage.get(_memory_name(number)))
        except FileNotFoundError:
            newest = self.table.load()
            if newest is None or newest.memory != number:
                raise CommitConflict from None
            raise TargetFailed(
                f"{self.table.location} lacks {_memory_name(number)}, which tells what was merged into it: put the file back, or load "
                "the table anew"
            ) from None
        except (obstore.exceptions.BaseError, OSError) as error:
            raise TargetFailed(f"{self.table.location} cannot be read: {first_line(error)}") from None

    def _put(self, name: str, content: bytes) -> None:
        try:
            self.table.data_storage(self.version).put(name, content, mode="create")
        except (obstore.exceptions.BaseError, OSError) as error:
            raise TargetFailed(f"{self.table.location} cannot be written: {first_line(error)}") from None

    @property
    def _schema(self) -> pa.Schema:
        return self.table.row_schema(self.version)

    @property
    def _key_columns(self) -> list[str]:
        """The columns of the key, as the table writes them."""
        own = {name.lower(): name for name in self._schema.names}
        if lacking := [name for name in self.rows.merge_on if name.lower() not in own]:
            raise NoRetry(
                f"merge_on names {', '.join(lacking)}, which {self.table.location} does not have: correct merge_on"
            )
        return [own[name.lower()] for name in self.rows.merge_on]

    def _typed_keys(self, keys: Sequence[Key]) -> list[TypedKey]:
        """Keys of events as the table has them. Raises `NoRetry` for a key that has no value in a column."""
        names = self._key_columns
        schema = pa.schema([self._schema.field(name) for name in names])
        table = typed_values(((key, dict(zip(names, key, strict=True))) for key in keys), schema)
        typed = typed_keys(table, names)
        if any(None in key for key in typed):
            raise NoRetry(
                f"a key has no value in one of the columns {', '.join(names)}: name columns that are never null"
            )
        return typed

    def _scanned(self, plan: MergePlan) -> _FileScan:
        """Read the table, and write the rows that stay of each file in which some do not."""
        changes = list(plan.writes.values())
        touched = {*self._typed_keys([change.key for change in changes])}
        if len(touched) != len(changes):
            raise NoRetry(
                f"several keys of the events are one in the types of {self.table.location}: give the key's columns the source's types"
            )
        bases = {*self._typed_keys([change.base for change in changes if change.base is not None])}
        newer = {*self._typed_keys([tuple(json.loads(text)) for text in sorted(plan.newer)])}
        scan, names = _FileScan(), self._key_columns
        for path, rows in self.table.rows_by_file(self.version):
            places = places_of(rows, names, touched | bases | newer)
            scan.bases.update({key: rows.slice(at[0], 1) for key, at in places.items() if key in bases})
            stays = staying(rows.num_rows, places, touched, newer if plan.empties else None)
            if stays is not None:
                scan.removed.append(path)
                scan.files += self._written(rows.filter(stays))
        return scan

    def _upserted(self, plan: MergePlan, bases: Mapping[TypedKey, pa.Table]) -> pa.Table:
        """The rows to write: the columns that the run knows, and the others as the table has them."""
        changes = [change for change in plan.writes.values() if change.row is not None]
        table = self.rows.typed(changes, self._schema)
        with_base = [at for at, change in enumerate(changes) if change.base is not None]
        typed = self._typed_keys([changes[at].base or () for at in with_base])
        kept = {at: bases[key] for at, key in zip(with_base, typed, strict=True) if key in bases}
        self._check_bases(changes, kept)
        if kept:
            table = self._filled(table, changes, kept)
        if self.version.columns.has_run_column:
            runs = pa.array([self.table.owner.run_id] * table.num_rows, pa.string())
            table = table.set_column(table.column_names.index(RUN), RUN, runs)
        self._check_partitions(table)
        return table

    def _check_bases(self, changes: Sequence[NetChange], kept: Mapping[int, pa.Table]) -> None:
        """Raise `TargetFailed` for a row of which the table lacks values that the source did not send."""
        columns = {name.lower() for name in self._schema.names}
        for at, change in enumerate(changes):
            if at not in kept and any(name.lower() in columns for name in change.inherited):
                raise TargetFailed(
                    f"{self.table.location} has no row with the key {json.dumps(change.base)}, from which an update keeps "
                    f"{', '.join(sorted(change.inherited))}: load the rows before their changes, or retry the runs that failed first"
                )

    def _filled(self, table: pa.Table, changes: Sequence[NetChange], kept: Mapping[int, pa.Table]) -> pa.Table:
        """The rows, with the values of their bases in the columns that the run does not know."""
        places = {at: place for place, at in enumerate(kept)}
        rows = pa.concat_tables(kept.values()).take(
            pa.array([places.get(at) for at in range(len(changes))], pa.int64())
        )
        own = [{name.lower() for name in change.row or ()} for change in changes]
        columns = []
        for column in table.schema:
            is_kept = pa.array([at in kept and column.name.lower() not in own[at] for at in range(len(changes))])
            columns.append(pc.if_else(is_kept, rows.column(column.name).cast(column.type), table.column(column.name)))
        return pa.table(columns, schema=table.schema)

    def _check_partitions(self, rows: pa.Table) -> None:
        """Raise `TargetFailed` for a value that would be another one in a partition."""
        for name in self.version.columns.partition_by:
            column = rows.column(name)
            if (
                self.table.format == "delta"
                and pa.types.is_string(column.type)
                and pc.any(pc.equal(column, "")).as_py()
            ):
                raise TargetFailed(
                    f"{self.table.location} cannot be partitioned by {name}, which has an empty text, which would be null: replace it, "
                    "or partition otherwise"
                )

    def _written(self, rows: pa.Table) -> Sequence[DataFile]:
        """Write rows into new files of the table, at least one for each partition."""
        if not rows.num_rows:
            return []
        partition_by = self.version.columns.partition_by
        data = rows.select([name for name in rows.column_names if self.table.is_in_files(name, self.version)])
        count, aliases = data.num_columns, partition_aliases(rows.column_names, partition_by)
        for name, alias in zip(partition_by, aliases, strict=True):
            data = data.append_column(alias, _as_text(rows.column(name)))
        if aliases:
            data = data.sort_by([(alias, "ascending") for alias in aliases])
        writer = replace(self.table.file_writer(self.version, count), prefix=f"merge-{uuid4().hex}-")
        return writer.write(iter(data.to_batches())).files


def _forget(table: VersionedTable, version: Version) -> None:
    """Delete what the table remembered before. If that fails, a small file stays that nobody reads."""
    if version.memory is not None:
        with suppress(obstore.exceptions.BaseError, OSError):
            table.data_storage(version).delete(_memory_name(version.memory))


def _memory_name(number: int) -> str:
    """The name of the file with what the table remembers. VACUUM and readers skip folders with such a name."""
    return f"_asset_watcher/{number}.json.gz"


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).cast(pa.string())
