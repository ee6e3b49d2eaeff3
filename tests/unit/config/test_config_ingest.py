from __future__ import annotations

import pytest

from asset_job.sources.options import NAMES
from config.models.ingest import INPUT_OPTIONS
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
        *(
            (
                "outlets: [orders]",
                f"connections: [lake], options: {{{options}}}",
                f"spark.options.{sentence}",
            )
            for options, sentence in (
                (
                    "merge: true, dedupe_key: id",
                    "merge: needs `format: delta` or `iceberg`: rows of a Parquet table cannot",
                ),
                ("format: delta, merge: true", "merge: needs `dedupe_key`, the columns of the source's primary key"),
                ("max_bad_records: 101%", "max_bad_records: must be a share such as `50%`, or a number of records"),
                ("max_bad_records: -1", "max_bad_records: must be a share such as `50%`"),
                ("max_bad_records: some", "max_bad_records: must be a share such as `50%`"),
                ("on_unrepresentable: skip", "on_unrepresentable: must be `fail`, `bad`, `null` or `text`"),
                ("input_options: {seperator: x}", "input_options: `seperator` is no option of reading files"),
                (
                    "input_format: json, input_options: {sep: x}",
                    "input_options: `sep` is no option of reading json files; known: `charset`",
                ),
                ("input_options: {mode: DROPMALFORMED}", "input_options: `mode` must be PERMISSIVE: bad records go to"),
                ("schema: 'id long, `a b` int', dedupe_key: [ID, a]", "dedupe_key: `a` is no column of the schema"),
                ("schema: 'id long, day date', partition_by: dai", "partition_by: `dai` is no column of the schema"),
            )
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
        ("orders", "{schema: 'id long, `a b` int', dedupe_key: [ID, 'a b'], partition_by: a b}"),
        ("orders", "{format: delta, schema_evolution: add_columns, schema: id long, dedupe_key: later}"),
        ("orders", "{max_bad_records: 0, input_options: {SEP: ';', header: false, mode: permissive}}"),
        (
            "orders",
            "{max_bad_records: 2.5%, on_unrepresentable: text, input_format: text, input_options: {lineSep: x}}",
        ),
    ],
)
def test_an_ingestion_with_all_it_needs_is_accepted(load_text: Load, outlets, options):
    text = BEFORE + JOB.format(f"outlets: [{outlets}]", f"connections: [lake], options: {options}")
    found = load_text(text).jobs["j"].spark.options
    assert str(found.get("target", "/")).startswith(("/", "file:"))


@pytest.mark.parametrize("written", ["null", "'null'", "~"])
def test_null_is_a_word_of_on_unrepresentable(load_text: Load, written: str) -> None:
    options = f"options: {{on_unrepresentable: {written}}}"
    job = load_text(BEFORE + JOB.format("outlets: [orders]", f"connections: [lake], {options}")).jobs["j"]
    assert job.spark.options["on_unrepresentable"] == "null"


def test_the_names_of_input_options_are_those_that_the_job_sdk_reads() -> None:
    assert {kind: set(names) for kind, names in INPUT_OPTIONS.items()} == {
        kind: set(names) for kind, names in NAMES.items() if kind != "rows"
    }
