"""Iceberg tables, through `pyiceberg`. A commit asks the catalog to replace exactly the snapshot that was loaded by a new one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record as PartitionRecord
from pyiceberg.types import DecimalType, ListType, MapType, StringType, StructType

from asset_job.errors import AssetJobError, TargetFailed
from asset_job.sources.arrow import with_small_offsets
from asset_job.sources.s3_objects import S3Access, first_line
from asset_job.tables.columns import Columns
from asset_job.tables.formats.iceberg_metrics import metrics
from asset_job.tables.formats.versioned_table import CommitConflict, Version, VersionedTable
from asset_job.tables.layout import RUN, location_of
from asset_job.tables.parquet.data_files import DataFile, TableStorage
from asset_job.tables.replacement import Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_PARTITION_FIELD = 1000
_TRY = "asset_watcher.try."
_FILES = "asset_watcher.files."
_MERGE = "asset_watcher.merge"
_NO_RETRIES = {"commit.retry.num-retries": "0"}
_S3_PROPERTIES = {
    "access_key_id": "s3.access-key-id",
    "secret_access_key": "s3.secret-access-key",
    "session_token": "s3.session-token",
    "region": "s3.region",
    "endpoint": "s3.endpoint",
    "virtual_hosted_style_request": "s3.force-virtual-addressing",
    "skip_signature": "s3.anonymous",
}
"""The settings of obstore -> the properties of pyiceberg."""


def open_catalog(name: str, connection: Mapping[str, Any], access: S3Access | None) -> Catalog:
    """The catalog of a job's connection (`type: iceberg`). Raises `TargetFailed` if it does not answer.

    `name` is the connection's name, which a SQL catalog keeps in its rows. The connection's `properties` override all others.
    """
    s3 = {_S3_PROPERTIES[key]: value for key, value in (access.config if access else ()) if key in _S3_PROPERTIES}
    address = {key: connection[key] for key in ("uri", "warehouse") if connection.get(key)}
    properties = {"type": connection["catalog"], **address, **s3, **connection.get("properties", {})}
    try:
        return load_catalog(name, **properties)
    except Exception as error:  # each catalog has errors of its own
        raise TargetFailed(
            f"the Iceberg catalog {name} does not answer: {first_line(error)}; correct its connection and retry the run"
        ) from error


@dataclass(frozen=True, kw_only=True)
class IcebergTable(VersionedTable):
    """An Iceberg table. Two of its properties record a task instance: its newest try, and how many files that added.

    The summary of a snapshot would not do: it is lost when the snapshot expires.
    """

    format: ClassVar[str] = "iceberg"

    name: tuple[str, ...]
    """The namespace and the table."""
    catalog: Catalog = field(repr=False)
    access: S3Access | None
    """None: the table lies in a folder."""

    def load(self) -> Version | None:
        with self._errors():
            try:
                table = self.catalog.load_table(self.name)
            except NoSuchTableError:
                return None
            schema, tasks = table.schema(), list(table.scan().plan_files())
            return Version(
                columns=Columns(
                    types={column.name: _text(column.field_type) for column in schema.fields},
                    partition_by=self._partition_columns(table),
                    required=frozenset(column.name for column in schema.fields if column.required),
                ),
                record=self._record(table),
                live=frozenset(task.file.file_path for task in tasks if not task.delete_files),
                is_whole=not any(task.delete_files for task in tasks),
                memory=None if (number := table.properties.get(_MERGE)) is None else int(number),
                source=_without_retries(table),
            )

    def create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        columns = _schema(schema)
        own = {column.name.lower(): column for column in columns.fields}
        fields = [
            PartitionField(source.field_id, _FIRST_PARTITION_FIELD + at, IdentityTransform(), _in_ascii(source.name))
            for at, name in enumerate(partition_by)
            for source in [own[name.lower()]]
        ]
        with self._errors():
            self.catalog.create_namespace_if_not_exists(self.name[:-1])
            self.catalog.create_table(
                self.name, schema=columns, partition_spec=PartitionSpec(*fields), properties=_NO_RETRIES
            )

    def types(self, schema: pa.Schema) -> Mapping[str, str]:
        return {column.name: _text(column.field_type) for column in _schema(schema).fields}

    def add_columns(self, version: Version, columns: pa.Schema) -> None:
        with self._errors(), version.source.update_schema() as update:
            update.union_by_name(pa.schema([column.with_nullable(True) for column in columns]))

    def row_schema(self, version: Version) -> pa.Schema:
        schema = schema_to_pyarrow(version.source.schema(), include_field_ids=False)
        return pa.schema([column.with_type(with_small_offsets(column.type)) for column in schema])

    def rows_by_file(self, version: Version) -> Iterator[tuple[str, pa.Table]]:
        schema = self.row_schema(version)
        with self._errors():
            scan = version.source.scan()
            tasks = list(scan.plan_files())
        for task in tasks:
            with self._errors():
                rows = _rows(version.source, scan, [task]).select(schema.names).cast(schema)
            yield task.file.file_path, rows

    def publish(
        self, version: Version, removed: Collection[str], files: Sequence[DataFile], *, memory: int | None = None
    ) -> str:
        """Commit a new snapshot, also without files: another try that loaded the previous snapshot then meets a conflict."""
        table: Table = version.source
        digest = self.writer.digest
        with self._errors(), table.transaction() as transaction:
            update = transaction.update_snapshot()
            with update.overwrite() if removed else update.fast_append() as snapshot:
                for task in table.scan().plan_files() if removed else ():
                    if task.file.file_path in removed:
                        snapshot.delete_data_file(task.file)
                for file in files:
                    snapshot.append_data_file(self._added(version, file))
            recorded = {
                f"{_TRY}{digest}": str(self.writer.try_number),
                f"{_FILES}{digest}": str(len(files) if memory is None else 0),
            }
            transaction.set_properties(recorded if memory is None else {**recorded, _MERGE: str(memory)})
        return str(snapshot.snapshot_id)

    def has_rows_of_run(self, version: Version) -> bool:
        with self._errors():
            of_run = EqualTo(RUN, value=self.owner.run_id)  # type: ignore[call-arg]  # mypy's plugin knows no positional
            scan = version.source.scan(row_filter=of_run, selected_fields=(RUN,), limit=1)
            return bool(scan.to_arrow().num_rows)

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
            scan = version.source.scan(selected_fields=tuple(columns))
            tasks = [task for task in scan.plan_files() if self.writer.try_of(task.file.file_path) is None]
            return spark.createDataFrame(_rows(version.source, scan, tasks)) if tasks else None

    def data_storage(self, version: Version) -> TableStorage:
        uri = f"{version.source.location().rstrip('/')}/data"
        location = location_of(uri, {})
        if location.bucket is not None and self.access is None:
            raise AssetJobError(
                f"{self.location} lies at {uri}: name an S3 connection as `storage` of the catalog's connection"
            )
        return TableStorage(location=location, access=self.access)

    def file_schema(self, version: Version) -> pa.Schema | None:
        """All columns of the table, each with the field id by which readers know it."""
        return schema_to_pyarrow(version.source.schema(), include_field_ids=True)

    def is_in_files(self, name: str, version: Version) -> bool:  # noqa: ARG002 - readers take all values from the files
        return True

    def _record(self, table: Table) -> Record | None:
        number = table.properties.get(f"{_TRY}{self.writer.digest}")
        if number is None:
            return None
        return Record(try_number=int(number), files=int(table.properties.get(f"{_FILES}{self.writer.digest}", 0)))

    def _partition_columns(self, table: Table) -> list[str]:
        fields = table.spec().fields
        if other := [str(each.transform) for each in fields if not isinstance(each.transform, IdentityTransform)]:
            raise TargetFailed(
                f"{self.location} is partitioned by {', '.join(other)}, and only identity transforms are supported: "
                "name a table that is partitioned by its columns as they are"
            )
        return [table.schema().find_field(each.source_id).name for each in fields]

    def _added(self, version: Version, file: DataFile) -> ManifestFile:
        table: Table = version.source
        return ManifestFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{table.location().rstrip('/')}/data/{file.name}",
            file_format=FileFormat.PARQUET,
            partition=PartitionRecord(*self._partition(table, file)),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            record_count=file.rows,
            **metrics(table.schema(), table.properties, file.bounds),
        )

    def _partition(self, table: Table, file: DataFile) -> list[Any]:
        """The values of the columns that the table is partitioned by, all of which are the same in the file."""
        values: list[Any] = []
        for name, text in zip(self._partition_columns(table), file.values, strict=True):
            match table.schema().find_field(name).field_type:
                case StringType():
                    values.append(text)  # as a bound it may be shortened
                case DecimalType():
                    values.append(None if text is None else Decimal(file.bounds[name].smallest))
                case _:
                    values.append(file.bounds[name].smallest)
        return values

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (CommitFailedException, CommitStateUnknownException, TableAlreadyExistsError):
            raise CommitConflict from None
        except (AssetJobError, CommitConflict):
            raise
        except Exception as error:  # each catalog and each store has errors of its own
            raise TargetFailed(f"{self.location} cannot be written: {first_line(error)}") from error


def _schema(schema: pa.Schema) -> Schema:
    """The Iceberg schema with new field ids. Raises `TargetFailed`."""
    try:
        return assign_fresh_schema_ids(Catalog._convert_schema_if_needed(schema))  # noqa: SLF001 - as create_table does
    except (TypeError, ValueError) as error:
        raise TargetFailed(f"Iceberg has no type for a column: {first_line(error)}; cast the column") from None


def _in_ascii(name: str) -> str:
    """A name for a partition field. DuckDB cannot read manifests in which it has other letters."""
    return name.encode("ascii", "backslashreplace").decode()


def _text(kind: Any) -> str:
    """A text for a type, without the field ids of nested fields and without what may be null."""
    match kind:
        case StructType():
            return f"struct<{', '.join(f'{part.name}: {_text(part.field_type)}' for part in kind.fields)}>"
        case ListType():
            return f"list<{_text(kind.element_type)}>"
        case MapType():
            return f"map<{_text(kind.key_type)}, {_text(kind.value_type)}>"
    return str(kind)


def _without_retries(table: Table) -> Table:
    """Switch off pyiceberg's retries, in this process only: they would carry a superseded commit through."""
    properties = {**table.metadata.properties, **_NO_RETRIES}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _rows(table: Table, scan: Any, tasks: Sequence[Any]) -> pa.Table:
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415

    return ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter).to_table(tasks)
