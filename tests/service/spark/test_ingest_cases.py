"""`builtin:ingest` case by case, in one Spark application: what it loads, what it puts aside, and what it says."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from obstore.store import LocalStore
from pyarrow import parquet

from tests.contract.submitters import ended, log_of
from tests.servers import PostgresDatabase, S3Server
from tests.service.spark.ingestions import (
    COUNTS,
    INGEST,
    SCHEMA,
    Case,
    Landing,
    cases_of,
    check,
    counts_of,
    make_tables,
    of_files,
    of_rows,
    rows_of,
)
from tests.unit.sdk.execution_server import event, running_execution_server
from tests.unit.submit.plain import spark_submit
from watcher.submit.base import Submission

pytestmark = [pytest.mark.spark, pytest.mark.service]

JOB = """
import json, pathlib
from asset_job import run

with run() as r:
    pathlib.Path(RESULT).write_text(json.dumps(ingest(r, json.loads(pathlib.Path(CASES).read_text()))))
"""


def odd_files(landing: Landing, folder: Path) -> dict[str, Case]:
    """As people send them, in a folder and, where our own readers take them, on S3."""
    (folder / "landing").mkdir()

    def local(name: str, body: bytes) -> dict[str, Any]:
        path = folder / "landing" / name
        path.write_bytes(body)
        return of_files({"path": str(path), "size": len(body)})

    table = pa.BufferOutputStream()
    parquet.write_table(pa.table({"id": [1, 2, 3]}), table)
    drifted = b'{"id": 20, "colour": "red"}\n{"id": "many"}\n{"id": 21\n'
    orders, schema, amounts = b"id,amount\n1,2.5\n", {"schema": "id long"}, {"schema": "id long, amount double"}
    names = b'{"a.b": 1, "t`k": 2, "_record": 7, "bad": 8, "_corrupt_record": "of the file"}\n{"a.b": 1, "t`k": 3}\n{"a.b": "no"}\n'
    columns = "`a.b` long, `t``k` int, _record int, bad int, _corrupt_record string"
    odd = {"schema": columns, "dedupe_key": "A.B", "partition_by": "t`k"}
    return {
        "semicolons": ("r:8", local("semicolons.csv", b"\nid;amount\n1;2.5\n"), {}),
        "semicolons on S3": ("r:8", of_files(landing.put("semicolons.csv", "id;amount", "1;2.5")), {}),
        "semicolons, schema": (
            "r:8",
            local("semicolons2.csv", b"id;amount\n1;2.5\n"),
            amounts,
        ),
        "same name": ("r:8", local("twice.csv", b"id,amount,Amount\n1,2,3\n"), {}),
        "same name on S3": ("r:8", of_files(landing.put("twice.csv", "id,amount,Amount", "1,2,3")), {}),
        "wider": ("r:8", local("wider.csv", b"id,colour\n1,red\n"), schema),
        "cut gz": ("r:8", local("cut.csv.gz", gzip.compress(orders * 1000)[:-9]), amounts),
        "no gz": ("r:8", local("no.csv.gz", orders), amounts),
        "cut Parquet": ("r:8", local("cut.parquet", table.getvalue().to_pybytes()[:-9]), schema),
        "empty": ("r:8", local("empty.csv", b""), {}),
        "semicolons, sep": (
            "r:11",
            local("sep.csv", b"id;amount\n1;2.5\n"),
            {**amounts, "input_options": {"sep": ";"}},
        ),
        "too many": ("r:9", local("too_many.json", drifted), {**schema, "target": str(folder / "drifted")}),
        "not one": ("r:9", local("not_one.json", drifted), {**schema, "max_bad_records": 1}),
        "names": ("r:12", local("names.json", names), {"target": str(folder / "named"), **odd}),
        "names again": (
            "r:13",
            local("again.json", b'{"a.b": 1}\n{"a.b": 2}'),
            {"target": str(folder / "named"), **odd},
        ),
        "twins": ("r:8", local("twins.json", b'{"a": 1}'), {"schema": "a int, A int"}),
        "no gz, skipped": ("r:14", local("skipped.csv.gz", orders), {**amounts, "missing": "skip"}),
        "drifted": (
            "r:9",
            local("drifted.json", drifted),
            {**schema, "target": str(folder / "drifted"), "max_bad_records": 2},
        ),
    }


def endless_rows(folder: Path) -> dict[str, Case]:
    """Rows with a date that Spark has not, in each mode."""
    new, target, days = (
        of_rows("endless", keys=[1, 2]),
        {"target": str(folder / "endless")},
        {"schema": "id long, day date"},
    )
    modes: dict[str, dict[str, Any]] = {
        "bad": days,
        "null": {**days, "on_unrepresentable": "null"},
        "text": {"schema": "id long, day string", "on_unrepresentable": "text"},
        "fail": {**days, "on_unrepresentable": "fail"},
    }
    return {
        f"endless, {mode}": (f"r:{number}", new, {**target, **options})
        for number, (mode, options) in enumerate(modes.items(), 20)
    }


def more_cases(landing: Landing) -> dict[str, Case]:
    one, wrong = landing.one, landing.wrong
    gone, broken = {**one, "key": "gone.json"}, landing.put("broken.json.gz", '{"id": 1}')
    good = {"target": f"s3://{landing.bucket}/good", "schema": SCHEMA}
    return {
        "bad no more": ("r:2", of_files(wrong), good),
        "good instead": ("r:2", of_files(one), good),
        "gone": ("r:6", of_files(one, gone), {}),
        "gone, skipped": ("r:6", of_files(one, gone), {"missing": "skip"}),
        "broken": ("r:1", of_files(broken), {"target": f"s3://{landing.bucket}/broken"}),
        "rows do not fit": ("r:7", of_rows("other", keys=["seven"]), {"schema": SCHEMA}),
        "no such column": ("r:7", of_rows("other", keys=["seven"]), {"schema": "colour string"}),
        "not Parquet": ("r:7", of_files(one), {"input_format": "parquet", "schema": SCHEMA}),
        "which format": ("r:7", of_files({**one, "key": "x.dat"}), {}),
        "no key": ("r:7", of_files(one), {"schema": SCHEMA, "dedupe_key": "colour"}),
        "no DDL": ("r:7", of_files(one), {"schema": "id lung"}),
        "nothing": ("r:7", {"job": [event(1, "job", "2026-11-20T09:00:00Z", row_count=1)]}, {}),
    }


def told_of(part: Path) -> list[tuple[str, str, str]]:
    """Where the bad records of a run's part are from, and why they are bad."""
    table = pa.concat_tables(parquet.read_table(file) for file in part.glob("*.parquet"))
    assert table.column_names == ["_record", "_file", "_at", "_reason"]
    rows = table.to_pylist()
    return sorted(("/".join(Path(row["_file"]).parts[-2:]), row["_at"], row["_reason"]) for row in rows)


