"""Earlier versions, run from the project's history with this machine's packages, and the work that they are given.

`python -m tests.upgrade.releases 0.2.0` makes the databases in the folder `0.2.0` again: what that version had written when it
was killed in the middle of its work.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.arrivals import arrive
from tests.effort import PATIENCE
from tests.forks import Forked
from tests.servers import running_postgres
from tests.stand_in_spark import stand_in_spark
from tests.torture.daemons import Program, until
from watcher.shared.servers import free_port, postgres_wheel

ROOT = Path(__file__).parents[2]
PACKAGES = ("config", "store", "triggers", "watcher")
SLOW = """
import time
from pathlib import Path
from asset_job import run

with run() as r:
    r.asset_store["slow"].set("began", r.run_id)
    r.task_store.set("began", True)
    Path("BEGAN").touch()
    while not Path("GO").exists():
        time.sleep(0.1)
    r.asset_store["slow"].set("numbers", len(r.triggering_asset_events["numbers"]))
    r.outlet_events["slow"].extra = {"done": True}
"""
NOBODY = {"base_url": "http://127.0.0.1:9", "token": "a-token"}
"""An Airflow that does not answer."""
LOAD = """
from asset_job import run

with run() as r:
    names = sorted(file["path"].rpartition("/")[2] for file in r.triggering_asset_events.files())
    r.asset_store["loaded"].set(r.run_id, names)
