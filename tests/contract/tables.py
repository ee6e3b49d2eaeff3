"""Tables that commit versions, with their real libraries and without Spark: the writer for Spark's tasks writes the files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from typing import Any, TypeAlias
from uuid import uuid4

import duckdb
import duckdb_extension_avro
import duckdb_extension_delta
import duckdb_extension_httpfs
import duckdb_extension_iceberg
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from asset_job.sources.s3_objects import S3Access, s3_access
from asset_job.tables.formats.delta_table import DeltaLakeTable
from asset_job.tables.formats.iceberg_table import IcebergTable
from asset_job.tables.formats.versioned_table import VersionedTable
from asset_job.tables.layout import Owner, TableLocation, location_of
from asset_job.tables.parquet.data_files import DataFile
from asset_job.tables.replacement import WritingTry
from tests.servers import S3Server

Rows: TypeAlias = pa.Table


def check_not_superseded() -> None:
    """Accept the try, as the daemon does until it is superseded."""


@dataclass(kw_only=True)
class Kind(ABC):
    """A format, and the location of its table."""

    warnings: list[str] = field(default_factory=list)

    @abstractmethod
    def table(
        self, run: str, try_number: int, *, ask: Callable[[], None] = check_not_superseded, evolution: Any = "strict"
    ) -> VersionedTable: ...

    @abstractmethod
    def by_library(self) -> Rows:
        """All columns as the format's own library reads them."""

    @abstractmethod
    def by_duckdb(self) -> Rows: ...

    @abstractmethod
    def drop(self) -> None: ...

    @abstractmethod
    def smallest_ids(self) -> list[int]:
        """The smallest id of each file, by the table's metadata."""

    def writer(self, run: str, try_number: int) -> WritingTry:
        owner = Owner(dag_id="load", run_id=run, task_id="load", map_index=-1)
        return WritingTry(owner=owner, try_number=try_number)

    def ids(self) -> list[int]:
        return sorted(self.by_library()["id"].to_pylist())


@dataclass(kw_only=True)
class Delta(Kind):
    location: TableLocation
    access: S3Access | None = None
    options: dict[str, str] | None = None

    def table(
        self, run: str, try_number: int, *, ask: Callable[[], None] = check_not_superseded, evolution: Any = "strict"
    ) -> DeltaLakeTable:
        writer = self.writer(run, try_number)
        return DeltaLakeTable(
            location=self.location,
            access=self.access,
            owner=writer.owner,
            writer=writer,
            attempt=uuid4().hex,
            evolution=evolution,
            check_not_superseded=ask,
            warn=self.warnings.append,
            pause=lambda _: None,
        )

    def drop(self) -> None:
        rmtree(self.location.path)

    def open(self) -> DeltaTable:
        return DeltaTable(self.url, storage_options=self.options)

    def smallest_ids(self) -> list[int]:
        return list(self.open().get_add_actions(flatten=True)["min.id"].to_pylist())

    @property
    def url(self) -> str:
        return str(self.location) if self.location.bucket else Path(self.location.path).as_uri()

    def by_library(self) -> Rows:
        return self.open().to_pyarrow_table()

    def by_duckdb(self) -> Rows:
        with duckdb.connect() as connection:
            connection.execute(f"LOAD '{extension(duckdb_extension_delta)}'")
            if self.options is not None:
                connection.execute(f"LOAD '{extension(duckdb_extension_httpfs)}'")
                connection.execute(secret(self.options))
            return connection.execute(f"SELECT * FROM delta_scan('{self.url}')").to_arrow_table()


