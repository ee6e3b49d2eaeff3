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

from config.models.kubernetes import DriverPod
from tests.stand_in_kubernetes import TOKEN, StandInKubernetes, stand_in_kubernetes
from tests.unit.submit.kubernetes_pods import write_kubeconfig
from tests.unit.submit.plain import make_submission
from watcher.cli.app import app
from watcher.submit.kubernetes import manifest
from watcher.submit.kubernetes.manifest import DriverCommand, Place


def forget(configuration: Path, *words: str) -> Any:
    done = CliRunner().invoke(app, ["kubernetes", "forget", "--config", str(configuration), "--json", *words])
    return json.loads(done.output) if done.exit_code == 0 else done.output


def start(kubernetes: StandInKubernetes, installation: str, task: str) -> None:
    submission, place = make_submission(task, Path("/x.py")), Place(namespace="spark", installation=installation)
    command = DriverCommand(argv=["x"], environment={})
    kubernetes.create("spark", "secrets", manifest.secret(submission, place, command, {}))
    kubernetes.create("spark", "pods", manifest.pod(submission, place, DriverPod(image="x")))


def test_a_namespace_is_left_clean_but_for_what_another_installation_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "watchers.yaml"
    configuration.write_text(
        "version: 1\nsettings: {home: home, kubernetes: {context: test, namespace: spark}}\njobs: {}\n"
    )
    with stand_in_kubernetes() as kubernetes:
        monkeypatch.setenv("KUBECONFIG", str(write_kubeconfig(tmp_path, kubernetes.address)))
        assert forget(configuration, "--all") == {"removed": 0}
        with closing(sqlite3.connect(tmp_path / "home" / "watcher.db")) as database:
            [(installation,)] = database.execute("SELECT value FROM setting WHERE key = 'instance'").fetchall()
        for task in ("1", "2"):
            start(kubernetes, installation, task)
        start(kubernetes, "another", "3")
        assert "give --all" in str(forget(configuration))
        assert forget(configuration, "--all") == {"removed": 2}
        headers = {"Authorization": f"Bearer {TOKEN}"}
        for kind in ("pods", "secrets"):
            url = f"{kubernetes.address}/api/v1/namespaces/spark/{kind}"
            [left] = httpx.get(url, headers=headers).json()["items"]
            assert left["metadata"]["labels"]["asset-watcher/installation"] == "another"
