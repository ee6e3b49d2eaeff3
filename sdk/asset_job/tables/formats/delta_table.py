"""Delta tables, through `deltalake`. A commit is one file of the log, which is only written if it does not exist yet."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import quote, unquote
from uuid import uuid4

import obstore
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction
from pyarrow import dataset

from asset_job.errors import TargetFailed
from asset_job.sources.s3_objects import S3Access, first_line
from asset_job.tables.columns import Columns, check_format
from asset_job.tables.formats.delta_log import partition_values, statistics, type_text
from asset_job.tables.formats.versioned_table import CommitConflict, Version, VersionedTable
from asset_job.tables.layout import RUN
from asset_job.tables.parquet.data_files import DataFile, TableStorage
from asset_job.tables.replacement import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KNOWN_FEATURES = {"appendOnly", "invariants", "timestampNtz", "changeDataFeed", "deletionVectors", "v2Checkpoint"}
"""The writer features that demand nothing of a writer that only adds and removes whole files. Invariants are checked for."""
_MERGE = "asset_watcher.merge"
_ALREADY_EXISTS = "already exists"


@dataclass(frozen=True, kw_only=True)
class DeltaLakeTable(VersionedTable):
    """A Delta table. Two application transactions record a task instance: its newest try, and how many files that added."""

    format: ClassVar[str] = "delta"

    access: S3Access | None
    """None: the table is a folder."""

    def prepare(self) -> None:
        if "%" in str(self.location):
            raise TargetFailed(
                f"{self.location} cannot be a Delta table, because deltalake takes % for an escape: name another target"
            )
        with self._errors():
            if self.access is not None:
                self._probe()
            check_format(self.storage.names(), self.format, str(self.location))
        super().prepare()

    def load(self) -> Version | None:
        with self._errors():
            try:
                table = DeltaTable(self._url, storage_options=self._options)
            except TableNotFoundError:
                return None
            self._check_features(table)
            fields = json.loads(table.schema().to_json())["fields"]
            return Version(
                columns=Columns(
                    types={field["name"]: type_text(field["type"]) for field in fields},
                    partition_by=table.metadata().partition_columns,
                    required=frozenset(field["name"] for field in fields if not field["nullable"]),
                ),
                record=self._record(table),
                live=(live := _live(table)),
                is_whole=len(live) == len(table.file_uris()),
                memory=table.transaction_version(_MERGE),
                source=table,
            )

    def create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        own = {field.name.lower(): field.name for field in schema}
        columns = [own[name.lower()] for name in partition_by]
        with self._errors():
            DeltaTable.create(self._url, schema, partition_by=columns, storage_options=self._options)

    def types(self, schema: pa.Schema) -> Mapping[str, str]:
        try:
            fields = json.loads(Schema.from_arrow(schema).to_json())["fields"]
        except (DeltaError, ValueError, TypeError) as error:
            raise TargetFailed(f"Delta has no type for a column: {first_line(error)}; cast the column") from None
        return {field["name"]: type_text(field["type"]) for field in fields}

    def add_columns(self, version: Version, columns: pa.Schema) -> None:
        nullable = pa.schema([field.with_nullable(True) for field in columns])
        with self._errors():
            version.source.alter.add_columns(
                Schema.from_arrow(nullable).fields, commit_properties=CommitProperties(max_commit_retries=0)
            )

    def row_schema(self, version: Version) -> pa.Schema:
        return pa.schema(version.source.schema().to_arrow())

    def rows_by_file(self, version: Version) -> Iterator[tuple[str, pa.Table]]:
        with self._errors():
            paths = pa.table(version.source.get_add_actions()).column("path").to_pylist()
            fragments = {each.path: each for each in version.source.to_pyarrow_dataset().get_fragments()}
        schema = self.row_schema(version)
        for path in paths:
            with self._errors():
                rows = fragments[unquote(path)].to_table(schema=schema)
            yield unquote(path), rows  # RemoveAction quotes it again

    def publish(
        self, version: Version, removed: Collection[str], files: Sequence[DataFile], *, memory: int | None = None
    ) -> str:
        table, now = version.source, int(time.time() * 1000)
        columns = version.columns.partition_by
        actions = [
            *(RemoveAction(path, data_change=True, deletion_timestamp=now) for path in removed),
            *(_added(file, version.columns, now) for file in files),
        ]
        recorded = [
            Transaction(self.writer.id, self.writer.try_number),
            Transaction(self._files_id, len(files) if memory is None else 0),
            *([] if memory is None else [Transaction(_MERGE, memory)]),
        ]
        new = table.version() + 1
        with self._errors():
            table.create_write_transaction(
                actions,
                mode="append",
                schema=table.schema(),
                partition_by=list(columns),
                # Without retries: the commit follows the version that was loaded, or fails.
                commit_properties=CommitProperties(max_commit_retries=0, app_transactions=recorded),
            )
        return str(new)

    def has_rows_of_run(self, version: Version) -> bool:
        with self._errors():
            rows = version.source.to_pyarrow_dataset().filter(pc.field(RUN) == self.owner.run_id)
            return bool(rows.head(1, columns=[RUN]).num_rows)

    def rows_of_other_runs(
        self,
        spark: SparkSession,
        columns: Mapping[str, str],
        partition_by: Sequence[str],  # noqa: ARG002 - the table knows its partitioning
    ) -> DataFrame | None:
        version = self.load()
        if version is None:
            return None
        with self._errors():
            whole = version.source.to_pyarrow_dataset()
            files = [each for each in whole.get_fragments() if self.writer.try_of(each.path) is None]
            rows = dataset.FileSystemDataset(files, whole.schema, whole.format, whole.filesystem) if files else None
            return None if rows is None else spark.createDataFrame(rows.to_table(columns=list(columns)))

    def data_storage(self, version: Version) -> TableStorage:  # noqa: ARG002 - the data is beside the log
        return self.storage

    @cached_property
    def storage(self) -> TableStorage:
        return TableStorage(location=self.location, access=self.access)

    @property
    def _url(self) -> str:
        return quote(str(self.location), safe=":/") if self.location.bucket else Path(self.location.path).as_uri()

    @property
    def _files_id(self) -> str:
        return f"{self.writer.id}/files"

    def _record(self, table: DeltaTable) -> Record | None:
        number = table.transaction_version(self.writer.id)
        if number is None:
            return None
        return Record(try_number=number, files=table.transaction_version(self._files_id) or 0)

    def _check_features(self, table: DeltaTable) -> None:
        """Raise `TargetFailed` if the table demands something of its rows that is not checked here."""
        configuration = table.metadata().configuration
        unsupported = {*(table.protocol().writer_features or ())} - _KNOWN_FEATURES
        unsupported |= {name for name in configuration if name.startswith("delta.constraints.")}
        unsupported |= {f"{field.name}: {name}" for field in table.schema().fields for name in field.metadata}
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            unsupported.add("columnMapping")
        if unsupported:
            raise TargetFailed(
                f"{self.location} has {', '.join(sorted(unsupported))}, which only Spark with Delta's jars can write: "
                "give the job spark.packages, or name another target"
            )

    def _probe(self) -> None:
        """Raise `TargetFailed` if the store lets two writers create one object: then two could commit one version."""
        name = f"_delta_log/.{uuid4().hex}.probe"
        self.storage.put(name, b"", mode="create")
        try:
            self.storage.put(name, b"", mode="create")
        except obstore.exceptions.AlreadyExistsError:
            return
        finally:
            self.storage.delete(name)
        raise TargetFailed(
            f"the store of {self.location} overwrites an object where it should refuse (If-None-Match), so that two commits "
            "could become one: use a store that refuses, or format: parquet"
        )

    @cached_property
    def _options(self) -> dict[str, str] | None:
        if self.access is None:
            return None
        given = {f"aws_{name}": value for name, value in self.access.config}
        return {**given, "aws_allow_http": str((self.access.endpoint or "").startswith("http:")).lower()}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except CommitFailedError:
            raise CommitConflict from None
        except (DeltaError, obstore.exceptions.BaseError, OSError, ValueError, pa.ArrowException) as error:
            if _ALREADY_EXISTS in str(error):
                raise CommitConflict from None
            raise TargetFailed(f"{self.location} cannot be written: {first_line(error)}") from None


def _live(table: DeltaTable) -> frozenset[str]:
    """The names of the files that still have all their rows."""
    names = frozenset(uri.rpartition("/")[2] for uri in table.file_uris())
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return names
    with_deleted_rows = pa.table(table.deletion_vectors()).column("filepath").to_pylist()
    return names - {path.rpartition("/")[2] for path in with_deleted_rows}


def _added(file: DataFile, columns: Columns, now: int) -> AddAction:
    in_files = {name: kind for name, kind in columns.types.items() if name not in columns.partition_by}
    return AddAction(
        path=file.name,
        size=file.size,
        partition_values=partition_values(columns.partition_by, file.values),
        modification_time=now,
        data_change=True,
        stats=statistics(file, in_files),
    )
