"""A run's part of a table: staged, then committed; or merged by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from asset_job.data import SchemaEvolution, TableFormat
from asset_job.errors import AssetJobError
from asset_job.tables.layout import Owner, TargetTable
from asset_job.tables.parts import AppendedPart, commit, stage
from asset_job.tables.targets import TableContext, Target, open_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from asset_job.runs import Run


def append(
    run: Run,
    frame: DataFrame | Sequence[Mapping[str, Any]],
    target: str,
    *,
    format: TableFormat,  # noqa: A002 - as Spark's writers call it
    partition_by: Sequence[str],
    schema_evolution: SchemaEvolution,
    connection: str | None,
    merge_on: Sequence[str],
) -> AppendedPart:
    """Make the frame, or changes, the run's part of a table, as `Run.append` says."""
    named = Target(name=target, format=format, connection=connection, schema_evolution=schema_evolution)
    table = table_of(run, named)
    if table.location in run.appended_to:
        raise AssetJobError(
            f"{table.location} was appended to before, and a run has one part of a table: union the frames first"
        )
    if isinstance(frame, Sequence):
        appended = _merge(run, table, frame, merge_on, partition_by)
    elif merge_on:
        raise AssetJobError("merge_on takes changes, not a frame: pass r.triggering_asset_events.changes()")
    else:
        appended = stage(table, frame, partition_by, run.check_not_superseded)
        (appended,) = commit([appended], run.check_not_superseded)
    run.appended_to.add(table.location)
    return appended


def _merge(
    run: Run, table: TargetTable, changes: Sequence[Mapping[str, Any]], key: Sequence[str], partition_by: Sequence[str]
) -> AppendedPart:
    from asset_job.tables.merge.merged_part import arrow_types, changed_rows, merged_part  # noqa: PLC0415 - few jobs merge

    ids = run.triggering_asset_events.ids_by_lsn
    return merged_part(table, changed_rows(changes, key, ids, lambda ddl: arrow_types(run.spark, ddl)), partition_by)


def table_of(run: Run, target: Target) -> TargetTable:
    """Return the table that a target names, for this try to write. Raises `AssetJobError`."""
    owner = Owner(dag_id=run.dag_id, run_id=run.run_id, task_id=run.task_id, map_index=run.map_index)
    context = TableContext(
        owner=owner,
        try_number=run.try_number,
        outlets=run.outlets,
        connections=run.connections,
        check_not_superseded=run.check_not_superseded,
        warn=run.warn,
    )
    return open_table(target, context)
