"""Rows of PostgreSQL with values that Spark cannot hold, in one real Spark application."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import make_url

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
    (2, 'infinity', '-infinity', 'NaN', '{{a},{b}}', 'y', 'NaN', 2, NULL);
CREATE TABLE numbers (id bigint PRIMARY KEY, n numeric, t text);
INSERT INTO numbers VALUES (1, 1e400, '1'), (2, 1e-400, '2'), (3, 0.1, '3'), (4, 1, E'4\\n')
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
    for mode in ("null", "text"):
        frame = r.read([(1, 9)], table="public.orders", on_unrepresentable=mode)
        answer[mode] = {"types": frame.dtypes, "rows": rows(frame)}
    kept = {"schema": SCHEMA + ", _corrupt_record string"}
    frame = r.read([(1, 9)], table="public.orders", **kept)
    answer["kept"] = {"types": frame.dtypes, "rows": rows(frame)}
    answer["dropped"] = rows(r.read([(1, 9)], table="public.orders", schema="id long, Day date", mode="DROPMALFORMED"))
    one = lambda schema, **more: rows(r.read([(1, 1)], table="public.orders", schema=schema, **more))
    answer["exact"] = one("id tinyint, amount decimal(4,1), size bigint, day string, bad string")
    answer["lossy"] = one("id int, amount decimal(9,0), _corrupt_record string")
    refused = {"lossy": "amount decimal(9,0)", "zone": "day date", "no column": "colour string", "unit": "few timestamp"}
    answer["refused"] = {}
    for name, schema in refused.items():
        try:
            one(schema)
        except Exception as error:
            from asset_job.errors import describe
            answer["refused"][name] = describe(error)
    kept = "id bigint, n double, t int, _corrupt_record string"
    answer["numbers"] = rows(r.read([(1, 9)], table="public.numbers", schema=kept))
    answer["plain"] = rows(r.read([(1, 1)], table="public.orders", schema="few int, size double"))
    try:
        r.read([(1, 9)], table="public.orders").collect()
    except Exception as error:
        from asset_job.errors import describe, is_final
        answer["fail"] = [describe(error), is_final(error)]
    pathlib.Path(RESULT).write_text(json.dumps(answer))
"""


SCHEMA = "id bigint, Day date, day timestamp, amount decimal(10,2), tags array<string>, code string, size double, few int, bad string"


async def test_a_value_that_spark_cannot_hold_is_a_bad_record_null_text_or_an_error(
    postgres_database: PostgresDatabase, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    with psycopg.connect(postgres_database.dsn) as connection:
        connection.execute(TABLE)
    result = tmp_path / "result.json"
    ranges = {"table": "public.orders", "column": "id", "ranges": [[1, 9]]}
    with running_execution_server() as daemon:
        daemon.claim = {"triggering_asset_events": {"rows": [event(1, "rows", "2026-11-20T09:00:00Z", **ranges)]}}
        daemon.connections = {"shop": {"type": "postgres", "dsn": postgres_database.dsn}}
        outdated = make_url(postgres_database.dsn).set(username="renamed").render_as_string(hide_password=False)
        submitter = spark_submit(tmp_path)
        submission = new_try(
            f"RESULT, SCHEMA = {str(result)!r}, {SCHEMA!r}\n{JOB}",
            context=daemon.context(connections={"shop": {"type": "postgres", "dsn": outdated}}),
            master="local[2]",
            conf={"spark.sql.session.timeZone": "Asia/Kolkata"},
        )
        handle = await submitter.submit(submission)
        status = await ended(submitter, handle)
        assert status.exit_code == 0, await log_of(submitter, handle)
        assert [request.path for request in daemon.requests].count("connections/shop") == 1

    answer = json.loads(result.read_text())
    reason = "the column Day holds infinity, which Spark's type date cannot hold"
    in_row = "in the row public.orders id=2"
    remedy = (
        "correct the row, or read with on_unrepresentable='null' or 'text', with a schema that has the column for corrupt "
        "records, or with mode='DROPMALFORMED'"
    )
    assert answer["fail"] == [f"{reason}, {in_row}: {remedy}", True]
    good = ["1", "-4712-11-24", "+294247-01-10 09:30:54.775807", "1.50", "[a, null]", "x  ", "-0.0", "1", "10.0.0.1"]
    assert answer["plain"] == [["1", "-0.0"]]

    kinds = dict(answer["kept"]["types"])
    assert kinds == dict(each.split() for each in SCHEMA.split(", ")) | {"_corrupt_record": "string"}
    [row, kept] = answer["kept"]["rows"]
    assert row == [*good, None]
    assert kept[:-1] == [None] * 9
    assert json.loads(kept[-1])["Day"] == "infinity"
    assert answer["dropped"] == [["1", "-4712-11-24"]]

    assert answer["exact"] == [["1", "1.5", "0", "294247-01-10 04:00:54.775807+00", "10.0.0.1"]]
    [[number, amount, record]] = answer["lossy"]
    assert (number, amount, json.loads(record)["amount"]) == (None, None, 1.5)
    assert (
        "the column amount has the type decimal(9,0) in the schema, and there is 1.50, in public.orders id=1: correct"
        in (answer["refused"]["lossy"])
    )
    assert "few of public.orders has the type int, which is timestamp only in one unit of" in answer["refused"]["unit"]
    assert (
        "day of public.orders has the type timestamp, which is date only in one time zone" in answer["refused"]["zone"]
    )
    assert "the table public.orders has no column colour" in answer["refused"]["no column"]

    bad = [json.loads(record)["id"] for number, *_, record in answer["numbers"] if number is None]
    assert [row for row in answer["numbers"] if row[0]] == [["3", "0.1", "3", None]]
    assert sorted(bad) == [1, 2, 4]

    assert answer["null"]["rows"] == [good, ["2", None, None, None, None, "y  ", "NaN", "2", None]]
    assert dict(answer["text"]["types"])["amount"] == "string"
    assert answer["text"]["rows"] == [
        ["1", "4713-11-24 BC", "294247-01-10 04:00:54.775807+00", "1.50", "{a,NULL}", "x  ", "-0.0", "1", "10.0.0.1"],
        ["2", "infinity", "-infinity", "NaN", "{{a},{b}}", "y  ", "NaN", "2", None],
    ]
