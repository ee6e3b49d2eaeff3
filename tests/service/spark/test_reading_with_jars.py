"""`r.read` in a job that brings hadoop-aws and PostgreSQL's driver along: Spark's own readers, exactly the same records."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.contract.submitters import ended, log_of
from tests.servers import PostgresDatabase, S3Server
from tests.service.spark.connectors import CONNECTORS, skip_without_maven
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service, pytest.mark.maven, pytest.mark.slow]

PASSWORD = "a-password-to-hide"
JOB = """
import contextlib, io, json, pathlib
from asset_job import run

with run() as r:
    new = r.triggering_asset_events
    frames = {
        "json": r.read(new["json"], schema="id long, amount double"),
        "csv": r.read(new.files("csv"), schema="id long, amount double"),
        "rows": r.read(new.ranges(), schema="id long, email string"),
        "keys": r.read(new["keys"], schema="id long, email string"),
    }
    found = {name: sorted(list(map(str, row)) for row in frame.collect()) for name, frame in frames.items()}
    seen = io.StringIO()
    with contextlib.redirect_stdout(seen):
        for frame in frames.values():
            frame.explain(True)
    found["plans"] = seen.getvalue()
    pathlib.Path(RESULT).write_text(json.dumps(found))
"""


async def test_with_jars_spark_reads_by_itself_what_the_events_name(
    s3_server: S3Server,
    bucket: str,
    postgres_database: PostgresDatabase,
    new_try: Callable[..., Submission],
    tmp_path: Path,
) -> None:
    def on_s3(key: str, body: bytes) -> dict[str, Any]:
        s3_server.client.put_object(Bucket=bucket, Key=key, Body=body)
        return {"bucket": bucket, "key": key, "size": len(body), "etag": "1"}

    def told(name: str, **extra: Any) -> list[dict[str, Any]]:
        return [event(1, name, "2026-11-20T09:00:00Z", **extra)]

    with psycopg.connect(postgres_database.dsn) as connection:
        connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY, email text)")
        connection.execute("INSERT INTO orders SELECT n, n || '@x' FROM generate_series(1, 1000) n")
    on_s3("in/not-of-the-event.json", b'{"id": 666}')
    table = {"table": "public.orders", "column": "id"}
    events = {
        "json": told("json", files=[on_s3("in/ü [1] {x}.json", b'{"id": 1, "amount": 2}\n{"id": 2}')]),
        "csv": told("csv", files=[on_s3("in/a.csv", b"id,amount\n3,4\n")]),
        "rows": told("rows", ranges=[[1, 2], [5, 5], [999, 2000]], **table),
        "keys": told("keys", keys=[7], **table),
    }
    lake = {
        "type": "s3",
        "endpoint_url": s3_server.endpoint,
        "region": s3_server.region,
        "access_key_id": s3_server.access_key,
        "secret_access_key": s3_server.secret_key,
    }
    shop = {"type": "postgres", "dsn": postgres_database.dsn.replace("postgres@", f"postgres:{PASSWORD}@")}
    result = tmp_path / "result.json"
    with running_execution_server() as daemon:
        daemon.claim = {"triggering_asset_events": events}
        submitter = spark_submit(tmp_path)
        submission = new_try(
            f"RESULT = {str(result)!r}\n{JOB}",
            context=daemon.context(connections={"lake": lake, "shop": shop}),
            packages=CONNECTORS,
        )
        handle = await submitter.submit(submission)
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
    skip_without_maven(log)
    assert status.exit_code == 0, log
    found = json.loads(result.read_text())
    plans = found.pop("plans")
    assert found == {
        "json": [["1", "2.0"], ["2", "None"]],
        "csv": [["3", "4.0"]],
        "rows": [["1", "1@x"], ["1000", "1000@x"], ["2", "2@x"], ["5", "5@x"], ["999", "999@x"]],
        "keys": [["7", "7@x"]],
    }
    assert "s3a://" in plans
    assert "JDBCRelation" in plans
    assert "s3files" not in plans
    assert plans.count("pgrows") > 0, "JDBC does not read keys"
    assert PASSWORD not in plans + log
