"""`watcher kubernetes forget --all` removes what this database has in the namespace, and nothing of another one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from config.features.kubernetes.settings import DriverPod
from tests.service.kubernetes.conftest import RunningApi, namespace_of
from tests.unit.submit.kubernetes_pods import write_kubeconfig
from tests.unit.submit.plain import make_submission
from watcher.cli.app import app
from watcher.submit.kubernetes import manifest
from watcher.submit.kubernetes.manifest import DriverCommand, Place


def forget(configuration: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, ["kubernetes", "forget", "--config", str(configuration), "--json", *words])
    return json.loads(done.output) if done.exit_code == 0 else done.output


def start(api: httpx.Client, installation: str, task: str) -> None:
    submission, place = (
        make_submission(task, Path("/x.py")),
        Place(namespace=namespace_of(api), installation=installation),
    )
    command = DriverCommand(argv=["x"], environment={})
    api.post("/secrets", json=manifest.secret(submission, place, command, {})).raise_for_status()
    api.post("/pods", json=manifest.pod(submission, place, DriverPod(image="x"))).raise_for_status()


def test_a_namespace_is_left_clean_but_for_what_another_installation_has(
    running: RunningApi, api: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command has the rights of the daemon's account alone."""
    configuration, namespace = tmp_path / "watchers.yaml", namespace_of(api)
    configuration.write_text(
        f"version: 1\nsettings: {{home: home, kubernetes: {{context: test, namespace: {namespace}}}}}\njobs: {{}}\n"
    )
    authority = {} if running.authority is None else {"certificate-authority": str(running.authority)}
    kubeconfig = write_kubeconfig(tmp_path, running.address, running.daemon_token(namespace), **authority)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    assert forget(configuration, "--all") == {"removed": 0}
    with closing(sqlite3.connect(tmp_path / "home" / "watcher.db")) as database:
        [(installation,)] = database.execute("SELECT value FROM setting WHERE key = 'instance'").fetchall()
    for task in ("1", "2"):
        start(api, installation, task)
    start(api, "another", "3")
    assert "give --all" in str(forget(configuration))
    assert forget(configuration, "--all") == {"removed": 2}
    for kind in ("pods", "secrets"):
        [left] = api.get(f"/{kind}").json()["items"]
        assert left["metadata"]["labels"]["asset-watcher/installation"] == "another"