"""


@dataclass(frozen=True, kw_only=True)
class Release:
    """A version whose databases this program upgrades."""

    name: str
    """The folder of its databases."""
    commit: str
    folders: tuple[str, ...] = (*PACKAGES, "sdk")
    has_aliases: bool = True
    """It knows aliases and a neighbouring Airflow."""
    has_partitions: bool = True
    """It knows partitions, several assets of a watcher, cleaning and replays."""

    def __str__(self) -> str:
        return self.name

    def packages(self, folder: Path) -> Path:
        """Extract its packages into `folder`, for PYTHONPATH. Raises CalledProcessError where the history does not reach so far."""
        words = ["git", "archive", self.commit, *self.folders]
        archive = subprocess.run(words, cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "--extract"], cwd=folder, input=archive, check=True)
        return folder

    def dump(self, database: str) -> Path:
        """Return the file of its database, `sqlite` or `postgresql`, as SQL."""
        return Path(__file__).parent / self.name / f"{database}.sql"


FIRST = Release(
    name="0.1.0",
    commit="51940f1c58d0c42b46d2e45db2c8279043f9a56d",
    folders=PACKAGES,
    has_aliases=False,
    has_partitions=False,
)
RELEASES = (
    FIRST,
    Release(name="0.2.0", commit="e7875fca2a24feea04f75b30a123c9a39416c5ef", has_partitions=False),
    Release(
        name="0038", commit="032e2bf1cfeaf6a6b9e489d418af9d1efa9f543b"
    ),  # the last with the migrations 0018 to 0038
)


@dataclass(kw_only=True)
class World:
    """One home, one database and one configuration, which a release and this program use one after the other."""

    folder: Path
    database: str | None
    release: Release = FIRST
    port: int = field(default_factory=free_port)

    def __post_init__(self) -> None:
        self.inbox = self.folder / "inbox"
        self.inbox.mkdir()
        self.begun, self.go = self.folder / "begun", self.folder / "go"
        spark = {"env": {"SPARK_HOME": str(stand_in_spark(self.folder))}}
        for name, text in (
            ("slow", SLOW.replace("BEGAN", str(self.begun)).replace("GO", str(self.go))),
            ("load", LOAD),
        ):
            (self.folder / f"{name}.py").write_text(text)
        often = {"interval": "200ms", "start": "all"}
        files = {"trigger": "file.new_files", "path": str(self.inbox), "min_age": "0s", **often}
        numbers = {**files, "path": str(self.folder / "numbers")}
        (self.folder / "numbers").mkdir()
        document: dict[str, Any] = {
            "version": 1,
            "settings": {
                "home": str(self.folder / "home"),
                "database": {"url": self.database},
                "api": {"port": self.port, "auth": "none"},
                "triggerer": {"heartbeat": "500ms", "lease": "5s"},
            },
            "assets": {
                "inbox": {"watchers": {"inbox_files": files}},
                "numbers": {"watchers": {"number_files": numbers}},
                "loaded": {},
                "slow": {},
                "all": {},
            },
            "jobs": {
                "load": {"schedule": "inbox", "outlets": ["loaded"], "spark": {"application": "load.py", **spark}},
                "held": {"schedule": "inbox", "outlets": ["loaded"], "spark": {"application": "load.py", **spark}},
                "slow": {"schedule": "numbers", "outlets": ["slow"], "spark": {"application": "slow.py", **spark}},
                "both": {
                    "schedule": {"all": ["inbox", "slow"]},
                    "outlets": ["loaded"],
                    "spark": {"application": "load.py", **spark},
                },
            },
        }
        if self.release.has_aliases:
            document["aliases"] = {"parts": {}}
            document["settings"]["airflow"] = {**NOBODY, "forward": {"loaded": "theirs"}}
            document["jobs"]["aliased"] = {
                "schedule": {"any": ["inbox", {"alias": "parts"}]},
                "paused": True,
                "spark": {"application": "load.py", **spark},
            }
        if self.release.has_partitions:
            document["assets"]["days"] = {
                "watchers": {
                    "day_files": {
                        **files,
                        "path": str(self.folder / "days"),
                        "partition": {"day": "dt={}", "region": "region={}"},
                        "assets": {"notes": "**/*.txt"},
                        "clean_source": {"delete": True, "after": "7d"},
                    }
                }
            }
            document["assets"]["notes"] = {}
            document["jobs"]["daily"] = {
                "schedule": "days",
                "outlets": ["loaded"],
                "batch": {"mode": "per_partition", "by": "day", "complete": {"region": ["eu", "us"]}},
                "spark": {"application": "load.py", **spark},
            }
            (self.folder / "days").mkdir()
        (self.folder / "watchers.yaml").write_text(json.dumps(document))

    @contextmanager
    def running(self, *words: str, packages: Path | None = None) -> Iterator[httpx.Client]:
        """Run a release, from these packages or from this checkout, and yield a client. It is killed at the end of the block."""
        words = ("run", "-c", str(self.folder / "watchers.yaml"), *words)
        process: Program
        with (self.folder / "daemon.log").open("ab") as log:
            if packages is None:
                process = Forked(words, output=log, environment=os.environ)
            else:
                environment = {**os.environ, "PYTHONPATH": f"{packages}{os.pathsep}{packages / 'sdk'}"}
                command = [sys.executable, "-m", "watcher", *words]
                process = subprocess.Popen(
                    command, cwd=packages, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
                )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE) as client:
                until(lambda: self._is_ready(process, client))
                yield client
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def _is_ready(self, process: Program, client: httpx.Client) -> bool:
        assert process.poll() is None, (self.folder / "daemon.log").read_text()[-4_000:]
        try:
            return client.get("/readyz").is_success
        except httpx.TransportError:
            return False

    def put(self, name: str, folder: str = "inbox") -> None:
        (self.folder / folder).mkdir(parents=True, exist_ok=True)
        arrive(self.folder / folder / f"{name}.csv", f"id\n{name}\n")

    def work(self, api: httpx.Client) -> None:
        """Do the work: two files, a job that loaded each, a paused job, a job that waits for a second asset, and a working driver.

        A release that knows partitions also has one of two days complete, and a replay of events that were taken off a queue.
        """
        api.patch("/api/v2/dags/held", json={"is_paused": True}).raise_for_status()
        for name in ("a", "b"):
            before = len(runs(api, "load", "success"))
            self.put(name)
            until(lambda before=before: len(runs(api, "load", "success")) > before)
        if self.release.has_partitions:
            self._work_with_partitions(api)
        self.put("one", "numbers")
        until(self.begun.exists)
        until(lambda: entries(api, "slow").get("began"))

    def _work_with_partitions(self, api: httpx.Client) -> None:
        for name, place in (("d", "dt=1/region=eu"), ("e", "dt=1/region=us"), ("f", "dt=2/region=eu")):
            self.put(name, f"days/{place}")
        until(lambda: runs(api, "daily", "success"))
        until(lambda: told(api, "days") == ["d.csv", "e.csv", "f.csv"])
        api.delete("/api/v2/dags/aliased/assets/queuedEvents").raise_for_status()
        body = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z", "include_dropped": True}
        preview = api.post("/api/v2/dags/aliased/replay", json=body).raise_for_status().json()
        body |= {"dry_run": False, "expected_count": preview["expected_count"]}
        api.post("/api/v2/dags/aliased/replay", json=body).raise_for_status()
        until(lambda: queued(api, "aliased"))
        api.delete("/api/v2/dags/aliased/assets/queuedEvents").raise_for_status()


def queued(api: httpx.Client, dag_id: str) -> list[dict[str, Any]]:
    listed = api.get(f"/api/v2/dags/{dag_id}/assets/queuedEvents").raise_for_status().json()
    return list(listed["queued_events"])


def runs(api: httpx.Client, dag_id: str, state: str = "") -> list[dict[str, Any]]:
    listed = api.get(f"/api/v2/dags/{dag_id}/dagRuns").raise_for_status().json()["dag_runs"]
    return [run for run in listed if run["state"] == (state or run["state"])]


def entries(api: httpx.Client, asset: str) -> dict[str, Any]:
    """Return the stored entries of an asset, by key."""
    assets = {row["name"]: row["id"] for row in api.get("/api/v2/assets").raise_for_status().json()["assets"]}
    listed = api.get(f"/api/v2/assets/{assets[asset]}/store").raise_for_status().json()["asset_store"]
    return {entry["key"]: entry["value"] for entry in listed}


def told(api: httpx.Client, asset: str) -> list[str]:
    """Return the names of all emitted files of an asset, once for each event."""
    listed = api.get("/api/v2/assets/events", params={"name_pattern": asset, "limit": 1000}).raise_for_status().json()
    return sorted(Path(file["path"]).name for event in listed["asset_events"] for file in event["extra"]["files"])


def versions(api: httpx.Client) -> dict[str, int]:
    return {row["name"]: row["position_version"] for row in api.get("/api/v2/watchers").json()["watchers"]}


FOLDER = "/the/folder"
"""Replaces the folder's path in the dumps."""


