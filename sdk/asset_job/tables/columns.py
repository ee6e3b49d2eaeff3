"""Compare a table's columns with those of a frame. Pure: types are texts, which are equal if and only if the types are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from asset_job.data import SchemaEvolution
from asset_job.errors import TargetFailed
from asset_job.tables.layout import RUN


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a table."""

    types: Mapping[str, str]
    """Name -> type."""
    partition_by: Sequence[str]
    """The names of the columns that the table is partitioned by."""
    required: frozenset[str] = frozenset()
    """The names of the columns that may not be null."""

    def added_by(
        self, frame: Mapping[str, str], partition_by: Sequence[str], evolution: SchemaEvolution, target: str
    ) -> list[str]:
        """The frame's columns that must be added to the table first. Raises `TargetFailed` if the frame does not fit.

        Names are compared as Spark compares them, without regard to case. Columns that the frame lacks will be null.
        """
        self._check_partitioning(partition_by, target)
        types = {name.lower(): kind for name, kind in self.types.items()}
        given = {name.lower() for name in frame}
        for name, kind in frame.items():
            if types.get(name.lower(), kind) != kind:
                raise TargetFailed(
                    f"the column {name} of {target} has the type {types[name.lower()]}, and the frame's column has {kind}: cast it"
                )
        if missing := [name for name in self.required if name.lower() not in given]:
            raise TargetFailed(f"{target} requires the column {', '.join(sorted(missing))}: add it to the frame")
        new = [name for name in frame if name.lower() not in types]
        if new and evolution == "strict":
            raise TargetFailed(
                f"{target} has no column {', '.join(new)}: drop it from the frame, or append with schema_evolution: add_columns"
            )
        return new

    def _check_partitioning(self, partition_by: Sequence[str], target: str) -> None:
        if [name.lower() for name in partition_by] != [name.lower() for name in self.partition_by]:
            own = ", ".join(self.partition_by) or "nothing"
            raise TargetFailed(
                f"{target} is partitioned by {own}, not by {', '.join(partition_by) or 'nothing'}: correct partition_by"
            )

    @property
    def has_run_column(self) -> bool:
        """Whether the table has the column that names each row's run."""
        return RUN in self.types


def format_in(names: Sequence[str]) -> str | None:
    """The format of the table in a folder, by the names directly inside it; None if it holds no table."""
    visible = [name for name in names if name == "_delta_log" or not name.startswith(("_", "."))]
    if "_delta_log" in visible:
        return "delta"
    if {"metadata", "data"} <= {*visible}:
        return "iceberg"
    return "parquet" if any(name.startswith(f"{RUN}=") or name.endswith(".parquet") for name in visible) else None


def check_format(names: Sequence[str], expected: str, target: str) -> None:
    """Raise `TargetFailed` if the folder with these names holds a table of another format."""
    existing = format_in(names)
    if existing not in {None, expected}:
        raise TargetFailed(
            f"{target} holds a table of the format {existing}, and {expected} is to be written: "
            "name another target, because tables are not converted"
        )
