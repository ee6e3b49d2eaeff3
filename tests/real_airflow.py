"""A real Airflow in an environment of its own: API server, scheduler and Dag processor on a PostgreSQL, as child processes.

AIRFLOW_PYTHON names its Python, as `tools/airflow` prints it.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import loopback
from tests.effort import PATIENCE
from tests.servers import PostgresServer
from watcher.shared.servers import free_port

PYTHON = os.environ.get("AIRFLOW_PYTHON", "")
needs_airflow = pytest.mark.skipif(
    not PYTHON, reason="AIRFLOW_PYTHON names no Python with Airflow: tools/airflow makes one"
)
USER, PASSWORD = "watcher", "pass-word"


@dataclass
class Airflow:
    url: str
    folder: Path
    environment: Mapping[str, str]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start one of Airflow's programs, in a session of its own because it has children."""
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [PYTHON, "-m", "airflow", name],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    def stop(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes.pop(name)
        os.killpg(process.pid, number)
        process.wait(60)

    def client(self) -> httpx.Client:
        """Return a client that is signed in."""
        with httpx.Client(base_url=self.url, timeout=60) as client:
            answer = client.post("/auth/token", json={"username": USER, "password": PASSWORD})
            token = answer.raise_for_status().json()["access_token"]
        return httpx.Client(base_url=self.url, timeout=60, headers={"Authorization": f"Bearer {token}"})

    def await_ready(self, *dag_ids: str) -> None:
        """Wait until Airflow answers, schedules, and knows these Dags."""
        self._until("answer", lambda: loopback.get(f"{self.url}/api/v2/monitor/health", timeout=10).is_success)
        with self.client() as client:
            for dag_id in dag_ids:
                path = f"/api/v2/dags/{dag_id}"
                self._until(f"know the Dag {dag_id}", lambda path=path: client.get(path).is_success)

    def _until(self, what: str, condition: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            for name, process in self.processes.items():
                if process.poll() is not None:
                    last = (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]
                    raise RuntimeError(f"Airflow's {name} ended:\n{last}")
            try:
                if condition():
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < deadline, f"Airflow did not {what}: see the logs in {self.folder}"
            time.sleep(0.2)


@contextmanager
def running_airflow(folder: Path, postgres: PostgresServer, dags: Path) -> Iterator[Airflow]:
    """Run Airflow on free ports of the loopback, with the Dags of a folder."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        database = stack.enter_context(postgres.database())
        passwords = folder / "passwords.json"
        passwords.write_text(json.dumps({USER: PASSWORD}))
        options = {
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "2",
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGS_FOLDER": str(dags),
            "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(passwords),
            "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "CORE__FERNET_KEY": "",
            "DATABASE__SQL_ALCHEMY_CONN": postgres.sqlalchemy_url(database.name, driver="psycopg2"),
            "API__HOST": "127.0.0.1",
            "API__PORT": str(port),
            "API__WORKERS": "1",
            "API__SECRET_KEY": secrets.token_hex(16),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "86400",  # parsed once: they do not change, and each parsing takes seconds of CPU
            "DAG_PROCESSOR__PARSING_PROCESSES": "1",
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
            "WORKERS__EXECUTION_API_TIMEOUT": "60",  # for a busy machine
            "LOGGING__LOGGING_LEVEL": "WARNING",
        }
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "PYTHON"))},
            **{f"AIRFLOW__{name}": value for name, value in options.items()},
            "AIRFLOW_HOME": str(folder),
            "NO_PROXY": "127.0.0.1",
        }
        migrated = subprocess.run(
            [PYTHON, "-m", "airflow", "db", "migrate"], env=environment, capture_output=True, check=False, cwd=folder
        )
        assert migrated.returncode == 0, migrated.stderr.decode()[-3000:]
        airflow = Airflow(url=url, folder=folder, environment=environment)
        try:
            for name in ("api-server", "scheduler", "dag-processor"):
                airflow.start(name)
            yield airflow
        finally:
            for name in list(airflow.processes):
                airflow.stop(name)
