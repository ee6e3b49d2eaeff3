"""Three daemons on one PostgreSQL are suspended for longer than their leases, and answered seconds late: none ends by itself."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from tests.effort import SEED, effort
from tests.postgres_proxy import Proxy, proxied_in_a_thread
from tests.stand_in_spark import stand_in_spark
from tests.torture.daemons import Daemons, until
from tests.torture.results import Result
from tests.torture.world import World

pytestmark = [pytest.mark.service, pytest.mark.slow]
FREEZES = effort(3, 40)
LEASE = 4
NAMES = ("one", "two", "three")
LATE = (0.0, 0.1, 0.35, 0.75, 1.5)
"""The seconds that a packet of the metadata database takes. An answer comes after twice as many."""
JOB = """\
import json, os
from asset_job import run

with run() as r:
    events = [event.extra for events in r.triggering_asset_events.values() for event in events]
    with open(os.environ["READ"], "a") as read:
        read.write(json.dumps([file["path"] for extra in events for file in extra["files"]]) + "\\n")
"""
CONSUMERS = """\
SELECT count(c.event_id) FROM asset_event e JOIN asset a ON a.id = e.asset_id
LEFT JOIN run_asset_event c ON c.event_id = e.id WHERE a.name = 'inbox' GROUP BY e.id"""
STATES = "SELECT DISTINCT state FROM run"


def test_none_of_three_ends_by_itself_whichever_is_suspended_and_however_late_answers_come(
    tmp_path: Path, shop: str, database_url: str, record_result: Callable[[Result], None]
) -> None:
    dice, read = Random(SEED), tmp_path / "read"
    (tmp_path / "job.py").write_text(JOB)
    spark = {
        "application": "job.py",
        "master": "local[1]",
        "env": {"READ": str(read), "SPARK_HOME": str(stand_in_spark(tmp_path))},
    }
    load = {"schedule": "inbox", "retries": 1000, "retry_delay": "1s", "batch": {"debounce": "0s"}, "spark": spark}
    lease = {"heartbeat": f"{LEASE // 4}s", "lease": f"{LEASE}s"}
    with (
        proxied_in_a_thread(database_url) as proxy,
        World(
            tmp_path,
            shop,
            make_url(proxy.url).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False),
            behind=database_url,
            jobs={"load": load},
            triggerer=lease,
        ) as world,
    ):
        daemons = world.daemons
        for name in NAMES:
            daemons.start(name, "--roles", "scheduler,triggerer,api" if name == "one" else "scheduler,triggerer")
        for name in NAMES:
            until(lambda name=name: has_started(daemons, name))
        for _ in range(FREEZES):
            with world.sources.load(dice.getrandbits(32), share=0.1):
                freeze(daemons, proxy, dice)
            tally = world.write_and_settle()
            assert alive(daemons) == [*NAMES], f"seed {SEED}"
            assert (tally.lost, tally.repeated) == (0, 0), f"seed {SEED}"
        until(lambda: {row[0] for row in rows(database_url, CONSUMERS)} == {1})
        until(lambda: rows(database_url, STATES) == [("success",)])
        assert alive(daemons) == [*NAMES], f"seed {SEED}"
        for name in reversed(NAMES):
            assert daemons.stop(name=name) == 0
        tally, files = world.tally(), world.sources.contents()["files"]
    record_result(
        Result(
            fault=f"SIGSTOP of one of three beyond the lease, answers up to {2 * max(LATE):g} s late",
            database="postgresql",
            seed=SEED,
            times=FREEZES,
            rows=tally.rows,
            files=tally.files,
            events=tally.events,
            lost=tally.lost,
            repeated=tally.repeated,
        )
    )
    assert (tally.lost, tally.repeated) == (0, 0), f"seed {SEED}"
    assert {path for line in read.read_text().splitlines() for path in json.loads(line)} == files
    assert [record for name in NAMES for record in daemons.records("daemon.part_ended", name)] == []


def freeze(daemons: Daemons, proxy: Proxy, dice: Random) -> None:
    """Suspend one daemon for longer than its lease, while answers are late before, during and after that."""
    name = dice.choice(NAMES)
    for step in (lambda: daemons.send(signal.SIGSTOP, name), lambda: daemons.send(signal.SIGCONT, name), lambda: None):
        proxy.delay = dice.choice(LATE)
        time.sleep(dice.uniform(0, 2))
        step()
        proxy.delay = dice.choice(LATE)
        time.sleep(LEASE + dice.uniform(0.5, 4))
    proxy.delay = 0.0


def has_started(daemons: Daemons, name: str) -> bool:
    assert name in alive(daemons), daemons.log(name).read_text()
    return bool(daemons.records("daemon.started", name))


def alive(daemons: Daemons) -> list[str]:
    return [name for name, process in daemons.running.items() if process.poll() is None]


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    plain = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection:
        return connection.execute(query).fetchall()