@dataclass(kw_only=True)
class Iceberg(Kind):
    """An Iceberg table, with a catalog in SQLite or at the address `rest`."""

    folder: Path
    rest: str | None = None
    access: S3Access | None = None
    options: dict[str, str] | None = None
    properties: dict[str, str] = field(default_factory=dict)

    def catalog(self) -> Catalog:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.rest is not None:
            return RestCatalog("ice", uri=self.rest, **self.properties)
        words = {"uri": f"sqlite:///{self.folder}/catalog.db", "warehouse": self.folder.as_uri(), **self.properties}
        return SqlCatalog("ice", **words)

    def table(
        self, run: str, try_number: int, *, ask: Callable[[], None] = check_not_superseded, evolution: Any = "strict"
    ) -> IcebergTable:
        writer = self.writer(run, try_number)
        return IcebergTable(
            name=("shop", "orders"),
            location=TableLocation(bucket=None, path="shop.orders"),
            catalog=self.catalog(),
            access=self.access,
            owner=writer.owner,
            writer=writer,
            attempt=uuid4().hex,
            evolution=evolution,
            check_not_superseded=ask,
            warn=self.warnings.append,
            pause=lambda _: None,
        )

    def smallest_ids(self) -> list[int]:
        number = self.open().schema().find_field("id").field_id
        files = [task.file for task in self.open().scan().plan_files()]
        return [int.from_bytes(file.lower_bounds[number], "little", signed=True) for file in files]

    def drop(self) -> None:
        self.catalog().drop_table(("shop", "orders"))

    def open(self) -> Any:
        return self.catalog().load_table(("shop", "orders"))

    def by_library(self) -> Rows:
        return self.open().scan().to_arrow()

    def by_duckdb(self) -> Rows:
        with duckdb.connect() as connection:
            connection.execute(f"LOAD '{extension(duckdb_extension_avro)}'")
            connection.execute(f"LOAD '{extension(duckdb_extension_iceberg)}'")
            if self.options is not None:
                connection.execute(f"LOAD '{extension(duckdb_extension_httpfs)}'")
                connection.execute(secret(self.options))
            place = self.open().metadata_location.removeprefix("file://")
            return connection.execute(f"SELECT * FROM iceberg_scan('{place}')").to_arrow_table()


def iceberg_on(server: S3Server, bucket: str, folder: Path, rest: str | None = None) -> Iceberg:
    """An Iceberg table on S3. Its catalog is a file in the folder, or at the address `rest`."""
    lake = delta_on(server, bucket)
    properties = {
        "warehouse": f"s3://{bucket}/warehouse",
        "s3.endpoint": server.endpoint,
        "s3.region": server.region,
        "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
    }
    return Iceberg(folder=folder, rest=rest, access=lake.access, options=lake.options, properties=properties)


def extension(package: Any) -> str:
    return str(next(Path(package.__file__).parent.rglob("*.duckdb_extension")))


def secret(options: dict[str, str]) -> str:
    endpoint = options["aws_endpoint"].removeprefix("http://")
    return (
        f"CREATE SECRET (TYPE s3, KEY_ID '{options['aws_access_key_id']}', SECRET '{options['aws_secret_access_key']}', "
        f"REGION 'us-east-1', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)"
    )


def delta_in(folder: str) -> Delta:
    return Delta(location=location_of(folder, {}))


def delta_on(server: S3Server, bucket: str) -> Delta:
    connection = {
        "endpoint_url": server.endpoint,
        "region": server.region,
        "access_key_id": server.access_key,
        "secret_access_key": server.secret_key,
    }
    options = {
        "aws_endpoint": server.endpoint,
        "aws_region": server.region,
        "aws_access_key_id": server.access_key,
        "aws_secret_access_key": server.secret_key,
        "aws_allow_http": "true",
    }
    return Delta(
        location=location_of(f"s3://{bucket}/tables/orders", {}), access=s3_access(connection), options=options
    )


def files_of(table: VersionedTable, rows: Rows, partition_by: Sequence[str] = ()) -> list[DataFile]:
    """Prepare the table for the rows, and write their files as tasks do."""
    version = table.ready(rows.schema, partition_by)
    if version.columns.has_run_column:
        rows = rows.append_column("run", pa.array([table.owner.run_id] * rows.num_rows, pa.string()))
    kept = rows.select([name for name in rows.column_names if table.is_in_files(name, version)])
    for at, name in enumerate(partition_by):
        kept = kept.append_column(f"_partition_{at}", pc.cast(rows[name], pa.string()))
    ordered = kept.sort_by(
        [(f"_partition_{at}", "ascending") for at in range(len(partition_by))] or kept.column_names[0]
    )
    writer = table.file_writer(version, len(kept.column_names) - len(partition_by))
    return list(writer.write(_batches(ordered)).files)  # type: ignore[attr-defined]


def _batches(rows: Rows) -> Iterator[pa.RecordBatch]:
    yield from rows.to_batches(max_chunksize=3)


def append(table: VersionedTable, rows: Rows | None, partition_by: Sequence[str] = ()) -> None:
    """Do what `r.append` does, without Spark."""
    table.prepare()
    files = [] if rows is None else files_of(table, rows, partition_by)
    table.replace(files)
