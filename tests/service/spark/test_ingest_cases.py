"""`builtin:ingest` case by case, in one Spark application: what it loads, what it puts aside, and what it says."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import obstore
import psycopg
import pyarrow as pa
import pytest
from obstore.store import LocalStore, S3Store
from pyarrow import parquet

from tests.contract.submitters import ended, log_of
from tests.servers import PostgresDatabase, S3Server
from tests.service.spark.connectors import CONNECTORS, skip_without_maven
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service]

JOB = """
import json, pathlib
from asset_job import AssetJobSkip, run
from asset_job.events import TriggeringAssetEvents
from asset_job.ingest.job import Ingest
from asset_job.ingest.plan import IngestOptions
from asset_job.errors import describe

found = {}
with run() as r:
    for name, (run_id, events, options) in json.loads(pathlib.Path(CASES).read_text()).items():
        r.run_id, r.triggering_asset_events = run_id, TriggeringAssetEvents(events)
        r.task_store.clear()
        try:
            Ingest(run=r, options=IngestOptions.of(options)).execute()
            found[name] = r.outlet_events["orders"].extra
        except (Exception, AssetJobSkip) as error:
            found[name] = describe(error)
    pathlib.Path(RESULT).write_text(json.dumps(found))
"""
SCHEMA = "id long, amount double, day date"


def rows_of(store: Any, root: str) -> dict[str, list[Any]]:
    """Of each run's part and partition, as a reader sees them who passes over `_…`: ids, or records that did not fit."""
    found: dict[str, list[Any]] = {}
    for path in sorted(one["path"] for page in obstore.list(store, root) for one in page):
        *folders, name = path.removeprefix(f"{root}/").split("/")
        if not any(part.startswith(("_", ".")) for part in (*folders, name)):
            table = parquet.ParquetFile(pa.BufferReader(bytes(obstore.get(store, path).bytes()))).read()
            column = "_record" if "_record" in table.column_names else "id"
            found.setdefault("/".join(folders), []).extend(table[column].to_pylist())
    return {folder: sorted(values) for folder, values in found.items()}


