"""The last partitions of a job: one state for each key, and days that never came."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from watcher.features.pages.pictures.partitions import MOST, last_partitions
from watcher.scheduling.planning.base import WaitingPartition

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def ran(key: str, state: str = "success", *, complete: bool | None = True, **said: bool) -> Any:
    of_run = {"late": False, "redelivered": False, **said}
    return SimpleNamespace(
        dag_id="load", run_id=f"r/{key}", partition_key=key, state=state, partition_complete=complete, **of_run
    )


def waits(key: str | None, lacks: str = "", *, has_run: bool = False, again: bool = False) -> WaitingPartition:
    return WaitingPartition(partition_key=key, events=1, oldest=NOON, lacks=lacks, has_run=has_run, is_redelivery=again)


@pytest.mark.parametrize(
    ("runs", "waiting", "state", "about"),
    [
        ([ran("eu")], [], "complete", ""),
        ([ran("eu", complete=None)], [], "complete", ""),
        ([ran("eu", complete=False)], [], "incomplete", "run as it was"),
        ([ran("eu", redelivered=True)], [], "redelivered", ""),
        ([ran("eu", late=True), ran("eu", "failed")], [], "complete", "late events came"),
        ([ran("eu", "failed"), ran("eu")], [], "failed", ""),
        ([ran("eu", "running")], [], "running", ""),
        ([], [waits("eu", "`orders`")], "waiting", "for orders"),
        ([ran("eu")], [waits("eu", "`orders`", again=True)], "redelivery_incomplete", "for orders"),
        ([ran("eu", "running")], [waits("eu", has_run=True)], "queued", "until its run ends"),
        ([], [waits("eu"), waits(None, "`orders`")], "queued", "for its turn"),
    ],
)
def test_a_key_has_one_state(runs: list[Any], waiting: list[WaitingPartition], state: str, about: str) -> None:
    (partition,) = last_partitions("load", runs, waiting, "assets/1").listed
    assert (partition.key, partition.state, partition.about) == ("eu", state, about)
    assert partition.page == ("jobs/load#partitions" if waiting else "runs/load/r%2Feu")


def test_days_are_a_calendar_in_which_what_never_came_is_seen() -> None:
    shown = last_partitions(
        "load", [ran("2026-01-28"), ran("2026-01-24", "failed")], [waits("2026-01-27", "x")], "assets/1"
    )
    assert [(each.key, each.state) for each in shown.listed] == [
        ("2026-01-28", "complete"),
        ("2026-01-27", "waiting"),
        ("2026-01-26", "never_come"),
        ("2026-01-25", "never_come"),
        ("2026-01-24", "failed"),
    ]
    assert shown.counts["never_come"] == 2
    assert [week.monday for week in shown.weeks] == [date(2026, 1, 26), date(2026, 1, 19)]
    newest, before = shown.weeks
    assert [None if day is None else day.key[8:] for day in newest.days] == ["26", "27", "28", None, None, None, None]
    assert [None if day is None else day.key[8:] for day in before.days] == [None] * 5 + ["24", "25"]
    assert shown.listed[2].page == "assets/1"
    assert shown.listed[1].title == "2026-01-27: waiting, for x"


def test_only_the_last_keys_are_shown() -> None:
    days = [(NOON.date() - number * 3 * timedelta(days=1)).isoformat() for number in range(100)]
    shown = last_partitions("load", map(ran, days), [], "assets/1")
    assert len(shown.listed) == MOST
    assert shown.listed[0].key == "2026-01-31"
    assert shown.counts == {"never_come": 40, "complete": 20}
    others = last_partitions("load", [ran("2026-01-31"), ran("20260130"), *(ran(f"k{n}") for n in range(99))], [], "")
    assert (len(others.listed), others.weeks) == (MOST, ())
