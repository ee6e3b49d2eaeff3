"""The daemon is killed, answers get lost and a stand-in for Airflow restarts, again and again: what is lost or repeated.

WATCHER_TEST_LONG=1 kills the daemon 100 times on each database.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from string import Template

import anyio
import pytest
from sqlalchemy import select

from store.database import Database, sqlite_url
from store.database.schema import asset, asset_event
from store.features.outbox.tables import outbox
from tests.arrivals import arrive
from tests.effort import LONG, PATIENCE, SEED, effort
from tests.servers import running_postgres
from tests.stand_in_airflow import Fault, StandInAirflow, stand_in_airflow
from watcher.features.demo.daemon import running_daemon
from watcher.shared.servers import free_port

pytestmark = [pytest.mark.service, pytest.mark.slow]
KILLS = effort(4, 100)
FAULTS: tuple[Fault, ...] = ("lost before", "lost after", "503 before", "503 after")
CONFIGURATION = Template("""\
version: 1
settings:
  home: home
  database: {url: "$database"}
  api: {port: $port, auth: none}
  airflow:
    {base_url: $airflow, token: secret-token, timeout: 500ms, poll_interval: 100ms,
     forward: {inbox: their_orders}, listen: {their_orders: theirs}}
assets:
  inbox:
    uri: "file://$inbox"
    watchers:
      inbox_files: {trigger: file.new_files, interval: 200ms, start: all, min_age: 0s, batch: {max_files: 1}}
  theirs: {}
""")


@contextmanager
def address(dialect: str, folder: Path) -> Iterator[str]:
    if dialect == "sqlite":
        yield str(sqlite_url(folder / "home" / "watcher.db"))
    else:
        with running_postgres(fsync="off") as server, server.database() as database:
            yield database.sqlalchemy_url


async def extras(database: Database, name: str) -> list[dict[str, object]]:
    query = select(asset_event.c.extra).join(asset, asset.c.id == asset_event.c.asset_id).where(asset.c.name == name)
    async with database.reading() as connection:
        return [json.loads(extra) for extra in (await connection.execute(query)).scalars()]


async def settled(database: Database, files: int, foreign: int) -> None:
    with anyio.fail_after(PATIENCE):
        while True:
            async with database.reading() as connection:
                owed = (await connection.execute(select(outbox.c.id))).all()
            told, heard = await extras(database, "inbox"), await extras(database, "theirs")
            if not owed and len(told) >= files and len(heard) >= foreign:
                return
            await anyio.sleep(0.2)


@pytest.mark.skipif(not LONG, reason="WATCHER_TEST_LONG: e2e/test_real_airflow.py is the short form")
@pytest.mark.parametrize("dialect", ["postgresql", "sqlite"])
async def test_kills_lose_no_event_and_only_lost_answers_cause_repeats_which_are_marked(
    tmp_path: Path, dialect: str
) -> None:
    random, port, inbox = Random(SEED), free_port(), tmp_path / "inbox"
    inbox.mkdir()
    with stand_in_airflow() as airflow, address(dialect, tmp_path) as url:
        configuration = tmp_path / "watchers.yaml"
        text = CONFIGURATION.substitute(database=url, port=port, airflow=airflow.url, inbox=inbox)
        configuration.write_text(text)
        foreign: list[int] = []
        files = 0
        async with running_daemon(configuration, f"http://127.0.0.1:{port}", os.environ) as daemon:
            for _ in range(KILLS):
                for _ in range(random.randint(1, 4)):
                    files += 1
                    arrive(inbox / f"{files}.json", "{}")
                    foreign.append(airflow.tell("their_orders", late=random.uniform(0, 30)))
                airflow.faults.extend(random.choices(FAULTS, k=random.randint(0, 2)))
                await anyio.sleep(random.uniform(0, 1.5))
                airflow.is_away = random.random() < 0.3
                await daemon.kill()
                await daemon.start()
                airflow.is_away = False
            async with Database.open(url) as database:
                await settled(database, files, len(foreign))
                told, heard = await extras(database, "inbox"), await extras(database, "theirs")
            assert await daemon.stop() == 0
    assert_exact(airflow, [str(extra["event_id"]) for extra in told], heard, foreign)


def assert_exact(airflow: StandInAirflow, told: list[str], heard: list[dict[str, object]], foreign: list[int]) -> None:
    sent = Counter(str(mark["event_id"]) for mark in airflow.made())
    assert sent.keys() == set(told), "nothing is lost, and nothing is made up"
    repeats = sent.total() - len(sent)
    assert repeats <= airflow.unclear + KILLS
    ids = Counter(extra["airflow"]["event_id"] for extra in heard)  # type: ignore[index]
    assert ids == Counter(foreign), "each of Airflow's events is ours once"
    print(f"{KILLS} kills, {len(told)} sent, {airflow.unclear} unclear, {repeats} repeated; {len(heard)} heard")  # noqa: T201
