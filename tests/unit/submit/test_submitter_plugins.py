"""Submitters by third parties: a dotted path on plugins_dir is enough."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from config.errors import ConfigurationInvalid
from config.models import Configuration, SparkParameters
from config.reading.loader import load
from tests.features import DECLARATIONS
from watcher.configuration.declarations import declared, jobs_to_start, submitters, workspace
from watcher.configuration.vocabulary import vocabulary
from watcher.errors import StartRefused
from watcher.submit.base import Addresses, Needs, NoOptions, SubmitError
from watcher.submit.spark_submit import SparkSubmit

PLUGINS = Path(__file__).parents[2] / "plugins"
CONFIGURATION = """
version: 1
settings: {plugins_dir: %s, home: home}
jobs:
  usual: {spark: {application: job.py}}
  remote: {spark: {application: job.py, submitter: %s, %s}}
"""


def configuration(tmp_path: Path, submitter: str, options: str = "", plugins: Path = PLUGINS) -> Configuration:
    file = tmp_path / "watchers.yaml"
    file.write_text(CONFIGURATION % (plugins, submitter, options))
    return load(file, vocabulary(), os.environ)


def test_a_dotted_path_is_enough(tmp_path: Path) -> None:
    loaded = configuration(tmp_path, "remote_cluster.RemoteCluster", "queue: etl")
    by_name = submitters(loaded, workspace(loaded, tmp_path / "home"))
    assert by_name.keys() == {"spark-submit", "remote_cluster.RemoteCluster"}
    assert isinstance(by_name["spark-submit"], SparkSubmit)
    job = jobs_to_start(loaded)["remote"]
    assert (job.submitter, job.application.options.model_dump()) == ("remote_cluster.RemoteCluster", {"queue": "etl"})
    remote = by_name[job.submitter]
    assert remote.needs(job.application) == Needs(memory_mb=None)
    assert remote.workspace.home == tmp_path / "home"
    with pytest.raises(SubmitError, match=r"settings.api.base_url"):
        remote.api_url(Addresses(local="http://127.0.0.1:1", public=None))
    definitions = {job.dag_id: job.definition for job in declared(loaded, DECLARATIONS).jobs}
    assert definitions["remote"].submitter == "remote_cluster.RemoteCluster"
    assert definitions["usual"].submitter == "spark-submit"


KEYS = {
    "application": "/jobs/load.py",
    "master": "spark://host:7077",
    "profile": "large",
    "driver_memory": "1g",
    "executor_memory": "2g",
    "executor_cores": 2,
    "num_executors": 3,
    "dynamic_allocation": {"min": 1, "max": None},
    "conf": {"spark.sql.shuffle.partitions": "2"},
    "packages": ["g:a:1"],
    "jars": ["/a.jar"],
    "py_files": ["/own.py"],
    "files": ["/a.csv"],
    "archives": ["/env.tar.gz#env"],
    "properties_file": "/spark.conf",
    "args": ["--run={{ run_id }}"],
    "python": "/usr/bin/python3",
}


def test_a_submitter_is_given_every_key_of_the_spark_section(tmp_path: Path) -> None:
    assert KEYS.keys() == SparkParameters.model_fields.keys()
    file = tmp_path / "watchers.yaml"
    file.write_text(json.dumps({"version": 1, "jobs": {"load": {"spark": {**KEYS, "env": {"TOKEN": "s3cret"}}}}}))
    application = jobs_to_start(load(file, vocabulary(), os.environ))["load"].application
    assert json.loads(application.model_dump_json(include=KEYS.keys())) == KEYS
    assert application.env == {"TOKEN": "s3cret"}
    assert application.options == NoOptions()


@pytest.mark.feature("warm")
def test_only_spark_submit_has_warm_drivers(tmp_path: Path) -> None:
    by_name = submitters(loaded := configuration(tmp_path, "remote_cluster.RemoteCluster"), workspace(loaded, tmp_path))
    assert [name for name, submitter in by_name.items() if submitter.warm is not None] == ["spark-submit"]


PLUGIN = """
from watcher.submit.base import Submitter

class Half(Submitter):
    ends_with_home = True
    async def submit(self, submission): ...

class Whole(Half):
    async def attach(self, key, tag, handle): ...
    async def poll(self, handle): ...
    async def cancel(self, handle, grace): ...
    def logs(self, handle, offset): ...
    def needs(self, application): ...
    def api_url(self, addresses): ...

class Undecided(Whole):
    ends_with_home = None

class Failing(Whole):
    def __init__(self, workspace):
        raise RuntimeError("no cluster")

Nothing = 3
"""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("Half", "does not define `api_url`, `attach`, `cancel`, `logs`, `needs`, `poll`; add it to the class"),
        ("Undecided", "does not define `ends_with_home`, True or False; add it to the class"),
        ("Nothing", "is not a subclass of watcher.submit.base.Submitter"),
        ("Missing", "is not a subclass of watcher.submit.base.Submitter"),
    ],
)
def test_an_invalid_submitter_is_refused_with_what_it_lacks(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "half_made.py").write_text(PLUGIN)
    with pytest.raises(ConfigurationInvalid) as raised:
        configuration(tmp_path, f"half_made.{name}", plugins=tmp_path)
    assert f"`half_made.{name}` {sentence}" in str(raised.value)


def test_a_submitter_that_cannot_be_made_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / "failing_one.py").write_text(PLUGIN)
    loaded = configuration(tmp_path, "failing_one.Failing", plugins=tmp_path)
    with pytest.raises(StartRefused, match=r"the submitter failing_one.Failing cannot be made \(no cluster\)"):
        submitters(loaded, workspace(loaded, tmp_path))
