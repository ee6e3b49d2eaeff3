"""The project that `watcher init` writes works as it says: its test, its check, and the daemon with real Spark."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio
import httpx
import pytest

from tests.effort import PATIENCE
from watcher.features.demo.counting import get
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port
from watcher.submit.spark.command import SMALL

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def said(folder: Path, *words: str) -> str:
    """Run a command and return its output. Its JVMs live for seconds, so they skip the compiler that pays off after minutes."""
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": " ".join(SMALL)}
    program = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert program.returncode == 0, program.stdout + program.stderr
    return program.stdout


def test_the_tests_that_init_writes_pass_with_real_spark(tmp_path: Path) -> None:
    """One pytest runs the tests for files and for rows, and for each format, in one Spark session."""
    rows = "postgres://me@db/shop/public/parcels"
    sources = {"orders": "inbox", "parcels": rows, "of_delta": "inbox", "of_iceberg": rows}
    for name, source in sources.items():
        form = name.removeprefix("of_") if name.startswith("of_") else "parquet"
        words = ("--source", source, "--target", f"tables/{name}", "--format", form)
        said(tmp_path, "watcher", "init", name, *words)
    tests = [f"{name}/tests" for name in sources]
    assert "4 passed" in said(tmp_path, "pytest", "-q", "-p", "no:cacheprovider", *tests)


async def test_a_file_in_the_source_becomes_rows_in_the_target(tmp_path: Path) -> None:
    said(tmp_path, "watcher", "init", "project", "--source", "inbox", "--target", "tables/orders")
    project, inbox = tmp_path / "project", tmp_path / "inbox"
    inbox.mkdir()
    said(project, "watcher", "check", "--connect")
    (inbox / "monday.json").write_text('{"id": 1, "amount": 2.5}\n{"id": 2, "amount": 3}\n')
    port = free_port()
    environment = {
        **os.environ,
        "WATCHER_SETTINGS__API__PORT": str(port),
        "WATCHER_SETTINGS__API__AUTH": "none",
    }
    async with (
        running_daemon(project / "watchers.yaml", f"http://127.0.0.1:{port}", environment) as daemon,
        httpx.AsyncClient(base_url=daemon.url) as client,
    ):
        with anyio.fail_after(PATIENCE):
            while True:
                runs = (await get(client, "/api/v2/dags/load_orders/dagRuns"))["dag_runs"]
                if runs and runs[0]["state"] in {"success", "failed"}:
                    break
                await anyio.sleep(0.2)
        assert runs[0]["state"] == "success", runs
        [event] = (await get(client, "/api/v2/assets/events", source_dag_id="load_orders"))["asset_events"]
        assert event["extra"] == {"row_count": 2}
    assert list((tmp_path / "tables" / "orders").glob("run=*/*.parquet"))
