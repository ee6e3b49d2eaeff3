"""A table's columns beside those of a frame. Pure: types are texts that are equal when the types are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import TargetFailed
from .layout import RUN

SchemaEvolution = Literal["strict", "add_columns"]


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Of a table: name -> type, and the names of those that its rows are partitioned by."""

    types: Mapping[str, str]
    partition_by: Sequence[str]
    required: frozenset[str] = frozenset()
    """Those that may not be null."""

    def added_by(
        self, frame: Mapping[str, str], partition_by: Sequence[str], evolution: SchemaEvolution, target: str
    ) -> list[str]:
        """The frame's columns that the table is to get first. Raises `TargetFailed` for what does not fit.

        Names are compared as Spark does, in either case; columns that the frame lacks will be null.
        """
        self._check_partitioning(partition_by, target)
        types = {name.lower(): kind for name, kind in self.types.items()}
        given = {name.lower() for name in frame}
        for name, kind in frame.items():
            if types.get(name.lower(), kind) != kind:
                raise TargetFailed(
                    f"the column {name} of {target} has the type {types[name.lower()]}, and the frame's is {kind}: cast it"
                )
        if lacking := [name for name in self.required if name.lower() not in given]:
            raise TargetFailed(f"{target} takes no row without {', '.join(sorted(lacking))}: add it to the frame")
        new = [name for name in frame if name.lower() not in types]
        if new and evolution == "strict":
            raise TargetFailed(
                f"{target} has no column {', '.join(new)}: leave it out, or append with schema_evolution: add_columns"
            )
        return new

    def _check_partitioning(self, partition_by: Sequence[str], target: str) -> None:
        if [name.lower() for name in partition_by] != [name.lower() for name in self.partition_by]:
            own = ", ".join(self.partition_by) or "nothing"
            raise TargetFailed(f"{target} is partitioned by {own}, not by {', '.join(partition_by) or 'nothing'}")

    @property
    def tells_runs(self) -> bool:
        """Whether the table has the column that names the run of each row."""
        return RUN in self.types


def format_in(names: Sequence[str]) -> str | None:
    """Which kind of table lies in a folder, by the names directly inside; None: none."""
    visible = [name for name in names if name == "_delta_log" or not name.startswith(("_", "."))]
    if "_delta_log" in visible:
        return "delta"
    if {"metadata", "data"} <= {*visible}:
        return "iceberg"
    return "parquet" if any(name.startswith(f"{RUN}=") or name.endswith(".parquet") for name in visible) else None


def check_format(names: Sequence[str], wanted: str, target: str) -> None:
    """Raises `TargetFailed` where a table of another format lies."""
    there = format_in(names)
    if there not in {None, wanted}:
        raise TargetFailed(
            f"{target} holds a table of the format {there}, and {wanted} is to be written: "
            "name another target; nothing is converted"
        )