def days_of(table: Path) -> dict[str, list[str]]:
    """The days in each run's part, in order."""
    days: dict[str, list[str]] = {}
    for file in table.glob("run=*/*.parquet"):
        days.setdefault(file.parent.name, []).extend(map(str, parquet.ParquetFile(file).read()["day"].to_pylist()))
    return {part: sorted(each) for part, each in days.items()}


async def test_ingestions_load_put_aside_and_say_what_they_should(
    s3_server: S3Server,
    bucket: str,
    postgres_database: PostgresDatabase,
    new_try: Callable[..., Submission],
    tmp_path: Path,
) -> None:
    make_tables(postgres_database.dsn)
    landing = Landing(s3_server, bucket)
    result, given = tmp_path / "result.json", tmp_path / "cases.json"
    cases = odd_files(landing, tmp_path) | cases_of(landing, tmp_path) | endless_rows(tmp_path) | more_cases(landing)
    given.write_text(json.dumps(cases))
    shop = {"type": "postgres", "dsn": postgres_database.dsn}
    with running_execution_server() as daemon:
        daemon.claim = {"outlets": [{"name": "orders", "uri": (tmp_path / "orders").as_uri()}]}
        submitter = spark_submit(tmp_path)
        text = f"CASES, RESULT = {str(given)!r}, {str(result)!r}\n{INGEST}\n{JOB}"
        context = daemon.context(connections={"lake": landing.connection(), "shop": shop})
        handle = await submitter.submit(new_try(text, context=context))
        status = await ended(submitter, handle)
        log = await log_of(submitter, handle)
        assert status.exit_code == 0, log
        entries = daemon.entries

    said = json.loads(result.read_text())
    assert counts_of(said) == COUNTS | {
        "bad no more": (3, 2, 0),
        "good instead": (2, 0, 0),
        "gone, skipped": (2, 0, 0),
        "drifted": (1, 2, 0),
        "semicolons, sep": (1, 0, 0),
        "names": (1, 1, 1),
        "names again": (1, 0, 1),
        "no gz, skipped": (0, 1, 0),
        "rows do not fit": (0, 1, 0),
        "endless, bad": (1, 1, 0),
        "endless, null": (2, 0, 0),
        "endless, text": (2, 0, 0),
    }
    assert {
        name: case.get("nulled_values") for name, case in said.items() if "endless" in name and "fail" not in name
    } == {
        "endless, bad": None,
        "endless, null": 1,
        "endless, text": None,
    }
    assert days_of(tmp_path / "endless") == {
        "run=r.20": ["2026-11-20"],
        "run=r.21": ["2026-11-20", "None"],
        "run=r.22": ["2026-11-20", "infinity"],
    }
    check(landing, tmp_path, entries)
    remote = landing.store()
    assert rows_of(remote, "good") == {"run=r.2": [1, 2]}
    assert rows_of(remote, "good_bad") == rows_of(remote, "broken") == {}
    assert rows_of(LocalStore(tmp_path), "drifted_bad") == {"run=r.9": ['{"id": "many"}', '{"id": 21']}
    orders = rows_of(LocalStore(tmp_path), "orders")
    assert (orders.pop("run=r.6"), orders.pop("run=r.11")) == ([1, 2], [1])
    assert told_of(tmp_path / "drifted_bad" / "run=r.9") == [
        ("landing/drifted.json", "line 2", "the column id has the type bigint, and 'many' is no whole number"),
        ("landing/drifted.json", "line 3", "it is no JSON: expecting ',' delimiter at character 11 of the value"),
    ]
    assert sorted(part.name for part in (tmp_path / "named").glob("run=*/t*")) == [
        "t`k=2",
        "t`k=__HIVE_DEFAULT_PARTITION__",
    ]
    [named] = (tmp_path / "named" / "run=r.12" / "t`k=2").glob("*.parquet")
    assert parquet.read_table(named, partitioning=None).to_pylist() == [
        {"a.b": 1, "_record": 7, "bad": 8, "_corrupt_record": "of the file"}
    ]
    assert len(orders) == 5, "who fails writes nothing"
    sentences = {
        "gone": f"s3://{bucket}/gone.json was deleted since it was detected; put it back and retry the run",
        "broken": f"s3://{bucket}/broken.json.gz cannot be unpacked: Truncated compressed stream; correct the file",
        "no such column": "the table public.other has no column colour: correct the schema",
        "not Parquet": f"s3://{bucket}/a.json is not a Parquet file",
        "which format": "AssetJobError: name the format of x.dat by spark.options.input_format: json, csv, text or parquet",
        "no key": "dedupe_key names colour, but the columns are id, amount, day: correct dedupe_key",
        "no DDL": "the schema 'id lung' is not Spark's DDL, such as `id long, amount double`: ",
        "nothing": "AssetJobSkip: the events of this run name neither files nor rows",
        "semicolons": f"{tmp_path}/landing/semicolons.csv has the single column 'id;amount': write the file with commas, or name its separator by the option sep: ';'",
        "semicolons on S3": f"s3://{bucket}/semicolons.csv has the single column 'id;amount'",
        "semicolons, schema": "semicolons2.csv has the columns id;amount where id, amount are expected: correct the file, its sep",
        "endless, fail": "the column day holds infinity, which Spark's type date cannot hold, in the row public.endless id=2",
        "too many": "nothing was loaded, because max_bad_records is 50% and 2 of 3 records are bad: it is no JSON",
        "not one": "nothing was loaded, because max_bad_records is 1 and 2 of 3 records are bad",
        "twins": "the schema has the columns a, A, which Spark cannot tell apart: rename one",
        "same name": f"{tmp_path}/landing/twice.csv has the column 'amount' more than once: rename it in the first line",
        "same name on S3": f"s3://{bucket}/twice.csv has the column 'amount' more than once",
        "wider": f"{tmp_path}/landing/wider.csv has the columns id, colour where id are expected: correct the file",
        "cut gz": f"{tmp_path}/landing/cut.csv.gz cannot be unpacked: Truncated compressed stream; correct the file",
        "no gz": f"{tmp_path}/landing/no.csv.gz is packed by gzip by its name, and not packed by its first bytes: rename the file",
        "cut Parquet": f"{tmp_path}/landing/cut.parquet is not a Parquet file, or it is incomplete: write it again",
        "empty": "none of the files has a line: give a schema",
    }
    others = {name: said[name] for name, sentence in sentences.items() if sentence not in said[name]}
    assert others == {}
    assert "\n" not in "".join(said[name] for name in sentences)
