"""Rows that no event can carry, a daemon that is killed at any moment, and people who retry the rejected rows meanwhile."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from random import Random

import psycopg
import pytest

from tests.databases import both_in_long_form
from tests.effort import SEED, effort
from tests.torture.busy import overcommitted
from tests.torture.daemons import Daemons, until
from tests.torture.world import Metadata

pytestmark = [pytest.mark.service, pytest.mark.slow]
KILLS = effort(2, 100)
OPTIONS = {
    "trigger": "postgres.new_rows",
    "connection": "shop",
    "interval": "100ms",
    "start": "all",
    "columns": ["id", "data"],
    "on_bad_row": "report",
}
LONE = r'{"a": "\ud800"}'


def write(connection: psycopg.Connection, dice: Random) -> None:
    """Write a few rows. The last of them is valid."""
    values = [LONE if dice.random() < 0.2 else "{}" for _ in range(dice.randrange(1, 6))]
    for value in [*values, "{}"]:
        connection.execute("INSERT INTO notes (data) VALUES (%s)", [value])
    connection.commit()


def rejected(daemons: Daemons) -> list[int]:
    answer = daemons.get("/api/v2/watchers/rows/rejected?limit=1000")
    assert answer["total_entries"] == len(answer["rejected"])
    return [item["key"] for item in answer["rejected"]]


@pytest.mark.parametrize("dialect", both_in_long_form("sqlite"), indirect=True)
def test_each_row_is_emitted_once_or_stays_rejected_until_it_is_emitted(
    tmp_path: Path, shop: str, database_url: str
) -> None:
    dice = Random(SEED)
    document = {
        "connections": {"shop": {"type": "postgres", "dsn": shop}},
        "assets": {"notes": {"uri": "postgres://shop/shop/public/notes", "watchers": {"rows": OPTIONS}}},
    }
    metadata = Metadata(database_url)
    with (
        overcommitted(),
        psycopg.connect(shop) as connection,
        Daemons(tmp_path, document, database_url) as daemons,
    ):
        connection.execute("CREATE TABLE notes (id bigserial PRIMARY KEY, data json)")
        connection.commit()
        for number in range(KILLS):
            daemons.start()
            until(daemons.is_ready)
            write(connection, dice)
            if number % 2:
                daemons.post("/api/v2/watchers/rows/rejected/retry")
            connection.execute("UPDATE notes SET data = '{}' WHERE id % 3 = 0")
            write(connection, dice)
            daemons.wait_for_any_moment(dice)
            daemons.stop(signal.SIGKILL)
        daemons.start()
        until(daemons.is_ready)
        write(connection, dice)
        all_ids = {row[0] for row in connection.execute("SELECT id FROM notes")}

        def told() -> Counter[int]:
            return metadata.items(["rows"])[1]["rows"]

        until(lambda: {*told(), *rejected(daemons)} == all_ids)
        assert max(told().values()) == 1
        if kept := rejected(daemons):
            [finding] = daemons.watchers()["rows"]["findings"]
            assert finding["check"] == "rejected"
            command = [
                sys.executable,
                "-m",
                "watcher",
                "rejected",
                "list",
                "rows",
                "-c",
                str(daemons.configuration),
                "--json",
            ]
            assert [each["key"] for each in json.loads(subprocess.check_output(command))] == kept

        connection.execute("UPDATE notes SET data = '{}'")
        connection.commit()
        for _ in range(3):
            daemons.post("/api/v2/watchers/rows/rejected/retry")
        until(lambda: not rejected(daemons) and not daemons.watchers()["rows"]["findings"])
        assert told() == Counter(all_ids)
