"""One run of `builtin:ingest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import AssetJobError, StoreConflict
from ..runs import Run, run
from ..tables.parts import Appended, commit, stage
from ..tables.targets import Target
from .plan import Destination, IngestOptions, Source, destination, sources, watermark
from .records import check_schema, deduplicated, inferred, invalid, joined, records, valid, widened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ATTEMPTS = 10


def main() -> None:
    with run() as r:
        Ingest(run=r, options=IngestOptions.of(r.options)).execute()


@dataclass(frozen=True, kw_only=True)
class Ingest:
    run: Run
    options: IngestOptions

    def execute(self) -> None:
        """Raises `AssetJobError`; ends the run as skipped when its events name nothing to load."""
        to = destination(self.options, self.run.outlets)
        inputs = sources(self.run.triggering_asset_events, self.options.input_format)
        if not inputs:
            self.run.skip("the events of this run name neither files nor rows")
        self._load(inputs, to)

    def _load(self, inputs: list[Source], to: Destination) -> None:
        schema, inputs = self._schema(inputs, to)
        everything = records(self.run, inputs, self.options, schema)
        good, observation = valid(everything)
        table = self._staged(self._deduplicated(good, to), self._target(to), self.options.partition_by)
        records_read, bad = int(observation.get["records"]), int(observation.get["bad"])
        # A second pass, made only when there are bad records, which is rare.
        connection = None if self.options.format == "iceberg" else self.options.target_connection
        aside = Target(name=to.bad_records, connection=connection)
        separated = self._staged(invalid(everything) if bad else None, aside)
        commit([table, separated], self.run.check_still_ours)
        rows = table.rows
        self._report(to, {"rows_loaded": rows, "bad_records": bad, "duplicates": records_read - bad - rows})

    def _schema(self, inputs: list[Source], to: Destination) -> tuple[str, list[Source]]:
        """Kept in the asset store once it is other than the configuration's."""
        store, options = self.run.asset_store[to.outlet], self.options
        kept = store.get("schema")
        schema = options.schema or kept or inferred(self.run, inputs, options)
        check_schema(self.run, schema)
        if options.schema_evolution == "add_columns":
            before = joined(self.run, schema, kept)
            schema, inputs = widened(self.run, inputs, options, before)
            changed = schema != before or not (kept or options.schema)
        else:
            changed = not (kept or options.schema)
        if changed:
            store.set("schema", schema)
        return schema, inputs

    def _deduplicated(self, good: DataFrame, to: Destination) -> DataFrame:
        key = self.options.dedupe_key
        lacking = [name for name in key if name not in good.columns]
        if lacking:
            raise AssetJobError(f"dedupe_key names {', '.join(lacking)}, but the columns are {', '.join(good.columns)}")
        if not key:
            return good
        table = self.run.table(self._target(to))
        types = {name: good.schema[name].dataType.simpleString() for name in key}
        return deduplicated(good, table.others(self.run.spark, types, self.options.partition_by), key)

    def _target(self, to: Destination) -> Target:
        options = self.options
        return Target(
            name=to.target,
            format=options.format,
            connection=options.target_connection,
            schema_evolution=options.schema_evolution,
        )

    def _staged(self, frame: DataFrame | None, target: Target, partition_by: Sequence[str] = ()) -> Appended:
        return stage(self.run.table(target), frame, partition_by, self.run.check_still_ours)

    def _report(self, to: Destination, summary: Mapping[str, int]) -> None:
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
        self.run.outlet_events[to.outlet].extra = {"row_count": summary["rows_loaded"], **summary}

    def _before(self, to: Destination) -> Mapping[str, Any]:
        """The watermark before this run's first try: a later one would find its own."""
        kept: Mapping[str, Any] | None = self.run.task_store.get("before")
        if kept is None:
            mark = self.run.asset_store[to.outlet].get("watermark")
            kept = {} if mark is None else {"prev_watermark": mark}
            self.run.task_store.set("before", kept)
        return kept

    def _record(self, to: Destination, summary: Mapping[str, Any], recorded: int | None) -> None:
        """A later try does not repeat an earlier one's increments: it corrects the difference."""
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
