"""Keys of a job's `spark` section that go to spark-submit: their values, and the sentences for those that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.models import SparkConfig
from config.models.spark import DynamicAllocation
from config.reading.loader import load
from config.vocabulary import Vocabulary
from tests.unit.config.conftest import Load, Problems, Write

WHY = "the driver runs beside the daemon"


def spark_of(load_text: Load, keys: str) -> SparkConfig:
    return load_text(f"jobs: {{j: {{spark: {{application: /a.py, {keys}}}}}}}").jobs["j"].spark


def test_the_keys_have_the_units_of_spark_submit(load_text: Load, tmp_path: Path) -> None:
    keys = (
        "master: yarn, files: [lookup.csv, 's3a://b/x#y'], archives: ['env.tar.gz#env'], properties_file: spark.conf, "
        "executor_memory: 2g, executor_cores: 2, num_executors: 3, dynamic_allocation: {min: 1, max: 4}"
    )
    spark = spark_of(load_text, keys)
    assert spark.files == (f"{tmp_path}/lookup.csv", "s3a://b/x#y")
    assert spark.archives == (f"{tmp_path}/env.tar.gz#env",)
    assert spark.properties_file == f"{tmp_path}/spark.conf"
    assert (spark.executor_memory, spark.executor_cores, spark.num_executors) == ("2g", 2, 3)
    assert spark.dynamic_allocation == DynamicAllocation(min=1, max=4)
    assert spark_of(load_text, "dynamic_allocation: true").dynamic_allocation is True
    assert spark_of(load_text, "dynamic_allocation: {min: 2}").dynamic_allocation == DynamicAllocation(min=2)


def test_what_arrives_as_it_is_passes(load_text: Load) -> None:
    spark = spark_of(
        load_text,
        r"""args: ["", " a ", "a\nb\n", "😀", "\uFFFF"], conf: {spark.a: "", spark.b: "\ra\n"}, env: {A: " \r"}""",
    )
    assert spark.args == ("", " a ", "a\nb\n", "😀", "\uffff")
    assert spark.conf == {"spark.a": "", "spark.b": "\ra\n"}
    assert spark.env["A"].get_secret_value() == " \r"
    assert spark_of(load_text, f"args: [{'x' * 131_071}]").args == ("x" * 131_071,)


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        (
            "executor_memory: 2",
            "spark.executor_memory: must be an amount of memory such as `512m` or `2g`, a whole number and",
        ),
        (
            "executor_memory: 2gb",
            "spark.executor_memory: must be an amount of memory such as `512m` or `2g`, a whole number and",
        ),
        ("executor_cores: 0", "spark.executor_cores: must be at least 1"),
        ("num_executors: many", "spark.num_executors: must be a whole number, not text"),
        ("dynamic_allocation: {min: 3, max: 2}", "spark.dynamic_allocation: `max` must be at least `min`"),
        ("dynamic_allocation: {least: 3}", "spark.dynamic_allocation.least: is not a key here; known: `max`, `min`"),
        ("files: ['a.csv#b.csv']", "spark.files: `#name` after a file renames it on YARN only"),
        ("deployMode: cluster", f"spark.deployMode: is always `client`, so remove it: {WHY}"),
        ("deploy_mode: client", f"spark.deploy_mode: is always `client`, so remove it: {WHY}"),
        (r'args: [a, "b\rc"]', "spark.args[1]: contains a carriage return, which Spark's scripts remove"),
        (r'args: ["\r{{ run_id }}"]', "spark.args[0]: contains a carriage return, which Spark's scripts remove"),
        (r'args: ["\0"]', "spark.args[0]: contains a NUL character, which cannot be passed to a program; remove it"),
        (r'args: ["\uD800"]', "spark.args[0]: holds half of a character (a lone surrogate)"),
        (f"args: [{'x' * 131_072}]", "spark.args[0]: is longer than the 131,071 bytes that Linux passes to a program"),
        (f"env: {{OWN: {'x' * 131_068}}}", "spark.env.OWN: is longer than the 131,071 bytes"),
        (r'env: {OWN: "a\0"}', "spark.env.OWN: contains a NUL character"),
        ("env: {COUNT: 5}", "spark.env.COUNT: is a variable that Spark's scripts set for themselves"),
        ("env: {PYTHONHASHSEED: 1}", "spark.env.PYTHONHASHSEED: is a variable that Spark's scripts set for themselves"),
        ("env: {'A=B': c}", "spark.env.A=B: is no name of a variable; use one without `=`"),
        ("env: {LC_ALL: C}", "spark.env.LC_ALL: must be a locale with UTF-8, such as `C.UTF-8`"),
        ("env: {LC_CTYPE: de_DE}", "spark.env.LC_CTYPE: must be a locale with UTF-8"),
        ("conf: {spark.own: ' a'}", "spark.conf.spark.own: begins or ends with blanks, which Spark removes"),
        (r'conf: {spark.own: "a\t"}', "spark.conf.spark.own: begins or ends with blanks, which Spark removes"),
        (r'conf: {spark.own: "a\0b"}', "spark.conf.spark.own: contains a NUL character"),
        ("conf: {spark.submit.deployMode: cluster}", f"spark.conf.spark.submit.deployMode: must be `client`: {WHY}"),
    ],
)
def test_what_spark_submit_would_refuse_is_refused(problems: Problems, keys: str, sentence: str) -> None:
    [problem] = problems(f"jobs: {{j: {{spark: {{application: /a.py, {keys}}}}}}}")
    assert f"jobs.j.{sentence}" in problem


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, r"spark.properties_file: there is no such file"),
        (b"spark.submit.deployMode cluster", WHY),
        (b"spark.a=C:\\users", r"spark.properties_file: holds `\\u` without four hexadecimal digits"),
        (rb"spark.a=\ud800", r"holds half of a character"),
        (rb"spark.a=\u0001a", r"begins or ends with blanks, which Spark removes"),
        (b"spark.a=\xff", r"spark.properties_file: is not UTF-8 text; save it as UTF-8"),
    ],
)
def test_a_check_reads_the_properties_file(
    write: Write, vocabulary: Vocabulary, tmp_path: Path, text: bytes | None, sentence: str
) -> None:
    (tmp_path / "a.py").touch()
    if text is not None:
        (tmp_path / "spark.conf").write_bytes(text)
    file = write("jobs: {j: {spark: {application: a.py, properties_file: spark.conf}}}")
    assert load(file, vocabulary, {})
    with pytest.raises(Exception, match=sentence):
        load(file, vocabulary, {}, with_files=True)


def test_arguments_may_be_templates(load_text: Load) -> None:
    args = (
        "{{ run_id }}",
        "--key={{ triggering_asset_events.orders[-1].extra.key }}",
        "{% for event in triggering_asset_events['a.b'] %}{{ event.id }},{% endfor %}",
        "{{ conf.x | default('none') }} {{ logical_date.date() if logical_date }} {{ range(try_number) | list }}",
        "{ no template }",
    )
    written = ", ".join(f"'{arg.replace(chr(39), chr(39) * 2)}'" for arg in args)
    assert spark_of(load_text, f"args: [{written}]").args == args


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        (
            "{{ run_id",
            "is not a valid Jinja2 template: unexpected end of template, expected 'end of print statement'",
        ),
        ("{% if %}", "is not a valid Jinja2 template: Expected an expression, got 'end of statement block'"),
        ("{{ runid }}", "uses `runid`, which templates here do not have; did you mean `run_id`?"),
        ("{{ conf.x | shout }}", "is not a valid Jinja2 template: No filter named 'shout'"),
        ("{{ [1, 2] | random }}", "is not a valid Jinja2 template: No filter named 'random'"),
        ("{% include 'x' %}", "is a template that includes another; write it out"),
        ("{{ lipsum() }}", "uses `lipsum`, which templates here do not have; "),
    ],
)
def test_a_mistake_in_a_template_is_reported_before_anything_runs(
    problems: Problems, argument: str, sentence: str
) -> None:
    escaped = argument.replace("'", "''")
    [problem] = problems(f"jobs: {{j: {{spark: {{application: /a.py, args: [x, '{escaped}']}}}}}}")
    assert f"jobs.j.spark.args[1]: {sentence}" in problem


@pytest.mark.parametrize("key", ["driver_memory", "executor_memory"])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *(("2", "2g"), ("'2'", "2g"), ("2gb", "2g"), ("2 GiB", "2g"), ("2Gi", "2g"), ("2.0", "2g")),
        *(
            ("512", "512m"),
            ("2048", "2048m"),
            ("1.5g", "1536m"),
            ("0.5g", "512m"),
            ("512MB", "512m"),
            ("2097152", "2097152k"),
        ),
    ],
)
def test_an_amount_of_memory_in_another_spelling_is_named_with_its_unit(
    problems: Problems, key: str, written: str, meant: str
) -> None:
    [problem] = problems(f"jobs: {{j: {{spark: {{application: /a.py, {key}: {written}}}}}}}")
    assert problem.endswith(f"a whole number and its unit: write `{meant}`")
