"""One try of a job, from its claim to its end."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self
from uuid import uuid4

from .backends import WorkerBackend
from .background import Background, Progress, Renewal
from .client import Client, Transport, now, storable
from .errors import AssetJobError, AssetJobSkip, Fenced, NoContext, describe
from .events import InletEvents, OutletEvents, TriggeringAssetEvents
from .local import LocalFolder
from .stores import AssetStores, TaskStore

if TYPE_CHECKING:
    from types import TracebackType

    from pyspark.sql import DataFrame, SparkSession

    from .tables.columns import SchemaEvolution
    from .tables.layout import Place, Table
    from .tables.parts import Appended
    from .tables.targets import TableFormat, Target

log = logging.getLogger("asset_job")

CLAIMED_BY_ANOTHER = 75
_LONGEST_MESSAGE = 2000


class Run:
    """One try of this job, claimed while the `with` block runs."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int
    conf: Mapping[str, Any]
    """What whoever asked for the run gave it; empty for runs of a schedule."""
    logical_date: datetime | None
    """A scheduled run's tick, or as it was asked for; so too the data interval."""
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    partition_key: str | None
    """None: no run has one yet."""
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
    """The connections that `spark.connections` names, with their credentials: not for printing."""

    def __init__(
        self, client: Transport, *, connections: Mapping[str, Mapping[str, Any]], background: Sequence[Background] = ()
    ) -> None:
        """`background` runs until the block ends."""
        self.connections = connections
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
        known = {asset["name"]: asset["uri"] for asset in claim["inlets"] + claim["outlets"] if "name" in asset}
        self.outlets = {asset["name"]: asset["uri"] for asset in claim["outlets"] if "name" in asset}
        self._appended: set[Place] = set()
        self._warnings: list[str] = []
        self.triggering_asset_events = TriggeringAssetEvents(claim["triggering_asset_events"])
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
            self._finish("failed", describe(error)[:_LONGEST_MESSAGE], [])
        except AssetJobError as unreported:
            log.warning("the failure could not be reported: %s", unreported)  # and must not hide the job's own error
        return False

    @cached_property
    def spark(self) -> SparkSession:
        """The job's SparkSession, made when first asked for."""
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
        **options: Any,
    ) -> DataFrame:
        """Exactly these files, ranges of ids, or rows and files of these events, as a DataFrame.

        `format` is json, csv, text or parquet, by default as the files' names say; `schema` is Spark's DDL, by default
        inferred; `options` are those of Spark's reader. `table` and `connection` are needed only where there are several.
        A file that was deleted or overwritten meanwhile fails the job, or with `missing="skip"` is left out. Raises
        `AssetJobError`; what executors meet comes as Spark's exception when the DataFrame is used.
        """
        from .sources.readers import read  # noqa: PLC0415 - only jobs that read need it
        from .sources.request import ReadRequest  # noqa: PLC0415

        request = ReadRequest(
            spark=self.spark,
            connections=self.connections,
            format=format,
            schema=schema,
            connection=connection,
            missing=missing,
            options=options,
        )
        events = [event for of_asset in self.triggering_asset_events.values() for event in of_asset]
        return read(request, new, events, table)

    def append(
        self,
        frame: DataFrame,
        target: str,
        *,
        format: TableFormat = "parquet",  # noqa: A002 - as Spark's writers call it
        partition_by: str | Sequence[str] = (),
        schema_evolution: SchemaEvolution = "strict",
        connection: str | None = None,
    ) -> Appended:
        """Make the frame this run's part of a table; a later try of the run replaces it as a whole.

        `target` is an outlet's name, whose uri is used, an absolute path, or a `file:` or `s3:` URL; of an Iceberg table
        `<namespace>.<table>`. The part of a Parquet table is `<target>/run=<run_id>`, with dots for colons; into the other
        formats a run's rows come by one commit. A frame with columns that such a table lacks is refused, unless
        `schema_evolution` is `add_columns`. `connection` is needed only where there are several for S3, or several
        catalogs. Raises `AssetJobError`, and `Fenced` before anything is changed when this try was superseded.
        """
        from .tables.parts import commit, stage  # noqa: PLC0415 - only jobs that write need it
        from .tables.targets import Target  # noqa: PLC0415

        table = self.table(Target(name=target, format=format, connection=connection, schema_evolution=schema_evolution))
        if table.place in self._appended:
            raise AssetJobError(
                f"{table.place} was appended to before, and a run has one part of a table: unite the frames"
            )
        columns = (partition_by,) if isinstance(partition_by, str) else tuple(partition_by)
        appended = stage(table, frame, columns, self.check_still_ours)
        commit([appended], self.check_still_ours)
        self._appended.add(table.place)
        return appended

    def table(self, target: Target) -> Table:
        """The way of this try to a table. Raises `AssetJobError`."""
        from .tables.targets import open_table  # noqa: PLC0415 - only jobs that write need it

        return open_table(target, self)

    def warn(self, sentence: str) -> None:
        """In the log, and with the run when it has succeeded."""
        log.warning("%s", sentence)
        self._warnings.append(sentence)

    def check_still_ours(self) -> None:
        """Raises `Fenced` when the try was superseded, stopped or has ended."""
        self._client.call("POST", "tries/token", body={})

    @property
    def spark_app_id(self) -> str:
        return self.spark.sparkContext.applicationId

    def now(self) -> datetime:
        """The present moment, in UTC; stored as ISO text."""
        return now()

    def skip(self, message: str = "") -> NoReturn:
        raise AssetJobSkip(message)

    def _claim(self) -> dict[str, Any]:
        try:
            claim: dict[str, Any] = self._client.call("POST", "tries/claim", body={"nonce": uuid4().hex})
        except Fenced as error:
            log.error("this try is not ours to run: %s", error)  # noqa: TRY400 - a trace would tell nothing more
            raise SystemExit(CLAIMED_BY_ANOTHER) from None
        return claim

    def _succeed(self) -> None:
        """With `clear_on_success` the daemon forgets the references, so their values are removed after it accepted the end."""
        references = self.task_store.references() if self._clear_on_success else {}
        left = ", ".join(map(str, self._worker.left))
        warnings = [*self._warnings, *([f"values that could not be removed: {left}"] if left else [])]
        self._finish("success", "; ".join(warnings)[:_LONGEST_MESSAGE], self.outlet_events.to_send())
        self._worker.purge(self.task_store.scope, references.values())

    def _finish(self, state: str, message: str, outlet_events: list[dict[str, Any]]) -> None:
        body = {"state": state, "outlet_events": storable("outlet_events", outlet_events), "message": message}
        self._client.call("POST", "tries/finish", body=body)


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def run(local: str | os.PathLike[str] | None = None) -> Run:
    """The run this program was started for, to be entered by `with`. Raises `NoContext`.

    Where Asset Watcher did not start it, the folder `local`, or else that of ASSET_JOB_LOCAL, stands in for the daemon.
    """
    context = context_path(sys.argv, os.environ)
    folder = local or os.environ.get("ASSET_JOB_LOCAL")
    if context is not None:
        return submitted_run(json.loads(context.read_bytes()))
    if folder:
        return local_run(Path(folder))
    raise NoContext(
        "there is no run context: start the job through Asset Watcher, give --run-context FILE, or run it alone with "
        "ASSET_JOB_LOCAL=FOLDER"
    )