def main() -> None:
    """Write what each release that is named leaves in both kinds of database when it is killed while a driver works."""
    for release in RELEASES:
        if release.name in sys.argv[1:]:
            _write_dumps(release)


def _write_dumps(release: Release) -> None:
    with tempfile.TemporaryDirectory(prefix="watcher-release-") as name:
        folder = Path(name)
        packages = release.packages(_made(folder / "packages"))
        embedded = World(folder=_made(folder / "sqlite"), database=None, release=release)
        _work(embedded, packages)
        with closing(sqlite3.connect(embedded.folder / "home" / "watcher.db")) as connection:
            _write("sqlite", "\n".join(connection.iterdump()), embedded)
        with running_postgres() as server, server.database() as database:
            world = World(folder=_made(folder / "postgresql"), database=database.sqlalchemy_url, release=release)
            _work(world, packages)
            _write("postgresql", dumped(database.dsn), world)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _work(world: World, packages: Path) -> None:
    with world.running("--upgrade", packages=packages) as api:
        world.work(api)
    world.go.touch()  # so that its driver ends


def dumped(dsn: str, *options: str) -> str:
    """Return a dump as statements that any client can run."""
    program = Path(str(postgres_wheel().__file__)).parent / "pginstall18" / "bin" / "pg_dump"
    words = [program, "--inserts", "--no-owner", "--no-privileges", *options, f"--dbname={dsn}"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return "\n".join(line for line in text.splitlines() if line and not line.startswith(("--", "\\")))


def _write(database: str, text: str, world: World) -> None:
    file = world.release.dump(database)
    file.parent.mkdir(exist_ok=True)
    file.write_text(text.replace(str(world.folder), FOLDER) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
