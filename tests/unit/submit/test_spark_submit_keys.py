"""What spark-submit is given for a job's keys: its arguments, as a stand-in received them, and the properties file."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from config.models.spark import read_properties
from tests.contract.submitters import ended
from tests.stand_in_spark import stand_in_spark
from tests.unit.submit.plain import spark_submit, workspace
from watcher.submit.base import DynamicAllocation, Submission, SubmitError
from watcher.submit.spark_submit import SparkSubmit

NewTry = Callable[..., Submission]
Given = Callable[..., Any]


@pytest.fixture
def given(tmp_path: Path, new_try: NewTry) -> Given:
    """Returns the arguments that spark-submit gets for a job with these keys, and its properties."""
    spark = stand_in_spark(tmp_path)

    async def given(submitter: SparkSubmit | None = None, **keys: Any) -> tuple[list[str], dict[str, str]]:
        submitter = submitter or spark_submit(tmp_path)
        env = {"SPARK_HOME": str(spark), "SPARK_SUBMIT_ARGV": str(tmp_path / "argv.json")}
        submission = new_try("", env=env, **keys)
        status = await ended(submitter, await submitter.submit(submission))
        assert status.exit_code == 0, status.reason
        words = json.loads((tmp_path / "argv.json").read_text())
        file = Path(words[words.index("--properties-file") + 1])
        return words[: words.index(submission.application.application)], read_properties(file.read_text())

    return given


def after(option: str, words: list[str]) -> list[str]:
    return [following for word, following in pairwise(words) if word == option]


async def test_each_key_is_the_option_of_its_name(given: Given, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "env.tar.gz"):
        (tmp_path / name).touch()
    files, archives = (f"{tmp_path}/a.csv", f"{tmp_path}/b.csv#c.csv"), (f"{tmp_path}/env.tar.gz#env",)
    words, _ = await given(
        files=files, archives=archives, executor_memory="2g", executor_cores=2, num_executors=3, dynamic_allocation=True
    )
    assert after("--files", words) == [",".join(files)]
    assert after("--archives", words) == list(archives)
    assert after("--executor-memory", words) == ["2g"]
    assert after("--executor-cores", words) == ["2"]
    assert after("--num-executors", words) == ["3"]
    assert after("--conf", words) == ["spark.dynamicAllocation.enabled=true"]
    assert after("--deploy-mode", words) == ["client"]


async def test_keys_that_are_not_set_are_not_passed_on(given: Given) -> None:
    words, properties = await given()
    assert not {"--files", "--archives", "--executor-memory", "--executor-cores", "--num-executors", "--conf"} & {
        *words
    }
    assert not [name for name in properties if name.startswith("spark.eventLog")]


@pytest.mark.parametrize(
    ("bounds", "settings"),
    [
        (DynamicAllocation(min=1, max=4), ["enabled=true", "minExecutors=1", "maxExecutors=4"]),
        (DynamicAllocation(min=2), ["enabled=true", "minExecutors=2"]),
    ],
)
async def test_dynamic_allocation_has_bounds(given: Given, bounds: DynamicAllocation, settings: list[str]) -> None:
    words, _ = await given(dynamic_allocation=bounds)
    assert after("--conf", words) == [f"spark.dynamicAllocation.{setting}" for setting in settings]


async def test_conf_and_what_a_try_must_have_override_a_properties_file(given: Given, tmp_path: Path) -> None:
    file = tmp_path / "spark.conf"
    file.write_text("spark.a  of the file\nspark.b=of the file\nspark.ui.port 4040\nspark.redaction.regex=iban\n")
    _, properties = await given(properties_file=str(file), conf={"spark.b": "of the job"})
    assert (properties["spark.a"], properties["spark.b"], properties["spark.ui.port"]) == (
        "of the file",
        "of the job",
        "0",
    )
    assert properties["spark.redaction.regex"].endswith("|(?-i:iban)")


@pytest.mark.parametrize("option", ["files", "archives"])
async def test_a_missing_file_is_named_without_its_new_name(new_try: NewTry, tmp_path: Path, option: str) -> None:
    submission = new_try("", **{option: ("hdfs://n/x", "/nowhere/a.zip#a")})
    with pytest.raises(SubmitError, match=f"^/nowhere/a.zip does not exist: .* jobs.load_orders.spark.{option}$"):
        await spark_submit(tmp_path).submit(submission)


async def test_a_missing_properties_file_is_named(new_try: NewTry, tmp_path: Path) -> None:
    with pytest.raises(SubmitError, match=r"^/nowhere/spark.conf does not exist: .*spark.properties_file$"):
        await spark_submit(tmp_path).submit(new_try("", properties_file="/nowhere/spark.conf"))


async def test_spark_keeps_an_event_log_of_each_try_for_its_history_server(given: Given, tmp_path: Path) -> None:
    submitter = SparkSubmit(replace(workspace(tmp_path), event_logs=True))
    _, properties = await given(submitter)
    logs = tmp_path / "logs" / "spark-events"
    assert properties["spark.eventLog.enabled"] == "true"
    assert properties["spark.eventLog.dir"] == logs.as_uri()
    assert logs.is_dir()
    _, properties = await given(submitter, conf={"spark.eventLog.dir": "s3a://lake/events"})
    assert properties["spark.eventLog.dir"] == "s3a://lake/events"


async def test_the_driver_does_not_use_a_python_from_an_archive(given: Given) -> None:
    _, properties = await given(conf={"spark.pyspark.python": "./env/bin/python"})
    assert properties["spark.pyspark.python"] == "./env/bin/python"
    assert Path(properties["spark.pyspark.driver.python"]).is_absolute()
    own = {"spark.pyspark.python": "./env/bin/python", "spark.pyspark.driver.python": "/own"}
    assert (await given(conf=own))[1]["spark.pyspark.driver.python"] == "/own"
