"""A submitter of a third party gets settings, a check at the start and commands by a feature, as docs/writing-a-submitter.md shows."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from config.errors import ConfigurationInvalid
from config.models import Configuration
from config.reading.loader import load
from tests.elsewhere import add_feature
from tests.pages import ROOT
from watcher import installed as module
from watcher.cli.program import program
from watcher.configuration.declarations import submitters, workspace
from watcher.configuration.vocabulary import vocabulary
from watcher.errors import StartRefused
from watcher.installed import installed

pytestmark = pytest.mark.feature("commands", "spark_submit")
[SHOWN] = re.findall(
    r"^```python\n(.*?)^```", (ROOT / "docs/writing-a-submitter.md").read_text(), re.MULTILINE | re.DOTALL
)
URL = "https://cluster.example"


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's feature, installed, and a configuration that uses it. The submitter below it is that of tests/plugins."""
    before = {*sys.modules}
    (tmp_path / "my_cluster.py").write_text(
        (ROOT / "tests/plugins/remote_cluster.py").read_text().replace("RemoteCluster", "ClusterSubmitter")
    )
    add_feature(tmp_path, "cluster", SHOWN, module="cluster_feature")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "watchers.yaml"
    file.write_text(
        f"version: 1\nsettings: {{features: [cluster], cluster: {{url: '{URL}'}}}}\n"
        "jobs: {load: {spark: {application: load.py, submitter: cluster_feature.Submitter, queue: etl}}}\n"
    )
    yield file
    for name in {"my_cluster", "cluster_feature"} & ({*sys.modules} - before):
        del sys.modules[name]
    module.installed.cache_clear()
    module._known_settings.cache_clear()


def loaded(file: Path) -> Configuration:
    return load(file, vocabulary(), {})


def test_its_workspace_has_its_section_of_the_settings(configured: Path, tmp_path: Path) -> None:
    configuration = loaded(configured)
    submitter: Any = submitters(configuration, workspace(configuration, tmp_path))["cluster_feature.Submitter"]
    assert submitter.cluster.url == URL


def test_a_wrong_key_of_its_section_is_refused_with_its_place(configured: Path) -> None:
    configured.write_text(configured.read_text().replace("url:", "uri:"))
    with pytest.raises(ConfigurationInvalid, match=r"watchers\.yaml:2: settings\.cluster\.uri: "):
        loaded(configured)


async def test_its_check_refuses_a_start(configured: Path) -> None:
    settings = loaded(configured).settings
    check = installed(settings.features).configured(settings).resolved("start_check")["cluster"]
    with pytest.raises(StartRefused, match="CLUSTER_TOKEN is not set; set it"):
        await check(None, settings, {})
    await check(None, settings, {"CLUSTER_TOKEN": "secret"})


@pytest.mark.usefixtures("configured")
def test_its_commands_are_those_of_the_program() -> None:
    words = ["cluster", "address"]
    done = CliRunner().invoke(program(words), words)
    assert (done.exit_code, done.stdout.strip()) == (0, URL), done.exception
