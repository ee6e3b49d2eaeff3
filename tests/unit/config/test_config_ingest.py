from __future__ import annotations

import pytest

from tests.unit.config.conftest import Load, Problems

BEFORE = """
connections:
  lake: {type: lake}
  shop: {type: shop, dsn: x}
assets:
  landing: {uri: "s3://landing/in", watchers: {files: {trigger: lake.files, connection: lake}}}
  orders: {uri: "file:///data/orders"}
  more: {uri: "s3://lake/more"}
  plain: {}
"""
JOB = "jobs: {{j: {{schedule: landing, {}, spark: {{application: builtin:ingest, {}}}}}}}"


@pytest.mark.parametrize(
    ("job", "spark", "sentence"),
    [
        ("outlets: []", "connections: [lake]", "outlets: must name exactly one asset: its store describes the table"),
        (
            "outlets: [orders, more]",
            "connections: [lake]",
            "outlets: must name exactly one asset: its store describes the",
        ),
        ("outlets: [plain]", "connections: [lake]", "outlets: `plain` cannot hold a table: give the outlet a uri"),
        (
            "outlets: [plain]",
            "connections: [lake], options: {target: 'hdfs://n/t'}",
            "spark.options.target: `hdfs://n/t` cannot hold a table",
        ),
        (
            "outlets: [orders]",
            "connections: [shop]",
            "spark.connections: must list `lake`: the watcher files reads the",
        ),
        (
            "outlets: [more]",
            "connections: [lake]",
            "spark.connections: must list a connection of type s3: the table is written",
        ),
        (
            "outlets: [orders], max_active_runs: 2",
            "connections: [lake], options: {dedupe_key: id}",
            "max_active_runs: must be 1 with dedupe_key",
        ),
        (
            "outlets: [orders]",
            "connections: [lake], options: {format: orc}",
            "spark.options.format: must be `parquet`, `delta` or `iceberg`",
        ),
        (
            "outlets: [orders]",
            "connections: [lake], options: {connection: lak}",
            "spark.options.connection: unknown connection `lak`; did you mean `lake`?",
        ),
    ],
)
def test_what_an_ingestion_lacks_is_reported_before_anything_runs(problems: Problems, job, spark, sentence):
    [problem] = problems(BEFORE + JOB.format(job, spark))
    assert f"jobs.j.{sentence}" in problem


@pytest.mark.parametrize(
    ("outlets", "options"),
    [
        ("orders", "{}"),
        ("plain", "{target: /data/x}"),
        ("plain", "{target: tables/x, bad_records: 'file:///bad', partition_by: day, dedupe_key: [id, day]}"),
        ("orders, more", "{target: 'file:///data/orders'}"),
    ],
)
def test_an_ingestion_with_all_it_needs_is_accepted(load_text: Load, outlets, options):
    text = BEFORE + JOB.format(f"outlets: [{outlets}]", f"connections: [lake], options: {options}")
    found = load_text(text).jobs["j"].spark.options
    assert str(found.get("target", "/")).startswith(("/", "file:"))
