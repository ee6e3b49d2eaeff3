"""`r.read` in one real Spark application: S3 over HTTP, a real PostgreSQL, local files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.contract.submitters import ended, log_of
from tests.servers import PostgresDatabase, S3Server
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service]

EVENT_LOG = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}
PASSWORD = "a-password-to-hide"
LARGE = b"id,note\r\n" + b"".join(b"%d,%s\r\n" % (number, b"x" * 999) for number in range(20_000))

JOB = """
import io, json, pathlib, contextlib
from asset_job import AssetJobError, run
from pyspark.sql.datasource import DataSourceRegistration

found = {}
def rows(name, frame):
    found[name] = sorted((list(map(str, row)) for row in frame.collect()))

def fault(name, function):
    try:
        function()
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"

with run() as r:
    new = r.triggering_asset_events
    orders = "id long, amount double"
    register = DataSourceRegistration.register
    sources = found["sources of a read"] = []
    DataSourceRegistration.register = lambda self, source: (sources.append(source.name()), register(self, source))[1]
    frame = r.read(new.files("json"), schema=orders, mode="PERMISSIVE")
    DataSourceRegistration.register = register
    rows("json", frame)
    rows("json inferred", r.read(new.files("json"), format="json"))
    rows("csv", r.read(new.files("csv"), schema=orders, comment="#"))
    rows("csv inferred", r.read(new["csv"], comment="#"))
    corrupt = f"{orders}, _corrupt_record string"
    rows("tabs", r.read(new.files("tabs"), schema=corrupt, sep="\\t"))
    rows("tabs, dropped", r.read(new.files("tabs"), schema=orders, sep="\\t", mode="DROPMALFORMED"))
    fault("tabs, failed", lambda: r.read(new.files("tabs"), schema=orders, sep="\\t").collect())
    rows("two signs", r.read(new.files("two signs"), schema=orders, sep="||"))
    rows("text", r.read(new.files("text")))
    rows("parquet", r.read(new.files("parquet"), schema="id long, amount double, more string"))
    rows("parquet inferred", r.read(new["parquet"]))
    rows("local", r.read(new["local"], schema=orders))
    for more in ({}, {"missing": "skip"}):
        large = r.read(new.files("large"), schema="id long, note string", **more)
        rows(f"large {more}", large.agg({"id": "count"}).join(large.agg({"id": "sum"})))
        found[f"large {more} tasks"] = large.rdd.getNumPartitions()
    rows("skipped", r.read(new.files("gone"), schema=orders, missing="skip", mode="PERMISSIVE"))
    rows("local skipped", r.read(new.files("local gone"), schema=orders, missing="skip"))
    rows("nothing", r.read([], schema=orders))
    fault("gone", lambda: r.read(new.files("gone")[1:], schema=orders).collect())
    fault("overwritten", lambda: r.read(new.files("overwritten"), schema=orders).collect())
    fault("overwritten parquet", lambda: r.read(new.files("overwritten parquet"), schema=orders).collect())
    fault("other header", lambda: r.read(new.files("csv")[:1], schema="id long, price double").collect())
    fault("local gone", lambda: r.read(new.files("local gone"), schema=orders).collect())
    fault("broken", lambda: r.read(new["broken"], schema=orders).collect())
    rows("several lines", r.read(new["lines"], schema="id long, note string"))
    fault("unknown option", lambda: r.read(new["json"], schema=orders, samplingRatio=0.1))
    fault("odd key", lambda: r.read(new.files("odd key"), schema=orders).collect())
    fault("not parquet", lambda: r.read(new.files("json"), format="parquet", schema=orders).collect())
    fault("which format", lambda: r.read([{"bucket": "b", "key": "noending"}]))
    ranges = new.ranges("rows")
    table = r.read(ranges)
    rows("ranges", table.select("id"))
    rows("some columns", r.read(new["rows"], schema="email string, id int"))
    rows("keys", r.read(new["updated"]).select("id", "part", "note"))
    rows("types", r.read([(1, 1)], table="public.orders").drop("id"))
    found["columns"] = table.dtypes
    fault("no column", lambda: r.read(ranges, table="public.orders", schema="colour string"))
    fault("no table", lambda: r.read(ranges, table="public.nowhere"))
    seen = io.StringIO()
    with contextlib.redirect_stdout(seen):
        table.explain(True)
        r.read(new.files("json"), schema=orders).explain(True)
    found["plans"] = seen.getvalue()
    ui = r.spark.sparkContext.uiWebUrl
    pathlib.Path(RESULT).write_text(json.dumps(found))
    pathlib.Path(RESULT + ".ui").write_bytes(everything(ui, r.spark_app_id))
"""
EVERYTHING = """
def everything(ui, application):
    import urllib.request
    ask = lambda path: urllib.request.urlopen(f"{ui}/{path}").read()
    api = f"api/v1/applications/{application}"
    return ask(f"{api}/sql?details=true&length=1000") + ask(f"{api}/environment") + ask("environment/")
