"""Rows of PostgreSQL with values that Spark cannot hold, in one real Spark application."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.contract.submitters import ended, log_of
from tests.servers import PostgresDatabase
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service]

TABLE = """
CREATE DOMAIN positive AS int;
CREATE TABLE orders (id bigint PRIMARY KEY, "Day" date, day timestamptz, amount numeric(10,2), tags text[], code char(3),
                     size float8, few positive, bad inet);
INSERT INTO orders VALUES
    (1, '4713-11-24 BC', '294247-01-10 04:00:54.775807+00', 1.5, '{a,NULL}', 'x', '-0', 1, '10.0.0.1'),
    (2, 'infinity', '-infinity', 'NaN', '{{a},{b}}', 'y', 'NaN', 2, NULL)
"""
JOB = """
import json, pathlib
from asset_job import run

answer = {}
with run() as r:
    def rows(frame):
        texts = frame.selectExpr(*(f"cast(`{name}` as string) as c{at}" for at, name in enumerate(frame.columns)))
        return sorted((list(row) for row in texts.collect()), key=lambda row: row[0] or "bad")

    # Spark itself refers to columns whatever their case, so only here.
    r.spark.conf.set("spark.sql.caseSensitive", "true")
    for mode in ("bad", "null", "text"):
        frame = r.read([(1, 9)], table="public.orders", on_unrepresentable=mode)
        answer[mode] = {"types": frame.dtypes, "rows": rows(frame)}
    answer["plain"] = rows(r.read([(1, 1)], table="public.orders", schema="few int, size double"))
    try:
        r.read([(1, 9)], table="public.orders").collect()
    except Exception as error:
        from asset_job.errors import describe, is_final
        answer["fail"] = [describe(error), is_final(error)]
    pathlib.Path(RESULT).write_text(json.dumps(answer))
"""


async def test_a_value_that_spark_cannot_hold_is_a_bad_record_null_text_or_an_error(
    postgres_database: PostgresDatabase, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    with psycopg.connect(postgres_database.dsn) as connection:
        connection.execute(TABLE)
    result = tmp_path / "result.json"
    ranges = {"table": "public.orders", "column": "id", "ranges": [[1, 9]]}
    with running_execution_server() as daemon:
        daemon.claim = {"triggering_asset_events": {"rows": [event(1, "rows", "2026-11-20T09:00:00Z", **ranges)]}}
        submitter = spark_submit(tmp_path)
        submission = new_try(
            f"RESULT = {str(result)!r}\n{JOB}",
            context=daemon.context(connections={"shop": {"type": "postgres", "dsn": postgres_database.dsn}}),
            master="local[2]",
            conf={"spark.sql.session.timeZone": "Asia/Kolkata"},
        )
        handle = await submitter.submit(submission)
        status = await ended(submitter, handle)
        assert status.exit_code == 0, await log_of(submitter, handle)

    answer = json.loads(result.read_text())
    reason = "the column Day holds infinity, which Spark's type date cannot hold"
    in_row = "in the row public.orders id=2"
    remedy = "correct the row, or read with on_unrepresentable='bad', 'null' or 'text'"
    assert answer["fail"] == [f"{reason}, {in_row}: {remedy}", True]
    good = ["1", "-4712-11-24", "+294247-01-10 09:30:54.775807", "1.50", "[a, null]", "x  ", "-0.0", "1", "10.0.0.1"]
    assert answer["plain"] == [["1", "-0.0"]]

    kinds = dict(answer["bad"]["types"])
    bad = "struct<_record:string,_file:string,_at:string,_reason:string,_count:bigint>"
    assert kinds.pop("bad_") == bad
    assert kinds == {
        "id": "bigint",
        "Day": "date",
        "day": "timestamp",
        "amount": "decimal(10,2)",
        "tags": "array<string>",
        "code": "string",
        "size": "double",
        "few": "int",
        "bad": "string",
    }
    [row, kept] = answer["bad"]["rows"]
    assert row == [*good, None]
    assert kept[:-1] == [None] * 9
    assert reason in kept[-1]
    assert "public.orders id=2" in kept[-1]

    assert answer["null"]["rows"] == [good, ["2", None, None, None, None, "y  ", "NaN", "2", None]]
    assert dict(answer["text"]["types"])["amount"] == "string"
    assert answer["text"]["rows"] == [
        ["1", "4713-11-24 BC", "294247-01-10 04:00:54.775807+00", "1.50", "{a,NULL}", "x  ", "-0.0", "1", "10.0.0.1"],
        ["2", "infinity", "-infinity", "NaN", "{{a},{b}}", "y  ", "NaN", "2", None],
    ]
