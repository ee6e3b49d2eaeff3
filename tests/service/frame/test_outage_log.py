"""While the metadata database is away, each part logs its first failure, and then one line a minute with a count."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests.postgres_proxy import proxied_in_a_thread
from tests.stand_in_spark import stand_in_spark
from tests.torture.daemons import Daemons, until

WATCHERS = 5
LONGER = 5.0
"""Seconds in which a part that logs each failure does so many times."""
FAILING = {
    "triggerer.heartbeat_failed",
    "dispatcher.failed",
    "leader.campaign_failed",
    "watcher.failed",
    "scheduler.failed",
}
pytestmark = [pytest.mark.service, pytest.mark.slow]


def test_an_outage_of_the_metadata_database_is_logged_once_by_each_part(database_url: str, tmp_path: Path) -> None:
    assets = {}
    for number in range(WATCHERS):
        (tmp_path / f"inbox{number}").mkdir()
        files = {"trigger": "file.new_files", "interval": "200ms", "min_age": "0s"}
        assets[f"inbox{number}"] = {"uri": f"file://{tmp_path}/inbox{number}", "watchers": {f"files{number}": files}}
    (tmp_path / "job.py").write_text("import time\ntime.sleep(60)\n")
    spark = {"application": "job.py", "master": "local[1]", "env": {"SPARK_HOME": str(stand_in_spark(tmp_path))}}
    jobs = {"load": {"schedule": "inbox0", "batch": {"debounce": "0s"}, "spark": spark}}
    with proxied_in_a_thread(database_url) as proxy:
        url = make_url(proxy.url).set(drivername="postgresql+asyncpg").render_as_string(hide_password=False)
        with Daemons(tmp_path, {"assets": assets, "jobs": jobs}, url) as daemons:
            daemons.start()
            until(daemons.is_ready)
            (tmp_path / "inbox0" / "a").touch()
            until(lambda: daemons.records("run.submitted"))
            for _ in range(2):
                before = len(daemons.log().read_text().splitlines())
                proxy.refuses = 1_000_000
                proxy.cut()
                for number in range(WATCHERS):
                    (tmp_path / f"inbox{number}" / f"{before}").touch()
                until(lambda before=before: {each["event"] for each in failures(daemons, before)} >= FAILING)
                time.sleep(LONGER)
                proxy.refuses = 0
                until(daemons.is_ready)
                until(lambda before=before: recovered(daemons, before))
                lines = Counter(map(part, failures(daemons, before)))
                assert set(lines.values()) == {1}, lines
                assert recovered(daemons, before)[0]["left_out"] > len(lines)
            assert daemons.stop() == 0


def records_after(daemons: Daemons, line: int) -> list[dict[str, Any]]:
    lines = daemons.log().read_text().splitlines()[line:]
    return [json.loads(each) for each in lines if each.startswith("{") and each.endswith("}")]


def recovered(daemons: Daemons, line: int) -> list[dict[str, Any]]:
    return [each for each in records_after(daemons, line) if each["event"] == "database.recovered"]


def failures(daemons: Daemons, line: int) -> list[dict[str, Any]]:
    """Return the records of an outage: those before its end that name an error of the database."""
    records = records_after(daemons, line)
    end = next((at for at, each in enumerate(records) if each["event"] == "database.recovered"), len(records))
    return [each for each in records[:end] if each.get("kind") == "ConnectionLost" and "repeated" not in each]


def part(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["event"], record.get("watcher"), record.get("run_id")
