"""From what `r.append` is asked for to the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias
from uuid import uuid4

from ..errors import AssetJobError, require, require_on_driver
from ..sources.request import connection_of
from .columns import SchemaEvolution
from .layout import Owner, Place, Table, place_of
from .local_table import LocalTable
from .replacement import Writer

if TYPE_CHECKING:
    from ..runs import Run

TableFormat: TypeAlias = Literal["parquet", "delta", "iceberg"]
FORMATS = ("parquet", "delta", "iceberg")


@dataclass(frozen=True, kw_only=True)
class Target:
    """`name` is an outlet's, a path or a URL, or of an Iceberg table `<namespace>.<table>`. Raises `AssetJobError` for words that are none."""

    name: str
    format: TableFormat = "parquet"
    connection: str | None = None
    schema_evolution: SchemaEvolution = "strict"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise AssetJobError(f"format {self.format!r} is unknown: use {', '.join(FORMATS)}")
        if self.schema_evolution not in {"strict", "add_columns"}:
            raise AssetJobError(f"schema_evolution {self.schema_evolution!r} is unknown: use strict or add_columns")
        if self.format == "parquet" and self.schema_evolution != "strict":
            raise AssetJobError("a Parquet table has no schema that could get columns: use format delta or iceberg")


def open_table(target: Target, run: Run) -> Table:
    """The way of this try to its table. Raises `AssetJobError` where something for it is missing."""
    owner = Owner(dag_id=run.dag_id, run_id=run.run_id, task_id=run.task_id, map_index=run.map_index)
    if target.format == "iceberg":
        return _iceberg(target, run, owner)
    place = place_of(target.name, run.outlets)
    here: dict[str, Any] = {"place": place, "owner": owner, "attempt": uuid4().hex}
    if target.format == "delta":
        return _delta(target, run, here)
    if place.bucket is None:
        return LocalTable(**here)
    access = _access(target, run, place)
    from .s3_table import S3Table  # noqa: PLC0415 - needs what was just required

    return S3Table(**here, access=access)


def _delta(target: Target, run: Run, here: dict[str, Any]) -> Table:
    require("pyarrow", "obstore")
    require_on_driver("deltalake", "delta")
    from .delta_table import DeltaLakeTable  # noqa: PLC0415 - needs what was just required

    return DeltaLakeTable(
        **here, **_of_versions(target, run, here["owner"]), access=_access(target, run, here["place"])
    )


def _iceberg(target: Target, run: Run, owner: Owner) -> Table:
    if "." not in target.name:
        raise AssetJobError(f"{target.name!r} is no Iceberg table: name it <namespace>.<table>")
    chosen = connection_of(run.connections, "iceberg", target.connection)
    require("pyarrow", "obstore")
    require_on_driver("pyiceberg", "iceberg")
    from ..sources.s3_objects import s3_access  # noqa: PLC0415 - needs what was just required
    from .iceberg_catalog import open_catalog  # noqa: PLC0415
    from .iceberg_table import IcebergTable  # noqa: PLC0415

    name = next(name for name, values in run.connections.items() if values is chosen)
    storage = chosen.get("storage")
    access = s3_access(connection_of(run.connections, "s3", storage)) if storage else None
    return IcebergTable(
        place=Place(bucket=None, path=target.name),
        owner=owner,
        attempt=uuid4().hex,
        **_of_versions(target, run, owner),
        name=tuple(target.name.split(".")),
        catalog=open_catalog(name, chosen, access),
        access=access,
    )


def _of_versions(target: Target, run: Run, owner: Owner) -> dict[str, Any]:
    return {
        "writer": Writer(owner=owner, try_number=run.try_number),
        "evolution": target.schema_evolution,
        "still_ours": run.check_still_ours,
        "warn": run.warn,
    }


def _access(target: Target, run: Run, place: Place) -> Any:
    """None of a folder."""
    if place.bucket is None:
        return None
    chosen = connection_of(run.connections, "s3", target.connection)
    require("pyarrow", "obstore")
    from ..sources.s3_objects import s3_access  # noqa: PLC0415 - needs what was just required

    return s3_access(chosen)
