"""A job's definition as the database keeps it, and keys as columns, log bindings, paths and JSON."""

from __future__ import annotations

import json
from datetime import timedelta

from store.keys import Batching, CronSchedule, JobDefinition, TaskInstanceId, TaskInstanceKey, TryKey

OF_RELEASE_1 = """{
    "schedule": {"all": ["landing", {"alias": "daily"}]},
    "batch": {"mode": "each", "debounce": 1.5, "max_wait": 60.0, "max_events": 10},
    "cron": {"expression": "0 6 * * *", "timezone": "Europe/Berlin"},
    "catchup": true,
    "max_active_runs": 2,
    "retries": 3,
    "retry_delay": 5.0,
    "timeout": 3600.0,
    "spark": {"application": "jobs/load_orders.py", "master": "spark://host:7077"},
    "options": {"target": "/data/orders"}
}"""
READ = JobDefinition(
    schedule={"all": ["landing", {"alias": "daily"}]},
    batch=Batching(mode="each", debounce=timedelta(seconds=1.5), max_wait=timedelta(minutes=1), max_events=10),
    cron=CronSchedule(expression="0 6 * * *", timezone="Europe/Berlin"),
    catchup=True,
    max_active_runs=2,
    retries=3,
    retry_delay=timedelta(seconds=5),
    timeout=timedelta(hours=1),
    application="jobs/load_orders.py",
    master="spark://host:7077",
    submitter="spark-submit",
    options={"target": "/data/orders"},
)


def test_a_definition_that_release_1_stored_is_read() -> None:
    assert JobDefinition.from_json(OF_RELEASE_1) == READ


def test_a_definition_without_schedule_timeout_and_cron_is_read() -> None:
    bare = json.loads(OF_RELEASE_1) | {"schedule": None, "cron": None, "timeout": None}
    definition = JobDefinition.from_json(json.dumps(bare))
    assert (definition.schedule, definition.cron, definition.timeout) == (None, None, None)


def test_what_is_stored_reads_back() -> None:
    assert JobDefinition.from_json(READ.to_json()) == READ
    assert JobDefinition.from_json(JobDefinition().to_json()) == JobDefinition()


def test_a_try_defines_its_names_once() -> None:
    instance = TaskInstanceKey(dag_id="load", run_id="r1", task_id="task")
    key = TryKey(instance=instance, task_instance_id=TaskInstanceId("an id"), try_number=2)
    columns = {"dag_id": "load", "run_id": "r1", "task_id": "task", "map_index": -1}
    assert instance.columns == columns
    assert key.bindings == {**columns, "try_number": 2}
    assert key.json == {"task_instance_id": "an id", **key.bindings}
    assert key.path == ("load", "r1", "task", "-1", "2")
    assert TryKey.of_columns(**key.json) == key
    assert TaskInstanceKey.of(key) == instance
