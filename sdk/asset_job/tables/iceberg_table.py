"""An Iceberg table, by `pyiceberg`: a commit asks the catalog to put a new snapshot in the place of exactly the one that was loaded."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile as ManifestFile
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table, TableProperties
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, MapType, StructType

from ..errors import AssetJobError, TargetFailed
from ..sources.s3_objects import S3Access, first_line
from .columns import Columns
from .data_files import DataFile, Storage
from .layout import RUN, place_of
from .replacement import Record
from .versioned_table import Conflict, Version, VersionedTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FIRST_PARTITION_FIELD = 1000
_TRY = "asset_watcher.try."
_FILES = "asset_watcher.files."
_METRICS = TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX
_WITH_BOUNDS = TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT
_NO_RETRIES = {"commit.retry.num-retries": "0"}


@dataclass(frozen=True, kw_only=True)
class IcebergTable(VersionedTable):
    """Two table properties record a task instance: its newest try, and how many files that try added.

    A summary of a snapshot would be forgotten when the snapshot expires.
    """

    format: ClassVar[str] = "iceberg"

    name: tuple[str, ...]
    """Namespace and table."""
    catalog: Catalog = field(repr=False)
    access: S3Access | None
    """None: tables in folders."""

    def load(self) -> Version | None:
        with self._errors():
            try:
                table = self.catalog.load_table(self.name)
            except NoSuchTableError:
                return None
            schema = table.schema()
            return Version(
                columns=Columns(
                    types={column.name: _text(column.field_type) for column in schema.fields},
                    partition_by=self._partition_columns(table),
                    required=frozenset(column.name for column in schema.fields if column.required),
                ),
                record=self._record(table),
                live=frozenset(task.file.file_path for task in table.scan().plan_files() if not task.delete_files),
                source=_without_retries(table),
            )

    def create(self, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        columns = _schema(schema)
        own = {column.name.lower(): column for column in columns.fields}
        fields = [
            PartitionField(source.field_id, _FIRST_PARTITION_FIELD + at, IdentityTransform(), source.name)
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

    def publish(self, version: Version, removed: Collection[str], files: Sequence[DataFile]) -> None:
        """Without files, too, there is a new snapshot: another try that loaded the one before meets it."""
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
            transaction.set_properties(
                {f"{_TRY}{digest}": str(self.writer.try_number), f"{_FILES}{digest}": str(len(files))}
            )

    def has_rows_of_run(self, version: Version) -> bool:
        with self._errors():
            of_run = EqualTo(RUN, value=self.owner.run_id)  # type: ignore[call-arg]  # mypy's plugin knows no positional
            scan = version.source.scan(row_filter=of_run, selected_fields=(RUN,), limit=1)
            return bool(scan.to_arrow().num_rows)

    def others(self, spark: SparkSession, columns: Mapping[str, str], partition_by: Sequence[str]) -> DataFrame | None:  # noqa: ARG002 - the table knows
        version = self.load()
        if version is None:
            return None
        with self._errors():
            scan = version.source.scan(selected_fields=tuple(columns))
            tasks = [task for task in scan.plan_files() if self.writer.try_of(task.file.file_path) is None]
            return spark.createDataFrame(_rows(version.source, scan, tasks)) if tasks else None

    def data_storage(self, version: Version) -> Storage:
        location = f"{version.source.location().rstrip('/')}/data"
        place = place_of(location, {})
        if place.bucket is not None and self.access is None:
            raise AssetJobError(f"{self.place} lies at {location}: name an S3 connection as `storage` of the catalog's")
        return Storage(place=place, access=self.access)

    def file_schema(self, version: Version) -> pa.Schema | None:
        """All columns, each with the number by which readers know it."""
        return schema_to_pyarrow(version.source.schema(), include_field_ids=True)

    def is_in_files(self, name: str, version: Version) -> bool:  # noqa: ARG002 - readers take no value from elsewhere
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
                f"{self.place} is partitioned by {', '.join(other)}: only by columns as they are is possible"
            )
        return [table.schema().find_field(each.source_id).name for each in fields]

    def _added(self, version: Version, file: DataFile) -> ManifestFile:
        table: Table = version.source
        schema = table.schema()
        statistics = data_file_statistics_from_parquet_metadata(
            parquet_metadata=file.metadata,
            stats_columns=compute_statistics_plan(schema, {**table.properties, **self._partitions_measured(table)}),
            parquet_column_mapping=parquet_path_to_id_mapping(schema),
        )
        return ManifestFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"{table.location().rstrip('/')}/data/{file.name}",
            file_format=FileFormat.PARQUET,
            partition=statistics.partition(table.spec(), schema),
            file_size_in_bytes=file.size,
            sort_order_id=None,
            spec_id=table.metadata.default_spec_id,
            equality_ids=None,
            key_metadata=None,
            **statistics.to_serialized_dict(),
        )

    def _partitions_measured(self, table: Table) -> dict[str, str]:
        """Settings over the table's own: a file's partition is told from its columns' smallest and largest values."""
        return {f"{_METRICS}.{name}": _WITH_BOUNDS for name in self._partition_columns(table)}

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (CommitFailedException, CommitStateUnknownException, TableAlreadyExistsError):
            raise Conflict from None
        except (AssetJobError, Conflict):
            raise
        except Exception as error:  # each catalog and each store has its own
            raise TargetFailed(f"{self.place} cannot be written: {first_line(error)}") from error


def _schema(schema: pa.Schema) -> Schema:
    """Raises `TargetFailed`."""
    try:
        return assign_fresh_schema_ids(Catalog._convert_schema_if_needed(schema))  # noqa: SLF001 - as create_table does
    except (TypeError, ValueError) as error:
        raise TargetFailed(f"Iceberg has no such type: {first_line(error)}") from None


def _text(kind: Any) -> str:
    """Without the numbers of what is inside, and whether it may be null."""
    match kind:
        case StructType():
            return f"struct<{', '.join(f'{part.name}: {_text(part.field_type)}' for part in kind.fields)}>"
        case ListType():
            return f"list<{_text(kind.element_type)}>"
        case MapType():
            return f"map<{_text(kind.key_type)}, {_text(kind.value_type)}>"
    return str(kind)


def _without_retries(table: Table) -> Table:
    """In this process only: pyiceberg's retries would carry a superseded commit through."""
    properties = {**table.metadata.properties, **_NO_RETRIES}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    return table


def _rows(table: Table, scan: Any, tasks: Sequence[Any]) -> pa.Table:
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415

    return ArrowScan(table.metadata, table.io, scan.projection(), scan.row_filter).to_table(tasks)
