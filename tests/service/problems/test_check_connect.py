"""`watcher check --connect` names the three commonest reasons for "nothing happens", and leaves nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.servers import PostgresDatabase, S3Server

pytestmark = pytest.mark.service
OLD_JAVA = """#!/bin/sh
echo 'openjdk version "1.8.0_402"' >&2
"""
BROKEN_JAVA = """#!/bin/sh
echo 'Error: could not find libjava.so' >&2
exit 1
"""


class Project:
    """A configuration file, and the program that checks it."""

    def __init__(self, folder: Path, s3: S3Server, bucket: str, database: PostgresDatabase) -> None:
        self.folder, self.s3, self.bucket = folder, s3, bucket
        self.lake = {"type": "s3", "endpoint_url": s3.endpoint, "region": s3.region}
        self.lake |= {"access_key_id": s3.access_key, "secret_access_key": s3.secret_key}
        self.connections: dict[str, Any] = {"lake": self.lake, "shop": {"type": "postgres", "dsn": database.dsn}}
        self.assets: dict[str, Any] = {}
        self.jobs: dict[str, Any] = {}

    def put(self, *keys: str) -> None:
        for key in keys:
            self.s3.client.put_object(Bucket=self.bucket, Key=key, Body=b"{}")

    def watch(self, name: str, prefix: str, **options: Any) -> None:
        files = {"trigger": "s3.new_files", "connection": "lake", **options}
        self.assets[name] = {"uri": f"s3://{self.bucket}/{prefix}", "watchers": {f"{name}_files": files}}

    def ingest(self, name: str, source: str, target: str, **spark: Any) -> None:
        self.assets[f"{name}_table"] = {"uri": target}
        section = {"application": "builtin:ingest", "connections": ["lake"], **spark}
        self.jobs[name] = {"schedule": source, "inlets": [source], "outlets": [f"{name}_table"], "spark": section}

    def check(self, *words: str, code: int = 0, **environment: str) -> str:
        document = {
            "version": 1,
            "settings": {"home": str(self.folder / "home")},
            "connections": self.connections,
            "assets": self.assets,
            "jobs": self.jobs,
        }
        (self.folder / "watchers.yaml").write_text(json.dumps(document))
        program = [sys.executable, "-m", "watcher", "check", "--connect", *words]
        program += ["-c", str(self.folder / "watchers.yaml")]
        done = subprocess.run(
            program, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=120
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def keys(self) -> list[str]:
        listed = self.s3.client.list_objects_v2(Bucket=self.bucket)
        return [each["Key"] for each in listed.get("Contents", ())]


@pytest.fixture
def project(tmp_path: Path, s3_server: S3Server, bucket: str, postgres_database: PostgresDatabase) -> Project:
    return Project(tmp_path, s3_server, bucket, postgres_database)


def test_a_pattern_that_matches_nothing_is_an_error_with_the_numbers_and_the_first_keys(project: Project) -> None:
    project.put(*(f"orders/{number}.json" for number in range(5)))
    project.watch("orders", "", match="**/*.jsn")
    project.watch("deeper", "o", match="*.json")
    project.watch("elsewhere", "order/")
    project.watch("right", "orders/", match="*.json")
    assert project.check("--json", code=3).count('"level": "error", "message": "5 objects, none matches') == 2
    lines = project.check(code=3).splitlines()
    first = "orders/0.json, orders/1.json, orders/2.json"
    sentence = f"5 objects, none matches `**/*.jsn`; the first: {first}; correct `match`, or the place: "
    assert (lines[0], lines[2]) == (
        "orders_files: would not detect, 1 error",
        "deeper_files: would not detect, 1 error",
    )
    assert lines[1].startswith(f"  error match: {sentence}")
    assert '`match: "**/*.json"` matches 5 of them' in lines[1]
    assert f'`*.json`; the first: {first}; set `match: "**/*.json"`, which matches 5 of them' in lines[3]
    assert lines[4] == "elsewhere_files: exact, 1 warning"
    assert "there are no objects under" in lines[5]
    assert "the bucket's first object: orders/0.json" in lines[5]
    assert lines[6:] == ["right_files: exact"]
    assert f"ok match: 5 objects under {project.bucket}/orders/" in project.check("--details", code=3)


def test_files_of_a_folder_and_rows_of_a_table_are_counted(
    project: Project, postgres_database: PostgresDatabase
) -> None:
    inbox = project.folder / "inbox"
    (inbox / "monday").mkdir(parents=True)
    (inbox / "monday" / "a.csv").touch()
    rows = {"trigger": "postgres.new_rows", "connection": "shop"}
    with psycopg.connect(postgres_database.dsn, autocommit=True) as shop:
        shop.execute(
            "CREATE TABLE orders (id bigserial PRIMARY KEY, city text); CREATE TABLE nothing (LIKE orders INCLUDING ALL)"
        )
        shop.execute("INSERT INTO orders (city) SELECT 'Kyiv' FROM generate_series(1, 3000)")
        shop.execute("ANALYZE orders")
    project.assets = {
        "files": {"uri": f"file://{inbox}", "watchers": {"csv": {"trigger": "file.new_files", "match": "*.csv"}}},
        "orders": {"watchers": {"rows": {**rows, "table": "public.orders", "where": "city = 'Oslo'"}}},
        "nothing": {"watchers": {"no_rows": {**rows, "table": "public.nothing"}}},
    }
    shown = project.check("--details", code=3)
    assert "csv: would not detect, 1 error\n" in shown
    assert '1 file, none matches `*.csv`; the first: monday/a.csv; set `match: "**/*.csv"`' in shown
    assert "public.orders has about 3,000 rows, about 1 of which fulfil `where`" in shown
    assert "ok rows: public.nothing is empty" in shown


def test_targets_are_tried_and_nothing_is_left_behind(project: Project) -> None:
    project.watch("orders", "orders/")
    project.ingest("to_folder", "orders", f"file://{project.folder}/tables/deep/orders")
    project.ingest("to_bucket", "orders", f"s3://{project.bucket}/tables/orders")
    project.ingest("to_nowhere", "orders", "s3://no-such-bucket-of-ours/orders")
    project.ingest("to_a_file", "orders", f"file://{project.folder}/watchers.yaml/orders")
    shown = project.check("--details", code=3)
    assert "to_folder: can start" in shown
    assert f"ok target: {project.folder}/tables/deep/orders can be written" in shown
    assert f"ok target: s3://{project.bucket}/tables/orders can be written" in shown
    assert "to_nowhere: would fail, 1 error" in shown
    assert "NoSuchBucket" in shown
    assert "to_a_file: would fail, 1 error" in shown
    assert project.keys() == []
    assert not (project.folder / "tables").exists()


def test_targets_that_lack_the_same_folders_do_not_meet(project: Project) -> None:
    project.watch("orders", "orders/")
    for number in range(40):
        project.ingest(f"to_{number}", "orders", f"file://{project.folder}/tables/deep/{number}")
    shown = project.check("--details", code=0)
    assert shown.count("can be written\n") == 40
    assert "cannot be written" not in shown


@pytest.mark.parametrize(
    ("program", "sentence"),
    [(OLD_JAVA, "is Java 8"), (BROKEN_JAVA, "ends with 1: Error: could not find libjava.so")],
)
def test_java_is_really_asked(project: Project, program: str, sentence: str) -> None:
    java = project.folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(program)
    java.chmod(0o755)
    project.watch("orders", "orders/")
    project.ingest("load", "orders", f"file://{project.folder}/table")
    shown = project.check(code=3, JAVA_HOME=str(project.folder / "java"))
    assert "load: would fail, 1 error" in shown
    assert sentence in shown


def test_packages_that_a_jobs_python_lacks_are_named_with_the_command(project: Project) -> None:
    python = project.folder / "bare-python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    (project.folder / "plain.py").write_text("print('no reader')")
    (project.folder / "reader.py").write_text("from asset_job import run")
    project.watch("orders", "orders/")
    project.ingest("lacks", "orders", f"file://{project.folder}/tables/a", python=str(python))
    project.ingest("has_all", "orders", f"file://{project.folder}/tables/b")
    for name in ("plain", "reader"):
        spark = {"application": f"{name}.py", "python": str(python), "connections": ["lake"]}
        project.jobs[name] = {"schedule": "orders", "spark": spark}
    shown = project.check(code=3)
    what = f"readers: {python} lacks obstore, pyarrow, with which the job reads and writes"
    remedy = f"install what is missing: `{python} -m pip install obstore pyarrow`"
    assert f"  error {what}; {remedy}" in shown
    assert f"  warning {what} by `asset_job`; {remedy}" in shown
    assert shown.count("obstore") == 4, "a program without `asset_job` needs no reader"
    assert "has_all: can start" in shown