"""


def put(server: S3Server, bucket: str, key: str, body: bytes) -> dict[str, Any]:
    """The file as a watcher's event names it."""
    etag = server.client.put_object(Bucket=bucket, Key=key, Body=body)["ETag"].strip('"')
    return {"bucket": bucket, "key": key, "size": len(body), "etag": etag, "last_modified": "2026-11-20T09:00:00Z"}


def parquet_bytes(**columns: Any) -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(pa.table(columns), sink)
    return bytes(sink.getvalue())


def fill(dsn: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("""
            CREATE TABLE orders (id bigint PRIMARY KEY, email text, amount numeric(10,2), exact numeric, day date,
                                 at timestamptz, local timestamp, ok boolean, tags text[], numbers int[], doc jsonb,
                                 "odd `name" varchar(9))""")
        connection.execute("""
            INSERT INTO orders SELECT n, n || '@x', 1.5, 1.50, '2026-11-20', '2026-11-20 09:00:00.5+02',
                   '2026-11-20 09:00', true, '{a,b}', '{1,2}', '{"a": 1}', 'x' FROM generate_series(1, 1000) n""")
        connection.execute("CREATE TABLE parts (part text, id int, note text, PRIMARY KEY (id, part))")
        connection.execute("INSERT INTO parts VALUES ('a''\\', 1, 'odd'), ('b', 1, 'one'), ('b', 2, 'two')")


@pytest.fixture
def new(s3_server: S3Server, bucket: str, tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    def on_s3(key: str, body: bytes) -> dict[str, Any]:
        return put(s3_server, bucket, key, body)

    local = tmp_path / "a [1] {x}.json"
    local.write_text('{"id": 1, "amount": 2.5}\n')
    replaced, replaced_parquet = on_s3("r.json", b'{"id": 1}'), on_s3("r.parquet", parquet_bytes(id=[1], amount=[2.5]))
    on_s3("r.json", b'{"id": 2}')
    on_s3("r.parquet", parquet_bytes(id=[2], amount=[2.5]))
    on_s3("not-of-the-event.json", b'{"id": 666}')
    plain = on_s3("ü [1] 100%#+.json", b'\xef\xbb\xbf{"id": 1, "amount": 2.5}\r\n\r\n{"id": 2}\n{"id": "three"}')
    gone = {**plain, "key": "gone.json"}
    return {
        "json": [plain, on_s3("b.json.gz", gzip.compress(b'{"id": 4, "amount": 1}\n'))],
        "csv": [
            on_s3("a.csv", b'ID,amount\n1,"2.5"\n\n2,3\n'),
            on_s3("b.csv", b"# as of today\n\nid,amount\n3,4\n"),
            on_s3("e.csv", b""),
        ],
        "tabs": [on_s3("tabs.csv", b"id\tamount\r\n1\t2\r\n\t\r\nx\t3\r\n\x1a")],
        "lines": [on_s3("lines.csv", b'id,note\n1,"first\nsecond"\n2,"a ""q"""\n')],
        "two signs": [on_s3("signs.csv", b"id||amount\n1||2\n")],
        "text": [on_s3("a.txt", b"one\n\ntwo")],
        "parquet": [
            on_s3("a.parquet", parquet_bytes(id=pa.array([1, 2], pa.int32()), amount=[2.5, None])),
            on_s3("b.parquet", parquet_bytes(amount=[1.0], ID=pa.array([3]).dictionary_encode())),
        ],
        "large": [on_s3("large.csv", LARGE)],
        "gone": [plain, gone],
        "overwritten": [replaced],
        "overwritten parquet": [replaced_parquet],
        "broken": [on_s3("broken.json.gz", gzip.compress(b'{"id": 1}\n' * 1000)[:-9])],
        "odd key": [{**plain, "key": "a//b.json"}],
        "local": [{"path": str(local), "size": local.stat().st_size}],
        "local gone": [{"path": str(local), "size": 3}, {"path": str(tmp_path / "gone.json"), "size": 1}],
    }


async def test_a_job_reads_exactly_what_its_events_name(  # noqa: PLR0915 - one Spark application for all of it
    new: dict[str, list[dict[str, Any]]],
    s3_server: S3Server,
    bucket: str,
    postgres_database: PostgresDatabase,
    new_try: Callable[..., Submission],
    tmp_path: Path,
) -> None:
    fill(postgres_database.dsn)
    result = tmp_path / "result.json"
    events = {name: [event(1, name, "2026-11-20T09:00:00Z", files=files)] for name, files in new.items()}
    ranges = {"table": "public.orders", "column": "id", "ranges": [[1, 3], [7, 7], [2, 4], [999, 2000]]}
    keys = {"table": "public.parts", "column": "updated_at", "keys": [[1, "a'\\"], [2, "b"], [2, "b"], [3, "x"]]}
    events["rows"] = [event(2, "rows", "2026-11-20T09:00:00Z", **ranges)]
    events["updated"] = [event(3, "updated", "2026-11-20T09:00:00Z", **keys)]
    dsn = postgres_database.dsn.replace("postgres@", f"postgres:{PASSWORD}@")
    lake = {"access_key_id": s3_server.access_key, "secret_access_key": s3_server.secret_key, "region": "us-east-1"}
    connections = {
        "lake": {"type": "s3", "endpoint_url": s3_server.endpoint, "addressing_style": "path", **lake},
        "shop": {"type": "postgres", "dsn": dsn},
    }
    (tmp_path / "events").mkdir()
    with running_execution_server() as daemon:
        daemon.claim = {"triggering_asset_events": events}
        submitter = spark_submit(tmp_path)
        submission = new_try(
            f"RESULT = {str(result)!r}\n{EVERYTHING}\n{JOB}",
            context=daemon.context(connections=connections),
            master="local[2]",
            conf={
                **EVENT_LOG,
                "spark.eventLog.dir": (tmp_path / "events").as_uri(),
                "spark.sql.session.timeZone": "UTC",
            },
        )
        handle = await submitter.submit(submission)
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
        assert status.exit_code == 0, log

    found = json.loads(result.read_text())
    assert len(found["sources of a read"]) == 1, "each takes a sixth of a second"
    assert found["json"] == [["1", "2.5"], ["2", "None"], ["4", "1.0"], ["None", "None"]]
    assert sorted(row[1] for row in found["json inferred"]) == ["1", "2", "4", "three"]
    assert found["csv"] == found["csv inferred"] == [["1", "2.5"], ["2", "3.0"], ["3", "4.0"]]
    empty = ["None", "None"]
    assert found["tabs"] == [["1", "2.0", "None"], [*empty, "\x1a"], [*empty, "None"], [*empty, "x\t3"]]
    assert found["tabs, dropped"] == [["1", "2.0"], empty]
    assert "tabs.csv, line 4: the column id has the type bigint, and 'x' is no whole number" in found["tabs, failed"]
    assert found["two signs"] == [["1", "2.0"]]
    assert found["large {}"] == found["large {'missing': 'skip'}"] == [["20000", str(sum(range(20_000)))]]
    assert found["large {} tasks"] == 2, "a large file occupies all tasks"
    assert found["large {'missing': 'skip'} tasks"] == 1, "and is left out as a whole"
    assert found["text"] == [[""], ["one"], ["two"]]
    assert found["parquet"] == [["1", "2.5", "None"], ["2", "None", "None"], ["3", "1.0", "None"]]
    assert found["parquet inferred"] == [row[:2] for row in found["parquet"]]
    assert found["local"] == [["1", "2.5"]]
    assert found["skipped"] == found["json"][:2] + found["json"][3:]
    assert found["local skipped"] == found["nothing"] == []
    assert "skipped: s3://" in log

    where = f"s3://{bucket}"
    assert f"{where}/gone.json was deleted since it was detected" in found["gone"]
    assert f"{where}/r.json was overwritten since it was detected" in found["overwritten"]
    assert f"{where}/r.parquet was overwritten since it was detected" in found["overwritten parquet"]
    assert f"{where}/a.csv has the columns ID, amount where id, price are expected" in found["other header"]
    assert "since it was detected; put it back" in found["local gone"]
    assert "the key a//b.json has an empty part" in found["odd key"]
    assert "is not a Parquet file" in found["not parquet"]
    assert f"{where}/broken.json.gz cannot be unpacked: Truncated compressed stream" in found["broken"]
    assert found["several lines"] == [["1", "first\nsecond"], ["2", 'a "q"']]
    assert "the option samplingRatio is not one of reading json" in found["unknown option"]
    assert found["which format"].endswith("name the format of s3://b/noending by format=: json, csv, text or parquet")

    assert sorted(int(row[0]) for row in found["ranges"]) == [1, 2, 3, 4, 7, 999, 1000]
    assert found["some columns"][0] == ["1000@x", "1000"]
    assert found["keys"] == [["1", "a'\\", "odd"], ["2", "b", "two"]]
    assert found["types"] == [
        [
            *("1@x", "1.50", "1.50", "2026-11-20", "2026-11-20 07:00:00.500000", "2026-11-20 09:00:00", "True"),
            *("['a', 'b']", "[1, 2]", '{"a": 1}', "x"),
        ]
    ]
    assert dict(found["columns"]) == {
        "id": "bigint",
        "email": "string",
        "amount": "decimal(10,2)",
        "exact": "string",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp_ntz",
        "ok": "boolean",
        "tags": "array<string>",
        "numbers": "array<int>",
        "doc": "string",
        "odd `name": "string",
    }
    assert "the table public.orders has no column colour" in found["no column"]
    assert "PostgreSQL: " in found["no table"]
    assert "nowhere" in found["no table"]

    written = b"".join(path.read_bytes() for path in (tmp_path / "events").rglob("*") if path.is_file())
    shown = written + Path(f"{result}.ui").read_bytes() + found["plans"].encode() + log.encode()
    assert b"files_" in shown
    assert b"pgrows" in shown
    assert PASSWORD.encode() not in shown
    assert s3_server.secret_key.encode() not in shown
