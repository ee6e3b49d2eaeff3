"""Compares the daemon with a real Airflow on one machine: posts of asset events and writes of the store, in turns, in one run.

Airflow runs only its API server (one worker); the daemon runs completely. Each has a database of its own on one PostgreSQL, and
the clients share the cores. The target is ten times Airflow's rate.

`AIRFLOW_PYTHON=$(make -s airflow) python bench/api_airflow.py [--seconds 4] [--rounds 3]`
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import anyio
from api import CONFIGURATION, Measured, running

from store.database import Database, migrations
from store.processes import tokens
from watcher.shared.servers import free_port

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.real_airflow import PYTHON, Airflow, running_airflow
from tests.servers import running_postgres

DAG = """
from airflow.sdk import DAG, Asset
with DAG("load", schedule=[Asset("orders", uri="s3://bucket/orders")], is_paused_upon_creation=True):
    pass
"""
CLIENTS = (1, 8)


def of_airflow(airflow: Airflow) -> Measured:
    with airflow.client() as client:
        [asset] = client.get("/api/v2/assets").raise_for_status().json()["assets"]
        token = client.headers["Authorization"].removeprefix("Bearer ")
    return Measured(
        engine="Airflow",
        port=int(airflow.url.rpartition(":")[2]),
        token=token,
        asset_id=asset["id"],
        daemon=airflow.processes["api-server"].pid,
        postmaster=0,
    )


async def measure(url: str, theirs: Measured, folder: Path, seconds: float, rounds: int) -> None:
    (folder / "job.py").touch()
    file, port = folder / "watchers.yaml", free_port()
    file.write_text(CONFIGURATION.format(home=folder / "home", url=url, port=port))
    async with Database.open(url) as database:
        await migrations.upgrade(database)
        async with database.transaction() as connection:
            token = (await tokens.create(connection, "bench", "admin")).token
    rates = defaultdict[tuple[str, int, str], list[float]](list)
    async with running(file, "postgresql", port, url, token) as ours:
        for _ in range(rounds):
            for clients in CLIENTS:
                for one, store in ((ours, "store"), (theirs, "state-store")):
                    event = {"asset_id": one.asset_id, "extra": {"a": 1}}
                    path = f"/api/v2/assets/{one.asset_id}/{store}/k{{client}}"
                    rate = await one.report("POST event", "POST", "/api/v2/assets/events", clients, seconds, event)
                    rates["POST event", clients, one.engine].append(rate)
                    rate = await one.report("PUT store", "PUT", path, clients, seconds, {"value": {"rows": 42}})
                    rates["PUT store", clients, one.engine].append(rate)
    for what, clients, engine in rates:
        if engine != "Airflow":
            us, them = median(rates[what, clients, engine]), median(rates[what, clients, "Airflow"])
            print(f"{what}, {clients} clients: {us:.0f}/s, Airflow {them:.0f}/s: {us / them:.1f} times (bar 10)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not PYTHON:
        print("nothing to compare with: AIRFLOW_PYTHON names a Python with Airflow, as `make -s airflow` prints it")
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in ("dags", "airflow", "ours"):
            (folder / name).mkdir()
        (folder / "dags" / "load.py").write_text(DAG)
        postgres = stack.enter_context(running_postgres())
        airflow = stack.enter_context(running_airflow(folder / "airflow", postgres, folder / "dags"))
        airflow.await_ready("load")
        for name in ("scheduler", "dag-processor"):
            airflow.stop(name)
        theirs = of_airflow(airflow)
        database = stack.enter_context(postgres.database())
        url = postgres.sqlalchemy_url(database.name, driver="asyncpg")
        print(f"{os.cpu_count()} cores; others keep {os.getloadavg()[0]:.1f} of them busy")
        parts = (url, theirs, folder / "ours", options.seconds, options.rounds)
        anyio.run(measure, *parts, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    main()
