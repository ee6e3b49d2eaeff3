"""The ways with a real Spark: `r.read` from a folder and from S3, rows of PostgreSQL, and tables written and read back.

The zones of the session and of the machine are odd on purpose: no value depends on them.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

from asset_job import run
from asset_job.errors import describe
from asset_job.runs import Run
from tests.corpus.canonical import rows_of
from tests.corpus.ddl import spelled
from tests.corpus.model import Input, Reading
from tests.servers import S3Server, fresh_bucket, running_s3

CORRUPT: Final = "_corrupt_record"
SPARK: Final = {
    "spark.master": "local[2]",
    "spark.sql.session.timeZone": "Asia/Kolkata",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "2g",
}


@dataclass(frozen=True, kw_only=True)
class World:
    """A run with its Spark, a folder, and a bucket."""

    run: Run
    folder: Path
    server: S3Server
    bucket: str

    @property
    def catalog_uri(self) -> str:
        return f"sqlite:///{self.folder}/catalog.db"

    @property
    def warehouse(self) -> str:
        return f"file://{self.folder}/ice"

    def local(self, inputs: Input, number: int) -> Mapping[str, Any]:
        path = self.folder / "files" / str(number) / inputs.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(inputs.content)
        return {"path": str(path), "size": len(inputs.content)}

    def on_s3(self, inputs: Input, number: int) -> Mapping[str, Any]:
        key = f"files/{number}/{inputs.file}"
        put = self.server.client.put_object(Bucket=self.bucket, Key=key, Body=inputs.content)
        return {"bucket": self.bucket, "key": key, "size": len(inputs.content), "etag": put["ETag"].strip('"')}

    def packed_on_s3(self, inputs: Input, number: int) -> Mapping[str, Any]:
        packed = replace(inputs, content=gzip.compress(inputs.content), file=f"{inputs.file}.gz")
        return self.on_s3(packed, number)

    def read(self, inputs: Input, file: Mapping[str, Any]) -> Reading:
        """What `r.read` makes of the file, with the column for corrupt records where there is a schema."""
        dropping = inputs.options.get("mode") == "DROPMALFORMED"
        keeps = inputs.schema is not None and inputs.source in {"csv", "json"} and "mode" not in inputs.options
        schema = f"{inputs.schema}, {CORRUPT} string" if keeps else inputs.schema
        try:
            frame = self.run.read([file], format=inputs.source, schema=schema, **inputs.options)
            table = frame.toArrow()
        except Exception as error:  # noqa: BLE001 - Spark raises classes of its own
            return Reading(refused=describe(error), fails=not keeps)
        types = None
        if inputs.schema is None:
            types = spelled(", ".join(f"`{name}` {kind}" for name, kind in frame.dtypes))
        if not keeps:
            return Reading(rows=rows_of(table), types=types, counted=False, fails=not dropping)
        corrupt = table.column(CORRUPT).to_pylist()
        rows = rows_of(table.drop_columns([CORRUPT]))
        return Reading(
            rows=[row for row, record in zip(rows, corrupt, strict=True) if record is None],
            bad=[(record, 1) for record in corrupt if record is not None],
            counted=False,
        )


@contextmanager
def world(dsn: str = "postgresql:///none") -> Iterator[World]:
    """A run in a folder of its own, with the database `dsn`. All that it needs is started here, and ended."""
    os.environ.update(TZ="America/New_York", PYSPARK_PYTHON=sys.executable, PYSPARK_DRIVER_PYTHON=sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="corpus")))
        server = stack.enter_context(running_s3())
        bucket = stack.enter_context(fresh_bucket(server))
        keys = {"access_key_id": server.access_key, "secret_access_key": server.secret_key, "region": server.region}
        lake = {"type": "s3", "endpoint_url": server.endpoint, "addressing_style": "path", **keys}
        (folder / "ice").mkdir()
        catalog = {
            "type": "iceberg",
            "catalog": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/ice",
        }
        outlet = {"name": "corpus", "uri": f"file://{folder}/tables/corpus"}
        connections = {"lake": lake, "ice": catalog, "shop": {"type": "postgres", "dsn": dsn}}
        (folder / "job.json").write_text(json.dumps({"connections": connections, "outlets": [outlet]}))
        yield World(run=stack.enter_context(_run(folder)), folder=folder, server=server, bucket=bucket)


@contextmanager
def _run(folder: Path) -> Iterator[Run]:
    builder = SparkSession.builder.appName("corpus")
    for name, value in SPARK.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        with run(local=folder) as r:
            yield r
    finally:
        spark.stop()


def readings(
    place: Callable[[Input, int], Mapping[str, Any]], world: World, inputs: Sequence[Input]
) -> Iterator[Reading]:
    """What `r.read` makes of each file: some at once, because each waits for Spark."""
    with ThreadPoolExecutor(3) as pool:
        yield from pool.map(lambda pair: world.read(pair[1], place(pair[1], pair[0])), enumerate(inputs))
