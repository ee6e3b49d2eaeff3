"""What a run reads and writes, without what does it: readers and tables are packages that travel with the jobs that use them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Literal, Protocol, TypeAlias

from asset_job.errors import AssetJobError

TableFormat: TypeAlias = Literal["parquet", "delta", "iceberg"]
SchemaEvolution: TypeAlias = Literal["strict", "add_columns"]


class AppendedRows(Protocol):
    """The rows that a run added to a table. Nobody sees them before they are committed."""

    @property
    def target(self) -> str:
        """The table's location."""

    @property
    def rows(self) -> int: ...

    @property
    def commit(self) -> str | None:
        """The version of the Delta table, or the snapshot of the Iceberg table, that has them.

        None: the table is Parquet, nothing was written, or the answer to the commit was lost.
        """

    def max(self, column: str) -> Any:
        """Return the largest value of a column; None if there are no rows. Raises `AssetJobError`."""


def package(module: str, name: str) -> Any:
    """Return something of a package of the SDK. Raises `AssetJobError` if the package did not come along with the job."""
    path = f"asset_job.{module}"
    try:
        return getattr(import_module(path), name)
    except ModuleNotFoundError as error:
        if error.name is None or not path.startswith(error.name):
            raise
        raise AssetJobError(
            f"this job's asset_job has no {error.name}; submit it with the SDK of a daemon that has it, or install the whole SDK"
        ) from error
