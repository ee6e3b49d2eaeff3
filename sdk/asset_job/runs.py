"""Run one try of a job, from its claim to its end."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self
from uuid import uuid4

from asset_job.backends import WorkerBackend
from asset_job.background import Background
from asset_job.client import Transport, now, storable
from asset_job.connections import JobConnections
from asset_job.data import AppendedRows, SchemaEvolution, TableFormat, package
from asset_job.errors import AssetJobError, AssetJobSkip, Fenced, describe, gone_file, is_final
from asset_job.events import InletEvents, OutletEvents, TriggeringAssetEvents
from asset_job.missing import MOST_ASKED_FOR, MOST_PATHS, missing_files, superseded_names
from asset_job.stores import AssetStores, TaskStore

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger("asset_job")

CLAIMED_BY_ANOTHER = 75
"""The exit code of a process whose try another process has claimed."""
_LONGEST_MESSAGE = 2000


class Run:
    """One try of this job, claimed while the `with` block runs."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    conf: Mapping[str, Any]
    """The `conf` that was given when the run was requested; empty for scheduled runs."""
    logical_date: datetime | None
    """The tick of a scheduled run, or as it was requested. The same holds for the data interval."""
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    partition_key: str | None
    """The one that all the run's events have, or as it was requested; None: they have none, or several."""
    partition_complete: bool | None
    """Whether the partition is complete, or was when it had its first run; None: the job's `batch` has no `complete`."""
    late: bool
    """Whether the run's events came after the first run of their partition."""
    redelivered: bool
    """Whether the run's events are of a delivery of their partition after the first, where `complete` says `again`."""
    triggering_asset_events: TriggeringAssetEvents
    asset_store: AssetStores
    task_store: TaskStore
    inlet_events: InletEvents
    outlet_events: OutletEvents
    outlets: Mapping[str, str]
    """The assets among the job's outlets: name -> uri."""
    options: Mapping[str, Any]
    """The job's `spark.options`."""
    connections: Mapping[str, Mapping[str, Any]]
    """The connections that `spark.connections` names, with their credentials: do not print them.

    A password that changes is asked for once more when PostgreSQL refuses it.
    """
    appended_to: set[object]
    """The locations of the tables that this try has a part of."""
    bad_records: int = 0
    """The records that the job leaves out of its tables because they cannot be read. Set it before the block ends: a run that
    succeeds with some raises the alert `bad_records`, until a person resolves them."""

    def __init__(
        self, client: Transport, *, connections: Mapping[str, Mapping[str, Any]], background: Sequence[Background] = ()
    ) -> None:
        """The threads in `background` run until the block ends."""
        self.connections = JobConnections(connections, client)
        self._client, self._background = client, background

    def __enter__(self) -> Self:
        claim = self._claim()
        self.dag_id, self.run_id, self.task_id = claim["dag_id"], claim["run_id"], claim["task_id"]
        self.map_index, self.try_number = claim["map_index"], claim["try_number"]
        self.conf = claim.get("conf", {})
        self.logical_date, self.data_interval_start, self.data_interval_end = (
            _moment(claim.get(name)) for name in ("logical_date", "data_interval_start", "data_interval_end")
        )
        self.partition_key = claim.get("partition_key")
        self.partition_complete, self.late = claim.get("partition_complete"), claim.get("late", False)
        self.redelivered = claim.get("redelivered", False)
        known = {asset["name"]: asset["uri"] for asset in claim["inlets"] + claim["outlets"] if "name" in asset}
        self.outlets = {asset["name"]: asset["uri"] for asset in claim["outlets"] if "name" in asset}
        self.appended_to: set[object] = set()
        self._warnings: list[str] = []
        self.triggering_asset_events = TriggeringAssetEvents(claim["triggering_asset_events"], claim.get("left_out"))
        self.options = claim["options"]
        self._worker = WorkerBackend(claim.get("worker_backend"))
        self._clear_on_success = claim["clear_on_success"]
        self.asset_store = AssetStores(self._client, self._worker, known)
        self.task_store = TaskStore(self._client, self._worker, claim)
        self.inlet_events = InletEvents(self._client, claim["inlets"], known)
        self.outlet_events = OutletEvents(claim["outlets"], known, any_asset=claim.get("any_outlet", False))
        for thread in self._background:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> bool:
        for thread in self._background:
            thread.stop()
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self._succeed()
            return False
        if isinstance(error, AssetJobSkip):
            self._finish("skipped", str(error), [])
            return True
        try:
            more = {"retry": False} if is_final(error) else self._missing(error)
            self._finish("failed", describe(error)[:_LONGEST_MESSAGE], [], **more)
        except AssetJobError as unreported:
            log.warning(
                "the failure could not be reported: %s", unreported
            )  # raising it would hide the job's own error
        return False

    @cached_property
    def spark(self) -> SparkSession:
        """The job's SparkSession, which is created on first use."""
        from pyspark.sql import SparkSession  # noqa: PLC0415 - the module itself needs no Spark

        return SparkSession.builder.getOrCreate()

    def read(
        self,
        new: Any,
        *,
        format: str | None = None,  # noqa: A002 - as Spark's readers call it
        schema: Any = None,
        table: str | None = None,
        connection: str | None = None,
        missing: Literal["fail", "skip"] = "fail",
        reader: Literal["asset_job", "spark"] = "asset_job",
        on_unrepresentable: Literal["fail", "bad", "null", "text"] = "fail",
        **options: Any,
    ) -> DataFrame:
        """A DataFrame of exactly these files, these ranges of ids, or the files or rows of these events.

        `format` is json, csv, text or parquet, by default as the files' names imply; `schema` is Spark's DDL, by default
        inferred; `options` have Spark's names. `table` and `connection` are needed only if there are several. A file that was
        deleted or overwritten since it was detected fails the job; with `missing="skip"` it is skipped. A record that does
        not fit the schema fails the job for good, unless the schema has the column for corrupt records or `mode` is given.
        `reader="spark"` asks for Spark's own readers (s3a, JDBC), whose values may differ from the source's.
        `on_unrepresentable` says what becomes of a value of PostgreSQL that Spark has no value for.
        Raises `AssetJobError`. Errors in executors come as Spark's exceptions when the DataFrame is used.
        """
        read = package("sources.readers", "read_for")
        frame: DataFrame = read(
            self,
            new,
            format=format,
            schema=schema,
            table=table,
            connection=connection,
            missing=missing,
            reader=reader,
            on_unrepresentable=on_unrepresentable,
            options=options,
        )
        return frame

    def append(
        self,
        frame: DataFrame | Sequence[Mapping[str, Any]],
        target: str,
        *,
        format: TableFormat = "parquet",  # noqa: A002 - as Spark's writers call it
        partition_by: str | Sequence[str] = (),
        schema_evolution: SchemaEvolution = "strict",
        connection: str | None = None,
        merge_on: str | Sequence[str] = (),
    ) -> AppendedRows:
        """Make the frame this run's part of a table. A later try of the run replaces the whole part.

        `target` is an outlet's name, whose uri is used, an absolute path, or a `file:` or `s3:` URL; for an Iceberg table
        `<namespace>.<table>`. The part of a Parquet table is `<target>/run=<run_id>`, with dots for colons; in the other
        formats a run's rows are added by one commit. A frame with columns that such a table lacks is rejected, unless
        `schema_evolution` is `add_columns`. `connection` is needed only if there are several for S3, or several
        catalogs. With `merge_on`, the columns of the key, `frame` are changes of `r.triggering_asset_events.changes()`, which are
        applied by key to a Delta or Iceberg table by one commit; a repetition changes nothing.
        Raises `AssetJobError`, and `Fenced` before anything is changed if this try was superseded.
        """
        appended: AppendedRows = package("tables.appending", "append")(
            self,
            frame,
            target,
            format=format,
            partition_by=(partition_by,) if isinstance(partition_by, str) else tuple(partition_by),
            schema_evolution=schema_evolution,
            connection=connection,
            merge_on=(merge_on,) if isinstance(merge_on, str) else tuple(merge_on),
        )
        return appended

    def warn(self, sentence: str) -> None:
        """Log a sentence as a warning, and show it with the run if that succeeds."""
        log.warning("%s", sentence)
        self._warnings.append(sentence)

    def check_not_superseded(self) -> None:
        """Raise `Fenced` if the try was superseded, was stopped or has ended."""
        self._client.call("POST", "tries/token", body={})

    def leave_out_superseded(self) -> Collection[str]:
        """Leave files that newer versions supersede out of `triggering_asset_events`; return their keys and paths.

        `r.read` and `builtin:ingest` call it after they did not find a file. Without an answer of the daemon nothing is left out.
        """
        names = superseded_names(self._client, self.triggering_asset_events)
        if names:
            log.warning("newer versions supersede files of this run, which are left out: %s", ", ".join(sorted(names)))
            self.triggering_asset_events = self.triggering_asset_events.without(names)
        return names

    @property
    def spark_app_id(self) -> str:
        """The id of the Spark application."""
        return self.spark.sparkContext.applicationId

    def now(self) -> datetime:
        """The present time, in UTC. It is stored as ISO text."""
        return now()

    def skip(self, message: str = "") -> NoReturn:
        """End the block as skipped: no outlet events, no retry."""
        raise AssetJobSkip(message)

    def _missing(self, error: BaseException) -> dict[str, Any]:
        """What a failure says of files that are not as their events say: such a try may end without using up a retry."""
        events = self.triggering_asset_events
        count = len(events.files())
        missing = {file["path"]: file for file in missing_files(error, events)}
        if gone_file(error) is not None or 0 < count <= MOST_ASKED_FOR:
            missing |= {name: {"path": name, "overwritten": True} for name in superseded_names(self._client, events)}
        return {"missing": [*missing.values()][:MOST_PATHS]} if missing else {}

    def _claim(self) -> dict[str, Any]:
        try:
            claim: dict[str, Any] = self._client.call("POST", "tries/claim", body={"nonce": uuid4().hex})
        except Fenced as error:
            log.error("this process may not run the try: %s", error)  # noqa: TRY400 - a traceback would add nothing
            raise SystemExit(CLAIMED_BY_ANOTHER) from None
        return claim

    def _succeed(self) -> None:
        """Report success, then remove the values of references that the daemon forgets because of `clear_on_success`."""
        references = self.task_store.references() if self._clear_on_success else {}
        not_removed = ", ".join(map(str, self._worker.not_removed))
        warnings = [*self._warnings, *([f"values that could not be removed: {not_removed}"] if not_removed else [])]
        message = "; ".join(warnings)[:_LONGEST_MESSAGE]
        counted = {"bad_records": self.bad_records} if self.bad_records else {}
        self._finish("success", message, self.outlet_events.to_send(), **counted)
        self._worker.purge(self.task_store.scope, references.values())

    def _finish(self, state: str, message: str, outlet_events: list[dict[str, Any]], **more: Any) -> None:
        body = {"state": state, "outlet_events": storable("outlet_events", outlet_events), "message": message, **more}
        self._client.call("POST", "tries/finish", body=body)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
