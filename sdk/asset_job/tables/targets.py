"""Open the table that a target names, by its format and location."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from asset_job.data import SchemaEvolution, TableFormat
from asset_job.errors import AssetJobError, require, require_on_driver
from asset_job.sources.request import connection_of
from asset_job.tables.formats.local_table import LocalTable
from asset_job.tables.layout import Owner, TableLocation, TargetTable, location_of
from asset_job.tables.replacement import WritingTry

if TYPE_CHECKING:
    from asset_job.sources.s3_objects import S3Access

FORMATS = ("parquet", "delta", "iceberg")


@dataclass(frozen=True, kw_only=True)
class Target:
    """What a job names to write to. Raises `AssetJobError` for a format or an evolution that does not exist."""

    name: str
    """An outlet's name, a path or a URL; for an Iceberg table `<namespace>.<table>`."""
    format: TableFormat = "parquet"
    connection: str | None = None
    """The name of the connection; None: the only one of its kind."""
    schema_evolution: SchemaEvolution = "strict"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise AssetJobError(f"format {self.format!r} is unknown: use {', '.join(FORMATS)}")
        if self.schema_evolution not in {"strict", "add_columns"}:
            raise AssetJobError(f"schema_evolution {self.schema_evolution!r} is unknown: use strict or add_columns")
        if self.format == "parquet" and self.schema_evolution != "strict":
            raise AssetJobError(
                "a Parquet table has no schema that columns could be added to: use the format delta or iceberg"
            )


@dataclass(frozen=True, kw_only=True)
class TableContext:
    """What opening a table takes from the run: which try writes, and what the job may use."""

    owner: Owner
    try_number: int
    outlets: Mapping[str, str]
    """Name -> uri."""
    connections: Mapping[str, Mapping[str, Any]] = field(repr=False)
    check_not_superseded: Callable[[], None]
    """Asks the daemon; raises when the try was superseded."""
    warn: Callable[[str], None]
    """Takes a sentence that people should read with the run."""


def open_table(target: Target, context: TableContext) -> TargetTable:
    """The table that a target names, for one try. Raises `AssetJobError` if a connection or a package is missing."""
    if target.format == "iceberg":
        return _iceberg_table(target, context)
    location = location_of(target.name, context.outlets)
    if target.format == "delta":
        return _delta_table(target, context, location)
    if location.bucket is None:
        return LocalTable(location=location, owner=context.owner, attempt=uuid4().hex)
    access = _s3_access(context, target.connection)
    from asset_job.tables.formats.s3_table import S3Table  # noqa: PLC0415 - needs the packages that were just required

    return S3Table(location=location, owner=context.owner, attempt=uuid4().hex, access=access)


def _delta_table(target: Target, context: TableContext, location: TableLocation) -> TargetTable:
    require("pyarrow", "obstore")
    require_on_driver("deltalake", "delta")
    from asset_job.tables.formats.delta_table import DeltaLakeTable  # noqa: PLC0415 - needs the packages that were just required

    return DeltaLakeTable(
        location=location,
        owner=context.owner,
        attempt=uuid4().hex,
        writer=WritingTry(owner=context.owner, try_number=context.try_number),
        evolution=target.schema_evolution,
        check_not_superseded=context.check_not_superseded,
        warn=context.warn,
        access=None if location.bucket is None else _s3_access(context, target.connection),
    )


def _iceberg_table(target: Target, context: TableContext) -> TargetTable:
    if "." not in target.name:
        raise AssetJobError(f"{target.name!r} does not name an Iceberg table: write <namespace>.<table>")
    connection = connection_of(context.connections, "iceberg", target.connection)
    require("pyarrow", "obstore")
    require_on_driver("pyiceberg", "iceberg")
    from asset_job.tables.formats.iceberg_table import (  # noqa: PLC0415 - needs the packages that were just required
        IcebergTable,
        open_catalog,
    )

    name = next(name for name, values in context.connections.items() if values is connection)
    storage = connection.get("storage")
    access = _s3_access(context, storage) if storage else None
    return IcebergTable(
        location=TableLocation(bucket=None, path=target.name),
        owner=context.owner,
        attempt=uuid4().hex,
        writer=WritingTry(owner=context.owner, try_number=context.try_number),
        evolution=target.schema_evolution,
        check_not_superseded=context.check_not_superseded,
        warn=context.warn,
        name=tuple(target.name.split(".")),
        catalog=open_catalog(name, connection, access),
        access=access,
    )


def _s3_access(context: TableContext, name: str | None) -> S3Access:
    """The S3 connection called `name`, or else the only one. Raises `AssetJobError`."""
    connection = connection_of(context.connections, "s3", name)
    require("pyarrow", "obstore")
    from asset_job.sources.s3_objects import s3_access  # noqa: PLC0415 - needs the packages that were just required

    return s3_access(connection)