def make_tables(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE shop (id bigint PRIMARY KEY, amount numeric(9,2), day date, more text)")
        connection.execute("INSERT INTO shop SELECT n, n / 2.0, '2026-11-20', 'x' FROM generate_series(1, 10) n")
        connection.execute("CREATE TABLE other (id text PRIMARY KEY, amount text, day date)")
        connection.execute("INSERT INTO other VALUES ('seven', 'x', '2026-11-20')")


@pytest.mark.parametrize(
    "packages", [(), pytest.param(CONNECTORS, marks=[pytest.mark.maven, pytest.mark.slow])], ids=["plain", "connectors"]
)
async def test_ingestions_load_put_aside_and_say_what_they_should(  # noqa: PLR0915 - one Spark application for all of it
    s3_server: S3Server,
    bucket: str,
    postgres_database: PostgresDatabase,
    new_try: Callable[..., Submission],
    tmp_path: Path,
    packages: tuple[str, ...],
) -> None:
    def on_s3(key: str, *lines: str) -> dict[str, Any]:
        body = "\n".join(lines).encode()
        if key.endswith(".gz"):
            body = gzip.compress(body)[:-5]  # cut off
        etag = s3_server.client.put_object(Bucket=bucket, Key=key, Body=body)["ETag"].strip('"')
        return {"bucket": bucket, "key": key, "size": len(body), "etag": etag}

    def of_files(*files: dict[str, Any]) -> dict[str, Any]:
        return {"landing": [event(1, "landing", "2026-11-20T09:00:00Z", files=files, watermark={"to": "2026-11-20"})]}

    def of_rows(table: str, **what: Any) -> dict[str, Any]:
        return {"rows": [event(1, "rows", "2026-11-20T09:00:00Z", table=f"public.{table}", column="id", **what)]}

    make_tables(postgres_database.dsn)
    local = tmp_path / "local.csv"
    local.write_text("id,amount,day\n30,1.5,2026-11-20\nx,1,2026-11-20\n31,1\n")
    one = on_s3("a.json", '{"id": 1, "amount": 1, "day": "2026-11-20"}', '{"id": 2, "day": "2026-11-21", "new": 1}')
    same = on_s3("b.json", '{"id": 2, "amount": 9, "day": "2026-11-21"}', '{"id": 3, "day": null}', '{"id": 3}')
    wrong = on_s3("c.json", '{"id": "x"}', "{", '{"id": 4, "amount": 1}', '[{"id": 5}, {"id": 6}]')
    gone = {**one, "key": "gone.json"}
    broken = on_s3("broken.json.gz", '{"id": 1}')
    table, keyed = (
        {"target": f"s3://{bucket}/t"},
        {"partition_by": "day", "dedupe_key": ["id", "day"], "schema": SCHEMA},
    )
    cases: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
        "keyed": ("r:1", of_files(one), table | keyed),
        "keyed again": ("r:2", of_files(one, same), table | keyed),
        "keyed, repeated": ("r:1", of_files(one), table | keyed),
        "bad": ("r:1", of_files(wrong), table | {"target": f"s3://{bucket}/bad", "schema": SCHEMA}),
        "bad no more": ("r:2", of_files(wrong), table | {"target": f"s3://{bucket}/good", "schema": SCHEMA}),
        "good instead": ("r:2", of_files(one), table | {"target": f"s3://{bucket}/good", "schema": SCHEMA}),
        "local": ("r:1", of_files({"path": str(local)}), {"schema": SCHEMA}),
        "rows": ("r:2", of_rows("shop", ranges=[[1, 3], [9, 99]]), {"schema": "id long, amount double, day date"}),
        "rows by key": ("r:3", of_rows("shop", keys=[5, 500]), {"schema": "id long, amount double, day date"}),
        "inferred": ("r:4", of_files(one), {}),
        "enforced": ("r:5", of_files(wrong), {}),
        "gone": ("r:6", of_files(one, gone), {}),
        "gone, skipped": ("r:6", of_files(one, gone), {"missing": "skip"}),
        "broken": ("r:1", of_files(broken), table | {"target": f"s3://{bucket}/broken"}),
        "rows do not fit": ("r:7", of_rows("other", keys=["seven"]), {"schema": SCHEMA}),
        "no such column": ("r:7", of_rows("other", keys=["seven"]), {"schema": "colour string"}),
        "not Parquet": ("r:7", of_files(one), {"input_format": "parquet", "schema": SCHEMA}),
        "which format": ("r:7", of_files({**one, "key": "x.dat"}), {}),
        "no key": ("r:7", of_files(one), {"schema": SCHEMA, "dedupe_key": "colour"}),
        "no DDL": ("r:7", of_files(one), {"schema": "id lung"}),
        "nothing": ("r:7", {"job": [event(1, "job", "2026-11-20T09:00:00Z", row_count=1)]}, {}),
    }
    result, given = tmp_path / "result.json", tmp_path / "cases.json"
    missing = {
        name for name in cases if name.startswith(("gone", "broken")) and packages
    }  # Spark's own readers do not look for them
    given.write_text(json.dumps({name: case for name, case in cases.items() if name not in missing}))
    keys = {"access_key_id": s3_server.access_key, "secret_access_key": s3_server.secret_key, "region": "us-east-1"}
    lake = {"type": "s3", "endpoint_url": s3_server.endpoint, **keys}
    shop = {"type": "postgres", "dsn": postgres_database.dsn}
    with running_execution_server() as daemon:
        daemon.claim = {"outlets": [{"name": "orders", "uri": (tmp_path / "orders").as_uri()}]}
        submitter = spark_submit(tmp_path)
        text = f"CASES, RESULT = {str(given)!r}, {str(result)!r}\n{JOB}"
        context = daemon.context(connections={"lake": lake, "shop": shop})
        handle = await submitter.submit(new_try(text, context=context, packages=packages))
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
        skip_without_maven(log)
        assert status.exit_code == 0, log
        entries = {key: entry["value"] for (_, key), entry in daemon.entries.items()}

    said = json.loads(result.read_text())
    counts = {
        name: (extra["rows_loaded"], extra["bad_records"], extra["duplicates"])
        for name, extra in said.items()
        if isinstance(extra, dict)
    }
    assert counts | dict.fromkeys(missing & {"gone, skipped"}, (2, 0, 0)) == {
        "keyed": (2, 0, 0),
        "keyed again": (1, 0, 4),
        "keyed, repeated": (2, 0, 0),
        "bad": (3, 2, 0),
        "bad no more": (3, 2, 0),
        "good instead": (2, 0, 0),
        "local": (1, 2, 0),
        "rows": (5, 0, 0),
        "rows by key": (1, 0, 0),
        "inferred": (2, 0, 0),
        "enforced": (3, 2, 0),
        "gone, skipped": (2, 0, 0),
    }
    options: Any = {"endpoint": s3_server.endpoint, **keys}
    remote, disk = S3Store(bucket, config=options, client_options={"allow_http": True}), LocalStore(tmp_path)
    assert rows_of(remote, "t") == {
        "run=r.1/day=2026-11-20": [1],
        "run=r.1/day=2026-11-21": [2],
        "run=r.2/day=__HIVE_DEFAULT_PARTITION__": [3],
    }
    assert rows_of(remote, "bad") == {"run=r.1": [4, 5, 6]}
    assert rows_of(remote, "bad_bad") == {"run=r.1": ["{", '{"id": "x"}']}
    assert rows_of(remote, "good") == {"run=r.2": [1, 2]}
    assert rows_of(remote, "good_bad") == rows_of(remote, "broken") == {}
    assert rows_of(disk, "orders_bad")["run=r.1"] == ["31,1", "x,1,2026-11-20"]
    assert rows_of(disk, "orders") | ({"run=r.6": [1, 2]} if missing else {}) == {
        "run=r.1": [30],
        "run=r.2": [1, 2, 3, 9, 10],
        "run=r.3": [5],
        "run=r.4": [1, 2],
        "run=r.5": [4, 5, 6],
        "run=r.6": [1, 2],
    }
    assert entries["schema"] == "amount BIGINT,day STRING,id BIGINT,new BIGINT"
    assert entries["watermark"] == "2026-11-20"
    sentences = {
        "gone": f"s3://{bucket}/gone.json was deleted since it was detected; put it back and retry the run",
        "broken": f"s3://{bucket}/broken.json.gz cannot be read: Truncated compressed stream",
        "rows do not fit": "a value of the table public.other does not fit the schema: ",
        "no such column": "the table public.other has no column colour: correct the schema",
        "not Parquet": f"s3://{bucket}/a.json cannot be read: ",
        "which format": "AssetJobError: say how to read x.dat by spark.options.input_format: json, csv, text or parquet",
        "no key": "AssetJobError: dedupe_key names colour, but the columns are id, amount, day",
        "no DDL": "AssetJobError: the schema 'id lung' is not Spark's DDL, such as `id long, amount double`: ",
        "nothing": "AssetJobSkip: the events of this run name neither files nor rows",
    }
    if packages:  # in words of their own
        sentences["not Parquet"] = "SparkException: "
    for name in sentences.keys() - missing:
        assert sentences[name] in said[name], name
        assert "\n" not in said[name]
