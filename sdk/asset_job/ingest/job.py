"""Run `builtin:ingest`: read, separate and bound bad records, drop duplicates, append, and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from asset_job.errors import StoreConflict
from asset_job.ingest.merging import merge_rows
from asset_job.ingest.plan import (
    BadRecordSummary,
    IngestDestination,
    IngestInput,
    IngestJobOptions,
    columns_named,
    destination,
    ingest_inputs,
    watermark,
)
from asset_job.ingest.records import deduplicated, fields_of, inferred, joined, records, widened
from asset_job.run_context import run
from asset_job.runs import Run
from asset_job.tables.appending import table_of
from asset_job.tables.merge.merged_part import merged_part
from asset_job.tables.parts import AppendedPart, commit, stage
from asset_job.tables.targets import Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATTEMPTS = 10
"""How often the report is tried when its transaction conflicts."""


def main() -> None:
    with run() as r:
        Ingest(run=r, options=IngestJobOptions.from_json(r.options)).execute()


@dataclass(frozen=True, kw_only=True)
class Ingest:
    """One run of `builtin:ingest`."""

    run: Run
    options: IngestJobOptions

    def execute(self) -> None:
        """Load what the events name. Ends the run as skipped if they name nothing. Raises `AssetJobError`."""
        to = destination(self.options, self.run.outlets)
        if self.options.merge:
            self._merge(to)
            return
        inputs = ingest_inputs(self.run.triggering_asset_events, self.options.input_format)
        if not inputs:
            self.run.skip("the events of this run name neither files nor rows")
        self._load(inputs, to)

    def _load(self, inputs: list[IngestInput], to: IngestDestination) -> None:
        schema, inputs, is_new = self._schema(inputs, to)
        columns = fields_of(self.run, schema).names
        partition_by = columns_named("partition_by", self.options.partition_by, columns)
        key = columns_named("dedupe_key", self.options.dedupe_key, columns)
        with records(self.run, inputs, self.options, schema) as read:
            counts = read.counts()
            if counts.bad_rows:
                self._tell(read.summary(counts), to)
            if is_new:
                self.run.asset_store[to.outlet].set("schema", schema)
            rows = self._deduplicated(read.good, key, partition_by, to)
            table = self._staged(rows, self._target(to), partition_by)
            rejected = self._staged(read.bad if counts.bad_rows else None, self._bad_target(to))
            counts.check_written(table.rows, rejected.rows, may_drop=bool(key))
            table, _ = commit([table, rejected], self.run.check_not_superseded)
        summary = {"rows_loaded": table.rows, "bad_records": counts.bad, "duplicates": counts.good - table.rows}
        if self.options.on_unrepresentable == "null":
            summary["nulled_values"] = counts.nulled
        self._report(to, summary, table.commit)

    def _merge(self, to: IngestDestination) -> None:
        if not self.run.triggering_asset_events:
            self.run.skip("no event started this run, so there is nothing to merge")
        schema = self.options.schema or self.run.asset_store[to.outlet].get("schema")
        rows = merge_rows(self.run, self.options, schema)
        merged = merged_part(table_of(self.run, self._target(to)), rows, self.options.partition_by)
        gone = sum(change.row is None for change in rows.changes.of_keys.values())
        self._report(to, {"rows_loaded": merged.rows, "rows_deleted": gone}, merged.commit)

    def _tell(self, summary: BadRecordSummary, to: IngestDestination) -> None:
        """Report the bad records with the run. Raises `NoRetry` if they are too many."""
        summary.check(self.options.max_bad_records)
        self.run.bad_records = summary.bad
        self.run.warn(f"{summary}; they are in {to.bad_records}")

    def _schema(self, inputs: list[IngestInput], to: IngestDestination) -> tuple[str, list[IngestInput], bool]:
        """The schema to read with, the inputs, and whether the asset store is to keep the schema from now on."""
        options, stored = self.options, self.run.asset_store[to.outlet].get("schema")
        schema = options.schema or stored or inferred(self.run, inputs[0], options)
        if options.schema_evolution == "add_columns":
            before = joined(self.run, schema, stored)
            schema, inputs = widened(self.run, inputs, options, before)
            return schema, inputs, schema != before or not (stored or options.schema)
        return schema, inputs, not (stored or options.schema)

    def _deduplicated(
        self, good: DataFrame, key: Sequence[str], partition_by: Sequence[str], to: IngestDestination
    ) -> DataFrame:
        if not key:
            return good
        table = table_of(self.run, self._target(to))
        types = {name: good.schema[name].dataType.simpleString() for name in key}
        return deduplicated(good, table.rows_of_other_runs(self.run.spark, types, partition_by), key)

    def _bad_target(self, to: IngestDestination) -> Target:
        connection = None if self.options.format == "iceberg" else self.options.target_connection
        return Target(name=to.bad_records, connection=connection)

    def _target(self, to: IngestDestination) -> Target:
        options = self.options
        return Target(
            name=to.target,
            format=options.format,
            connection=options.target_connection,
            schema_evolution=options.schema_evolution,
        )

    def _staged(self, frame: DataFrame | None, target: Target, partition_by: Sequence[str] = ()) -> AppendedPart:
        return stage(table_of(self.run, target), frame, partition_by, self.run.check_not_superseded)

    def _report(self, to: IngestDestination, summary: Mapping[str, int], committed: str | None) -> None:
        earlier = self._before(to)
        recorded = self.run.task_store.get("rows_loaded")
        for attempt in range(_ATTEMPTS):
            try:
                self._record(to, {**summary, "run_id": self.run.run_id, **earlier}, recorded)
                break
            except StoreConflict:
                if attempt == _ATTEMPTS - 1:
                    raise
        self.run.task_store.set("rows_loaded", summary["rows_loaded"])
        self.run.outlet_events[to.outlet].extra = {
            "row_count": summary["rows_loaded"],
            **summary,
            **({} if committed is None else {"commit": committed}),
        }

    def _before(self, to: IngestDestination) -> Mapping[str, Any]:
        """The watermark before the first try of this run. A later try would read the watermark that an earlier one wrote."""
        stored: Mapping[str, Any] | None = self.run.task_store.get("before")
        if stored is None:
            mark = self.run.asset_store[to.outlet].get("watermark")
            stored = {} if mark is None else {"prev_watermark": mark}
            self.run.task_store.set("before", stored)
        return stored

    def _record(self, to: IngestDestination, summary: Mapping[str, Any], recorded: int | None) -> None:
        """Write the run's entries. `recorded` is what an earlier try added to `rows_loaded`, so that only the difference is added."""
        rows = summary["rows_loaded"]
        with self.run.asset_store[to.outlet].transaction() as t:
            t.increment("total_runs")
            if recorded is None or recorded == rows:
                t.increment("rows_loaded", rows)
            else:
                t["rows_loaded"] = t.get("rows_loaded", 0) - recorded + rows
            mark = watermark(self.run.triggering_asset_events, t.get("watermark"))
            if mark is not None:
                t["watermark"] = mark
            t["last_run_summary"] = {**summary, "completed_at": self.run.now()}