def submitted_run(context: Mapping[str, Any]) -> Run:
    """The run that a context file tells of."""
    client = Client(context["api"], context["token"])
    return Run(client, connections=context.get("connections", {}), background=[Renewal(client), Progress(client)])


def local_run(folder: Path) -> Run:
    """A run without the daemon. Raises `AssetJobError` when a file in the folder cannot be used."""
    client = LocalFolder(folder)
    return Run(client, connections=client.job.connections)


def context_path(argv: list[str], environ: Mapping[str, str]) -> Path | None:
    """The context file as Spark's configuration names it, else the arguments, else the environment."""
    path = _from_spark(environ) or _from_arguments(argv) or environ.get("ASSET_JOB_CONTEXT")
    return Path(path) if path else None


def _from_spark(environ: Mapping[str, str]) -> str | None:
    """Read only below spark-submit, whose JVM already runs: elsewhere asking would start one."""
    if "PYSPARK_GATEWAY_PORT" not in environ:
        return None
    from pyspark import SparkConf  # noqa: PLC0415 - the module itself needs no Spark

    return SparkConf().get("spark.asset_job.context")


def _from_arguments(argv: list[str]) -> str | None:
    for word, following in zip(argv, [*argv[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option == "--run-context":
            return value if equals else following
    return None
