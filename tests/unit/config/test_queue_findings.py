"""What `watcher check --connect` says about queued events that a new configuration does not wait for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from config.reading.loader import load
from store.features.catchup.catchups import StoredEvents
from store.features.clean_source.removed_files import DeletedFiles
from store.runs.queue.queues import CountedQueue
from watcher.configuration.queue_checks import queue_findings
from watcher.configuration.vocabulary import vocabulary
from watcher.features.catchup.check import catchup_findings
from watcher.features.clean_source.check import cleaned_findings

TEXT = """
version: 1
assets: {{orders: {{uri: "x-shop:orders"}}, customers: {{uri: "x-shop:customers"}}}}
aliases: {{daily: {{}}}}
jobs: {{load: {{schedule: {schedule}, spark: {{application: load.py}}}}}}
"""


def queued(name: str, dag_id: str = "load") -> CountedQueue:
    ids = {"orders": 1, "customers": 2, "old_name": 3}
    uri = "x-shop:orders" if name == "old_name" else f"x-shop:{name}"
    return CountedQueue(dag_id=dag_id, asset_id=ids[name], name=name, uri=uri, events=4)


@pytest.mark.parametrize(
    ("schedule", "queue", "message"),
    [
        ("orders", queued("orders"), None),
        ("orders", queued("old_name"), None),
        ("[orders, customers]", queued("customers"), None),
        ("{alias: daily}", queued("customers"), None),
        ("{alias: daily}", queued("orders"), "go with the next run, although the schedule does not wait for them"),
        ("customers", queued("orders"), "go with the next run, although the schedule does not wait for them"),
        ('{cron: "@daily"}', queued("orders"), "go with the next run, although the schedule does not wait for them"),
        ("null", queued("orders"), "wait, and the job has no schedule that would start a run of them"),
        ("orders", queued("orders", "gone"), "go when the job is removed"),
    ],
)
def test_each_queue_that_a_new_schedule_does_not_wait_for_is_a_finding(
    tmp_path: Path, schedule: str, queue: CountedQueue, message: str | None
) -> None:
    (tmp_path / "load.py").touch()
    (tmp_path / "watchers.yaml").write_text(TEXT.format(schedule=schedule))
    configuration = load(tmp_path / "watchers.yaml", vocabulary(), os.environ)
    findings = queue_findings(configuration, [queue], {"daily": frozenset({"customers"})})
    messages = [(dag_id, each.check, each.message) for dag_id, of_job in findings.items() for each in of_job]
    if message is None:
        assert messages == []
    else:
        assert messages == [(queue.dag_id, "queue", f"4 queued events of {queue.name} {message}")]


@pytest.mark.parametrize(
    ("schedule", "jobs", "message"),
    [
        ("orders", set(), "7 events of its assets are stored already: they are never the new job's"),
        (
            "orders, catchup: true",
            set(),
            "7 events of its assets are stored already: the new job gets them, because of `catchup`",
        ),
        ("{alias: daily}", set(), "2 events of its assets are stored already: they are never the new job's"),
        ("[orders, {alias: daily}]", set(), "9 events of its assets are stored already: they are never the new job's"),
        ("orders", {"load"}, None),
        ('{cron: "@daily"}', set(), None),
        (
            '{alias: daily, or_cron: "@daily"}, catchup: true',
            set(),
            "2 events of its assets are stored already: they are never the new job's",
        ),
    ],
)
def test_what_is_stored_already_is_a_finding_of_a_new_job(
    tmp_path: Path, schedule: str, jobs: set[str], message: str | None
) -> None:
    (tmp_path / "load.py").touch()
    (tmp_path / "watchers.yaml").write_text(TEXT.format(schedule=schedule))
    configuration = load(tmp_path / "watchers.yaml", vocabulary(), os.environ)
    events = {"x-shop:orders": 7, "x-shop:customers": 2}
    findings = catchup_findings(
        configuration, StoredEvents(jobs=jobs, events=events, aliases={"daily": {"x-shop:customers"}})
    )
    assert [(each.level, each.message) for each in findings.get("load", ())] == (
        [] if message is None else [("info", message)]
    )


@pytest.mark.parametrize(
    ("schedule", "jobs", "message"),
    [
        ("orders, catchup: true", set(), "3 files of stored events that the new job gets are cleaned"),
        ("{alias: daily}, catchup: true", set(), "1 files of stored events that the new job gets are cleaned"),
        ("orders", set(), None),
        ("orders, catchup: true", {"load"}, "2 files of events in its queue are cleaned"),
    ],
)
def test_files_that_were_deleted_are_a_finding_of_a_job_that_gets_their_events(
    tmp_path: Path, schedule: str, jobs: set[str], message: str | None
) -> None:
    (tmp_path / "load.py").touch()
    (tmp_path / "watchers.yaml").write_text(TEXT.format(schedule=schedule))
    configuration = load(tmp_path / "watchers.yaml", vocabulary(), os.environ)
    deleted = DeletedFiles(
        jobs=jobs,
        files={"x-shop:orders": 3, "x-shop:customers": 1},
        queued={"load": 2},
        aliases={"daily": {"x-shop:customers"}},
    )
    findings = cleaned_findings(configuration, deleted)
    assert [(each.check, each.message) for each in findings.get("load", ())] == (
        [] if message is None else [("cleaned", f"{message}: its runs go without them")]
    )
