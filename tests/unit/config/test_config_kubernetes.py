"""Jobs whose drivers run as pods: the settings that they need, and the keys that a pod could not honour."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from config.errors import ConfigurationInvalid
from config.features.publishing.json_schema import json_schema
from config.reading.loader import load
from watcher.configuration.vocabulary import vocabulary

SETTINGS = 'settings: {kubernetes: {in_cluster: true, namespace: spark, api_url: "http://watcher:8795"}}'
JOB = "jobs: {load: {spark: {application: job.py, submitter: kubernetes, %s}}}"
POD = "kubernetes: {image: x}"


def problems(folder: Path, *sections: str) -> list[str]:
    file = folder / "watchers.yaml"
    file.write_text("\n".join(("version: 1", *sections)))
    try:
        load(file, vocabulary(), {})
    except ConfigurationInvalid as error:
        return [f"{problem}" for problem in error.problems]
    return []


def test_a_job_with_an_image_and_a_cluster_is_valid_for_editors_too(tmp_path: Path) -> None:
    assert problems(tmp_path, SETTINGS, JOB % POD) == []
    validator = Draft202012Validator(json_schema(vocabulary()))
    text = f"version: 1\n{SETTINGS}\n{JOB}"
    assert list(validator.iter_errors(YAML(typ="safe").load(text % POD))) == []
    assert list(validator.iter_errors(YAML(typ="safe").load(text % "kubernetes: {imagge: x}")))
    assert list(validator.iter_errors(YAML(typ="safe").load(text % "warm: 0")))


@pytest.mark.parametrize(
    ("settings", "keys", "sentence"),
    [
        (SETTINGS, "warm: 0", "kubernetes: is missing"),
        (SETTINGS, f"{POD}, driver_memory: 2g", "driver_memory: is the rest of"),
        (SETTINGS, f"{POD}, master: yarn", "master: is set for each pod"),
        (SETTINGS, "executor_memory: 1g, kubernetes: {image: x, executor: {}}", "executor_memory: is the rest of"),
        (SETTINGS, f"{POD}, conf: {{spark.driver.host: x}}", "spark.driver.host"),
        ("settings: {}", POD, "needs settings.kubernetes"),
        ("settings: {kubernetes: {in_cluster: true, namespace: spark}}", POD, "settings.kubernetes.api_url"),
        ("settings: {kubernetes: {namespace: spark}}", "warm: 0, " + POD, "needs either a `context` or"),
        (
            "settings: {kubernetes: {in_cluster: true, context: a, namespace: spark}}",
            POD,
            "needs either a `context` or",
        ),
        ("settings: {kubernetes: {in_cluster: true, namespace: Spark}}", POD, "name of a namespace"),
    ],
)
def test_what_is_missing_or_could_not_be_honoured_is_refused(
    tmp_path: Path, settings: str, keys: str, sentence: str
) -> None:
    [problem] = problems(tmp_path, settings, JOB % keys)
    assert sentence in problem
