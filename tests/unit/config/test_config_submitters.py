from __future__ import annotations

import json
from typing import Any

import pytest

from config.features.publishing.json_schema import json_schema
from config.vocabulary import Vocabulary
from tests.unit.config.conftest import Load, Problems

JOB = "jobs: {load: {spark: {application: job.py, %s}}}"


def test_the_options_of_a_submitter_stand_among_the_keys_of_spark(load_text: Load) -> None:
    configuration = load_text(JOB % "submitter: lake.Cluster, queue: etl, master: yarn")
    assert configuration.jobs["load"].spark.submitter == "lake.Cluster"
    assert configuration.jobs["load"].spark.master == "yarn"
    assert configuration.submitter_options["load"].model_dump() == {"queue": "etl", "priority": 1}
    other = load_text(JOB % "submitter: lake.Cluster, queue: reports, master: yarn")
    assert other.hash != configuration.hash


def test_the_usual_submitter_has_no_options(load_text: Load) -> None:
    assert load_text(JOB % "submitter: spark-submit").submitter_options == {}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("submitter: lake.Cluster", "jobs.load.spark.queue: is missing"),
        ("submitter: lake.Cluster, queue: q, priority: 0", "jobs.load.spark.priority: must be at least 1"),
        ("submitter: lake.Cluster, queue: q, size: 3", "jobs.load.spark.size: is not a key here"),
        ("queue: q", "jobs.load.spark.queue: is not a key here"),
        ("submitter: spark-sumbit", "unknown submitter `spark-sumbit`; did you mean `spark-submit`?"),
        ("submitter: nowhere.Cluster, queue: q", "jobs.load.spark.submitter: unknown submitter `nowhere.Cluster`"),
        ("submitter: 3", "jobs.load.spark.submitter: must be text"),
    ],
)
def test_a_wrong_option_of_a_submitter_is_refused_at_its_place(problems: Problems, words: str, problem: str) -> None:
    (sentence,) = problems(JOB % words)
    assert problem in sentence


def test_editors_know_the_keys_of_the_usual_submitter_only(vocabulary: Vocabulary) -> None:
    spark: Any = json_schema(vocabulary)["$defs"]["SparkConfig"]
    assert "additionalProperties" not in spark
    (usual,) = [rule for rule in spark["allOf"] if "propertyNames" in rule["then"]]
    assert usual["if"] == {"properties": {"submitter": {"enum": ["spark-submit"]}}}
    assert set(usual["then"]["propertyNames"]["enum"]) == spark["properties"].keys()
    assert json.dumps(spark["properties"]["submitter"]).count("pattern") == 1
