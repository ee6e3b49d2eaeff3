"""`r.append` with `merge_on`: apply the changes of a run to a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from asset_job.errors import AssetJobError
from asset_job.sources.arrow import arrow_schema
from asset_job.tables.formats.versioned_table import VersionedTable
from asset_job.tables.layout import TargetTable, check_columns
from asset_job.tables.merge.changes import net_changes
from asset_job.tables.merge.merge_rows import ChangedRows, MergeRows
from asset_job.tables.merge.merging import merge
from asset_job.tables.parts import AppendedPart

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def arrow_types(spark: SparkSession, ddl: str) -> pa.Schema:
    """The types that a text in Spark's DDL names, as Spark exchanges them with Python."""
    return arrow_schema(spark.createDataFrame([], ddl))


def changed_rows(
    changes: Sequence[Mapping[str, Any]],
    merge_on: Sequence[str],
    event_ids: Mapping[str, int],
    types: Callable[[str], pa.Schema],
    schema: pa.Schema | None = None,
) -> ChangedRows:
    """The changes of a run, folded by key; `event_ids` as `net_changes` takes them. Raises `AssetJobError` for what are no changes."""
    if not all("op" in each for each in changes):
        raise AssetJobError("merge_on takes changes: pass r.triggering_asset_events.changes()")
    if not merge_on:
        raise AssetJobError(
            "changes are merged by key: name the key's columns, as in r.append(changes, …, merge_on=['id'])"
        )
    return ChangedRows(
        changes=net_changes(changes, merge_on, event_ids), merge_on=merge_on, schema=schema, types_by_ddl=types
    )


def merged_part(table: TargetTable, rows: MergeRows, partition_by: Sequence[str]) -> AppendedPart:
    """Merge the rows, and describe those that were written. Raises `AssetJobError`."""
    if not isinstance(table, VersionedTable):
        raise AssetJobError(
            f"{table.location} is a Parquet table, whose rows cannot be changed: merge into a table of format='delta' or 'iceberg'"
        )
    if rows.names:
        check_columns(list(rows.names), partition_by)
    written, new = merge(table, rows, partition_by)
    largest = {
        field.name: pc.max(written.column(field.name)).as_py()
        for field in written.schema
        if not (pa.types.is_nested(field.type) or pa.types.is_binary(field.type) or pa.types.is_boolean(field.type))
    }
    return AppendedPart(target=str(table.location), table=table, rows=written.num_rows, largest=largest, commit=new)
