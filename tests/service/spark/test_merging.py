"""Merges of a real job: what `r.append` and `builtin:ingest` leave of Delta and Iceberg tables, read by deltalake and pyiceberg."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog

from tests.contract.submitters import ended, log_of
from tests.servers import PostgresDatabase, running_postgres
from tests.service.postgres.logged import logged, logged_database
from tests.service.spark.ingestions import INGEST
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service]

JOB = """
import json, pathlib
from asset_job import run

with run() as r:
    cases = json.loads(pathlib.Path(CASES).read_text())
    found = ingest(r, cases)
    r.run_id, r.triggering_asset_events = "own", TriggeringAssetEvents(cases["changes"][1])
    out = r.append(r.triggering_asset_events.changes("rows"), "shop.customers", format="iceberg", merge_on="id")
    found["own"] = [out.rows, str(out.max("id"))]
    for name, given, options in [
        ("parquet", [], {"merge_on": "id"}),
        ("frame", r.spark.range(3), {"merge_on": "id", "format": "delta"}),
        ("other", [{"op": "delete", "key": 1, "lsn": "0/FF"}], {"merge_on": "id", "format": "delta"}),
    ]:
        try:
            r.append(given, str(pathlib.Path(RESULT).parent / name), **options)
        except Exception as error:
            found[name] = describe(error)
    pathlib.Path(RESULT).write_text(json.dumps(found))
"""


def change(op: str, key: int, lsn: str, **members: Any) -> dict[str, Any]:
    return {"op": op, "key": key, "lsn": lsn, "xid": 7, "commit_time": "2026-11-20T09:00:00+00:00", **members}


def row(number: int, price: str) -> dict[str, Any]:
    return {"id": number, "price": price, "note": f"n{number}"}


def of_changes(number: int, *changes: dict[str, Any]) -> dict[str, Any]:
    members = {"table": "public.customers", "mode": "log", "changes": changes, "keys": [], "deleted": []}
    return {"rows": [event(number, "rows", "2026-11-20T09:00:00Z", **members)]}


def of_keys(number: int, **members: Any) -> dict[str, Any]:
    at = {"table": "public.customers", "column": "updated_at"}
    return {"rows": [event(number, "rows", "2026-11-20T09:00:00Z", **at, **members)]}


def cases_of(folder: Path) -> dict[str, Any]:
    merged = {"format": "delta", "merge": True, "dedupe_key": "id", "connection": "shop"}
    inserted = [change("insert", n, f"0/{n}", row=row(n, f"{n}.50")) for n in (1, 2, 3)]
    later = [
        change("update", 9, "0/20", old_key=2, row={"id": 9, "price": "8.25"}, unchanged=["note"]),
        change("delete", 3, "0/21"),
    ]
    changed = {**merged, "target": str(folder / "changed")}
    read = {**merged, "target": str(folder / "read"), "schema": "id int, price decimal(10,2), note string"}
    return {
        "changes": ("r:1", of_changes(1, *inserted), changed),
        "more changes": ("r:2", of_changes(2, *later), changed),
        "repeated": ("r:1", of_changes(1, *inserted), changed),
        "rows": ("r:3", of_keys(3, keys=[1, 2, 3], deleted=[4]), read),
        "more rows": ("r:4", of_keys(4, keys=[2, 5], deleted=[1]), read),
        "ranges": ("r:5", of_keys(5, ranges=[[1, 2]]), read),
        "mixed": ("r:6", {"rows": of_changes(6)["rows"] + of_keys(7, keys=[1])["rows"]}, changed),
    }


async def test_jobs_insert_update_and_delete_by_key(
    postgres_database: PostgresDatabase, new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    with psycopg.connect(postgres_database.dsn) as connection:
        connection.execute("CREATE TABLE customers (id int PRIMARY KEY, price numeric(10, 2), note text, gone bool)")
        connection.execute("INSERT INTO customers VALUES (1, 1.5, 'a', true), (2, 2.5, 'b', NULL), (3, 3.5, 'c', NULL)")
    catalog = {"uri": f"sqlite:///{tmp_path}/ice.db", "warehouse": tmp_path.as_uri()}
    given, result = tmp_path / "cases.json", tmp_path / "result.json"
    given.write_text(json.dumps(cases_of(tmp_path)))
    connections = {
        "shop": {"type": "postgres", "dsn": postgres_database.dsn},
        "ice": {"type": "iceberg", "catalog": "sql", **catalog},
    }
    with running_execution_server() as daemon:
        daemon.claim = {"outlets": [{"name": "orders", "uri": (tmp_path / "orders").as_uri()}]}
        submitter = spark_submit(tmp_path)
        text = f"CASES, RESULT = {str(given)!r}, {str(result)!r}\n{INGEST}\n{JOB}"
        handle = await submitter.submit(new_try(text, context=daemon.context(connections=connections)))
        status = await ended(submitter, handle)
        assert status.exit_code == 0, await log_of(submitter, handle)

    report = json.loads(result.read_text())
    counts = {
        name: (each["rows_loaded"], each["rows_deleted"]) for name, each in report.items() if isinstance(each, dict)
    }
    assert counts == {
        "changes": (3, 0),
        "more changes": (1, 2),
        "repeated": (1, 0),
        "rows": (3, 1),
        "more rows": (1, 2),
    }
    assert report["own"] == [3, "3"]
    assert "has neither changes nor keys, by which rows are merged" in report["ranges"]
    assert "merge takes the rows of one table in one mode" in report["mixed"]
    assert "is a Parquet table, whose rows cannot be changed: merge into" in report["parquet"]
    assert "merge_on takes changes, not a frame" in report["frame"]
    assert "no event of this run has a change with the LSN 0/FF" in report["other"]

    def rows_at(name: str) -> list[tuple[Any, ...]]:
        table = DeltaTable(tmp_path / name).to_pyarrow_table(columns=["id", "price", "note"])
        return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))

    assert rows_at("changed") == [(1, Decimal("1.50"), "n1"), (9, Decimal("8.25"), "n2")]
    assert rows_at("read") == [(2, Decimal("2.50"), "b"), (3, Decimal("3.50"), "c")]
    iceberg = SqlCatalog("ice", **catalog).load_table(("shop", "customers")).scan().to_arrow()
    assert sorted(iceberg.column("id").to_pylist()) == [1, 2, 3]


TYPES = {
    "small": ("smallint", "-7"),
    "large": ("bigint", "9007199254740993"),
    "price": ("numeric(10, 2)", "'12.50'"),
    "ratio": ("float8", "0.1"),
    "nan": ("float8", "'NaN'"),
    "real": ("real", "0.1"),
    "ok": ("boolean", "true"),
    "note": ("text", "E'a\\n\\u00fc\"'"),
    "padded": ("char(5)", "'ab'"),
    "day": ("date", "'2026-03-01'"),
    "at": ("timestamptz", "'2026-03-29 02:30:00.000001+01'"),
    "local": ("timestamp", "'2026-03-29 02:30:00.5'"),
    "data": ("bytea", "'\\x00ff'"),
    "tags": ("text[]", "'{a,NULL}'"),
    "numbers": ("int[]", "'{1,2}'"),
    "document": ("jsonb", """'{"a": [1, null]}'"""),
    "mark": ("uuid", "'9f8b1c6e-3f0e-4a6b-9a0e-0d3b2d9c1e11'"),
}
"""Column -> its type in PostgreSQL, and a value in SQL."""


async def test_a_value_that_is_merged_by_its_change_is_the_one_that_is_read(
    new_try: Callable[..., Submission], tmp_path: Path
) -> None:
    with running_postgres(wal_level="logical") as server, logged_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as connection:
            columns = ", ".join(f"{name} {kind}" for name, (kind, _) in TYPES.items())
            connection.execute(f"CREATE TABLE customers (id int PRIMARY KEY, {columns})".encode())
            async with logged(dsn, table="public.customers", columns=["id", *TYPES]) as host:
                values = ", ".join(value for _, value in TYPES.values())
                connection.execute(f"INSERT INTO customers VALUES (1, {values})".encode())
                connection.execute("INSERT INTO customers (id) VALUES (2)")
                payloads: list[Any] = [each.payload for each in await host.drain()]
        events = {
            "rows": [event(n, "rows", "2026-11-20T09:00:00Z", **each) for n, each in enumerate(payloads, start=1)]
        }
        merged = {"format": "delta", "merge": True, "dedupe_key": "id", "connection": "shop"}
        cases = {
            "changes": ("r:1", events, {**merged, "target": str(tmp_path / "changed")}),
            "keys": ("r:2", of_keys(9, keys=[1, 2]), {**merged, "target": str(tmp_path / "read")}),
        }
        given, result = tmp_path / "cases.json", tmp_path / "result.json"
        given.write_text(json.dumps(cases))
        job = JOB[: JOB.index("    r.run_id")] + "    pathlib.Path(RESULT).write_text(json.dumps(found))\n"
        with running_execution_server() as daemon:
            daemon.claim = {"outlets": [{"name": "orders", "uri": (tmp_path / "orders").as_uri()}]}
            submitter = spark_submit(tmp_path)
            text = f"CASES, RESULT = {str(given)!r}, {str(result)!r}\n{INGEST}\n{job}"
            context = daemon.context(connections={"shop": {"type": "postgres", "dsn": dsn}})
            handle = await submitter.submit(new_try(text, context=context))
            assert (await ended(submitter, handle)).exit_code == 0, await log_of(submitter, handle)
    assert all(isinstance(each, dict) for each in json.loads(result.read_text()).values()), result.read_text()
    changed, read = (
        DeltaTable(tmp_path / name).to_pyarrow_table(columns=["id", *TYPES]).sort_by("id")
        for name in ("changed", "read")
    )
    assert changed.schema == read.schema
    assert str(changed.to_pylist()) == str(read.to_pylist())  # NaN is not equal to itself
    assert changed.column("price").to_pylist() == [Decimal("12.50"), None]
